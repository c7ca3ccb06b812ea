//! Runs: start by hand, list, read, outcomes, cancel.

use crate::body::{expect_json, parse, receive};
use crate::extract::{List, Listed, Params, PathId, Tenant, path_id};
use crate::keys;
use crate::problem::Problem;
use crate::schedules::{check_limits, check_selection};
use crate::state::App;
use crate::view::{OutcomeView, RunView};
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use scheduler_core::launch::{self, ManualRequest};
use scheduler_core::ports::{Allowance, BACKLOG_LIMIT, Begun, NewRun, RunFilter, StoreError};
use scheduler_model::ids::sha256_hex;
use scheduler_model::{
    Mode, NotifyRule, Reason, Run, RunId, RunLimits, ScheduleId, Selection, TenantId, Timestamp, Trigger,
};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

const IDEMPOTENCY_KEY: &str = "idempotency-key";
const IDEMPOTENCY_KEY_LEN_MAX: usize = 255;
const REASON_LEN_MAX: usize = 1000;

/// What a person asks for.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RunBody {
    mode: Option<Mode>,
    selection: Option<Selection>,
    keys: Option<Vec<String>>,
    vuln_ids: Option<Vec<String>>,
    usage_only: Option<bool>,
    limits: Option<RunLimits>,
    notify: Option<NotifyRule>,
    reason: Option<String>,
    schedule_id: Option<String>,
}

/// `POST /run`
pub async fn start(
    State(app): State<Arc<App>>,
    Tenant(tenant): Tenant,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    expect_json(&headers)?;
    let content = receive(&headers, body, app.limits.body_bytes).await?;
    let asked: RunBody = parse(&content)?;
    let idempotency = idempotency(&headers, &content)?;
    let mut new = new_run(&app, &tenant, asked).await?;
    new.idempotency = idempotency;
    let id = new.run.id.clone();
    let allowance =
        Allowance { runs_max: app.limits.active_runs_per_tenant, backlog_max: app.limits.backlog_per_tenant };
    let id = match app.store.begin_run_within(new, allowance).await.map_err(over_limit)? {
        Begun::New => id,
        Begun::Existing(existing) => existing,
        Begun::OtherContent => {
            return Err(Problem::new(
                StatusCode::CONFLICT,
                "idempotency-key-reused",
                "this Idempotency-Key has started a run with other content",
            ));
        }
    };
    app.conductor.run_begun();
    Ok((StatusCode::ACCEPTED, Json(json!({ "runId": id }))).into_response())
}

async fn new_run(app: &App, tenant: &TenantId, asked: RunBody) -> Result<NewRun, Problem> {
    let id = RunId::try_from(app.ids.fresh()).map_err(|_| Problem::internal())?;
    let now = app.clock.now();
    if asked.reason.as_ref().is_some_and(|text| text.chars().count() > REASON_LEN_MAX) {
        return Err(Problem::bad_input("/reason", format!("at most {REASON_LEN_MAX} characters")));
    }
    if let Some(schedule) = asked.schedule_id {
        let others = [
            asked.mode.is_some(),
            asked.selection.is_some(),
            asked.keys.is_some(),
            asked.vuln_ids.is_some(),
            asked.usage_only.is_some(),
            asked.limits.is_some(),
            asked.notify.is_some(),
        ];
        if others.contains(&true) {
            return Err(Problem::bad_input("/scheduleId", "with scheduleId nothing else but a reason may be given"));
        }
        let not_found = || Problem::not_found(format!("schedule {schedule}"));
        let wanted = ScheduleId::try_from(schedule.clone()).map_err(|_| not_found())?;
        let found = app.store.schedule(tenant, &wanted).await?.ok_or_else(not_found)?;
        let reason = Reason { text: asked.reason, ..Reason::default() };
        return Ok(launch::of_schedule(id, &found, Trigger::Manual, reason, app.run_defaults, now));
    }
    let selection = asked.selection.unwrap_or_default();
    check_selection(&selection, "/selection")?;
    let limits = asked.limits.unwrap_or_default();
    check_limits(&limits, "/limits")?;
    let mode = asked.mode.unwrap_or_default();
    let keys = keys::resolve(app, tenant, asked.keys, asked.vuln_ids).await?;
    let request = ManualRequest {
        mode,
        selection,
        keys: keys.map(|keys| keys.iter().map(|key| key.purl().as_str().to_owned()).collect()),
        usage_only: asked.usage_only,
        limits,
        notify: asked.notify.unwrap_or_default(),
        text: asked.reason,
    };
    Ok(launch::manual(id, tenant.clone(), request, app.run_defaults, now))
}

