//! SPDX JSON 2.2 and 2.3: `packages`, and the image among them that the document describes.

use std::collections::HashSet;

use serde::de::{MapAccess, SeqAccess};

use crate::evidence::Evidence;
use crate::lenient::{Any, Elements, Members, Text, is_list_or_null, list, next_object, object, skip, text};
use crate::reference::Reference;
use crate::sink::{RawPurl, Sink};
use crate::source::SourceHints;
use crate::{Format, ImageFacts, Limits, SbomError};

const DOCUMENT: &str = "SPDXRef-DOCUMENT";

/// What an SPDX 2 document would have left so far.
pub(crate) struct Spdx2<'l> {
    pub(crate) sink: Sink<'l>,
    version: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
    created: Option<String>,
    images: Roots,
    external: u64,
}

/// The packages that could be the described image, and what is described; relations come before or after packages.
#[derive(Default)]
pub(crate) struct Roots {
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) described: HashSet<String>,
}

/// A package that is an image. It becomes the root when the document describes it, and else stays a component.
pub(crate) struct Candidate {
    pub(crate) id: String,
    pub(crate) evidence: Evidence,
    /// Where its purls stand among the components.
    pub(crate) from: usize,
    pub(crate) to: usize,
}

impl Roots {
    /// Takes the described images out of the components; gives the first one's facts and how many there are.
    pub(crate) fn take(self, sink: &mut Sink<'_>) -> (ImageFacts, usize) {
        let described = self.described;
        let roots: Vec<Candidate> =
            self.candidates.into_iter().filter(|candidate| described.contains(&candidate.id)).collect();
        let mut spans = roots.iter().map(|root| root.from..root.to).peekable();
        let mut position = 0;
        sink.components.retain(|_| {
            while spans.next_if(|span| span.end <= position).is_some() {}
            let is_root = spans.peek().is_some_and(|span| span.contains(&position));
            position += 1;
            !is_root
        });
        let without_purl = roots.iter().filter(|root| root.from == root.to).count();
        sink.no_purl = sink.no_purl.saturating_sub(u64::try_from(without_purl).unwrap_or(u64::MAX));
        let count = roots.len();
        (roots.into_iter().next().map(|root| root.evidence.facts()).unwrap_or_default(), count)
    }
}

impl<'l> Spdx2<'l> {
    pub(crate) fn new(limits: &'l Limits) -> Self {
        Self {
            sink: Sink::new(limits),
            version: None,
            name: None,
            namespace: None,
            created: None,
            images: Roots::default(),
            external: 0,
        }
    }

    /// Takes a top-level member; false when it is none of this format's.
    pub(crate) fn top<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        match key {
            "spdxVersion" => self.version = text(map)?,
            "name" => self.name = text(map)?,
            "documentNamespace" => self.namespace = text(map)?,
            "creationInfo" => object(map, &mut CreationInfo(&mut self.created))?,
            "packages" => {
                if !is_list_or_null(map, &mut Packages(self))? {
                    self.sink.unlisted = Some("packages");
                }
            }
            "documentDescribes" => list(map, &mut Describes(self))?,
            "relationships" => list(map, &mut Relationships(self))?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The version, when the document says that it is SPDX 2; an error when it is one of an unknown version.
    pub(crate) fn claim(&self) -> Result<Option<String>, SbomError> {
        let Some(stated) = &self.version else { return Ok(None) };
        match stated.strip_prefix("SPDX-") {
            Some(version @ ("2.2" | "2.3")) => Ok(Some(version.to_owned())),
            Some(other) => Err(SbomError::UnsupportedFormat { found: format!("SPDX {other}") }),
            None => Err(SbomError::UnsupportedFormat { found: format!("SPDX with spdxVersion {stated}") }),
        }
    }

    /// The image, the components, the number of images described and of relations into other documents.
    pub(crate) fn finish(mut self) -> (Format, ImageFacts, Sink<'l>, usize, u64) {
        let (mut image, count) = self.images.take(&mut self.sink);
        if count == 0
            && let Some(reference) = named_by_tool(self.namespace.as_deref(), self.name.as_deref())
        {
            image.digest = reference.digest;
            image.registry = reference.registry;
            image.repository = Some(reference.repository);
        }
        image.generated_at = self.created;
        (Format::Spdx2, image, self.sink, count, self.external)
    }

    fn describe<E: serde::de::Error>(&mut self, id: String) -> Result<(), E> {
        if id != DOCUMENT {
            self.sink.room(self.images.described.len(), "described elements")?;
            self.images.described.insert(id);
        }
        Ok(())
    }
}

/// Syft and Trivy once named the image in the document alone. A name with a digest is exact; Syft joins a tag with a dash,
/// which nothing can take apart.
fn named_by_tool(namespace: Option<&str>, name: Option<&str>) -> Option<Reference> {
    let of_image = ["/syft/image/", "/container_image/"].iter().any(|part| namespace.is_some_and(|n| n.contains(part)));
    Reference::parse(name.filter(|_| of_image)?).filter(|reference| reference.digest.is_some())
}

struct CreationInfo<'c>(&'c mut Option<String>);

