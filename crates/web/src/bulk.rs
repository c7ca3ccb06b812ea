//! Many sidecars in one request, one to a line.
//!
//! Three things go on at a time: lines are read, the batch before is parsed, and the one before that is being written. Batches
//! are written in the order of their lines, so that of two sidecars of one image the later one counts.

use crate::code::Code;
use crate::extract::Tenant;
use crate::images::sidecar;
use crate::intake::{Intake, Taken};
use crate::lines::{Line, Lines};
use crate::openapi::params::TenantHeader;
use crate::openapi::problems::OfBulk;
use crate::problem::Problem;
use crate::reception::Room;
use crate::state::App;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use scheduler_model::TenantId;
use serde_json::json;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Lines of one upload.
const LINES_MAX: usize = 100_000;

/// Lines that go into one write, and bytes of them.
const BATCH_LEN_MAX: usize = 256;
const BATCH_BYTES_MAX: usize = 4 << 20;

/// Batches that are read and wait for their turn to be written, beside the one that is written.
const BATCHES_AHEAD: usize = 1;

/// Lines by their numbers.
type Batch = Vec<(usize, Result<Bytes, Problem>)>;
/// What they say.
type Read = Vec<(usize, Result<Intake, Problem>)>;
/// A batch that is read, with the room that it takes until it is written.
type Reading = tokio::task::JoinHandle<(Read, Room)>;

/// Put many images by their sidecars.
///
/// NDJSON, one sidecar a line; one answer for each sidecar, in order: that of the PUT, or `{"line", "status", "problem"}`. Blank lines
/// are none: they count as lines and get no answer. What is answered is durable.
#[utoipa::path(
    post, path = "/images/bulk", tag = "images", operation_id = "putImages",
    params(TenantHeader), request_body(content = String, content_type = "application/x-ndjson"),
    responses(
        (status = 200, description = "One answer a line", body = String, content_type = "application/x-ndjson"),
        OfBulk,
    )
)]
pub async fn bulk(
    State(app): State<Arc<App>>,
    Tenant(tenant): Tenant,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let line_max = usize::try_from(app.limits.body_bytes).unwrap_or(usize::MAX);
    let lines = Lines::new(&headers, app.reception.incoming(body), line_max)?;
    let (batches, read) = mpsc::channel(BATCHES_AHEAD);
    // Together in one task: a caller who goes away ends both.
    let ((), answers) = tokio::join!(read_lines(&app, &tenant, lines, line_max, batches), write_batches(&app, read));
    let mut text = answers.join("\n");
    if !text.is_empty() {
        text.push('\n');
    }
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], text).into_response())
}

/// Reads lines to the end and has each batch of them parsed.
async fn read_lines(app: &App, tenant: &TenantId, mut lines: Lines, line_max: usize, batches: mpsc::Sender<Reading>) {
    let mut batch = Batch::new();
    let (mut bytes, mut number) = (0, 0);
    let mut room = app.reception.room(tenant.as_str());
    loop {
        let line = lines.next(&mut room, bytes).await;
        let ended = matches!(line, Ok(None) | Err(_));
        match line {
            Ok(Some(Line::Blank)) => number += 1,
            Ok(Some(line)) => {
                number += 1;
                let content = match line {
                    Line::Content(content) if number <= LINES_MAX => Ok(content),
                    Line::Content(_) => Err(too_many_lines()),
                    Line::TooLong | Line::Blank => Err(line_too_long(line_max)),
                };
                bytes += content.as_ref().map_or(0, Bytes::len);
                batch.push((number, content));
            }
            Ok(None) => {}
            // The body cannot be read further; what came before counts.
            Err(problem) => batch.push((number + 1, Err(problem))),
        }
        let stop = ended || number > LINES_MAX;
        if !batch.is_empty() && (stop || batch.len() >= BATCH_LEN_MAX || bytes >= BATCH_BYTES_MAX) {
            let (now, owner, batch) = (app.clock.now(), tenant.clone(), std::mem::take(&mut batch));
            bytes = 0;
            let room = std::mem::replace(&mut room, app.reception.room(tenant.as_str()));
            let parse = move |(number, content): (usize, Result<Bytes, Problem>)| {
                (number, content.and_then(|content| sidecar(owner.clone(), None, &content, now)))
            };
            let parsing = tokio::task::spawn_blocking(move || (batch.into_iter().map(parse).collect(), room));
            if batches.send(parsing).await.is_err() {
                return;
            }
        }
        if stop {
            return;
        }
    }
}

/// Writes batches in their order; gives the answers.
async fn write_batches(app: &App, mut batches: mpsc::Receiver<Reading>) -> Vec<String> {
    let mut answers = Vec::new();
    while let Some(parsing) = batches.recv().await {
        if let Ok((read, _room)) = parsing.await {
            write_batch(app, read, &mut answers).await;
        }
    }
    answers
}

/// Puts what can be put in one write, and answers every line.
async fn write_batch(app: &App, read: Read, answers: &mut Vec<String>) {
    let mut images = Vec::new();
    let mut results: Vec<(usize, Result<Taken, Problem>)> = Vec::with_capacity(read.len());
    for (number, intake) in read {
        let taken = intake.map(|intake| {
            images.push(intake.image);
            intake.taken
        });
        results.push((number, taken));
    }
    let written = if images.is_empty() { Ok(Vec::new()) } else { app.store.put_images(images).await };
    let mut done = match written {
        Ok(done) => Ok(done.into_iter()),
        Err(error) => Err(Problem::from(error)),
    };
    for (number, result) in results {
        let result = result.and_then(|mut taken| match &mut done {
            Ok(done) => {
                taken.sequence = done.next().ok_or_else(Problem::internal)?.sequence;
                Ok(taken)
            }
            Err(problem) => Err(problem.clone()),
        });
        answers.push(match result {
            Ok(taken) => json!(taken).to_string(),
            Err(problem) => {
                json!({ "line": number, "status": problem.status().as_u16(), "problem": problem.document() })
                    .to_string()
            }
        });
    }
}

fn line_too_long(limit: usize) -> Problem {
    Problem::new(Code::BodyTooLarge, format!("the line is over limits.maxBodyBytes ({limit} bytes)"))
}

fn too_many_lines() -> Problem {
    Problem::new(
        Code::TooManyLines,
        format!("a bulk upload has at most {LINES_MAX} lines; this one and those after it were not taken"),
    )
}
