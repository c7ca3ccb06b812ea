//! The one pass over a document, and the decision at its end.

use std::io::{BufReader, Cursor, Read};

use serde::de::{DeserializeSeed, MapAccess, SeqAccess};
use serde_json::Deserializer;
use serde_json::error::Category;

use crate::bom_index::{BomIndex, SCHEMA};
use crate::cyclonedx::CycloneDx;
use crate::lenient::{Any, Handle, Members, Object, skip};
use crate::sink::Sink;
use crate::sniff::{self, PREFIX_BYTES};
use crate::spdx2::Spdx2;
use crate::spdx3::Spdx3;
use crate::syft::Syft;
use crate::{Document, Format, ImageFacts, Limits, Note, SbomError, Usage};

/// Bytes read at a time.
const BUFFER_BYTES: usize = 64 * 1024;

/// Reads a document of any supported format, told apart by content. It needs memory for what it keeps and for the longest
/// string that it looks at, not for the document.
///
/// # Errors
///
/// Every [`SbomError`]; an error of the reader is [`SbomError::Read`].
pub fn read(reader: impl Read, limits: &Limits) -> Result<Document, SbomError> {
    let mut reader = reader;
    let mut prefix = Vec::with_capacity(PREFIX_BYTES);
    reader.by_ref().take(PREFIX_BYTES as u64).read_to_end(&mut prefix).map_err(SbomError::Read)?;
    let mark = sniff::start(&prefix)?;
    let mut start = Cursor::new(prefix);
    start.set_position(mark as u64);
    let chained = BufReader::with_capacity(BUFFER_BYTES, start.chain(reader));
    pass(Deserializer::from_reader(chained), limits)?.decide()
}

/// Reads a document that is in memory already; the same as [`read`], but faster.
///
/// # Errors
///
/// Every [`SbomError`] but [`SbomError::Read`].
pub fn read_slice(bytes: &[u8], limits: &Limits) -> Result<Document, SbomError> {
    pass(from_bytes(bytes)?, limits)?.decide()
}

/// Reads a BOM-Index sidecar. Its `schema` may be absent here, where the caller knows the format.
///
/// # Errors
///
/// Every [`SbomError`] but [`SbomError::Read`]; another format is [`SbomError::UnsupportedFormat`], a sidecar without
/// `purls` is [`SbomError::Missing`].
pub fn read_bom_index(bytes: &[u8], limits: &Limits) -> Result<Document, SbomError> {
    let pass = pass(from_bytes(bytes)?, limits)?;
    let unsupported = |found: String| Err(SbomError::UnsupportedFormat { found });
    match pass.sidecar.schema.as_deref() {
        Some(SCHEMA) => return pass.into_sidecar(),
        Some(other) => return unsupported(format!("schema {other}")),
        None => {}
    }
    match pass.claimed_sbom()? {
        Some((format, _)) => unsupported(format!("{format} in place of a sidecar")),
        None if !pass.is_object || pass.kind.is_some() => unsupported(pass.looks_like()),
        None => pass.into_sidecar(),
    }
}

fn from_bytes(bytes: &[u8]) -> Result<Deserializer<serde_json::de::SliceRead<'_>>, SbomError> {
    let mark = sniff::start(bytes.get(..PREFIX_BYTES).unwrap_or(bytes))?;
    Ok(Deserializer::from_slice(bytes.get(mark..).unwrap_or_default()))
}

fn pass<'de, 'l, R>(mut json: Deserializer<R>, limits: &'l Limits) -> Result<Pass<'l>, SbomError>
where
    R: serde_json::de::Read<'de>,
{
    let mut pass = Pass {
        is_object: false,
        kind: None,
        cyclonedx: CycloneDx::new(limits),
        spdx2: Spdx2::new(limits),
        spdx3: Spdx3::new(limits),
        syft: Syft::new(limits),
        sidecar: BomIndex::new(limits),
    };
    match Any(Object(&mut pass)).deserialize(&mut json).and_then(|is_object| json.end().map(|()| is_object)) {
        Ok(is_object) => {
            pass.is_object = is_object;
            Ok(pass)
        }
        Err(error) => Err(pass.take_failure().unwrap_or_else(|| malformed(error))),
    }
}

fn malformed(source: serde_json::Error) -> SbomError {
    match source.classify() {
        Category::Io => SbomError::Read(source.into()),
        Category::Syntax | Category::Data | Category::Eof => {
            SbomError::MalformedJson { line: source.line(), column: source.column(), source }
        }
    }
}

/// What each format would take from the document; the members that say which one it is may come last.
struct Pass<'l> {
    is_object: bool,
    /// What else the document is, by members of formats that are not read.
    kind: Option<&'static str>,
    cyclonedx: CycloneDx<'l>,
    spdx2: Spdx2<'l>,
    spdx3: Spdx3<'l>,
    syft: Syft<'l>,
    sidecar: BomIndex<'l>,
}

