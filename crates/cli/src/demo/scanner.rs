//! The demo's scanner: a small web server that answers what the service asks of a scanner.
//!
//! It remembers what it has reported of each image, so that a delta holds what is new since then. The same idempotency key gets
//! the same answer again.

use super::intel::{Findings, Intel, KnownImage, Weight, news};
use anyhow::Context;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use parking_lot::Mutex;
use scheduler_model::{ImageDigest, Severity};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// The most findings that a delta names.
const TOP_FINDINGS: usize = 5;

/// What the scanner knows and has said.
pub struct DemoScanner {
    images: HashMap<ImageDigest, KnownImage>,
    state: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    intel: Arc<Intel>,
    reported: HashMap<ImageDigest, Reported>,
    asked: HashMap<String, BTreeSet<ImageDigest>>,
    calls: u64,
}

struct Reported {
    idempotency_key: String,
    answer: Value,
    findings: Findings,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReportRequest {
    image_digest: ImageDigest,
    run_id: String,
}

impl DemoScanner {
    /// A scanner that knows these images, and no vulnerability yet.
    pub fn new(images: impl IntoIterator<Item = KnownImage>) -> Arc<Self> {
        let images = images.into_iter().map(|image| (image.digest.clone(), image)).collect();
        Arc::new(Self { images, state: Mutex::default() })
    }

    /// Replaces what is known of vulnerabilities.
    pub fn learn(&self, intel: Arc<Intel>) {
        self.state.lock().intel = intel;
    }

    /// The images that a run has asked about.
    pub fn asked(&self, run: &str) -> BTreeSet<ImageDigest> {
        self.state.lock().asked.get(run).cloned().unwrap_or_default()
    }

    /// How many calls have come.
    pub fn calls(&self) -> u64 {
        self.state.lock().calls
    }

    /// Serves on a free port until `stop`.
    pub async fn serve(self: &Arc<Self>, stop: CancellationToken) -> anyhow::Result<SocketAddr> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("the demo scanner finds no free port")?;
        let address = listener.local_addr()?;
        let router = Router::new()
            .route("/reports", post(report))
            .route("/healthz", get(|| std::future::ready("ok")))
            .with_state(self.clone());
        tokio::spawn(async move {
            // An error here shows as a scanner that is away, which the demo then reports.
            let _ = axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await;
        });
        Ok(address)
    }

    fn report(&self, idempotency_key: &str, request: &ReportRequest) -> Option<Value> {
        let image = self.images.get(&request.image_digest)?;
        let intel = {
            let mut state = self.state.lock();
            state.calls += 1;
            state.asked.entry(request.run_id.clone()).or_default().insert(image.digest.clone());
            state.intel.clone()
        };
        let findings = intel.findings(image);
        let mut state = self.state.lock();
        let before = state.reported.get(&image.digest);
        if let Some(again) = before.filter(|reported| reported.idempotency_key == idempotency_key) {
            return Some(again.answer.clone());
        }
        let none = Findings::new();
        let answer = answer(image, &findings, before.map_or(&none, |reported| &reported.findings));
        let reported = Reported { idempotency_key: idempotency_key.to_owned(), answer: answer.clone(), findings };
        state.reported.insert(image.digest.clone(), reported);
        Some(answer)
    }
}

async fn report(
    State(scanner): State<Arc<DemoScanner>>,
    headers: HeaderMap,
    Json(request): Json<ReportRequest>,
) -> Response {
    let key = headers.get("idempotency-key").and_then(|value| value.to_str().ok()).unwrap_or_default();
    match scanner.report(key, &request) {
        Some(answer) => Json(answer).into_response(),
        None => (StatusCode::NOT_FOUND, "no such image").into_response(),
    }
}

fn answer(image: &KnownImage, findings: &Findings, before: &Findings) -> Value {
    let new = news(before, findings);
    let count = |severity: Severity| new.values().filter(|weight| weight.severity == severity).count();
    let kev_hits: BTreeSet<&str> =
        new.iter().filter(|(_, weight)| weight.kev).map(|((_, vuln_id), _)| vuln_id.as_str()).collect();
    let mut worst: Vec<_> = new.iter().collect();
    worst.sort_by_key(|(_, weight)| std::cmp::Reverse((weight.kev, weight.severity)));
    let top: Vec<Value> = worst
        .into_iter()
        .take(TOP_FINDINGS)
        .map(|((purl, vuln_id), weight)| json!({ "purl": purl, "vulnId": vuln_id, "severity": weight.severity }))
        .collect();
    json!({
        "imageDigest": image.digest,
        "verdict": verdict(findings),
        "delta": {
            "newFindings": new.len(),
            "newCriticals": count(Severity::Critical),
            "newHigh": count(Severity::High),
            "newMedium": count(Severity::Medium),
            "newLow": count(Severity::Low),
            "kevHits": kev_hits,
            "topFindings": top,
        },
    })
}

fn verdict(findings: &Findings) -> &'static str {
    let grave = |weight: &Weight| weight.kev || weight.severity == Severity::Critical;
    if findings.values().any(grave) {
        "fail"
    } else if findings.is_empty() {
        "pass"
    } else {
        "warn"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::intel::{Advisory, Affected, Package};
    use scheduler_model::purl::{ProductKey, Purl};

    fn advisory(vuln_id: &str, fixed: &str) -> Advisory {
        Advisory {
            key: ProductKey::parse("pkg:npm/next").unwrap().0,
            vuln_id: vuln_id.to_owned(),
            severity: Severity::Critical,
            kev: true,
            affected: Affected::below("npm", fixed),
        }
    }

    fn ask(scanner: &DemoScanner, version: &str, run: &str) -> Value {
        let request = ReportRequest { image_digest: ImageDigest::of(version.as_bytes()), run_id: run.to_owned() };
        scanner.report(&format!("{run}:{version}"), &request).unwrap()
    }

    #[test]
    fn deltas_hold_what_is_new_since_the_last_report_and_patched_images_have_none() {
        let image = |version: &str| KnownImage {
            digest: ImageDigest::of(version.as_bytes()),
            name: version.to_owned(),
            packages: vec![Package::new(&Purl::parse_strict(&format!("pkg:npm/next@{version}")).unwrap(), None, true)],
        };
        let scanner = DemoScanner::new(["14.0.0", "14.2.25"].map(image));
        let (old, new) = (advisory("CVE-OLD", "14.1.0"), advisory("CVE-NEW", "14.2.25"));
        scanner.learn(Arc::new(Intel::new([old.clone()])));
        assert_eq!(ask(&scanner, "14.0.0", "first")["delta"]["newFindings"], 1);
        scanner.learn(Arc::new(Intel::new([old, new])));
        for _ in 0..2 {
            let answer = ask(&scanner, "14.0.0", "second");
            assert_eq!(answer["delta"]["newFindings"], 1, "a repeated call gets the same answer");
            assert_eq!(answer["delta"]["kevHits"], json!(["CVE-NEW"]));
            assert_eq!(answer["verdict"], "fail");
        }
        assert_eq!(ask(&scanner, "14.0.0", "third")["delta"]["newFindings"], 0);
        assert_eq!(ask(&scanner, "14.2.25", "second")["delta"]["newFindings"], 0);
        assert_eq!(ask(&scanner, "14.2.25", "second")["verdict"], "pass");
        assert_eq!(scanner.asked("second").len(), 2);
    }
}
