//! What folders of earlier programs lack: indexes and sums over documents that are there. Made when a folder is opened; a
//! folder that lacks nothing is not written to.

use crate::commit::SCHEDULES_HEAD;
use crate::doc;
use crate::engine::{Engine, KeyWrite, View};
use crate::family::Cf;
use crate::key::Key;
use crate::read::{Read, ReadExt};
use crate::runs::{LiveDoc, LoadDoc, live_of_schedule_key, load_key};
use scheduler_core::ports::StoreResult;
use scheduler_model::Run;
use std::collections::BTreeMap;

/// Adds what is lacking, in one write.
pub(crate) fn upgrade(engine: &Engine) -> StoreResult<()> {
    let writes = engine.read(|view| {
        let mut writes = changes_of_schedules(view)?;
        writes.extend(live_runs(view)?);
        Ok(writes)
    })?;
    if writes.is_empty() { Ok(()) } else { engine.write(writes) }
}

fn put(cf: Cf, key: Vec<u8>, value: Vec<u8>) -> KeyWrite {
    KeyWrite { cf, key, value: Some(value) }
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
