//! A new policy revision, and how far exports are planned.

use crate::body::{expect_json, parse, receive};
use crate::code::Code;
use crate::extract::{List, Listed, Params, Tenant};
use crate::openapi::params::{PageQuery, TenantHeader};
use crate::openapi::problems::{OfList, OfPolicy};
use crate::problem::Problem;
use crate::schedule_body::check_revision;
use crate::state::App;
use crate::trace;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use scheduler_core::cursor::{Cursor, Hole};
use scheduler_core::launch;
use scheduler_core::ports::{Page, ScheduleFilter, StoreError};
use scheduler_model::{ExportId, RunId, Schedule, ScheduleId, Source, TenantId, Timestamp};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tracing::{Instrument, info, info_span};
use utoipa::ToSchema;

const PAGE_LEN: usize = 200;

/// Who is written down as the author of the change.
const AUTHOR: &str = "policy-revision";

/// A revision that is in force now.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = PolicyRevision, example = json!({ "policyRevision": "rev-13", "previous": "rev-12" }))]
pub struct PolicyBody {
    /// The revision that is in force now.
    #[schema(min_length = 1, max_length = 256, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$")]
    policy_revision: String,
    /// Only schedules under this one are concerned.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 256, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$")]
    previous: Option<String>,
}

/// A schedule's run under the new revision.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PolicyRun)]
struct Begun {
    schedule_id: ScheduleId,
    run_id: RunId,
}

/// What a revision moved.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyAnswer {
    policy_revision: String,
    /// Schedules that are under the new revision now and were not.
    moved: usize,
    /// Of these, enabled ones, each with the run that was begun.
    runs: Vec<Begun>,
}

/// Put a policy revision in force.
///
/// Moves the tenant's schedules that name another revision in `onlyIf` to this one, and begins a run of each that is enabled.
/// Repeating it goes on where it was broken off.
#[utoipa::path(
    post, path = "/events/policy-revision", tag = "events", operation_id = "postPolicyRevision",
    params(TenantHeader), request_body = PolicyBody,
    responses((status = 202, description = "Moved", body = PolicyAnswer), OfPolicy)
)]
pub async fn revision(
    State(app): State<Arc<App>>,
    Tenant(tenant): Tenant,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<PolicyAnswer>), Problem> {
    let span = trace::of_request(&headers, info_span!("policy_revision", otel.kind = "server"));
    put_in_force(&app, &tenant, &headers, body).instrument(span).await
}

