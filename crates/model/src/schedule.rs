//! Schedules: what shall be looked at again, when, and who is told.

use crate::{ScheduleId, Selection, Severity, Source, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

/// What is asked of the scanner.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// A new report from the SBOM that is there.
    #[default]
    AnalysisOnly,
    /// What the tags point to now, scanned anew where that changed; then the report.
    ContentRefresh,
}

impl Mode {
    /// The word of the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AnalysisOnly => "analysis-only",
            Self::ContentRefresh => "content-refresh",
        }
    }
}

/// What becomes of cron instants that were missed while the service was down.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Misfire {
    /// One run makes up for all of them.
    #[default]
    Once,
    /// They are gone.
    Skip,
}

/// What becomes of a cron instant that comes while the schedule's last run still goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Overlap {
    /// It waits; at most one does.
    #[default]
    Queue,
    /// It is dropped.
    Skip,
    /// The run that goes is cancelled for it.
    Replace,
}

/// Narrows runs that no change caused: an image qualifies when no report of it is known, or one that is too old
/// or under another policy. Event runs ignore it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct OnlyIf {
    /// Days since the last report.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(maximum = 36_500))]
    pub last_report_older_than_days: Option<u32>,
    /// The policy that reports should be under; sent with every report call too.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 256, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_revision: Option<String>,
}

/// Which deltas are told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NotifyRule {
    /// False lets no `rescan.delta` out.
    pub on_new_findings: bool,
    /// The least severity that is told.
    pub min_severity: Severity,
    /// Whether a KEV hit is told whatever its severity.
    #[serde(rename = "includeKEV")]
    pub include_kev: bool,
}

impl Default for NotifyRule {
    fn default() -> Self {
        Self { on_new_findings: true, min_severity: Severity::Low, include_kev: true }
    }
}

/// How much and how fast; what is absent comes from the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RunLimits {
    /// Images of one run; those beyond it spill over.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 10_000_000))]
    pub max_jobs: Option<u32>,
    /// Report calls a second, fleet-wide.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 100_000))]
    pub rate_per_second: Option<u32>,
    /// Calls in flight, fleet-wide.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 10_000))]
    pub parallelism: Option<u32>,
}

/// What a person writes of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleSpec {
    /// Unique within the tenant.
    pub name: String,
    /// A disabled schedule neither ticks nor hears events.
    pub enabled: bool,
    /// A cron expression; without it nothing ticks.
    pub when_cron: Option<String>,
    /// The IANA zone in which the expression is read.
    pub timezone: String,
    /// Sources whose exports start a run.
    pub on_events: Vec<Source>,
    /// What is asked of the scanner.
    pub mode: Mode,
    /// The images it is about.
    pub selection: Selection,
    /// Whether only packages that the entrypoint uses count. `None`: as configured.
    pub usage_only: Option<bool>,
    /// Narrows runs that no change caused.
    pub only_if: OnlyIf,
    /// Missed instants.
    pub misfire: Misfire,
    /// Instants that meet a run.
    pub overlap: Overlap,
    /// Cron runs begin up to so many seconds later.
    pub jitter_seconds: u32,
    /// Which deltas are told.
    pub notify: NotifyRule,
    /// How much and how fast.
    pub limits: RunLimits,
}

impl ScheduleSpec {
    /// Whether instants count anew after a change from `before` to this: it was resumed, or has another expression or zone.
    pub fn ticks_otherwise(&self, before: &Self) -> bool {
        (self.enabled && !before.enabled) || self.when_cron != before.when_cron || self.timezone != before.timezone
    }
}

/// A schedule with its history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Schedule {
    /// Its id.
    pub id: ScheduleId,
    /// Whose it is.
    pub tenant: TenantId,
    /// What it says.
    pub spec: ScheduleSpec,
    /// Instants up to here are none of its: when it was made, last resumed, or last given another expression or zone.
    /// Schedules of data that is older than this member count from when they were made.
    #[serde(default)]
    pub ticks_from: Option<Timestamp>,
    /// Moves on with every change; the ETag.
    pub version: u64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// Who made it.
    pub created_by: String,
    /// Who changed it last.
    pub updated_by: String,
    /// Set when it was deleted; its runs stay readable.
    #[serde(default)]
    pub deleted_at: Option<Timestamp>,
}

impl Schedule {
    /// Instants up to here are none of the schedule's.
    pub fn counts_from(&self) -> Timestamp {
        self.ticks_from.unwrap_or(self.created_at)
    }
}
