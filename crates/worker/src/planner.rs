//! From exports to runs. Every step is durable before the next one begins and may be done twice.
//!
//! 1. Exports that wait are closed into batches, by source and window.
//! 2. A batch is handed to the schedules that hear its source.
//! 3. A schedule whose last run has ended takes what waits for it into a new run.
//! 4. A run that is being planned gets its images, its order, its limits and its segments (see `planning`).

use crate::beginning::Beginning;
use crate::committing::{Committing, Ended};
use crate::index_host::IndexState;
use crate::planning::{PlanError, plan_run};
use crate::runner;
use crate::services::Services;
use crate::traces;
use scheduler_core::ports::{StoreError, StoreResult};
use scheduler_core::window::{DebounceWindow, Decision};
use scheduler_model::ids::content_id;
use scheduler_model::{Batch, BatchId, ExportHead, Priority, Source, Timestamp};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, error, info, info_span, warn};

/// How long planning waits for an index that lags behind the catalog.
const INDEX_PATIENCE: Duration = Duration::from_secs(1);

/// Nobody rings for what comes due by itself; so the planner looks by itself too.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// A planner that cannot reach the store rests.
const STORE_RETRY: Duration = Duration::from_secs(1);

/// Runs that one look plans.
const LOOK_LEN_MAX: usize = 512;

/// How far a look at what is to be planned has come.
#[derive(Default)]
struct Tally {
    planned: usize,
    /// Whether it left some.
    more: bool,
    /// What the store could not do.
    failed: Option<StoreError>,
}

/// The planner's loop.
pub struct Planner {
    services: Arc<Services>,
    windows: HashMap<Source, DebounceWindow>,
    /// The zero of the windows' clock.
    started: Instant,
    /// Whether planned segments could not be put into the queue.
    owes_segments: bool,
}

impl Planner {
    /// A planner with no window open: what waits is planned at once.
    pub fn new(services: Arc<Services>) -> Self {
        Self { services, windows: HashMap::new(), started: Instant::now(), owes_segments: false }
    }