async fn put_in_force(
    app: &App,
    tenant: &TenantId,
    headers: &HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<PolicyAnswer>), Problem> {
    expect_json(headers)?;
    let asked: PolicyBody = parse(&receive(app, tenant, headers, body).await?)?;
    for (at, text) in [("/policyRevision", Some(&asked.policy_revision)), ("/previous", asked.previous.as_ref())] {
        check_revision(text.map(String::as_str), at)?;
    }
    let (mut after, mut moved, mut runs) = (None, 0_usize, Vec::new());
    let (live, _) = app.store.load(tenant).await?;
    let room = app.limits.active_runs_per_tenant.saturating_sub(live);
    loop {
        let page = app.store.schedules(tenant, &ScheduleFilter::default(), after.as_deref(), PAGE_LEN).await?;
        for schedule in page.items {
            if !concerns(&asked, &schedule) {
                continue;
            }
            if schedule.spec.enabled && runs.len() as u64 >= room {
                app.conductor.run_begun();
                metrics::counter!("scheduler_rate_limited_total", "reason" => "active-runs").increment(1);
                let detail = format!(
                    "{moved} schedules are under {} now, others are not: limits.maxActiveRunsPerTenant is reached; \
                     repeat the request when runs have ended",
                    asked.policy_revision
                );
                return Err(Problem::new(Code::LimitReached, detail).retry_after(10));
            }
            if let Some(run_id) = move_to(app, tenant, &asked, &schedule.id, &mut moved, headers).await? {
                runs.push(Begun { schedule_id: schedule.id, run_id });
            }
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    app.conductor.run_begun();
    metrics::counter!("scheduler_events_total", "source" => "policy", "result" => "accepted").increment(1);
    info!(tenant = %tenant, revision = asked.policy_revision, moved, runs = runs.len(), "a policy revision came");
    let answer = PolicyAnswer { policy_revision: asked.policy_revision, moved, runs };
    Ok((StatusCode::ACCEPTED, Json(answer)))
}

/// Whether the schedule is under a revision that is over.
fn concerns(asked: &PolicyBody, schedule: &Schedule) -> bool {
    schedule.spec.only_if.policy_revision.as_ref().is_some_and(|current| {
        *current != asked.policy_revision && asked.previous.as_ref().is_none_or(|previous| previous == current)
    })
}

/// Begins the run first and moves the schedule then: broken off in between, the same run is found the next time.
async fn move_to(
    app: &App,
    tenant: &TenantId,
    asked: &PolicyBody,
    id: &ScheduleId,
    moved: &mut usize,
    headers: &HeaderMap,
) -> Result<Option<RunId>, Problem> {
    let mut begun = None;
    loop {
        let Some(mut schedule) = app.store.schedule(tenant, id).await?.filter(|found| concerns(asked, found)) else {
            return Ok(begun);
        };
        let now = app.clock.now();
        if schedule.spec.enabled && begun.is_none() {
            let mut new = launch::of_policy(&schedule, &asked.policy_revision, app.run_defaults, now);
            new.run.traceparent = trace::stored(headers);
            begun = Some(new.run.id.clone());
            app.store.begin_run(new).await?;
        }
        let expected = schedule.version;
        schedule.spec.only_if.policy_revision = Some(asked.policy_revision.clone());
        schedule.version = expected + 1;
        schedule.updated_at = now.max(schedule.updated_at);
        schedule.updated_by = AUTHOR.to_owned();
        match app.store.update_schedule(schedule, expected).await {
            Ok(()) => {
                *moved += 1;
                return Ok(begun);
            }
            // Edited in this moment: look again.
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// How far the exports of a source are planned.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Cursor)]
pub struct CursorView {
    source: Source,
    /// The export that was planned last.
    export_id: ExportId,
    /// The latest end of a window of all that are planned; an export that comes late, or without a window, leaves it.
    window_end: Option<Timestamp>,
    moved_at: Timestamp,
    /// Holes that were ever found.
    holes_found: u64,
    /// Those that no export has filled.
    holes: Vec<HoleView>,
}

/// A time of which no export spoke.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Hole)]
struct HoleView {
    from: Timestamp,
    to: Timestamp,
    found_by: RunId,
}

impl From<Cursor> for CursorView {
    fn from(cursor: Cursor) -> Self {
        let shown = |Hole { from, to, found_by }| HoleView { from, to, found_by };
        Self {
            source: cursor.source,
            export_id: cursor.export_id,
            window_end: cursor.window_end,
            moved_at: cursor.moved_at,
            holes_found: cursor.holes_found,
            holes: cursor.holes.into_iter().map(shown).collect(),
        }
    }
}

/// How far exports are planned.
///
/// Per source the last planned export, and the times that none spoke of.
#[utoipa::path(
    get, path = "/cursors", tag = "events", operation_id = "listCursors", params(TenantHeader, PageQuery),
    responses((status = 200, description = "The cursors", body = Listed<CursorView>), OfList)
)]
pub async fn cursors(
    State(app): State<Arc<App>>,
    Tenant(tenant): Tenant,
    params: Params,
) -> Result<Json<Listed<CursorView>>, Problem> {
    let page = params.page(List::Cursors)?;
    let mut cursors = app.store.cursors(&tenant).await?;
    cursors.retain(|cursor| page.after.as_deref().is_none_or(|after| cursor.source.as_str() > after));
    cursors.sort_unstable_by_key(|cursor| cursor.source.as_str());
    let more = cursors.len() > page.limit;
    cursors.truncate(page.limit);
    let next = cursors.last().filter(|_| more).map(|last| last.source.as_str().to_owned());
    Ok(Json(Listed::new(List::Cursors, Page { items: cursors, next }, CursorView::from)))
}
