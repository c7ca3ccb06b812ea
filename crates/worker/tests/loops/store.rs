//! The embedded store with a switch, and with virtual time standing still while it works.

use async_trait::async_trait;
use parking_lot::Mutex;
use scheduler_core::cursor::Cursor;
use scheduler_core::ports::{
    Accepted, Allowance, Begun, CatalogChange, CatalogStore, Claim, EventStore, Housekeeping, NewRun, OutcomeWrite,
    Page, PlanInput, PlannedRun, Pruned, PutImage, ReportChange, ReportStore, RunFilter, RunStore, ScheduleFilter,
    ScheduleStore, Spill, StoreError, StoreResult, Subscription, Tick, TickStore, Ticked, TrimmedImages, Writable,
    Written,
};
use scheduler_core::tick::TickState;
use scheduler_model::{
    Batch, BatchId, Export, ExportHead, Image, ImageDigest, OutboundEvent, Outcome, ReportHead, ReportRecord, Run,
    RunId, Schedule, ScheduleId, Segment, SegmentId, SkipReason, Source, TagRecord, TenantId, Timestamp,
};
use scheduler_store::EmbeddedStore;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// It does not come to the store.
    Before,
    /// The store does it, and the answer is lost.
    After,
}

/// A store that can be away, and have faults.
pub struct SwitchedStore {
    pub inner: Arc<EmbeddedStore>,
    away: AtomicBool,
    calls: Mutex<Vec<&'static str>>,
    faults: Mutex<Box<dyn FnMut(&'static str) -> Fault + Send>>,
    /// Schedules whose document cannot be read, and those whose state cannot.
    pub unreadable: Mutex<[BTreeSet<ScheduleId>; 2]>,
    /// Schedules that bring down who decides them.
    pub panicking: Mutex<BTreeSet<ScheduleId>>,
    /// Runs whose plan cannot be read.
    pub unplannable: Mutex<BTreeSet<RunId>>,
}

impl SwitchedStore {
    pub fn new(inner: Arc<EmbeddedStore>) -> Self {
        let faults: Box<dyn FnMut(&'static str) -> Fault + Send> = Box::new(|_| Fault::None);
        Self {
            inner,
            away: AtomicBool::new(false),
            calls: Mutex::default(),
            faults: Mutex::new(faults),
            unreadable: Mutex::default(),
            panicking: Mutex::default(),
            unplannable: Mutex::default(),
        }
    }

    /// Lets somebody decide what becomes of each call.
    pub fn set_faults(&self, faults: impl FnMut(&'static str) -> Fault + Send + 'static) {
        *self.faults.lock() = Box::new(faults);
    }

    fn readable<T>(&self, which: usize, id: &ScheduleId, answer: T) -> StoreResult<T> {
        if self.unreadable.lock()[which].contains(id) { Err(garbage(id.as_str())) } else { Ok(answer) }
    }

    pub fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    /// How often an operation was asked for.
    pub fn calls(&self, name: &str) -> usize {
        self.calls.lock().iter().filter(|call| **call == name).count()
    }

    fn enter(&self, call: &'static str) -> StoreResult<(Hold, bool)> {
        self.calls.lock().push(call);
        let fault = if self.away.load(Ordering::SeqCst) { Fault::Before } else { self.faults.lock()(call) };
        if fault == Fault::Before { Err(away(call)) } else { Ok((Hold::new(), fault == Fault::After)) }
    }
}

fn garbage(what: &str) -> StoreError {
    let source = std::io::Error::other("garbage");
    StoreError::Corrupt { what: what.to_owned(), source: Box::new(source) }
}

fn away(call: &str) -> StoreError {
    let source = std::io::Error::other("switched off");
    StoreError::Unavailable { what: call.to_owned(), source: Box::new(source) }
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
    ($port:ident: $($name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)* $([$($other:item)*])?) => {
        #[async_trait]
        impl $port for SwitchedStore {
            $(
                async fn $name(&self, $($arg: $type),*) -> StoreResult<$answer> {
                    let (_hold, is_lost) = self.enter(stringify!($name))?;
                    let answer = self.inner.$name($($arg),*).await;
                    if is_lost { Err(away(stringify!($name))) } else { answer }
                }
            )*
            $($($other)*)?
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
    timeline_at(sequence: u64) -> u64;
}

delegate! { ScheduleStore:
    create_schedule(schedule: Schedule) -> ();
    update_schedule(schedule: Schedule, expected: u64) -> ();
    schedule_with_deleted(tenant: &TenantId, id: &ScheduleId) -> Option<Schedule>;
    schedules(tenant: &TenantId, filter: &ScheduleFilter, after: Option<&str>, limit: usize) -> Page<Schedule>;
    subscribers(source: Source) -> Vec<Schedule>;
    [
        async fn schedule(&self, tenant: &TenantId, id: &ScheduleId) -> StoreResult<Option<Schedule>> {
            let _hold = self.enter("schedule")?;
            self.readable(0, id, self.inner.schedule(tenant, id).await?)
        }
    ]
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
    outcome(run: &RunId, digest: &ImageDigest) -> Option<Outcome>;
    reports(tenant: &TenantId, digests: &[ImageDigest]) -> Vec<Option<ReportRecord>>;
    tags(tenant: &TenantId, digest: &ImageDigest) -> Option<TagRecord>;
    cursors(tenant: &TenantId) -> Vec<Cursor>;
    spill(tenant: &TenantId, schedule: &ScheduleId) -> Option<Spill>;
    spills_before(before: Timestamp) -> Vec<Spill>;
    outbox(tenant: &TenantId, after: u64, limit: usize) -> Vec<OutboundEvent>;
    outbox_range(tenant: &TenantId) -> (u64, u64);
    trim_outbox(before: Timestamp) -> u64;
    [
        async fn planning(&self) -> StoreResult<Vec<(Run, StoreResult<PlanInput>)>> {
            let _hold = self.enter("planning")?;
            let mut planning = self.inner.planning().await?;
            for (run, input) in &mut planning {
                if self.unplannable.lock().contains(&run.id) {
                    *input = Err(garbage(run.id.as_str()));
                }
            }
            Ok(planning)
        }
    ]
}

delegate! { ReportStore:
    report_heads(of: &[(TenantId, ImageDigest)]) -> Vec<Option<ReportHead>>;
    last_report() -> u64;
    report_changes(after: u64, limit: usize) -> Vec<ReportChange>;
}

delegate! { TickStore:
    [
        async fn ticks(&self, of: &[(TenantId, ScheduleId)]) -> StoreResult<Vec<Option<TickState>>> {
            let _hold = self.enter("ticks")?;
            of.iter().try_for_each(|(_, id)| self.readable(1, id, ()))?;
            self.inner.ticks(of).await
        }

        async fn tick(&self, tick: Tick) -> StoreResult<Ticked> {
            let (_hold, is_lost) = self.enter("tick")?;
            let id = tick.state.schedule.clone();
            assert!(!self.panicking.lock().contains(&id), "schedule {id} brings down who decides it");
            self.readable(0, &id, ())?;
            self.readable(1, &id, ())?;
            let answer = self.inner.tick(tick).await;
            if is_lost { Err(away("tick")) } else { answer }
        }

        async fn schedule_changes(&self, after: u64, limit: usize) -> StoreResult<Vec<(u64, StoreResult<Schedule>)>> {
            let _hold = self.enter("schedule_changes")?;
            let changes = self.inner.schedule_changes(after, limit).await?.into_iter();
            let told = changes.map(|(number, schedule)| {
                (number, schedule.and_then(|schedule| self.readable(0, &schedule.id.clone(), schedule)))
            });
            Ok(told.collect())
        }
    ]
}

delegate! { Housekeeping:
    prune(now: Timestamp) -> Pruned;
    trim_runs(before: Timestamp) -> u64;
    trim_images(before: Timestamp, after: u64, limit: usize) -> TrimmedImages;
}

delegate! { Writable:
    writable() -> ();
}
