//! kill -9, told to happen in the middle of a run and left to chance.

use crate::catalog::{digest, export, sidecar};
use crate::client::eventually;
use crate::kills::{Trial, check_events};
use crate::scanner::Promises;
use crate::service::Service;
use crate::sse::Stream;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// Kills the service when a third of the images have their outcome and others are asked about, and lets the run end afterwards.
async fn killed_in_the_middle(tenant: &str) {
    const IMAGES: usize = 90;
    const PARALLELISM: usize = 6;
    let held = Arc::new(AtomicBool::new(true));
    let gate = held.clone();
    let promises = Promises::delayed(move |number| {
        let waits = number >= IMAGES / 3 && gate.load(Ordering::Relaxed);
        Duration::from_secs(if waits { 600 } else { 0 })
    });
    let mut settings = unhurried(&promises.server.url());
    settings["limits"]["defaultParallelism"] = PARALLELISM.into();
    let mut service = Service::start(settings).await;
    put_images(&service, tenant, IMAGES).await;
    let client = service.client(tenant);
    client.subscribe("all").await;
    let event = export("export-1", &["pkg:npm/common".to_owned()]);
    assert_eq!(client.post_event("feedser", &event).await.status, 202);
    eventually("a third has an outcome, and others are asked about", async || {
        let runs = client.all("/runs").await;
        let completed = &runs.first()?["stats"]["completed"];
        (*completed == IMAGES / 3 && promises.server.calls().len() == IMAGES / 3 + PARALLELISM).then_some(())
    })
    .await;
    service.kill();
    held.store(false, Ordering::Relaxed);
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
    assert_eq!((repeated, calls.values().max()), (PARALLELISM, Some(&2)), "what was in flight is asked again, once");
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
