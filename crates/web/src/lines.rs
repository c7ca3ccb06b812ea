//! Lines of a body that is read as it comes, each with a limit.

use crate::code::Code;
use crate::problem::Problem;
use crate::reception::{Incoming, Room};
use async_compression::tokio::bufread::{GzipDecoder, ZstdDecoder};
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, BufReader};
use tokio_util::io::StreamReader;

/// A line without its end.
pub enum Line {
    /// What it says.
    Content(Bytes),
    /// Nothing but blanks.
    Blank,
    /// Over the limit; its content was passed over.
    TooLong,
}

/// The lines of a body.
pub struct Lines {
    reader: Box<dyn AsyncBufRead + Send + Unpin>,
    line_max: usize,
}

impl Lines {
    /// Lines of at most `line_max` bytes each, after decompression.
    pub fn new(headers: &HeaderMap, body: Incoming, line_max: usize) -> Result<Self, Problem> {
        let raw = StreamReader::new(Box::pin(body.into_stream()));
        let encoding =
            headers.get(header::CONTENT_ENCODING).map(|v| v.to_str().unwrap_or("?").trim().to_ascii_lowercase());
        let reader: Box<dyn AsyncBufRead + Send + Unpin> = match encoding.as_deref() {
            None | Some("" | "identity") => Box::new(raw),
            Some("gzip" | "x-gzip") => {
                let mut decoder = GzipDecoder::new(raw);
                decoder.multiple_members(true);
                Box::new(BufReader::new(decoder))
            }
            Some("zstd") => Box::new(BufReader::new(ZstdDecoder::new(raw))),
            Some(_) => {
                return Err(Problem::new(
                    Code::UnsupportedEncoding,
                    "this Content-Encoding is not supported; use gzip or zstd",
                ));
            }
        };
        Ok(Self { reader, line_max })
    }

    /// The next line; `None` at the end. It takes room beside the bytes that are in it already.
    pub async fn next(&mut self, room: &mut Room, held: usize) -> Result<Option<Line>, Problem> {
        let mut line = Vec::new();
        let mut too_long = false;
        let mut began = false;
        loop {
            let buffer = self
                .reader
                .fill_buf()
                .await
                .map_err(|_| Problem::new(Code::BodyCut, "the body cannot be read to its end"))?;
            if buffer.is_empty() {
                return Ok(began.then(|| finish(line, too_long)));
            }
            began = true;
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let part = buffer.get(..end.unwrap_or(buffer.len())).unwrap_or_default();
            if line.len() + part.len() > self.line_max {
                too_long = true;
                line = Vec::new();
            }
            if !too_long {
                room.hold(held + line.len() + part.len()).await?;
                line.extend_from_slice(part);
            }
            let consumed = part.len() + usize::from(end.is_some());
            self.reader.consume(consumed);
            if end.is_some() {
                return Ok(Some(finish(line, too_long)));
            }
        }
    }
}

fn finish(line: Vec<u8>, too_long: bool) -> Line {
    if too_long {
        Line::TooLong
    } else if line.iter().all(u8::is_ascii_whitespace) {
        Line::Blank
    } else {
        Line::Content(line.into())
    }
}
