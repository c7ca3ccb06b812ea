//! Data folders of earlier versions open, and everything in them reads as it did.
//!
//! `tests/golden/data-v*` hold one each, packed, with what its own version read from it. A version that writes another
//! format adds a folder: `GOLDEN_MAKE=data-v2 cargo test -p stella-scheduler --test e2e golden`.

use crate::catalog::{digest, export, sidecar, sidecar_of};
use crate::client::{Client, eventually};
use crate::service::Service;
use crate::sse::Stream;
use reqwest::Method;
use scheduler_testkit::scanner::{HttpCall, HttpReply, HttpScannerServer};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TENANTS: [&str; 2] = ["alpha", "beta"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

fn settings(scanner: &str) -> Value {
    json!({
        "integrates": { "scannerUrl": scanner },
        "limits": { "deadlineSeconds": 31_536_000 },
        "retention": { "completedRunsDays": 36_500, "outboundEventHours": 87_600 },
        "events": { "debounceSeconds": 3600 },
    })
}

/// `delta` for alpha, with one image that the scanner does not know; `findings` for beta.
fn answer(call: &HttpCall) -> HttpReply {
    let image = call.text("imageDigest");
    if image == digest(4) {
        return HttpReply::status(404);
    }
    let mut report = json!({
        "imageDigest": image, "verdict": "warn", "policyRevision": "rev-1", "reportUrl": "https://scanner.example.com/r/1",
        "attestation": { "uuid": "a-1", "verified": true },
    });
    if call.header("x-tenant-id") == "beta" {
        report["findings"] =
            json!([{ "purl": "pkg:npm/common@1.0.0", "vulnId": "CVE-2026-7", "severity": "medium", "kev": true }]);
    } else {
        report["delta"] = json!({
            "newFindings": 1, "newCriticals": 0, "newHigh": 1, "newMedium": 0, "newLow": 0, "kevHits": ["CVE-2026-7"],
            "topFindings": [{ "purl": "pkg:npm/common@1.0.0", "vulnId": "CVE-2026-7", "severity": "high", "link": "https://example.com/7" }],
        });
    }
    HttpReply::json(&report)
}

/// One of everything that is stored. Gives the run that is left open.
async fn fill(service: &Service, scanner: &mut HttpScannerServer) -> String {
    let alpha = service.client("alpha");
    for number in 1..=5 {
        let mut image = sidecar(number);
        image["image"]["labels"] = json!({ "team": "cart" });
        image["image"]["namespaces"] = json!(["prod"]);
        if number == 2 {
            image["usedByEntrypoint"] = json!([0, 2]);
        }
        assert_eq!(alpha.put(&format!("/images/{}/bom-index", digest(number)), &image).await.status, 201);
    }
    assert_eq!(alpha.send(alpha.request(Method::DELETE, &format!("/images/{}", digest(5)))).await.status, 204);
    let document = json!({
        "bomFormat": "CycloneDX", "specVersion": "1.6",
        "components": [{ "type": "library", "name": "libssl3", "purl": "pkg:deb/debian/libssl3@3.0.11-1?arch=amd64&upstream=openssl" }, { "type": "library", "name": "nameless" }],
    });
    let sbom = format!("/images/{}/sbom?repository=shop/sbom&tag=prod-2&label=team%3Dweb", digest(6));
    assert_eq!(alpha.put(&sbom, &document).await.status, 201);
    let beta = service.client("beta");
    let own = sidecar_of(1, &["pkg:npm/common@1.0.0".to_owned()]);
    assert_eq!(beta.put(&format!("/images/{}/bom-index", digest(1)), &own).await.status, 201);

    for client in [&alpha, &beta] {
        client.subscribe("events").await;
    }
    let nightly = json!({
        "name": "nightly", "whenCron": "0 2 29 2 *", "timezone": "Europe/Sofia", "enabled": false, "usageOnly": false,
        "selection": { "scope": "by-labels", "labels": { "team": "cart" }, "includeTags": ["prod-*"] },
        "onlyIf": { "lastReportOlderThanDays": 7, "policyRevision": "rev-1" }, "misfire": "skip", "overlap": "replace",
        "jitterSeconds": 5, "notify": { "onNewFindings": true, "minSeverity": "high", "includeKEV": false },
        "limits": { "maxJobs": 10, "ratePerSecond": 5, "parallelism": 2 },
    });
    let nightly = alpha.post("/schedules", &nightly).await;
    let nightly = format!("/schedules/{}", nightly.body["id"].as_str().unwrap());
    assert_eq!(
        alpha.send(alpha.request(Method::PATCH, &nightly).json(&json!({ "jitterSeconds": 6 }))).await.status,
        200
    );
    let gone = alpha.subscribe("gone").await;
    assert_eq!(alpha.send(alpha.request(Method::DELETE, &format!("/schedules/{gone}"))).await.status, 204);

    let change = json!({ "productKey": "pkg:npm/common", "vulnId": "CVE-2026-7", "severity": "high" });
    let first = json!({ "exportId": "e1", "changedProductKeys": ["pkg:npm/group-3"], "changes": [change], "window": { "from": "2026-01-01T00:00:00Z" } });
    assert_eq!(alpha.post_event("feedser", &first).await.status, 202);
    for client in [&alpha, &beta] {
        let run =
            eventually("the event's run", async || Some(client.all("/runs").await.first()?["id"].as_str()?.to_owned()))
                .await;
        client.ended(&run).await;
    }
    let keyed = json!({ "keys": ["pkg:deb/debian/openssl"], "reason": "by hand" });
    let keyed = alpha.send(alpha.request(Method::POST, "/run").header("Idempotency-Key", "once").json(&keyed)).await;
    alpha.ended(keyed.body["runId"].as_str().unwrap()).await;
    // It waits in the inbox until the window closes, or until the next start.
    assert_eq!(alpha.post_event("feedser", &export("e2", &["pkg:npm/own-1".to_owned()])).await.status, 202);
    scanner.down();
    let cancelled = alpha.start_run(&json!({})).await;
    assert_eq!(alpha.post(&format!("/runs/{cancelled}/cancel"), &json!({})).await.status, 202);
    alpha.ended(&cancelled).await;
    let open = alpha.start_run(&json!({ "selection": { "scope": "by-digest", "digests": [digest(1)] } })).await;
    alpha.run_in(&open, &["running"]).await;
    open
}

/// All that one tenant can read, less what depends on when it is read.
async fn read(client: &Client, open_run: &str) -> Value {
    let mut schedules = client.all("/schedules").await;
    for schedule in &mut schedules {
        for moving in ["nextRunAt", "lastRun"] {
            schedule.as_object_mut().unwrap().remove(moving);
        }
    }
    let mut runs = Vec::new();
    for run in client.all("/runs").await {
        let id = run["id"].as_str().unwrap();
        if id != open_run {
            let outcomes = client.all(&format!("/runs/{id}/images")).await;
            runs.push(json!({ "run": run, "outcomes": outcomes }));
        }
    }
    let mut previews = Vec::new();
    for asked in [
        json!({ "keys": ["pkg:npm/common", "pkg:deb/debian/openssl"] }),
        json!({ "vulnIds": ["CVE-2026-7"] }),
        json!({ "usageOnly": false, "keys": ["pkg:npm/group-2"] }),
    ] {
        let mut preview = client.post("/preview/impact", &asked).await.body;
        for moving in ["elapsedMs", "projected"] {
            preview.as_object_mut().unwrap().remove(moving);
        }
        previews.push(preview);
    }
    json!({ "images": client.all("/images").await, "schedules": schedules, "runs": runs, "previews": previews })
}

/// The tenant's first events.
async fn events(client: &Client, count: usize) -> Vec<Value> {
    let mut stream = Stream::open(client, Some(0)).await.unwrap();
    let mut events = Vec::new();
    while events.len() < count {
        let event = stream.next().await.unwrap();
        events.push(json!({ "id": event.id, "event": event.kind, "data": event.data }));
    }
    events
}

/// How many events there are, as the number of one that comes now tells.
async fn count_events(client: &Client) -> usize {
    let mut stream = Stream::open(client, Some(u64::MAX)).await.unwrap();
    usize::try_from(stream.next().await.unwrap().id).unwrap()
}

async fn make(name: &str) {
    let mut scanner = HttpScannerServer::start(answer);
    let mut service = Service::start(settings(&scanner.url())).await;
    let open_run = fill(&service, &mut scanner).await;
    let mut expected = json!({ "openRun": open_run, "waitingExport": "e2" });
    for tenant in TENANTS {
        let client = service.client(tenant);
        expected[tenant] = read(&client, &open_run).await;
        expected[tenant]["events"] = events(&client, count_events(&client).await).await.into();
    }
    assert_eq!(service.stop().await, Some(0));
    let packed = Command::new("tar")
        // The engine's own log names folders of the machine.
        .args([
            "--create",
            "--exclude=LOG*",
            "--exclude=LOCK",
            "--sort=name",
            "--owner=0",
            "--group=0",
            "--numeric-owner",
            "--directory",
        ])
        .arg(service.data())
        .arg(".")
        .output()
        .unwrap();
    assert!(packed.status.success());
    let own_path = service.data().display().to_string();
    assert!(!String::from_utf8_lossy(&packed.stdout).contains(&own_path), "the archive names {own_path}");
    let target = folder().join(name);
    std::fs::create_dir_all(&target).unwrap();
    std::fs::write(target.join("data.tar.zst"), zstd::encode_all(packed.stdout.as_slice(), 19).unwrap()).unwrap();
    std::fs::write(target.join("expected.json"), format!("{expected:#}\n")).unwrap();
}

fn unpack(archive: &Path, target: &Path) {
    let content = zstd::decode_all(std::fs::File::open(archive).unwrap()).unwrap();
    std::fs::create_dir_all(target).unwrap();
    let mut tar =
        Command::new("tar").args(["--extract", "--directory"]).arg(target).stdin(Stdio::piped()).spawn().unwrap();
    tar.stdin.take().unwrap().write_all(&content).unwrap();
    assert!(tar.wait().unwrap().success());
}

/// Whether everything that was there reads as it did. A later version may say more, never less or otherwise.
fn reads_as(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            expected.iter().all(|(name, value)| found.get(name).is_some_and(|found| reads_as(found, value)))
        }
        (Value::Array(found), Value::Array(expected)) => {
            found.len() == expected.len() && found.iter().zip(expected).all(|(found, value)| reads_as(found, value))
        }
        _ => found == expected,
    }
}

