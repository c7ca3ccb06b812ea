//! The instants ahead, of a schedule or before one is saved.

use crate::body::{expect_json, parse, receive};
use crate::extract::{Params, PathId, Tenant};
use crate::problem::Problem;
use crate::schedules::{calendar, find};
use crate::state::App;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use chrono::{SecondsFormat, TimeDelta};
use scheduler_calendar::{Calendar, CronExpr, TZDB_VERSION, WARNING_HORIZON_DAYS_MAX, Warning, Zone};
use scheduler_model::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const COUNT_DEFAULT: usize = 10;
const COUNT_MAX: usize = 500;

/// A schedule's clock before it is saved.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PreviewBody {
    when_cron: String,
    #[serde(default = "utc")]
    timezone: String,
    #[serde(default)]
    count: Option<usize>,
    #[serde(default)]
    after: Option<String>,
}

fn utc() -> String {
    "UTC".to_owned()
}

/// What a clock will do.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ahead {
    items: Vec<String>,
    instants: Vec<Instant>,
    reading: Option<String>,
    timezone: String,
    warnings: Vec<WarningView>,
    time_zone_data: &'static str,
}

/// An instant on both clocks.
#[derive(Debug, Serialize)]
struct Instant {
    utc: String,
    local: String,
}

#[derive(Debug, Serialize)]
struct WarningView {
    code: &'static str,
    detail: String,
}

impl From<Warning> for WarningView {
    fn from(warning: Warning) -> Self {
        let code = match &warning {
            Warning::EitherDay => "either-day",
            Warning::Never => "never",
            Warning::Moved { .. } => "moved",
            Warning::Skipped { .. } => "skipped",
            Warning::FirstPassOnly { .. } => "first-pass-only",
            Warning::Doubled { .. } => "doubled",
        };
        Self { code, detail: warning.to_string() }
    }
}

impl Ahead {
    fn of(calendar: &Calendar, after: Timestamp, count: usize) -> Self {
        let instants: Vec<Instant> = calendar
            .upcoming(after.utc())
            .take(count)
            .map(|instant| Instant {
                utc: instant.to_rfc3339_opts(SecondsFormat::Secs, true),
                local: calendar.zone.local(instant).to_rfc3339_opts(SecondsFormat::Secs, false),
            })
            .collect();
        let warnings = calendar.warnings(after.utc(), TimeDelta::days(WARNING_HORIZON_DAYS_MAX));
        Self {
            items: instants.iter().map(|instant| instant.utc.clone()).collect(),
            instants,
            reading: Some(calendar.expr.explain()),
            timezone: calendar.zone.name().to_owned(),
            warnings: warnings.into_iter().map(WarningView::from).collect(),
            time_zone_data: TZDB_VERSION,
        }
    }
}

/// `GET /schedules/{id}/next`
pub async fn next(
    State(app): State<Arc<App>>,
    Tenant(tenant): Tenant,
    PathId(id): PathId,
    params: Params,
) -> Result<Json<Ahead>, Problem> {
    let count = count(params.read("count", "a number")?, "?count")?;
    let after = after(&app, params.one("after"), "?after")?;
    let schedule = find(&app, &tenant, id).await?;
    let ahead = match calendar(&schedule.spec) {
        Some(calendar) => Ahead::of(&calendar, after, count),
        None => Ahead { timezone: schedule.spec.timezone, time_zone_data: TZDB_VERSION, ..Ahead::default() },
    };
    Ok(Json(ahead))
}

/// `POST /schedules/preview`
pub async fn preview(
    State(app): State<Arc<App>>,
    Tenant(_): Tenant,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Ahead>, Problem> {
    expect_json(&headers)?;
    let asked: PreviewBody = parse(&receive(&headers, body, app.limits.body_bytes).await?)?;
    let expr = CronExpr::parse(&asked.when_cron).map_err(|e| Problem::bad_input("/whenCron", e.to_string()))?;
    let zone = Zone::parse(&asked.timezone).map_err(|e| Problem::bad_input("/timezone", e.to_string()))?;
    let count = count(asked.count, "/count")?;
    let after = after(&app, asked.after.as_deref(), "/after")?;
    Ok(Json(Ahead::of(&Calendar { expr, zone }, after, count)))
}

fn count(asked: Option<usize>, at: &str) -> Result<usize, Problem> {
    let count = asked.unwrap_or(COUNT_DEFAULT);
    if (1..=COUNT_MAX).contains(&count) {
        Ok(count)
    } else {
        Err(Problem::bad_input(at, format!("{count} is not between 1 and {COUNT_MAX}")))
    }
}

fn after(app: &App, asked: Option<&str>, at: &str) -> Result<Timestamp, Problem> {
    let parse = |text| Timestamp::parse(text).map_err(|e| Problem::bad_input(at, e.to_string()));
    asked.map_or_else(|| Ok(app.clock.now()), parse)
}
