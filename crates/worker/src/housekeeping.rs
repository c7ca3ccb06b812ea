//! What keeps the store small: events, runs and export ids that are older than they are promised to be kept.

use crate::services::Services;
use scheduler_core::ports::Pruned;
use scheduler_model::Timestamp;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// How often it is looked at.
const EVERY: Duration = Duration::from_secs(600);

/// Catalog changes that are looked at together.
const IMAGES_LEN_MAX: usize = 256;

/// Runs until `stop`.
pub async fn run(services: Arc<Services>, stop: CancellationToken) {
    let mut tick = tokio::time::interval(EVERY);
    let mut looked_at = 0;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = tick.tick() => {}
        }
        let (store, settings, now) = (&services.store, &services.settings, services.clock.now());
        match store.trim_outbox(now.minus(settings.outbound_events)).await {
            Ok(0) => {}
            Ok(events) => info!(events, "outbound events beyond their time are gone"),
            Err(error) => warn!(%error, "outbound events cannot be trimmed"),
        }
        match store.trim_runs(now.minus(settings.completed_runs)).await {
            Ok(0) => {}
            Ok(runs) => info!(runs, "ended runs beyond their time are gone"),
            Err(error) => warn!(%error, "ended runs cannot be trimmed"),
        }
        if let Some(age) = settings.image_age {
            trim_images(&services, now.minus(age), &mut looked_at).await;
        }
        match store.prune(now).await {
            Ok(pruned) if pruned == Pruned::default() => {}
            Ok(pruned) => info!(?pruned, "what nothing refers to is gone"),
            Err(error) => warn!(%error, "the store cannot be pruned"),
        }
    }
}

/// Takes images out of the catalog that have had no document for too long. `looked_at` is where the next look begins.
async fn trim_images(services: &Services, before: Timestamp, looked_at: &mut u64) {
    let mut images = 0;
    loop {
        match services.store.trim_images(before, *looked_at, IMAGES_LEN_MAX).await {
            Ok(trimmed) => {
                images += trimmed.images;
                *looked_at = trimmed.looked_at;
                if !trimmed.more {
                    break;
                }
            }
            Err(error) => {
                warn!(%error, "images without a new document cannot be trimmed");
                break;
            }
        }
    }
    if images > 0 {
        info!(images, "images without a new document are gone");
    }
}
