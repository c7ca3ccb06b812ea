use crate::ImageRef;
use roaring::RoaringBitmap;
use scheduler_model::purl::ProductKey;
use scheduler_model::{ImageDigest, ImagePlace, Selection, TenantId};
use scheduler_versions::Ranges;
use std::sync::Arc;

/// When the index changes the way it keeps something. The defaults are for catalogs of any size; tests inject small ones.
#[derive(Debug, Clone)]
pub struct Thresholds {
    /// Whether a set of one posting is kept in place.
    pub one_in_place: bool,
    /// A set of fewer postings is never kept as bits.
    pub dense_len_min: u32,
    /// A set that has one in so many of the ordinals is kept as bits; at half of that it goes back.
    pub dense_one_in: u32,
    /// Longer lists, and bits, come in pages of so many words; a power of two.
    pub page_words: u32,
    /// Fewer retired ordinals than this start no compaction.
    pub compact_retired_min: u32,
    /// A compaction starts when more than so many percent of the ordinals are retired.
    pub compact_percent: u32,
    /// Stored segments beyond this are merged into one at the next checkpoint.
    pub segments_max: usize,
    /// A stored value is ended at this length.
    pub chunk_bytes: usize,
    /// How many elements the first piece of each table has; further ones double.
    pub piece_len: u32,
    /// So many changes are applied before readers see them.
    pub changes_per_edition: usize,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            one_in_place: true,
            dense_len_min: 64,
            dense_one_in: 20,
            page_words: 256,
            compact_retired_min: 4096,
            compact_percent: 25,
            segments_max: 128,
            chunk_bytes: 256 * 1024,
            piece_len: 256,
            changes_per_edition: 64,
        }
    }
}

/// One change of the catalog.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    /// Its sequence number in the catalog, from 1.
    pub sequence: u64,
    /// The timeline of the catalog that the change belongs to; 0 when it is not known.
    pub timeline: u64,
    /// Whose image.
    pub tenant: &'a TenantId,
    /// The image.
    pub digest: &'a ImageDigest,
    /// What it is now; `None`: it is gone.
    pub put: Option<PutImage<'a>>,
}

/// An image as it is put.
#[derive(Debug, Clone, Copy)]
pub struct PutImage<'a> {
    /// Where it lives.
    pub place: &'a ImagePlace,
    /// Its packages, as positions in the list that is given with the changes; one that occurs twice counts once, and as
    /// used if one of the two is. A position beyond the list is no package.
    pub components: &'a [u32],
    /// Positions in `components` of what is used, in any order; `None`: not known, everything counts as used.
    pub used: Option<&'a [u32]>,
}

/// Which images a set of keys touches.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// Whose images.
    pub tenant: &'a TenantId,
    /// Which of them.
    pub selection: &'a Selection,
    /// What changed; `None`: every image of the selection.
    pub keys: Option<&'a [QueryKey]>,
    /// Only images that use the package; without keys it has no effect.
    pub usage_only: bool,
}

/// A changed key, ready to be looked up.
#[derive(Debug, Clone)]
pub struct QueryKey {
    /// The key.
    pub key: ProductKey,
    /// Only images that contain this too, under the same rule of use.
    pub subcomponent: Option<ProductKey>,
    /// The images that the key names itself; see [`ImageRef::of`].
    pub image: Option<ImageRef>,
    /// The versions that the change is about: packages of versions that are surely others do not count. A key that names a
    /// version says itself which one, and one with a subcomponent is a claim, not a range: for these it has no effect.
    pub affected: Option<Arc<Ranges>>,
}

impl QueryKey {
    /// A key with, of a claim, its subcomponent. A key of type `oci` names images itself too.
    pub fn new(key: ProductKey, subcomponent: Option<ProductKey>) -> Self {
        Self { image: ImageRef::of(&key), key, subcomponent, affected: None }
    }

    /// The ranges that narrow the key, where they have an effect.
    pub(crate) fn ranges(&self) -> Option<&Ranges> {
        let has_effect = self.key.version().is_none() && self.subcomponent.is_none();
        self.affected.as_deref().filter(|_| has_effect)
    }
}

/// What of an answer is wanted besides its counts and its set.
#[derive(Debug, Clone, Copy, Default)]
pub struct Want {
    /// So many images with the keys that matched them.
    pub sample: usize,
    /// So many of the keys that touch a selected image, with what they found.
    pub explain: usize,
    /// So many of the repositories with the most candidates.
    pub by_repository: usize,
    /// The digests of all candidates.
    pub digests: bool,
}

