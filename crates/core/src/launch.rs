//! How runs come into being: ids that derive from what made them, limits from the schedule or the configuration.

use crate::cursor::Passed;
use crate::ports::{NewRun, PlanInput, Subscription};
use scheduler_model::ids::{content_id, sha256_hex};
use scheduler_model::{
    BatchId, ExportHead, Mode, NotifyRule, OnlyIf, Pace, Priority, Reason, Run, RunId, RunLimits, RunState, RunStats,
    Schedule, Selection, Source, TagRule, TenantId, Timestamp, Trigger,
};

/// What the configuration says where a schedule or a caller is silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunDefaults {
    /// Report calls a second.
    pub rate_per_second: u32,
    /// Calls in flight.
    pub parallelism: u32,
    /// The most images of a run; also the ceiling of what a schedule may ask.
    pub max_jobs: u32,
    /// Whether only used packages count.
    pub usage_only: bool,
}

/// A run that somebody asks for by hand.
#[derive(Debug, Clone, Default)]
pub struct ManualRequest {
    /// What is asked of the scanner.
    pub mode: Mode,
    /// Which images.
    pub selection: Selection,
    /// Keys that narrow it; `None`: all of the selection.
    pub keys: Option<Vec<String>>,
    /// Whether only used packages count; `None`: as configured.
    pub usage_only: Option<bool>,
    /// How much and how fast.
    pub limits: RunLimits,
    /// Which deltas are told.
    pub notify: NotifyRule,
    /// What the person gave as reason.
    pub text: Option<String>,
}

/// A run by hand that belongs to no schedule. What is over its limit is counted, not kept.
pub fn manual(id: RunId, tenant: TenantId, request: ManualRequest, defaults: RunDefaults, now: Timestamp) -> NewRun {
    let reason = Reason { text: request.text, ..Reason::default() };
    let input = PlanInput {
        selection: request.selection,
        keys: request.keys,
        batches: Vec::new(),
        usage_only: request.usage_only.unwrap_or(defaults.usage_only),
        only_if: OnlyIf::default(),
        max_jobs: max_jobs(&request.limits, defaults),
        spills: false,
        rest_of: None,
        limits: request.limits,
    };
    let run = Run {
        id,
        tenant,
        schedule: None,
        trigger: Trigger::Manual,
        reason,
        state: RunState::Planning,
        tags: TagRule::of(request.mode, &input.selection),
        mode: request.mode,
        priority: Priority::Normal,
        stats: RunStats::default(),
        notify: request.notify,
        policy_revision: None,
        pace: pace(&input.limits, defaults),
        caused_at: None,
        created_at: now,
        started_at: None,
        first_verdict_at: None,
        finished_at: None,
        error: None,
        cancel_requested_at: None,
        traceparent: None,
    };
    NewRun { run, input, takes: Vec::new(), passed: Vec::new(), idempotency: None }
}

/// A run of a schedule over its whole selection: by hand, by the clock, or to take what was left over.
pub fn of_schedule(
    id: RunId,
    schedule: &Schedule,
    trigger: Trigger,
    reason: Reason,
    defaults: RunDefaults,
    now: Timestamp,
) -> NewRun {
    let spec = &schedule.spec;
    let request = ManualRequest {
        mode: spec.mode,
        selection: spec.selection.clone(),
        keys: None,
        usage_only: spec.usage_only,
        limits: spec.limits.clone(),
        notify: spec.notify.clone(),
        text: None,
    };
    let mut new = manual(id, schedule.tenant.clone(), request, defaults, now);
    if !trigger.is_event() {
        new.input.only_if = spec.only_if.clone();
    }
    new.input.spills = true;
    new.run.schedule = Some(schedule.id.clone());
    new.run.trigger = trigger;
    new.run.reason = reason;
    new.run.policy_revision = spec.only_if.policy_revision.clone();
    new
}

/// A run of a schedule for batches of exports of one source. Its id derives from the schedule and the batches, so that any
/// number of planners may try.
pub fn of_exports(
    schedule: &Schedule,
    source: Source,
    takes: Vec<Subscription>,
    exports: &[ExportHead],
    defaults: RunDefaults,
    now: Timestamp,
) -> NewRun {
    let batches: Vec<BatchId> = takes.iter().map(|taken| taken.batch.clone()).collect();
    let parts: Vec<&str> = std::iter::once(schedule.id.as_str()).chain(batches.iter().map(BatchId::as_str)).collect();
    let visible: Vec<&ExportHead> = exports.iter().filter(|export| export.tenants.includes(&schedule.tenant)).collect();
    let last = visible.last().map(|export| export.export_id.clone());
    let (trigger, feedser, vexer) = match source {
        Source::Feedser => (Trigger::Feedser, last, None),
        Source::Vexer => (Trigger::Vexer, None, last),
    };
    let mut export_ids: Vec<_> = visible.iter().map(|export| export.export_id.clone()).collect();
    export_ids.dedup();
    let reason = Reason {
        cursor: feedser.as_ref().or(vexer.as_ref()).map(|id| id.as_str().to_owned()),
        feedser_export_id: feedser,
        vexer_export_id: vexer,
        export_ids,
        ..Reason::default()
    };
    let mut new = of_schedule(derived_run_id(&parts), schedule, trigger, reason, defaults, now);
    new.run.priority = visible.iter().map(|export| export.priority).max().unwrap_or_default();
    new.run.caused_at = visible.iter().map(|export| export.received_at).min();
    new.run.traceparent = visible.iter().find_map(|export| export.traceparent.clone());
    new.input.batches = batches;
    new.takes = takes;
    new.passed = visible.into_iter().map(Passed::from).collect();
    new
}

