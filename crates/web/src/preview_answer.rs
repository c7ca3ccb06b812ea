//! The answer of a preview, made of the index's.

use crate::view::IndexStateView;
use scheduler_impact_index as index;
use scheduler_impact_index::Resolution;
use scheduler_model::ImageDigest;
use serde::Serialize;
use utoipa::ToSchema;

/// What a run would touch.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviewAnswer {
    /// Images that the keys touch under the selection.
    candidates: u64,
    /// Images that the keys would touch too if no range narrowed them.
    narrowed_away: u64,
    /// Images under the selection.
    total: u64,
    /// Distinct keys that some component of the tenant's catalog has; spellings of one package URL are one key.
    keys_matched: u64,
    /// The other distinct keys.
    keys_unknown: u64,
    /// What the first keys that touch something found; keys that ranges narrow to nothing too.
    explain: Vec<KeyExplained>,
    sample: Vec<SampleImage>,
    /// The largest, at most 100.
    by_repository: Vec<RepositoryCount>,
    projected: Projection,
    index_state: IndexStateView,
    /// The last catalog change that the answer knows.
    as_of_sequence: u64,
    elapsed_ms: f64,
}

/// One of the images.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct SampleImage {
    image_digest: ImageDigest,
    repository: String,
    tags: Vec<String>,
    /// Keys that it was found by, each in the spelling that was sent first.
    matched_keys: Vec<String>,
    /// What they found in it; at most 20.
    matches: Vec<MatchExplained>,
}

/// What a key found in an image.
#[derive(Debug, Serialize, ToSchema)]
struct MatchExplained {
    key: String,
    #[serde(flatten)]
    package: PackageFound,
}

/// What a key found under the selection.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct KeyExplained {
    /// In the spelling that was sent first.
    key: String,
    how: Vec<Way>,
    /// How many of the selected images.
    images: u64,
    /// How many more it would have found without its ranges.
    narrowed_away: u64,
    /// The packages that most of these images have; at most 20.
    packages: Vec<PackageExplained>,
    /// How many packages there are.
    packages_total: u64,
}

/// A package that a key found, with how many of the selected images have it.
#[derive(Debug, Serialize, ToSchema)]
struct PackageExplained {
    #[serde(flatten)]
    package: PackageFound,
    images: u64,
}

/// A package that a key found.
#[derive(Debug, Serialize, ToSchema)]
struct PackageFound {
    /// The package in match form: an epoch is a prefix of the version, qualifiers are left out. Null: the image itself.
    purl: Option<String>,
    /// The source package, when it was found by that.
    source: Option<String>,
    how: Vec<Way>,
}

/// How a key finds something: by the version that it names, in all versions (that its ranges leave), in any namespace since it
/// names none, as the source package of what was found, or as the image itself.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum Way {
    Exact,
    AllVersions,
    AnyNamespace,
    SourcePackage,
    Image,
}

impl From<index::Way> for Way {
    fn from(way: index::Way) -> Self {
        match way {
            index::Way::Exact => Self::Exact,
            index::Way::AllVersions => Self::AllVersions,
            index::Way::AnyNamespace => Self::AnyNamespace,
            index::Way::SourcePackage => Self::SourcePackage,
            index::Way::Image => Self::Image,
        }
    }
}

/// How many of a repository's images.
#[derive(Debug, Serialize, ToSchema)]
struct RepositoryCount {
    repository: String,
    candidates: u64,
}

/// What the tenant's last runs let expect.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Projection {
    /// Images with news.
    pub deltas: u64,
    /// KEV hits.
    pub kev: u64,
    /// Where the numbers come from.
    pub basis: Basis,
}

/// What a projection is made of.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// The tenant's last runs.
    History,
    /// Nothing: there are none.
    #[default]
    None,
}

/// What the index found, ready to be shown.
pub struct Found {
    answer: Resolution,
    sample: Vec<SampleImage>,
    explain: Vec<KeyExplained>,
}

impl Found {
    /// Of the answer to a query whose keys were sent as these texts.
    pub fn of(mut answer: Resolution, keys: &[String]) -> Self {
        let name = |at: usize| keys.get(at).cloned().unwrap_or_default();
        let sample = std::mem::take(&mut answer.sample).into_iter().map(|one| SampleImage {
            image_digest: one.image.digest,
            repository: one.image.repository,
            tags: one.image.tags,
            matched_keys: one.matched_keys.into_iter().map(name).collect(),
            matches: one.matches.into_iter().map(|one| matched(name(one.key), one.found)).collect(),
        });
        let sample = sample.collect();
        let explain = std::mem::take(&mut answer.explain).into_iter().map(|one| KeyExplained {
            key: name(one.key),
            how: one.how.into_iter().map(Way::from).collect(),
            images: one.images,
            narrowed_away: one.narrowed_away,
            packages: one.packages.into_iter().map(PackageExplained::from).collect(),
            packages_total: one.packages_total,
        });
        let explain = explain.collect();
        Self { sample, explain, answer }
    }

    /// How many images the keys touch.
    pub fn candidates(&self) -> u64 {
        self.answer.candidates
    }

    /// The answer of the service.
    pub fn answer(self, projected: Projection, index_state: IndexStateView, elapsed_ms: f64) -> PreviewAnswer {
        let Self { answer, sample, explain } = self;
        let count = |(repository, candidates)| RepositoryCount { repository, candidates };
        PreviewAnswer {
            candidates: answer.candidates,
            narrowed_away: answer.narrowed_away,
            total: answer.total,
            keys_matched: answer.keys_matched,
            keys_unknown: answer.keys_unknown,
            explain,
            sample,
            by_repository: answer.by_repository.into_iter().map(count).collect(),
            projected,
            index_state,
            as_of_sequence: answer.sequence,
            elapsed_ms,
        }
    }
}

fn matched(key: String, found: Option<index::Found>) -> MatchExplained {
    let image = || PackageFound { purl: None, source: None, how: vec![Way::Image] };
    MatchExplained { key, package: found.map_or_else(image, PackageFound::from) }
}

impl From<index::Found> for PackageFound {
    fn from(found: index::Found) -> Self {
        Self { purl: Some(found.purl), source: found.source, how: found.how.into_iter().map(Way::from).collect() }
    }
}

impl From<index::PackageCount> for PackageExplained {
    fn from(count: index::PackageCount) -> Self {
        Self { package: count.package.into(), images: count.images }
    }
}
