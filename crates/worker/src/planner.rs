//! From exports to runs, and from runs to segments. Every step is durable before the next one begins and may be done twice.
//!
//! 1. Exports that wait are closed into batches, by source and window.
//! 2. A batch is handed to the schedules that hear its source.
//! 3. A schedule whose last run has ended takes what waits for it into a new run.
//! 4. A run that is being planned gets its images, its order, its limits and its segments.

use crate::admission::Admission;
use crate::services::Services;
use scheduler_core::launch;
use scheduler_core::plan::{self, Candidates, Shape};
use scheduler_core::ports::{Begun, NewRun, PlanInput, PlannedRun, StoreError, StoreResult, Subscription};
use scheduler_core::tick;
use scheduler_core::window::{DebounceWindow, Decision};
use scheduler_impact_index::{Query, QueryKey, Want};
use scheduler_model::ids::content_id;
use scheduler_model::purl::ProductKey;
use scheduler_model::{
    Batch, BatchId, Export, ImageDigest, Lane, Priority, Reason, ReportRecord, Run, RunId, Schedule, ScheduleId,
    SegmentImage, Selection, Source, TenantId, Timestamp, Trigger,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, error, info, info_span, warn};

/// Nobody rings for what comes due by itself; so the planner looks by itself too.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// A planner that cannot reach the store rests.
const STORE_RETRY: Duration = Duration::from_secs(1);

/// What a schedule left over is taken by a run of its own when no other one comes for so long.
const CONTINUE_AFTER: Duration = Duration::from_secs(300);

/// Digests that are looked up at once.
const LOOKUP_LEN_MAX: usize = 1000;

/// Why a run could not be planned.
#[derive(Debug, thiserror::Error)]
enum PlanError {
    /// The store; tried again.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Something that another try does not mend.
    #[error("{0}")]
    Broken(String),
}

/// The planner's loop.
pub struct Planner {
    services: Arc<Services>,
    windows: HashMap<Source, DebounceWindow>,
    /// The zero of the windows' clock.
    started: Instant,
}

impl Planner {
    /// A planner with no window open: what waits is planned at once.
    pub fn new(services: Arc<Services>) -> Self {
        Self { services, windows: HashMap::new(), started: Instant::now() }
    }

