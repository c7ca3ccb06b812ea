//! Applying images, and what the index then weighs.

use crate::resolve;
use scheduler_benches::{Catalog, Keys, Outcome, figure, percentile, ratio, rss_bytes, time_ms};
use scheduler_impact_index::{Change, ImpactIndex, IndexError, PutImage, Thresholds, Want};
use scheduler_model::purl::Component;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Few, so that the packages on their way in do not count for the memory of the index.
const BATCH_LEN: u32 = 8;
/// Many, where speed counts and memory does not.
const LARGE_BATCH_LEN: u32 = 4096;

/// Builds the catalog's index in a folder, weighs it and writes a checkpoint.
pub fn into_folder(catalog: &Catalog, folder: &Path) -> Outcome {
    let index = ImpactIndex::create(folder, Thresholds::default())?;
    let before = rss_bytes();
    let apply_ms = apply_all(&index, catalog, 0..catalog.images, |image| catalog.components(image))?;
    let bytes = rss_bytes() - before;
    let stats = index.stats();
    let dictionary = stats.components * 60;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let each = |bytes: u64| bytes as f64 / stats.postings as f64;
    figure("bytes-per-posting", each(bytes.saturating_sub(dictionary)), "bytes");
    figure("bytes-per-posting-by-tables", each(stats.bytes.saturating_sub(dictionary)), "bytes");
    figure("index-apply", f64::from(catalog.images) / apply_ms * 1e3, "images/s");
    eprintln!(
        "{} images, {} components, {} postings, {} MB resident, {} MB in tables",
        stats.images,
        stats.components,
        stats.postings,
        bytes >> 20,
        stats.bytes >> 20
    );
    let (ms, sequence) = time_ms(|| index.checkpoint());
    sequence?;
    figure("checkpoint", ms / 1e3, "s");
    Ok(())
}

/// Applies images; gives the time that the index took, in milliseconds.
pub fn apply_all(
    index: &ImpactIndex,
    catalog: &Catalog,
    images: std::ops::Range<u32>,
    components: impl Fn(u32) -> Vec<Component>,
) -> Result<f64, IndexError> {
    let mut total = 0.0;
    let mut first = images.start;
    while first < images.end {
        let mut packages = Vec::new();
        let batch: Vec<_> = (first..images.end.min(first + BATCH_LEN))
            .map(|image| {
                let own = components(image % catalog.images);
                let end = packages.len() + own.len();
                let positions = (packages.len()..end).filter_map(|position| u32::try_from(position).ok()).collect();
                packages.extend(own);
                (image, positions)
            })
            .collect();
        total += apply(index, &packages, &batch)?;
        first += BATCH_LEN;
    }
    Ok(total)
}

/// The same for all images of a catalog whose packages are read, in larger batches that name each package once, as the service
/// does it.
pub fn apply_parsed(index: &ImpactIndex, catalog: &Catalog, parsed: &[Option<Component>]) -> Result<(), IndexError> {
    let mut first = 0;
    while first < catalog.images {
        let mut packages = Vec::new();
        let mut known = HashMap::new();
        let batch: Vec<_> = (first..catalog.images.min(first + LARGE_BATCH_LEN))
            .map(|image| {
                let mut position = |rank| {
                    let package = parsed.get(rank as usize)?.as_ref()?;
                    Some(*known.entry(rank).or_insert_with(|| {
                        packages.push(package.clone());
                        u32::try_from(packages.len() - 1).unwrap_or(u32::MAX)
                    }))
                };
                (image, catalog.ranks(image).into_iter().filter_map(&mut position).collect())
            })
            .collect();
        apply(index, &packages, &batch)?;
        first += LARGE_BATCH_LEN;
    }
    Ok(())
}

/// Applies images with the positions of their packages; gives the time that the index took, in milliseconds.
fn apply(index: &ImpactIndex, packages: &[Component], images: &[(u32, Vec<u32>)]) -> Result<f64, IndexError> {
    let tenant = Catalog::tenant();
    let images: Vec<_> = images
        .iter()
        .map(|(image, components)| {
            let used = Catalog::used(*image, components.len());
            (*image, Catalog::digest(*image), Catalog::place(*image), components, used)
        })
        .collect();
    let changes: Vec<Change<'_>> = images
        .iter()
        .map(|(image, digest, place, components, used)| Change {
            sequence: u64::from(*image) + 1,
            timeline: 1,
            tenant: &tenant,
            digest,
            put: Some(PutImage { place, components, used: used.as_deref() }),
        })
        .collect();
    let (ms, applied) = time_ms(|| index.apply(packages, &changes));
    applied.map(|()| ms)
}

/// How long readers take while images come in as fast as they can, against how long they take alone.
pub fn beside_readers(catalog: &Catalog, index: &ImpactIndex) -> Outcome {
    let json = catalog.keys_json(Keys::Rare, 10_000);
    let keys = scheduler_benches::parse_keys(&json)?;
    let selection = Catalog::one_in_ten();
    let measure = |until: &dyn Fn(usize) -> bool| {
        let mut times = Vec::new();
        while !until(times.len()) {
            times.push(time_ms(|| resolve::resolve(index, &keys, &selection, false, Want::default())).0);
        }
        times
    };
    let more = catalog.images / 10;
    let prepared: Vec<_> = (0..more).map(|image| catalog.components(image)).collect();
    let mut idle = measure(&|count| count >= 500);
    let done = AtomicBool::new(false);
    let (mut busy, applied) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let images = catalog.images..catalog.images + more;
            let of = |image: u32| prepared.get(image as usize).cloned().unwrap_or_default();
            let applied = apply_all(index, catalog, images, of);
            done.store(true, Ordering::Relaxed);
            applied
        });
        (measure(&|_| done.load(Ordering::Relaxed)), writer.join())
    });
    let ms = applied.map_err(|_| "the writer panicked")??;
    figure("index-apply-beside-readers", f64::from(more) / ms * 1e3, "images/s");
    figure("resolve-p99-idle", percentile(&mut idle, 99), "ms");
    figure("resolve-p99-during-ingest", percentile(&mut busy, 99), "ms");
    ratio("resolve-p99-during-ingest-vs-idle", percentile(&mut busy, 99) / percentile(&mut idle, 99));
    Ok(())
}
