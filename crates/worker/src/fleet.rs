//! What is under way in this process: which runs have segments in work, and how they are stopped.

use crate::services::Services;
use async_trait::async_trait;
use parking_lot::Mutex;
use scheduler_core::ports::Conductor;
use scheduler_model::{RunId, SkipReason, TenantId};
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

/// Between two words about a run's progress.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(1);

/// Between two tries to write that a cancelled run has ended.
const CANCEL_RETRY: Duration = Duration::from_secs(1);

struct ActiveRun {
    segments: usize,
    stop: CancellationToken,
    announced_at: Option<Instant>,
}

/// The runs that have segments in work here.
pub struct Fleet {
    services: Arc<Services>,
    runs: Mutex<HashMap<RunId, ActiveRun>>,
    left: Notify,
    this: Weak<Fleet>,
}

impl Fleet {
    /// An empty fleet.
    pub fn new(services: Arc<Services>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            services,
            runs: Mutex::new(HashMap::new()),
            left: Notify::new(),
            this: this.clone(),
        })
    }

    /// Enters a segment of a run; it leaves when the guard goes. The token stops further calls of the run.
    pub(crate) fn enter(self: &Arc<Self>, run: &RunId) -> Entered {
        let mut runs = self.runs.lock();
        let active = runs.entry(run.clone()).or_insert_with(|| ActiveRun {
            segments: 0,
            stop: CancellationToken::new(),
            announced_at: None,
        });
        active.segments += 1;
        Entered { fleet: self.clone(), run: run.clone(), stop: active.stop.clone() }
    }

    /// How many segments are in work.
    pub fn segments(&self) -> usize {
        self.runs.lock().values().map(|run| run.segments).sum()
    }

    /// Whether it is time to tell of the run's progress again.
    pub(crate) fn announces(&self, run: &RunId) -> bool {
        let now = Instant::now();
        self.runs.lock().get_mut(run).is_some_and(|active| {
            let due = active.announced_at.is_none_or(|at| now.duration_since(at) >= ANNOUNCE_EVERY);
            if due {
                active.announced_at = Some(now);
            }
            due
        })
    }

    /// Ends a run whose cancel is durable: once its last segment has left, every image without an outcome is skipped.
    pub(crate) fn finish_cancel(self: &Arc<Self>, tenant: TenantId, run: RunId) {
        let fleet = self.clone();
        tokio::spawn(async move {
            if let Err(error) = fleet.services.queue.remove_run(&run).await {
                warn!(%error, run = %run, "segments of a cancelled run stay queued; each ends when it is leased");
            }
            loop {
                let left = fleet.left.notified();
                if !fleet.runs.lock().contains_key(&run) {
                    break;
                }
                left.await;
            }
            while let Err(error) =
                fleet.services.store.skip_rest(&tenant, &run, SkipReason::Cancelled, fleet.services.clock.now()).await
            {
                if !error.is_retryable() {
                    error!(%error, run = %run, "a cancelled run cannot be ended");
                    break;
                }
                warn!(%error, run = %run, "a cancelled run waits for the store");
                tokio::time::sleep(CANCEL_RETRY).await;
            }
            fleet.services.run_ended();
        });
    }
}

#[async_trait]
impl Conductor for Fleet {
    fn export_accepted(&self) {
        self.services.planner_bell.notify_one();
    }

    fn run_begun(&self) {
        self.services.planner_bell.notify_one();
    }

    async fn run_cancelled(&self, tenant: &TenantId, run: &RunId) {
        if let Some(active) = self.runs.lock().get(run) {
            active.stop.cancel();
        }
        if let Some(fleet) = self.this.upgrade() {
            fleet.finish_cancel(tenant.clone(), run.clone());
        }
    }
}

/// A segment in work.
pub(crate) struct Entered {
    fleet: Arc<Fleet>,
    run: RunId,
    /// Cancelled when the run is.
    pub(crate) stop: CancellationToken,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut runs = self.fleet.runs.lock();
        if let Some(active) = runs.get_mut(&self.run) {
            active.segments -= 1;
            if active.segments == 0 {
                runs.remove(&self.run);
            }
        }
        drop(runs);
        self.fleet.left.notify_waiters();
    }
}
