//! The union alone, against CRoaring on the same sets.

use crate::{Catalog, Keys, Outcome, figure, median_ms, parse_keys, ratio};
use croaring::Bitmap;
use scheduler_impact_index::{ImpactIndex, Query};
use scheduler_model::Selection;

const RUNS: usize = 41;

/// Popular and rare keys, under a selection and under none.
///
/// # Errors
/// When the index is not of this catalog, or the two unions differ.
pub fn all(catalog: &Catalog, index: &ImpactIndex) -> Outcome {
    for (name, keys) in [("popular", Keys::Popular), ("rare", Keys::Rare)] {
        let keys = parse_keys(&catalog.keys_json(keys, 10_000))?;
        let (tenant, everything, selection) = (Catalog::tenant(), Selection::default(), Catalog::one_in_ten());
        let query = |selection| Query { tenant: &tenant, selection, keys: Some(&keys), usage_only: false };
        let probe = |selection| index.probe_union(&query(selection), |probe| median_ms(RUNS, || probe.union_len()));
        let (Some(ours), Some(ours_all)) = (probe(&selection), probe(&everything)) else {
            return Err("the catalog is empty".into());
        };
        let bitmaps: Vec<Bitmap> = index
            .probe_union(&query(&everything), |probe| probe.sets().map(|set| bitmap(&set)).collect())
            .unwrap_or_default();
        let all: Vec<&Bitmap> = bitmaps.iter().collect();
        let len = index.probe_union(&query(&everything), |probe| probe.union_len());
        if len != Some(Bitmap::fast_or(&all).cardinality()) {
            return Err("the two unions differ".into());
        }
        let theirs = median_ms(RUNS, || Bitmap::fast_or(&all).cardinality());
        figure(&format!("union-{name}"), ours, "ms");
        figure(&format!("union-{name}-croaring"), theirs, "ms");
        ratio(&format!("union-{name}-vs-croaring"), ours / theirs);
        ratio(&format!("union-{name}-all-images-vs-croaring"), ours_all / theirs);
    }
    Ok(())
}

fn bitmap(ordinals: &[u32]) -> Bitmap {
    let mut bitmap = Bitmap::of(ordinals);
    bitmap.run_optimize();
    bitmap.shrink_to_fit();
    bitmap
}
