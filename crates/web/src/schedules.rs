//! Schedules: create, list, read, patch, delete, and the instants ahead.

use crate::body::{expect_json, from_value, parse, receive};
use crate::code::Code;
use crate::extract::{List, Listed, Params, PathId, Tenant, path_id};
use crate::instants::warnings;
use crate::openapi::params::texts::{CronText, TimeZoneText};
use crate::openapi::params::{IfMatch, PageQuery, TenantHeader};
use crate::openapi::problems::{OfList, OfNewSchedule, OfOne, OfPatch, OfVersioned};
use crate::problem::Problem;
use crate::schedule_body::{ScheduleBody, check_patch};
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
use serde_json::{Value, json};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// Who is written down as the author where no token names one.
const ANONYMOUS: &str = "anonymous";

/// Which schedules.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "described here, read by `list`")]
struct ScheduleQuery {
    /// Only enabled or only disabled ones.
    #[param(nullable = false)]
    enabled: Option<bool>,
    /// The one of exactly this name.
    #[param(nullable = false)]
    name: Option<String>,
}

/// Changes of a schedule: a JSON merge patch (RFC 7396). Null takes a member away, which then has its default again.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "enabled": false }))]
#[expect(dead_code, reason = "described here; a patch is merged as JSON")]
struct SchedulePatch {
    #[schema(
        nullable = false,
        min_length = 1,
        max_length = 200,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
    )]
    name: Option<String>,
    enabled: Option<bool>,
    when_cron: Option<CronText>,
    timezone: Option<TimeZoneText>,
    on_events: Option<Vec<Source>>,
    mode: Option<Mode>,
    selection: Option<Selection>,
    usage_only: Option<bool>,
    only_if: Option<OnlyIf>,
    misfire: Option<Misfire>,
    overlap: Option<Overlap>,
    #[schema(maximum = 86_400)]
    jitter_seconds: Option<u32>,
    notify: Option<NotifyRule>,
    limits: Option<RunLimits>,
}

/// Create a schedule.
///
/// `whenCron` and `onEvents` are each optional; a schedule with neither is run by hand.
#[utoipa::path(
    post, path = "/schedules", tag = "schedules", operation_id = "createSchedule",
    params(TenantHeader), request_body = ScheduleBody,
    responses(
        (status = 201, description = "Created", body = ScheduleView, headers(
            ("ETag" = String, description = "Its version, for If-Match"),
            ("Location" = String, description = "Its address"),
        ), links(
            ("schedule" = (operation_id = "getSchedule", parameters(("id" = "$response.body#/id")))),
            ("update" = (operation_id = "updateSchedule", parameters(("id" = "$response.body#/id")))),
            ("instants" = (operation_id = "getScheduleInstants", parameters(("id" = "$response.body#/id")))),
            ("delete" = (operation_id = "deleteSchedule", parameters(("id" = "$response.body#/id")))),
        )),
        OfNewSchedule,
    )
)]
pub async fn create(
    State(app): State<Arc<App>>,
    Tenant(tenant): Tenant,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    expect_json(&headers)?;
    let content = receive(&app, &tenant, &headers, body).await?;
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

/// List schedules.
#[utoipa::path(
    get, path = "/schedules", tag = "schedules", operation_id = "listSchedules",
    params(TenantHeader, PageQuery, ScheduleQuery),
    responses((status = 200, description = "A page of schedules", body = Listed<ScheduleView>), OfList)
)]
pub async fn list(State(app): State<Arc<App>>, Tenant(tenant): Tenant, params: Params) -> Result<Response, Problem> {
    let page = params.page(List::Schedules)?;
    let filter = ScheduleFilter {
        enabled: params.read("enabled", "true or false")?,
        name: params.one("name")?.map(str::to_owned),
    };
    let found = app.store.schedules(&tenant, &filter, page.after.as_deref(), page.limit).await?;
    let mut items = Vec::with_capacity(found.items.len());
    for schedule in found.items {
        items.push(view(&app, schedule).await?);
    }
    Ok(Json(Listed::new(List::Schedules, Page { items, next: found.next }, |item| item)).into_response())
}

/// Get a schedule.
#[utoipa::path(
    get, path = "/schedules/{id}", tag = "schedules", operation_id = "getSchedule",
    params(TenantHeader, ("id" = String, Path, description = "The schedule")),
    responses(
        (status = 200, description = "The schedule", body = ScheduleView,
            headers(("ETag" = String, description = "Its version, for If-Match"))),
        OfOne,
    )
)]
pub async fn get(State(app): State<Arc<App>>, Tenant(tenant): Tenant, PathId(id): PathId) -> Result<Response, Problem> {
    let schedule = find(&app, &tenant, id).await?;
    Ok(shown(&app, schedule).await?.into_response())
}

/// Change a schedule.
#[utoipa::path(
    patch, path = "/schedules/{id}", tag = "schedules", operation_id = "updateSchedule",
    params(TenantHeader, ("id" = String, Path, description = "The schedule"), IfMatch),
    request_body(content((SchedulePatch = "application/merge-patch+json"), (SchedulePatch = "application/json"))),
    responses(
        (status = 200, description = "The schedule as it is now", body = ScheduleView,
            headers(("ETag" = String, description = "Its version, for If-Match"))),
        OfPatch,
    )
)]
pub async fn patch(
    State(app): State<Arc<App>>,
    Tenant(tenant): Tenant,
    PathId(id): PathId,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    expect_json(&headers)?;
    let content = receive(&app, &tenant, &headers, body).await?;
    let changes: Value = parse(&content)?;
    check_patch(&changes)?;
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

/// Delete a schedule; its runs stay readable.
#[utoipa::path(
    delete, path = "/schedules/{id}", tag = "schedules", operation_id = "deleteSchedule",
    params(TenantHeader, ("id" = String, Path, description = "The schedule"), IfMatch),
    responses((status = 204, description = "Deleted"), OfVersioned)
)]
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
    let warnings = calendar(&schedule.spec).map(|calendar| warnings(&calendar, app.clock.now())).unwrap_or_default();
    let mut response = Json(view(app, schedule).await?.warned(warnings)).into_response();
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
    if !headers.contains_key(header::IF_MATCH) {
        return Ok(None);
    }
    let wanted = etag(current);
    let lines = headers.get_all(header::IF_MATCH).iter().filter_map(|line| line.to_str().ok());
    let mut found = Err(stale());
    for tag in lines.flat_map(|line| line.split(',')).map(str::trim) {
        match tag {
            "*" => return Ok(None),
            tag if tag == wanted => found = Ok(Some(current)),
            _ => {}
        }
    }
    found
}

fn stale() -> Problem {
    Problem::new(Code::StaleEtag, "If-Match names another version than the one that stands; read it again")
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
