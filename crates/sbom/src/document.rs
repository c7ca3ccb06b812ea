//! What a reader hands on, whatever the format was.

use std::collections::BTreeMap;
use std::fmt;

use roaring::RoaringBitmap;

/// The formats that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// BOM-Index sidecar, `bom-index@1`.
    BomIndex,
    /// CycloneDX JSON 1.2 to 1.7.
    CycloneDx,
    /// SPDX JSON 2.2 and 2.3.
    Spdx2,
    /// SPDX 3.0 JSON-LD with an `@graph`.
    Spdx3,
    /// Syft JSON.
    Syft,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BomIndex => "BOM-Index",
            Self::CycloneDx => "CycloneDX",
            Self::Spdx2 | Self::Spdx3 => "SPDX",
            Self::Syft => "Syft",
        })
    }
}

/// One document, reduced to what the catalog needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The format that the content showed.
    pub format: Format,
    /// The version that the document states, as written without prefix: `1.6`, `2.3`, `3.0.1`, `16.0.18`.
    pub spec_version: Option<String>,
    /// The image that the document describes, as far as it says.
    pub image: ImageFacts,
    /// Components with a purl, repeated ones included. Of a sidecar: exactly the entries of `purls`, in order.
    pub components: Vec<RawComponent>,
    /// Components without a purl; the image itself is not counted.
    pub no_purl: u64,
    /// Which components the entrypoint uses.
    pub usage: Usage,
    /// What a person should know about the document, though it was read.
    pub notes: Vec<Note>,
}

/// A component as the document lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawComponent {
    /// The purl as written, not parsed. With a `problem`: an excerpt that tells the entry apart.
    pub purl: String,
    /// The source package that the document records for a `deb`, `rpm` or `apk` component.
    pub source: Option<SourceRecord>,
    /// Why the entry cannot be a purl; such an entry only keeps its position.
    pub problem: Option<PurlProblem>,
}

/// A distribution's source package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRecord {
    /// Its name, never empty.
    pub name: String,
    /// Its version, an epoch as prefix; absent: not recorded, the component's own version stands for it.
    pub version: Option<String>,
}

/// Why an entry was not taken as a purl.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PurlProblem {
    /// The entry is no JSON string.
    NotAString,
    /// The entry is longer than [`Limits::purl_bytes_max`](crate::Limits::purl_bytes_max).
    TooLong,
}

impl fmt::Display for PurlProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAString => "purl is not a string",
            Self::TooLong => "purl is too long",
        })
    }
}

/// The image that a document is about. Empty where the document does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageFacts {
    /// `sha256:` and 64 hex digits; of a sidecar whatever stands in `imageDigest`.
    pub digest: Option<String>,
    /// Host, and port where written: `registry.example.com:5000`.
    pub registry: Option<String>,
    /// Path below the registry: `shop/cart`.
    pub repository: Option<String>,
    /// Namespaces; only sidecars state them.
    pub namespaces: Vec<String>,
    /// Tags without repeats, in the document's order.
    pub tags: Vec<String>,
    /// Image labels.
    pub labels: BTreeMap<String, String>,
    /// When the document was made, as written.
    pub generated_at: Option<String>,
    /// The image's own purls (`pkg:oci/…`), which are no components.
    pub purls: Vec<String>,
}

/// Which components the image's entrypoint uses.
#[derive(Clone, Debug, PartialEq)]
pub enum Usage {
    /// Not stated: every component counts as used.
    Unknown,
    /// Positions in [`Document::components`]; each is below its length.
    Known(RoaringBitmap),
}

/// A remark on a document that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// The document lists no component at all.
    NoComponents,
    /// It lists components, but none has a purl, so no key can ever match the image.
    NoPurls,
    /// It describes so many images; the first one gave the facts.
    SeveralImages(usize),
    /// So many relations lead into other SPDX documents, which are not read.
    ExternalReferences(u64),
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoComponents => f.write_str("the document lists no components"),
            Self::NoPurls => f.write_str("no component of the document has a purl"),
            Self::SeveralImages(count) => {
                write!(f, "the document describes {count} images; the first one was taken")
            }
            Self::ExternalReferences(count) => {
                write!(f, "{count} relations into other documents were not followed")
            }
        }
    }
}
