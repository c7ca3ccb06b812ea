//! The web part: REST, webhooks and the event stream, over axum. Handlers check, store and answer; the loops act.
//!
//! - WEB-1: nothing is answered with 2xx before it is durable.
//! - WEB-2: every store call carries the caller's tenant; another tenant's thing is a 404.
//! - WEB-3: an error is a problem document that says what is wrong and where; causes stay in the log.

mod body;
mod bulk;
mod code;
pub mod connections;
mod document;
mod events;
mod export;
mod extract;
mod history;
mod hub;
mod images;
mod instants;
mod intake;
mod keys;
mod lines;
mod openapi;
mod policy;
mod preview;
mod preview_answer;
mod problem;
mod reception;
mod runs;
mod schedule_body;
mod schedules;
mod shares;
mod shown;
mod snapshot;
mod state;
mod stream;
mod system;
pub mod tls;
mod trace;
mod view;
mod window;

pub use code::Code;
pub use hub::Hub;
pub use instants::Ahead;
pub use openapi::openapi_json;
pub use reception::{Pace, Reception, ReceptionLimits};
pub use state::{App, WebLimits};

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Where the REST interface begins.
pub const BASE_PATH: &str = "/api/v1/scheduler";

/// All routes with their descriptions. A path stands with its handler.
fn routes() -> OpenApiRouter<Arc<App>> {
    let api = OpenApiRouter::new()
        .routes(routes!(schedules::list, schedules::create))
        .routes(routes!(schedules::get, schedules::patch, schedules::delete))
        .routes(routes!(instants::next))
        .routes(routes!(instants::preview))
        .routes(routes!(runs::start))
        .routes(routes!(runs::list))
        .routes(routes!(runs::get))
        .routes(routes!(runs::images))
        .routes(routes!(runs::cancel))
        .routes(routes!(preview::impact))
        .routes(routes!(images::list))
        .routes(routes!(bulk::bulk))
        .routes(routes!(images::get, images::delete))
        .routes(routes!(history::history))
        .routes(routes!(images::put_bom_index))
        .routes(routes!(images::put_sbom))
        .routes(routes!(events::feedser))
        .routes(routes!(events::vexer))
        .routes(routes!(policy::revision))
        .routes(routes!(policy::cursors))
        .routes(routes!(stream::events))
        .routes(routes!(system::index_stats))
        .routes(routes!(system::index_verify))
        .routes(routes!(snapshot::index_snapshot))
        .routes(routes!(system::index_rebuild));
    OpenApiRouter::new()
        .nest(BASE_PATH, api)
        .routes(routes!(system::healthz))
        .routes(routes!(system::readyz))
        .routes(routes!(system::metrics))
        .routes(routes!(openapi::serve))
}

/// Has the body of every request taken in, whoever answers it.
async fn take_in(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    next.run(request.map(|body| app.reception.certain(body))).await
}

/// The web part as a service.
pub fn router(app: Arc<App>) -> Router {
    Router::from(routes())
        .fallback(system::not_found)
        .method_not_allowed_fallback(system::method_not_allowed)
        // Bodies have limits of their own, which the configuration sets.
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(app.clone(), take_in))
        .with_state(app)
}
