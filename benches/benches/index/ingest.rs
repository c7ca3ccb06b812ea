//! Images through the store into the index, as a bulk import brings them: durable, parsed, and found.

use scheduler_benches::{Catalog, Outcome, figure};
use scheduler_core::ports::CatalogStore;
use scheduler_model::Image;
use scheduler_store::EmbeddedStore;
use scheduler_worker::IndexHost;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const COMPONENTS_OF_IMAGE: usize = 300;
const BATCH_LEN: usize = 100;
/// So many batches are on their way at a time.
const BATCHES_AT_ONCE: usize = 4;
const PATIENCE: Duration = Duration::from_secs(600);

pub fn through_the_store(catalog: &Catalog, folder: &Path) -> Outcome {
    let images: Vec<Image> = (0..catalog.images / 10).map(|image| catalog.image(image, COMPONENTS_OF_IMAGE)).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let store = Arc::new(EmbeddedStore::open(&folder.join("catalog"))?);
        let host = IndexHost::open(store.clone(), store.clone(), Some(folder.join("index")))?;
        let stop = CancellationToken::new();
        let follower = tokio::spawn(host.clone().follow(stop.clone()));
        let count = images.len();
        #[expect(clippy::disallowed_methods, reason = "a benchmark is what the clock is for")]
        let start = std::time::Instant::now();
        let batches: Vec<Vec<Image>> = images.chunks(BATCH_LEN).map(<[Image]>::to_vec).collect();
        let copy_s = start.elapsed().as_secs_f64();
        drop(images);
        let mut running = tokio::task::JoinSet::new();
        for batch in batches {
            if running.len() >= BATCHES_AT_ONCE
                && let Some(done) = running.join_next().await
            {
                done??;
            }
            let store = store.clone();
            running.spawn(async move { store.put_images(batch).await });
        }
        while let Some(done) = running.join_next().await {
            done??;
        }
        let durable_s = start.elapsed().as_secs_f64() - copy_s;
        host.caught_up(PATIENCE).await?;
        let indexed_s = start.elapsed().as_secs_f64() - copy_s;
        if host.index().stats().images != count as u64 {
            return Err("not every image is in the index".into());
        }
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        let count = count as f64;
        figure("ingest-durable", count / durable_s, "images/s");
        figure("ingest-bulk", count / indexed_s, "images/s");
        stop.cancel();
        follower.await?;
        Ok(())
    })
}
