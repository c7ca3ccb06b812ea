//! Runs: one pass over a set of images each.

use crate::{
    Delta, ExportId, ImageDigest, Mode, NotifyRule, Priority, RunId, ScheduleId, SegmentId, Selection, TenantId,
    Timestamp, Verdict, glob_matches,
};
use serde::{Deserialize, Serialize};

/// What started a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Trigger {
    /// The clock.
    Cron,
    /// An advisory export.
    Feedser,
    /// A VEX export.
    Vexer,
    /// A new policy revision.
    Policy,
    /// A person.
    Manual,
    /// A person, to make up for what was missed.
    Backfill,
}

impl Trigger {
    /// The word of the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cron => "cron",
            Self::Feedser => "feedser",
            Self::Vexer => "vexer",
            Self::Policy => "policy",
            Self::Manual => "manual",
            Self::Backfill => "backfill",
        }
    }

    /// Whether a change of intelligence caused the run, so that `onlyIf` must not hide an image from it.
    pub fn is_event(self) -> bool {
        matches!(self, Self::Feedser | Self::Vexer)
    }
}

/// Where a run stands. It moves forward only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// Its images are being found.
    Planning,
    /// Its segments wait.
    Queued,
    /// The scanner is being asked.
    Running,
    /// Every image has an outcome.
    Completed,
    /// It could not be carried out.
    Error,
    /// Somebody stopped it.
    Cancelled,
}

/// A move that the state machine has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a run cannot go from {} to {}", from.as_str(), to.as_str())]
pub struct IllegalMove {
    /// Where it stands.
    pub from: RunState,
    /// Where it was to go.
    pub to: RunState,
}

impl RunState {
    /// The word of the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Planning => "planning",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing more happens.
    pub fn is_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Error | Self::Cancelled)
    }

    /// The one transition function: forward, and out of an ended state never.
    ///
    /// ```
    /// use scheduler_model::RunState::*;
    /// assert_eq!(Queued.to(Running), Ok(Running));
    /// assert!(Completed.to(Running).is_err());
    /// ```
    pub fn to(self, to: Self) -> Result<Self, IllegalMove> {
        let legal = match (self, to) {
            (Self::Planning, Self::Queued | Self::Completed | Self::Error | Self::Cancelled)
            | (Self::Queued, Self::Running | Self::Completed | Self::Error | Self::Cancelled)
            | (Self::Running, Self::Completed | Self::Error | Self::Cancelled) => true,
            (Self::Planning | Self::Queued | Self::Running | Self::Completed | Self::Error | Self::Cancelled, _) => {
                false
            }
        };
        if legal { Ok(to) } else { Err(IllegalMove { from: self, to }) }
    }
}

/// Why a run exists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Reason {
    /// The last advisory export in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feedser_export_id: Option<ExportId>,
    /// The last VEX export in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vexer_export_id: Option<ExportId>,
    /// Where the source's cursor stands with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Every export in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub export_ids: Vec<ExportId>,
    /// The instant that it was due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled_for: Option<Timestamp>,
    /// Whether it makes up for missed instants.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub catch_up: bool,
    /// The run whose spilled images it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continues: Option<RunId>,
    /// How many images it took over that earlier runs had left.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_over: u64,
    /// What a person gave as reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A run in numbers of images, but for the sums of new findings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct RunStats {
    /// What the index gave under the selection, and what earlier runs left.
    pub candidates: u64,
    /// Of these, distinct digests.
    pub deduped: u64,
    /// Images that are no candidates because every package of theirs that a key finds has a version outside of the affected
    /// ranges; none unless `impactIndex.narrowByRange` is on.
    pub narrowed_away: u64,
    /// After `onlyIf` and limits.
    pub queued: u64,
    /// With a verdict.
    pub completed: u64,
    /// Given up, or refused by the scanner.
    pub failed: u64,
    /// Cancelled or expired.
    pub skipped: u64,
    /// Over the limit.
    pub spilled: u64,
    /// With something new.
    pub deltas: u64,
    /// New critical findings.
    pub new_criticals: u64,
    /// New high findings.
    pub new_high: u64,
    /// KEV hits.
    pub kev_hits: u64,
}

impl RunStats {
    /// Counts one outcome in.
    pub fn count(&mut self, outcome: &Outcome) {
        match &outcome.result {
            OutcomeResult::Reported { delta, .. } => {
                self.completed += 1;
                self.deltas += u64::from(!delta.is_empty());
                self.new_criticals += delta.new_criticals;
                self.new_high += delta.new_high;
                self.kev_hits += delta.kev_hits.len() as u64;
            }
            OutcomeResult::Failed { .. } => self.failed += 1,
            OutcomeResult::Skipped { .. } => self.skipped += 1,
        }
    }

    /// Images that have an outcome.
    pub fn ended(&self) -> u64 {
        self.completed + self.failed + self.skipped
    }
}

/// How fast a run may go; fleet-wide, shared by the runs of one schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pace {
    /// Report calls a second.
    pub rate_per_second: u32,
    /// Calls in flight.
    pub parallelism: u32,
}

/// Whether a run asks what tags point to now, and which tags.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TagRule {
    /// Whether it asks at all.
    pub resolve: bool,
    /// Globs that a tag has to match one of; empty: every tag.
    pub include: Vec<String>,
}

