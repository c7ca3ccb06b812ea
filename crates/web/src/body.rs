//! Bodies: read with a limit, unpacked with the same limit, and parsed so that an error points at its place.

use crate::code::Code;
use crate::images::blocking;
use crate::problem::Problem;
use crate::reception::Room;
use crate::state::App;
use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use scheduler_model::TenantId;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::io::{BufRead, Read};
use std::ops::Deref;
use tokio::runtime::Handle;

/// Room for what is unpacked is taken in steps of so many bytes.
const UNPACKED_PART_BYTES: usize = 64 << 10;

/// A body in memory, with the room that it takes.
pub struct Content {
    bytes: Bytes,
    room: Room,
}

impl Deref for Content {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads a body whole and unpacks it; both forms of it are at most `limits.maxBodyBytes`.
pub async fn receive(app: &App, caller: &TenantId, headers: &HeaderMap, body: Body) -> Result<Content, Problem> {
    let limit = app.limits.body_bytes;
    let wire = collect(app, caller.as_str(), headers, body).await?;
    unpack(headers, wire, limit).await
}

/// Reads the bytes on the wire; a caller has room for so many at once.
pub async fn collect(app: &App, caller: &str, headers: &HeaderMap, body: Body) -> Result<Content, Problem> {
    let limit = app.limits.body_bytes;
    let mut incoming = app.reception.incoming(body);
    let length = announced(headers, limit)?;
    let mut room = app.reception.room(caller);
    // All of it at once where that is known: several bodies that each have half of their room would wait for each other.
    room.hold(length).await?;
    let mut wire = BytesMut::new();
    while let Some(chunk) = incoming.next().await? {
        if (wire.len() + chunk.len()) as u64 > limit {
            return Err(too_large(limit));
        }
        room.hold(wire.len() + chunk.len()).await?;
        wire.extend_from_slice(&chunk);
    }
    Ok(Content { bytes: wire.freeze(), room })
}

/// The announced length of a body, which is not over the limit; 0 when none is announced.
pub fn announced(headers: &HeaderMap, limit: u64) -> Result<usize, Problem> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse::<u64>().ok());
    if length.is_some_and(|length| length > limit) {
        return Err(too_large(limit));
    }
    Ok(length.and_then(|length| usize::try_from(length).ok()).unwrap_or(0))
}

/// How a body is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// As it is.
    Identity,
    /// `gzip`, of one or several members.
    Gzip,
    /// `zstd`.
    Zstd,
}

impl Encoding {
    /// By `Content-Encoding`.
    pub fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let named =
            headers.get(header::CONTENT_ENCODING).map(|v| v.to_str().unwrap_or("?").trim().to_ascii_lowercase());
        match named.as_deref() {
            None | Some("" | "identity") => Ok(Self::Identity),
            Some("gzip" | "x-gzip") => Ok(Self::Gzip),
            Some("zstd") => Ok(Self::Zstd),
            Some(other) => Err(Problem::new(
                Code::UnsupportedEncoding,
                format!(
                    "Content-Encoding `{}` is not supported; use gzip or zstd",
                    other.chars().take(40).collect::<String>()
                ),
            )),
        }
    }

    /// What is in the packed bytes.
    pub fn decoder<'a>(self, wire: impl BufRead + 'a) -> std::io::Result<Box<dyn Read + 'a>> {
        Ok(match self {
            Self::Identity => Box::new(wire),
            Self::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(wire)),
            Self::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(wire)?;
                // A frame may ask for a window; beyond this it is refused, not allocated.
                decoder.window_log_max(27)?;
                Box::new(decoder)
            }
        })
    }
}

/// Unpacks by `Content-Encoding`, and stops at the limit without having held more than that.
pub async fn unpack(headers: &HeaderMap, wire: Content, limit: u64) -> Result<Content, Problem> {
    let encoding = Encoding::of(headers)?;
    if encoding == Encoding::Identity {
        return Ok(wire);
    }
    let runtime = Handle::current();
    blocking(move || unpacked(encoding, wire, limit, &runtime)).await?
}

/// Unpacks part by part, each with the room for it.
fn unpacked(encoding: Encoding, wire: Content, limit: u64, runtime: &Handle) -> Result<Content, Problem> {
    let Content { bytes: wire, mut room } = wire;
    let mut reader = encoding.decoder(wire.as_ref()).map_err(|_| bad_encoding())?;
    let mut content = Vec::new();
    loop {
        runtime.block_on(room.hold(wire.len() + content.len() + UNPACKED_PART_BYTES))?;
        let part = reader.by_ref().take(UNPACKED_PART_BYTES as u64);
        let count = { part }.read_to_end(&mut content).map_err(|_| bad_encoding())?;
        if content.len() as u64 > limit {
            return Err(too_large(limit));
        }
        if count == 0 {
            drop(reader);
            return Ok(Content { bytes: content.into(), room });
        }
    }
}

