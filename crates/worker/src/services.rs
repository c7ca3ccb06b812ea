//! What the loops work with, wired once at the start.

use crate::index_host::IndexHost;
use scheduler_core::launch::RunDefaults;
use scheduler_core::ports::{Clock, Feed, Ids, Pacer, Random, Scanner, SegmentQueue, Store};
use scheduler_model::WorkerId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Numbers of the configuration that the loops obey.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What a schedule or a caller leaves open.
    pub run_defaults: RunDefaults,
    /// How long exports are gathered after the first one.
    pub debounce: Duration,
    /// A queued image older than this is skipped.
    pub deadline: Duration,
    /// Report calls of one tenant a second.
    pub tenant_rate_per_second: u32,
    /// Calls about one registry host a second.
    pub host_rate_per_second: u32,
    /// The same for some hosts, by name.
    pub host_rates: BTreeMap<String, u32>,
    /// The most attempts of one call.
    pub max_attempts: u32,
    /// The first wait between attempts is up to this long.
    pub backoff_base: Duration,
    /// No wait of our own is longer.
    pub backoff_cap: Duration,
    /// The longest that one call may take.
    pub call_timeout: Duration,
    /// How long a lease holds without a heartbeat.
    pub lease: Duration,
    /// Calls in flight in this process.
    pub slots: u32,
    /// Whether images' events leave at all.
    pub emit: bool,
    /// Whether images are left out whose versions are surely outside of the ranges that exports give.
    pub narrow_by_range: bool,
    /// How long outbound events are kept.
    pub outbound_events: Duration,
    /// Runs of a tenant that may be going; cron and event runs beyond it wait.
    pub active_runs_per_tenant: u64,
    /// Images of a tenant that may have no outcome; the same.
    pub backlog_per_tenant: u64,
    /// How long ended runs are kept.
    pub completed_runs: Duration,
    /// How long an image may go without a new document; `None`: for ever.
    pub image_age: Option<Duration>,
}

/// Ports, settings and wake-up calls.
pub struct Services {
    /// All that is stored.
    pub store: Arc<dyn Store>,
    /// Waits for what others write.
    pub feed: Arc<dyn Feed>,
    /// Segments on their way to workers.
    pub queue: Arc<dyn SegmentQueue>,
    /// The scanner.
    pub scanner: Arc<dyn Scanner>,
    /// Leaky buckets.
    pub pacer: Arc<dyn Pacer>,
    /// The ImpactIndex of this process.
    pub index: Arc<IndexHost>,
    /// Wall time.
    pub clock: Arc<dyn Clock>,
    /// Randomness for jitter.
    pub random: Arc<dyn Random>,
    /// New ids.
    pub ids: Arc<dyn Ids>,
    /// This process, as the queue knows it.
    pub worker: WorkerId,
    /// Numbers of the configuration.
    pub settings: Settings,
    /// Rung when the planner has something to look at.
    pub planner_bell: Notify,
    /// Rung when an instant that waits may have its turn.
    pub ticker_bell: Notify,
}

impl Services {
    /// A run has ended: what waited for that looks again.
    pub(crate) fn run_ended(&self) {
        self.planner_bell.notify_one();
        self.ticker_bell.notify_one();
    }
}
