//! The catalog: put a sidecar or an SBOM, many at once, list, read, delete.

use crate::body::receive;
use crate::document;
use crate::extract::{List, Listed, Params, PathId, Tenant, labels, path_id};
use crate::intake::{self, Intake, Taken};
use crate::openapi::documents::{SbomText, SidecarText};
use crate::openapi::params::{PageQuery, TenantHeader};
use crate::openapi::problems::{OfList, OfOne, OfSbom, OfSidecar};
use crate::problem::Problem;
use crate::state::App;
use crate::view::ImageView;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use scheduler_model::{ImageDigest, ImagePlace, TenantId};
use scheduler_sbom::{Document, Limits};
use std::sync::Arc;
use utoipa::IntoParams;

/// Put an image by its sidecar.
///
/// What the answer acknowledges survives a crash and is in the index at once: the next preview sees it.
#[utoipa::path(
    put, path = "/images/{digest}/bom-index", tag = "images", operation_id = "putBomIndex",
    params(TenantHeader, ("digest" = inline(ImageDigest), Path, description = "The image")), request_body = SidecarText,
    responses(
        (status = 200, description = "Replaced", body = Taken),
        (status = 201, description = "New", body = Taken),
        OfSidecar,
    )
)]
pub async fn put_bom_index(
    State(app): State<Arc<App>>,
    Tenant(tenant): Tenant,
    PathId(digest): PathId,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let digest = image_digest(digest)?;
    let content = receive(&app, &tenant, &headers, body).await?;
    let now = app.clock.now();
    let intake = blocking(move || sidecar(tenant, Some(digest), &content, now)).await??;
    put(&app, intake).await
}

/// What an image is called, where the document does not say it or says it otherwise.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "described here, read by `place`")]
struct PlaceQuery {
    /// Needed when the document does not name its image.
    #[param(nullable = false)]
    repository: Option<String>,
    #[param(nullable = false)]
    registry: Option<String>,
    /// Namespaces in which it runs; may be repeated.
    #[param(nullable = false)]
    namespace: Option<Vec<String>>,
    /// May be repeated.
    #[param(nullable = false)]
    tag: Option<Vec<String>>,
    /// `name=value`; may be repeated.
    #[param(nullable = false)]
    label: Option<Vec<String>>,
}

/// Put an image by its SBOM.
///
/// CycloneDX JSON 1.2 to 1.7, SPDX JSON 2.2, 2.3 and 3.0, Syft JSON. The repository is the query's, else the document's own image,
/// else the answer is 400.
#[utoipa::path(
    put, path = "/images/{digest}/sbom", tag = "images", operation_id = "putSbom",
    params(TenantHeader, ("digest" = inline(ImageDigest), Path, description = "The image"), PlaceQuery),
    request_body = SbomText,
    responses(
        (status = 200, description = "Replaced", body = Taken),
        (status = 201, description = "New", body = Taken),
        OfSbom,
    )
)]
pub async fn put_sbom(
    State(app): State<Arc<App>>,
    Tenant(tenant): Tenant,
    PathId(digest): PathId,
    params: Params,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let digest = image_digest(digest)?;
    let document = document::receive(&app, &tenant, &headers, body).await?;
    let place = place(&params, &document)?;
    let now = app.clock.now();
    put(&app, blocking(move || intake::image(tenant, digest, place, document, now)).await?).await
}

/// The place that the query gives, else the document's own.
fn place(params: &Params, document: &Document) -> Result<ImagePlace, Problem> {
    let own = intake::own_place(document);
    let list = |name: &str, own: Vec<String>| {
        let given: Vec<String> = params.all(name).map(str::to_owned).collect();
        if given.is_empty() { own } else { given }
    };
    let place = ImagePlace {
        registry: params.one("registry")?.map_or(own.registry, str::to_owned),
        repository: params.one("repository")?.map_or(own.repository, str::to_owned),
        namespaces: list("namespace", own.namespaces),
        tags: list("tag", own.tags),
        labels: match labels(params.all("label"))? {
            given if given.is_empty() => own.labels,
            given => given,
        },
    };
    if place.repository.is_empty() {
        return Err(Problem::bad_input(
            "?repository",
            "neither the query nor the document names the image's repository",
        ));
    }
    Ok(place)
}

