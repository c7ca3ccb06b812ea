use async_trait::async_trait;
use scheduler_model::TenantId;

/// Waits for what others write, so that nobody has to poll. A wait may end early; it never misses what is durable.
#[async_trait]
pub trait Feed: Send + Sync {
    /// Returns when the catalog has a change beyond `past`.
    async fn catalog_beyond(&self, past: u64);

    /// Returns when the tenant's outbox has an event beyond `past`.
    async fn outbox_beyond(&self, tenant: &TenantId, past: u64);

    /// Returns when a schedule has a change beyond `past`.
    async fn schedules_beyond(&self, past: u64);
}
