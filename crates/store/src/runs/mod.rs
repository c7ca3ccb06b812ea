//! Runs, their segments and outcomes, the outbox, and what is remembered of reports.
//!
//! - RUN-1: an outcome, its event, its baseline and its part of the run's numbers are one write (P4, P5).
//! - RUN-2: a run is in `LiveRuns` (and `LiveBySchedule`) until it ends and in `EndedRuns` after, and `Loads` holds the sums of
//!   `LiveRuns`; `save` is the one place that moves it.
//! - RUN-3: a segment is in `OpenSegments` exactly as long as one of its images has no outcome.

mod begin;
mod finish;
pub(crate) mod lists;
mod outbox;
mod outcomes;

pub(crate) use begin::{IdempotencyDoc, begin};

use crate::commit::Tx;
use crate::family::Cf;
use crate::key::Key;
use crate::read::{Read, ReadExt};
use crate::reports::report_key;
use crate::{EmbeddedStore, conflict, not_found};
use async_trait::async_trait;
use scheduler_core::cursor::Cursor;
use scheduler_core::ports::{
    Allowance, Begun, Claim, NewRun, OutcomeWrite, Page, PlanInput, PlannedRun, RunFilter, RunStore, Spill,
    StoreResult, Written,
};
use scheduler_model::{
    ImageDigest, OutboundEvent, Outcome, ReportRecord, Run, RunId, RunState, ScheduleId, Segment, SegmentId,
    SkipReason, TagRecord, TenantId, Timestamp,
};
use serde::{Deserialize, Serialize};

/// What is open of a run that has not ended.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LiveDoc {
    /// Images without an outcome.
    pub(crate) open: u64,
}

/// What is open of a tenant: a sum that is kept, since a walk over its live runs would pass all that have ended since the
/// engine's last compaction.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct LoadDoc {
    /// Runs that have not ended.
    pub(crate) runs: u64,
    /// Their images without an outcome.
    pub(crate) open: u64,
}

/// The part of a segment that changes.
#[derive(Debug, Default, Serialize, Deserialize)]
struct SegmentState {
    /// The highest token that claimed it.
    fence: u64,
    /// Images without an outcome.
    remaining: u64,
    /// Claims since the last write.
    #[serde(default)]
    claims: u32,
}

pub(crate) fn run_key(id: &RunId) -> Vec<u8> {
    id.as_str().as_bytes().to_vec()
}

fn segment_key(id: &SegmentId) -> Vec<u8> {
    id.as_str().as_bytes().to_vec()
}

/// The beginning of the keys of what belongs to a run.
pub(crate) fn of_run(id: &RunId) -> Key {
    Key::default().id(id.as_str())
}

fn place_key(segment: &Segment) -> Vec<u8> {
    of_run(&segment.run).number(segment.position.into()).done()
}

pub(crate) fn live_key(run: &Run) -> Vec<u8> {
    Key::default().id(run.tenant.as_str()).last(run.id.as_str())
}

pub(crate) fn ended_key(run: &Run) -> Vec<u8> {
    Key::default().time(run.finished_at.unwrap_or(run.created_at)).last(run.id.as_str())
}

pub(crate) fn by_time_key(run: &Run) -> Vec<u8> {
    Key::default().id(run.tenant.as_str()).time_desc(run.created_at).last(run.id.as_str())
}

pub(crate) fn schedule_prefix(tenant: &TenantId, schedule: &ScheduleId) -> Key {
    Key::default().id(tenant.as_str()).id(schedule.as_str())
}

pub(crate) fn live_of_schedule_key(run: &Run, schedule: &ScheduleId) -> Vec<u8> {
    schedule_prefix(&run.tenant, schedule).last(run.id.as_str())
}

pub(crate) fn load_key(tenant: &TenantId) -> Vec<u8> {
    tenant.as_str().as_bytes().to_vec()
}

pub(crate) fn by_schedule_key(run: &Run, schedule: &ScheduleId) -> Vec<u8> {
    schedule_prefix(&run.tenant, schedule).time_desc(run.created_at).last(run.id.as_str())
}

/// The run of that id, if it is the tenant's.
fn run_of(read: &(impl Read + ?Sized), tenant: &TenantId, id: &RunId) -> StoreResult<Option<Run>> {
    let run: Option<Run> = read.doc(Cf::Runs, &run_key(id))?;
    Ok(run.filter(|run| run.tenant == *tenant))
}

fn existing(read: &(impl Read + ?Sized), tenant: &TenantId, id: &RunId) -> StoreResult<Run> {
    run_of(read, tenant, id)?.ok_or_else(|| not_found("run", id.as_str()))
}

