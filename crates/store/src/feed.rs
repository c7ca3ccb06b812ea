//! Waits for what others write, over the signals that the committer gives after each sync.

use crate::EmbeddedStore;
use async_trait::async_trait;
use scheduler_core::ports::{Feed, RunStore};
use scheduler_model::TenantId;

#[async_trait]
impl Feed for EmbeddedStore {
    async fn catalog_beyond(&self, past: u64) {
        // The sender lives as long as the store.
        let _ = self.subscribe_catalog().wait_for(|head| *head > past).await;
    }

    async fn outbox_beyond(&self, tenant: &TenantId, past: u64) {
        let mut moved = self.subscribe_outbox();
        loop {
            // A store that cannot be read is the caller's to meet.
            if self.outbox_range(tenant).await.map_or(true, |(_, newest)| newest > past) {
                return;
            }
            if moved.changed().await.is_err() {
                return;
            }
        }
    }

    async fn schedules_beyond(&self, past: u64) {
        let _ = self.subscribe_schedules().wait_for(|head| *head > past).await;
    }
}
