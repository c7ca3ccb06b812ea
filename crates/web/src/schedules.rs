//! Schedules: create, list, read, patch, delete, and the instants ahead.

use crate::body::{expect_json, from_value, parse, receive};
use crate::extract::{List, Listed, Params, PathId, Tenant, path_id};
use crate::problem::Problem;
use crate::state::App;
use crate::view::ScheduleView;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use scheduler_calendar::{Calendar, CronExpr, Zone};
use scheduler_core::ports::{Page, ScheduleFilter, StoreError};
use scheduler_model::{
    Misfire, Mode, NotifyRule, OnlyIf, Overlap, RunLimits, Schedule, ScheduleId, ScheduleSpec, Selection, Source,
    TenantId, Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// Who is written down as the author where no token names one.
const ANONYMOUS: &str = "anonymous";

const NAME_LEN_MAX: usize = 200;
const JITTER_SECONDS_MAX: u32 = 86_400;

/// A schedule as it is written.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ScheduleBody {
    #[serde(default)]
    name: Option<String>,
    #[serde(default = "yes")]
    enabled: bool,
    #[serde(default)]
    when_cron: Option<String>,
    #[serde(default = "utc")]
    timezone: String,
    #[serde(default)]
    on_events: Vec<Source>,
    #[serde(default)]
    mode: Mode,
    #[serde(default)]
    selection: Selection,
    #[serde(default)]
    usage_only: Option<bool>,
    #[serde(default)]
    only_if: OnlyIf,
    #[serde(default)]
    misfire: Misfire,
    #[serde(default)]
    overlap: Overlap,
    #[serde(default)]
    jitter_seconds: u32,
    #[serde(default)]
    notify: NotifyRule,
    #[serde(default)]
    limits: RunLimits,
}

fn yes() -> bool {
    true
}

fn utc() -> String {
    "UTC".to_owned()
}

