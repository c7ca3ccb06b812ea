//! What the handlers work with.

use crate::hub::Hub;
use crate::reception::Reception;
use scheduler_auth::Verifier;
use scheduler_core::launch::RunDefaults;
use scheduler_core::ports::{Clock, Conductor, Feed, Ids, Store};
use scheduler_model::Source;
use scheduler_worker::IndexHost;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Limits of the service that requests meet.
#[derive(Debug, Clone)]
pub struct WebLimits {
    /// Bytes of a body, as sent and after decompression; of a bulk upload, of each line.
    pub body_bytes: u64,
    /// Keys of an event, for each list.
    pub keys_per_event: usize,
    /// Unplanned events.
    pub inbox_events: u64,
    /// Runs of a tenant that have not ended.
    pub active_runs_per_tenant: u64,
    /// Images of these without an outcome.
    pub backlog_per_tenant: u64,
}

/// Everything that a handler may touch.
pub struct App {
    /// All that is stored.
    pub store: Arc<dyn Store>,
    /// Waits for what others write.
    pub feed: Arc<dyn Feed>,
    /// The ImpactIndex of this process.
    pub index: Arc<IndexHost>,
    /// The loops of this process.
    pub conductor: Arc<dyn Conductor>,
    /// Wall time.
    pub clock: Arc<dyn Clock>,
    /// New ids.
    pub ids: Arc<dyn Ids>,
    /// Who may deliver webhooks.
    pub verifier: Verifier,
    /// Sources whose webhook is there.
    pub webhooks: Vec<Source>,
    /// What a caller leaves open.
    pub run_defaults: RunDefaults,
    /// Whether previews leave images out by the ranges of changes, unless they say.
    pub narrow_by_range: bool,
    /// Limits.
    pub limits: WebLimits,
    /// As callers see the service; empty: links are paths.
    pub public_url: String,
    /// The text of `/metrics`; `None`: they are served elsewhere.
    pub metrics: Option<Box<dyn Fn() -> String + Send + Sync>>,
    /// Fans events out to the streams.
    pub hub: Arc<Hub>,
    /// Where bodies are received.
    pub reception: Reception,
    /// Ends streams when the process does.
    pub shutdown: CancellationToken,
}
