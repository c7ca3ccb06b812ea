//! Logs and traces. Log lines go to stderr; `RUST_LOG` narrows or widens them. Spans go to a collector, where one is configured.
//!
//! - TEL-1: no secret, token, signature or body is ever a field or a message.
//! - TEL-2: a collector that is away or slow costs spans, never a request: what waits to be sent is bounded.

mod catalog;
mod context;
mod traces;

pub use catalog::{Kind, METRICS, Metric, describe};
pub use context::{continues, follows, traceparent};
pub use traces::Collector;

use opentelemetry_sdk::trace::SdkTracerProvider;
use std::io::IsTerminal;
use std::time::Duration;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

/// What is logged when `RUST_LOG` does not say.
const DEFAULT_FILTER: &str = "info";

/// How long the last spans may take to be sent when the process ends.
const FLUSH_MAX: Duration = Duration::from_secs(3);

/// Traces cannot be sent as configured.
#[derive(Debug, thiserror::Error)]
#[error("traces cannot be sent")]
pub struct TelemetryError(#[from] opentelemetry_otlp::ExporterBuildError);

/// What is set up for the process.
#[must_use = "what is left of the traces is sent by `end`"]
#[derive(Debug)]
pub struct Telemetry {
    traces: Option<SdkTracerProvider>,
}

impl Telemetry {
    /// Sets the process's logs up (one JSON object a line, or text for people), and its traces, when there is an OTLP endpoint for
    /// them. Logs of a second call change nothing.
    ///
    /// # Errors
    ///
    /// An endpoint that is no address.
    pub fn start(json_logs: bool, otlp_endpoint: Option<&str>) -> Result<Self, TelemetryError> {
        let traces = otlp_endpoint.map(traces::provider).transpose()?;
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
        let logs = tracing_subscriber::fmt::layer()
            .with_writer(std::io::stderr)
            .with_span_events(FmtSpan::NONE)
            .with_ansi(
                std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
            )
            .with_target(false);
        let logs = if json_logs { logs.json().flatten_event(true).boxed() } else { logs.boxed() };
        // Spans of our own at every level; events are what logs are for.
        let spans = traces.as_ref().map(|provider| {
            traces::layer(provider).with_filter(filter_fn(|of| of.is_span() && of.target().starts_with("scheduler")))
        });
        // Somebody else, as a test, may have set them up before.
        let _ = tracing_subscriber::registry().with(spans).with(logs.with_filter(filter)).try_init();
        Ok(Self { traces })
    }

    /// Sends what is left of the traces, for a short time. Not to be called on a thread of an asynchronous runtime.
    pub fn end(self) {
        if let Some(Err(error)) = self.traces.map(|traces| traces.shutdown_with_timeout(FLUSH_MAX)) {
            tracing::warn!(%error, "the last spans could not be sent");
        }
    }
}
