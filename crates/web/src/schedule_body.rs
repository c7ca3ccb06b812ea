//! Schedules as they are written, and what types cannot say of them.

use crate::body::from_value;
use crate::openapi::params::texts::{CronText, TimeZoneText};
use crate::problem::Problem;
use scheduler_calendar::{CronExpr, Zone};
use scheduler_model::{Misfire, Mode, NotifyRule, OnlyIf, Overlap, RunLimits, ScheduleSpec, Selection, Source};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

const NAME_LEN_MAX: usize = 200;
const JITTER_SECONDS_MAX: u32 = 86_400;
const REPORT_AGE_DAYS_MAX: u32 = 36_500;
const REVISION_LEN_MAX: usize = 256;

/// A schedule as it is written.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewSchedule, example = json!({
    "name": "nightly", "whenCron": "0 2 * * *", "timezone": "Europe/Sofia", "onEvents": ["feedser"],
    "notify": { "minSeverity": "high" }, "limits": { "ratePerSecond": 50 },
}))]
pub struct ScheduleBody {
    /// Unique within the tenant.
    #[serde(default)]
    #[schema(
        required,
        nullable = false,
        min_length = 1,
        max_length = 200,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
    )]
    name: Option<String>,
    /// A disabled schedule neither ticks nor hears exports.
    #[serde(default = "yes")]
    enabled: bool,
    /// Without it nothing ticks.
    #[serde(default)]
    #[schema(value_type = Option<CronText>)]
    when_cron: Option<String>,
    /// In which the expression is read.
    #[serde(default = "utc")]
    #[schema(value_type = TimeZoneText)]
    timezone: String,
    /// Sources whose exports start a run.
    #[serde(default)]
    on_events: Vec<Source>,
    #[serde(default)]
    mode: Mode,
    #[serde(default)]
    selection: Selection,
    /// Whether only packages that the entrypoint uses count; default: as configured.
    #[serde(default)]
    usage_only: Option<bool>,
    #[serde(default)]
    only_if: OnlyIf,
    #[serde(default)]
    misfire: Misfire,
    #[serde(default)]
    overlap: Overlap,
    /// Runs of the clock begin up to so many seconds later.
    #[serde(default)]
    #[schema(maximum = 86_400)]
    jitter_seconds: u32,
    #[serde(default)]
    notify: NotifyRule,
    #[serde(default)]
    limits: RunLimits,
}

/// Whether a text can name a policy revision.
pub fn check_revision(text: Option<&str>, at: &str) -> Result<(), Problem> {
    let valid =
        |text: &str| (1..=REVISION_LEN_MAX).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    if text.is_some_and(|text| !valid(text)) {
        return Err(Problem::bad_input(at, format!("1 to {REVISION_LEN_MAX} characters, none of control")));
    }
    Ok(())
}

fn yes() -> bool {
    true
}

fn utc() -> String {
    "UTC".to_owned()
}

impl ScheduleBody {
    /// A schedule as it would be written.
    pub fn of(spec: ScheduleSpec) -> Self {
        Self {
            name: Some(spec.name),
            enabled: spec.enabled,
            when_cron: spec.when_cron,
            timezone: spec.timezone,
            on_events: spec.on_events,
            mode: spec.mode,
            selection: spec.selection,
            usage_only: spec.usage_only,
            only_if: spec.only_if,
            misfire: spec.misfire,
            overlap: spec.overlap,
            jitter_seconds: spec.jitter_seconds,
            notify: spec.notify,
            limits: spec.limits,
        }
    }

    /// Checks what types cannot say.
    pub fn validate(mut self) -> Result<ScheduleSpec, Problem> {
        let name = self.name.take().ok_or_else(|| Problem::bad_input("/name", "a schedule needs a name"))?;
        if name.trim().is_empty() || name.chars().count() > NAME_LEN_MAX || name.chars().any(char::is_control) {
            return Err(Problem::bad_input(
                "/name",
                format!("a name has 1 to {NAME_LEN_MAX} characters, not only blanks and none of control"),
            ));
        }
        Zone::parse(&self.timezone).map_err(|e| Problem::bad_input("/timezone", e.to_string()))?;
        if let Some(expression) = &self.when_cron {
            CronExpr::parse(expression).map_err(|e| Problem::bad_input("/whenCron", e.to_string()))?;
        }
        check_selection(&self.selection, "/selection")?;
        check_limits(&self.limits, "/limits")?;
        if self.only_if.last_report_older_than_days.is_some_and(|days| days > REPORT_AGE_DAYS_MAX) {
            let at = "/onlyIf/lastReportOlderThanDays";
            return Err(Problem::bad_input(at, format!("at most {REPORT_AGE_DAYS_MAX}")));
        }
        check_revision(self.only_if.policy_revision.as_deref(), "/onlyIf/policyRevision")?;
        if self.jitter_seconds > JITTER_SECONDS_MAX {
            return Err(Problem::bad_input("/jitterSeconds", format!("at most {JITTER_SECONDS_MAX}")));
        }
        self.on_events.sort_unstable();
        self.on_events.dedup();
        Ok(ScheduleSpec {
            name,
            enabled: self.enabled,
            when_cron: self.when_cron,
            timezone: self.timezone,
            on_events: self.on_events,
            mode: self.mode,
            selection: self.selection,
            usage_only: self.usage_only,
            only_if: self.only_if,
            misfire: self.misfire,
            overlap: self.overlap,
            jitter_seconds: self.jitter_seconds,
            notify: self.notify,
            limits: self.limits,
        })
    }
}

/// Refuses members of a merge patch that no schedule has: as null they would go unnoticed.
pub fn check_patch(changes: &Value) -> Result<(), Problem> {
    // A schedule with every member.
    let written = json!({
        "onlyIf": { "lastReportOlderThanDays": 0, "policyRevision": "" },
        "limits": { "maxJobs": 1, "ratePerSecond": 1, "parallelism": 1 },
    });
    let known = from_value::<ScheduleBody>(&written)
        .and_then(|body| serde_json::to_value(body).map_err(|_| Problem::internal()))?;
    check_members(changes, &known, "")
}

fn check_members(changes: &Value, known: &Value, at: &str) -> Result<(), Problem> {
    let (Some(changes), Some(members)) = (changes.as_object(), known.as_object()) else { return Ok(()) };
    // Labels have names of their own.
    if members.is_empty() {
        return Ok(());
    }
    for (name, change) in changes {
        let at = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
        match members.get(name) {
            Some(known) => check_members(change, known, &at)?,
            None => return Err(Problem::bad_input(at, "there is no such member")),
        }
    }
    Ok(())
}

/// Whether the scope has its list.
pub fn check_selection(selection: &Selection, at: &str) -> Result<(), Problem> {
    selection.validate().map_err(|e| Problem::impossible(format!("{at}/{}", e.member), e.to_string()))
}

/// Whether limits are numbers that a run can obey.
pub fn check_limits(limits: &RunLimits, at: &str) -> Result<(), Problem> {
    for (member, value, most) in [
        ("maxJobs", limits.max_jobs, 10_000_000),
        ("ratePerSecond", limits.rate_per_second, 100_000),
        ("parallelism", limits.parallelism, 10_000),
    ] {
        if value.is_some_and(|value| !(1..=most).contains(&value)) {
            return Err(Problem::bad_input(format!("{at}/{member}"), format!("a number from 1 to {most}")));
        }
    }
    Ok(())
}
