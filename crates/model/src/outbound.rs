//! Events that leave.

use crate::{Attestation, ImageDigest, Run, RunId, ScheduleId, TenantId, Timestamp, TopFinding};
use serde::{Deserialize, Serialize};

/// The type of an event about one image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ImageEventType {
    /// Something new was found, and the rule lets it through.
    #[serde(rename = "rescan.delta")]
    RescanDelta,
    /// A verdict without news.
    #[serde(rename = "report.ready")]
    ReportReady,
}

impl ImageEventType {
    /// The word of the contract, without the prefix.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RescanDelta => "rescan.delta",
            Self::ReportReady => "report.ready",
        }
    }
}

/// The body of an event about one image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ImageEvent {
    /// Whose image.
    pub tenant: TenantId,
    /// The run that asked.
    pub run_id: RunId,
    /// Its schedule.
    pub schedule_id: Option<ScheduleId>,
    /// The image.
    pub image_digest: ImageDigest,
    /// Its repository.
    pub repository: String,
    /// New critical findings.
    pub new_criticals: u64,
    /// New high findings.
    pub new_high: u64,
    /// New findings.
    pub new_findings: u64,
    /// CVEs that are known to be exploited.
    pub kev_hits: Vec<String>,
    /// Some of the new findings.
    pub top_findings: Vec<TopFinding>,
    /// Where a person reads the report.
    pub report_url: Option<String>,
    /// The report's signature.
    pub attestation: Option<Attestation>,
    /// When the outcome was settled.
    pub ts: Timestamp,
}

/// What an outbox entry carries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind", content = "body")]
pub enum OutboundBody {
    /// About one image.
    Image(ImageEventType, Box<ImageEvent>),
    /// About a run's progress, as it stood then.
    RunUpdated(Box<Run>),
}

/// An event with its place in the tenant's stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutboundEvent {
    /// Counts the tenant's events from 1; the `id:` of the event stream is made of it.
    pub sequence: u64,
    /// Whose it is.
    pub tenant: TenantId,
    /// When it was written.
    pub time: Timestamp,
    /// What it says.
    pub body: OutboundBody,
}

impl OutboundEvent {
    /// The type, without the prefix.
    pub fn type_str(&self) -> &'static str {
        match &self.body {
            OutboundBody::Image(kind, _) => kind.as_str(),
            OutboundBody::RunUpdated(_) => "run.updated",
        }
    }
}