impl TagRule {
    /// The rule of a run in that mode over that selection: a content-refresh resolves always.
    pub fn of(mode: Mode, selection: &Selection) -> Self {
        let resolve = selection.resolves_tags || mode == Mode::ContentRefresh;
        Self { resolve, include: if resolve { selection.include_tags.clone() } else { Vec::new() } }
    }

    /// Whether the rule lets a tag through.
    pub fn lets(&self, tag: &str) -> bool {
        self.include.is_empty() || self.include.iter().any(|glob| glob_matches(glob, tag))
    }
}

/// One pass over a set of images.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// Whose it is.
    pub tenant: TenantId,
    /// The schedule that it belongs to.
    pub schedule: Option<ScheduleId>,
    /// What started it.
    pub trigger: Trigger,
    /// Why it exists.
    pub reason: Reason,
    /// Where it stands.
    pub state: RunState,
    /// What is asked of the scanner.
    pub mode: Mode,
    /// Which tags are resolved.
    #[serde(default)]
    pub tags: TagRule,
    /// How urgent it is.
    pub priority: Priority,
    /// Its numbers.
    pub stats: RunStats,
    /// Which deltas are told.
    pub notify: NotifyRule,
    /// The policy that reports are asked under.
    pub policy_revision: Option<String>,
    /// How fast.
    pub pace: Pace,
    /// When the first export that caused it came.
    #[serde(default)]
    pub caused_at: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When the scanner was first asked.
    pub started_at: Option<Timestamp>,
    /// When the first verdict came.
    pub first_verdict_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Why it could not be carried out.
    pub error: Option<String>,
    /// When a cancel was acknowledged; the run ends when what is in flight has ended.
    #[serde(default)]
    pub cancel_requested_at: Option<Timestamp>,
    /// W3C trace context that its calls continue.
    #[serde(default)]
    pub traceparent: Option<String>,
}

/// An image of a segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentImage {
    /// The image.
    #[serde(rename = "d")]
    pub digest: ImageDigest,
    /// Its repository, for the outcome.
    #[serde(rename = "r")]
    pub repository: String,
}

/// Which segments go first. The later, the more urgent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lane {
    /// What earlier runs left.
    Backlog,
    /// Everything else.
    Normal,
    /// Critical.
    Critical,
    /// Known to be exploited.
    Kev,
}

impl Lane {
    /// Every lane, the most urgent first.
    pub const BY_URGENCY: [Self; 4] = [Self::Kev, Self::Critical, Self::Normal, Self::Backlog];

    /// The word for metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Backlog => "backlog",
            Self::Normal => "normal",
            Self::Critical => "critical",
            Self::Kev => "kev",
        }
    }
}

/// The unit of work that a worker leases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Segment {
    /// Derives from the run and the place in it.
    pub id: SegmentId,
    /// The run.
    pub run: RunId,
    /// Whose it is.
    pub tenant: TenantId,
    /// Whose parallelism and rate it shares: the schedule, or the run itself when nobody else's.
    pub pace_group: String,
    /// How fast that group may go.
    pub pace: Pace,
    /// Which segments go first.
    pub lane: Lane,
    /// The place in the run.
    pub position: u32,
    /// When it was queued.
    pub queued_at: Timestamp,
    /// Its images, in order.
    pub images: Vec<SegmentImage>,
}

/// Why an image got no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ErrorClass {
    /// No answer in time.
    Timeout,
    /// No connection.
    Connect,
    /// 429, to the end.
    Throttled,
    /// 5xx, to the end.
    ServerError,
    /// The scanner refused the image, or its scan failed.
    Rejected,
    /// An answer that cannot be understood.
    BadResponse,
    /// Its segment was given up.
    Internal,
}

/// Why an image was not asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum SkipReason {
    /// The run was cancelled.
    Cancelled,
    /// It waited longer than the deadline.
    Expired,
}

/// What a tag pointed to when it was resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReportedTag {
    /// The tag.
    pub tag: String,
    /// The digest.
    pub digest: ImageDigest,
}

/// What one image got in one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The run.
    pub run: RunId,
    /// The image, as the catalog names it.
    pub digest: ImageDigest,
    /// Its repository.
    pub repository: String,
    /// Calls that were made.
    pub attempts: u32,
    /// When the first call began.
    pub started_at: Timestamp,
    /// When it was settled.
    pub finished_at: Timestamp,
    /// What it got.
    pub result: OutcomeResult,
    /// What the tags pointed to, of a content-refresh.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reported: Vec<ReportedTag>,
}

/// The three ends of an image in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum OutcomeResult {
    /// A verdict.
    #[serde(rename_all = "camelCase")]
    Reported {
        /// The judgement.
        verdict: Verdict,
        /// What is new.
        delta: Delta,
        /// Where a person reads the report.
        report_url: Option<String>,
        /// The report's signature.
        attestation: Option<crate::Attestation>,
    },
    /// None, and no more tries.
    Failed {
        /// The kind of failure.
        class: ErrorClass,
        /// What happened, for people.
        message: String,
    },
    /// Not asked.
    Skipped {
        /// Why.
        reason: SkipReason,
    },
}

impl OutcomeResult {
    /// The word of the contract: `delta`, `unchanged`, `failed` or `skipped`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Reported { delta, .. } if delta.is_empty() => "unchanged",
            Self::Reported { .. } => "delta",
            Self::Failed { .. } => "failed",
            Self::Skipped { .. } => "skipped",
        }
    }
}
