use super::StoreResult;
use async_trait::async_trait;

/// Whether the store takes writes.
#[async_trait]
pub trait Writable: Send + Sync {
    /// Whether writes succeed, as far as the last one tells. After one that failed, a call tries anew, but only every few
    /// seconds, however many ask; in between the answer stays.
    async fn writable(&self) -> StoreResult<()>;
}