/// Reads a sidecar; `expected` is the digest of the path.
pub(crate) fn sidecar(
    tenant: TenantId,
    expected: Option<ImageDigest>,
    content: &[u8],
    now: scheduler_model::Timestamp,
) -> Result<Intake, Problem> {
    let document = scheduler_sbom::read_bom_index(content, &Limits::default())?;
    let own =
        document.image.digest.clone().ok_or_else(|| Problem::bad_input("/imageDigest", "a sidecar names its image"))?;
    let digest = ImageDigest::try_from(own).map_err(|e| Problem::bad_input("/imageDigest", e.to_string()))?;
    if let Some(expected) = expected
        && expected != digest
    {
        return Err(Problem::impossible(
            "/imageDigest",
            format!("the sidecar is of {digest}, the path names {expected}"),
        ));
    }
    let place = intake::own_place(&document);
    if place.repository.is_empty() {
        return Err(Problem::bad_input("/image/repository", "a sidecar names its image's repository"));
    }
    Ok(intake::image(tenant, digest, place, document, now))
}

async fn put(app: &App, intake: Intake) -> Result<Response, Problem> {
    let mut taken = intake.taken;
    let done = app.store.put_images(vec![intake.image]).await?;
    let done = done.first().ok_or_else(Problem::internal)?;
    taken.sequence = done.sequence;
    let status = if done.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(taken)).into_response())
}

/// List images.
#[utoipa::path(
    get, path = "/images", tag = "images", operation_id = "listImages", params(TenantHeader, PageQuery),
    responses((status = 200, description = "A page of images", body = Listed<ImageView>), OfList)
)]
pub async fn list(State(app): State<Arc<App>>, Tenant(tenant): Tenant, params: Params) -> Result<Response, Problem> {
    let page = params.page(List::Images)?;
    let found = app.store.images(&tenant, page.after.as_deref(), page.limit).await?;
    Ok(Json(Listed::new(List::Images, found, ImageView::from)).into_response())
}

/// Get an image.
#[utoipa::path(
    get, path = "/images/{digest}", tag = "images", operation_id = "getImage",
    params(TenantHeader, ("digest" = inline(ImageDigest), Path, description = "The image")),
    responses((status = 200, description = "The image", body = ImageView), OfOne)
)]
pub async fn get(
    State(app): State<Arc<App>>,
    Tenant(tenant): Tenant,
    PathId(digest): PathId,
) -> Result<Json<ImageView>, Problem> {
    let digest: ImageDigest = path_id(digest, "image")?;
    let image = app.store.image(&tenant, &digest).await?;
    image.map(|image| Json(image.into())).ok_or_else(|| Problem::not_found(format!("image {digest}")))
}

/// Remove an image from the catalog.
#[utoipa::path(
    delete, path = "/images/{digest}", tag = "images", operation_id = "removeImage",
    params(TenantHeader, ("digest" = inline(ImageDigest), Path, description = "The image")),
    responses((status = 204, description = "Removed"), OfOne)
)]
pub async fn delete(
    State(app): State<Arc<App>>,
    Tenant(tenant): Tenant,
    PathId(digest): PathId,
) -> Result<StatusCode, Problem> {
    let digest: ImageDigest = path_id(digest, "image")?;
    match app.store.delete_image(&tenant, &digest).await? {
        Some(_) => Ok(StatusCode::NO_CONTENT),
        None => Err(Problem::not_found(format!("image {digest}"))),
    }
}

/// The digest of a path that is written to.
fn image_digest(text: String) -> Result<ImageDigest, Problem> {
    ImageDigest::try_from(text).map_err(|e| Problem::bad_input("the digest in the path", e.to_string()))
}

/// Runs what keeps a core busy beside the runtime.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Problem::internal())
}
