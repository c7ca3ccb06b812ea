//! Spans on their way to a collector: OTLP over HTTP with protobuf, in batches, from a thread of their own.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use opentelemetry::trace::TracerProvider;
use opentelemetry::{KeyValue, global};
use opentelemetry_otlp::{ExporterBuildError, Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracer, SdkTracerProvider, SpanData, SpanExporter as Exporter,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::registry::LookupSpan;

/// Where OTLP over HTTP takes spans, below its base address.
const PATH: &str = "/v1/traces";

/// Spans that wait to be sent; those beyond it are dropped.
const QUEUE_LEN_MAX: usize = 8192;

/// Spans of one request.
const BATCH_LEN_MAX: usize = 1024;

/// How long a span waits for others.
const DELAY: Duration = Duration::from_secs(1);

/// How long a collector may take.
const SEND_MAX: Duration = Duration::from_secs(3);

/// Where spans go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collector {
    /// The whole address, without name and password: errors show it.
    pub address: String,
    /// The header that carries name and password, where the endpoint has them.
    pub authorization: Option<String>,
}

impl Collector {
    /// Of a collector's base address or its whole one.
    pub fn at(endpoint: &str) -> Self {
        let (scheme, rest) = endpoint.split_once("://").unwrap_or(("http", endpoint));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        let path = path.trim_end_matches('/');
        let path = if path.ends_with(PATH) { path.to_owned() } else { format!("{path}{PATH}") };
        Self {
            address: format!("{scheme}://{host}{path}"),
            authorization: user.map(|user| format!("Basic {}", STANDARD.encode(user))),
        }
    }
}

/// The way to the collector at `endpoint`, its base address or the whole one.
pub fn provider(endpoint: &str) -> Result<SdkTracerProvider, ExporterBuildError> {
    let collector = Collector::at(endpoint);
    let exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(collector.address)
        .with_headers(collector.authorization.map(|value| ("authorization".to_owned(), value)).into_iter().collect())
        .with_timeout(SEND_MAX)
        .build()?;
    let config = BatchConfigBuilder::default()
        .with_max_queue_size(QUEUE_LEN_MAX)
        .with_max_export_batch_size(BATCH_LEN_MAX)
        .with_scheduled_delay(DELAY)
        .build();
    let exporter = Watched { exporter, failing: AtomicBool::new(false) };
    let batches = BatchSpanProcessor::builder(exporter).with_batch_config(config).build();
    let resource = Resource::builder()
        .with_service_name("stella-scheduler")
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .build();
    Ok(SdkTracerProvider::builder().with_span_processor(batches).with_resource(resource).build())
}

/// The layer that makes spans of ours into spans of the provider.
pub fn layer<S>(provider: &SdkTracerProvider) -> OpenTelemetryLayer<S, SdkTracer>
where
    S: tracing::Subscriber + for<'span> LookupSpan<'span>,
{
    global::set_tracer_provider(provider.clone());
    tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("stella-scheduler"))
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
}

/// An exporter that says once that the collector is away, and once that it is back, and counts.
#[derive(Debug)]
struct Watched<E> {
    exporter: E,
    failing: AtomicBool,
}

impl<E: Exporter> Exporter for Watched<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len() as u64;
        let result = self.exporter.export(batch).await;
        let failed = result.is_err();
        let word = if failed { "failed" } else { "sent" };
        metrics::counter!("scheduler_spans_total", "result" => word).increment(count);
        match (&result, self.failing.swap(failed, Ordering::Relaxed)) {
            (Err(error), false) => {
                tracing::warn!(%error, "spans cannot be sent; they are dropped until the collector answers")
            }
            (Ok(()), true) => tracing::info!("the collector takes spans again"),
            (Err(_), true) | (Ok(()), false) => {}
        }
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p12_name_and_password_leave_the_address_for_a_header() {
        for (endpoint, address, authorization) in [
            ("http://collector:4318", "http://collector:4318/v1/traces", None),
            ("http://collector:4318/", "http://collector:4318/v1/traces", None),
            ("https://collector/base/v1/traces", "https://collector/base/v1/traces", None),
            ("https://me:p@ss@collector/base", "https://collector/base/v1/traces", Some("Basic bWU6cEBzcw==")),
        ] {
            let collector = Collector::at(endpoint);
            assert_eq!((collector.address.as_str(), collector.authorization.as_deref()), (address, authorization));
        }
    }
}
