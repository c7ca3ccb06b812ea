//! Whether a tenant may have one more run that nobody asked for by hand. One that may not waits.

use crate::services::Settings;
use scheduler_core::ports::{Store, StoreResult};
use scheduler_model::TenantId;
use std::collections::HashMap;

/// The room of each tenant, read once and counted down by whoever uses it: for one pass over what waits.
pub(crate) struct Admission {
    active_runs: u64,
    backlog: u64,
    rooms: HashMap<TenantId, u64>,
}

impl Admission {
    /// Nothing is read yet.
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            active_runs: settings.active_runs_per_tenant,
            backlog: settings.backlog_per_tenant,
            rooms: HashMap::new(),
        }
    }

    /// How many runs the tenant may still have.
    pub(crate) async fn room(&mut self, store: &dyn Store, tenant: &TenantId) -> StoreResult<u64> {
        if let Some(room) = self.rooms.get(tenant) {
            return Ok(*room);
        }
        let (runs, images) = store.load(tenant).await?;
        let room = if images >= self.backlog { 0 } else { self.active_runs.saturating_sub(runs) };
        self.rooms.insert(tenant.clone(), room);
        Ok(room)
    }

    /// Takes one run's room, if there is any.
    pub(crate) async fn admits(&mut self, store: &dyn Store, tenant: &TenantId) -> StoreResult<bool> {
        let room = self.room(store, tenant).await?;
        self.rooms.insert(tenant.clone(), room.saturating_sub(1));
        if room == 0 {
            metrics::counter!("scheduler_rate_limited_total", "reason" => "tenant-limit").increment(1);
        }
        Ok(room > 0)
    }
}
