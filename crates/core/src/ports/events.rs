use super::StoreResult;
use async_trait::async_trait;
use scheduler_model::{Batch, BatchId, EventId, Export, ExportHead, ScheduleId, Source, TenantId};

/// What became of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accepted {
    /// It is in the inbox.
    New,
    /// The same export with the same content is known; nothing was done.
    Duplicate(EventId),
    /// It is in the inbox, in the place of an export of the same id with other content.
    Superseded,
}

/// That a schedule shall take a batch into its next run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subscription {
    /// Whose schedule.
    pub tenant: TenantId,
    /// The schedule.
    pub schedule: ScheduleId,
    /// The batch.
    pub batch: BatchId,
}

/// The inbox of exports, and what has been made of them.
#[async_trait]
pub trait EventStore: Send + Sync {
    /// Takes a delivery, durably, together with its vulnerability links. Of an export, by (source, key, export id), the last
    /// content is remembered for 30 days: the same content again is a `Duplicate`, and of simultaneous equal deliveries one
    /// is `New`. So is a request of the source whose `fingerprint` is remembered, whatever came since: it is replayed. An
    /// unplanned export of the same id is replaced. `Full` when `limit` exports are unplanned; nothing is remembered then.
    ///
    /// `fingerprint` tells a signed request from every other one; `None` for one that cannot be replayed.
    async fn accept(&self, export: Export, fingerprint: Option<String>, limit: u64) -> StoreResult<Accepted>;

    /// The exports of a source that no batch holds yet, in the order of arrival, without their keys.
    async fn unbatched(&self, source: Source) -> StoreResult<Vec<ExportHead>>;

    /// Closes a batch: fixes its members and takes them out of `unbatched`, in one compare-and-set. `Conflict` when one
    /// of the members is not there any more; closing the same batch again is no error and changes nothing.
    async fn close_batch(&self, batch: Batch) -> StoreResult<()>;

    /// Batches that have not been handed to their subscribers, oldest first.
    async fn unplanned_batches(&self) -> StoreResult<Vec<Batch>>;

    /// The exports of a batch without their keys, in order.
    async fn batch_heads(&self, batch: &BatchId) -> StoreResult<Vec<ExportHead>>;

    /// The exports of a batch.
    async fn batch_exports(&self, batch: &BatchId) -> StoreResult<Vec<Export>>;

    /// Hands a batch to its subscribers in one write; repeating it changes nothing.
    async fn distribute(&self, batch: &BatchId, to: Vec<Subscription>) -> StoreResult<()>;

    /// What waits for a run, in the order of schedules, each schedule's batches oldest first.
    async fn waiting(&self) -> StoreResult<Vec<Subscription>>;

    /// The product keys that exports which the tenant may see have named for a vulnerability.
    async fn keys_of_vuln(&self, tenant: &TenantId, vuln_id: &str) -> StoreResult<Vec<String>>;
}
