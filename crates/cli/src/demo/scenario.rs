//! What a demo plays with: the images, what is known of them before and after, and the export that brings the news.

use super::catalog::{SampleImage, generate};
use super::intel::{Advisory, KnownImage};
use super::universe::Universe;
use scheduler_model::ImageDigest;
use scheduler_model::purl::ProductKey;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Sidecars of one bulk upload.
const BULK_LINES: usize = 250;

/// Everything that is decided before the service starts.
pub struct Scenario {
    /// What the catalog is, in a sentence.
    pub catalog: String,
    /// The images, as the scanner knows them; one for each digest.
    pub images: Vec<KnownImage>,
    /// How they get into the catalog.
    pub uploads: Vec<Upload>,
    /// Advisories of the first reports.
    pub before: Vec<Advisory>,
    /// Advisories from the export on, those of before included.
    pub after: Vec<Advisory>,
    /// The export, as it is sent.
    pub export: Vec<u8>,
    /// The export's name of itself.
    pub export_id: String,
    /// The export's distinct keys.
    pub keys: Vec<ProductKey>,
    /// What a person should know beforehand, such as files that were left out.
    pub remarks: Vec<String>,
}

/// One call that fills the catalog.
pub enum Upload {
    /// Sidecars, one a line.
    Bulk {
        /// The body.
        lines: String,
        /// How many they are.
        images: usize,
    },
    /// A document of the user.
    File {
        /// Where it lies.
        path: PathBuf,
        /// The image that it describes.
        digest: ImageDigest,
        /// What the image is called where the document does not say.
        repository: Option<String>,
        /// Whether it is a sidecar.
        sidecar: bool,
    },
}

impl Upload {
    /// How many images it puts.
    pub fn images(&self) -> usize {
        match self {
            Self::Bulk { images, .. } => *images,
            Self::File { .. } => 1,
        }
    }
}

/// The sample: a generated catalog and the news of the universe.
pub fn sample(count: usize, seed: u64) -> anyhow::Result<Scenario> {
    let universe = Universe::bundled()?;
    let images = generate(&universe, count, seed)?;
    let uploads = images.chunks(BULK_LINES).map(bulk).collect();
    let images: Vec<KnownImage> = images.into_iter().map(|image| image.known).collect();
    let purls: BTreeSet<&str> =
        images.iter().flat_map(|image| &image.packages).map(|package| package.purl.as_str()).collect();
    let export_id = "demo-export-1".to_owned();
    Ok(Scenario {
        catalog: format!(
            "A generated catalog: {} images on {} bases with {} kinds of applications, {} distinct packages.",
            images.len(),
            universe.bases.len(),
            universe.stacks.len(),
            purls.len()
        ),
        uploads,
        export: export(&export_id, &universe.news).to_string().into_bytes(),
        export_id,
        keys: distinct(universe.news.iter().map(|advisory| advisory.key.clone())),
        after: universe.known.iter().chain(&universe.news).cloned().collect(),
        before: universe.known,
        images,
        remarks: Vec::new(),
    })
}

/// Keys without repetition, in match form.
pub fn distinct(keys: impl IntoIterator<Item = ProductKey>) -> Vec<ProductKey> {
    let mut seen = BTreeSet::new();
    keys.into_iter().filter(|key| seen.insert(key.to_string())).collect()
}

fn bulk(images: &[SampleImage]) -> Upload {
    let lines = images.iter().fold(String::new(), |lines, image| lines + &image.sidecar().to_string() + "\n");
    Upload::Bulk { lines, images: images.len() }
}

fn export(export_id: &str, news: &[Advisory]) -> Value {
    let keys: BTreeSet<String> = news.iter().map(|advisory| advisory.key.to_string()).collect();
    let kev: BTreeSet<&str> = news.iter().filter(|one| one.kev).map(|one| one.vuln_id.as_str()).collect();
    let changes: Vec<Value> = news
        .iter()
        .map(|advisory| {
            let mut change = json!({
                "productKey": advisory.key.to_string(),
                "vulnId": advisory.vuln_id,
                "severity": advisory.severity,
            });
            if let (Some(range), Some(members)) = (advisory.affected.vers(), change.as_object_mut()) {
                members.insert("affected".to_owned(), json!(range));
            }
            change
        })
        .collect();
    json!({ "exportId": export_id, "changedProductKeys": keys, "kev": kev, "changes": changes })
}
