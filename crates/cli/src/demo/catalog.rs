//! A catalog drawn from the universe: repositories with builds, the newer of which have newer packages.
//!
//! Every draw depends on the seed and on what is drawn, never on the order of drawing. So the same seed gives the same images, and
//! a smaller catalog is the beginning of a larger one.

use super::intel::{KnownImage, Package};
use super::universe::{Entry, Layer, Universe};
use anyhow::Context;
use scheduler_model::ImageDigest;
use scheduler_model::purl::{Purl, PurlParts};
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Builds of each repository.
const BUILDS: usize = 12;

const TEAMS: [&str; 12] = [
    "shop", "pay", "search", "mail", "ledger", "media", "fleet", "identity", "maps", "support", "insights", "platform",
];

const SERVICES: [&str; 16] = [
    "api", "web", "worker", "gateway", "cart", "orders", "billing", "catalog", "notify", "export", "import", "reports",
    "sessions", "uploads", "pricing", "audit",
];

/// An image of the sample catalog.
#[derive(Debug, Clone)]
pub struct SampleImage {
    /// As the scanner knows it.
    pub known: KnownImage,
    repository: String,
    tag: String,
    namespace: &'static str,
    labels: [(&'static str, String); 3],
}

/// Draws a catalog of so many images.
pub fn generate(universe: &Universe, count: usize, seed: u64) -> anyhow::Result<Vec<SampleImage>> {
    let draw = Draw { seed };
    (0..count).map(|number| image(universe, &draw, number)).collect()
}

impl SampleImage {
    /// The sidecar that a scanner would have made of it.
    pub fn sidecar(&self) -> Value {
        let packages = &self.known.packages;
        let purls: Vec<&str> = packages.iter().map(|package| package.purl.as_str()).collect();
        let used: Vec<usize> = (0..packages.len()).filter(|at| packages.get(*at).is_some_and(|p| p.used)).collect();
        let labels: serde_json::Map<String, Value> =
            self.labels.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        json!({
            "schema": "bom-index@1",
            "imageDigest": self.known.digest,
            "image": {
                "registry": "registry.example.com",
                "repository": self.repository,
                "namespaces": [self.namespace],
                "tags": [self.tag],
                "labels": labels,
            },
            "purls": purls,
            "usedByEntrypoint": used,
        })
    }
}

fn image(universe: &Universe, draw: &Draw, number: usize) -> anyhow::Result<SampleImage> {
    let (nth, build) = (number / BUILDS, number % BUILDS);
    let repository = repository(nth);
    let base = draw.layer(&universe.bases, &[&repository, "base"]).context("the universe has no base")?;
    let stack = draw.layer(&universe.stacks, &[&repository, "stack"]).context("the universe has no stack")?;
    let mut packages = Vec::new();
    for (layer, extra_share, used_share) in [(base, 0.12, 0.2), (stack, 0.4, 0.8)] {
        let extras = layer.extras.iter().filter(|entry| draw.unit(&[&repository, &entry.name]) < extra_share);
        for entry in layer.required.iter().chain(extras) {
            let used = draw.unit(&[&repository, &entry.name, "used"]) < used_share;
            packages.push(Package::new(&purl(layer, entry, version(draw, &repository, entry, build))?, None, used));
        }
    }
    packages.sort_by(|left, right| left.purl.cmp(&right.purl));
    let tag = format!("{}.{build}.0", nth % 5 + 1);
    let named = format!("{repository}:{tag}");
    let newest = build + 1 == BUILDS;
    Ok(SampleImage {
        known: KnownImage {
            digest: ImageDigest::of(format!("demo image {named} of seed {}", draw.seed).as_bytes()),
            name: named,
            packages,
        },
        namespace: if newest { "prod" } else { "history" },
        labels: [
            ("team", repository.split('/').next().unwrap_or_default().to_owned()),
            ("base", base.name.clone()),
            ("stack", stack.name.clone()),
        ],
        repository,
        tag,
    })
}

fn repository(nth: usize) -> String {
    let (team, rest) = (TEAMS.get(nth % TEAMS.len()), nth / TEAMS.len());
    let (service, round) = (SERVICES.get(rest % SERVICES.len()), rest / SERVICES.len());
    let name = format!("{}/{}", team.copied().unwrap_or_default(), service.copied().unwrap_or_default());
    if round == 0 { name } else { format!("{name}-{round}") }
}

/// The version that a build has: the later the build, the newer, some repositories ahead of others. Packages of one source
/// go together.
fn version<'a>(draw: &Draw, repository: &str, entry: &'a Entry, build: usize) -> &'a str {
    let source = entry.source.as_deref().unwrap_or(&entry.name);
    let ahead = draw.unit(&[repository, source, "ahead"]);
    let steps = (entry.versions.len() - 1).min(BUILDS);
    // A repository that never updates a package exists too.
    let due = (1..=steps)
        .filter(|step| share(*step, steps + 1) < (0.25 + share(build, BUILDS)) * (0.4 + 1.2 * ahead))
        .count();
    entry.versions.get(due).map_or("", String::as_str)
}

