//! SPDX 3.0 JSON-LD: the `software_Package` elements of `@graph`.

use serde::de::{MapAccess, SeqAccess};

use crate::evidence::Evidence;
use crate::lenient::{Any, Elements, Handle, Members, is_list, list, next_object, skip, text};
use crate::sink::{RawPurl, Sink};
use crate::source::SourceHints;
use crate::spdx2::{Candidate, Roots};
use crate::{Format, ImageFacts, Limits, SbomError};

/// What an SPDX 3 document would have left so far.
pub(crate) struct Spdx3<'l> {
    pub(crate) sink: Sink<'l>,
    /// The version in the address of the JSON-LD context, when that is SPDX's.
    context: Option<String>,
    /// The version that a `CreationInfo` states.
    stated: Option<String>,
    has_graph: bool,
    created: Option<String>,
    images: Roots,
}

impl<'l> Spdx3<'l> {
    pub(crate) fn new(limits: &'l Limits) -> Self {
        Self {
            sink: Sink::new(limits),
            context: None,
            stated: None,
            has_graph: false,
            created: None,
            images: Roots::default(),
        }
    }

    /// Takes a top-level member; false when it is none of this format's. `@context` is the caller's, who tells other
    /// JSON-LD documents by it too.
    pub(crate) fn top<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        match key {
            "@graph" => self.has_graph |= is_list(map, &mut Graph(self))?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Takes an address of `@context`; the specification has lived at two.
    pub(crate) fn context(&mut self, address: &str) {
        if let Some((_, rest)) = address.split_once("spdx.org/rdf/").or_else(|| address.split_once("spdx-spec/v")) {
            self.context = rest.split('/').next().map(str::to_owned);
        }
    }

    /// The version, when the document is an SPDX 3 graph; an error when it is one of an unknown version.
    pub(crate) fn claim(&self) -> Result<Option<String>, SbomError> {
        let unsupported = |found: String| Err(SbomError::UnsupportedFormat { found });
        let known = self.stated.as_ref().filter(|_| self.has_graph).or(self.context.as_ref());
        match known {
            None => Ok(None),
            Some(version) if version != "3.0" && !version.starts_with("3.0.") => unsupported(format!("SPDX {version}")),
            Some(_) if !self.has_graph => unsupported("SPDX 3 without @graph".to_owned()),
            Some(version) => Ok(Some(version.clone())),
        }
    }

    /// The image, the components and the number of images described.
    pub(crate) fn finish(mut self) -> (Format, ImageFacts, Sink<'l>, usize) {
        let (mut image, count) = self.images.take(&mut self.sink);
        image.generated_at = self.created;
        (Format::Spdx3, image, self.sink, count)
    }

    fn add<E: serde::de::Error>(&mut self, node: Node) -> Result<(), E> {
        match node.kind {
            Kind::Package => self.add_package(node),
            Kind::CreationInfo => {
                self.stated = self.stated.take().or(node.spec_version);
                self.created = self.created.take().or(node.created);
                Ok(())
            }
            Kind::Collection => self.describe(node.root_elements),
            Kind::Relationship if node.relation.as_deref() == Some("describes") => self.describe(node.to),
            Kind::Relationship | Kind::Other => Ok(()),
        }
    }

    fn describe<E: serde::de::Error>(&mut self, ids: Vec<String>) -> Result<(), E> {
        self.sink.room(self.images.described.len(), "described elements")?;
        self.images.described.extend(ids);
        Ok(())
    }

    fn add_package<E: serde::de::Error>(&mut self, mut node: Node) -> Result<(), E> {
        // The same purl often stands in both places.
        let mut purls: Vec<RawPurl> = Vec::new();
        for purl in node.package_url.into_iter().chain(node.identifiers) {
            if !purls.iter().any(|known| known.text == purl.text) {
                purls.push(purl);
            }
        }
        node.evidence.purls = purls.iter().map(|purl| purl.text.clone()).collect();
        let from = self.sink.components.len();
        if purls.is_empty() {
            self.sink.push_without_purl()?;
        }
        for purl in purls {
            let source = node.hints.resolve(&purl.text);
            self.sink.push(purl, source)?;
        }
        let is_image = node.container || node.evidence.has_image_purl();
        if let Some(id) = node.id.filter(|_| is_image) {
            let to = self.sink.components.len();
            self.images.candidates.push(Candidate { id, evidence: node.evidence, from, to });
        }
        Ok(())
    }
}

struct Graph<'s, 'l>(&'s mut Spdx3<'l>);

impl<'de> Elements<'de> for Graph<'_, '_> {
    fn element<A: SeqAccess<'de>>(&mut self, seq: &mut A) -> Result<bool, A::Error> {
        let mut element = Element { sink: &mut self.0.sink, node: Node::default() };
        let found = next_object(seq, &mut element)?;
        let node = element.node;
        if found == Some(true) {
            self.0.add(node)?;
        }
        Ok(found.is_some())
    }
}

