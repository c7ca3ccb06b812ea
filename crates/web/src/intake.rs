//! From a document to an image of the catalog: purls are parsed once, here; what cannot be is named and left out.

use crate::code::Code;
use crate::problem::Problem;
use scheduler_model::purl::Purl;
use scheduler_model::{CatalogComponent, Image, ImageDigest, ImagePlace, TenantId, Timestamp};
use scheduler_sbom::{Document, SbomError, Usage};
use serde::Serialize;
use std::borrow::Cow;
use utoipa::ToSchema;

/// The most skipped purls that an answer names; the rest is counted by the difference.
const SKIPPED_NAMED_MAX: usize = 1000;

/// An excerpt of a purl that is named.
const EXCERPT_LEN_MAX: usize = 256;

/// A purl that was left out.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct SkippedPurl {
    purl: String,
    reason: String,
}

/// What was taken of a document, as the answer says it.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Taken {
    image_digest: ImageDigest,
    /// Distinct package URLs that were taken.
    components: usize,
    /// Those of them that count as used.
    used: usize,
    /// Components without a package URL.
    no_purl: u64,
    /// Package URLs that cannot be read.
    skipped: Vec<SkippedPurl>,
    // Filled in when the change is durable.
    /// The catalog change.
    pub sequence: u64,
}

/// An image with what is answered about it.
pub struct Intake {
    /// What goes into the catalog.
    pub image: Image,
    /// What is answered.
    pub taken: Taken,
}

/// Makes an image of a document. A purl that occurs several times is one component, used when one of its places is.
pub fn image(tenant: TenantId, digest: ImageDigest, place: ImagePlace, document: Document, now: Timestamp) -> Intake {
    let mut skipped = Vec::new();
    let mut skip = |purl: &str, reason: String| {
        if skipped.len() < SKIPPED_NAMED_MAX {
            skipped.push(SkippedPurl { purl: purl.chars().take(EXCERPT_LEN_MAX).collect(), reason });
        }
    };
    // Each component with whether this place of it is used.
    let mut taken: Vec<(CatalogComponent, bool)> = Vec::with_capacity(document.components.len());
    let mut mended = 0u64;
    for (raw, position) in document.components.into_iter().zip(0u32..) {
        if let Some(problem) = raw.problem {
            skip(&raw.purl, problem.to_string());
            continue;
        }
        // Nearly all are canonical already.
        let canonical = Purl::canonical(&raw.purl).map(|(text, mends)| match text {
            Cow::Borrowed(_) => (None, mends),
            Cow::Owned(other) => (Some(other), mends),
        });
        let (other, mends) = match canonical {
            Ok(canonical) => canonical,
            Err(error) => {
                skip(&raw.purl, error.to_string());
                continue;
            }
        };
        mended += u64::from(!mends.is_empty());
        let component = CatalogComponent {
            purl: other.unwrap_or(raw.purl),
            source: raw.source.map(|source| (source.name, source.version)),
        };
        let used = match &document.usage {
            Usage::Unknown => true,
            Usage::Known(positions) => positions.contains(position),
        };
        taken.push((component, used));
    }
    metrics::counter!("scheduler_purls_mended_total").increment(mended);
    taken.sort_unstable();
    // Of equals the used one is the later.
    taken.dedup_by(|later, kept| {
        let same = later.0 == kept.0;
        kept.1 |= same && later.1;
        same
    });
    // Equal purls of different sources lie side by side.
    let distinct = |only_used: bool| {
        let mut last = None;
        let counted =
            taken.iter().filter(|(_, used)| *used || !only_used).map(|(component, _)| component.purl.as_str());
        counted.filter(|&purl| last.replace(purl) != Some(purl)).count()
    };
    let answer = Taken {
        image_digest: digest.clone(),
        components: distinct(false),
        used: distinct(true),
        no_purl: document.no_purl,
        skipped,
        sequence: 0,
    };
    let used = match document.usage {
        Usage::Unknown => None,
        Usage::Known(_) => Some(taken.iter().zip(0u32..).filter(|((_, used), _)| *used).map(|(_, at)| at).collect()),
    };
    let image = Image {
        tenant,
        digest,
        place,
        components: taken.into_iter().map(|(component, _)| component).collect(),
        used,
        no_purl: document.no_purl,
        generated_at: document.image.generated_at.as_deref().and_then(|text| Timestamp::parse(text).ok()),
        updated_at: now,
        sequence: 0,
    };
    Intake { image, taken: answer }
}

/// Where the image of a document lives, by the document itself.
pub fn own_place(document: &Document) -> ImagePlace {
    let facts = &document.image;
    ImagePlace {
        registry: facts.registry.clone().unwrap_or_default(),
        repository: facts.repository.clone().unwrap_or_default(),
        namespaces: facts.namespaces.clone(),
        tags: facts.tags.clone(),
        labels: facts.labels.clone(),
    }
}

impl From<SbomError> for Problem {
    fn from(error: SbomError) -> Self {
        let code = match error {
            SbomError::MalformedJson { .. } => Code::MalformedJson,
            SbomError::Encoding { .. }
            | SbomError::Missing { .. }
            | SbomError::Repeated { .. }
            | SbomError::NotAList { .. }
            | SbomError::BadUsage { .. }
            | SbomError::Read(_) => Code::BadInput,
            SbomError::UnsupportedFormat { .. } => Code::UnsupportedFormat,
            SbomError::Impossible { .. } => Code::ImpossibleInput,
            SbomError::TooDeep { .. } | SbomError::TooMany { .. } => Code::DocumentTooLarge,
        };
        match error.pointer() {
            Some(pointer) => Self::at(code, pointer, error.to_string()),
            None => Self::new(code, error.to_string()),
        }
    }
}