    /// Runs until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => return,
            () = self.services.index.warm() => {}
        }
        while !stop.is_cancelled() {
            let services = self.services.clone();
            // Rung while it works, it looks once more.
            let bell = services.planner_bell.notified();
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
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    /// Does everything that is due, and says when to look again.
    async fn look(&mut self) -> StoreResult<Instant> {
        let mut again = Instant::now() + LOOK_EVERY;
        for source in Source::ALL {
            if let Some(until) = self.close_batch(source).await? {
                again = again.min(until);
            }
        }
        self.distribute().await?;
        self.take_waiting().await?;
        self.continue_spills().await?;
        for (run, input) in self.services.store.planning().await? {
            let id = run.id.clone();
            let span = info_span!("plan", run = %id, trigger = run.trigger.as_str());
            match plan_run(&self.services, run, input).instrument(span).await {
                Ok(()) => {}
                Err(PlanError::Store(error)) if error.is_retryable() => return Err(error),
                // Cancelled meanwhile, or planned by somebody else.
                Err(PlanError::Store(StoreError::Conflict { .. })) => {}
                Err(error) => error!(%error, run = %id, "a run cannot be planned"),
            }
        }
        Ok(again)
    }

    /// Closes a batch of what waits, if its time has come.
    async fn close_batch(&mut self, source: Source) -> StoreResult<Option<Instant>> {
        let waiting = self.services.store.unbatched(source).await?;
        let urgencies: Vec<Priority> = waiting.iter().map(Export::priority).collect();
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

    /// Hands closed batches to their subscribers.
    async fn distribute(&self) -> StoreResult<()> {
        let store = &self.services.store;
        for batch in store.unplanned_batches().await? {
            let exports = store.batch_exports(&batch.id).await?;
            let to: Vec<Subscription> = store
                .subscribers(batch.source)
                .await?
                .into_iter()
                .filter(|schedule| exports.iter().any(|export| export.tenants.includes(&schedule.tenant)))
                .map(|schedule| Subscription {
                    tenant: schedule.tenant,
                    schedule: schedule.id,
                    batch: batch.id.clone(),
                })
                .collect();
            info!(batch = %batch.id, schedules = to.len(), "a batch is handed to its subscribers");
            store.distribute(&batch.id, to).await?;
        }
        Ok(())
    }

    /// Begins runs for schedules that have something waiting and no run that goes. What carries KEV does not wait.
    async fn take_waiting(&self) -> StoreResult<()> {
        let store = &self.services.store;
        let mut by_schedule: BTreeMap<(TenantId, ScheduleId), Vec<Subscription>> = BTreeMap::new();
        for waiting in store.waiting().await? {
            by_schedule.entry((waiting.tenant.clone(), waiting.schedule.clone())).or_default().push(waiting);
        }
        let mut admission = Admission::new(&self.services.settings);
        for ((tenant, id), waiting) in by_schedule {
            let Some(schedule) = store.schedule_with_deleted(&tenant, &id).await? else { continue };
            let mut exports: Vec<(BatchId, Vec<Export>)> = Vec::new();
            for taken in &waiting {
                exports.push((taken.batch.clone(), store.batch_exports(&taken.batch).await?));
            }
            let urgent = exports
                .iter()
                .flat_map(|(_, exports)| exports)
                .any(|export| export.tenants.includes(&tenant) && export.priority() == Priority::Kev);
            let goes = !store.live_runs(&tenant, &id).await?.is_empty();
            if !urgent && (goes || !self.is_their_turn(&schedule).await?) {
                continue;
            }
            // A run has one trigger, so each source makes one of its own.
            for source in Source::ALL {
                let of_source: Vec<Export> =
                    exports.iter().flat_map(|(_, e)| e).filter(|e| e.source == source).cloned().collect();
                let takes: Vec<Subscription> = waiting
                    .iter()
                    .zip(&exports)
                    .filter(|(_, (_, exports))| exports.first().is_some_and(|e| e.source == source))
                    .map(|(taken, _)| taken.clone())
                    .collect();
                if !takes.is_empty() && admission.admits(store.as_ref(), &tenant).await? {
                    let now = self.services.clock.now();
                    let defaults = self.services.settings.run_defaults;
                    self.begin(launch::of_exports(&schedule, source, takes, &of_source, defaults, now)).await?;
                }
            }
        }
        Ok(())
    }

    /// Whether the exports that wait for a schedule go before an instant of it that waits too.
    async fn is_their_turn(&self, schedule: &Schedule) -> StoreResult<bool> {
        let store = &self.services.store;
        let state = store.ticks(&[(schedule.tenant.clone(), schedule.id.clone())]).await?.pop().flatten();
        if state.is_none_or(|state| state.waits(schedule).is_none()) {
            return Ok(true);
        }
        let last = store.last_run(&schedule.tenant, &schedule.id).await?;
        Ok(tick::exports_go_first(last.map(|run| run.trigger)))
    }

    /// Begins continuation runs for what was left over and not taken.
    async fn continue_spills(&self) -> StoreResult<()> {
        let store = &self.services.store;
        let now = self.services.clock.now();
        let mut admission = Admission::new(&self.services.settings);
        for spill in store.spills_before(now.minus(CONTINUE_AFTER)).await? {
            let Some(schedule) = store.schedule(&spill.tenant, &spill.schedule).await? else { continue };
            let Some(continued) = store.run(&spill.tenant, &spill.run).await? else { continue };
            if !schedule.spec.enabled || !store.live_runs(&spill.tenant, &spill.schedule).await?.is_empty() {
                continue;
            }
            if admission.admits(store.as_ref(), &spill.tenant).await? {
                self.begin(continuation(&schedule, &continued, self.services.settings.run_defaults, now)).await?;
            }
        }
        Ok(())
    }

    async fn begin(&self, new: NewRun) -> StoreResult<()> {
        let (id, trigger, tenant) = (new.run.id.clone(), new.run.trigger, new.run.tenant.clone());
        let moves = !new.passed.is_empty();
        match self.services.store.begin_run(new).await {
            Ok(begun) => {
                info!(run = %id, trigger = trigger.as_str(), ?begun, "a run begins");
                if moves && begun == Begun::New { self.tell_holes(&tenant, &id).await } else { Ok(()) }
            }
            // Somebody else took what waited.
            Err(StoreError::Conflict { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Planner {
    /// Tells of the holes between windows that a run's exports have shown: time of which no export spoke.
    async fn tell_holes(&self, tenant: &TenantId, run: &RunId) -> StoreResult<()> {
        for cursor in self.services.store.cursors(tenant).await? {
            for hole in cursor.holes.iter().filter(|hole| hole.found_by == *run) {
                let source = cursor.source.as_str();
                warn!(tenant = %tenant, source, from = %hole.from, to = %hole.to, run = %run, "no export covers this time");
                metrics::counter!("scheduler_window_holes_total", "source" => source).increment(1);
            }
        }
        Ok(())
    }
}

/// A batch of exports. Its id derives from the deliveries and what they said.
fn batch(source: Source, exports: &[Export], now: Timestamp) -> Batch {
    let parts: Vec<&str> = std::iter::once(source.as_str())
        .chain(exports.iter().flat_map(|e| [e.event_id.as_str(), e.export_id.as_str(), e.content_hash.as_str()]))
        .collect();
    #[expect(clippy::expect_used, reason = "a content id is 32 hexadecimal digits")]
    let id = BatchId::try_from(content_id("batch", &parts)).expect("a content id is an id");
    Batch { id, source, closed_at: now, events: exports.iter().map(|e| e.event_id.clone()).collect() }
}

/// A run over nothing but what the schedule left over.
fn continuation(schedule: &Schedule, continued: &Run, defaults: launch::RunDefaults, now: Timestamp) -> NewRun {
    let reason = Reason { continues: Some(continued.id.clone()), ..Reason::default() };
    let id = launch::continuation_run_id(schedule, &continued.id);
    let mut new = launch::of_schedule(id, schedule, continued.trigger, reason, defaults, now);
    new.input.keys = Some(Vec::new());
    // What was left over has qualified already.
    new.input.only_if = scheduler_model::OnlyIf::default();
    new
}

/// Plans one run and makes the plan durable; then its segments go to the queue.
async fn plan_run(services: &Arc<Services>, mut run: Run, input: PlanInput) -> Result<(), PlanError> {
    services.index.caught_up(Duration::from_secs(1)).await?;
    let keys = keys(services, &run, &input).await?;
    let left_over = match (&run.schedule, input.spills) {
        (Some(schedule), true) => services.store.spill(&run.tenant, schedule).await?.map(|spill| spill.digests),
        _ => None,
    };
    let candidates = candidates(services, &run, &input, keys, left_over.unwrap_or_default()).await?;
    let reports = reports(services, &run, &input, &candidates).await?;
    let now = services.clock.now();
    let qualifies = |digest: &ImageDigest| reports.as_ref().is_none_or(|fresh| !fresh.contains(digest));
    let shape = Shape {
        max_jobs: usize::try_from(input.max_jobs).unwrap_or(usize::MAX),
        pace_group: launch::pace_group(&run),
        spill_to: run.schedule.clone().filter(|_| input.spills).map(|schedule| (run.tenant.clone(), schedule)),
        plain_lane: if run.reason.continues.is_some() || run.trigger == Trigger::Backfill {
            Lane::Backlog
        } else {
            Lane::Normal
        },
    };
    run.error = None;
    let plan = plan::plan(run, &candidates, qualifies, &shape, now);
    commit(services, plan).await
}

async fn commit(services: &Arc<Services>, plan: PlannedRun) -> Result<(), PlanError> {
    let (run, segments) = (plan.run.clone(), plan.segments.clone());
    services.store.commit_plan(plan).await?;
    if run.state.is_ended() {
        services.run_ended();
    }
    info!(run = %run.id, candidates = run.stats.candidates, queued = run.stats.queued, spilled = run.stats.spilled, "a run is planned");
    metrics::counter!("scheduler_images_selected_total", "mode" => run.mode.as_str()).increment(run.stats.candidates);
    metrics::counter!("scheduler_jobs_enqueued_total", "mode" => run.mode.as_str()).increment(run.stats.queued);
    let count = segments.len();
    services
        .queue
        .enqueue(segments)
        .instrument(info_span!("enqueue", run = %run.id, segments = count))
        .await
        .map_err(|error| PlanError::Broken(error.to_string()))
}

/// The keys of a run with their urgency; `None`: every image of the selection.
async fn keys(
    services: &Services,
    run: &Run,
    input: &PlanInput,
) -> Result<Option<Vec<(QueryKey, Priority)>>, PlanError> {
    if let Some(keys) = &input.keys {
        return keys
            .iter()
            .map(|key| Ok((query_key(key, None)?, Priority::Normal)))
            .collect::<Result<_, _>>()
            .map(Some);
    }
    if input.batches.is_empty() {
        return Ok(None);
    }
    let mut merged: BTreeMap<(String, Option<String>), Priority> = BTreeMap::new();
    for batch in &input.batches {
        for export in services.store.batch_exports(batch).await? {
            if !export.tenants.includes(&run.tenant) {
                continue;
            }
            for key in export.keys {
                let urgency = merged.entry((key.key, key.subcomponent)).or_default();
                *urgency = (*urgency).max(key.priority);
            }
        }
    }
    merged
        .into_iter()
        .map(|((key, subcomponent), urgency)| Ok((query_key(&key, subcomponent.as_deref())?, urgency)))
        .collect::<Result<_, _>>()
        .map(Some)
}

fn query_key(key: &str, subcomponent: Option<&str>) -> Result<QueryKey, PlanError> {
    let parse = |text: &str| {
        ProductKey::parse(text).map(|(key, _)| key).map_err(|error| PlanError::Broken(format!("`{text}`: {error}")))
    };
    Ok(QueryKey::new(parse(key)?, subcomponent.map(parse).transpose()?))
}

/// Asks the index, once for each urgency.
async fn candidates(
    services: &Arc<Services>,
    run: &Run,
    input: &PlanInput,
    keys: Option<Vec<(QueryKey, Priority)>>,
    left_over: Vec<ImageDigest>,
) -> Result<Candidates, PlanError> {
    let index = services.index.index();
    let (tenant, selection, usage_only) = (run.tenant.clone(), input.selection.clone(), input.usage_only);
    let work = move || {
        let resolve = |keys: Option<&[QueryKey]>, selection: &Selection| -> Vec<SegmentImage> {
            let query = Query { tenant: &tenant, selection, keys, usage_only };
            index
                .resolve(&query, Want { digests: true, ..Want::default() })
                .digests
                .into_iter()
                .map(|image| SegmentImage { digest: image.digest, repository: image.repository })
                .collect()
        };
        let of = |urgency: Priority| -> Vec<SegmentImage> {
            let some: Vec<QueryKey> = keys
                .iter()
                .flatten()
                .filter(|(_, priority)| *priority == urgency)
                .map(|(key, _)| key.clone())
                .collect();
            if some.is_empty() { Vec::new() } else { resolve(Some(&some), &selection) }
        };
        let all: Option<Vec<QueryKey>> = keys.as_ref().map(|keys| keys.iter().map(|(key, _)| key.clone()).collect());
        Candidates {
            kev: of(Priority::Kev),
            critical: of(Priority::Critical),
            left_over: if left_over.is_empty() { Vec::new() } else { kept(&resolve, &selection, &left_over) },
            all: resolve(all.as_deref(), &selection),
        }
    };
    let span = info_span!("resolve", run = %run.id);
    let began = Instant::now();
    let found = tokio::task::spawn_blocking(move || span.in_scope(work))
        .await
        .map_err(|_| PlanError::Broken("the index did not answer".into()))?;
    metrics::histogram!("scheduler_impact_resolve_seconds").record(began.elapsed().as_secs_f64());
    Ok(found)
}

/// Of what was left over, what the catalog still has and the selection still lets through, in the order in which it was left.
fn kept(
    resolve: &impl Fn(Option<&[QueryKey]>, &Selection) -> Vec<SegmentImage>,
    selection: &Selection,
    left_over: &[ImageDigest],
) -> Vec<SegmentImage> {
    let chosen: HashSet<&ImageDigest> = selection.digests.iter().collect();
    let digests: Vec<ImageDigest> =
        left_over.iter().filter(|digest| chosen.is_empty() || chosen.contains(digest)).cloned().collect();
    if digests.is_empty() {
        return Vec::new();
    }
    let narrowed = Selection { digests, ..selection.clone() };
    let mut found: HashMap<ImageDigest, SegmentImage> =
        resolve(None, &narrowed).into_iter().map(|image| (image.digest.clone(), image)).collect();
    left_over.iter().filter_map(|digest| found.remove(digest)).collect()
}

/// The images whose report is fresh enough to be left out by `onlyIf`; `None` when nothing is left out.
async fn reports(
    services: &Services,
    run: &Run,
    input: &PlanInput,
    candidates: &Candidates,
) -> Result<Option<HashSet<ImageDigest>>, PlanError> {
    let only_if = &input.only_if;
    if only_if.last_report_older_than_days.is_none() && only_if.policy_revision.is_none() {
        return Ok(None);
    }
    let now = services.clock.now();
    let mut fresh = HashSet::new();
    let digests: Vec<ImageDigest> = candidates.all.iter().map(|image| image.digest.clone()).collect();
    for chunk in digests.chunks(LOOKUP_LEN_MAX) {
        let records = services.store.reports(&run.tenant, chunk).await?;
        let known = chunk.iter().zip(records).filter_map(|(digest, record)| record.map(|record| (digest, record)));
        fresh.extend(known.filter(|(_, record)| !is_due(input, record, now)).map(|(digest, _)| digest.clone()));
    }
    Ok(Some(fresh))
}

/// Whether an image with that report qualifies: too old, or under another policy.
fn is_due(input: &PlanInput, record: &ReportRecord, now: Timestamp) -> bool {
    let days = |days: u32| Duration::from_secs(u64::from(days) * 86_400);
    let old =
        input.only_if.last_report_older_than_days.is_some_and(|limit| now.since(record.reported_at) > days(limit));
    let other =
        input.only_if.policy_revision.as_ref().is_some_and(|wanted| record.policy_revision.as_ref() != Some(wanted));
    old || other
}
