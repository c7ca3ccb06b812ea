//! Requests that start something, in traces.

use axum::http::HeaderMap;
use scheduler_telemetry::{continues, traceparent};
use tracing::Span;

const TRACEPARENT: &str = "traceparent";

/// A span of a request, in the trace that its sender names, if any.
pub fn of_request(headers: &HeaderMap, span: Span) -> Span {
    if let Some(given) = given(headers) {
        continues(&span, given);
    }
    span
}

/// The context that later work continues: the present span's, or, while no traces are sent, the sender's.
pub fn stored(headers: &HeaderMap) -> Option<String> {
    traceparent(&Span::current()).or_else(|| given(headers).map(str::to_owned))
}

/// The sender's context, if it has the length of one.
fn given(headers: &HeaderMap) -> Option<&str> {
    headers.get(TRACEPARENT).and_then(|value| value.to_str().ok()).filter(|text| text.len() == 55)
}