/// Whether a run of the schedule has not ended.
pub(crate) fn has_live_runs(
    read: &(impl Read + ?Sized),
    tenant: &TenantId,
    schedule: &ScheduleId,
) -> StoreResult<bool> {
    Ok(!read.pairs(Cf::LiveBySchedule, &schedule_prefix(tenant, schedule).done(), 1)?.is_empty())
}

/// Writes a run and puts it where its state belongs.
fn save(tx: &mut Tx<'_>, run: &Run) -> StoreResult<()> {
    let before: Option<LiveDoc> = tx.doc(Cf::LiveRuns, &live_key(run))?;
    let of_schedule = run.schedule.as_ref().map(|schedule| live_of_schedule_key(run, schedule));
    let after = if run.state.is_ended() {
        if let Some(key) = of_schedule.filter(|_| before.is_some()) {
            tx.delete(Cf::LiveBySchedule, key);
        }
        tx.delete(Cf::LiveRuns, live_key(run));
        tx.put(Cf::EndedRuns, ended_key(run), Vec::new());
        None
    } else {
        if let Some(key) = of_schedule.filter(|_| before.is_none()) {
            tx.put(Cf::LiveBySchedule, key, Vec::new());
        }
        let live = LiveDoc { open: run.stats.queued.saturating_sub(run.stats.ended()) };
        tx.put_doc(Cf::LiveRuns, live_key(run), &live)?;
        Some(live)
    };
    count_load(tx, &run.tenant, before, after)?;
    if run.state != RunState::Planning {
        tx.delete(Cf::Planning, run_key(&run.id));
    }
    tx.put_doc(Cf::Runs, run_key(&run.id), run)
}

/// Keeps the sum of what is open of a tenant.
fn count_load(tx: &mut Tx<'_>, tenant: &TenantId, before: Option<LiveDoc>, after: Option<LiveDoc>) -> StoreResult<()> {
    let counted = |live: Option<LiveDoc>| live.map_or((0, 0), |live| (1, live.open));
    let (before, after) = (counted(before), counted(after));
    if before == after {
        return Ok(());
    }
    let key = load_key(tenant);
    let load: LoadDoc = tx.doc(Cf::Loads, &key)?.unwrap_or_default();
    let runs = (load.runs + after.0).saturating_sub(before.0);
    let open = (load.open + after.1).saturating_sub(before.1);
    tx.put_doc(Cf::Loads, key, &LoadDoc { runs, open })
}

/// Moves a run on; `Conflict` when its state has no such move.
fn move_to(run: &mut Run, state: RunState) -> StoreResult<()> {
    run.state = run.state.to(state).map_err(|_| conflict("run", run.id.as_str()))?;
    Ok(())
}

#[async_trait]
impl RunStore for EmbeddedStore {
    async fn begin_run(&self, new: NewRun) -> StoreResult<Begun> {
        self.submit(move |tx| begin::begin(tx, new)).await
    }

    async fn begin_run_within(&self, new: NewRun, allowance: Allowance) -> StoreResult<Begun> {
        self.submit(move |tx| begin::begin_within(tx, new, allowance)).await
    }

    async fn planning(&self) -> StoreResult<Vec<(Run, StoreResult<PlanInput>)>> {
        self.read_queue(Cf::Planning, &[], |view| lists::planning(view)).await
    }

    async fn commit_plan(&self, plan: PlannedRun) -> StoreResult<()> {
        self.submit(move |tx| begin::commit_plan(tx, plan)).await
    }

