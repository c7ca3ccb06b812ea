//! One file of an import: unpacked, its format told by content, its image named.

use scheduler_model::ImageDigest;
use scheduler_sbom::{Document, Format, Limits, Note};
use std::io::Read;
use std::path::Path;

/// The largest document, in bytes, packed or not. The service's own limit is lower.
const DOCUMENT_LEN_MAX: u64 = 512 << 20;

/// The largest window that a zstd frame may ask for, as a power of two.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// A document that can be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadDocument {
    /// The format that the content shows.
    pub format: Format,
    /// What a person should know about it.
    pub notes: Vec<String>,
    /// How it is sent.
    pub content: Content,
}

/// How a document is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A sidecar, as one line of a bulk upload.
    Line(Vec<u8>),
    /// An SBOM.
    Sbom {
        /// Its image.
        digest: ImageDigest,
        /// Whether it says which repository the image is of.
        names_repository: bool,
        /// Its bytes.
        body: Vec<u8>,
    },
}

impl Content {
    /// Its size in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Line(bytes) | Self::Sbom { body: bytes, .. } => bytes.len(),
        }
    }
}

/// Reads a file, `-` for standard input; the error is a sentence about it.
pub fn read(path: &Path) -> Result<ReadDocument, String> {
    let file: Box<dyn Read> = if is_stdin(path) {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(path).map_err(|error| error.to_string())?)
    };
    let bytes = unpack(limited(file).map_err(|error| error.to_string())?)?;
    let document = scheduler_sbom::read_slice(&bytes, &Limits::default()).map_err(|error| error.to_string())?;
    let notes = document.notes.iter().map(Note::to_string).collect();
    let format = document.format;
    let content = match format {
        Format::BomIndex => Content::Line(one_line(bytes)),
        Format::CycloneDx | Format::Spdx2 | Format::Spdx3 | Format::Syft => {
            let names_repository = document.image.repository.as_ref().is_some_and(|name| !name.is_empty());
            Content::Sbom { digest: digest(document, &bytes), names_repository, body: bytes }
        }
    };
    Ok(ReadDocument { format, notes, content })
}

/// Whether standard input is meant.
pub fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// What a file's name says of the image in it: `sboms/cart.cdx.json.gz` is of `cart`. `None` for standard input.
pub fn name_of(path: &Path) -> Option<String> {
    if is_stdin(path) {
        return None;
    }
    let name = path.file_name()?.to_string_lossy();
    let mut bare: &str = &name;
    // The packing, the language, the format.
    for endings in [&[".gz", ".zst"][..], &[".json", ".jsonld"], &[".cdx", ".spdx", ".syft", ".bom", ".sbom"]] {
        bare =
            endings.iter().find_map(|ending| bare.strip_suffix(ending)).filter(|rest| !rest.is_empty()).unwrap_or(bare);
    }
    Some(bare.to_owned())
}

/// The image's digest: the document's own, else that of its bytes.
fn digest(document: Document, bytes: &[u8]) -> ImageDigest {
    let own = document.image.digest.and_then(|text| ImageDigest::try_from(text).ok());
    own.unwrap_or_else(|| ImageDigest::of(bytes))
}

fn unpack(bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    match bytes.as_slice() {
        [0x1F, 0x8B, ..] => limited(flate2::bufread::MultiGzDecoder::new(bytes.as_slice()))
            .map_err(|error| format!("the gzip data is broken: {error}")),
        [0x28, 0xB5, 0x2F, 0xFD, ..] => {
            let broken = |error: std::io::Error| format!("the zstd data is broken: {error}");
            let mut decoder = zstd::stream::read::Decoder::with_buffer(bytes.as_slice()).map_err(broken)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).map_err(broken)?;
            limited(decoder).map_err(broken)
        }
        _ => Ok(bytes),
    }
}

fn limited(reader: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(DOCUMENT_LEN_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > DOCUMENT_LEN_MAX {
        return Err(std::io::Error::other(format!("it is larger than {DOCUMENT_LEN_MAX} bytes")));
    }
    Ok(bytes)
}

/// A JSON document on one line: line ends stand only between its tokens, where a blank means the same.
fn one_line(bytes: Vec<u8>) -> Vec<u8> {
    let body = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&bytes);
    body.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const SIDECAR: &str =
        "{\n \"schema\": \"bom-index@1\",\r\n \"imageDigest\": \"sha256:00\", \"purls\": [\"pkg:npm/a@1\"]\n}\n";
    const CYCLONEDX: &str =
        r#"{"bomFormat": "CycloneDX", "specVersion": "1.6", "components": [{"purl": "pkg:npm/a@1"}]}"#;

    fn written(bytes: &[u8]) -> Result<ReadDocument, String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        read(file.path())
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_sidecar_becomes_one_line_and_means_the_same() {
        let document = written(SIDECAR.as_bytes()).unwrap();
        assert_eq!(document.format, Format::BomIndex);
        let Content::Line(line) = document.content else { panic!("no line") };
        assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
        let (a, b): (serde_json::Value, serde_json::Value) =
            (serde_json::from_slice(&line).unwrap(), serde_json::from_str(SIDECAR).unwrap());
        assert_eq!(a, b);
    }

    #[test]
    fn packed_documents_are_the_same_images_as_plain_ones() {
        let plain = written(CYCLONEDX.as_bytes()).unwrap();
        let Content::Sbom { digest, names_repository, .. } = &plain.content else { panic!("no SBOM") };
        assert!(!names_repository);
        assert_eq!(*digest, ImageDigest::of(CYCLONEDX.as_bytes()));
        assert_eq!(written(&gzip(CYCLONEDX.as_bytes())).unwrap(), plain);
        assert_eq!(written(&zstd::encode_all(CYCLONEDX.as_bytes(), 1).unwrap()).unwrap(), plain);
    }

    #[test]
    fn a_files_name_without_its_endings_names_an_image() {
        for (path, name) in [
            ("sboms/cart.json", Some("cart")),
            ("cart.cdx.json.zst", Some("cart")),
            ("shop-api_1.4.spdx.json", Some("shop-api_1.4")),
            ("cart.bom.jsonld.gz", Some("cart")),
            ("cart", Some("cart")),
            (".json", Some(".json")),
            ("-", None),
        ] {
            assert_eq!(name_of(Path::new(path)).as_deref(), name, "{path}");
        }
    }

    #[test]
    fn what_is_no_document_is_said_in_a_sentence() {
        for (bytes, said) in [
            (&b"{\"schema\": \"bom-index@1\","[..], "malformed JSON"),
            (b"{}", "unsupported document"),
            (b"<bom/>", "XML"),
            (b"", "malformed JSON"),
            (b"\x1F\x8B\x08\0broken", "gzip"),
            (b"\x28\xB5\x2F\xFDbroken", "zstd"),
        ] {
            let error = written(bytes).unwrap_err();
            assert!(error.contains(said), "{said}: {error}");
        }
    }
}
