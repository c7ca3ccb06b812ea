//! SBOMs as they come: a small one is read whole, of a large one never more than a few parts are held.

use crate::body::{Encoding, announced, bad_encoding, too_large};
use crate::problem::Problem;
use crate::state::App;
use axum::body::Body;
use axum::http::HeaderMap;
use bytes::{Bytes, BytesMut};
use scheduler_model::TenantId;
use scheduler_sbom::{Document, Limits, SbomError};
use std::io::{BufReader, Read};
use tokio::sync::mpsc;

/// Up to so many bytes on the wire are gathered before anything is read: the parser is faster on them, and a slow sender
/// holds no thread.
const GATHERED_BYTES_MAX: usize = 4 << 20;

/// Parts of a large document between the connection and its reader.
const PARTS_LEN_MAX: usize = 8;

/// Receives an SBOM; as sent and after decompression it has at most the bytes that the configuration allows.
pub async fn receive(app: &App, caller: &TenantId, headers: &HeaderMap, body: Body) -> Result<Document, Problem> {
    let limit = app.limits.body_bytes;
    let mut incoming = app.reception.incoming(body);
    let encoding = Encoding::of(headers)?;
    let length = announced(headers, limit)?;
    let mut room = app.reception.room(caller.as_str());
    room.hold(length.min(GATHERED_BYTES_MAX)).await?;
    let mut gathered = BytesMut::new();
    let whole = loop {
        let Some(part) = incoming.next().await? else { break true };
        room.hold(gathered.len() + part.len()).await?;
        gathered.extend_from_slice(&part);
        if gathered.len() > GATHERED_BYTES_MAX {
            break false;
        }
    };
    let mut received = gathered.len() as u64;
    if received > limit {
        return Err(too_large(limit));
    }
    let gathered = gathered.freeze();
    if whole {
        return read_off_runtime(move || read_gathered(&gathered, encoding, limit)).await;
    }
    let _reader = app.reception.reader(caller.as_str()).await?;
    let (parts, taken) = mpsc::channel(PARTS_LEN_MAX);
    let wire = Wire { current: gathered, parts: taken, ended: false };
    let reader = read_off_runtime(move || read_stream(wire, encoding, limit));
    let sender = async move {
        loop {
            let part = incoming.next().await?;
            received += part.as_ref().map_or(0, Bytes::len) as u64;
            if received > limit {
                return Err(too_large(limit));
            }
            let ended = part.is_none();
            // A reader that has gone has found what is wrong. The rest is received all the same: a sender that is cut off
            // in the middle does not read the answer.
            drop(parts.send(part).await);
            if ended {
                return Ok(());
            }
        }
    };
    let (sent, read) = tokio::join!(sender, reader);
    sent.and(read)
}

/// Parsing keeps a core busy.
async fn read_off_runtime(
    read: impl FnOnce() -> Result<Document, Problem> + Send + 'static,
) -> Result<Document, Problem> {
    tokio::task::spawn_blocking(read).await.map_err(|_| Problem::internal())?
}

fn read_gathered(wire: &Bytes, encoding: Encoding, limit: u64) -> Result<Document, Problem> {
    match encoding {
        Encoding::Identity => Ok(scheduler_sbom::read_slice(wire, &Limits::default())?),
        Encoding::Gzip | Encoding::Zstd => read_stream(wire.as_ref(), encoding, limit),
    }
}

fn read_stream(wire: impl Read, encoding: Encoding, limit: u64) -> Result<Document, Problem> {
    let content = encoding.decoder(BufReader::new(wire)).map_err(|_| bad_encoding())?;
    let mut content = Limited { content, left: limit, over: false };
    let read = scheduler_sbom::read(&mut content, &Limits::default());
    match read {
        _ if content.over => Err(too_large(limit)),
        Err(SbomError::Read(_)) => Err(bad_encoding()),
        read => Ok(read?),
    }
}

/// The wire as a reader that waits.
struct Wire {
    current: Bytes,
    /// `None` ends it; without that, the body was cut.
    parts: mpsc::Receiver<Option<Bytes>>,
    ended: bool,
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while self.current.is_empty() && !self.ended {
            match self.parts.blocking_recv() {
                Some(Some(part)) => self.current = part,
                Some(None) => self.ended = true,
                None => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            }
        }
        let count = (&*self.current).read(buffer)?;
        drop(self.current.split_to(count));
        Ok(count)
    }
}

/// Reads up to a limit, and remembers that there was more.
struct Limited<R> {
    content: R,
    left: u64,
    over: bool,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.content.read(buffer)?;
        match self.left.checked_sub(count as u64) {
            Some(left) => {
                self.left = left;
                Ok(count)
            }
            None => {
                self.over = true;
                Err(std::io::Error::other("over the limit"))
            }
        }
    }
}
