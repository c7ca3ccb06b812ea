//! `/metrics`: every sample is one of those that are described, and the contract's are there.

use crate::catalog::{digest, export, sidecar};
use crate::client::sign;
use crate::durability::unhurried;
use crate::scanner::Promises;
use crate::service::Service;
use reqwest::Method;
use scheduler_telemetry::{Kind, METRICS, Metric};
use std::collections::BTreeSet;
use std::time::Duration;

/// The names that the contract gives.
const PROMISED: [&str; 7] = [
    "scheduler_events_total",
    "scheduler_impact_resolve_seconds",
    "scheduler_images_selected_total",
    "scheduler_jobs_enqueued_total",
    "scheduler_run_latency_seconds",
    "scheduler_delta_images_total",
    "scheduler_rate_limited_total",
];

/// The metric that a sample is of.
fn described(sample: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| match metric.kind {
        Kind::Counter | Kind::Gauge => sample == metric.name,
        Kind::Histogram => {
            sample.strip_prefix(metric.name).is_some_and(|rest| ["_bucket", "_sum", "_count"].contains(&rest))
        }
    })
}

/// Holds a line against the description of its metric.
fn check(line: &str) -> &'static str {
    let (series, _) = line.rsplit_once(' ').unwrap();
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    let metric = described(name).unwrap_or_else(|| panic!("nobody described {line}"));
    for label in labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty()) {
        let (name, value) = label.split_once('=').unwrap();
        let is_bucket = metric.kind == Kind::Histogram && name == "le";
        let known = metric.labels.iter().any(|(own, values)| *own == name && values.contains(&value.trim_matches('"')));
        assert!(is_bucket || known, "{line}");
    }
    metric.name
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_sample_is_described_and_its_labels_have_known_values() {
    let promises = Promises::start(Duration::ZERO);
    let service = Service::start(unhurried(&promises.server.url())).await;
    for tenant in ["default", "tenant-of-a-text"] {
        let client = service.client(tenant);
        client.put(&format!("/images/{}/bom-index", digest(1)), &sidecar(1)).await;
        client.subscribe("all").await;
    }
    let client = service.client("default");
    assert_eq!(client.post_event("feedser", &export("e-1", &["pkg:npm/common".to_owned()])).await.status, 202);
    let body = b"{}".to_vec();
    let wrong = client.request(Method::POST, "/events/vexer-export");
    let wrong = wrong.header("x-scheduler-signature", sign("nobody", &body, 1)).body(body);
    assert_eq!(client.send(wrong).await.status, 401);
    let text = crate::client::eventually("a verdict that is counted", async || {
        let text = client.get("/metrics").await.text;
        text.contains("scheduler_run_latency_seconds_count").then_some(text)
    })
    .await;
    let samples = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let seen: BTreeSet<&str> = samples.map(check).collect();
    let missing: Vec<&&str> =
        PROMISED.iter().filter(|name| METRICS.iter().all(|metric| metric.name != **name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(
        text.contains("scheduler_rate_limited_total{reason=\"scanner-429\"} 0"),
        "what has not happened is counted too"
    );
    for name in PROMISED {
        assert!(seen.contains(name), "{name} is not there: {seen:?}");
        assert!(text.contains(&format!("# HELP {name} ")), "{name} is not explained");
    }
}
