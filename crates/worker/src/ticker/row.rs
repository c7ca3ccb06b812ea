use super::{Key, LOOK_LEN_MAX};
use crate::admission::Admission;
use scheduler_core::ports::{Store, StoreResult};
use scheduler_model::{ScheduleId, TenantId};
use std::collections::{HashMap, HashSet, VecDeque};

/// Schedules with an instant that waits. Tenants take turns, so that one with thousands holds up no other.
#[derive(Default)]
pub(super) struct WaitingRow {
    turns: VecDeque<TenantId>,
    of_tenant: HashMap<TenantId, VecDeque<ScheduleId>>,
    members: HashSet<Key>,
}

impl WaitingRow {
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(super) fn push(&mut self, key: &Key) {
        if self.members.insert(key.clone()) {
            let row = self.of_tenant.entry(key.0.clone()).or_default();
            if row.is_empty() {
                self.turns.push_back(key.0.clone());
            }
            row.push_back(key.1.clone());
        }
    }

    /// Takes the first that may have a run, of each tenant its share.
    pub(super) async fn take(&mut self, admission: &mut Admission, store: &dyn Store) -> StoreResult<Vec<Key>> {
        let turns = self.turns.len().min(LOOK_LEN_MAX);
        let share = LOOK_LEN_MAX / turns.max(1);
        let mut taken = Vec::new();
        for _ in 0..turns {
            let Some(tenant) = self.turns.front().cloned() else { break };
            let room = usize::try_from(admission.room(store, &tenant).await?).unwrap_or(usize::MAX);
            self.turns.pop_front();
            let Some(row) = self.of_tenant.get_mut(&tenant) else { continue };
            let own = row.drain(..row.len().min(room).min(share)).map(|schedule| (tenant.clone(), schedule));
            taken.extend(own);
            if row.is_empty() {
                self.of_tenant.remove(&tenant);
            } else {
                self.turns.push_back(tenant);
            }
        }
        for key in &taken {
            self.members.remove(key);
        }
        Ok(taken)
    }
}
