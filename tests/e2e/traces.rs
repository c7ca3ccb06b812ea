//! One trace leads from a webhook to the verdicts, over inbox, queue, retries and restarts, and a collector that is away costs
//! nothing but spans.

use crate::catalog::{digest, export, sidecar};
use crate::client::{Client, eventually};
use crate::durability::unhurried;
use crate::service::Service;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Status;
use parking_lot::Mutex;
use prost::Message;
use scheduler_testkit::scanner::{HttpReply, HttpScannerServer};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;

/// A span as it came, its ids in hexadecimal.
#[derive(Debug, Clone)]
struct Span {
    trace: String,
    id: String,
    parent: String,
    name: String,
    status: i32,
    links: Vec<String>,
    service: String,
}

/// An OTLP collector that keeps what it gets.
#[derive(Clone, Default)]
struct Collector {
    spans: Arc<Mutex<Vec<Span>>>,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn take(State(collector): State<Collector>, headers: axum::http::HeaderMap, body: Bytes) -> StatusCode {
    assert_eq!(headers[header::CONTENT_TYPE], "application/x-protobuf");
    let request = ExportTraceServiceRequest::decode(body).unwrap();
    let mut kept = collector.spans.lock();
    for resource in request.resource_spans {
        let attributes = resource.resource.unwrap_or_default().attributes;
        let service = attributes.iter().find(|attribute| attribute.key == "service.name").unwrap();
        let service = format!("{:?}", service.value);
        for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            kept.push(Span {
                trace: hex(&span.trace_id),
                id: hex(&span.span_id),
                parent: hex(&span.parent_span_id),
                name: span.name,
                status: span.status.unwrap_or(Status::default()).code,
                links: span.links.iter().map(|link| hex(&link.trace_id)).collect(),
                service: service.clone(),
            });
        }
    }
    StatusCode::OK
}

