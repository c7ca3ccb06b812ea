//! The OpenAPI 3.1 document, made of the routes themselves: an operation that is not described is not served.

pub mod documents;
pub mod params;
pub mod problems;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use scheduler_auth::{SCHEDULER_SIGNATURE_HEADER, WEBHOOK_SIGNATURE_HEADER};
use std::sync::LazyLock;
use utoipa::OpenApi as _;
use utoipa::openapi::schema::Schema;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityScheme};
use utoipa::openapi::{Components, OpenApi, RefOr};

/// Schemas of answers. Their members are always there, be it as null, though the types have defaults for older data.
const ANSWERS: &[&str] = &[
    "Ahead",
    "Delta",
    "HistoryEntry",
    "Image",
    "ImageEvent",
    "Outcome",
    "PackageFound",
    "PreviewAnswer",
    "Run",
    "RunStats",
    "Schedule",
    "Taken",
    "WaitingInstant",
    "IndexStats",
];

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Stella Scheduler",
        description = "Keeps the verdicts of container images current without rescanning the world: it knows which images \
                       contain which packages, and asks for new verdicts of exactly the images that a change can touch.\n\n\
                       Errors are `application/problem+json` (RFC 9457) with a `code`. Request bodies may be \
                       `Content-Encoding: gzip` or `zstd`. Times are RFC 3339 in UTC. Unknown members are refused, but \
                       ignored in webhooks, sidecars and SBOMs."
    ),
    components(schemas(crate::problem::ProblemDocument, crate::shown::CloudEvent)),
    tags(
        (name = "schedules", description = "Which images, when, how fast, and who is told"),
        (name = "runs", description = "Passes over a set of images, and what each image got"),
        (name = "previews", description = "What a change would touch; asks the index alone"),
        (name = "images", description = "The catalog behind the index"),
        (name = "events", description = "Exports in, deltas out"),
        (name = "index", description = "The ImpactIndex, a view of the catalog"),
        (name = "service", description = "Health, metrics, this document")
    )
)]
struct Frame;

/// The document as text for people, as `stella-scheduler openapi` prints it.
pub fn openapi_json() -> serde_json::Result<String> {
    document().to_pretty_json()
}

/// The document, as `GET /openapi.json` answers it.
pub fn document() -> OpenApi {
    let mut document = Frame::openapi();
    let routes = crate::routes().into_openapi();
    document.merge(routes);
    document.info.license = None;
    let components = document.components.get_or_insert_with(Components::new);
    for name in ANSWERS {
        if let Some(RefOr::T(schema)) = components.schemas.get_mut(*name) {
            require_all(schema);
        }
    }
    components.examples.extend(problems::examples());
    for (name, scheme) in security() {
        components.add_security_scheme(name, scheme);
    }
    document
}

/// Makes every member of an object required.
fn require_all(schema: &mut Schema) {
    if let Schema::Object(object) = schema {
        object.required = object.properties.keys().cloned().collect();
    }
}

/// How webhooks say who sends them. Tokens are not part of this version.
fn security() -> [(&'static str, SecurityScheme); 3] {
    let signature =
        |name: &str, text: &str| SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::with_description(name, text)));
    [
        (
            "schedulerSignature",
            signature(
                SCHEDULER_SIGNATURE_HEADER,
                "`keyId=<id>,t=<unix seconds>,alg=<hmac-sha256|ed25519>,sig=<base64>` over `<t>.<body as sent>`; may \
                 occur several times, one valid is enough",
            ),
        ),
        (
            "standardWebhooks",
            signature(
                WEBHOOK_SIGNATURE_HEADER,
                "Standard Webhooks: `v1,<base64>` or `v1a,<base64>` over `<webhook-id>.<webhook-timestamp>.<body>`, with \
                 these two headers beside it",
            ),
        ),
        (
            "clientCertificate",
            SecurityScheme::MutualTls {
                description: Some("a client certificate whose subject `webhooks.clients` lists".to_owned()),
                deprecated: None,
                extensions: None,
            },
        ),
    ]
}

/// `GET /openapi.json`
#[utoipa::path(
    get, path = "/openapi.json", tag = "service", operation_id = "getOpenApi",
    responses((status = 200, description = "This document", body = serde_json::Value, content_type = "application/json"))
)]
pub async fn serve() -> Response {
    static TEXT: LazyLock<String> = LazyLock::new(|| document().to_json().unwrap_or_default());
    ([(header::CONTENT_TYPE, "application/json")], TEXT.as_str()).into_response()
}
