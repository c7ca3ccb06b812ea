//! Ending a run before its images are through: cancelling, skipping, failing.

use super::outcomes::{end, open_images, record};
use super::{SegmentState, existing, move_to, of_run, outbox, place_key, save, segment_key};
use crate::commit::Tx;
use crate::conflict;
use crate::family::Cf;
use crate::read::ReadExt;
use scheduler_core::ports::StoreResult;
use scheduler_model::{Outcome, OutcomeResult, Run, RunId, RunState, Segment, SkipReason, TenantId, Timestamp};

pub(super) fn request_cancel(tx: &mut Tx<'_>, tenant: &TenantId, id: &RunId, now: Timestamp) -> StoreResult<Run> {
    let mut run = existing(tx, tenant, id)?;
    if run.state.is_ended() {
        return Err(conflict("run", id.as_str()));
    }
    if run.cancel_requested_at.is_some() {
        return Ok(run);
    }
    run.cancel_requested_at = Some(now);
    if run.state == RunState::Planning {
        // Nothing is in flight that it could wait for.
        end(&mut run, now)?;
        outbox::announce(tx, &run, now)?;
    }
    save(tx, &run)?;
    Ok(run)
}

pub(super) fn skip_rest(
    tx: &mut Tx<'_>,
    tenant: &TenantId,
    id: &RunId,
    reason: SkipReason,
    now: Timestamp,
) -> StoreResult<Run> {
    let mut run = existing(tx, tenant, id)?;
    if run.state.is_ended() {
        return Ok(run);
    }
    skip_open(tx, &mut run, reason, now)?;
    if reason == SkipReason::Cancelled {
        run.cancel_requested_at.get_or_insert(now);
    }
    end(&mut run, now)?;
    save(tx, &run)?;
    outbox::announce(tx, &run, now)?;
    Ok(run)
}

pub(super) fn fail(tx: &mut Tx<'_>, tenant: &TenantId, id: &RunId, error: String, now: Timestamp) -> StoreResult<()> {
    let mut run = existing(tx, tenant, id)?;
    if run.state == RunState::Error {
        return Ok(());
    }
    move_to(&mut run, RunState::Error)?;
    skip_open(tx, &mut run, SkipReason::Cancelled, now)?;
    run.error = Some(error);
    run.finished_at = Some(now);
    save(tx, &run)?;
    outbox::announce(tx, &run, now)
}

fn skip_open(tx: &mut Tx<'_>, run: &mut Run, reason: SkipReason, now: Timestamp) -> StoreResult<()> {
    for (_, key) in tx.pairs(Cf::OpenSegments, &of_run(&run.id).done(), usize::MAX)? {
        let Some(segment) = tx.doc::<Segment>(Cf::Segments, &key)? else { continue };
        for image in open_images(tx, &segment)? {
            let outcome = Outcome {
                run: run.id.clone(),
                digest: image.digest,
                repository: image.repository,
                attempts: 0,
                started_at: now,
                finished_at: now,
                result: OutcomeResult::Skipped { reason },
                reported: Vec::new(),
            };
            record(tx, run, &outcome)?;
        }
        let state: SegmentState = tx.doc(Cf::SegmentStates, &key)?.unwrap_or_default();
        tx.put_doc(Cf::SegmentStates, segment_key(&segment.id), &SegmentState { remaining: 0, ..state })?;
        tx.delete(Cf::OpenSegments, place_key(&segment));
    }
    Ok(())
}
