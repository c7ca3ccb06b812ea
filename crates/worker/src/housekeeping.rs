//! What keeps the store small: events, runs and export ids that are older than they are promised to be kept.

use crate::services::Services;
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
        let before = services.clock.now().minus(services.settings.outbound_events);
        match services.store.trim_outbox(before).await {
            Ok(0) => {}
            Ok(events) => info!(events, "outbound events beyond their time are gone"),
            Err(error) => warn!(%error, "outbound events cannot be trimmed"),
        }
    }
}
