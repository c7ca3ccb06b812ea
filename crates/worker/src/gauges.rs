//! Numbers that are looked at from time to time rather than counted: how much waits, and how far the index is.

use crate::services::Services;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// How often they are looked at.
const EVERY: Duration = Duration::from_secs(5);

/// Runs until `stop`.
pub async fn run(services: Arc<Services>, stop: CancellationToken) {
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = tick.tick() => look(&services).await,
        }
    }
}

async fn look(services: &Services) {
    match services.queue.depth().await {
        Ok(lanes) => {
            for depth in lanes {
                let lane = depth.lane.as_str();
                metrics::gauge!("scheduler_queue_segments", "lane" => lane, "state" => "waiting")
                    .set(as_f64(depth.waiting));
                metrics::gauge!("scheduler_queue_segments", "lane" => lane, "state" => "leased")
                    .set(as_f64(depth.leased));
            }
        }
        Err(error) => warn!(%error, "the depth of the queue is not known"),
    }
    let stats = services.index.index().stats();
    metrics::gauge!("scheduler_index_images").set(as_f64(stats.images));
    metrics::gauge!("scheduler_index_packages").set(as_f64(stats.components));
    metrics::gauge!("scheduler_index_bytes").set(as_f64(stats.bytes));
    // The embedded bus is the outbox itself: what is durable is delivered.
    metrics::gauge!("scheduler_outbox_age_seconds").set(0.0);
    match services.store.catalog_head().await {
        Ok(head) => metrics::gauge!("scheduler_index_sequence_lag").set(as_f64(head.saturating_sub(stats.sequence))),
        Err(error) => warn!(%error, "how far the index lags behind is not known"),
    }
}

/// Exact up to 2^53, which no count here reaches.
fn as_f64(count: u64) -> f64 {
    count as f64
}
