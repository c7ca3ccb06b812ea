//! Bodies: read with a limit, unpacked with the same limit, and parsed so that an error points at its place.

use crate::problem::Problem;
use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use serde::de::DeserializeOwned;
use std::io::Read;

/// Reads a body whole and unpacks it; both forms of it are at most `limit` bytes.
pub async fn receive(headers: &HeaderMap, body: Body, limit: u64) -> Result<Bytes, Problem> {
    let wire = collect(headers, body, limit).await?;
    unpack(headers, &wire, limit).await
}

/// Reads the bytes on the wire.
pub async fn collect(headers: &HeaderMap, body: Body, limit: u64) -> Result<Bytes, Problem> {
    let declared =
        headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse::<u64>().ok());
    if declared.is_some_and(|length| length > limit) {
        return Err(too_large(limit));
    }
    let mut stream = body.into_data_stream();
    let mut wire = BytesMut::new();
    while let Some(chunk) = stream.next().await {
        let chunk =
            chunk.map_err(|_| Problem::new(StatusCode::BAD_REQUEST, "body-cut", "the body ended before its end"))?;
        if wire.len() as u64 + chunk.len() as u64 > limit {
            return Err(too_large(limit));
        }
        wire.extend_from_slice(&chunk);
    }
    Ok(wire.freeze())
}

/// Unpacks by `Content-Encoding`, and stops at the limit without having held more than that.
pub async fn unpack(headers: &HeaderMap, wire: &Bytes, limit: u64) -> Result<Bytes, Problem> {
    let encoding = headers.get(header::CONTENT_ENCODING).map(|v| v.to_str().unwrap_or("?").trim().to_ascii_lowercase());
    let wire = wire.clone();
    let read: fn(Bytes, u64) -> std::io::Result<Vec<u8>> = match encoding.as_deref() {
        None | Some("" | "identity") => return Ok(wire),
        Some("gzip" | "x-gzip") => |wire, most| limited(flate2::bufread::MultiGzDecoder::new(wire.as_ref()), most),
        Some("zstd") => |wire, most| {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(wire.as_ref())?;
            // A frame may ask for a window; beyond this it is refused, not allocated.
            decoder.window_log_max(27)?;
            limited(decoder, most)
        },
        Some(other) => {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported-encoding",
                format!(
                    "Content-Encoding `{}` is not supported; use gzip or zstd",
                    other.chars().take(40).collect::<String>()
                ),
            ));
        }
    };
    let unpacked = tokio::task::spawn_blocking(move || read(wire, limit)).await.map_err(|_| Problem::internal())?;
    match unpacked {
        Ok(content) if content.len() as u64 > limit => Err(too_large(limit)),
        Ok(content) => Ok(content.into()),
        Err(_) => Err(Problem::new(StatusCode::BAD_REQUEST, "bad-encoding", "the body cannot be decompressed")),
    }
}

/// Reads at most one byte more than the limit, so that the caller sees that it was passed.
fn limited(reader: impl Read, limit: u64) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    reader.take(limit.saturating_add(1)).read_to_end(&mut content)?;
    Ok(content)
}

fn too_large(limit: u64) -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body-too-large",
        format!("the body is over limits.maxBodyBytes ({limit} bytes), as sent or after decompression"),
    )
}

/// Refuses a body whose media type says that it is no JSON.
pub fn expect_json(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let kind = value.to_str().unwrap_or("?").split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if kind.is_empty() || kind == "application/json" || kind.ends_with("+json") {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported-media-type",
        format!("`{}` is not supported; send application/json", kind.chars().take(80).collect::<String>()),
    ))
}

/// Parses a JSON body. An empty one counts as `{}` where every member is optional.
pub fn parse<T: DeserializeOwned>(content: &[u8]) -> Result<T, Problem> {
    let mut deserializer = serde_json::Deserializer::from_slice(content);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let pointer = pointer(error.path());
        bad_json(&pointer, error.inner())
    })?;
    deserializer.end().map_err(|error| bad_json("", &error))?;
    Ok(value)
}

/// Takes a JSON value apart, with the same errors.
pub fn from_value<T: DeserializeOwned>(value: &serde_json::Value) -> Result<T, Problem> {
    serde_path_to_error::deserialize(value).map_err(|error| bad_json(&pointer(error.path()), error.inner()))
}

fn bad_json(pointer: &str, error: &serde_json::Error) -> Problem {
    if error.is_syntax() || error.is_eof() {
        return Problem::new(StatusCode::BAD_REQUEST, "malformed-json", format!("the body is no JSON: {error}"));
    }
    Problem::bad_input(pointer, error.to_string())
}

/// A JSON pointer from a path of serde's.
fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    path.iter().fold(String::new(), |mut pointer, segment| {
        pointer.push('/');
        match segment {
            Segment::Seq { index } => pointer.push_str(&index.to_string()),
            Segment::Map { key } => pointer.push_str(&key.replace('~', "~0").replace('/', "~1")),
            Segment::Enum { variant } => pointer.push_str(variant),
            Segment::Unknown => pointer.push('?'),
        }
        pointer
    })
}
