//! The instants ahead, of a schedule or before one is saved.

use crate::body::{expect_json, parse, receive};
use crate::extract::{Params, PathId, Tenant};
use crate::openapi::params::TenantHeader;
use crate::openapi::params::texts::{CronText, TimeZoneText};
use crate::openapi::problems::{OfOne, OfQuestion};
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
use utoipa::{IntoParams, ToSchema};

const COUNT_DEFAULT: usize = 10;
const COUNT_MAX: usize = 500;

/// A schedule's clock before it is saved.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Clock, example = json!({ "whenCron": "0 2 * * *", "timezone": "Europe/Sofia", "count": 3 }))]
pub struct PreviewBody {
    #[schema(value_type = CronText)]
    when_cron: String,
    #[serde(default = "utc")]
    #[schema(value_type = TimeZoneText)]
    timezone: String,
    /// How many instants.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 500, default = 10)]
    count: Option<usize>,
    /// Instants after this one; default: now.
    #[serde(default)]
    #[schema(value_type = Option<Timestamp>)]
    after: Option<String>,
}

/// Which instants.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "described here, read by `next`")]
struct InstantsQuery {
    /// How many.
    #[param(nullable = false, minimum = 1, maximum = 500, default = 10)]
    count: Option<u16>,
    /// After this one; default: now.
    #[param(nullable = false, inline)]
    after: Option<Timestamp>,
}

fn utc() -> String {
    "UTC".to_owned()
}

/// What a clock will do.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ahead {
    /// The instants in UTC.
    #[schema(value_type = Vec<Timestamp>)]
    items: Vec<String>,
    /// The same, each on both clocks.
    instants: Vec<Instant>,
    /// The expression in plain English.
    reading: Option<String>,
    timezone: String,
    warnings: Vec<WarningView>,
    /// The release of the time-zone data.
    time_zone_data: &'static str,
}

/// An instant on both clocks.
#[derive(Debug, Serialize, ToSchema)]
struct Instant {
    #[schema(value_type = Timestamp)]
    utc: String,
    /// With the zone's offset then.
    #[schema(format = DateTime)]
    local: String,
}

/// Something about an expression that may surprise.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CronWarning)]
pub struct WarningView {
    #[schema(example = "either-day")]
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

/// What may surprise about a clock, of the year after an instant.
pub(crate) fn warnings(calendar: &Calendar, after: Timestamp) -> Vec<WarningView> {
    let warnings = calendar.warnings(after.utc(), TimeDelta::days(WARNING_HORIZON_DAYS_MAX));
    warnings.into_iter().map(WarningView::from).collect()
}

impl Ahead {
    /// So many instants of a clock after an instant.
    pub fn of(calendar: &Calendar, after: Timestamp, count: usize) -> Self {
        let instants: Vec<Instant> = calendar
            .upcoming(after.utc())
            .take(count)
            .map(|instant| Instant {
                utc: instant.to_rfc3339_opts(SecondsFormat::Secs, true),
                local: calendar.zone.local(instant).to_rfc3339_opts(SecondsFormat::Secs, false),
            })
            .collect();
        Self {
            items: instants.iter().map(|instant| instant.utc.clone()).collect(),
            instants,
            reading: Some(calendar.expr.explain()),
            timezone: calendar.zone.name().to_owned(),
            warnings: warnings(calendar, after),
            time_zone_data: TZDB_VERSION,
        }
    }
}

/// When will a schedule fire?
#[utoipa::path(
    get, path = "/schedules/{id}/next", tag = "schedules", operation_id = "getScheduleInstants",
    params(TenantHeader, ("id" = String, Path, description = "The schedule"), InstantsQuery),
    responses((status = 200, description = "The instants ahead", body = Ahead), OfOne)
)]
pub async fn next(
    State(app): State<Arc<App>>,
    Tenant(tenant): Tenant,
    PathId(id): PathId,
    params: Params,
) -> Result<Json<Ahead>, Problem> {
    let count = count(params.read("count", "a number")?, "?count")?;
    let after = after(&app, params.one("after")?, "?after")?;
    let schedule = find(&app, &tenant, id).await?;
    let ahead = match calendar(&schedule.spec) {
        Some(calendar) => Ahead::of(&calendar, after, count),
        None => Ahead { timezone: schedule.spec.timezone, time_zone_data: TZDB_VERSION, ..Ahead::default() },
    };
    Ok(Json(ahead))
}

/// When would an expression fire?
#[utoipa::path(
    post, path = "/schedules/preview", tag = "schedules", operation_id = "previewSchedule",
    params(TenantHeader), request_body = PreviewBody,
    responses((status = 200, description = "The instants ahead", body = Ahead), OfQuestion)
)]
pub async fn preview(
    State(app): State<Arc<App>>,
    Tenant(tenant): Tenant,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Ahead>, Problem> {
    expect_json(&headers)?;
    let asked: PreviewBody = parse(&receive(&app, &tenant, &headers, body).await?)?;
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
