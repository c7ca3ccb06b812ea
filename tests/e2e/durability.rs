//! kill -9, told to happen in the middle of a run and left to chance.

use crate::catalog::{digest, export, sidecar};
use crate::client::eventually;
use crate::kills::{Trial, check_events};
use crate::scanner::Promises;
use crate::service::Service;
use crate::sse::Stream;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Rounds of kills in an ordinary test run; `SOAK=1` does more.
const ROUNDS: usize = 8;
const ROUNDS_SOAK: usize = 50;

/// Limits that do not slow a test.
pub fn unhurried(scanner: &str) -> Value {
    json!({
        "limits": { "defaultRatePerSecond": 100_000, "tenantRatePerSecond": 1_000_000, "defaultParallelism": 32 },
        "events": { "debounceSeconds": 1 },
        "integrates": { "scannerUrl": scanner, "timeoutSeconds": 20 },
        "shutdown": { "graceSeconds": 5 },
    })
}

/// Images of a tenant, put one by one.
async fn put_images(service: &Service, tenant: &str, count: usize) {
    for number in 0..count {
        let put = service.client(tenant).put(&format!("/images/{}/bom-index", digest(number)), &sidecar(number)).await;
        assert_eq!(put.status, 201, "{}", put.text);
    }
}

/// Kills the service when the scanner has been asked about a third of the images, and lets the run end afterwards.
async fn killed_in_the_middle(tenant: &str) {
    const IMAGES: usize = 90;
    let promises = Promises::start(Duration::from_millis(50));
    let mut settings = unhurried(&promises.server.url());
    settings["limits"]["defaultParallelism"] = 6.into();
    let mut service = Service::start(settings).await;
    put_images(&service, tenant, IMAGES).await;
    let client = service.client(tenant);
    client.subscribe("all").await;
    let event = export("export-1", &["pkg:npm/common".to_owned()]);
    assert_eq!(client.post_event("feedser", &event).await.status, 202);
    eventually("a third of the calls", async || (promises.server.calls().len() >= IMAGES / 3).then_some(())).await;
    service.kill();
    let before = promises.server.calls().len();
    assert!(before < IMAGES, "the kill came too late");
    service.spawn().await;
    let client = service.client(tenant);
    let runs = client.all("/runs").await;
    assert_eq!(runs.len(), 1, "P3");
    let run = client.ended(runs[0]["id"].as_str().unwrap()).await;
    assert_eq!(run["state"], "completed");
    assert_eq!((&run["stats"]["queued"], &run["stats"]["completed"]), (&json!(IMAGES), &json!(IMAGES)));
    assert_eq!(run["stats"]["deltas"], json!(IMAGES), "what was called before the kill and not written is still news");
    let outcomes = client.all(&format!("/runs/{}/images", run["id"].as_str().unwrap())).await;
    let mut per_image: BTreeMap<&str, usize> = BTreeMap::new();
    for outcome in &outcomes {
        *per_image.entry(outcome["imageDigest"].as_str().unwrap()).or_default() += 1;
    }
    assert_eq!((outcomes.len(), per_image.len()), (IMAGES, IMAGES));
    let mut calls: BTreeMap<String, usize> = BTreeMap::new();
    for call in promises.server.calls() {
        *calls.entry(call.text("imageDigest").to_owned()).or_default() += 1;
    }
    let repeated = calls.values().filter(|count| **count > 1).count();
    assert!(
        calls.values().all(|count| *count <= 2) && repeated <= 12,
        "only what was in flight is asked again: {repeated}"
    );
    let mut stream = Stream::open(&client, Some(0)).await.unwrap();
    let mut events = Vec::new();
    while events.last().is_none_or(|last: &crate::sse::Event| last.data["data"]["state"] != "completed") {
        events.push(stream.next().await.unwrap());
    }
    assert_eq!(check_events(&events, &[(run, outcomes)]), Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p04_kill_9_in_the_middle_of_a_run_gives_one_outcome_per_image_delta_form() {
    killed_in_the_middle("delta").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p04_kill_9_in_the_middle_of_a_run_gives_one_outcome_per_image_findings_form() {
    killed_in_the_middle("findings").await;
}

/// SBOM-15, NOTE-05, NOTE-09, NOTE-11: after any number of kills the index equals a rebuild, and every event is the outcome that it tells of.
/// `E2E_SEED` repeats a trial's choices.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p08_kills_at_any_moment_lose_nothing_that_was_answered_and_double_nothing() {
    let rounds = if std::env::var_os("SOAK").is_some() { ROUNDS_SOAK } else { ROUNDS };
    let seed = std::env::var("E2E_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(rand::random);
    println!("E2E_SEED={seed}, {rounds} rounds");
    let mut trial = Trial::start(seed).await;
    for _ in 0..rounds {
        trial.round().await;
    }
    trial.finish().await;
}