/// Which kind of element a node is; subclasses as AI packages are none of ours.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    Package,
    CreationInfo,
    /// Names root elements.
    Collection,
    Relationship,
    #[default]
    Other,
}

impl Kind {
    /// From a type name: plain, with a prefix, or as an address.
    fn of(name: &str) -> Self {
        if matches!(name, "software_Package" | "software:Package") || name.ends_with("/Software/Package") {
            return Self::Package;
        }
        match name.rsplit(['/', ':', '_']).next() {
            Some("CreationInfo") => Self::CreationInfo,
            Some("SpdxDocument" | "Sbom" | "Bom") => Self::Collection,
            Some("Relationship" | "LifecycleScopedRelationship") => Self::Relationship,
            _ => Self::Other,
        }
    }
}

/// The members of a graph's element, of whatever kind; the type may come last.
#[derive(Default)]
struct Node {
    kind: Kind,
    id: Option<String>,
    container: bool,
    package_url: Option<RawPurl>,
    identifiers: Vec<RawPurl>,
    hints: SourceHints,
    evidence: Evidence,
    spec_version: Option<String>,
    created: Option<String>,
    root_elements: Vec<String>,
    relation: Option<String>,
    to: Vec<String>,
}

struct Element<'s, 'l> {
    sink: &'s mut Sink<'l>,
    node: Node,
}

impl<'de> Members<'de> for Element<'_, '_> {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let Self { sink, node } = self;
        // Profiles prefix their members with their name; the prefix is a separator away from being a CURIE.
        match key.strip_prefix("software_").or_else(|| key.strip_prefix("software:")).unwrap_or(key) {
            "type" | "@type" => node.kind = map.next_value_seed(Any(TypeName))?,
            "spdxId" | "@id" => node.id = text(map)?,
            "packageUrl" => node.package_url = sink.purl(map)?,
            "externalIdentifier" => list(map, &mut Identifiers { sink, purls: &mut node.identifiers })?,
            "primaryPurpose" => node.container = text(map)?.as_deref() == Some("container"),
            "packageVersion" => node.evidence.version = text(map)?,
            "sourceInfo" => node.hints.source_info(text(map)?.as_deref().unwrap_or_default()),
            "name" => node.evidence.name = text(map)?,
            "specVersion" => node.spec_version = text(map)?,
            "created" => node.created = text(map)?,
            "rootElement" => sink.strings(map, &mut node.root_elements, "root elements")?,
            "relationshipType" => node.relation = text(map)?,
            "to" => sink.strings(map, &mut node.to, "ends of a relation")?,
            _ => skip(map)?,
        }
        Ok(())
    }
}

/// A type name, or a list of them of which one is of interest.
struct TypeName;

impl<'de> Handle<'de> for TypeName {
    type Out = Kind;

    fn other(self) -> Kind {
        Kind::Other
    }

    fn text(self, text: &str) -> Kind {
        Kind::of(text)
    }

    fn list<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Kind, A::Error> {
        let mut kind = Kind::Other;
        while let Some(found) = seq.next_element_seed(Any(TypeName))? {
            if found != Kind::Other {
                kind = found;
            }
        }
        Ok(kind)
    }
}

struct Identifiers<'s, 'l> {
    sink: &'s mut Sink<'l>,
    purls: &'s mut Vec<RawPurl>,
}

impl<'de> Elements<'de> for Identifiers<'_, '_> {
    fn element<A: SeqAccess<'de>>(&mut self, seq: &mut A) -> Result<bool, A::Error> {
        let mut identifier = Identifier { sink: self.sink, kind: None, value: None };
        let found = next_object(seq, &mut identifier)?;
        let Identifier { kind, value, .. } = identifier;
        let is_purl = kind
            .as_deref()
            .and_then(|kind| kind.rsplit(['/', ':']).next())
            .is_some_and(|kind| matches!(kind, "packageUrl" | "packageURL" | "purl"));
        if let Some(purl) = value.filter(|_| is_purl) {
            self.sink.room(self.purls.len(), "purls of a package")?;
            self.purls.push(purl);
        }
        Ok(found.is_some())
    }
}

struct Identifier<'s, 'l> {
    sink: &'s Sink<'l>,
    kind: Option<String>,
    value: Option<RawPurl>,
}

impl<'de> Members<'de> for Identifier<'_, '_> {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "externalIdentifierType" => self.kind = text(map)?,
            "identifier" => self.value = self.sink.purl(map)?,
            _ => skip(map)?,
        }
        Ok(())
    }
}
