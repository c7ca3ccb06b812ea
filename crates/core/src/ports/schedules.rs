use super::{Page, StoreResult};
use async_trait::async_trait;
use scheduler_model::{Schedule, ScheduleId, Source, TenantId};

/// Which schedules of a tenant to list.
#[derive(Debug, Clone, Default)]
pub struct ScheduleFilter {
    /// Enabled or disabled ones only.
    pub enabled: Option<bool>,
    /// Those of exactly that name.
    pub name: Option<String>,
}

/// The schedules. A deleted one is found by `schedule_with_deleted` only.
#[async_trait]
pub trait ScheduleStore: Send + Sync {
    /// Creates a schedule. `NameTaken` when the tenant has one of that name.
    async fn create_schedule(&self, schedule: Schedule) -> StoreResult<()>;

    /// Replaces a schedule if its stored version is `expected`; `Conflict` otherwise, `NameTaken` as above, `NotFound` when
    /// it is gone. With `deleted_at` set it is deleted softly and its name becomes free.
    async fn update_schedule(&self, schedule: Schedule, expected: u64) -> StoreResult<()>;

    /// One schedule that is not deleted.
    async fn schedule(&self, tenant: &TenantId, id: &ScheduleId) -> StoreResult<Option<Schedule>>;

    /// One schedule, deleted or not.
    async fn schedule_with_deleted(&self, tenant: &TenantId, id: &ScheduleId) -> StoreResult<Option<Schedule>>;

    /// The tenant's schedules in the order of their ids.
    async fn schedules(
        &self,
        tenant: &TenantId,
        filter: &ScheduleFilter,
        after: Option<&str>,
        limit: usize,
    ) -> StoreResult<Page<Schedule>>;

    /// The enabled schedules of all tenants that hear the source, in a stable order. One that cannot be read is left out.
    async fn subscribers(&self, source: Source) -> StoreResult<Vec<Schedule>>;
}
