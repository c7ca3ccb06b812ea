//! Where the ticker stands with each schedule.
//!
//! - TIC-4: a state, the run that begins with it and the check that nothing else goes are one write (P3).

use crate::EmbeddedStore;
use crate::commit::Tx;
use crate::doc;
use crate::family::Cf;
use crate::key::{Key, trailing_number};
use crate::read::{Read, ReadExt};
use crate::runs::{begin, has_live_runs};
use crate::schedules::schedule_key;
use async_trait::async_trait;
use scheduler_core::ports::{StoreResult, Tick, TickStore, Ticked};
use scheduler_core::tick::TickState;
use scheduler_model::{Schedule, ScheduleId, TenantId};

fn tick(tx: &mut Tx<'_>, tick: Tick) -> StoreResult<Ticked> {
    let Tick { mut state, version, begins } = tick;
    let key = schedule_key(&state.tenant, &state.schedule);
    let schedule: Option<Schedule> = tx.doc(Cf::Schedules, &key)?;
    let stands =
        |schedule: &Schedule| schedule.deleted_at.is_none() && schedule.spec.enabled && schedule.version == version;
    let stored = tx.doc::<TickState>(Cf::Ticks, &key)?.map_or(0, |stored| stored.revision);
    if !schedule.as_ref().is_some_and(stands) || stored != state.revision {
        return Ok(Ticked::Stale);
    }
    if let Some(new) = begins {
        if tx.get(Cf::Runs, &crate::runs::run_key(&new.run.id))?.is_none()
            && has_live_runs(tx, &state.tenant, &state.schedule)?
        {
            return Ok(Ticked::Busy);
        }
        begin(tx, new)?;
    }
    state.revision += 1;
    tx.put_doc(Cf::Ticks, key, &state)?;
    Ok(Ticked::Done(state))
}

/// A schedule by its key, for an error.
fn named(key: &[u8]) -> String {
    let id = key.split(|byte| *byte == 0).next_back().unwrap_or_default();
    format!("schedule {}", String::from_utf8_lossy(id))
}

#[async_trait]
impl TickStore for EmbeddedStore {
    async fn ticks(&self, of: &[(TenantId, ScheduleId)]) -> StoreResult<Vec<Option<TickState>>> {
        let keys: Vec<Vec<u8>> = of.iter().map(|(tenant, schedule)| schedule_key(tenant, schedule)).collect();
        self.read(move |view| keys.iter().map(|key| view.doc(Cf::Ticks, key)).collect()).await
    }

    async fn tick(&self, decided: Tick) -> StoreResult<Ticked> {
        self.submit(move |tx| tick(tx, decided)).await
    }

    async fn schedule_changes(&self, after: u64, limit: usize) -> StoreResult<Vec<(u64, StoreResult<Schedule>)>> {
        let from = Key::default().number(after).done();
        self.read(move |view| {
            let mut changes = Vec::new();
            view.visit_from(Cf::ScheduleChanges, &[], &from, false, &mut |number, key| {
                if changes.len() < limit
                    && let Some(bytes) = view.get(Cf::Schedules, key)?
                {
                    changes.push((trailing_number(number), doc::decode(&named(key), &bytes)));
                }
                Ok(changes.len() < limit)
            })?;
            Ok(changes)
        })
        .await
    }
}
