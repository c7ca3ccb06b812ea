//! How much of a document is taken.

/// Bounds on one document. What lies beyond them is refused, or skipped where the field says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Components, with and without purl, and likewise the entries of each list that is kept.
    pub components_max: usize,
    /// Levels of components within components. Above 60 the JSON parser's own bound of 128 levels comes first.
    pub depth_max: usize,
    /// Bytes of one purl; a longer one is skipped, with its reason.
    pub purl_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { components_max: 1_000_000, depth_max: 60, purl_bytes_max: 4096 }
    }
}