#[expect(clippy::cast_precision_loss, reason = "both numbers are small")]
fn share(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}

fn purl(layer: &Layer, entry: &Entry, version: &str) -> anyhow::Result<Purl> {
    let (namespace, name) = match (&layer.namespace, entry.name.rsplit_once('/')) {
        (Some(namespace), _) => (Some(namespace.as_str()), entry.name.as_str()),
        (None, Some((namespace, name))) => (Some(namespace), name),
        (None, None) => (None, entry.name.as_str()),
    };
    let mut qualifiers: Vec<(&str, &str)> = layer.qualifiers.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    // RPM purls carry the epoch beside the version, and name the source by its file.
    let (epoch, bare) = match version.split_once(':') {
        Some((epoch, bare)) if layer.ty == "rpm" => (Some(epoch), bare),
        _ => (None, version),
    };
    qualifiers.extend(epoch.map(|epoch| ("epoch", epoch)));
    let upstream =
        entry.source.as_ref().filter(|source| **source != entry.name).map(|source| match layer.ty.as_str() {
            "rpm" => format!("{source}-{bare}.src.rpm"),
            _ => source.clone(),
        });
    qualifiers.extend(upstream.as_deref().map(|upstream| ("upstream", upstream)));
    let parts = PurlParts { ty: &layer.ty, namespace, name, version: Some(bare), qualifiers, subpath: None };
    // The standard library of Go has no namespace, which the strict form asks for.
    let built = if namespace.is_none() && layer.ty == "golang" {
        Purl::parse_lenient(&format!("pkg:golang/{name}@{bare}")).map(|parsed| parsed.purl)
    } else {
        Purl::build(&parts)
    };
    built.with_context(|| format!("{} {version} of {}", entry.name, layer.name))
}

struct Draw {
    seed: u64,
}

impl Draw {
    /// A number from 0 up to 1 that belongs to these words.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    fn unit(&self, words: &[&str]) -> f64 {
        let bits = xxh3_64_with_seed(words.join("\u{0}").as_bytes(), self.seed) >> 11;
        bits as f64 / (1u64 << 53) as f64
    }

    /// A layer by weight.
    fn layer<'a>(&self, layers: &'a [Layer], words: &[&str]) -> Option<&'a Layer> {
        let total: u32 = layers.iter().map(|layer| layer.weight).sum();
        let mut left = self.unit(words) * f64::from(total);
        let chosen = layers.iter().find(|layer| {
            left -= f64::from(layer.weight);
            left < 0.0
        });
        chosen.or(layers.last())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn sidecars(count: usize, seed: u64) -> Vec<String> {
        let universe = Universe::bundled().unwrap();
        generate(&universe, count, seed).unwrap().iter().map(|image| image.sidecar().to_string()).collect()
    }

    #[test]
    fn one_seed_gives_one_catalog_and_a_smaller_one_is_its_beginning() {
        let whole = sidecars(300, 7);
        assert_eq!(whole, sidecars(300, 7));
        assert_eq!(whole[..100], sidecars(100, 7));
        assert_ne!(whole, sidecars(300, 8));
    }

    #[test]
    fn images_have_names_of_their_own_and_plausible_contents() {
        let universe = Universe::bundled().unwrap();
        let images = generate(&universe, 3000, 1).unwrap();
        let digests: BTreeSet<_> = images.iter().map(|image| &image.known.digest).collect();
        let names: BTreeSet<_> = images.iter().map(|image| &image.known.name).collect();
        assert_eq!((digests.len(), names.len()), (3000, 3000));
        for image in &images {
            let used = image.known.packages.iter().filter(|package| package.used).count();
            assert!(image.known.packages.len() >= 20, "{} has few packages", image.known.name);
            assert!(used > 0 && used < image.known.packages.len(), "{} uses all or nothing", image.known.name);
        }
    }

    #[test]
    fn later_builds_have_later_versions() {
        let universe = Universe::bundled().unwrap();
        let draw = Draw { seed: 1 };
        for entry in universe.stacks.iter().flat_map(|layer| &layer.required) {
            let at = |build| {
                let version = version(&draw, "shop/api", entry, build);
                entry.versions.iter().position(|own| own == version).unwrap()
            };
            let steps: Vec<usize> = (0..BUILDS).map(at).collect();
            assert!(steps.is_sorted(), "{}: {steps:?}", entry.name);
        }
    }
}
