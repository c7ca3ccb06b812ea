//! Runs: start by hand, list, read, outcomes, cancel.

use crate::body::{expect_json, parse, receive};
use crate::code::Code;
use crate::extract::{List, Listed, Params, PathId, Tenant, path_id};
use crate::keys;
use crate::openapi::params::texts::ProductKeyText;
use crate::openapi::params::{PageQuery, TenantHeader};
use crate::openapi::problems::{OfCancel, OfList, OfNewRun, OfOne};
use crate::problem::Problem;
use crate::schedule_body::{check_limits, check_selection};
use crate::state::App;
use crate::trace;
use crate::view::{OutcomeKind, OutcomeView, RunView};
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use scheduler_core::launch::{self, ManualRequest};
use scheduler_core::ports::{Allowance, BACKLOG_LIMIT, Begun, NewRun, RunFilter, StoreError};
use scheduler_model::ids::sha256_hex;
use scheduler_model::{
    Mode, NotifyRule, Reason, Run, RunId, RunLimits, RunState, ScheduleId, Selection, TenantId, Timestamp, Trigger,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tracing::field::Empty;
use tracing::{Instrument, Span, info_span};
use utoipa::{IntoParams, ToSchema};

const IDEMPOTENCY_KEY: &str = "idempotency-key";
const IDEMPOTENCY_KEY_LEN_MAX: usize = 255;
const REASON_LEN_MAX: usize = 1000;

/// What a person asks for.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schema(as = NewRun, example = json!({ "keys": ["pkg:deb/debian/openssl"], "reason": "ticket 4711" }))]
pub struct RunBody {
    mode: Option<Mode>,
    /// Default: all images.
    selection: Option<Selection>,
    /// Changed product keys; with `vulnIds` a union. Without both: every image of the selection; `[]`: none.
    #[schema(value_type = Option<Vec<ProductKeyText>>)]
    keys: Option<Vec<String>>,
    /// Vulnerabilities that exports have told of.
    vuln_ids: Option<Vec<String>>,
    /// Whether only packages that the entrypoint uses count; default: as configured.
    usage_only: Option<bool>,
    limits: Option<RunLimits>,
    notify: Option<NotifyRule>,
    /// Why, for people.
    #[schema(max_length = 1000)]
    reason: Option<String>,
    /// That schedule now; nothing else but a reason and `backfill` may stand beside it.
    schedule_id: Option<String>,
    /// With `scheduleId`: to make up for what no export told of. The run goes after all other work.
    backfill: bool,
}

/// A run that was begun.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunStarted {
    run_id: RunId,
}

/// Which runs.
#[derive(IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
#[expect(dead_code, reason = "described here, read by `list`")]
struct RunQuery {
    /// Runs of this schedule.
    #[param(nullable = false, inline)]
    schedule_id: Option<ScheduleId>,
    /// Runs that stand here.
    #[param(nullable = false, inline)]
    state: Option<RunState>,
    /// Runs that this started.
    #[param(nullable = false, inline)]
    trigger: Option<Trigger>,
    /// Runs that were made then or later.
    #[param(nullable = false, inline)]
    since: Option<Timestamp>,
    /// Runs that were made before.
    #[param(nullable = false, inline)]
    until: Option<Timestamp>,
}

/// Which outcomes.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "described here, read by `images`")]
struct OutcomeQuery {
    /// Of this kind.
    #[param(nullable = false, inline)]
    outcome: Option<OutcomeKind>,
}

/// Start a run by hand.
///
/// The answer comes when it is durable; its images are found afterwards.
#[utoipa::path(
    post, path = "/run", tag = "runs", operation_id = "startRun",
    params(
        TenantHeader,
        ("Idempotency-Key" = Option<String>, Header, nullable = false, min_length = 1, max_length = 255,
            description = "The same key with the same body gives the same run, for 24 hours"),
    ),
    request_body = RunBody,
    responses(
        (status = 202, description = "Begun", body = RunStarted, links(
            ("run" = (operation_id = "getRun", parameters(("id" = "$response.body#/runId")))),
            ("images" = (operation_id = "listRunImages", parameters(("id" = "$response.body#/runId")))),
            ("cancel" = (operation_id = "cancelRun", parameters(("id" = "$response.body#/runId")))),
        )),
        OfNewRun,
    )
)]
pub async fn start(
    State(app): State<Arc<App>>,
    Tenant(tenant): Tenant,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let span = info_span!("start_run", run = Empty, otel.kind = "server");
    let span = trace::of_request(&headers, span);
    begin(&app, tenant, &headers, body).instrument(span).await
}

