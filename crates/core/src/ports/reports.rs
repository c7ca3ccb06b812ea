use super::StoreResult;
use async_trait::async_trait;
use scheduler_model::{ImageDigest, ReportHead, TenantId};

/// That an image got a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportChange {
    /// Its number; later reports have higher ones.
    pub number: u64,
    /// Whose image.
    pub tenant: TenantId,
    /// Which image.
    pub digest: ImageDigest,
    /// What decides whether the image is due for another one.
    pub report: ReportHead,
}

/// What is remembered of reports, in a form that is small and can be followed: the truth that every view of reports is made
/// from. It moves with the outcomes that carry the reports, in the same write.
#[async_trait]
pub trait ReportStore: Send + Sync {
    /// The images' last reports, in the order asked; `None` where there is none. An image that is not in the catalog any more
    /// keeps its report.
    async fn report_heads(&self, of: &[(TenantId, ImageDigest)]) -> StoreResult<Vec<Option<ReportHead>>>;

    /// The number of the last report that is durable; 0 when there is none.
    async fn last_report(&self) -> StoreResult<u64>;

    /// The reports after number `after` in the order of their numbers, each image once with its last one; at most `limit`. A
    /// number is readable only when all lower ones are.
    async fn report_changes(&self, after: u64, limit: usize) -> StoreResult<Vec<ReportChange>>;
}
