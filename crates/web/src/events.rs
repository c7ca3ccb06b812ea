//! The webhooks: verified, read, made durable, and nothing more.

use crate::body::{Content, collect, unpack};
use crate::code::Code;
use crate::export::{self, FeedserBody, SkippedKey, VexerBody};
use crate::images::blocking;
use crate::openapi::problems::OfExport;
use crate::problem::Problem;
use crate::state::App;
use crate::tls::PeerCertificate;
use crate::trace;
use crate::window;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use scheduler_auth::{
    SCHEDULER_SIGNATURE_HEADER, SignatureError, SignatureHeaders, WEBHOOK_ID_HEADER, WEBHOOK_SIGNATURE_HEADER,
    WEBHOOK_TIMESTAMP_HEADER,
};
use scheduler_core::ports::Accepted;
use scheduler_model::ids::{content_id, sha256_hex};
use scheduler_model::{EventId, Export, ExportId, Source, TenantScope, WebhookKeyId};
use serde::Serialize;
use std::sync::Arc;
use tracing::field::Empty;
use tracing::{Instrument, info, info_span, warn};
use utoipa::ToSchema;

/// Whoever delivers shares one caller's room: senders are not known before their bodies are.
const WEBHOOKS: &str = "/events";

/// What became of a delivery.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Delivery)]
pub struct Answer {
    event_id: EventId,
    export_id: ExportId,
    /// `accepted`, `superseded` (it takes the place of other content of that export id) or `duplicate`.
    status: &'static str,
    /// Distinct keys that were taken.
    keys: usize,
    /// Keys and claims that cannot be read; at most 1,000 are named.
    skipped: Vec<SkippedKey>,
    /// Why the window counts for nothing; absent when it counts, or when none was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    window_ignored: Option<String>,
}

/// Deliver an export of advisories.
///
/// Signed, or with a client certificate. The answer comes when it is durable; it is planned afterwards.
#[utoipa::path(
    post, path = "/events/feedser-export", tag = "events", operation_id = "postFeedserExport", request_body = FeedserBody,
    responses(
        (status = 200, description = "A duplicate: nothing was done", body = Answer),
        (status = 202, description = "It is durable", body = Answer),
        OfExport,
    ),
    security(("schedulerSignature" = []), ("standardWebhooks" = []), ("clientCertificate" = []))
)]
pub async fn feedser(
    State(app): State<Arc<App>>,
    peer: PeerCertificate,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    deliver(app, Source::Feedser, &peer, headers, body).await
}

/// Deliver an export of VEX claims.
///
/// Signed, or with a client certificate. The answer comes when it is durable; it is planned afterwards.
#[utoipa::path(
    post, path = "/events/vexer-export", tag = "events", operation_id = "postVexerExport", request_body = VexerBody,
    responses(
        (status = 200, description = "A duplicate: nothing was done", body = Answer),
        (status = 202, description = "It is durable", body = Answer),
        OfExport,
    ),
    security(("schedulerSignature" = []), ("standardWebhooks" = []), ("clientCertificate" = []))
)]
pub async fn vexer(
    State(app): State<Arc<App>>,
    peer: PeerCertificate,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    deliver(app, Source::Vexer, &peer, headers, body).await
}

async fn deliver(
    app: Arc<App>,
    source: Source,
    peer: &PeerCertificate,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let span = info_span!("webhook", source = source.as_str(), event = Empty, otel.kind = "server");
    let span = trace::of_request(&headers, span);
    let result = accept(&app, source, peer, &headers, body).instrument(span.clone()).await;
    let word = match &result {
        Ok((_, answer)) => answer.status,
        Err(problem) if problem.status() == StatusCode::UNAUTHORIZED => "unauthorized",
        Err(problem) if problem.status().is_server_error() => "error",
        Err(_) => "refused",
    };
    metrics::counter!("scheduler_events_total", "source" => source.as_str(), "result" => word).increment(1);
    let (status, answer) = result?;
    span.record("event", answer.event_id.as_str());
    info!(
        source = source.as_str(), event = %answer.event_id, status = answer.status, keys = answer.keys,
        skipped = answer.skipped.len(), "an export came"
    );
    Ok((status, Json(answer)).into_response())
}