impl<'de> Members<'de> for CreationInfo<'_> {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "created" => *self.0 = text(map)?,
            _ => skip(map)?,
        }
        Ok(())
    }
}

struct Describes<'s, 'l>(&'s mut Spdx2<'l>);

impl<'de> Elements<'de> for Describes<'_, '_> {
    fn element<A: SeqAccess<'de>>(&mut self, seq: &mut A) -> Result<bool, A::Error> {
        let Some(found) = seq.next_element_seed(Any(Text))? else { return Ok(false) };
        if let Some(id) = found {
            self.0.describe(id)?;
        }
        Ok(true)
    }
}

struct Relationships<'s, 'l>(&'s mut Spdx2<'l>);

impl<'de> Elements<'de> for Relationships<'_, '_> {
    fn element<A: SeqAccess<'de>>(&mut self, seq: &mut A) -> Result<bool, A::Error> {
        let mut relation = Relationship::default();
        let found = next_object(seq, &mut relation)?;
        // The ends of all other relations, as NOASSERTION and NONE, do not matter.
        let Relationship { from, to, kind } = relation;
        if [&from, &to].into_iter().flatten().any(|end| end.starts_with("DocumentRef-")) {
            self.0.external += 1;
        }
        if let (Some(from), Some(to), Some(kind)) = (from, to, kind) {
            match kind.as_str() {
                // Trivy before 0.40 wrote the word without its last letter.
                "DESCRIBES" | "DESCRIBE" if from == DOCUMENT => self.0.describe(to)?,
                "DESCRIBED_BY" if to == DOCUMENT => self.0.describe(from)?,
                _ => {}
            }
        }
        Ok(found.is_some())
    }
}

#[derive(Default)]
struct Relationship {
    from: Option<String>,
    to: Option<String>,
    kind: Option<String>,
}

impl<'de> Members<'de> for Relationship {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "spdxElementId" => self.from = text(map)?,
            "relatedSpdxElement" => self.to = text(map)?,
            "relationshipType" => self.kind = text(map)?,
            _ => skip(map)?,
        }
        Ok(())
    }
}

struct Packages<'s, 'l>(&'s mut Spdx2<'l>);

impl<'de> Elements<'de> for Packages<'_, '_> {
    fn element<A: SeqAccess<'de>>(&mut self, seq: &mut A) -> Result<bool, A::Error> {
        let Spdx2 { sink, images, .. } = &mut *self.0;
        let mut package = Package::new(sink);
        let Some(is_package) = next_object(seq, &mut package)? else { return Ok(false) };
        let Package { id, container, purls, hints, mut evidence, .. } = package;
        if !is_package {
            return Ok(true);
        }
        evidence.purls = purls.iter().map(|purl| purl.text.clone()).collect();
        let from = sink.components.len();
        if purls.is_empty() {
            sink.push_without_purl()?;
        }
        for purl in purls {
            let source = hints.resolve(&purl.text);
            sink.push(purl, source)?;
        }
        let is_image = container || evidence.has_image_purl();
        if let Some(id) = id.filter(|_| is_image) {
            images.candidates.push(Candidate { id, evidence, from, to: sink.components.len() });
        }
        Ok(true)
    }
}

