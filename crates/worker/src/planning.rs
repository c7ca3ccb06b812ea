//! Planning one run: which images, in which order, in which segments.
//!
//! While the index is not warm, the catalog itself is asked, page by page: runs over a selection or over keys that a person
//! gave are complete at once. A run for exports takes its KEV and critical keys only; a run of its own takes the rest once
//! the index is warm, without the images that the first one took.

use crate::index_host::index_of;
use crate::services::Services;
use scheduler_core::launch;
use scheduler_core::plan::{self, Candidates, Shape};
use scheduler_core::ports::{PlanInput, PlannedRun, QueueError, StoreError};
use scheduler_impact_index::{ImpactIndex, IndexError, Query, QueryKey, Want};
use scheduler_model::purl::ProductKey;
use scheduler_model::{
    Image, ImageDigest, Lane, Priority, ReportRecord, Run, RunId, SegmentImage, Selection, TenantId, Timestamp, Trigger,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tracing::{Instrument, info, info_span};

/// Digests that are looked up at once.
const LOOKUP_LEN_MAX: usize = 1000;

/// Images of the catalog that are looked at together while the index is not warm.
const SCAN_PAGE_LEN: usize = 256;

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
    #[error("the key `{key}` cannot be read")]
    Key {
        /// The key.
        key: String,
        /// What is wrong with it.
        #[source]
        source: scheduler_model::purl::PurlError,
    },
    /// The search ended in a panic.
    #[error("the index did not answer")]
    NoAnswer,
}

type Keys = Vec<(QueryKey, Priority)>;

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
    };
    let mut candidates = search.carry_out(services, warm).instrument(info_span!("resolve", run = %run.id)).await?;
    for images in [&mut candidates.kev, &mut candidates.critical, &mut candidates.all] {
        images.retain(|image| !asked.contains(&image.digest));
    }
    let fresh = fresh(services, &run, &input, &candidates).await?;
    let shape = Shape {
        max_jobs: usize::try_from(input.max_jobs).unwrap_or(usize::MAX),
        pace_group: launch::pace_group(&run),
        spill_to: run.schedule.clone().filter(|_| input.spills).map(|schedule| (run.tenant.clone(), schedule)),
        plain_lane: plain_lane(&run, &input),
    };
    Ok(Some(plan::plan(run, &candidates, |digest| !fresh.contains(digest), &shape, services.clock.now())))
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
        ProductKey::parse(text).map(|(key, _)| key).map_err(|source| PlanError::Key { key: text.to_owned(), source })
    };
    Ok(QueryKey::new(parse(key)?, subcomponent.map(parse).transpose()?))
}

/// What a run looks for.
#[derive(Debug, Clone)]
struct Search {
    tenant: TenantId,
    selection: Selection,
    usage_only: bool,
    /// `None`: every image of the selection.
    keys: Option<Keys>,
    left_over: Vec<ImageDigest>,
}

impl Search {
    /// Asks the index, or, when it is not warm, the catalog.
    async fn carry_out(self, services: &Services, warm: bool) -> Result<Candidates, PlanError> {
        if warm {
            let index = services.index.index();
            let began = Instant::now();
            let found = tokio::task::spawn_blocking(move || self.ask(&index)).await.map_err(|_| PlanError::NoAnswer)?;
            metrics::histogram!("scheduler_impact_resolve_seconds").record(began.elapsed().as_secs_f64());
            return Ok(found);
        }
        let search = Arc::new(self);
        let (mut found, mut after) = (Candidates::default(), None);
        loop {
            let page = services.store.images(&search.tenant, after.as_deref(), SCAN_PAGE_LEN).await?;
            let (search_page, items) = (search.clone(), page.items);
            let some = tokio::task::spawn_blocking(move || search_page.ask_page(items))
                .await
                .map_err(|_| PlanError::NoAnswer)??;
            found.kev.extend(some.kev);
            found.critical.extend(some.critical);
            found.left_over.extend(some.left_over);
            found.all.extend(some.all);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let place: HashMap<&ImageDigest, usize> = search.left_over.iter().zip(0..).collect();
        found.left_over.sort_by_key(|image| place.get(&image.digest).copied());
        Ok(found)
    }

    /// Asks some images only: by an index of their own, so that the rules are the same.
    fn ask_page(&self, images: Vec<Image>) -> Result<Candidates, IndexError> {
        Ok(self.ask(&index_of(images)?))
    }

    /// Asks an index, once for each urgency.
    fn ask(&self, index: &ImpactIndex) -> Candidates {
        let of = |urgency: Priority| -> Vec<SegmentImage> {
            let keys = self.keys.iter().flatten().filter(|(_, priority)| *priority == urgency);
            let some: Vec<QueryKey> = keys.map(|(key, _)| key.clone()).collect();
            if some.is_empty() { Vec::new() } else { self.resolve(index, Some(&some), &self.selection) }
        };
        let all: Option<Vec<QueryKey>> =
            self.keys.as_ref().map(|keys| keys.iter().map(|(key, _)| key.clone()).collect());
        Candidates {
            kev: of(Priority::Kev),
            critical: of(Priority::Critical),
            left_over: self.kept(index),
            all: self.resolve(index, all.as_deref(), &self.selection),
        }
    }

    fn resolve(&self, index: &ImpactIndex, keys: Option<&[QueryKey]>, selection: &Selection) -> Vec<SegmentImage> {
        let query = Query { tenant: &self.tenant, selection, keys, usage_only: self.usage_only };
        index
            .resolve(&query, Want { digests: true, ..Want::default() })
            .digests
            .into_iter()
            .map(|image| SegmentImage { digest: image.digest, repository: image.repository })
            .collect()
    }

    /// Of what was left over, what is still there and the selection still lets through, in the order in which it was left.
    fn kept(&self, index: &ImpactIndex) -> Vec<SegmentImage> {
        let chosen: HashSet<&ImageDigest> = self.selection.digests.iter().collect();
        let digests: Vec<ImageDigest> =
            self.left_over.iter().filter(|digest| chosen.is_empty() || chosen.contains(digest)).cloned().collect();
        if digests.is_empty() {
            return Vec::new();
        }
        let narrowed = Selection { digests, ..self.selection.clone() };
        let mut found: HashMap<ImageDigest, SegmentImage> =
            self.resolve(index, None, &narrowed).into_iter().map(|image| (image.digest.clone(), image)).collect();
        self.left_over.iter().filter_map(|digest| found.remove(digest)).collect()
    }
}

/// The images whose report is fresh enough to be left out by `onlyIf`.
async fn fresh(
    services: &Services,
    run: &Run,
    input: &PlanInput,
    candidates: &Candidates,
) -> Result<HashSet<ImageDigest>, PlanError> {
    let only_if = &input.only_if;
    if only_if.last_report_older_than_days.is_none() && only_if.policy_revision.is_none() {
        return Ok(HashSet::new());
    }
    let now = services.clock.now();
    let mut fresh = HashSet::new();
    let digests: Vec<ImageDigest> = candidates.all.iter().map(|image| image.digest.clone()).collect();
    for chunk in digests.chunks(LOOKUP_LEN_MAX) {
        let records = services.store.reports(&run.tenant, chunk).await?;
        let known = chunk.iter().zip(records).filter_map(|(digest, record)| record.map(|record| (digest, record)));
        fresh.extend(known.filter(|(_, record)| !is_due(input, record, now)).map(|(digest, _)| digest.clone()));
    }
    Ok(fresh)
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
