//! Health, readiness, metrics, and a look at the index.

use crate::code::Code;
use crate::openapi::problems::{OfIndexWork, OfMetrics, OfReadiness};
use crate::problem::Problem;
use crate::state::App;
use crate::view::IndexStateView;
use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use scheduler_worker::IndexHostError;
use serde::Serialize;
use std::sync::Arc;
use tracing::warn;
use utoipa::ToSchema;

/// That the process answers.
#[derive(Serialize, ToSchema)]
pub struct Health {
    #[schema(example = "ok")]
    status: &'static str,
}

/// That requests can be answered.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Readiness {
    #[schema(example = "ready")]
    status: &'static str,
    /// The number of the catalog's last change.
    catalog_head: u64,
    index_state: IndexStateView,
}

/// The ImpactIndex in numbers.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IndexStats {
    state: IndexStateView,
    /// `rocksdb` or `memory`.
    storage: &'static str,
    /// Images in it.
    images: u64,
    /// Images that were replaced or deleted and wait for a compaction.
    retired: u64,
    /// Distinct packages with version and source.
    packages: u64,
    /// (image, package) pairs.
    postings: u64,
    /// Memory that it takes, estimated.
    bytes: u64,
    /// Counts compactions and rebuilds.
    generation: u64,
    /// The last catalog change that is in it.
    sequence: u64,
    /// The last catalog change that is in its checkpoint.
    checkpointed_sequence: u64,
    /// The catalog's last change.
    catalog_head: u64,
}

/// Whether the index is what the catalog says.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    equal: bool,
    /// The first difference, in words.
    first_difference: Option<String>,
}

/// Is the process there?
#[utoipa::path(
    get, path = "/healthz", tag = "service", operation_id = "getHealth",
    responses((status = 200, description = "It answers", body = Health))
)]
pub async fn healthz() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Can it answer requests?
///
/// The store can be read and written. An index that is not warm is told, but answers what it can.
#[utoipa::path(
    get, path = "/readyz", tag = "service", operation_id = "getReadiness",
    responses((status = 200, description = "It can", body = Readiness), OfReadiness)
)]
pub async fn readyz(State(app): State<Arc<App>>) -> Result<Json<Readiness>, Problem> {
    app.store.writable().await.map_err(|error| {
        warn!(%error, "not ready: writes fail");
        let detail = "writes fail, as on a full disk; see the log. They are tried again every few seconds";
        Problem::new(Code::StoreUnavailable, detail).retry_after(5)
    })?;
    let catalog_head = app.store.catalog_head().await?;
    Ok(Json(Readiness { status: "ready", catalog_head, index_state: app.index.state().into() }))
}

/// Metrics for Prometheus.
#[utoipa::path(
    get, path = "/metrics", tag = "service", operation_id = "getMetrics",
    responses((status = 200, description = "The text format of Prometheus", body = String, content_type = "text/plain"), OfMetrics)
)]
pub async fn metrics(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let Some(render) = &app.metrics else { return Err(Problem::not_found("metrics on this address")) };
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], render()).into_response())
}

/// The index in numbers.
#[utoipa::path(
    get, path = "/admin/index", tag = "index", operation_id = "getIndex",
    responses((status = 200, description = "Its numbers", body = IndexStats), OfReadiness)
)]
pub async fn index_stats(State(app): State<Arc<App>>) -> Result<Json<IndexStats>, Problem> {
    let stats = app.index.index().stats();
    let catalog_head = app.store.catalog_head().await?;
    Ok(Json(IndexStats {
        state: app.index.state().into(),
        storage: if app.index.is_persistent() { "rocksdb" } else { "memory" },
        images: stats.images,
        retired: stats.retired,
        packages: stats.components,
        postings: stats.postings,
        bytes: stats.bytes,
        generation: stats.generation,
        sequence: stats.sequence,
        checkpointed_sequence: stats.checkpointed,
        catalog_head,
    }))
}

/// Compare the index with one that is built from the catalog now.
#[utoipa::path(
    post, path = "/admin/index/verify", tag = "index", operation_id = "verifyIndex",
    responses((status = 200, description = "What came of it", body = Verification), OfIndexWork)
)]
pub async fn index_verify(State(app): State<Arc<App>>) -> Result<Json<Verification>, Problem> {
    let difference = app.index.verify().await.map_err(index_problem)?;
    Ok(Json(Verification { equal: difference.is_none(), first_difference: difference.map(|d| d.to_string()) }))
}

/// Put a fresh index from the catalog in the place of the present one.
#[utoipa::path(
    post, path = "/admin/index/rebuild", tag = "index", operation_id = "rebuildIndex",
    responses((status = 200, description = "The numbers of the new one", body = IndexStats), OfIndexWork)
)]
pub async fn index_rebuild(State(app): State<Arc<App>>) -> Result<Json<IndexStats>, Problem> {
    // A caller who goes away does not stop it half way.
    let index = app.index.clone();
    let done = tokio::spawn(async move { index.rebuild().await });
    done.await.map_err(|_| Problem::internal())?.map_err(index_problem)?;
    index_stats(State(app)).await
}

pub(crate) fn index_problem(error: IndexHostError) -> Problem {
    if matches!(error, IndexHostError::Busy) {
        return Problem::new(Code::IndexBusy, error.to_string());
    }
    tracing::error!(%error, "the index cannot be worked on");
    Problem::new(Code::IndexUnavailable, "the index cannot be worked on just now").retry_after(5)
}

/// Whatever has no route.
pub async fn not_found() -> Problem {
    Problem::not_found("resource at this address")
}

/// A route without that method.
pub async fn method_not_allowed() -> Problem {
    Problem::new(Code::MethodNotAllowed, "this address does not take that method")
}