/// The answer to a [`Query`], as of one sequence.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Resolution {
    /// Images that the keys touch.
    pub candidates: u64,
    /// Images that the keys would touch if no range narrowed them, less the candidates.
    pub narrowed_away: u64,
    /// Images under the selection.
    pub total: u64,
    /// Keys that some image of the tenant has, under whatever selection, used or not, or that name an image.
    pub keys_matched: u64,
    /// The other keys.
    pub keys_unknown: u64,
    /// The catalog change that the answer is as of.
    pub sequence: u64,
    /// The generation that the ordinals are of.
    pub generation: u64,
    /// The candidates' ordinals.
    pub images: RoaringBitmap,
    /// The candidates, ascending by digest; empty unless wanted.
    pub digests: Vec<SelectedImage>,
    /// The repositories with the most candidates, the largest first and by name among equals.
    pub by_repository: Vec<(String, u64)>,
    /// The first keys that touch a selected image or, but for their ranges, would.
    pub explain: Vec<KeyMatch>,
    /// The candidates that came first.
    pub sample: Vec<Sample>,
}

/// A candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectedImage {
    /// The image.
    pub digest: ImageDigest,
    /// Its repository.
    pub repository: String,
}

/// An image as the index knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageInfo {
    /// The image.
    pub digest: ImageDigest,
    /// The registry's host; empty when not known.
    pub registry: String,
    /// The repository.
    pub repository: String,
    /// Its tags.
    pub tags: Vec<String>,
}

/// A candidate with the reasons for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The image.
    pub image: ImageInfo,
    /// Positions in the query's keys, ascending.
    pub matched_keys: Vec<usize>,
    /// What the keys found in it; the first [`Sample::MATCHES_MAX`].
    pub matches: Vec<SampleMatch>,
}

impl Sample {
    /// The most matches of one image.
    pub const MATCHES_MAX: usize = 20;
}

/// What a key found in an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleMatch {
    /// The position in the query's keys.
    pub key: usize,
    /// The package; `None`: the key names the image itself.
    pub found: Option<Found>,
}

/// A package that a key has found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// The package in match form.
    pub purl: String,
    /// Its source package, when it was found as that.
    pub source: Option<String>,
    /// How.
    pub how: Vec<Way>,
}

/// How a key finds something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// By the version that it names.
    Exact,
    /// In every version, or in every one that its ranges leave.
    AllVersions,
    /// In every namespace: it names none.
    AnyNamespace,
    /// As the source package of what was found.
    SourcePackage,
    /// As the image itself.
    Image,
}

impl Way {
    /// The word for it in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::AllVersions => "all-versions",
            Self::AnyNamespace => "any-namespace",
            Self::SourcePackage => "source-package",
            Self::Image => "image",
        }
    }
}

/// What a key found under a selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyMatch {
    /// The position in the query's keys.
    pub key: usize,
    /// In which ways, ascending.
    pub how: Vec<Way>,
    /// How many of the selected images.
    pub images: u64,
    /// How many more it would have found without its ranges.
    pub narrowed_away: u64,
    /// The packages with the most of these images, the largest first and by name among equals; the first [`KeyMatch::PACKAGES_MAX`].
    pub packages: Vec<PackageCount>,
    /// How many packages there are.
    pub packages_total: u64,
}

impl KeyMatch {
    /// The most packages of one key.
    pub const PACKAGES_MAX: usize = 20;
}

/// A package with how many of the selected images have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageCount {
    /// The package.
    pub package: Found,
    /// The images.
    pub images: u64,
}

/// How large an index is and how far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexStats {
    /// Live images.
    pub images: u64,
    /// Ordinals of images that were replaced or deleted and wait for a compaction.
    pub retired: u64,
    /// Distinct packages with version and source.
    pub components: u64,
    /// (image, package) pairs, those of retired images included.
    pub postings: u64,
    /// Memory that the tables take, estimated from their capacities.
    pub bytes: u64,
    /// Counts compactions and resets.
    pub generation: u64,
    /// The last catalog change that is in it.
    pub sequence: u64,
    /// The last catalog change that is in its checkpoint; 0 without one.
    pub checkpointed: u64,
}

/// In which ways an index keeps its sets of images: how many of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shapes {
    /// One image, in the place of the set itself.
    pub in_place: u64,
    /// A list in one block; empty ones are among them.
    pub lists: u64,
    /// A list in pages.
    pub paged: u64,
    /// Bits in pages.
    pub bits: u64,
}