/// The run of a schedule for an instant.
pub fn of_instant(
    schedule: &Schedule,
    instant: Timestamp,
    catch_up: bool,
    defaults: RunDefaults,
    now: Timestamp,
) -> NewRun {
    let reason = Reason { scheduled_for: Some(instant), catch_up, ..Reason::default() };
    of_schedule(cron_run_id(schedule, instant), schedule, Trigger::Cron, reason, defaults, now)
}

/// The run of a schedule for a new policy revision, under which its images are asked about. Its id derives from the version
/// of the schedule that has another one, so that a repeated announcement finds it.
pub fn of_policy(schedule: &Schedule, revision: &str, defaults: RunDefaults, now: Timestamp) -> NewRun {
    let id = derived_run_id(&[schedule.id.as_str(), "policy", revision, &schedule.version.to_string()]);
    let reason = Reason { text: Some(format!("policy revision {revision}")), ..Reason::default() };
    let mut moved = schedule.clone();
    // Whatever has a report under that revision already is done.
    moved.spec.only_if = OnlyIf { policy_revision: Some(revision.to_owned()), last_report_older_than_days: None };
    of_schedule(id, &moved, Trigger::Policy, reason, defaults, now)
}

/// The run that takes what the urgent part of an event run leaves while the index is cold. Its id derives from that run, so that
/// planning it again makes no second one.
pub fn rest_of(urgent: &Run, input: &PlanInput, now: Timestamp) -> NewRun {
    let run = Run {
        id: derived_run_id(&["rest", urgent.id.as_str()]),
        reason: Reason { continues: Some(urgent.id.clone()), ..urgent.reason.clone() },
        priority: Priority::Normal,
        created_at: now,
        ..urgent.clone()
    };
    let input = PlanInput { rest_of: Some(urgent.id.clone()), ..input.clone() };
    NewRun { run, input, takes: Vec::new(), passed: Vec::new(), idempotency: None }
}

/// The id of the run of a schedule for one instant.
pub fn cron_run_id(schedule: &Schedule, instant: Timestamp) -> RunId {
    derived_run_id(&[schedule.id.as_str(), "cron", &instant.to_string()])
}

/// The id of the run that continues another one with what that left over.
pub fn continuation_run_id(schedule: &Schedule, continued: &RunId) -> RunId {
    derived_run_id(&[schedule.id.as_str(), "continues", continued.as_str()])
}

fn derived_run_id(parts: &[&str]) -> RunId {
    #[expect(clippy::expect_used, reason = "a content id is 32 hexadecimal digits")]
    RunId::try_from(content_id("run", parts)).expect("a content id is an id")
}

/// Whose parallelism and rate a run shares: all runs of a schedule, or nobody's.
pub fn pace_group(run: &Run) -> String {
    run.schedule.as_ref().map_or_else(|| format!("run:{}", run.id), |schedule| format!("schedule:{schedule}"))
}

/// The W3C trace context of one call of a run: the run's trace, and a span of the call's own.
///
/// Both derive from content, so that a call repeated after a crash continues the same trace.
pub fn call_traceparent(run: &Run, digest: &str, attempt: u32) -> String {
    let hash = sha256_hex(run.id.as_str().as_bytes());
    let trace = run.traceparent.as_deref().and_then(trace_id).unwrap_or_else(|| hash.get(..32).unwrap_or_default());
    let span = content_id("span", &[run.id.as_str(), digest, &attempt.to_string()]);
    format!("00-{trace}-{}-01", span.get(..16).unwrap_or_default())
}

/// The W3C trace context that everything of a run continues: the stored one, else one that derives from the run's id.
pub fn run_traceparent(run: &Run) -> String {
    let stored = run.traceparent.as_deref().filter(|stored| trace_id(stored).is_some());
    stored.map_or_else(|| call_traceparent(run, "run", 0), str::to_owned)
}

/// The trace id of a trace context, if that is well formed.
fn trace_id(traceparent: &str) -> Option<&str> {
    let mut parts = traceparent.split('-');
    let trace = parts.nth(1)?;
    let valid = trace.len() == 32
        && trace.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        && trace.bytes().any(|b| b != b'0');
    valid.then_some(trace)
}

fn max_jobs(limits: &RunLimits, defaults: RunDefaults) -> u32 {
    limits.max_jobs.map_or(defaults.max_jobs, |own| own.min(defaults.max_jobs))
}

fn pace(limits: &RunLimits, defaults: RunDefaults) -> Pace {
    Pace {
        rate_per_second: limits.rate_per_second.unwrap_or(defaults.rate_per_second),
        parallelism: limits.parallelism.unwrap_or(defaults.parallelism),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::some_run;

    #[test]
    fn calls_of_a_run_share_a_trace_and_have_spans_of_their_own() {
        let mut run = some_run();
        let (a, b) = (call_traceparent(&run, "sha256:a", 1), call_traceparent(&run, "sha256:a", 2));
        assert_eq!(a.len(), 55);
        assert_eq!(a.get(..35), b.get(..35));
        assert_ne!(a, b);
        assert_eq!(a, call_traceparent(&run, "sha256:a", 1));
        assert_eq!(run_traceparent(&run).get(..35), a.get(..35));
        run.traceparent = Some(format!("00-{}-{}-01", "ab".repeat(16), "cd".repeat(8)));
        assert_eq!(Some(run_traceparent(&run)), run.traceparent);
        assert!(call_traceparent(&run, "sha256:a", 1).starts_with(&format!("00-{}-", "ab".repeat(16))));
        for broken in ["", "00-xyz-1-01", "00-00000000000000000000000000000000-1111111111111111-01", "no trace"] {
            run.traceparent = Some(broken.to_owned());
            assert_eq!(call_traceparent(&run, "sha256:a", 1), a, "{broken}");
        }
    }
}