async fn accept(
    app: &Arc<App>,
    source: Source,
    peer: &PeerCertificate,
    headers: &HeaderMap,
    body: Body,
) -> Result<(StatusCode, Answer), Problem> {
    if !app.webhooks.contains(&source) {
        return Err(Problem::not_found(format!("webhook of {}", source.as_str())));
    }
    let now = app.clock.now().seconds();
    // Who cannot be let in by the head of the request is told so before the body is received.
    let certified = certified(app, source, peer);
    if certified.is_none() {
        let head = app.verifier.check_head(source, &signatures(headers), now);
        if let Err(error) = head {
            drop(app.reception.incoming(body));
            return Err(refused(source, peer, error));
        }
    }
    let wire = collect(app, WEBHOOKS, headers, body).await?;
    let (wire, sender) = match certified {
        Some(sender) => (wire, sender),
        None => verify(app, source, peer, headers, wire, now).await?,
    };
    let content = unpack(headers, wire, app.limits.body_bytes).await?;
    let keys_max = app.limits.keys_per_event;
    let (read, content_hash) =
        blocking(move || (export::read(source, &content, keys_max), sha256_hex(&content))).await?;
    let read = read?;
    let event_id = EventId::try_from(app.ids.fresh()).map_err(|_| Problem::internal())?;
    let keys = read.keys.len();
    let received_at = app.clock.now();
    let (window, window_ignored) = match window::read(read.window.as_deref(), received_at) {
        Ok(window) => (window, None),
        Err(why) => {
            warn!(source = source.as_str(), event = %event_id, why, "the window of an export is ignored");
            (None, Some(why))
        }
    };
    let export = Export {
        traceparent: Some(trace::stored(headers).unwrap_or_else(|| own_trace(&event_id))),
        event_id: event_id.clone(),
        source,
        key_id: sender.key_id,
        export_id: read.export_id.clone(),
        content_hash,
        received_at,
        tenants: sender.tenants,
        keys: read.keys,
        links: read.links,
        window,
    };
    let accepted = app.store.accept(export, sender.fingerprint, app.limits.inbox_events).await?;
    let (http, status, event_id) = match accepted {
        Accepted::New => (StatusCode::ACCEPTED, "accepted", event_id),
        Accepted::Superseded => (StatusCode::ACCEPTED, "superseded", event_id),
        Accepted::Duplicate(known) => (StatusCode::OK, "duplicate", known),
    };
    if http == StatusCode::ACCEPTED {
        app.conductor.export_accepted();
    }
    Ok((http, Answer { event_id, export_id: read.export_id, status, keys, skipped: read.skipped, window_ignored }))
}

/// Who delivers.
struct Sender {
    key_id: WebhookKeyId,
    tenants: TenantScope,
    /// What was signed, in hexadecimal, so that a captured request does nothing when it comes again. A client with a
    /// certificate cannot be imitated.
    fingerprint: Option<String>,
}

/// The sender by its client certificate. A listed one is enough: a signature beside it is not looked at.
fn certified(app: &App, source: Source, peer: &PeerCertificate) -> Option<Sender> {
    let client = app.verifier.client(source, peer.subject.as_ref()?)?;
    Some(Sender { key_id: client.id().clone(), tenants: client.tenants().clone(), fingerprint: None })
}

fn refused(source: Source, peer: &PeerCertificate, error: SignatureError) -> Problem {
    let detail = match &peer.subject {
        Some(subject) => format!(
            "{error}, and the client certificate's subject `{subject}` is not listed for {} in webhooks.clients",
            source.as_str()
        ),
        None => error.to_string(),
    };
    Problem::new(Code::BadSignature, detail)
}

/// The sender by the signature over the bytes on the wire, before anything of them is read. Hashing is off the runtime.
/// `now` is when the request came, so that a long body does not make it stale.
async fn verify(
    app: &Arc<App>,
    source: Source,
    peer: &PeerCertificate,
    headers: &HeaderMap,
    wire: Content,
    now: i64,
) -> Result<(Content, Sender), Problem> {
    let (own, headers) = (app.clone(), headers.clone());
    let work = move || {
        let verified = own.verifier.verify(source, &signatures(&headers), &wire, now);
        (wire, verified)
    };
    let (wire, verified) = blocking(work).await?;
    let verified = verified.map_err(|error| refused(source, peer, error))?;
    let fingerprint = verified.fingerprint.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok((wire, Sender { key_id: verified.key_id, tenants: verified.tenants, fingerprint: Some(fingerprint) }))
}

fn signatures(headers: &HeaderMap) -> SignatureHeaders<'_> {
    let all = |name: &str| headers.get_all(name).iter().map(|v| v.to_str().unwrap_or_default()).collect::<Vec<_>>();
    // A header that must be single and is not counts as absent.
    let single = |name: &str| match all(name).as_slice() {
        [one] => Some(*one),
        _ => None,
    };
    SignatureHeaders {
        scheduler: all(SCHEDULER_SIGNATURE_HEADER),
        webhook_id: single(WEBHOOK_ID_HEADER),
        webhook_timestamp: single(WEBHOOK_TIMESTAMP_HEADER),
        webhook_signature: all(WEBHOOK_SIGNATURE_HEADER),
    }
}

/// A trace context of an event whose sender gave none.
fn own_trace(event: &EventId) -> String {
    let span = content_id("event", &[event.as_str()]);
    format!("00-{}-{}-01", content_id("trace", &[event.as_str()]), span.get(..16).unwrap_or_default())
}
