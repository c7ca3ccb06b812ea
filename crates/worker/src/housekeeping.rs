//! What keeps the store small: events, runs and export ids that are older than they are promised to be kept.

use crate::services::Services;
use scheduler_core::ports::Pruned;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// How often it is looked at.
const EVERY: Duration = Duration::from_secs(600);

/// Runs until `stop`.
pub async fn run(services: Arc<Services>, stop: CancellationToken) {
    let mut tick = tokio::time::interval(EVERY);
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
        match store.prune(now).await {
            Ok(pruned) if pruned == Pruned::default() => {}
            Ok(pruned) => info!(?pruned, "what nothing refers to is gone"),
            Err(error) => warn!(%error, "the store cannot be pruned"),
        }
    }
}
