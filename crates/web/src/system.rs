//! Health, readiness, metrics, and a look at the index.

use crate::problem::Problem;
use crate::state::App;
use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use scheduler_worker::IndexHostError;
use serde_json::{Value, json};
use std::sync::Arc;

/// `GET /healthz`: the process answers.
pub async fn healthz() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// `GET /readyz`: the store can be read. An index that is not warm is told, but answers what it can.
pub async fn readyz(State(app): State<Arc<App>>) -> Result<Json<Value>, Problem> {
    let head = app.store.catalog_head().await?;
    Ok(Json(json!({ "status": "ready", "catalogHead": head, "indexState": app.index.state().as_str() })))
}

/// `GET /metrics`
pub async fn metrics(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let Some(render) = &app.metrics else { return Err(Problem::not_found("metrics on this address")) };
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], render()).into_response())
}

/// `GET /admin/index`
pub async fn index_stats(State(app): State<Arc<App>>) -> Result<Json<Value>, Problem> {
    let stats = app.index.index().stats();
    let head = app.store.catalog_head().await?;
    Ok(Json(json!({
        "state": app.index.state().as_str(),
        "storage": if app.index.is_persistent() { "rocksdb" } else { "memory" },
        "images": stats.images,
        "retired": stats.retired,
        "packages": stats.components,
        "postings": stats.postings,
        "bytes": stats.bytes,
        "generation": stats.generation,
        "sequence": stats.sequence,
        "checkpointedSequence": stats.checkpointed,
        "catalogHead": head,
    })))
}

/// `POST /admin/index/verify`: compares the index with one that is built from the catalog now.
pub async fn index_verify(State(app): State<Arc<App>>) -> Result<Json<Value>, Problem> {
    let difference = app.index.verify().await.map_err(index_problem)?;
    Ok(Json(json!({ "equal": difference.is_none(), "firstDifference": difference.map(|d| d.to_string()) })))
}

/// `POST /admin/index/rebuild`: a fresh index from the catalog in the place of the present one; answers its stats.
pub async fn index_rebuild(State(app): State<Arc<App>>) -> Result<Json<Value>, Problem> {
    // A caller who goes away does not stop it half way.
    let index = app.index.clone();
    let done = tokio::spawn(async move { index.rebuild().await });
    done.await.map_err(|_| Problem::internal())?.map_err(index_problem)?;
    index_stats(State(app)).await
}

fn index_problem(error: IndexHostError) -> Problem {
    if matches!(error, IndexHostError::Busy) {
        return Problem::new(StatusCode::CONFLICT, "index-busy", error.to_string());
    }
    tracing::error!(%error, "the index cannot be compared or rebuilt");
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "index-unavailable", "the index cannot be worked on just now")
        .retry_after(5)
}

/// Whatever has no route.
pub async fn not_found() -> Problem {
    Problem::not_found("resource at this address")
}

/// A route without that method.
pub async fn method_not_allowed() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", "this address does not take that method")
}
