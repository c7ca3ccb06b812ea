//! Documents as callers see them. They are owned here: what is stored may change its form without them.

use crate::instants::WarningView;
use scheduler_core::tick::TickState;
use scheduler_model::{
    Attestation, Delta, ErrorClass, Image, ImageDigest, ImagePlace, Misfire, Mode, NotifyRule, OnlyIf, Outcome,
    OutcomeResult, Overlap, Priority, Reason, ReportedTag, Run, RunId, RunLimits, RunState, RunStats, Schedule,
    ScheduleId, Selection, SkipReason, Source, TenantId, Timestamp, Trigger, Verdict,
};
use scheduler_worker::IndexState;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Run)]
pub struct RunView {
    id: RunId,
    schedule_id: Option<ScheduleId>,
    tenant_id: TenantId,
    trigger: Trigger,
    reason: Reason,
    state: RunState,
    mode: Mode,
    priority: Priority,
    stats: RunStats,
    created_at: Timestamp,
    started_at: Option<Timestamp>,
    first_verdict_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    error: Option<String>,
    links: RunLinks,
}

#[derive(Debug, Serialize, ToSchema)]
struct RunLinks {
    images: String,
    deltas: String,
    console: String,
}

impl RunView {
    /// A run, with links under the address that callers see.
    pub fn new(run: Run, public_url: &str) -> Self {
        let base = format!("{public_url}{}/runs/{}", crate::BASE_PATH, run.id);
        Self {
            links: RunLinks {
                images: format!("{base}/images"),
                deltas: format!("{base}/images?outcome=delta"),
                console: format!("{public_url}/console/runs/{}", run.id),
            },
            id: run.id,
            schedule_id: run.schedule,
            tenant_id: run.tenant,
            trigger: run.trigger,
            reason: run.reason,
            state: run.state,
            mode: run.mode,
            priority: run.priority,
            stats: run.stats,
            created_at: run.created_at,
            started_at: run.started_at,
            first_verdict_at: run.first_verdict_at,
            finished_at: run.finished_at,
            error: run.error,
        }
    }
}

/// The ends of an image in a run, as callers name them.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OutcomeKind {
    /// A verdict with something new.
    Delta,
    /// A verdict without news.
    Unchanged,
    /// No verdict.
    Failed,
    /// Not asked about.
    Skipped,
}

