//! Scanners that keep their word over any number of crashes of their caller.

use parking_lot::Mutex;
use scheduler_testkit::scanner::{HttpCall, HttpReply, HttpScannerServer};
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Which form of answer a tenant's images get.
const FINDINGS_TENANT: &str = "findings";

/// A scanner with what it has promised. For most tenants it answers `delta`: the first `Idempotency-Key` that asks for an
/// image gets its news, again and again; every other key hears that nothing is new. For the tenant `findings` it
/// answers `findings`, always the same ones.
pub struct Promises {
    pub server: HttpScannerServer,
    first: Arc<Mutex<HashMap<(String, String), String>>>,
}

impl Promises {
    pub fn start(delay: Duration) -> Self {
        Self::delayed(move |_| delay)
    }

    /// One that answers its calls, counted from 0, so much later.
    pub fn delayed(delay: impl Fn(usize) -> Duration + Send + Sync + 'static) -> Self {
        let count = AtomicUsize::new(0);
        let first: Arc<Mutex<HashMap<(String, String), String>>> = Arc::default();
        let kept = first.clone();
        let server = HttpScannerServer::start(move |call| {
            answer(call, &kept).after(delay(count.fetch_add(1, Ordering::Relaxed)))
        });
        Self { server, first }
    }

    /// The idempotency keys that were given an image's news.
    pub fn informed(&self) -> Vec<String> {
        self.first.lock().values().cloned().collect()
    }
}

fn answer(call: &HttpCall, first: &Mutex<HashMap<(String, String), String>>) -> HttpReply {
    let (tenant, digest) = (call.header("x-tenant-id"), call.text("imageDigest"));
    if tenant == FINDINGS_TENANT {
        let found =
            |id: &str, severity: &str| json!({ "purl": "pkg:npm/common@1.0.0", "vulnId": id, "severity": severity });
        let findings = [found("CVE-2026-1", "critical"), found("CVE-2026-2", "high")];
        return HttpReply::json(&json!({ "imageDigest": digest, "verdict": "fail", "findings": findings }));
    }
    let key = call.header("idempotency-key").to_owned();
    let informed = first.lock().entry((tenant.to_owned(), digest.to_owned())).or_insert_with(|| key.clone()).clone();
    if informed != key {
        return HttpReply::quiet_report(digest);
    }
    let delta =
        json!({ "newFindings": 1, "newCriticals": 1, "newHigh": 0, "newMedium": 0, "newLow": 0, "kevHits": [] });
    HttpReply::json(&json!({ "imageDigest": digest, "verdict": "fail", "delta": delta }))
}
