//! CycloneDX JSON: components at any depth, and the image in `metadata.component`.

use serde::de::{MapAccess, SeqAccess};

use crate::evidence::Evidence;
use crate::lenient::{Elements, Members, is_list_or_null, list, next_object, object, skip, text};
use crate::sink::{RawPurl, Sink};
use crate::source::{Ancestor, SourceHints};
use crate::{Format, ImageFacts, Limits, SbomError};

/// What a CycloneDX document would have left so far.
pub(crate) struct CycloneDx<'l> {
    pub(crate) sink: Sink<'l>,
    bom_format: Option<String>,
    spec_version: Option<String>,
    root: Root,
    timestamp: Option<String>,
}

/// `metadata.component`: the image, when it is one.
#[derive(Default)]
struct Root {
    kind: Option<String>,
    bom_ref: Option<String>,
    evidence: Evidence,
}

impl<'l> CycloneDx<'l> {
    pub(crate) fn new(limits: &'l Limits) -> Self {
        Self { sink: Sink::new(limits), bom_format: None, spec_version: None, root: Root::default(), timestamp: None }
    }

    /// Takes a top-level member; false when it is none of this format's.
    pub(crate) fn top<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        match key {
            "bomFormat" => self.bom_format = text(map)?,
            "specVersion" => self.spec_version = text(map)?,
            "components" => components(&mut self.sink, 1, map)?,
            "metadata" => object(map, &mut Metadata(self))?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The version, when the document says that it is CycloneDX; an error when it is one of an unknown version.
    pub(crate) fn claim(&self) -> Result<Option<String>, SbomError> {
        if self.bom_format.as_deref() != Some("CycloneDX") {
            return Ok(None);
        }
        let unsupported = |found: String| Err(SbomError::UnsupportedFormat { found });
        match self.spec_version.as_deref() {
            Some(version @ ("1.2" | "1.3" | "1.4" | "1.5" | "1.6" | "1.7")) => Ok(Some(version.to_owned())),
            Some(other) => unsupported(format!("CycloneDX {other}")),
            None => unsupported("CycloneDX without specVersion".to_owned()),
        }
    }

    /// The image, and the components.
    pub(crate) fn finish(self) -> (Format, ImageFacts, Sink<'l>) {
        let Root { kind, bom_ref, mut evidence } = self.root;
        // Some tools repeat the purl, or write it alone, as the component's reference.
        evidence.purls.extend(bom_ref.filter(|bom_ref| evidence.purls.is_empty() && bom_ref.starts_with("pkg:")));
        let is_image = kind.as_deref() == Some("container") || evidence.has_image_purl();
        let mut image = if is_image { evidence.facts() } else { ImageFacts::default() };
        image.generated_at = self.timestamp;
        (Format::CycloneDx, image, self.sink)
    }
}

struct Metadata<'c, 'l>(&'c mut CycloneDx<'l>);

impl<'de> Members<'de> for Metadata<'_, '_> {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "timestamp" => self.0.timestamp = text(map)?,
            "component" => object(map, &mut RootMembers(self.0))?,
            "properties" => list(map, &mut Properties(|name: &str, value: &str| self.0.root.property(name, value)))?,
            _ => skip(map)?,
        }
        Ok(())
    }
}

struct RootMembers<'c, 'l>(&'c mut CycloneDx<'l>);

impl<'de> Members<'de> for RootMembers<'_, '_> {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let CycloneDx { sink, root, .. } = &mut *self.0;
        match key {
            "type" => root.kind = text(map)?,
            "bom-ref" => root.bom_ref = text(map)?,
            "name" => root.evidence.name = text(map)?,
            "version" => root.evidence.version = text(map)?,
            "purl" => root.evidence.purls.extend(text(map)?),
            "properties" => list(map, &mut Properties(|name: &str, value: &str| root.property(name, value)))?,
            "components" => components(sink, 1, map)?,
            _ => skip(map)?,
        }
        Ok(())
    }
}