impl OutcomeKind {
    /// The word of the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delta => "delta",
            Self::Unchanged => "unchanged",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// What one image got in one run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Outcome)]
pub struct OutcomeView {
    image_digest: ImageDigest,
    repository: String,
    #[schema(value_type = OutcomeKind)]
    outcome: &'static str,
    reason: Option<SkipReason>,
    attempts: u32,
    delta: Option<Delta>,
    error: Option<OutcomeError>,
    report_url: Option<String>,
    attestation: Option<Attestation>,
    verdict: Option<Verdict>,
    reported: Vec<ReportedTag>,
    started_at: Timestamp,
    finished_at: Timestamp,
}

#[derive(Debug, Serialize, ToSchema)]
struct OutcomeError {
    class: ErrorClass,
    message: String,
}

impl From<Outcome> for OutcomeView {
    fn from(outcome: Outcome) -> Self {
        let mut view = Self {
            outcome: outcome.result.as_str(),
            image_digest: outcome.digest,
            repository: outcome.repository,
            reason: None,
            attempts: outcome.attempts,
            delta: None,
            error: None,
            report_url: None,
            attestation: None,
            verdict: None,
            reported: outcome.reported,
            started_at: outcome.started_at,
            finished_at: outcome.finished_at,
        };
        match outcome.result {
            OutcomeResult::Reported { verdict, delta, report_url, attestation } => {
                view.verdict = Some(verdict);
                view.delta = Some(delta);
                view.report_url = report_url;
                view.attestation = attestation;
            }
            OutcomeResult::Failed { class, message } => view.error = Some(OutcomeError { class, message }),
            OutcomeResult::Skipped { reason } => view.reason = Some(reason),
        }
        view
    }
}

/// A schedule.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Schedule)]
pub struct ScheduleView {
    id: ScheduleId,
    tenant_id: TenantId,
    name: String,
    enabled: bool,
    when_cron: Option<String>,
    timezone: String,
    on_events: Vec<Source>,
    mode: Mode,
    selection: Selection,
    usage_only: bool,
    only_if: OnlyIf,
    misfire: Misfire,
    overlap: Overlap,
    jitter_seconds: u32,
    notify: NotifyRule,
    limits: RunLimits,
    next_run_at: Option<Timestamp>,
    /// What may surprise about its clock, of the year to come; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    warnings: Option<Vec<WarningView>>,
    last_run: Option<LastRun>,
    waiting: Option<WaitingView>,
    last_dropped: Option<DroppedView>,
    created_at: Timestamp,
    updated_at: Timestamp,
    created_by: String,
    updated_by: String,
    version: u64,
}

/// An instant whose run has not begun, and why.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WaitingInstant)]
struct WaitingView {
    scheduled_for: Timestamp,
    catch_up: bool,
    because: &'static str,
}

/// An instant that got no run, and why.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DroppedInstant)]
struct DroppedView {
    scheduled_for: Timestamp,
    because: &'static str,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct LastRun {
    id: RunId,
    state: RunState,
    started_at: Option<Timestamp>,
    stats: RunStats,
}

impl ScheduleView {
    /// A schedule with what is known of its runs.
    pub fn new(
        schedule: Schedule,
        usage_only_default: bool,
        next_run_at: Option<Timestamp>,
        last_run: Option<Run>,
        ticks: Option<TickState>,
    ) -> Self {
        let waiting = ticks.as_ref().and_then(|state| state.waits(&schedule)).map(|waiting| WaitingView {
            scheduled_for: waiting.instant,
            catch_up: waiting.catch_up,
            because: waiting.obstacle.as_str(),
        });
        let last_dropped = ticks
            .and_then(|state| state.dropped)
            .map(|dropped| DroppedView { scheduled_for: dropped.instant, because: dropped.obstacle.as_str() });
        let spec = schedule.spec;
        Self {
            id: schedule.id,
            tenant_id: schedule.tenant,
            name: spec.name,
            enabled: spec.enabled,
            when_cron: spec.when_cron,
            timezone: spec.timezone,
            on_events: spec.on_events,
            mode: spec.mode,
            selection: spec.selection,
            usage_only: spec.usage_only.unwrap_or(usage_only_default),
            only_if: spec.only_if,
            misfire: spec.misfire,
            overlap: spec.overlap,
            jitter_seconds: spec.jitter_seconds,
            notify: spec.notify,
            limits: spec.limits,
            next_run_at,
            warnings: None,
            last_run: last_run.map(|run| LastRun {
                id: run.id,
                state: run.state,
                started_at: run.started_at,
                stats: run.stats,
            }),
            waiting,
            last_dropped,
            created_at: schedule.created_at,
            updated_at: schedule.updated_at,
            created_by: schedule.created_by,
            updated_by: schedule.updated_by,
            version: schedule.version,
        }
    }

    /// The same with what may surprise about its clock.
    #[must_use]
    pub fn warned(self, warnings: Vec<WarningView>) -> Self {
        Self { warnings: Some(warnings), ..self }
    }
}

/// An image of the catalog.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Image)]
pub struct ImageView {
    image_digest: ImageDigest,
    image: ImagePlace,
    components: usize,
    used: usize,
    no_purl: u64,
    generated_at: Option<Timestamp>,
    updated_at: Timestamp,
    sequence: u64,
}

impl From<Image> for ImageView {
    fn from(image: Image) -> Self {
        Self {
            used: image.used_len(),
            components: image.components.len(),
            image_digest: image.digest,
            image: image.place,
            no_purl: image.no_purl,
            generated_at: image.generated_at,
            updated_at: image.updated_at,
            sequence: image.sequence,
        }
    }
}

/// How far the index is.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = IndexState)]
pub enum IndexStateView {
    /// Nothing of the catalog is in it yet.
    Cold,
    /// It has not reached what the catalog was at the start.
    Warming,
    /// It follows the catalog.
    Warm,
}

impl From<IndexState> for IndexStateView {
    fn from(state: IndexState) -> Self {
        match state {
            IndexState::Cold => Self::Cold,
            IndexState::Warming => Self::Warming,
            IndexState::Warm => Self::Warm,
        }
    }
}
