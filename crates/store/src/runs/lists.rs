//! Reading runs and outcomes in order.

use super::{LoadDoc, load_key, of_run, schedule_prefix};
use crate::doc;
use crate::family::Cf;
use crate::key::{Key, from_cursor, text_after, to_cursor};
use crate::read::{PageOf, Read, ReadExt};
use scheduler_core::ports::{Page, PlanInput, RunFilter, StoreError, StoreResult};
use scheduler_model::{ImageDigest, Outcome, Run, RunId, ScheduleId, Segment, TenantId};

/// Runs that one page looks at: a filter that nothing passes must not read everything for one answer.
const SCANNED_LEN_MAX: usize = 5_000;
/// The time in the keys of runs.
const TIME_LEN: usize = 8;

/// The run that an index key names after the first `prefix_len` bytes.
fn indexed(read: &(impl Read + ?Sized), key: &[u8], prefix_len: usize) -> StoreResult<Option<Run>> {
    read.doc(Cf::Runs, key.get(prefix_len..).unwrap_or_default())
}

pub(crate) fn planning(read: &(impl Read + ?Sized)) -> StoreResult<Vec<(Run, StoreResult<PlanInput>)>> {
    let mut planning = Vec::new();
    read.visit(Cf::Planning, &[], &mut |id, value| {
        match indexed(read, id, 0) {
            Ok(run) => planning.extend(run.map(|run| (run, doc::decode("the plan of a run", value)))),
            Err(error @ StoreError::Corrupt { .. }) => {
                tracing::error!(%error, "a run that cannot be read stays unplanned")
            }
            Err(error) => return Err(error),
        }
        Ok(true)
    })?;
    planning.sort_by(|(a, _), (b, _)| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
    Ok(planning)
}

pub(super) fn last_run(read: &(impl Read + ?Sized), prefix: &[u8]) -> StoreResult<Option<Run>> {
    match read.pairs(Cf::RunsBySchedule, prefix, 1)?.first() {
        Some((key, _)) => indexed(read, key, prefix.len() + TIME_LEN),
        None => Ok(None),
    }
}

pub(crate) fn live_runs(
    read: &(impl Read + ?Sized),
    tenant: &TenantId,
    schedule: &ScheduleId,
) -> StoreResult<Vec<Run>> {
    let prefix = schedule_prefix(tenant, schedule).done();
    let mut runs = Vec::new();
    read.visit(Cf::LiveBySchedule, &prefix, &mut |key, _| {
        runs.extend(indexed(read, key, prefix.len())?);
        Ok(true)
    })?;
    Ok(runs)
}

fn passes(run: &Run, filter: &RunFilter) -> bool {
    filter.state.is_none_or(|state| state == run.state)
        && filter.trigger.is_none_or(|trigger| trigger == run.trigger)
        && filter.until.is_none_or(|until| run.created_at < until)
}

pub(super) fn runs(
    read: &(impl Read + ?Sized),
    tenant: &TenantId,
    filter: &RunFilter,
    after: Option<&str>,
    limit: usize,
) -> StoreResult<Page<Run>> {
    let (cf, prefix) = match &filter.schedule {
        Some(schedule) => (Cf::RunsBySchedule, schedule_prefix(tenant, schedule)),
        None => (Cf::RunsByTime, Key::default().id(tenant.as_str())),
    };
    let newest = filter.until.map_or_else(|| prefix.clone(), |until| prefix.clone().time_desc(until)).done();
    let prefix = prefix.done();
    let after = match after.map(from_cursor) {
        Some(Some(place)) if place.len() > TIME_LEN => Some([prefix.as_slice(), &place].concat()),
        Some(_) => return Err(StoreError::BadCursor),
        None => None,
    };
    let from = after.as_ref().map_or(&newest, |after| after.max(&newest));
    let mut page = PageOf::new(limit);
    let mut scanned = 0;
    read.visit_from(cf, &prefix, from, after.is_none(), &mut |key, _| {
        let position = || to_cursor(key.get(prefix.len()..).unwrap_or_default());
        let Some(run) = indexed(read, key, prefix.len() + TIME_LEN)? else { return Ok(true) };
        if filter.since.is_some_and(|since| run.created_at < since) {
            return Ok(false);
        }
        if passes(&run, filter) && !page.push(run, position) {
            return Ok(false);
        }
        scanned += 1;
        if scanned == SCANNED_LEN_MAX {
            page.cut(position());
        }
        Ok(scanned < SCANNED_LEN_MAX)
    })?;
    Ok(page.done())
}

pub(crate) fn open_segments(read: &(impl Read + ?Sized)) -> StoreResult<Vec<Segment>> {
    let mut segments = Vec::new();
    read.visit(Cf::OpenSegments, &[], &mut |_, id| {
        segments.extend(read.doc::<Segment>(Cf::Segments, id)?);
        Ok(true)
    })?;
    Ok(segments)
}

pub(super) fn outcomes(
    read: &(impl Read + ?Sized),
    run: &RunId,
    kind: Option<&str>,
    after: Option<&str>,
    limit: usize,
) -> StoreResult<Page<Outcome>> {
    let after = after
        .map(|text| ImageDigest::try_from(text.to_owned()).map_err(|_| StoreError::BadCursor))
        .transpose()?
        .map(|digest| of_run(run).last(digest.as_str()));
    let prefix = of_run(run).done();
    let from = after.as_ref().unwrap_or(&prefix);
    let mut page = PageOf::new(limit);
    read.visit_from(Cf::Outcomes, &prefix, from, after.is_none(), &mut |key, value| {
        let outcome: Outcome = doc::decode("an outcome", value)?;
        let wanted = kind.is_none_or(|kind| kind == outcome.result.as_str());
        Ok(!wanted || page.push(outcome, || text_after(key, prefix.len())))
    })?;
    Ok(page.done())
}

/// How many runs of the tenant have not ended, and how many of their images have no outcome.
pub(super) fn load(read: &(impl Read + ?Sized), tenant: &TenantId) -> StoreResult<(u64, u64)> {
    let load: LoadDoc = read.doc(Cf::Loads, &load_key(tenant))?.unwrap_or_default();
    Ok((load.runs, load.open))
}
