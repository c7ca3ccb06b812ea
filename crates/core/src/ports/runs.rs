use super::{Page, StoreResult, Subscription};
use crate::cursor::{Cursor, Passed};
use async_trait::async_trait;
use scheduler_model::{
    BatchId, ImageDigest, ImageEvent, ImageEventType, OnlyIf, OutboundEvent, Outcome, ReportRecord, Run, RunId,
    RunLimits, RunState, ScheduleId, Segment, SegmentId, Selection, SkipReason, TagRecord, TenantId, Timestamp,
    Trigger,
};
use serde::{Deserialize, Serialize};

/// What a run was asked to look at: enough to plan it again after a crash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanInput {
    /// Which images at all.
    pub selection: Selection,
    /// Keys that a person gave; `None`: every image of the selection.
    pub keys: Option<Vec<String>>,
    /// Exports whose keys count.
    pub batches: Vec<BatchId>,
    /// Whether only used packages count.
    pub usage_only: bool,
    /// Narrowing, already emptied for event runs.
    pub only_if: OnlyIf,
    /// The most images that the run takes.
    pub max_jobs: u32,
    /// Whether the run takes what earlier runs of its schedule left, and leaves what is over.
    pub spills: bool,
    /// The run that took the urgent keys of the same batches while the index was cold; this one takes the rest.
    #[serde(default)]
    pub rest_of: Option<RunId>,
    /// Limits as the schedule or the caller gave them.
    pub limits: RunLimits,
}

/// A run to begin.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// In state `planning`.
    pub run: Run,
    /// What it looks at.
    pub input: PlanInput,
    /// What it takes out of the schedule's waiting list.
    pub takes: Vec<Subscription>,
    /// The exports that it takes, in the order in which they came; they move the cursor of their source.
    pub passed: Vec<Passed>,
    /// The caller's idempotency key and the hash of what was asked.
    pub idempotency: Option<(String, String)>,
}

/// The name of the limit of a tenant's runs that have not ended.
pub const RUNS_LIMIT: &str = "limits.maxActiveRunsPerTenant";

/// The name of the limit of a tenant's images without an outcome.
pub const BACKLOG_LIMIT: &str = "limits.maxBacklogPerTenant";

/// What a tenant may have before it begins another run.
#[derive(Debug, Clone, Copy)]
pub struct Allowance {
    /// The most runs that have not ended, the new one among them.
    pub runs_max: u64,
    /// With so many images without an outcome, no run begins.
    pub backlog_max: u64,
}

/// What beginning a run did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// It exists now.
    New,
    /// It existed; or the idempotency key had started this one.
    Existing(RunId),
    /// The idempotency key had started a run with other content.
    OtherContent,
}

/// What planning a run found.
#[derive(Debug, Clone)]
pub struct PlannedRun {
    /// With its numbers and in its next state.
    pub run: Run,
    /// The work, in order.
    pub segments: Vec<Segment>,
    /// What the schedule has left over now; replaces what it had.
    pub left_over: Option<Spill>,
}

/// Images that a schedule's runs have left over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spill {
    /// Whose.
    pub tenant: TenantId,
    /// The schedule.
    pub schedule: ScheduleId,
    /// The run that left them last.
    pub run: RunId,
    /// When.
    pub since: Timestamp,
    /// The images, most urgent first.
    pub digests: Vec<ImageDigest>,
}

/// An outcome with everything that must become durable in the same moment.
#[derive(Debug, Clone)]
pub struct OutcomeWrite {
    /// What the image got.
    pub outcome: Outcome,
    /// The event that it makes.
    pub event: Option<(ImageEventType, ImageEvent)>,
    /// What is remembered of the report: the new baseline. With findings it follows the revision that they were compared with;
    /// without, the findings that are remembered stay.
    pub report: Option<ReportRecord>,
    /// What is remembered of the image's tags; `None` leaves it as it is.
    pub tags: Option<TagRecord>,
}

/// A segment that was taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Its run.
    pub run: Run,
    /// The segment, with the images that have no outcome yet.
    pub segment: Segment,
    /// How many claims before this one came to nothing, since the last write.
    pub futile: u32,
}

/// What writing outcomes did.
#[derive(Debug, Clone)]
pub struct Written {
    /// The run afterwards.
    pub run: Run,
    /// How many of the outcomes were new.
    pub inserted: usize,
    /// Images whose findings were compared with a report that is not the last one any more. They got no outcome: whoever
    /// has their findings compares and writes again.
    pub moved: Vec<ImageDigest>,
}

/// Which runs to list.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    /// Of that schedule.
    pub schedule: Option<ScheduleId>,
    /// In that state.
    pub state: Option<RunState>,
    /// Started by that.
    pub trigger: Option<Trigger>,
    /// Created then or later.
    pub since: Option<Timestamp>,
    /// Created before.
    pub until: Option<Timestamp>,
}

/// Runs, their segments and outcomes, the outbox, and what is remembered of reports.
#[async_trait]
pub trait RunStore: Send + Sync {
    /// Begins a run: inserts it, takes its subscriptions out of the waiting list, moves the tenant's cursor over the exports
    /// that it takes and remembers the idempotency key (for 24 hours), in one write. A run of that id, or the key, makes it `Existing` and changes nothing; `Conflict` when a
    /// subscription is not waiting any more.
    async fn begin_run(&self, new: NewRun) -> StoreResult<Begun>;

    /// Begins a run as [`Self::begin_run`] does, unless that takes the tenant beyond what it may have: `Full`, with the limit's
    /// name. One check with the write, so that simultaneous callers do not pass it together. `Existing` comes at the
    /// limit too.
    async fn begin_run_within(&self, new: NewRun, allowance: Allowance) -> StoreResult<Begun>;

