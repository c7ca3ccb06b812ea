//! Trace contexts as they are stored with what happens later, and sent to others: the `traceparent` of W3C Trace Context.
//!
//! All of it does nothing while no traces are sent.

use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Makes a new span the child of a context that came from elsewhere or was stored. One that cannot be read changes nothing.
///
/// To be called before anything happens in the span.
pub fn continues(span: &Span, traceparent: &str) {
    if let Some(context) = parse(traceparent) {
        // Fails where no traces are sent.
        let _ = span.set_parent(Context::new().with_remote_span_context(context));
    }
}

/// Links a span to one of another trace that it follows from.
pub fn follows(span: &Span, traceparent: &str) {
    if let Some(context) = parse(traceparent) {
        span.add_link(context);
    }
}

/// The context of a span, for whatever continues it; `None` while no traces are sent.
pub fn traceparent(span: &Span) -> Option<String> {
    let context = span.context();
    let span = context.span();
    let span = span.span_context();
    span.is_valid()
        .then(|| format!("00-{}-{}-{:02x}", span.trace_id(), span.span_id(), span.trace_flags() & TraceFlags::SAMPLED))
}

/// Reads `version-trace-span-flags`. A later version may have more parts.
fn parse(traceparent: &str) -> Option<SpanContext> {
    let mut parts = traceparent.split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex =
        |text: &str, len: usize| text.len() == len && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let ours = version != "00" || parts.next().is_none();
    if !(is_hex(version, 2) && version != "ff" && is_hex(trace, 32) && is_hex(span, 16) && is_hex(flags, 2) && ours) {
        return None;
    }
    let context = SpanContext::new(
        TraceId::from_hex(trace).ok()?,
        SpanId::from_hex(span).ok()?,
        TraceFlags::new(u8::from_str_radix(flags, 16).ok()?) & TraceFlags::SAMPLED,
        true,
        TraceState::default(),
    );
    context.is_valid().then_some(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_read_as_w3c_says_and_nothing_else_is() {
        let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
        let read = parse(&format!("00-{trace}-{span}-01")).unwrap();
        assert_eq!((read.trace_id().to_string(), read.span_id().to_string()), (trace.into(), span.into()));
        assert!(read.is_sampled() && read.is_remote());
        assert!(!parse(&format!("00-{trace}-{span}-00")).unwrap().is_sampled());
        assert!(parse(&format!("01-{trace}-{span}-01-later")).is_some());
        let zeros = "0".repeat(32);
        for broken in [
            String::new(),
            "00".to_owned(),
            format!("00-{trace}-{span}"),
            format!("00-{trace}-{span}-01-more"),
            format!("ff-{trace}-{span}-01"),
            format!("00-{}-{span}-01", trace.to_uppercase()),
            format!("00-{zeros}-{span}-01"),
            format!("00-{trace}-0000000000000000-01"),
            format!("00-{trace}-{span}-1"),
        ] {
            assert!(parse(&broken).is_none(), "{broken}");
        }
    }

    #[test]
    fn without_a_collector_there_is_no_context() {
        let span = tracing::info_span!("alone");
        continues(&span, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        assert_eq!(traceparent(&span), None);
    }
}