/// The body is not packed as it says.
pub fn bad_encoding() -> Problem {
    Problem::new(Code::BadEncoding, "the body cannot be decompressed")
}

/// A form of the body is over the limit.
pub fn too_large(limit: u64) -> Problem {
    Problem::new(
        Code::BodyTooLarge,
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
        Code::UnsupportedMediaType,
        format!("`{}` is not supported; send application/json", kind.chars().take(80).collect::<String>()),
    ))
}

/// Members that are objects wherever they stand at the top of a body.
///
/// serde takes a list for a struct, field by field in order; a body that has one there is malformed, and a wrong type must
/// never turn into "all images".
const OBJECT_MEMBERS: [&str; 4] = ["selection", "limits", "notify", "onlyIf"];

/// Parses the JSON object of a request.
pub fn parse<T: DeserializeOwned>(content: &[u8]) -> Result<T, Problem> {
    let shape: serde_json::Value = serde_json::from_slice(content).map_err(|error| malformed(&error))?;
    if !shape.is_object() {
        return Err(Problem::bad_input("", "the body is a JSON object"));
    }
    for member in OBJECT_MEMBERS {
        if shape.get(member).is_some_and(serde_json::Value::is_array) {
            return Err(Problem::bad_input(format!("/{member}"), "an object is wanted, not a list"));
        }
    }
    // Once more from the text, which a value has lost repeated members of. It is JSON; what is wrong now has a place.
    let mut deserializer = serde_json::Deserializer::from_slice(content);
    serde_path_to_error::deserialize(&mut deserializer)
        .map_err(|error| Problem::bad_input(pointer(error.path()), sentence(error.inner())))
}

/// What is wrong with a value, in words of JSON instead of Rust, and without a position: its place is told beside it.
pub fn sentence(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let said = said.rsplit_once(" at line ").map_or(said.as_str(), |(sentence, _)| sentence);
    let Some((found, expected)) = said.rsplit_once("expected ") else { return said.to_owned() };
    if let Some(unknown) = found.strip_prefix("unknown variant `").and_then(|name| name.strip_suffix("`, ")) {
        // Of the pieces between the quotes, every second one is a name.
        let known: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
        return format!("`{unknown}` is none of: {}", known.join(", "));
    }
    format!("{}expected {}", found_in_words(found), expected_in_words(expected))
}

/// What stands before `expected`: the kind of mistake and, of a value, what it is.
fn found_in_words(found: &str) -> Cow<'_, str> {
    const WORDS: [(&str, &str); 4] =
        [("map", "an object"), ("sequence", "a list"), ("floating point ", "the number "), ("integer ", "the number ")];
    let Some((mistake, value)) = found.split_once(": ") else { return found.into() };
    let word = WORDS.iter().find_map(|(rust, word)| Some((word, value.strip_prefix(rust)?)));
    word.map_or(found.into(), |(word, rest)| format!("{mistake}: {word}{rest}").into())
}

fn expected_in_words(expected: &str) -> &str {
    const WORDS: [(&str, &str); 12] = [
        ("usize", "a whole number, not negative"),
        ("u64", "a whole number, not negative"),
        ("u32", "a whole number, not negative"),
        ("u8", "a whole number, not negative"),
        ("i64", "a whole number"),
        ("a sequence", "a list"),
        ("a map", "an object"),
        ("a string", "a text"),
        // Of a variant: its name is no text, or something follows it.
        ("value", "a text"),
        ("string or map", "a text"),
        ("map with a single key", "a text"),
        ("unit", "a text alone"),
    ];
    if expected.starts_with("struct ") {
        return "an object";
    }
    WORDS.iter().find(|(rust, _)| *rust == expected).map_or(expected, |(_, word)| word)
}

/// Parses the JSON object of a sender that evolves apart, in one pass: these bodies are large.
pub fn parse_foreign<'a, T: Deserialize<'a>>(content: &'a [u8]) -> Result<T, Problem> {
    let first = content.iter().find(|byte| !byte.is_ascii_whitespace());
    if first.is_some_and(|byte| *byte != b'{') {
        let _: serde::de::IgnoredAny = serde_json::from_slice(content).map_err(|error| malformed(&error))?;
        return Err(Problem::bad_input("", "the body is a JSON object"));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(content);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let (at, inner) = (pointer(error.path()), error.inner());
        if inner.is_syntax() || inner.is_eof() { malformed(inner) } else { Problem::bad_input(at, sentence(inner)) }
    })?;
    deserializer.end().map_err(|error| malformed(&error))?;
    Ok(value)
}

