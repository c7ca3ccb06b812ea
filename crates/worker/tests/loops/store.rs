//! The embedded store with a switch, and with virtual time standing still while it works.

use async_trait::async_trait;
use parking_lot::Mutex;
use scheduler_core::cursor::Cursor;
use scheduler_core::ports::{
    Accepted, Allowance, Begun, CatalogChange, CatalogStore, Claim, EventStore, Housekeeping, NewRun, OutcomeWrite,
    Page, PlanInput, PlannedRun, Pruned, PutImage, ReportChange, ReportStore, RunFilter, RunStore, ScheduleFilter,
    ScheduleStore, Spill, StoreError, StoreResult, Subscription, Tick, TickStore, Ticked, Written,
};
use scheduler_core::tick::TickState;
use scheduler_model::{
    Batch, BatchId, Export, ExportHead, Image, ImageDigest, OutboundEvent, Outcome, ReportHead, ReportRecord, Run,
    RunId, Schedule, ScheduleId, Segment, SegmentId, SkipReason, Source, TagRecord, TenantId, Timestamp,
};
use scheduler_store::EmbeddedStore;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

/// A store that can be away.
pub struct SwitchedStore {
    pub inner: Arc<EmbeddedStore>,
    away: AtomicBool,
    calls: Mutex<Vec<&'static str>>,
}

impl SwitchedStore {
    pub fn new(inner: Arc<EmbeddedStore>) -> Self {
        Self { inner, away: AtomicBool::new(false), calls: Mutex::default() }
    }

    pub fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    /// How often an operation was asked for.
    pub fn calls(&self, name: &str) -> usize {
        self.calls.lock().iter().filter(|call| **call == name).count()
    }

    fn enter(&self, call: &'static str) -> StoreResult<Hold> {
        self.calls.lock().push(call);
        if self.away.load(Ordering::SeqCst) {
            let source = std::io::Error::other("switched off");
            return Err(StoreError::Unavailable { what: call.to_owned(), source: Box::new(source) });
        }
        Ok(Hold::new())
    }
}

/// Keeps the paused clock of the runtime from moving on by itself: a blocking task that waits for its end.
struct Hold {
    _end: mpsc::Sender<()>,
}

impl Hold {
    fn new() -> Self {
        let (end, ended) = mpsc::channel();
        tokio::task::spawn_blocking(move || ended.recv());
        Self { _end: end }
    }
}

macro_rules! delegate {
    ($port:ident: $($name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {
        #[async_trait]
        impl $port for SwitchedStore {
            $(
                async fn $name(&self, $($arg: $type),*) -> StoreResult<$answer> {
                    let _hold = self.enter(stringify!($name))?;
                    self.inner.$name($($arg),*).await
                }
            )*
        }
    };
}

delegate! { CatalogStore:
    put_images(images: Vec<Image>) -> Vec<PutImage>;
    delete_image(tenant: &TenantId, digest: &ImageDigest) -> Option<u64>;
    image(tenant: &TenantId, digest: &ImageDigest) -> Option<Image>;
    images(tenant: &TenantId, after: Option<&str>, limit: usize) -> Page<Image>;
    catalog_head() -> u64;
    catalog_changes(after: u64, limit: usize) -> Vec<CatalogChange>;
}

delegate! { ScheduleStore:
    create_schedule(schedule: Schedule) -> ();
    update_schedule(schedule: Schedule, expected: u64) -> ();
    schedule(tenant: &TenantId, id: &ScheduleId) -> Option<Schedule>;
    schedule_with_deleted(tenant: &TenantId, id: &ScheduleId) -> Option<Schedule>;
    schedules(tenant: &TenantId, filter: &ScheduleFilter, after: Option<&str>, limit: usize) -> Page<Schedule>;
    subscribers(source: Source) -> Vec<Schedule>;
}

delegate! { EventStore:
    accept(export: Export, fingerprint: Option<String>, limit: u64) -> Accepted;
    unbatched(source: Source) -> Vec<ExportHead>;
    close_batch(batch: Batch) -> ();
    unplanned_batches() -> Vec<Batch>;
    batch_heads(batch: &BatchId) -> Vec<ExportHead>;
    batch_exports(batch: &BatchId) -> Vec<Export>;
    distribute(batch: &BatchId, to: Vec<Subscription>) -> ();
    waiting() -> Vec<Subscription>;
    keys_of_vuln(tenant: &TenantId, vuln_id: &str) -> Vec<String>;
}

delegate! { RunStore:
    begin_run(new: NewRun) -> Begun;
    begin_run_within(new: NewRun, allowance: Allowance) -> Begun;
    planning() -> Vec<(Run, PlanInput)>;
    commit_plan(plan: PlannedRun) -> ();
    run(tenant: &TenantId, id: &RunId) -> Option<Run>;
    runs(tenant: &TenantId, filter: &RunFilter, after: Option<&str>, limit: usize) -> Page<Run>;
    last_run(tenant: &TenantId, schedule: &ScheduleId) -> Option<Run>;
    load(tenant: &TenantId) -> (u64, u64);
    live_runs(tenant: &TenantId, schedule: &ScheduleId) -> Vec<Run>;
    request_cancel(tenant: &TenantId, id: &RunId, now: Timestamp) -> Run;
    open_segments() -> Vec<Segment>;
    claim(segment: &SegmentId, fence: u64) -> Option<Claim>;
    write_outcomes(
        segment: &SegmentId, fence: u64, outcomes: Vec<OutcomeWrite>, now: Timestamp, announce: bool
    ) -> Written;
    mark_started(tenant: &TenantId, id: &RunId, now: Timestamp) -> ();
    fail_run(tenant: &TenantId, id: &RunId, error: &str, now: Timestamp) -> ();
    skip_rest(tenant: &TenantId, id: &RunId, reason: SkipReason, now: Timestamp) -> Run;
    outcomes(run: &RunId, kind: Option<&str>, after: Option<&str>, limit: usize) -> Page<Outcome>;
    reports(tenant: &TenantId, digests: &[ImageDigest]) -> Vec<Option<ReportRecord>>;
    tags(tenant: &TenantId, digest: &ImageDigest) -> Option<TagRecord>;
    cursors(tenant: &TenantId) -> Vec<Cursor>;
    spill(tenant: &TenantId, schedule: &ScheduleId) -> Option<Spill>;
    spills_before(before: Timestamp) -> Vec<Spill>;
    outbox(tenant: &TenantId, after: u64, limit: usize) -> Vec<OutboundEvent>;
    outbox_range(tenant: &TenantId) -> (u64, u64);
    trim_outbox(before: Timestamp) -> u64;
}

delegate! { ReportStore:
    report_heads(of: &[(TenantId, ImageDigest)]) -> Vec<Option<ReportHead>>;
    last_report() -> u64;
    report_changes(after: u64, limit: usize) -> Vec<ReportChange>;
}

delegate! { TickStore:
    ticks(of: &[(TenantId, ScheduleId)]) -> Vec<Option<TickState>>;
    tick(tick: Tick) -> Ticked;
    schedule_changes(after: u64, limit: usize) -> Vec<(u64, Schedule)>;
}

delegate! { Housekeeping:
    prune(now: Timestamp) -> Pruned;
    trim_runs(before: Timestamp) -> u64;
}
