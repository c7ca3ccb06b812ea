//! Images of the catalog.

use crate::{ImageDigest, TenantId, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where an image lives and what it is called.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ImagePlace {
    /// The registry's host; empty when it is not known.
    pub registry: String,
    /// The repository within it.
    pub repository: String,
    /// Namespaces in which it runs.
    pub namespaces: Vec<String>,
    /// Its tags.
    pub tags: Vec<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// A package in an image.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CatalogComponent {
    /// The purl, canonical.
    #[serde(rename = "p")]
    pub purl: String,
    /// The source package that the SBOM records beside the purl: its name, and its version where one is recorded.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub source: Option<(String, Option<String>)>,
}

/// One image of one tenant, as the catalog keeps it: the truth that every index is a view of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// Whose it is.
    pub tenant: TenantId,
    /// Its name.
    pub digest: ImageDigest,
    /// Where it lives.
    pub place: ImagePlace,
    /// Its packages, each once, sorted by purl.
    pub components: Vec<CatalogComponent>,
    /// Positions in `components` of what the entrypoint uses, ascending; `None`: not known, everything counts.
    pub used: Option<Vec<u32>>,
    /// Components of the document that have no purl.
    pub no_purl: u64,
    /// When the document was made, by its own word.
    pub generated_at: Option<Timestamp>,
    /// When it was taken.
    pub updated_at: Timestamp,
    /// The sequence number of the change that put it here.
    pub sequence: u64,
}

impl Image {
    /// How many components count as used.
    pub fn used_len(&self) -> usize {
        self.used.as_ref().map_or(self.components.len(), Vec::len)
    }
}