async fn opens(version: &Path) {
    let expected: Value = serde_json::from_slice(&std::fs::read(version.join("expected.json")).unwrap()).unwrap();
    let open_run = expected["openRun"].as_str().unwrap();
    // Nothing listens at first, so that what is there can be read before it goes on.
    let mut scanner = HttpScannerServer::start(answer);
    let mut service = Service::prepare(settings(&scanner.url()));
    scanner.down();
    unpack(&version.join("data.tar.zst"), service.data());
    service.spawn().await;
    for tenant in TENANTS {
        let (client, expected) = (service.client(tenant), &expected[tenant]);
        let found = read(&client, open_run).await;
        for part in ["images", "schedules", "previews"] {
            assert!(
                reads_as(&found[part], &expected[part]),
                "{part} of {tenant} read otherwise now: {:#} was {:#}",
                found[part],
                expected[part]
            );
        }
        for run in expected["runs"].as_array().unwrap() {
            // What waited has begun runs of its own.
            let found = found["runs"].as_array().unwrap();
            assert!(found.iter().any(|one| reads_as(one, run)), "{tenant}: {run:#} reads otherwise now");
        }
        let past = expected["events"].as_array().unwrap();
        let told = Value::from(events(&client, past.len()).await);
        assert!(reads_as(&told, &expected["events"]), "events of {tenant} read otherwise now: {told:#}");
    }
    let alpha = service.client("alpha");
    let verified = alpha.post("/admin/index/verify", &json!({})).await;
    assert_eq!(verified.body["equal"], true, "{}", verified.text);
    scanner.up();
    assert_eq!(alpha.ended(open_run).await["state"], "completed", "the open run ends");
    let waiting = &expected["waitingExport"];
    let run = eventually("the waiting export's run", async || {
        let runs = alpha.all("/runs").await;
        let of_it = |run: &Value| run["reason"]["exportIds"].as_array().is_some_and(|ids| ids.contains(waiting));
        runs.into_iter().find(of_it)
    })
    .await;
    assert_eq!(alpha.ended(run["id"].as_str().unwrap()).await["state"], "completed");
    let put = alpha.put(&format!("/images/{}/bom-index", digest(7)), &sidecar(7)).await;
    assert_eq!(put.status, 201, "it goes on: {}", put.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn golden_data_folders_open_and_read_as_they_did() {
    if let Ok(name) = std::env::var("GOLDEN_MAKE") {
        make(&name).await;
    }
    let versions: BTreeSet<PathBuf> =
        std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    assert!(!versions.is_empty());
    for version in versions {
        println!("{}", version.display());
        opens(&version).await;
    }
}