impl ScheduleBody {
    fn of(spec: ScheduleSpec) -> Self {
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
    fn validate(mut self) -> Result<ScheduleSpec, Problem> {
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

/// `POST /schedules`
pub async fn create(
    State(app): State<Arc<App>>,
    Tenant(tenant): Tenant,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    expect_json(&headers)?;
    let content = receive(&headers, body, app.limits.body_bytes).await?;
    let spec = parse::<ScheduleBody>(&content)?.validate()?;
    let now = app.clock.now();
    let schedule = Schedule {
        id: ScheduleId::try_from(app.ids.fresh()).map_err(|_| Problem::internal())?,
        tenant,
        spec,
        ticks_from: Some(now),
        version: 1,
        created_at: now,
        updated_at: now,
        created_by: ANONYMOUS.to_owned(),
        updated_by: ANONYMOUS.to_owned(),
        deleted_at: None,
    };
    app.store.create_schedule(schedule.clone()).await?;
    let location = format!("{}{}/schedules/{}", app.public_url, crate::BASE_PATH, schedule.id);
    let mut response = (StatusCode::CREATED, shown(&app, schedule).await?).into_response();
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// `GET /schedules`
pub async fn list(State(app): State<Arc<App>>, Tenant(tenant): Tenant, params: Params) -> Result<Response, Problem> {
    let page = params.page(List::Schedules)?;
    let filter = ScheduleFilter {
        enabled: params.read("enabled", "true or false")?,
        name: params.one("name").map(str::to_owned),
    };
    let found = app.store.schedules(&tenant, &filter, page.after.as_deref(), page.limit).await?;
    let mut items = Vec::with_capacity(found.items.len());
    for schedule in found.items {
        items.push(view(&app, schedule).await?);
    }
    Ok(Json(Listed::new(List::Schedules, Page { items, next: found.next }, |item| item)).into_response())
}

/// `GET /schedules/{id}`
pub async fn get(State(app): State<Arc<App>>, Tenant(tenant): Tenant, PathId(id): PathId) -> Result<Response, Problem> {
    let schedule = find(&app, &tenant, id).await?;
    Ok(shown(&app, schedule).await?.into_response())
}

/// `PATCH /schedules/{id}`: JSON merge patch (RFC 7396).
pub async fn patch(
    State(app): State<Arc<App>>,
    Tenant(tenant): Tenant,
    PathId(id): PathId,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    expect_json(&headers)?;
    let content = receive(&headers, body, app.limits.body_bytes).await?;
    let changes: Value = parse(&content)?;
    if !changes.is_object() {
        return Err(Problem::bad_input("", "a merge patch is a JSON object"));
    }
    // Without If-Match the patch is for whatever stands; it is tried again when somebody else was faster.
    loop {
        let mut schedule = find(&app, &tenant, id.clone()).await?;
        let expected = match if_match(&headers, schedule.version)? {
            Some(version) => version,
            None => schedule.version,
        };
        let before = schedule.spec.clone();
        let mut document = serde_json::to_value(ScheduleBody::of(schedule.spec)).map_err(|_| Problem::internal())?;
        merge(&mut document, &changes);
        // A member that is taken away gets its default, as at creation.
        schedule.spec = from_value::<ScheduleBody>(&document)?.validate()?;
        if schedule.spec.ticks_otherwise(&before) {
            schedule.ticks_from = Some(app.clock.now());
        }
        schedule.version = expected + 1;
        schedule.updated_at = app.clock.now().max(schedule.updated_at);
        schedule.updated_by = ANONYMOUS.to_owned();
        match app.store.update_schedule(schedule.clone(), expected).await {
            Ok(()) => return Ok(shown(&app, schedule).await?.into_response()),
            Err(StoreError::Conflict { .. }) if headers.contains_key(header::IF_MATCH) => return Err(stale()),
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// `DELETE /schedules/{id}`
pub async fn delete(
    State(app): State<Arc<App>>,
    Tenant(tenant): Tenant,
    PathId(id): PathId,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    loop {
        let mut schedule = find(&app, &tenant, id.clone()).await?;
        let expected = if_match(&headers, schedule.version)?.unwrap_or(schedule.version);
        let now = app.clock.now();
        schedule.deleted_at = Some(now);
        schedule.updated_at = now.max(schedule.updated_at);
        schedule.updated_by = ANONYMOUS.to_owned();
        schedule.version = expected + 1;
        match app.store.update_schedule(schedule, expected).await {
            Ok(()) => return Ok(StatusCode::NO_CONTENT),
            Err(StoreError::Conflict { .. }) if headers.contains_key(header::IF_MATCH) => return Err(stale()),
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The calendar of a schedule that ticks.
pub fn calendar(spec: &ScheduleSpec) -> Option<Calendar> {
    let expr = CronExpr::parse(spec.when_cron.as_deref()?).ok()?;
    let zone = Zone::parse(&spec.timezone).ok()?;
    Some(Calendar { expr, zone })
}

/// The tenant's schedule of that id.
pub async fn find(app: &App, tenant: &TenantId, id: String) -> Result<Schedule, Problem> {
    let id: ScheduleId = path_id(id, "schedule")?;
    app.store.schedule(tenant, &id).await?.ok_or_else(|| Problem::not_found(format!("schedule {id}")))
}

async fn view(app: &App, schedule: Schedule) -> Result<ScheduleView, Problem> {
    let next = calendar(&schedule.spec)
        .filter(|_| schedule.spec.enabled)
        .and_then(|calendar| calendar.next(app.clock.now().utc()))
        .map(Timestamp::from);
    let last = app.store.last_run(&schedule.tenant, &schedule.id).await?;
    let state = app.store.ticks(&[(schedule.tenant.clone(), schedule.id.clone())]).await?.pop().flatten();
    Ok(ScheduleView::new(schedule, app.run_defaults.usage_only, next, last, state))
}

/// The schedule with its ETag.
async fn shown(app: &App, schedule: Schedule) -> Result<Response, Problem> {
    let tag = etag(schedule.version);
    let mut response = Json(view(app, schedule).await?).into_response();
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    Ok(response)
}

fn etag(version: u64) -> String {
    format!("\"{version}\"")
}

/// The version that `If-Match` asks for; `None` without one or with `*`.
fn if_match(headers: &HeaderMap, current: u64) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get(header::IF_MATCH) else { return Ok(None) };
    let value = value.to_str().map_err(|_| stale())?;
    if value.trim() == "*" {
        return Ok(None);
    }
    let wanted = etag(current);
    if value.split(',').any(|tag| tag.trim() == wanted) { Ok(Some(current)) } else { Err(stale()) }
}

fn stale() -> Problem {
    Problem::new(
        StatusCode::PRECONDITION_FAILED,
        "stale-etag",
        "If-Match names another version than the one that stands; read it again",
    )
}

/// JSON merge patch: objects merge, null takes away, all else replaces.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Some(members) = target.as_object_mut() else { return };
    for (name, change) in changes {
        if change.is_null() {
            members.remove(name);
        } else {
            merge(members.entry(name).or_insert(Value::Null), change);
        }
    }
}
