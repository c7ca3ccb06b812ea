//! A snapshot of the index as a download.

use crate::openapi::problems::OfIndexWork;
use crate::problem::Problem;
use crate::state::App;
use crate::system::index_problem;
use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

/// Bytes that are sent at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// Chunks that wait for a caller who is slower than the index.
const CHUNKS_AHEAD: usize = 8;

/// A caller who takes nothing for so long is given up: the tables that are being written out grow meanwhile.
const CALLER_PATIENCE: Duration = Duration::from_secs(30);

/// Take a snapshot of the index.
///
/// One file, compressed, with a checksum at its end; its format is in the reference. `index restore` reads it.
#[utoipa::path(
    post, path = "/admin/index/snapshot", tag = "index", operation_id = "snapshotIndex",
    responses(
        (status = 200, description = "The file", body = String, content_type = "application/octet-stream"),
        OfIndexWork,
    )
)]
pub async fn index_snapshot(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let (sender, mut chunks) = mpsc::channel(CHUNKS_AHEAD);
    let out = Outgoing { sender: sender.clone(), runtime: Handle::current(), buffer: Vec::new() };
    let writing = app.index.snapshot(out).map_err(index_problem)?;
    tokio::spawn(async move {
        let failed = match writing.await {
            Ok(Ok(info)) => return tracing::info!(sequence = info.sequence, "a snapshot of the index was taken"),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        tracing::warn!(error = failed, "a snapshot of the index was broken off");
        // The answer must not end as if it were whole.
        let _ = sender.send(Err(io::Error::other(failed))).await;
    });
    let body = Body::from_stream(stream::poll_fn(move |context| chunks.poll_recv(context)));
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"index.snapshot\""),
    ];
    Ok((headers, body).into_response())
}

/// Sends what is written, from a thread that may wait.
struct Outgoing {
    sender: mpsc::Sender<io::Result<Bytes>>,
    runtime: Handle,
    buffer: Vec<u8>,
}

impl Write for Outgoing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let chunk = Bytes::from(std::mem::take(&mut self.buffer));
        let sent = self.runtime.block_on(self.sender.send_timeout(Ok(chunk), CALLER_PATIENCE));
        sent.map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the caller takes no more"))
    }
}
