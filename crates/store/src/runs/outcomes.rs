//! Claiming segments and writing outcomes under a fencing token.

use super::{SegmentState, existing, move_to, of_run, outbox, place_key, save, segment_key};
use crate::commit::Tx;
use crate::family::Cf;
use crate::not_found;
use crate::read::{Read, ReadExt};
use crate::reports::{self, report_key};
use scheduler_core::ports::{Claim, OutcomeWrite, StoreError, StoreResult, Written};
use scheduler_model::{
    ImageDigest, OutboundBody, Outcome, OutcomeResult, ReportRecord, Run, RunId, RunState, Segment, SegmentId,
    TenantId, Timestamp,
};
use std::collections::HashSet;

pub(super) fn outcome_key(run: &RunId, digest: &ImageDigest) -> Vec<u8> {
    of_run(run).last(digest.as_str())
}

/// The segment's state, if the token may act on it.
fn fenced(tx: &Tx<'_>, segment: &SegmentId, fence: u64) -> StoreResult<SegmentState> {
    let state: SegmentState = tx.doc(Cf::SegmentStates, &segment_key(segment))?.unwrap_or_default();
    if fence < state.fence {
        return Err(StoreError::Fenced { segment: segment.to_string() });
    }
    Ok(SegmentState { fence, ..state })
}

pub(super) fn claim(tx: &mut Tx<'_>, id: &SegmentId, fence: u64) -> StoreResult<Option<Claim>> {
    let Some(mut segment) = tx.doc::<Segment>(Cf::Segments, &segment_key(id))? else { return Ok(None) };
    let before: SegmentState = tx.doc(Cf::SegmentStates, &segment_key(id))?.unwrap_or_default();
    let mut state = fenced(tx, id, fence)?;
    // The owner that claims again is still in its first claim.
    if fence > before.fence {
        state.claims = state.claims.saturating_add(1);
    }
    tx.put_doc(Cf::SegmentStates, segment_key(id), &state)?;
    if state.remaining == 0 {
        return Ok(None);
    }
    segment.images = open_images(tx, &segment)?;
    let run = existing(tx, &segment.tenant, &segment.run)?;
    Ok(Some(Claim { run, segment, futile: state.claims.saturating_sub(1) }))
}

/// The segment's images that have no outcome.
pub(super) fn open_images(tx: &Tx<'_>, segment: &Segment) -> StoreResult<Vec<scheduler_model::SegmentImage>> {
    let mut open = Vec::new();
    for image in &segment.images {
        if tx.get(Cf::Outcomes, &outcome_key(&segment.run, &image.digest))?.is_none() {
            open.push(image.clone());
        }
    }
    Ok(open)
}

/// Writes an outcome and counts it, unless the image has one.
pub(super) fn record(tx: &mut Tx<'_>, run: &mut Run, outcome: &Outcome) -> StoreResult<bool> {
    let key = outcome_key(&run.id, &outcome.digest);
    if tx.get(Cf::Outcomes, &key)?.is_some() {
        return Ok(false);
    }
    tx.put_doc(Cf::Outcomes, key, outcome)?;
    run.stats.count(outcome);
    if matches!(outcome.result, OutcomeResult::Reported { .. }) {
        let first = run.first_verdict_at.get_or_insert(outcome.finished_at);
        *first = outcome.finished_at.min(*first);
    }
    Ok(true)
}

pub(super) fn write(
    tx: &mut Tx<'_>,
    id: &SegmentId,
    fence: u64,
    outcomes: Vec<OutcomeWrite>,
    now: Timestamp,
    announce: bool,
) -> StoreResult<Written> {
    let segment: Segment = tx.doc(Cf::Segments, &segment_key(id))?.ok_or_else(|| not_found("segment", id.as_str()))?;
    let mut state = fenced(tx, id, fence)?;
    let mut run = existing(tx, &segment.tenant, &segment.run)?;
    let before = run.state;
    let members: HashSet<&ImageDigest> = segment.images.iter().map(|image| &image.digest).collect();
    let mut inserted = 0;
    let mut moved = Vec::new();
    for OutcomeWrite { outcome, event, report, tags } in outcomes {
        if outcome.run != run.id || !members.contains(&outcome.digest) {
            return Err(not_found("image of the segment", outcome.digest.as_str()));
        }
        let report = match report {
            Some(report) => match follow(tx, &run.tenant, &outcome.digest, report)? {
                Some(report) => Some(report),
                // Compared again, it might be no news.
                None => {
                    moved.push(outcome.digest);
                    continue;
                }
            },
            None => None,
        };
        if !record(tx, &mut run, &outcome)? {
            continue;
        }
        inserted += 1;
        if run.state == RunState::Queued && !matches!(outcome.result, OutcomeResult::Skipped { .. }) {
            start(&mut run, outcome.started_at)?;
        }
        if let Some((kind, event)) = event {
            outbox::push(tx, &run.tenant, now, OutboundBody::Image(kind, Box::new(event)))?;
        }
        if let Some(report) = report {
            reports::put(tx, &run.tenant, &outcome.digest, &report)?;
        }
        if let Some(tags) = tags {
            tx.put_doc(Cf::Tags, report_key(&run.tenant, &outcome.digest), &tags)?;
        }
    }
    state.remaining = state.remaining.saturating_sub(inserted as u64);
    state.claims = 0;
    if state.remaining == 0 {
        tx.delete(Cf::OpenSegments, place_key(&segment));
    }
    tx.put_doc(Cf::SegmentStates, segment_key(id), &state)?;
    if inserted > 0 {
        if run.stats.ended() == run.stats.queued {
            end(&mut run, now)?;
        }
        save(tx, &run)?;
    }
    if announce || run.state != before {
        outbox::announce(tx, &run, now)?;
    }
    Ok(Written { run, inserted, moved })
}

/// The report as the successor of the image's last one; `None` when its findings were compared with an older one.
fn follow(
    tx: &Tx<'_>,
    tenant: &TenantId,
    digest: &ImageDigest,
    report: ReportRecord,
) -> StoreResult<Option<ReportRecord>> {
    let last: Option<ReportRecord> = tx.doc(Cf::Reports, &report_key(tenant, digest))?;
    let revision = last.as_ref().map_or(0, |last| last.revision + 1);
    if report.findings.is_some() && report.revision != revision {
        return Ok(None);
    }
    Ok(Some(match (report.findings.is_none(), last) {
        (true, Some(last)) => ReportRecord { findings: last.findings, asked_at: last.asked_at, revision, ..report },
        _ => ReportRecord { revision, ..report },
    }))
}

/// Ends a run whose images all have an outcome.
pub(super) fn end(run: &mut Run, now: Timestamp) -> StoreResult<()> {
    let state = if run.cancel_requested_at.is_some() { RunState::Cancelled } else { RunState::Completed };
    move_to(run, state)?;
    run.finished_at = Some(now);
    Ok(())
}

fn start(run: &mut Run, at: Timestamp) -> StoreResult<()> {
    move_to(run, RunState::Running)?;
    run.started_at.get_or_insert(at);
    Ok(())
}

pub(super) fn mark_started(tx: &mut Tx<'_>, tenant: &TenantId, id: &RunId, now: Timestamp) -> StoreResult<()> {
    let mut run = existing(tx, tenant, id)?;
    if run.state != RunState::Queued {
        return Ok(());
    }
    start(&mut run, now)?;
    save(tx, &run)?;
    outbox::announce(tx, &run, now)
}
