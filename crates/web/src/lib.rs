//! The web part: REST, webhooks and the event stream, over axum. Handlers check, store and answer; the loops act.
//!
//! - WEB-1: nothing is answered with 2xx before it is durable.
//! - WEB-2: every store call carries the caller's tenant; another tenant's thing is a 404.
//! - WEB-3: an error is a problem document that says what is wrong and where; causes stay in the log.

mod body;
mod document;
mod events;
mod export;
mod extract;
mod hub;
mod images;
mod instants;
mod intake;
mod keys;
mod lines;
mod policy;
mod preview;
mod problem;
mod runs;
mod schedules;
mod shown;
mod state;
mod stream;
mod system;
pub mod tls;
mod view;

pub use document::DocumentTurns;
pub use hub::Hub;
pub use state::{App, WebLimits};

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post, put};
use std::sync::Arc;

/// Where the REST interface begins.
pub const BASE_PATH: &str = "/api/v1/scheduler";

/// All routes.
pub fn router(app: Arc<App>) -> Router {
    let api = Router::new()
        .route("/schedules", get(schedules::list).post(schedules::create))
        .route("/schedules/{id}", get(schedules::get).patch(schedules::patch).delete(schedules::delete))
        .route("/schedules/{id}/next", get(instants::next))
        .route("/schedules/preview", post(instants::preview))
        .route("/cursors", get(policy::cursors))
        .route("/run", post(runs::start))
        .route("/runs", get(runs::list))
        .route("/runs/{id}", get(runs::get))
        .route("/runs/{id}/images", get(runs::images))
        .route("/runs/{id}/cancel", post(runs::cancel))
        .route("/preview/impact", post(preview::impact))
        .route("/images", get(images::list))
        .route("/images/bulk", post(images::bulk))
        .route("/images/{digest}", get(images::get).delete(images::delete))
        .route("/images/{digest}/bom-index", put(images::put_bom_index))
        .route("/images/{digest}/sbom", put(images::put_sbom))
        .route("/admin/index", get(system::index_stats))
        .route("/admin/index/verify", post(system::index_verify))
        .route("/admin/index/rebuild", post(system::index_rebuild))
        .route("/events/feedser-export", post(events::feedser))
        .route("/events/vexer-export", post(events::vexer))
        .route("/events/policy-revision", post(policy::revision))
        .route("/events/stream", get(stream::events));
    Router::new()
        .nest(BASE_PATH, api)
        .route("/healthz", get(system::healthz))
        .route("/readyz", get(system::readyz))
        .route("/metrics", get(system::metrics))
        .fallback(system::not_found)
        .method_not_allowed_fallback(system::method_not_allowed)
        // Bodies have limits of their own, which the configuration sets.
        .layer(DefaultBodyLimit::disable())
        .with_state(app)
}