impl<'de> Members<'de> for Pass<'_> {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let taken = match key {
            "schema" => {
                map.next_value_seed(Any(Schema(self)))?;
                true
            }
            "@context" => {
                map.next_value_seed(Any(Context(self)))?;
                true
            }
            _ => {
                self.cyclonedx.top(key, map)?
                    || self.spdx2.top(key, map)?
                    || self.spdx3.top(key, map)?
                    || self.syft.top(key, map)?
                    || self.sidecar.top(key, map)?
            }
        };
        if taken {
            return Ok(());
        }
        match key {
            "csaf_version" | "product_tree" => self.kind = Some("CSAF"),
            "predicateType" => self.kind = Some("an in-toto statement around a document"),
            "payloadType" => self.kind = Some("a signed envelope around a document"),
            "runs" => self.kind = Some("SARIF"),
            _ => {}
        }
        skip(map)
    }
}

impl<'l> Pass<'l> {
    fn take_failure(&mut self) -> Option<SbomError> {
        let sinks = [
            &mut self.cyclonedx.sink,
            &mut self.spdx2.sink,
            &mut self.spdx3.sink,
            &mut self.syft.sink,
            &mut self.sidecar.sink,
        ];
        sinks.into_iter().find_map(|sink| sink.failure.take())
    }

    /// The SBOM format that the document claims to be. The explicit names come first, Syft, which has none, last.
    fn claimed_sbom(&self) -> Result<Option<(Format, Option<String>)>, SbomError> {
        if let Some(version) = self.cyclonedx.claim()? {
            return Ok(Some((Format::CycloneDx, Some(version))));
        }
        if let Some(version) = self.spdx2.claim()? {
            return Ok(Some((Format::Spdx2, Some(version))));
        }
        if let Some(version) = self.spdx3.claim()? {
            return Ok(Some((Format::Spdx3, Some(version))));
        }
        Ok(self.syft.claim().map(|version| (Format::Syft, version)))
    }

    fn decide(self) -> Result<Document, SbomError> {
        if self.sidecar.claim()? {
            return self.into_sidecar();
        }
        let Some((format, version)) = self.claimed_sbom()? else {
            return Err(SbomError::UnsupportedFormat { found: self.looks_like() });
        };
        let mut notes = Vec::new();
        let (format, image, sink) = match format {
            Format::CycloneDx => self.cyclonedx.finish(),
            Format::Spdx2 => {
                let (format, image, sink, images, external) = self.spdx2.finish();
                note_images(images, &mut notes);
                if external > 0 {
                    notes.push(Note::ExternalReferences(external));
                }
                (format, image, sink)
            }
            Format::Spdx3 => {
                let (format, image, sink, images) = self.spdx3.finish();
                note_images(images, &mut notes);
                (format, image, sink)
            }
            Format::Syft => self.syft.finish(),
            Format::BomIndex => return self.into_sidecar(),
        };
        document(format, version, image, sink, Usage::Unknown, notes)
    }

    fn into_sidecar(self) -> Result<Document, SbomError> {
        let (format, image, sink, usage) = self.sidecar.finish()?;
        document(format, Some("1".to_owned()), image, sink, usage, Vec::new())
    }

    fn looks_like(&self) -> String {
        let found = match self.kind {
            Some(kind) => kind,
            None if self.is_object => "a JSON object that is no SBOM",
            None => "JSON, but not an object",
        };
        found.to_owned()
    }
}

fn note_images(count: usize, notes: &mut Vec<Note>) {
    if count > 1 {
        notes.push(Note::SeveralImages(count));
    }
}

fn document(
    format: Format,
    spec_version: Option<String>,
    image: ImageFacts,
    sink: Sink<'_>,
    usage: Usage,
    mut notes: Vec<Note>,
) -> Result<Document, SbomError> {
    let Sink { components, no_purl, unlisted, .. } = sink;
    if let Some(member) = unlisted {
        return Err(SbomError::NotAList { member });
    }
    if components.is_empty() {
        notes.push(if no_purl == 0 { Note::NoComponents } else { Note::NoPurls });
    }
    Ok(Document { format, spec_version, image, components, no_purl, usage, notes })
}

/// `schema`: the name of a sidecar's, or Syft's object.
struct Schema<'p, 'l>(&'p mut Pass<'l>);

impl<'de> Handle<'de> for Schema<'_, '_> {
    type Out = ();

    fn other(self) {}

    fn text(self, text: &str) {
        self.0.sidecar.schema = Some(text.chars().take(64).collect());
    }

    fn object<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        Object(&mut self.0.syft.schema()).object(map).map(|_| ())
    }
}

/// `@context`: one address, or a list with addresses among other things.
struct Context<'p, 'l>(&'p mut Pass<'l>);

impl<'de> Handle<'de> for Context<'_, '_> {
    type Out = ();

    fn other(self) {}

    fn text(self, text: &str) {
        self.0.spdx3.context(text);
        if text.contains("openvex") {
            self.0.kind = Some("OpenVEX");
        }
    }

    fn list<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(Any(Context(&mut *self.0)))?.is_some() {}
        Ok(())
    }
}
