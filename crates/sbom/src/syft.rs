//! Syft JSON: `artifacts`, and the image in `source`.

use serde::de::{MapAccess, SeqAccess};

use crate::evidence::Evidence;
use crate::lenient::{Elements, Members, is_list, next_object, object, skip, text};
use crate::sink::{RawPurl, Sink};
use crate::source::SourceHints;
use crate::{Format, ImageFacts, Limits};

/// What a Syft document would have left so far.
pub(crate) struct Syft<'l> {
    pub(crate) sink: Sink<'l>,
    has_artifacts: bool,
    tool: Tool,
    kind: Option<String>,
    evidence: Evidence,
}

/// `descriptor` and `schema`, which tell Syft from other tools with `artifacts`.
#[derive(Default)]
pub(crate) struct Tool {
    name: Option<String>,
    schema_version: Option<String>,
}

impl<'l> Syft<'l> {
    pub(crate) fn new(limits: &'l Limits) -> Self {
        Self {
            sink: Sink::new(limits),
            has_artifacts: false,
            tool: Tool::default(),
            kind: None,
            evidence: Evidence::default(),
        }
    }

    /// Where the members of an object `schema` go.
    pub(crate) fn schema(&mut self) -> Schema<'_> {
        Schema(&mut self.tool)
    }

    /// Takes a top-level member; false when it is none of this format's.
    pub(crate) fn top<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        match key {
            "artifacts" => self.has_artifacts |= is_list(map, &mut Artifacts(&mut self.sink))?,
            "descriptor" => object(map, &mut Descriptor(&mut self.tool))?,
            "source" => object(map, &mut Source(self))?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Whether the document is Syft's, and the version of its schema.
    pub(crate) fn claim(&self) -> Option<Option<String>> {
        let named = self.tool.name.as_deref() == Some("syft") || self.tool.schema_version.is_some();
        (self.has_artifacts && named).then(|| self.tool.schema_version.clone())
    }

    /// The image, and the components.
    pub(crate) fn finish(self) -> (Format, ImageFacts, Sink<'l>) {
        let is_image = self.kind.as_deref() == Some("image");
        let image = if is_image { self.evidence.facts() } else { ImageFacts::default() };
        (Format::Syft, image, self.sink)
    }
}

pub(crate) struct Schema<'t>(&'t mut Tool);

impl<'de> Members<'de> for Schema<'_> {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "version" => self.0.schema_version = text(map)?,
            _ => skip(map)?,
        }
        Ok(())
    }
}

struct Descriptor<'t>(&'t mut Tool);

impl<'de> Members<'de> for Descriptor<'_> {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "name" => self.0.name = text(map)?,
            _ => skip(map)?,
        }
        Ok(())
    }
}

struct Source<'s, 'l>(&'s mut Syft<'l>);

impl<'de> Members<'de> for Source<'_, '_> {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "type" => self.0.kind = text(map)?,
            "version" => self.0.evidence.version = text(map)?,
            // `target` up to schema 6, `metadata` since.
            "target" | "metadata" => object(map, &mut Target(self.0))?,
            _ => skip(map)?,
        }
        Ok(())
    }
}

struct Target<'s, 'l>(&'s mut Syft<'l>);

impl<'de> Members<'de> for Target<'_, '_> {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let Syft { sink, evidence, .. } = &mut *self.0;
        match key {
            "userInput" => evidence.name = text(map)?,
            "manifestDigest" => evidence.manifest_digest = text(map)?,
            "repoDigests" => sink.strings(map, &mut evidence.repo_digests, "repository digests")?,
            "tags" => sink.strings(map, &mut evidence.repo_tags, "tags")?,
            "labels" => sink.labels(map, &mut evidence.labels)?,
            _ => skip(map)?,
        }
        Ok(())
    }
}

struct Artifacts<'s, 'l>(&'s mut Sink<'l>);

impl<'de> Elements<'de> for Artifacts<'_, '_> {
    fn element<A: SeqAccess<'de>>(&mut self, seq: &mut A) -> Result<bool, A::Error> {
        let mut artifact = Artifact { sink: self.0, purl: None, hints: SourceHints::default() };
        let Some(is_artifact) = next_object(seq, &mut artifact)? else { return Ok(false) };
        let Artifact { purl, hints, .. } = artifact;
        match purl {
            Some(purl) => {
                let source = hints.resolve(&purl.text);
                self.0.push(purl, source)?;
            }
            None if is_artifact => self.0.push_without_purl()?,
            None => {}
        }
        Ok(true)
    }
}

struct Artifact<'s, 'l> {
    sink: &'s Sink<'l>,
    purl: Option<RawPurl>,
    hints: SourceHints,
}

impl<'de> Members<'de> for Artifact<'_, '_> {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "purl" => self.purl = self.sink.purl(map)?,
            "metadata" => object(map, &mut Metadata(&mut self.hints))?,
            _ => skip(map)?,
        }
        Ok(())
    }
}

struct Metadata<'h>(&'h mut SourceHints);

impl<'de> Members<'de> for Metadata<'_> {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "source" | "sourceVersion" | "sourceRpm" | "originPackage" => {
                if let Some(value) = text(map)? {
                    self.0.syft(key, &value);
                }
                Ok(())
            }
            _ => skip(map),
        }
    }
}