    /// Runs that are being planned, oldest first, each with what it was asked to look at, or the error where that cannot be
    /// read. A run that cannot be read itself is left out.
    async fn planning(&self) -> StoreResult<Vec<(Run, StoreResult<PlanInput>)>>;

    /// Makes a plan durable: the run, its segments, and what its schedule has left over, in one write. `Conflict` when
    /// the run is not in state `planning` any more.
    async fn commit_plan(&self, plan: PlannedRun) -> StoreResult<()>;

    /// One run.
    async fn run(&self, tenant: &TenantId, id: &RunId) -> StoreResult<Option<Run>>;

    /// The tenant's runs, newest first.
    async fn runs(
        &self,
        tenant: &TenantId,
        filter: &RunFilter,
        after: Option<&str>,
        limit: usize,
    ) -> StoreResult<Page<Run>>;

    /// The schedule's newest run.
    async fn last_run(&self, tenant: &TenantId, schedule: &ScheduleId) -> StoreResult<Option<Run>>;

    /// How many runs of the tenant have not ended, and how many images of them have no outcome.
    async fn load(&self, tenant: &TenantId) -> StoreResult<(u64, u64)>;

    /// Runs of the schedule that have not ended.
    async fn live_runs(&self, tenant: &TenantId, schedule: &ScheduleId) -> StoreResult<Vec<Run>>;

    /// Asks for a run to be cancelled. `Conflict` when it has ended. A second request changes nothing.
    async fn request_cancel(&self, tenant: &TenantId, id: &RunId, now: Timestamp) -> StoreResult<Run>;

    /// Segments that have images without an outcome, of every run that has not ended.
    async fn open_segments(&self) -> StoreResult<Vec<Segment>>;

    /// Takes the segment over under a fencing token: from here on, writes with a lower token are refused. Gives the images
    /// that have no outcome yet, and the run. `Fenced` when a higher token was there; `None` when nothing is left. Claims
    /// are counted durably until something is written under one, so that a segment which ends its process is noticed.
    async fn claim(&self, segment: &SegmentId, fence: u64) -> StoreResult<Option<Claim>>;

    /// Writes outcomes of a segment, each with its event and baseline, and counts them in the run, in one durable write.
    /// An image that has an outcome keeps it; one whose baseline has moved since its findings were compared gets none and is
    /// named, so that of two runs at the same time only one counts a finding as new. When the last image of the run has one, the run ends: `cancelled` if that was
    /// asked for, else `completed`. `Fenced` when the token is not the highest. With `announce` the run's progress goes
    /// into the outbox too; a change of state always does. Writing nothing says that the claim ended in peace.
    async fn write_outcomes(
        &self,
        segment: &SegmentId,
        fence: u64,
        outcomes: Vec<OutcomeWrite>,
        now: Timestamp,
        announce: bool,
    ) -> StoreResult<Written>;

    /// Moves a run to `running` when its first call is about to begin; later calls change nothing.
    async fn mark_started(&self, tenant: &TenantId, id: &RunId, now: Timestamp) -> StoreResult<()>;

    /// Ends a run with an error: its images without an outcome are skipped.
    async fn fail_run(&self, tenant: &TenantId, id: &RunId, error: &str, now: Timestamp) -> StoreResult<()>;

    /// Gives every image of a run that has no outcome a skipped one, whoever leases its segment, and ends the run.
    async fn skip_rest(&self, tenant: &TenantId, id: &RunId, reason: SkipReason, now: Timestamp) -> StoreResult<Run>;

    /// The run's outcomes in the order of the digests; `kind` is a word of `OutcomeResult::as_str`.
    async fn outcomes(
        &self,
        run: &RunId,
        kind: Option<&str>,
        after: Option<&str>,
        limit: usize,
    ) -> StoreResult<Page<Outcome>>;

    /// What an image got in a run, if it has got it.
    async fn outcome(&self, run: &RunId, digest: &ImageDigest) -> StoreResult<Option<Outcome>>;

    /// What is remembered of the images' last reports, in the order asked.
    async fn reports(&self, tenant: &TenantId, digests: &[ImageDigest]) -> StoreResult<Vec<Option<ReportRecord>>>;

    /// What is remembered of an image's tags.
    async fn tags(&self, tenant: &TenantId, digest: &ImageDigest) -> StoreResult<Option<TagRecord>>;

    /// What a schedule has left over.
    async fn spill(&self, tenant: &TenantId, schedule: &ScheduleId) -> StoreResult<Option<Spill>>;

    /// What schedules have left over since before `before`.
    async fn spills_before(&self, before: Timestamp) -> StoreResult<Vec<Spill>>;

    /// The tenant's cursors, in the order of their sources.
    async fn cursors(&self, tenant: &TenantId) -> StoreResult<Vec<Cursor>>;

    /// The tenant's events after a sequence number, in order: up to `limit`, and fewer when they are large (the whole is bounded in
    /// bytes), but at least one if there is one.
    async fn outbox(&self, tenant: &TenantId, after: u64, limit: usize) -> StoreResult<Vec<OutboundEvent>>;

    /// The numbers of the tenant's oldest and newest event that are kept; (next, next - 1) when there are none.
    async fn outbox_range(&self, tenant: &TenantId) -> StoreResult<(u64, u64)>;

    /// Removes events older than `before`; gives their number.
    async fn trim_outbox(&self, before: Timestamp) -> StoreResult<u64>;
}
