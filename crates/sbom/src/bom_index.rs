//! BOM-Index sidecars: `purls`, and which of them the entrypoint uses.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use roaring::RoaringBitmap;
use serde::de::{MapAccess, SeqAccess};
use std::fmt::Display;

use crate::lenient::{Any, Elements, Handle, Members, is_list, object, skip, text};
use crate::sink::{AnyPurl, Sink};
use crate::{Format, ImageFacts, Limits, SbomError, Usage};

/// The version of the sidecar's schema that is read.
pub(crate) const SCHEMA: &str = "bom-index@1";

/// Standard alphabet; writers differ on the padding, which carries nothing.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What a sidecar would have left so far.
pub(crate) struct BomIndex<'l> {
    pub(crate) sink: Sink<'l>,
    pub(crate) schema: Option<String>,
    has_purls: bool,
    image: ImageFacts,
    usage: RawUsage,
}

/// `usedByEntrypoint` as written; `purls` may come after it.
enum RawUsage {
    Absent,
    Indexes(RoaringBitmap),
    Bitmap(Vec<u8>),
    /// No list and no string.
    Other,
    Bad(String),
}

impl<'l> BomIndex<'l> {
    pub(crate) fn new(limits: &'l Limits) -> Self {
        Self {
            sink: Sink::new(limits),
            schema: None,
            has_purls: false,
            image: ImageFacts::default(),
            usage: RawUsage::Absent,
        }
    }

    /// Takes a top-level member; false when it is none of this format's.
    pub(crate) fn top<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        match key {
            "imageDigest" => self.image.digest = text(map)?,
            "generatedAt" => self.image.generated_at = text(map)?,
            "image" => object(map, &mut Image { sink: &mut self.sink, facts: &mut self.image })?,
            // The indexes of the usage would mean either.
            "purls" if self.has_purls => return Err(self.sink.fail(SbomError::Repeated { member: "purls" })),
            "purls" => self.has_purls |= is_list(map, &mut Purls(&mut self.sink))?,
            "usedByEntrypoint" => self.usage = map.next_value_seed(Any(AnyUsage(&mut self.sink)))?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Whether the document is a sidecar; an error when it is one of an unknown version.
    pub(crate) fn claim(&self) -> Result<bool, SbomError> {
        match self.schema.as_deref() {
            Some(SCHEMA) => Ok(true),
            Some(other) if other.starts_with("bom-index") => {
                Err(SbomError::UnsupportedFormat { found: other.to_owned() })
            }
            Some(_) => Ok(false),
            None => Ok(self.has_purls && self.image.digest.is_some()),
        }
    }

    /// The image, the components and their usage.
    pub(crate) fn finish(self) -> Result<(Format, ImageFacts, Sink<'l>, Usage), SbomError> {
        if !self.has_purls {
            return Err(SbomError::Missing { member: "purls" });
        }
        let usage = self.usage.check(self.sink.components.len())?;
        Ok((Format::BomIndex, self.image, self.sink, usage))
    }
}

impl RawUsage {
    fn check(self, purls: usize) -> Result<Usage, SbomError> {
        let bad = |reason: &str| SbomError::BadUsage { reason: reason.to_owned() };
        let used = match self {
            Self::Absent => return Ok(Usage::Unknown),
            Self::Other => return Err(bad("is neither a list of indexes nor a base64 string")),
            Self::Bad(reason) => return Err(bad(&reason)),
            Self::Indexes(used) => used,
            Self::Bitmap(bytes) => {
                let mut rest = bytes.as_slice();
                // The checked reader takes no more than one container's worth ahead of the bytes that are there.
                let used = RoaringBitmap::deserialize_from(&mut rest)
                    .map_err(|error| bad(&format!("is no portable roaring bitmap: {error}")))?;
                if !rest.is_empty() {
                    return Err(bad("has bytes after the roaring bitmap"));
                }
                used
            }
        };
        match used.max() {
            Some(index) if usize::try_from(index).is_ok_and(|index| index >= purls) => {
                Err(SbomError::Impossible { index: index.into(), purls })
            }
            _ => Ok(Usage::Known(used)),
        }
    }
}

struct Image<'s, 'l> {
    sink: &'s mut Sink<'l>,
    facts: &'s mut ImageFacts,
}

impl<'de> Members<'de> for Image<'_, '_> {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "registry" => self.facts.registry = text(map)?,
            "repository" => self.facts.repository = text(map)?,
            "namespaces" => self.sink.strings(map, &mut self.facts.namespaces, "namespaces")?,
            "tags" => self.sink.strings(map, &mut self.facts.tags, "tags")?,
            "labels" => self.sink.labels(map, &mut self.facts.labels)?,
            _ => skip(map)?,
        }
        Ok(())
    }
}

struct Purls<'s, 'l>(&'s mut Sink<'l>);

impl<'de> Elements<'de> for Purls<'_, '_> {
    fn element<A: SeqAccess<'de>>(&mut self, seq: &mut A) -> Result<bool, A::Error> {
        let bytes_max = self.0.limits.purl_bytes_max;
        let Some(purl) = seq.next_element_seed(Any(AnyPurl { bytes_max }))? else { return Ok(false) };
        self.0.push(purl, None)?;
        Ok(true)
    }
}

struct AnyUsage<'s, 'l>(&'s mut Sink<'l>);

impl<'de> Handle<'de> for AnyUsage<'_, '_> {
    type Out = RawUsage;

    fn other(self) -> RawUsage {
        RawUsage::Other
    }

    fn null(self) -> RawUsage {
        RawUsage::Absent
    }

    fn text(self, text: &str) -> RawUsage {
        match BASE64.decode(text) {
            Ok(bytes) => RawUsage::Bitmap(bytes),
            Err(error) => RawUsage::Bad(format!("is no base64: {error}")),
        }
    }

    fn list<A: SeqAccess<'de>>(self, mut seq: A) -> Result<RawUsage, A::Error> {
        let mut used = RoaringBitmap::new();
        let limit = self.0.limits.components_max;
        while let Some(found) = seq.next_element_seed(Any(Index))? {
            // Beyond the limit there is no component whatever `purls` holds, and a far index would cost a container.
            match found {
                Ok(index) => match u32::try_from(index) {
                    Ok(near) if usize::try_from(index).is_ok_and(|index| index < limit) => {
                        used.insert(near);
                    }
                    _ => return Err(self.0.fail(SbomError::Impossible { index, purls: self.0.components.len() })),
                },
                Err(shown) => {
                    let reason = format!("has an entry that is no index: {shown}");
                    return Err(self.0.fail(SbomError::BadUsage { reason }));
                }
            }
        }
        Ok(RawUsage::Indexes(used))
    }
}

/// An index, or what stands in its place.
struct Index;

impl Handle<'_> for Index {
    type Out = Result<u64, String>;

    fn other(self) -> Self::Out {
        Err("no number".to_owned())
    }

    fn number(self, value: u64) -> Self::Out {
        Ok(value)
    }

    fn scalar(self, shown: &dyn Display) -> Self::Out {
        Err(shown.to_string())
    }
}