impl Root {
    fn property(&mut self, name: &str, value: &str) {
        if let Some(field) = name.strip_prefix("aquasecurity:trivy:") {
            self.evidence.trivy(field, value);
        } else if let Some(label) = name.strip_prefix("syft:image:labels:") {
            self.evidence.label(label, value);
        }
    }
}

/// Reads a list of components; `depth` counts from 1.
fn components<'de, A: MapAccess<'de>>(sink: &mut Sink<'_>, depth: usize, map: &mut A) -> Result<(), A::Error> {
    let limit = sink.limits.depth_max;
    if depth > limit {
        return Err(sink.fail(SbomError::TooDeep { limit }));
    }
    if !is_list_or_null(map, &mut Components { sink, depth })? {
        sink.unlisted = Some("components");
    }
    Ok(())
}

struct Components<'s, 'l> {
    sink: &'s mut Sink<'l>,
    depth: usize,
}

impl<'de> Elements<'de> for Components<'_, '_> {
    fn element<A: SeqAccess<'de>>(&mut self, seq: &mut A) -> Result<bool, A::Error> {
        let mut component = Component { sink: self.sink, depth: self.depth, purl: None, hints: SourceHints::default() };
        let Some(is_component) = next_object(seq, &mut component)? else { return Ok(false) };
        let Component { purl, hints, .. } = component;
        match purl {
            Some(purl) => {
                let source = hints.resolve(&purl.text);
                self.sink.push(purl, source)?;
            }
            None if is_component => self.sink.push_without_purl()?,
            None => {}
        }
        Ok(true)
    }
}

struct Component<'s, 'l> {
    sink: &'s mut Sink<'l>,
    depth: usize,
    purl: Option<RawPurl>,
    hints: SourceHints,
}

impl<'de> Members<'de> for Component<'_, '_> {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "purl" => self.purl = self.sink.purl(map)?,
            "properties" => {
                let hints = &mut self.hints;
                list(map, &mut Properties(|name: &str, value: &str| hints.property(name, value)))?;
            }
            "pedigree" => object(map, &mut Pedigree(&mut self.hints))?,
            "components" => components(self.sink, self.depth + 1, map)?,
            _ => skip(map)?,
        }
        Ok(())
    }
}

/// A list of `{name, value}`.
struct Properties<F>(F);

impl<'de, F: FnMut(&str, &str)> Elements<'de> for Properties<F> {
    fn element<A: SeqAccess<'de>>(&mut self, seq: &mut A) -> Result<bool, A::Error> {
        let mut property = Property::default();
        let found = next_object(seq, &mut property)?;
        if let (Some(name), Some(value)) = (&property.name, &property.value) {
            (self.0)(name, value);
        }
        Ok(found.is_some())
    }
}

#[derive(Default)]
struct Property {
    name: Option<String>,
    value: Option<String>,
}

impl<'de> Members<'de> for Property {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "name" => self.name = text(map)?,
            "value" => self.value = text(map)?,
            _ => skip(map)?,
        }
        Ok(())
    }
}

struct Pedigree<'h>(&'h mut SourceHints);

impl<'de> Members<'de> for Pedigree<'_> {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "ancestors" => list(map, &mut Ancestors(self.0)),
            _ => skip(map),
        }
    }
}

struct Ancestors<'h>(&'h mut SourceHints);

impl<'de> Elements<'de> for Ancestors<'_> {
    fn element<A: SeqAccess<'de>>(&mut self, seq: &mut A) -> Result<bool, A::Error> {
        let mut ancestor = Ancestor::default();
        let found = next_object(seq, &mut ancestor)?;
        self.0.ancestor(ancestor);
        Ok(found.is_some())
    }
}

impl<'de> Members<'de> for Ancestor {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "name" => self.name = text(map)?,
            "version" => self.version = text(map)?,
            "purl" => self.purl = text(map)?,
            _ => skip(map)?,
        }
        Ok(())
    }
}
