//! Planning one run: which images, in which order, in which segments.
//!
//! While the index is not warm, the catalog itself is asked, page by page: runs over a selection or over keys that a person
//! gave are complete at once. A run for exports takes its KEV and critical keys only; a run of its own takes the rest once
//! the index is warm, without the images that the first one took.

use crate::index_host::IndexHostError;
use crate::run_keys::{KeyError, Keys, Mentions, query_key};
use crate::search::{DueSince, Search};
use crate::services::Services;
use scheduler_core::launch;
use scheduler_core::plan::{self, Shape};
use scheduler_core::ports::{PlanInput, PlannedRun, QueueError, StoreError};
use scheduler_impact_index::IndexError;
use scheduler_model::{ImageDigest, Lane, Priority, Run, RunId, Trigger};
use std::collections::HashSet;
use tracing::{Instrument, info, info_span};

/// Digests that are looked up at once.
const LOOKUP_LEN_MAX: usize = 1000;

/// Why a run could not be planned.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanError {
    /// The store; if that may help, it is tried again.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It is planned, but its segments are not in the queue.
    #[error(transparent)]
    Queue(QueueError),
    /// The index of a page of the catalog.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// A key of the run that is none.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The search ended in a panic.
    #[error("the index did not answer")]
    NoAnswer,
}

impl From<IndexHostError> for PlanError {
    fn from(error: IndexHostError) -> Self {
        match error {
            IndexHostError::Index(error) => Self::Index(error),
            IndexHostError::Store(error) => Self::Store(error),
            IndexHostError::Busy | IndexHostError::Broken => Self::NoAnswer,
        }
    }
}

/// Plans one run; `None`: it waits for the index, or for another run. Nothing of it is durable yet.
pub(crate) async fn plan_run(
    services: &Services,
    run: Run,
    input: PlanInput,
    warm: bool,
) -> Result<Option<PlannedRun>, PlanError> {
    let mut asked = HashSet::new();
    if let Some(urgent) = &input.rest_of {
        let ended = services.store.run(&run.tenant, urgent).await?.is_none_or(|run| run.state.is_ended());
        if !warm || !ended {
            return Ok(None);
        }
        asked = asked_by(services, urgent).await?;
    }
    let mut keys = keys(services, &run, &input).await?;
    if !warm && !input.batches.is_empty() {
        let all = keys.unwrap_or_default();
        let count = all.len();
        let urgent: Keys = all.into_iter().filter(|(_, urgency)| *urgency > Priority::Normal).collect();
        if urgent.is_empty() && count > 0 {
            return Ok(None);
        }
        if urgent.len() < count {
            services.store.begin_run(launch::rest_of(&run, &input, services.clock.now())).await?;
        }
        keys = Some(urgent);
    }
    let now = services.clock.now();
    let left_over = match (&run.schedule, input.spills) {
        (Some(schedule), true) => services.store.spill(&run.tenant, schedule).await?.map(|spill| spill.digests),
        _ => None,
    };
    let search = Search {
        tenant: run.tenant.clone(),
        selection: input.selection.clone(),
        usage_only: input.usage_only,
        keys,
        left_over: left_over.unwrap_or_default(),
        only_if: DueSince::of(&input.only_if, now),
    };
    let mut candidates = search.carry_out(services, warm).instrument(info_span!("resolve", run = %run.id)).await?;
    for images in [&mut candidates.kev, &mut candidates.critical, &mut candidates.all] {
        images.retain(|image| !asked.contains(&image.digest));
    }
    let shape = Shape {
        max_jobs: usize::try_from(input.max_jobs).unwrap_or(usize::MAX),
        pace_group: launch::pace_group(&run),
        spill_to: run.schedule.clone().filter(|_| input.spills).map(|schedule| (run.tenant.clone(), schedule)),
        plain_lane: plain_lane(&run, &input),
    };
    Ok(Some(plan::plan(run, &candidates, &shape, now)))
}

fn plain_lane(run: &Run, input: &PlanInput) -> Lane {
    let is_late = run.reason.continues.is_some() && input.rest_of.is_none();
    if is_late || run.trigger == Trigger::Backfill { Lane::Backlog } else { Lane::Normal }
}

/// The images that a run which has ended took.
async fn asked_by(services: &Services, run: &RunId) -> Result<HashSet<ImageDigest>, PlanError> {
    let (mut asked, mut after) = (HashSet::new(), None);
    loop {
        let page = services.store.outcomes(run, None, after.as_deref(), LOOKUP_LEN_MAX).await?;
        asked.extend(page.items.into_iter().map(|outcome| outcome.digest));
        after = page.next;
        if after.is_none() {
            return Ok(asked);
        }
    }
}

/// Makes a plan durable; then its segments go to the queue.
pub(crate) async fn commit(services: &Services, plan: PlannedRun) -> Result<(), PlanError> {
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
        .map_err(PlanError::Queue)
}

/// The keys of a run with their urgency; `None`: every image of the selection.
async fn keys(services: &Services, run: &Run, input: &PlanInput) -> Result<Option<Keys>, PlanError> {
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
    let mut mentions = Mentions::default();
    for batch in &input.batches {
        for export in services.store.batch_exports(batch).await? {
            if export.tenants.includes(&run.tenant) {
                export.keys.into_iter().for_each(|key| mentions.add(key));
            }
        }
    }
    Ok(Some(mentions.keys(services.settings.narrow_by_range)?))
}
