//! From JSON keys to the ids of images.

use crate::{build, number};
use scheduler_benches::{Catalog, Keys, Outcome, figure, median_ms, parse_keys};
use scheduler_impact_index::{ImpactIndex, Query, QueryKey, Resolution, Thresholds, Want};
use scheduler_model::purl::Component;
use scheduler_model::{Scope, Selection};
use std::path::Path;

const RUNS: usize = 41;

/// One resolve of parsed keys.
pub fn resolve(index: &ImpactIndex, keys: &[QueryKey], selection: &Selection, usage: bool, want: Want) -> Resolution {
    index.resolve(&Query { tenant: &Catalog::tenant(), selection, keys: Some(keys), usage_only: usage }, want)
}

/// Whether the image is found by its rarest package.
pub fn finds_image(catalog: &Catalog, index: &ImpactIndex, image: u32) -> Result<bool, Box<dyn std::error::Error>> {
    let rank = catalog.ranks(image).last().copied().unwrap_or_default();
    let key = parse_keys(&serde_json::to_string(&[Catalog::purl(rank)])?)?;
    let answer = resolve(index, &key, &Selection::default(), false, Want { digests: true, ..Want::default() });
    Ok(answer.digests.iter().any(|found| found.digest == Catalog::digest(image)))
}

struct Case<'a> {
    name: &'a str,
    keys: Keys,
    len: u32,
    selection: Selection,
    usage: bool,
}

fn measure(catalog: &Catalog, index: &ImpactIndex, case: &Case<'_>) -> Result<f64, Box<dyn std::error::Error>> {
    let json = catalog.keys_json(case.keys, case.len);
    let all = || parse_keys(&json).map(|keys| resolve(index, &keys, &case.selection, case.usage, Want::default()));
    let answer = all()?;
    let ms = median_ms(RUNS, all);
    let parse_ms = median_ms(RUNS, || parse_keys(&json));
    eprintln!(
        "{}: {} of {} images, {} keys known, {parse_ms:.2} of {ms:.2} ms for parsing",
        case.name, answer.candidates, answer.total, answer.keys_matched
    );
    Ok(ms)
}

pub fn all(catalog: &Catalog, index: &ImpactIndex) -> Outcome {
    let ten = Catalog::one_in_ten;
    let case = |name, keys, len, selection, usage| Case { name, keys, len, selection, usage };
    let cases = [
        case("resolve-popular", Keys::Popular, 10_000, ten(), false),
        case("resolve-rare", Keys::Rare, 10_000, ten(), false),
        case("resolve-popular-used", Keys::Popular, 10_000, ten(), true),
        case("resolve-rare-used", Keys::Rare, 10_000, ten(), true),
        case("resolve-rare-all-images", Keys::Rare, 10_000, Selection::default(), false),
        case("resolve-unknown", Keys::Unknown, 10_000, ten(), false),
        case("resolve-100k-keys", Keys::Rare, 100_000, ten(), false),
        case("resolve-ten-images", Keys::Rare, 10_000, catalog.ten_images(), false),
        case("resolve-one-key-everywhere", Keys::Popular, 1, Selection::default(), false),
    ];
    for case in &cases {
        figure(case.name, measure(catalog, index, case)?, "ms");
    }
    Ok(())
}

/// Popular and rare keys over and over, for a profiler.
pub fn repeat(catalog: &Catalog, folder: &Path) -> Outcome {
    let index = ImpactIndex::open(folder, Thresholds::default())?;
    let selection = Catalog::one_in_ten();
    for keys in [Keys::Popular, Keys::Rare] {
        let json = catalog.keys_json(keys, 10_000);
        for _ in 0..number("BENCH_REPEAT", 20) {
            std::hint::black_box(resolve(&index, &parse_keys(&json)?, &selection, false, Want::default()));
        }
    }
    Ok(())
}

/// Ten times the images.
pub fn at_a_million(catalog: &Catalog) -> Outcome {
    let catalog = Catalog { images: catalog.images * 10, ..*catalog };
    // Every package is read once.
    let parsed: Vec<Option<Component>> =
        (0..catalog.purls).map(|rank| Component::parse(&Catalog::purl(rank), None).ok()).collect();
    let index = ImpactIndex::in_memory(Thresholds::default());
    build::apply_parsed(&index, &catalog, &parsed)?;
    drop(parsed);
    let selection =
        Selection { scope: Scope::ByNamespace, namespaces: vec!["prod".to_owned()], ..Selection::default() };
    let mut worst = 0.0_f64;
    for (name, keys) in [("popular", Keys::Popular), ("rare", Keys::Rare)] {
        let name = format!("resolve-1m-images-{name}");
        let case = Case { name: &name, keys, len: 10_000, selection: selection.clone(), usage: false };
        let ms = measure(&catalog, &index, &case)?;
        figure(&name, ms, "ms");
        worst = worst.max(ms);
    }
    figure("resolve-1m-images", worst, "ms");
    Ok(())
}
