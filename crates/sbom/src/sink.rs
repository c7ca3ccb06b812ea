//! Where the readers put what they keep, within the limits (SBOM-R1).

use std::collections::BTreeMap;
use std::fmt::Display;

use serde::de::{Error, MapAccess, SeqAccess};

use crate::lenient::{Any, Elements, Handle, Members, Text, list, object, text};
use crate::{Limits, PurlProblem, RawComponent, SbomError, SourceRecord};

/// Bytes of an unusable entry that are shown to whoever reads the report.
const EXCERPT_BYTES: usize = 200;

/// The components of one format, and the refusal that ended its reading.
pub(crate) struct Sink<'l> {
    pub(crate) limits: &'l Limits,
    pub(crate) components: Vec<RawComponent>,
    pub(crate) no_purl: u64,
    /// A member that should list components and is no list: taken for an empty one, it would empty the image.
    pub(crate) unlisted: Option<&'static str>,
    /// serde carries text alone, so the refusal waits here while the visit unwinds.
    pub(crate) failure: Option<SbomError>,
}

impl<'l> Sink<'l> {
    pub(crate) fn new(limits: &'l Limits) -> Self {
        Self { limits, components: Vec::new(), no_purl: 0, unlisted: None, failure: None }
    }

    /// Ends the visit with a refusal.
    pub(crate) fn fail<E: Error>(&mut self, failure: SbomError) -> E {
        self.failure = Some(failure);
        E::custom("refused")
    }

    /// Adds a component.
    pub(crate) fn push<E: Error>(&mut self, purl: RawPurl, source: Option<SourceRecord>) -> Result<(), E> {
        self.admit()?;
        self.components.push(RawComponent { purl: purl.text, source, problem: purl.problem });
        Ok(())
    }

    /// Counts a component that has no purl.
    pub(crate) fn push_without_purl<E: Error>(&mut self) -> Result<(), E> {
        self.admit()?;
        self.no_purl += 1;
        Ok(())
    }

    fn admit<E: Error>(&mut self) -> Result<(), E> {
        let without = usize::try_from(self.no_purl).unwrap_or(usize::MAX);
        self.room(self.components.len().saturating_add(without), "components")
    }

    /// Refuses when a list that has `len` entries may not get another.
    pub(crate) fn room<E: Error>(&mut self, len: usize, what: &'static str) -> Result<(), E> {
        let limit = self.limits.components_max;
        if len < limit { Ok(()) } else { Err(self.fail(SbomError::TooMany { what, limit })) }
    }

    /// The member as a purl; absent when it is no string or an empty one.
    pub(crate) fn purl<'de, A: MapAccess<'de>>(&self, map: &mut A) -> Result<Option<RawPurl>, A::Error> {
        let found = map.next_value_seed(Any(AnyPurl { bytes_max: self.limits.purl_bytes_max }))?;
        Ok((found.problem != Some(PurlProblem::NotAString) && !found.text.is_empty()).then_some(found))
    }

    /// Adds the strings of the member's list.
    pub(crate) fn strings<'de, A: MapAccess<'de>>(
        &mut self,
        map: &mut A,
        into: &mut Vec<String>,
        what: &'static str,
    ) -> Result<(), A::Error> {
        list(map, &mut Strings { sink: self, into, what })
    }

    /// Adds the member's entries whose values are strings.
    pub(crate) fn labels<'de, A: MapAccess<'de>>(
        &mut self,
        map: &mut A,
        into: &mut BTreeMap<String, String>,
    ) -> Result<(), A::Error> {
        object(map, &mut Labels { sink: self, into })
    }
}

/// A purl as written, or why it is none.
pub(crate) struct RawPurl {
    pub(crate) text: String,
    pub(crate) problem: Option<PurlProblem>,
}

/// Takes any value as a purl entry.
pub(crate) struct AnyPurl {
    pub(crate) bytes_max: usize,
}

impl Handle<'_> for AnyPurl {
    type Out = RawPurl;

    fn other(self) -> RawPurl {
        self.scalar(&"(list or object)")
    }

    fn scalar(self, shown: &dyn Display) -> RawPurl {
        RawPurl { text: shown.to_string(), problem: Some(PurlProblem::NotAString) }
    }

    fn text(self, text: &str) -> RawPurl {
        if text.len() <= self.bytes_max {
            return RawPurl { text: text.to_owned(), problem: None };
        }
        let cut = text.floor_char_boundary(EXCERPT_BYTES);
        RawPurl { text: text.get(..cut).unwrap_or_default().to_owned(), problem: Some(PurlProblem::TooLong) }
    }
}

struct Strings<'s, 'l> {
    sink: &'s mut Sink<'l>,
    into: &'s mut Vec<String>,
    what: &'static str,
}

impl<'de> Elements<'de> for Strings<'_, '_> {
    fn element<A: SeqAccess<'de>>(&mut self, seq: &mut A) -> Result<bool, A::Error> {
        let Some(found) = seq.next_element_seed(Any(Text))? else { return Ok(false) };
        if let Some(text) = found {
            self.sink.room(self.into.len(), self.what)?;
            self.into.push(text);
        }
        Ok(true)
    }
}

struct Labels<'s, 'l> {
    sink: &'s mut Sink<'l>,
    into: &'s mut BTreeMap<String, String>,
}

impl<'de> Members<'de> for Labels<'_, '_> {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        // An empty name is one that was too long to keep.
        if let Some(value) = text(map)?
            && !key.is_empty()
        {
            self.sink.room(self.into.len(), "labels")?;
            self.into.insert(key.to_owned(), value);
        }
        Ok(())
    }
}