struct Package<'s, 'l> {
    sink: &'s mut Sink<'l>,
    id: Option<String>,
    container: bool,
    purls: Vec<RawPurl>,
    hints: SourceHints,
    evidence: Evidence,
}

impl<'s, 'l> Package<'s, 'l> {
    fn new(sink: &'s mut Sink<'l>) -> Self {
        Self {
            sink,
            id: None,
            container: false,
            purls: Vec::new(),
            hints: SourceHints::default(),
            evidence: Evidence::default(),
        }
    }
}

impl<'de> Members<'de> for Package<'_, '_> {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "SPDXID" => {
                self.id = text(map)?;
                // How Trivy marked an image before SPDX had a word for it.
                self.container |= self.id.as_deref().is_some_and(|id| id.starts_with("SPDXRef-ContainerImage"));
            }
            "primaryPackagePurpose" => self.container |= text(map)?.as_deref() == Some("CONTAINER"),
            "name" => self.evidence.name = text(map)?,
            "versionInfo" => self.evidence.version = text(map)?,
            "sourceInfo" => self.hints.source_info(text(map)?.as_deref().unwrap_or_default()),
            "attributionTexts" => list(map, &mut Attributions(&mut self.evidence))?,
            "annotations" => list(map, &mut Annotations(&mut self.evidence))?,
            "externalRefs" => list(map, &mut ExternalRefs { sink: self.sink, purls: &mut self.purls })?,
            _ => skip(map)?,
        }
        Ok(())
    }
}

/// Lines `NAME: VALUE`, as Trivy writes them.
struct Attributions<'e>(&'e mut Evidence);

impl<'de> Elements<'de> for Attributions<'_> {
    fn element<A: SeqAccess<'de>>(&mut self, seq: &mut A) -> Result<bool, A::Error> {
        let Some(found) = seq.next_element_seed(Any(Text))? else { return Ok(false) };
        attribution(self.0, found.as_deref());
        Ok(true)
    }
}

/// The same lines as comments of annotations, where newer versions put them.
struct Annotations<'e>(&'e mut Evidence);

impl<'de> Elements<'de> for Annotations<'_> {
    fn element<A: SeqAccess<'de>>(&mut self, seq: &mut A) -> Result<bool, A::Error> {
        let mut comment = Comment::default();
        let found = next_object(seq, &mut comment)?;
        attribution(self.0, comment.0.as_deref());
        Ok(found.is_some())
    }
}

fn attribution(evidence: &mut Evidence, line: Option<&str>) {
    if let Some((name, value)) = line.and_then(|line| line.split_once(": ")) {
        evidence.trivy(name, value);
    }
}

#[derive(Default)]
struct Comment(Option<String>);

impl<'de> Members<'de> for Comment {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "comment" => self.0 = text(map)?,
            _ => skip(map)?,
        }
        Ok(())
    }
}

struct ExternalRefs<'s, 'l> {
    sink: &'s mut Sink<'l>,
    purls: &'s mut Vec<RawPurl>,
}

impl<'de> Elements<'de> for ExternalRefs<'_, '_> {
    fn element<A: SeqAccess<'de>>(&mut self, seq: &mut A) -> Result<bool, A::Error> {
        let mut reference = ExternalRef { sink: self.sink, kind: None, locator: None };
        let found = next_object(seq, &mut reference)?;
        // The type alone decides: the category is spelled in two ways, and wrongly besides.
        let ExternalRef { kind, locator, .. } = reference;
        let is_purl = kind.is_some_and(|kind| kind == "purl" || kind.ends_with("/purl"));
        if let Some(purl) = locator.filter(|_| is_purl) {
            self.sink.room(self.purls.len(), "purls of a package")?;
            self.purls.push(purl);
        }
        Ok(found.is_some())
    }
}

struct ExternalRef<'s, 'l> {
    sink: &'s Sink<'l>,
    kind: Option<String>,
    locator: Option<RawPurl>,
}

impl<'de> Members<'de> for ExternalRef<'_, '_> {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "referenceType" => self.kind = text(map)?,
            "referenceLocator" => self.locator = self.sink.purl(map)?,
            _ => skip(map)?,
        }
        Ok(())
    }
}