/// The key and what it stands for.
fn idempotency(headers: &HeaderMap, content: &[u8]) -> Result<Option<(String, String)>, Problem> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let key = value.to_str().unwrap_or_default();
    if !(1..=IDEMPOTENCY_KEY_LEN_MAX).contains(&key.len()) {
        return Err(Problem::bad_input(
            "Idempotency-Key",
            format!("1 to {IDEMPOTENCY_KEY_LEN_MAX} visible characters"),
        ));
    }
    Ok(Some((key.to_owned(), sha256_hex(content))))
}

/// A tenant at one of its limits is told which one.
fn over_limit(error: StoreError) -> Problem {
    let StoreError::Full { what, limit } = error else { return error.into() };
    let reason = if what == BACKLOG_LIMIT { "backlog" } else { "active-runs" };
    metrics::counter!("scheduler_rate_limited_total", "reason" => reason).increment(1);
    Problem::new(
        StatusCode::TOO_MANY_REQUESTS,
        "limit-reached",
        format!("{what} is at its limit of {limit}; try again when runs have ended"),
    )
    .retry_after(10)
}

/// `GET /runs`
pub async fn list(State(app): State<Arc<App>>, Tenant(tenant): Tenant, params: Params) -> Result<Response, Problem> {
    let page = params.page(List::Runs)?;
    let time = |name: &str| {
        params
            .one(name)
            .map(|text| Timestamp::parse(text).map_err(|e| Problem::bad_input(format!("?{name}"), e.to_string())))
            .transpose()
    };
    let schedule = params.one("scheduleId").map(|id| ScheduleId::try_from(id.to_owned())).transpose();
    let filter = RunFilter {
        schedule: schedule.map_err(|e| Problem::bad_input("?scheduleId", e.to_string()))?,
        state: params.word("state")?,
        trigger: params.word("trigger")?,
        since: time("since")?,
        until: time("until")?,
    };
    let found = app.store.runs(&tenant, &filter, page.after.as_deref(), page.limit).await?;
    Ok(Json(Listed::new(List::Runs, found, |run| RunView::new(run, &app.public_url))).into_response())
}

/// `GET /runs/{id}`
pub async fn get(State(app): State<Arc<App>>, Tenant(tenant): Tenant, PathId(id): PathId) -> Result<Response, Problem> {
    let run = find(&app, &tenant, id).await?;
    Ok(Json(RunView::new(run, &app.public_url)).into_response())
}

/// `GET /runs/{id}/images`
pub async fn images(
    State(app): State<Arc<App>>,
    Tenant(tenant): Tenant,
    PathId(id): PathId,
    params: Params,
) -> Result<Response, Problem> {
    let page = params.page(List::Outcomes)?;
    let outcome = params.one("outcome");
    if outcome.is_some_and(|kind| !["delta", "unchanged", "failed", "skipped"].contains(&kind)) {
        return Err(Problem::bad_input("?outcome", "one of delta, unchanged, failed, skipped"));
    }
    let run = find(&app, &tenant, id).await?;
    let found = app.store.outcomes(&run.id, outcome, page.after.as_deref(), page.limit).await?;
    Ok(Json(Listed::new(List::Outcomes, found, OutcomeView::from)).into_response())
}

/// `POST /runs/{id}/cancel`
pub async fn cancel(
    State(app): State<Arc<App>>,
    Tenant(tenant): Tenant,
    PathId(id): PathId,
) -> Result<Response, Problem> {
    let run = find(&app, &tenant, id).await?;
    let run = match app.store.request_cancel(&tenant, &run.id, app.clock.now()).await {
        Ok(run) => run,
        Err(StoreError::Conflict { .. }) => {
            return Err(Problem::new(StatusCode::CONFLICT, "run-already-ended", format!("run {} has ended", run.id)));
        }
        Err(error) => return Err(error.into()),
    };
    app.conductor.run_cancelled(&tenant, &run.id).await;
    Ok((StatusCode::ACCEPTED, Json(RunView::new(run, &app.public_url))).into_response())
}

async fn find(app: &App, tenant: &TenantId, id: String) -> Result<Run, Problem> {
    let id: RunId = path_id(id, "run")?;
    app.store.run(tenant, &id).await?.ok_or_else(|| Problem::not_found(format!("run {id}")))
}
