//! What folders of earlier programs lack: indexes and sums over documents that are there. Made when a folder is opened; a
//! folder that lacks nothing is not written to.

use crate::commit::SCHEDULES_HEAD;
use crate::doc;
use crate::engine::{Engine, FORMAT, FORMAT_KEY, KeyWrite, View};
use crate::family::Cf;
use crate::key::Key;
use crate::read::{Read, ReadExt};
use crate::reports;
use crate::runs::{LiveDoc, LoadDoc, live_of_schedule_key, load_key};
use crate::timelines;
use scheduler_core::ports::StoreResult;
use scheduler_model::Run;
use std::collections::BTreeMap;

/// Records of reports that one write enters into the log.
const REPORTS_CHUNK_LEN: usize = 5_000;

/// Adds what is lacking, and says that it is there.
pub(crate) fn upgrade(engine: &Engine) -> StoreResult<()> {
    let format = engine.read(|view| view.number(Cf::Meta, FORMAT_KEY))?;
    if format < 2 {
        entries_of_reports(engine, REPORTS_CHUNK_LEN)?;
    }
    if format < FORMAT {
        engine.write([put(Cf::Meta, FORMAT_KEY.to_vec(), FORMAT.to_be_bytes().to_vec())])?;
    }
    let writes = engine.read(|view| {
        let mut writes = changes_of_schedules(view)?;
        writes.extend(live_runs(view)?);
        writes.extend(timelines::missing(view)?);
        Ok(writes)
    })?;
    if writes.is_empty() { Ok(()) } else { engine.write(writes) }
}

fn put(cf: Cf, key: Vec<u8>, value: Vec<u8>) -> KeyWrite {
    KeyWrite { cf, key, value: Some(value) }
}

/// Enters the reports of a folder before format 2 into the log, some at a time: broken off, it goes on at the next start.
fn entries_of_reports(engine: &Engine, chunk_len: usize) -> StoreResult<()> {
    let mut after = Vec::new();
    loop {
        let (writes, last) = engine.read(|view| reports::missing_entries(view, &after, chunk_len))?;
        let Some(last) = last else { return Ok(()) };
        engine.write(writes)?;
        after = last;
    }
}

/// Schedules without an entry among the changes: nobody would hear of them.
fn changes_of_schedules(view: &View<'_>) -> StoreResult<Vec<KeyWrite>> {
    let mut writes = Vec::new();
    let mut number = view.number(Cf::Meta, SCHEDULES_HEAD)?;
    view.visit(Cf::Schedules, &[], &mut |key, _| {
        if view.get(Cf::ScheduleMarks, key)?.is_none() {
            number += 1;
            writes.push(put(Cf::ScheduleMarks, key.to_vec(), number.to_be_bytes().to_vec()));
            writes.push(put(Cf::ScheduleChanges, Key::default().number(number).done(), key.to_vec()));
        }
        Ok(true)
    })?;
    if !writes.is_empty() {
        writes.push(put(Cf::Meta, SCHEDULES_HEAD.to_vec(), number.to_be_bytes().to_vec()));
    }
    Ok(writes)
}

/// Live runs that their schedule does not know of, and tenants whose sum is not there.
fn live_runs(view: &View<'_>) -> StoreResult<Vec<KeyWrite>> {
    let mut writes = Vec::new();
    let mut loads: BTreeMap<Vec<u8>, LoadDoc> = BTreeMap::new();
    view.visit(Cf::LiveRuns, &[], &mut |key, value| {
        let live: LiveDoc = doc::decode("a live run", value)?;
        let id = key.split(|byte| *byte == 0).next_back().unwrap_or_default();
        let Some(run) = view.doc::<Run>(Cf::Runs, id)? else { return Ok(true) };
        let load = loads.entry(load_key(&run.tenant)).or_default();
        load.runs += 1;
        load.open += live.open;
        if let Some(schedule) = &run.schedule {
            let key = live_of_schedule_key(&run, schedule);
            if view.get(Cf::LiveBySchedule, &key)?.is_none() {
                writes.push(put(Cf::LiveBySchedule, key, Vec::new()));
            }
        }
        Ok(true)
    })?;
    for (tenant, load) in loads {
        if view.get(Cf::Loads, &tenant)?.is_none() {
            writes.push(put(Cf::Loads, tenant, doc::encode(&load)?));
        }
    }
    Ok(writes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EmbeddedStore;
    use crate::commit::REPORTS_HEAD;
    use scheduler_core::ports::ReportStore;
    use scheduler_model::{ReportRecord, TenantId};
    use scheduler_testkit::store::build::{alpha, at, beta, digest};
    use tempfile::TempDir;

    /// A record as format 1 has it: without an entry in the log.
    fn record(tenant: &TenantId, number: usize) -> KeyWrite {
        let record = ReportRecord {
            reported_at: at(i64::try_from(number).unwrap()),
            policy_revision: Some(format!("rev-{number}")),
            findings: None,
            revision: 0,
            asked_at: None,
        };
        put(Cf::Reports, reports::report_key(tenant, &digest(number)), doc::encode(&record).unwrap())
    }

    #[tokio::test]
    async fn reports_of_a_folder_of_format_1_are_entered_into_the_log_once() {
        let folder = TempDir::new().unwrap();
        let engine = Engine::open(folder.path()).unwrap();
        engine.write([put(Cf::Meta, FORMAT_KEY.to_vec(), 1_u64.to_be_bytes().to_vec())]).unwrap();
        engine.write((0..7).map(|number| record(&alpha(), number))).unwrap();
        engine.write([record(&beta(), 3)]).unwrap();
        // Broken off after the first chunk.
        let (writes, _) = engine.read(|view| reports::missing_entries(view, &[], 3)).unwrap();
        engine.write(writes).unwrap();
        entries_of_reports(&engine, 2).unwrap();
        drop(engine);
        for _ in 0..2 {
            let store = EmbeddedStore::open(folder.path()).unwrap();
            let changes = store.report_changes(0, 99).await.unwrap();
            let numbers: Vec<u64> = changes.iter().map(|change| change.number).collect();
            assert_eq!(numbers, (1..=8).collect::<Vec<u64>>());
            assert_eq!(store.last_report().await.unwrap(), 8);
            let heads =
                store.report_heads(&[(beta(), digest(3)), (beta(), digest(4)), (alpha(), digest(4))]).await.unwrap();
            let revisions: Vec<_> = heads.into_iter().map(|head| head.and_then(|head| head.policy_revision)).collect();
            assert_eq!(revisions, [Some("rev-3".to_owned()), None, Some("rev-4".to_owned())]);
            let format = store
                .engine
                .read(|view| Ok((view.number(Cf::Meta, FORMAT_KEY)?, view.number(Cf::Meta, REPORTS_HEAD)?)));
            assert_eq!(format.unwrap(), (FORMAT, 8));
        }
    }
}
