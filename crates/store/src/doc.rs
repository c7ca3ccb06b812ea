//! Stored documents: one byte of version, then JSON.

use scheduler_core::ports::{StoreError, StoreResult};
use serde::{Serialize, de::DeserializeOwned};

/// The version that is written. A document of another one is refused, until there is a second one to read.
pub(crate) const VERSION: u8 = 1;

/// Why a document cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DocError {
    /// Too short for what it should be.
    #[error("the document is cut off")]
    Short,
    /// Of a version that this program does not know.
    #[error("the document is of version {0}, known is {VERSION}")]
    Version(u8),
    /// No JSON of that shape.
    #[error("the document is malformed")]
    Json(#[source] serde_json::Error),
}

/// A document as it is stored.
pub(crate) fn encode<T: Serialize>(value: &T) -> StoreResult<Vec<u8>> {
    let mut bytes = vec![VERSION];
    serde_json::to_writer(&mut bytes, value).map_err(|error| corrupt("a new document", DocError::Json(error)))?;
    Ok(bytes)
}

/// A stored document; `what` names it in the error.
pub(crate) fn decode<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> StoreResult<T> {
    parse(bytes).map_err(|error| corrupt(what, error))
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DocError> {
    match bytes.split_first() {
        Some((&VERSION, json)) => serde_json::from_slice(json).map_err(DocError::Json),
        Some((&other, _)) => Err(DocError::Version(other)),
        None => Err(DocError::Short),
    }
}

/// A document with a number before it. The number is known only when it is written, while the document, which may be
/// large, is made before.
pub(crate) fn with_number(number: u64, document: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + document.len());
    bytes.extend_from_slice(&number.to_be_bytes());
    bytes.extend_from_slice(document);
    bytes
}

/// The number and the document that [`with_number`] put together.
pub(crate) fn split_number<'a>(what: &str, bytes: &'a [u8]) -> StoreResult<(u64, &'a [u8])> {
    bytes
        .split_first_chunk::<8>()
        .map(|(number, document)| (u64::from_be_bytes(*number), document))
        .ok_or_else(|| corrupt(what, DocError::Short))
}

/// The error of a document that cannot be read.
pub(crate) fn corrupt(what: &str, source: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::Corrupt { what: what.to_owned(), source: Box::new(source) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_comes_back() {
        let bytes = encode(&vec![1, 2]).unwrap();
        assert_eq!(decode::<Vec<u8>>("x", &bytes).unwrap(), [1, 2]);
        assert_eq!(split_number("x", &with_number(7, &bytes)).unwrap(), (7, &bytes[..]));
    }

    #[test]
    fn a_document_of_another_version_is_refused_by_name() {
        for bytes in [&b""[..], b"\x02[]", b"\x01{", b"\x01\"x\""] {
            let error = decode::<Vec<u8>>("run r1", bytes).unwrap_err();
            assert!(matches!(&error, StoreError::Corrupt { what, .. } if what == "run r1"), "{bytes:?} {error}");
        }
        assert!(split_number("x", b"1234567").is_err());
    }
}
