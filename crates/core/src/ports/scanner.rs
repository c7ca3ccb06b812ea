use async_trait::async_trait;
use scheduler_model::{ErrorClass, ImageDigest, Report, RunId, TenantId};
use std::time::Duration;

/// A report to ask for.
#[derive(Debug, Clone)]
pub struct ReportRequest {
    /// Whose image.
    pub tenant: TenantId,
    /// The run; with `digest` it makes the `Idempotency-Key`.
    pub run: RunId,
    /// The image as the catalog names it.
    pub catalog_digest: ImageDigest,
    /// The image to report on: the same, or what its tag points to now.
    pub digest: ImageDigest,
    /// Under which policy.
    pub policy_revision: Option<String>,
    /// W3C trace context of the call.
    pub traceparent: String,
}

/// A scan to ask for, or a tag to resolve.
#[derive(Debug, Clone)]
pub struct ImageScan {
    /// Whose image.
    pub tenant: TenantId,
    /// `registry/repository:tag`.
    pub image_ref: String,
    /// W3C trace context of the call.
    pub traceparent: String,
}

/// How far a scan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanState {
    /// Not at its end.
    Going,
    /// It succeeded.
    Done,
    /// It failed.
    Failed,
}

/// A scan that was asked for.
#[derive(Debug, Clone)]
pub struct ScanProgress {
    /// Its id.
    pub scan_id: String,
    /// How far it is.
    pub state: ScanState,
    /// What it scanned, once that is known.
    pub digest: Option<ImageDigest>,
}

/// A call that gave no usable answer.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ScannerError {
    /// The kind, as outcomes name it.
    pub class: ErrorClass,
    /// What happened, for people: the status, the address; never a body or a secret.
    pub message: String,
    /// Whether the same call may succeed later.
    pub retryable: bool,
    /// What the scanner asked to wait, at most an hour.
    pub retry_after: Option<Duration>,
    /// Whether no connection could be made at all.
    pub refused: bool,
    /// The cause.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The scanner. No call retries by itself.
#[async_trait]
pub trait Scanner: Send + Sync {
    /// Asks for a new report.
    async fn report(&self, request: &ReportRequest) -> Result<Report, ScannerError>;

    /// What a tag points to now.
    async fn resolve(&self, request: &ImageScan) -> Result<ImageDigest, ScannerError>;

    /// Starts a scan.
    async fn scan(&self, request: &ImageScan) -> Result<ScanProgress, ScannerError>;

    /// How far a scan is.
    async fn scan_state(&self, request: &ImageScan, scan_id: &str) -> Result<ScanProgress, ScannerError>;

    /// Whether the scanner answers at all, for probes and `doctor`.
    async fn ping(&self) -> Result<(), ScannerError>;
}