async fn begin(app: &App, tenant: TenantId, headers: &HeaderMap, body: Body) -> Result<Response, Problem> {
    expect_json(headers)?;
    let content = receive(app, &tenant, headers, body).await?;
    let asked: RunBody = parse(&content)?;
    let idempotency = idempotency(headers, &content)?;
    let mut new = new_run(app, &tenant, asked).await?;
    new.idempotency = idempotency;
    new.run.traceparent = trace::stored(headers);
    Span::current().record("run", new.run.id.as_str());
    let id = new.run.id.clone();
    let allowance =
        Allowance { runs_max: app.limits.active_runs_per_tenant, backlog_max: app.limits.backlog_per_tenant };
    let id = match app.store.begin_run_within(new, allowance).await.map_err(over_limit)? {
        Begun::New => id,
        Begun::Existing(existing) => existing,
        Begun::OtherContent => {
            return Err(Problem::new(
                Code::IdempotencyKeyReused,
                "this Idempotency-Key has started a run with other content",
            ));
        }
    };
    app.conductor.run_begun();
    Ok((StatusCode::ACCEPTED, Json(RunStarted { run_id: id })).into_response())
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
            let only = "with scheduleId nothing else but a reason and backfill may be given";
            return Err(Problem::bad_input("/scheduleId", only));
        }
        let not_found = || Problem::not_found(format!("schedule {schedule}"));
        let wanted = ScheduleId::try_from(schedule.clone()).map_err(|_| not_found())?;
        let found = app.store.schedule(tenant, &wanted).await?.ok_or_else(not_found)?;
        let reason = Reason { text: asked.reason, ..Reason::default() };
        let trigger = if asked.backfill { Trigger::Backfill } else { Trigger::Manual };
        return Ok(launch::of_schedule(id, &found, trigger, reason, app.run_defaults, now));
    }
    if asked.backfill {
        return Err(Problem::bad_input("/backfill", "a backfill needs scheduleId"));
    }
    let selection = asked.selection.unwrap_or_default();
    check_selection(&selection, "/selection")?;
    let limits = asked.limits.unwrap_or_default();
    check_limits(&limits, "/limits")?;
    let mode = asked.mode.unwrap_or_default();
    let sent = keys::resolve(app, tenant, asked.keys, asked.vuln_ids).await?;
    let request = ManualRequest {
        mode,
        selection,
        keys: sent.map(|sent| sent.keys.iter().map(|key| key.key.purl().as_str().to_owned()).collect()),
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
    Problem::new(Code::LimitReached, format!("{what} is at its limit of {limit}; try again when runs have ended"))
        .retry_after(10)
}

/// List runs, the newest first.
#[utoipa::path(
    get, path = "/runs", tag = "runs", operation_id = "listRuns", params(TenantHeader, PageQuery, RunQuery),
    responses((status = 200, description = "A page of runs", body = Listed<RunView>), OfList)
)]
pub async fn list(State(app): State<Arc<App>>, Tenant(tenant): Tenant, params: Params) -> Result<Response, Problem> {
    let page = params.page(List::Runs)?;
    let time = |name: &str| {
        params
            .one(name)?
            .map(|text| Timestamp::parse(text).map_err(|e| Problem::bad_input(format!("?{name}"), e.to_string())))
            .transpose()
    };
    let schedule = params.one("scheduleId")?.map(|id| ScheduleId::try_from(id.to_owned())).transpose();
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

/// Get a run.
#[utoipa::path(
    get, path = "/runs/{id}", tag = "runs", operation_id = "getRun",
    params(TenantHeader, ("id" = String, Path, description = "The run")),
    responses((status = 200, description = "The run", body = RunView), OfOne)
)]
pub async fn get(State(app): State<Arc<App>>, Tenant(tenant): Tenant, PathId(id): PathId) -> Result<Response, Problem> {
    let run = find(&app, &tenant, id).await?;
    Ok(Json(RunView::new(run, &app.public_url)).into_response())
}

/// List what each image got in a run.
#[utoipa::path(
    get, path = "/runs/{id}/images", tag = "runs", operation_id = "listRunImages",
    params(TenantHeader, ("id" = String, Path, description = "The run"), PageQuery, OutcomeQuery),
    responses((status = 200, description = "A page of outcomes", body = Listed<OutcomeView>), OfOne)
)]
pub async fn images(
    State(app): State<Arc<App>>,
    Tenant(tenant): Tenant,
    PathId(id): PathId,
    params: Params,
) -> Result<Response, Problem> {
    let page = params.page(List::Outcomes)?;
    let outcome = params.word::<OutcomeKind>("outcome")?.map(OutcomeKind::as_str);
    let run = find(&app, &tenant, id).await?;
    let found = app.store.outcomes(&run.id, outcome, page.after.as_deref(), page.limit).await?;
    Ok(Json(Listed::new(List::Outcomes, found, OutcomeView::from)).into_response())
}

/// Cancel a run.
///
/// After the answer no call begins that was not cleared before it; what is in flight may end and is recorded.
#[utoipa::path(
    post, path = "/runs/{id}/cancel", tag = "runs", operation_id = "cancelRun",
    params(TenantHeader, ("id" = String, Path, description = "The run")),
    responses((status = 202, description = "The run as it stands", body = RunView), OfCancel)
)]
pub async fn cancel(
    State(app): State<Arc<App>>,
    Tenant(tenant): Tenant,
    PathId(id): PathId,
) -> Result<Response, Problem> {
    let run = find(&app, &tenant, id).await?;
    let run = match app.store.request_cancel(&tenant, &run.id, app.clock.now()).await {
        Ok(run) => run,
        Err(StoreError::Conflict { .. }) => {
            return Err(Problem::new(Code::RunAlreadyEnded, format!("run {} has ended", run.id)));
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
