//! The catalog: put a sidecar or an SBOM, many at once, list, read, delete.

use crate::body::receive;
use crate::code::Code;
use crate::document;
use crate::extract::{List, Listed, Params, PathId, Tenant, labels, path_id};
use crate::intake::{self, Intake, Taken};
use crate::lines::{Line, Lines};
use crate::openapi::documents::{SbomText, SidecarText};
use crate::openapi::params::{PageQuery, TenantHeader};
use crate::openapi::problems::{OfBulk, OfList, OfOne, OfSbom, OfSidecar};
use crate::problem::Problem;
use crate::state::App;
use crate::view::ImageView;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use scheduler_model::{ImageDigest, ImagePlace, TenantId};
use scheduler_sbom::{Document, Limits};
use serde_json::json;
use std::sync::Arc;
use utoipa::IntoParams;

/// Lines of one bulk upload.
const BULK_LINES_MAX: usize = 100_000;

/// Lines that go into one write, and bytes of them.
const BULK_BATCH_LEN_MAX: usize = 256;
const BULK_BATCH_BYTES_MAX: usize = 16 << 20;

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
    let content = receive(&headers, body, app.limits.body_bytes).await?;
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
    let document = document::receive(&app, &headers, body).await?;
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
        registry: params.one("registry").map_or(own.registry, str::to_owned),
        repository: params.one("repository").map_or(own.repository, str::to_owned),
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
fn sidecar(
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

/// Put many images by their sidecars.
///
/// NDJSON, one sidecar a line; one answer for each line, in order: that of the PUT, or `{"line", "status", "problem"}`. What is
/// answered is durable.
#[utoipa::path(
    post, path = "/images/bulk", tag = "images", operation_id = "putImages",
    params(TenantHeader), request_body(content = String, content_type = "application/x-ndjson"),
    responses(
        (status = 200, description = "One answer a line", body = String, content_type = "application/x-ndjson"),
        OfBulk,
    )
)]
pub async fn bulk(
    State(app): State<Arc<App>>,
    Tenant(tenant): Tenant,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let line_max = usize::try_from(app.limits.body_bytes).unwrap_or(usize::MAX);
    let mut lines = Lines::new(&headers, body, line_max)?;
    let mut answers: Vec<String> = Vec::new();
    let mut batch: Vec<(usize, Result<Bytes, Problem>)> = Vec::new();
    let mut bytes = 0;
    let mut number = 0;
    loop {
        let line = lines.next().await;
        let ended = matches!(line, Ok(None) | Err(_));
        match line {
            Ok(Some(Line::Blank)) => number += 1,
            Ok(Some(line)) => {
                number += 1;
                let content = match line {
                    Line::Content(content) if number <= BULK_LINES_MAX => Ok(content),
                    Line::Content(_) => Err(too_many_lines()),
                    Line::TooLong | Line::Blank => Err(line_too_long(line_max)),
                };
                bytes += content.as_ref().map_or(0, Bytes::len);
                batch.push((number, content));
            }
            Ok(None) => {}
            // The body cannot be read further; what came before counts.
            Err(problem) => batch.push((number + 1, Err(problem))),
        }
        let stop = ended || number > BULK_LINES_MAX;
        if stop || batch.len() >= BULK_BATCH_LEN_MAX || bytes >= BULK_BATCH_BYTES_MAX {
            take_batch(&app, &tenant, std::mem::take(&mut batch), &mut answers).await;
            bytes = 0;
        }
        if stop {
            break;
        }
    }
    let mut text = answers.join("\n");
    if !text.is_empty() {
        text.push('\n');
    }
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], text).into_response())
}

/// Puts what can be put in one write, and answers every line.
async fn take_batch(
    app: &App,
    tenant: &TenantId,
    batch: Vec<(usize, Result<Bytes, Problem>)>,
    answers: &mut Vec<String>,
) {
    let (now, owner) = (app.clock.now(), tenant.clone());
    let work = move || -> Vec<(usize, Result<Intake, Problem>)> {
        batch
            .into_iter()
            .map(|(number, content)| (number, content.and_then(|content| sidecar(owner.clone(), None, &content, now))))
            .collect()
    };
    let Ok(read) = blocking(work).await else { return };
    let mut images = Vec::new();
    let mut results: Vec<(usize, Result<Taken, Problem>)> = Vec::with_capacity(read.len());
    for (number, intake) in read {
        results.push((
            number,
            intake.map(|intake| {
                images.push(intake.image);
                intake.taken
            }),
        ));
    }
    let written = if images.is_empty() { Ok(Vec::new()) } else { app.store.put_images(images).await };
    let mut done = match written {
        Ok(done) => Ok(done.into_iter()),
        Err(error) => Err(Problem::from(error)),
    };
    for (number, result) in results {
        let result = result.and_then(|mut taken| match &mut done {
            Ok(done) => {
                taken.sequence = done.next().ok_or_else(Problem::internal)?.sequence;
                Ok(taken)
            }
            Err(problem) => Err(problem.clone()),
        });
        answers.push(match result {
            Ok(taken) => json!(taken).to_string(),
            Err(problem) => {
                json!({ "line": number, "status": problem.status().as_u16(), "problem": problem.document() })
                    .to_string()
            }
        });
    }
}

fn line_too_long(limit: usize) -> Problem {
    Problem::new(Code::BodyTooLarge, format!("the line is over limits.maxBodyBytes ({limit} bytes)"))
}

fn too_many_lines() -> Problem {
    Problem::new(
        Code::TooManyLines,
        format!("a bulk upload has at most {BULK_LINES_MAX} lines; this one and those after it were not taken"),
    )
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
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Problem::internal())
}
