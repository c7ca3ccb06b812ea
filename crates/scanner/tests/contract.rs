//! The HTTP adapter under the contract of the `Scanner` port, against a real server.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot be set up fails")]

mod common;

use common::scanner_at;
use scheduler_core::ports::Scanner;
use scheduler_model::{Delta, Found, ImageDigest, Report};
use scheduler_scanner::HttpScanner;
use scheduler_testkit::scanner::{HttpCall, HttpReply, HttpScannerServer, SeenReport, UnderTest};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

struct OverHttp {
    server: HttpScannerServer,
    scanner: HttpScanner,
    script: Arc<Mutex<Script>>,
}

struct Script {
    report: HttpReply,
    tags: HashMap<String, ImageDigest>,
    scan_succeeds: bool,
    polls: u32,
}

fn make() -> OverHttp {
    let report = HttpReply::json(&json_of(&scheduler_testkit::scanner::report_of(Delta::default())));
    let script = Script { report, tags: HashMap::new(), scan_succeeds: true, polls: 0 };
    let script = Arc::new(Mutex::new(script));
    let behind = script.clone();
    let server = HttpScannerServer::start(move |call| answer(&mut behind.lock().unwrap(), call));
    let scanner = scanner_at(&server.url());
    OverHttp { server, scanner, script }
}

fn answer(script: &mut Script, call: &HttpCall) -> HttpReply {
    let digest = || script.tags.values().next().cloned();
    match (call.method.as_str(), call.path.as_str()) {
        ("POST", "/reports") => script.report.clone(),
        ("POST", "/resolve") => match script.tags.get(call.text("imageRef")) {
            Some(digest) => HttpReply::json(&json!({ "imageDigest": digest })),
            None => HttpReply::status(404),
        },
        ("POST", "/scans") if call.body["attest"] == json!(false) => {
            script.polls = 0;
            HttpReply { status: 202, ..HttpReply::json(&json!({ "scanId": "s 1/x", "status": "queued" })) }
        }
        ("GET", "/scans/s%201%2Fx") => {
            script.polls += 1;
            let end = if script.scan_succeeds { "done" } else { "failed" };
            let status = if script.polls < 2 { "running" } else { end };
            HttpReply::json(&json!({ "scanId": "s 1/x", "status": status, "imageDigest": digest() }))
        }
        _ => HttpReply::status(404),
    }
}

fn json_of(report: &Report) -> Value {
    let mut body = json!({
        "policyRevision": report.policy_revision, "verdict": report.verdict, "reportUrl": report.report_url,
        "attestation": report.attestation,
    });
    match &report.found {
        Found::Delta(delta) => body["delta"] = json!(delta),
        Found::Findings(findings) => body["findings"] = json!(findings),
    }
    body
}

impl UnderTest for OverHttp {
    fn scanner(&self) -> &dyn Scanner {
        &self.scanner
    }

    fn seen(&self) -> Vec<SeenReport> {
        let seen = |call: &HttpCall| SeenReport {
            tenant: call.header("x-tenant-id").to_owned(),
            key: call.header("idempotency-key").to_owned(),
            digest: call.text("imageDigest").to_owned(),
            policy_revision: call.body.get("policyRevision").map(|value| value.as_str().unwrap().to_owned()),
            traceparent: call.header("traceparent").to_owned(),
        };
        self.server.calls().iter().filter(|call| call.path == "/reports").map(seen).collect()
    }

    fn answer(&self, report: Report) {
        self.script.lock().unwrap().report = HttpReply::json(&json_of(&report));
    }

    fn fail(&self, status: u16, retry_after_s: Option<u64>) {
        let reply = HttpReply::status(status);
        self.script.lock().unwrap().report = match retry_after_s {
            Some(seconds) => reply.with("retry-after", seconds.to_string()),
            None => reply,
        };
    }

    fn tag(&self, image_ref: &str, digest: Option<ImageDigest>, scan_succeeds: bool) {
        let mut script = self.script.lock().unwrap();
        script.tags = digest.into_iter().map(|digest| (image_ref.to_owned(), digest)).collect();
        script.scan_succeeds = scan_succeeds;
    }
}

scheduler_testkit::scanner_contract!(make);