impl Collector {
    /// Starts one; gives its base address too.
    async fn start() -> (Self, String) {
        let collector = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().route("/v1/traces", post(take)).with_state(collector.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (collector, address)
    }

    fn of(&self, trace: &str) -> Vec<Span> {
        self.spans.lock().iter().filter(|span| span.trace == trace).cloned().collect()
    }

    fn named(&self, name: &str) -> Vec<Span> {
        self.spans.lock().iter().filter(|span| span.name == name).cloned().collect()
    }

    /// Waits for a span of that name.
    async fn first(&self, name: &str) -> Span {
        eventually(&format!("a span `{name}`"), async || self.named(name).first().cloned()).await
    }

    /// Waits until a trace has a span of each of these names.
    async fn complete(&self, trace: &str, names: &[&str]) -> Vec<Span> {
        eventually(&format!("{names:?} in trace {trace}"), async || {
            let spans = self.of(trace);
            names.iter().all(|name| spans.iter().any(|span| span.name == *name)).then_some(spans)
        })
        .await
    }
}

/// Every step of a run.
const STEPS: [&str; 8] = ["begin", "plan", "resolve", "enqueue", "segment", "report_call", "persist", "emit"];

fn settings(scanner: &str, collector: &str) -> Value {
    let mut settings = unhurried(scanner);
    settings["telemetry"] = json!({ "otlpEndpoint": collector });
    settings
}

async fn with_images(service: &Service, count: usize) -> Client {
    let client = service.client("default");
    for number in 1..=count {
        client.put(&format!("/images/{}/bom-index", digest(number)), &sidecar(number)).await;
    }
    client
}

fn common(id: &str) -> Value {
    export(id, &["pkg:npm/common".to_owned()])
}

fn quiet() -> HttpScannerServer {
    HttpScannerServer::start(|call| HttpReply::quiet_report(call.text("imageDigest")))
}

/// The trace and the span that a header names.
fn ids(traceparent: &str) -> (String, String) {
    let parts: Vec<&str> = traceparent.split('-').collect();
    (parts[1].to_owned(), parts[2].to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_trace_leads_from_webhook_to_verdict_and_to_the_scanner() {
    let (collector, address) = Collector::start().await;
    let scanner = quiet();
    let service = Service::start(settings(&scanner.url(), &address)).await;
    let client = with_images(&service, 3).await;
    client.subscribe("all").await;
    let given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let (trace, parent) = ids(given);
    let answer = client.send(client.event("feedser", &common("a")).header("traceparent", given)).await;
    assert_eq!(answer.status, 202, "{}", answer.text);

    let mut names = STEPS.to_vec();
    names.push("webhook");
    let spans = collector.complete(&trace, &names).await;
    let known: BTreeSet<&str> = spans.iter().map(|span| span.id.as_str()).chain([parent.as_str()]).collect();
    for span in &spans {
        assert!(known.contains(span.parent.as_str()), "{span:?} hangs on a span that is not there");
        assert!(span.service.contains("stella-scheduler"), "{span:?}");
    }
    let of = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
    assert_eq!(of("webhook").parent, parent);
    assert_eq!(of("begin").parent, of("webhook").id);
    assert_eq!(of("plan").parent, of("begin").id);
    assert_eq!(of("resolve").parent, of("plan").id);
    assert_eq!(of("segment").parent, of("begin").id);
    assert_eq!(of("report_call").parent, of("segment").id);

    eventually("three calls", async || (scanner.calls().len() == 3).then_some(())).await;
    let calls: BTreeSet<String> = collector.named("report_call").into_iter().map(|span| span.id).collect();
    for call in scanner.calls() {
        let (sent_trace, sent_span) = ids(call.header("traceparent"));
        assert_eq!(sent_trace, trace);
        assert!(calls.contains(&sent_span), "the scanner is a child of the call");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_by_hand_have_a_trace_of_their_own_and_gathered_exports_lead_to_the_run() {
    let (collector, address) = Collector::start().await;
    let scanner = quiet();
    let mut settings = settings(&scanner.url(), &address);
    settings["events"]["debounceSeconds"] = 1.into();
    let service = Service::start(settings).await;
    let client = with_images(&service, 1).await;
    let run = client.start_run(&json!({})).await;
    client.ended(&run).await;
    let begun = collector.first("start_run").await;
    collector.complete(&begun.trace, &["plan", "segment", "report_call"]).await;

    client.subscribe("all").await;
    // The first one opens the window; the next two are planned together.
    for id in ["a", "b", "c"] {
        assert_eq!(client.post_event("feedser", &common(id)).await.status, 202);
    }
    let gathered = collector.first("gathered").await;
    let webhooks: BTreeSet<String> = collector.named("webhook").into_iter().map(|span| span.trace).collect();
    assert!(webhooks.contains(&gathered.trace), "it is in the trace of its webhook");
    assert!(gathered.links.iter().all(|to| webhooks.contains(to) && *to != gathered.trace), "{gathered:?}");
    assert_eq!(gathered.links.len(), 1);
    collector.complete(&gathered.links[0], &STEPS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retries_are_calls_of_the_same_trace() {
    let (collector, address) = Collector::start().await;
    let refused = Arc::new(AtomicBool::new(false));
    let scanner = HttpScannerServer::start(move |call| {
        if call.path == "/reports" && !refused.swap(true, Ordering::Relaxed) {
            return HttpReply::status(503);
        }
        HttpReply::quiet_report(call.text("imageDigest"))
    });
    let service = Service::start(settings(&scanner.url(), &address)).await;
    let client = with_images(&service, 1).await;
    client.subscribe("all").await;
    client.post_event("feedser", &common("a")).await;
    let webhook = collector.first("webhook").await;
    let spans = eventually("both calls", async || {
        let spans = collector.of(&webhook.trace);
        (spans.iter().filter(|span| span.name == "report_call").count() == 2).then_some(spans)
    })
    .await;
    let statuses: Vec<i32> = spans.iter().filter(|span| span.name == "report_call").map(|span| span.status).collect();
    assert_eq!(statuses, [2, 0], "the first one ended in an error");
    for call in scanner.calls().iter().filter(|call| call.path == "/reports") {
        assert_eq!(ids(call.header("traceparent")).0, webhook.trace);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trace_goes_on_after_kill_9() {
    let (collector, address) = Collector::start().await;
    let open = Arc::new(AtomicBool::new(false));
    let gate = open.clone();
    let scanner = HttpScannerServer::start(move |call| {
        let delay = if gate.load(Ordering::Relaxed) { Duration::ZERO } else { Duration::from_secs(600) };
        HttpReply::quiet_report(call.text("imageDigest")).after(delay)
    });
    let mut service = Service::start(settings(&scanner.url(), &address)).await;
    let client = with_images(&service, 2).await;
    client.subscribe("all").await;
    client.post_event("feedser", &common("a")).await;
    let webhook = collector.first("webhook").await;
    eventually("the calls", async || (scanner.calls().len() == 2).then_some(())).await;
    service.kill();
    let before = scanner.calls().len();
    open.store(true, Ordering::Relaxed);
    service.spawn().await;
    let spans = collector.complete(&webhook.trace, &["plan", "segment", "report_call", "persist", "emit"]).await;
    let segment = spans.iter().find(|span| span.name == "segment").unwrap();
    let begin = spans.iter().find(|span| span.name == "begin").unwrap();
    assert_eq!(segment.parent, begin.id, "the context is taken up from the store");
    let after = scanner.calls();
    assert!(after.len() > before, "the calls are made again");
    for call in after {
        assert_eq!(ids(call.header("traceparent")).0, webhook.trace);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_away_or_silent_costs_nothing_but_spans() {
    // One port that nobody listens on, one whose listener never answers.
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    for address in [closed, silent.local_addr().unwrap()] {
        let scanner = quiet();
        let mut service = Service::start(settings(&scanner.url(), &format!("http://{address}"))).await;
        let client = with_images(&service, 3).await;
        client.subscribe("all").await;
        for id in ["a", "b", "c"] {
            assert_eq!(client.post_event("feedser", &common(id)).await.status, 202);
        }
        let run = client.start_run(&json!({})).await;
        assert_eq!(client.ended(&run).await["stats"]["completed"], 3);
        // A silent collector is given up after a while; a drain that came before would cut that short.
        let said = |service: &Service| service.log().matches("spans cannot be sent").count();
        eventually("a word of it in the log", async || (said(&service) > 0).then_some(())).await;
        let asked = tokio::time::Instant::now();
        assert_eq!(service.stop().await, Some(0));
        assert!(asked.elapsed() < Duration::from_secs(10), "the drain took {:?}", asked.elapsed());
        assert_eq!(said(&service), 1, "it is said once: {}", service.log());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_of_the_traces_is_sent_at_the_drain() {
    let (collector, address) = Collector::start().await;
    let scanner = quiet();
    let mut service = Service::start(settings(&scanner.url(), &address)).await;
    let client = service.client("default");
    client.start_run(&json!({})).await;
    assert_eq!(service.stop().await, Some(0));
    assert_eq!(collector.named("start_run").len(), 1, "without waiting for the batch");
}
