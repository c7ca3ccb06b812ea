//! `GET /images/{digest}/history`: what an image got in the runs that asked about it.

use crate::extract::{List, Listed, Params, PathId, Tenant, path_id};
use crate::openapi::params::TenantHeader;
use crate::openapi::problems::OfOne;
use crate::problem::Problem;
use crate::state::App;
use crate::view::OutcomeView;
use axum::Json;
use axum::extract::State;
use scheduler_core::ports::RunFilter;
use scheduler_model::{ImageDigest, Reason, RunId, ScheduleId, Timestamp, Trigger};
use serde::Serialize;
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// What an image got in one run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry {
    run_id: RunId,
    schedule_id: Option<ScheduleId>,
    trigger: Trigger,
    /// Why the run was there; its exports stand here.
    reason: Reason,
    /// When the run was made.
    created_at: Timestamp,
    outcome: OutcomeView,
}

/// How far to look.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "described here, read by `history`")]
struct HistoryQuery {
    /// So many runs are looked at for one page; it has as many items as asked about the image.
    #[param(nullable = false, minimum = 1, maximum = 500, default = 50)]
    limit: Option<u16>,
    /// `nextCursor` of the page before; empty: the first page.
    #[param(nullable = false, format = "cursor")]
    cursor: Option<String>,
}

/// List what an image got, the newest run first.
///
/// Runs that have been removed (`retention.completedRunsDays`) are not there; images that are no longer in the catalog are.
#[utoipa::path(
    get, path = "/images/{digest}/history", tag = "images", operation_id = "getImageHistory",
    params(TenantHeader, ("digest" = inline(ImageDigest), Path, description = "The image"), HistoryQuery),
    responses(
        (status = 200, description = "A page of what it got; one without items may have a next one", body = Listed<HistoryEntry>),
        OfOne,
    )
)]
pub async fn history(
    State(app): State<Arc<App>>,
    Tenant(tenant): Tenant,
    PathId(digest): PathId,
    params: Params,
) -> Result<Json<Listed<HistoryEntry>>, Problem> {
    let digest: ImageDigest = path_id(digest, "image")?;
    let page = params.page(List::History)?;
    let runs = app.store.runs(&tenant, &RunFilter::default(), page.after.as_deref(), page.limit).await?;
    let mut entries = Vec::new();
    for run in &runs.items {
        if let Some(outcome) = app.store.outcome(&run.id, &digest).await? {
            entries.push(HistoryEntry {
                run_id: run.id.clone(),
                schedule_id: run.schedule.clone(),
                trigger: run.trigger,
                reason: run.reason.clone(),
                created_at: run.created_at,
                outcome: outcome.into(),
            });
        }
    }
    Ok(Json(Listed::of(List::History, entries, runs.next)))
}