    async fn run(&self, tenant: &TenantId, id: &RunId) -> StoreResult<Option<Run>> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.read(move |view| run_of(view, &tenant, &id)).await
    }

    async fn runs(
        &self,
        tenant: &TenantId,
        filter: &RunFilter,
        after: Option<&str>,
        limit: usize,
    ) -> StoreResult<Page<Run>> {
        let (tenant, filter, after) = (tenant.clone(), filter.clone(), after.map(str::to_owned));
        self.read(move |view| lists::runs(view, &tenant, &filter, after.as_deref(), limit)).await
    }

    async fn last_run(&self, tenant: &TenantId, schedule: &ScheduleId) -> StoreResult<Option<Run>> {
        let prefix = schedule_prefix(tenant, schedule).done();
        self.read(move |view| lists::last_run(view, &prefix)).await
    }

    async fn load(&self, tenant: &TenantId) -> StoreResult<(u64, u64)> {
        let tenant = tenant.clone();
        self.read(move |view| lists::load(view, &tenant)).await
    }

    async fn live_runs(&self, tenant: &TenantId, schedule: &ScheduleId) -> StoreResult<Vec<Run>> {
        let (tenant, schedule) = (tenant.clone(), schedule.clone());
        let prefix = schedule_prefix(&tenant, &schedule).done();
        self.read_queue(Cf::LiveBySchedule, &prefix, move |view| lists::live_runs(view, &tenant, &schedule)).await
    }

    async fn request_cancel(&self, tenant: &TenantId, id: &RunId, now: Timestamp) -> StoreResult<Run> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.submit(move |tx| finish::request_cancel(tx, &tenant, &id, now)).await
    }

    async fn open_segments(&self) -> StoreResult<Vec<Segment>> {
        self.read_queue(Cf::OpenSegments, &[], |view| lists::open_segments(view)).await
    }

    async fn claim(&self, segment: &SegmentId, fence: u64) -> StoreResult<Option<Claim>> {
        let segment = segment.clone();
        self.submit(move |tx| outcomes::claim(tx, &segment, fence)).await
    }

    async fn write_outcomes(
        &self,
        segment: &SegmentId,
        fence: u64,
        outcomes: Vec<OutcomeWrite>,
        now: Timestamp,
        announce: bool,
    ) -> StoreResult<Written> {
        let segment = segment.clone();
        self.submit(move |tx| outcomes::write(tx, &segment, fence, outcomes, now, announce)).await
    }

    async fn mark_started(&self, tenant: &TenantId, id: &RunId, now: Timestamp) -> StoreResult<()> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.submit(move |tx| outcomes::mark_started(tx, &tenant, &id, now)).await
    }

    async fn fail_run(&self, tenant: &TenantId, id: &RunId, error: &str, now: Timestamp) -> StoreResult<()> {
        let (tenant, id, error) = (tenant.clone(), id.clone(), error.to_owned());
        self.submit(move |tx| finish::fail(tx, &tenant, &id, error, now)).await
    }

    async fn skip_rest(&self, tenant: &TenantId, id: &RunId, reason: SkipReason, now: Timestamp) -> StoreResult<Run> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.submit(move |tx| finish::skip_rest(tx, &tenant, &id, reason, now)).await
    }

    async fn outcomes(
        &self,
        run: &RunId,
        kind: Option<&str>,
        after: Option<&str>,
        limit: usize,
    ) -> StoreResult<Page<Outcome>> {
        let (run, kind, after) = (run.clone(), kind.map(str::to_owned), after.map(str::to_owned));
        self.read(move |view| lists::outcomes(view, &run, kind.as_deref(), after.as_deref(), limit)).await
    }

    async fn outcome(&self, run: &RunId, digest: &ImageDigest) -> StoreResult<Option<Outcome>> {
        let key = of_run(run).last(digest.as_str());
        self.read(move |view| view.doc(Cf::Outcomes, &key)).await
    }

    async fn reports(&self, tenant: &TenantId, digests: &[ImageDigest]) -> StoreResult<Vec<Option<ReportRecord>>> {
        let keys: Vec<_> = digests.iter().map(|digest| report_key(tenant, digest)).collect();
        self.read(move |view| keys.iter().map(|key| view.doc(Cf::Reports, key)).collect()).await
    }

    async fn tags(&self, tenant: &TenantId, digest: &ImageDigest) -> StoreResult<Option<TagRecord>> {
        let key = report_key(tenant, digest);
        self.read(move |view| view.doc(Cf::Tags, &key)).await
    }

    async fn spill(&self, tenant: &TenantId, schedule: &ScheduleId) -> StoreResult<Option<Spill>> {
        let key = begin::spill_key(tenant, schedule);
        if self.engine.is_empty(Cf::Spills, &key) {
            return Ok(None);
        }
        self.read(move |view| view.doc(Cf::Spills, &key)).await
    }

    async fn spills_before(&self, before: Timestamp) -> StoreResult<Vec<Spill>> {
        self.read_queue(Cf::Spills, &[], move |view| {
            let mut spills: Vec<Spill> = view.docs(Cf::Spills, &[])?;
            spills.retain(|spill| spill.since < before);
            Ok(spills)
        })
        .await
    }

    async fn cursors(&self, tenant: &TenantId) -> StoreResult<Vec<Cursor>> {
        let prefix = Key::default().id(tenant.as_str()).done();
        self.read(move |view| view.docs(Cf::Cursors, &prefix)).await
    }

    async fn outbox(&self, tenant: &TenantId, after: u64, limit: usize) -> StoreResult<Vec<OutboundEvent>> {
        let tenant = tenant.clone();
        self.read(move |view| outbox::after(view, &tenant, after, limit)).await
    }

    async fn outbox_range(&self, tenant: &TenantId) -> StoreResult<(u64, u64)> {
        let tenant = tenant.clone();
        self.read(move |view| outbox::range(view, &tenant)).await
    }

    async fn trim_outbox(&self, before: Timestamp) -> StoreResult<u64> {
        self.trim_outbox_of_all(before).await
    }
}