    /// Runs until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let services = self.services.clone();
            // Rung while it works, it looks once more.
            let bell = services.planner_bell.notified();
            let was_cold = services.index.state() != IndexState::Warm;
            let until = match self.look().await {
                Ok(until) => until,
                Err(error) => {
                    warn!(%error, "the planner waits for the store");
                    Instant::now() + STORE_RETRY
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = bell => {}
                () = services.index.warm(), if was_cold => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    /// Does everything that is due, and says when to look again.
    pub async fn look(&mut self) -> StoreResult<Instant> {
        let mut again = Instant::now() + LOOK_EVERY;
        for source in Source::ALL {
            if let Some(until) = self.close_batch(source).await? {
                again = again.min(until);
            }
        }
        let beginning = Beginning::new(&self.services);
        beginning.distribute().await?;
        beginning.take_waiting().await?;
        beginning.continue_spills().await?;
        if self.owes_segments {
            runner::recover(&self.services).await?;
            self.owes_segments = false;
        }
        let more = self.plan().await?;
        Ok(if more { Instant::now() } else { again })
    }

    /// Plans runs that wait for it, the most urgent first and older ones before later ones. One look plans a bounded number, so
    /// that what becomes urgent meanwhile does not wait for all of them; says whether there are more.
    async fn plan(&mut self) -> StoreResult<bool> {
        let mut planning = self.services.store.planning().await?;
        if planning.is_empty() {
            return Ok(false);
        }
        planning.sort_by_key(|(run, _)| Reverse(run.priority));
        // The runs first, then the index: so it has what was put before any of them was begun.
        let warm = self.services.index.caught_up(INDEX_PATIENCE).await? == IndexState::Warm;
        let services = self.services.clone();
        let (mut committing, mut tally) = (Committing::new(&services), Tally::default());
        for (run, input) in planning {
            if tally.planned == LOOK_LEN_MAX {
                tally.more = true;
                break;
            }
            while let Some(ended) = committing.make_room().await {
                self.note(ended, &mut tally).await;
            }
            if tally.failed.is_some() {
                break;
            }
            let (tenant, id) = (run.tenant.clone(), run.id.clone());
            let span = traces::of_run(&run, info_span!("plan", run = %id, trigger = run.trigger.as_str()));
            let planned = match input {
                Ok(input) => plan_run(&services, run, input, warm).instrument(span.clone()).await,
                Err(error) => Err(error.into()),
            };
            match planned {
                Ok(Some(plan)) => {
                    tally.planned += 1;
                    committing.add(plan, span);
                }
                Ok(None) => {}
                Err(error) => self.note(Ended { tenant, run: id, result: Err(error) }, &mut tally).await,
            }
        }
        while let Some(ended) = committing.next().await {
            self.note(ended, &mut tally).await;
        }
        tally.failed.map_or(Ok(tally.more), Err)
    }

    /// Takes note of how planning a run ended: one that cannot be planned ends with an error, and holds up no other.
    async fn note(&mut self, ended: Ended, tally: &mut Tally) {
        let Ended { tenant, run, result } = ended;
        let why = match result {
            // A conflict: cancelled meanwhile, or planned by somebody else.
            Ok(()) | Err(PlanError::Store(StoreError::Conflict { .. })) => return,
            Err(PlanError::Store(error)) if error.is_retryable() => {
                tally.failed = Some(error);
                return;
            }
            Err(PlanError::Queue(error)) => {
                warn!(%error, run = %run, "the segments of a run wait for the queue");
                self.owes_segments = true;
                return;
            }
            Err(error) => error.to_string(),
        };
        error!(error = why, run = %run, "a run cannot be planned");
        match self.services.store.fail_run(&tenant, &run, &why, self.services.clock.now()).await {
            Ok(()) => self.services.run_ended(),
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => tally.failed = Some(error),
        }
    }

    /// Closes a batch of what waits, if its time has come.
    async fn close_batch(&mut self, source: Source) -> StoreResult<Option<Instant>> {
        let waiting = self.services.store.unbatched(source).await?;
        let urgencies: Vec<Priority> = waiting.iter().map(|export| export.priority).collect();
        let now = self.started.elapsed();
        let window = self.windows.entry(source).or_default();
        match window.decide(now, &urgencies, self.services.settings.debounce) {
            Decision::Quiet => Ok(None),
            Decision::WaitUntil(until) => Ok(Some(self.started + until)),
            Decision::Close => {
                let batch = batch(source, &waiting, self.services.clock.now());
                info!(batch = %batch.id, source = source.as_str(), exports = batch.events.len(), "a batch is closed");
                match self.services.store.close_batch(batch).await {
                    Ok(()) => Ok(Some(self.started + now + self.services.settings.debounce)),
                    // Superseded in this moment: look again at once.
                    Err(StoreError::Conflict { .. }) => {
                        self.windows.remove(&source);
                        Ok(Some(Instant::now()))
                    }
                    Err(error) => {
                        self.windows.remove(&source);
                        Err(error)
                    }
                }
            }
        }
    }
}

/// A batch of exports. Its id derives from the deliveries and what they said.
fn batch(source: Source, exports: &[ExportHead], now: Timestamp) -> Batch {
    let parts: Vec<&str> = std::iter::once(source.as_str())
        .chain(exports.iter().flat_map(|e| [e.event_id.as_str(), e.export_id.as_str(), e.content_hash.as_str()]))
        .collect();
    #[expect(clippy::expect_used, reason = "a content id is 32 hexadecimal digits")]
    let id = BatchId::try_from(content_id("batch", &parts)).expect("a content id is an id");
    Batch { id, source, closed_at: now, events: exports.iter().map(|e| e.event_id.clone()).collect() }
}
