//! Beginning a run and making its plan durable.

use super::{
    SegmentState, by_schedule_key, by_time_key, existing, lists, move_to, outbox, place_key, run_key, save, segment_key,
};
use crate::commit::Tx;
use crate::family::Cf;
use crate::key::Key;
use crate::read::{Read, ReadExt};
use crate::{conflict, events};
use scheduler_core::cursor::{self, Cursor, Passed};
use scheduler_core::ports::{
    Allowance, BACKLOG_LIMIT, Begun, NewRun, PlanInput, PlannedRun, RUNS_LIMIT, StoreError, StoreResult,
};
use scheduler_model::{ImageDigest, Run, RunId, RunState, ScheduleId, Source, TenantId, Timestamp, Trigger};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::time::Duration;

/// How long an idempotency key is remembered.
const IDEMPOTENCY_TTL: Duration = Duration::from_secs(24 * 3600);

/// What an idempotency key has started.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct IdempotencyDoc {
    hash: String,
    run: RunId,
    at: Timestamp,
}

impl IdempotencyDoc {
    /// Whether it does not count any more.
    pub(crate) fn is_forgotten(&self, now: Timestamp) -> bool {
        now.since(self.at) >= IDEMPOTENCY_TTL
    }
}

pub(super) fn spill_key(tenant: &TenantId, schedule: &ScheduleId) -> Vec<u8> {
    Key::default().id(tenant.as_str()).last(schedule.as_str())
}

pub(crate) fn begin(tx: &mut Tx<'_>, new: NewRun) -> StoreResult<Begun> {
    let NewRun { run, input, takes, passed, idempotency } = new;
    let idempotency = idempotency.map(|(key, hash)| (Key::default().id(run.tenant.as_str()).last(&key), hash));
    if let Some((key, hash)) = &idempotency
        && let Some(known) = tx.doc::<IdempotencyDoc>(Cf::Idempotency, key)?
        && !known.is_forgotten(run.created_at)
    {
        return Ok(if known.hash == *hash { Begun::Existing(known.run) } else { Begun::OtherContent });
    }
    if tx.get(Cf::Runs, &run_key(&run.id))?.is_some() {
        return Ok(Begun::Existing(run.id));
    }
    for taken in &takes {
        events::take_waiting(tx, taken)?;
    }
    if let Some((key, hash)) = idempotency {
        tx.put_doc(Cf::Idempotency, key, &IdempotencyDoc { hash, run: run.id.clone(), at: run.created_at })?;
    }
    move_cursor(tx, &run, &passed)?;
    tx.put_doc(Cf::Planning, run_key(&run.id), &input)?;
    tx.put(Cf::RunsByTime, by_time_key(&run), Vec::new());
    if let Some(schedule) = &run.schedule {
        tx.put(Cf::RunsBySchedule, by_schedule_key(&run, schedule), Vec::new());
    }
    save(tx, &run)?;
    Ok(Begun::New)
}

/// Moves the cursor of the run's source over the exports that the run takes.
fn move_cursor(tx: &mut Tx<'_>, run: &Run, passed: &[Passed]) -> StoreResult<()> {
    let source = match run.trigger {
        Trigger::Feedser => Source::Feedser,
        Trigger::Vexer => Source::Vexer,
        Trigger::Cron | Trigger::Policy | Trigger::Manual | Trigger::Backfill => return Ok(()),
    };
    let key = Key::default().id(run.tenant.as_str()).last(source.as_str());
    let before: Option<Cursor> = tx.doc(Cf::Cursors, &key)?;
    match cursor::advance(before, (&run.tenant, source, &run.id), passed, run.created_at) {
        Some(moved) => tx.put_doc(Cf::Cursors, key, &moved),
        None => Ok(()),
    }
}

/// Begins a run if the tenant may have one more. The refusal comes last, and takes back what beginning it wrote.
pub(super) fn begin_within(tx: &mut Tx<'_>, new: NewRun, allowance: Allowance) -> StoreResult<Begun> {
    let (runs, backlog) = lists::load(tx, &new.run.tenant)?;
    let begun = begin(tx, new)?;
    if begun != Begun::New {
        return Ok(begun);
    }
    let Allowance { runs_max, backlog_max } = allowance;
    if runs >= runs_max {
        return Err(StoreError::Full { what: RUNS_LIMIT, limit: runs_max });
    }
    if backlog >= backlog_max {
        return Err(StoreError::Full { what: BACKLOG_LIMIT, limit: backlog_max });
    }
    Ok(Begun::New)
}

pub(super) fn commit_plan(tx: &mut Tx<'_>, plan: PlannedRun) -> StoreResult<()> {
    let PlannedRun { mut run, segments, left_over } = plan;
    let stored = existing(tx, &run.tenant, &run.id)?;
    let input: Option<PlanInput> = tx.doc(Cf::Planning, &run_key(&run.id))?;
    let (RunState::Planning, Some(input)) = (stored.state, input) else {
        return Err(conflict("run", run.id.as_str()));
    };
    let images = segments.iter().flat_map(|segment| &segment.images).map(|image| &image.digest);
    let distinct: HashSet<&ImageDigest> = images.clone().collect();
    if distinct.len() as u64 != run.stats.queued || images.count() != distinct.len() {
        // Such a run could never end with sums that hold (P4).
        return Err(conflict("the plan of run", run.id.as_str()));
    }
    run.state = stored.state;
    move_to(&mut run, if segments.is_empty() { RunState::Completed } else { RunState::Queued })?;
    // A plan brings no clock: the times in it are the time of planning.
    let now = run.finished_at.or(segments.first().map(|segment| segment.queued_at)).unwrap_or(run.created_at);
    if run.state.is_ended() {
        run.finished_at = Some(now);
    }
    for segment in &segments {
        let (key, place) = (segment_key(&segment.id), place_key(segment));
        let state = SegmentState { remaining: segment.images.len() as u64, ..SegmentState::default() };
        tx.put_doc(Cf::Segments, key.clone(), segment)?;
        tx.put_doc(Cf::SegmentStates, key.clone(), &state)?;
        tx.put(Cf::RunSegments, place.clone(), key.clone());
        if state.remaining > 0 {
            tx.put(Cf::OpenSegments, place, key);
        }
    }
    match (left_over, &run.schedule) {
        (Some(spill), _) => tx.put_doc(Cf::Spills, spill_key(&spill.tenant, &spill.schedule), &spill)?,
        (None, Some(schedule)) if input.spills => tx.delete(Cf::Spills, spill_key(&run.tenant, schedule)),
        (None, _) => {}
    }
    save(tx, &run)?;
    outbox::announce(tx, &run, now)
}