/// Takes a JSON value apart, with the same errors.
pub fn from_value<T: DeserializeOwned>(value: &serde_json::Value) -> Result<T, Problem> {
    serde_path_to_error::deserialize(value)
        .map_err(|error| Problem::bad_input(pointer(error.path()), sentence(error.inner())))
}

fn malformed(error: &serde_json::Error) -> Problem {
    Problem::new(Code::MalformedJson, format!("the body is no JSON: {error}"))
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

#[cfg(test)]
mod tests {
    use super::*;
    use scheduler_model::{Overlap, Selection};
    use serde_json::json;

    #[derive(Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Asked {
        selection: Selection,
        keys: Vec<String>,
        most: u32,
        overlap: Overlap,
    }

    #[test]
    fn a_wrong_type_is_told_in_words_of_json() {
        for (text, told) in [
            (r#"{"most":-1}"#, "invalid value: the number `-1`, expected a whole number, not negative"),
            (r#"{"most":1.5}"#, "invalid type: the number `1.5`, expected a whole number, not negative"),
            (r#"{"most":null}"#, "invalid type: null, expected a whole number, not negative"),
            (r#"{"most":[]}"#, "invalid type: a list, expected a whole number, not negative"),
            (r#"{"most":"map"}"#, "invalid type: string \"map\", expected a whole number, not negative"),
            (r#"{"most":"5"}"#, "invalid type: string \"5\", expected a whole number, not negative"),
            (r#"{"keys":{}}"#, "invalid type: an object, expected a list"),
            (r#"{"keys":[7]}"#, "invalid type: the number `7`, expected a text"),
            (r#"{"selection":7}"#, "invalid type: the number `7`, expected an object"),
            (r#"{"overlap":null}"#, "expected a text"),
            (r#"{"overlap":"never"}"#, "`never` is none of: queue, skip, replace"),
            (r#"{"overlap":"`a`, expected b"}"#, "``a`, expected b` is none of: queue, skip, replace"),
            (r#"{"overlap":{"queue":7}}"#, "invalid type: the number `7`, expected a text alone"),
            (r#"{"key":[]}"#, "unknown field `key`, expected one of `selection`, `keys`, `most`, `overlap`"),
        ] {
            let problem = parse::<Asked>(text.as_bytes()).unwrap_err().document();
            assert_eq!(problem["errors"][0]["detail"], told, "{text}: {problem}");
        }
        for (value, told) in [
            (json!({ "overlap": 7 }), "invalid type: the number `7`, expected a text"),
            (json!({ "overlap": {} }), "invalid value: an object, expected a text"),
            (json!({ "keys": {} }), "invalid type: an object, expected a list"),
        ] {
            let problem = from_value::<Asked>(&value).unwrap_err().document();
            assert_eq!(problem["errors"][0]["detail"], told, "{value}: {problem}");
        }
    }

    #[test]
    fn a_list_is_never_taken_for_an_object_and_a_wrong_type_has_a_place() {
        for (text, code, pointer) in [
            ("[]", "bad-input", ""),
            ("[{}]", "bad-input", ""),
            ("null", "bad-input", ""),
            ("", "malformed-json", ""),
            (r#"{"selection":[]}"#, "bad-input", "/selection"),
            (r#"{"selection":{"scope":5}}"#, "bad-input", "/selection/scope"),
            (r#"{"keys":{}}"#, "bad-input", "/keys"),
            (r#"{"most":-1}"#, "bad-input", "/most"),
            (r#"{"keys":[],"keys":[]}"#, "bad-input", ""),
            (r#"{"keys":["#, "malformed-json", ""),
            (r#"{} {}"#, "malformed-json", ""),
        ] {
            let problem = parse::<Asked>(text.as_bytes()).unwrap_err().document();
            assert_eq!(problem["code"], code, "{text}: {problem}");
            if !pointer.is_empty() {
                assert_eq!(problem["errors"][0]["pointer"], pointer, "{text}: {problem}");
            }
        }
        let asked: Asked = parse(br#"{"keys":["a"],"selection":{}}"#).unwrap();
        assert_eq!((asked.keys.len(), asked.selection), (1, Selection::default()));
        for text in ["[]", r#" ["x"]"#, "7"] {
            assert_eq!(parse_foreign::<Asked>(text.as_bytes()).unwrap_err().document()["code"], "bad-input", "{text}");
        }
        assert_eq!(parse_foreign::<Asked>(b"[").unwrap_err().document()["code"], "malformed-json");
    }
}
