use super::StoreResult;
use async_trait::async_trait;
use scheduler_model::Timestamp;

/// What housekeeping has removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Batches with their exports.
    pub batches: usize,
    /// Deliveries that are not remembered any more.
    pub identities: usize,
    /// Requests that are not remembered any more.
    pub fingerprints: usize,
    /// Idempotency keys that are not remembered any more.
    pub idempotency_keys: usize,
    /// Links beyond the most that a vulnerability may have.
    pub links: usize,
}

/// What a look at old images came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrimmedImages {
    /// Images that are gone.
    pub images: u64,
    /// Up to this change there is nothing left to delete, now or later.
    pub looked_at: u64,
    /// Whether there may be more.
    pub more: bool,
}

/// Forgetting what nothing refers to and what is past its time. Every call may be repeated, and be broken off anywhere.
#[async_trait]
pub trait Housekeeping: Send + Sync {
    /// Removes exports that no batch in waiting and no run in planning needs, deliveries that are older than 30 days,
    /// idempotency keys that are older than 24 hours, and surplus vulnerability links.
    async fn prune(&self, now: Timestamp) -> StoreResult<Pruned>;

    /// Removes runs that ended before `before`, with their segments and outcomes, but for the newest run of each schedule.
    /// Gives their number.
    async fn trim_runs(&self, before: Timestamp) -> StoreResult<u64>;

    /// Deletes images of every tenant whose last document came before `before`, looking at no more than `limit` catalog changes
    /// after number `after`, the oldest first. One that gets a document meanwhile stays.
    async fn trim_images(&self, before: Timestamp, after: u64, limit: usize) -> StoreResult<TrimmedImages>;
}
