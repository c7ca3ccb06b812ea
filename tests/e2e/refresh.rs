//! kill -9 while tags are followed: what they point to is remembered with the outcome that it led to, and never before.

use crate::catalog::{digest, sidecar};
use crate::client::eventually;
use crate::durability::unhurried;
use crate::service::Service;
use scheduler_testkit::scanner::{HttpCall, HttpReply, HttpScannerServer};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

const IMAGES: usize = 60;

/// What the tag of an image points to now: of every second one something else.
fn pointed(number: usize) -> String {
    if number.is_multiple_of(2) { digest(number) } else { digest(1_000 + number) }
}

/// A scanner that knows where the tags point to, and finds one thing in every image whenever it is asked.
fn answer(call: &HttpCall) -> HttpReply {
    let number = |text: &str| text.rsplit_once("app-").and_then(|(_, rest)| rest.split(':').next()?.parse().ok());
    let reply = match (call.method.as_str(), call.path.as_str()) {
        (_, "/reports") => HttpReply::json(&json!({
            "imageDigest": call.text("imageDigest"), "verdict": "warn",
            "findings": [{ "purl": "pkg:npm/common@1.0.0", "vulnId": "CVE-2026-1", "severity": "high" }],
        })),
        (_, "/resolve") => number(call.text("imageRef"))
            .map_or(HttpReply::status(404), |number| HttpReply::json(&json!({ "imageDigest": pointed(number) }))),
        ("POST", "/scans") => number(call.text("imageRef")).map_or(HttpReply::status(404), |number| {
            HttpReply::json(&json!({ "scanId": format!("app-{number}"), "status": "running" }))
        }),
        ("GET", path) => number(path).map_or(HttpReply::status(404), |number| {
            HttpReply::json(
                &json!({ "scanId": format!("app-{number}"), "status": "done", "imageDigest": pointed(number) }),
            )
        }),
        _ => HttpReply::status(404),
    };
    reply.after(Duration::from_millis(20))
}

fn scans(scanner: &HttpScannerServer) -> usize {
    scanner.calls().iter().filter(|call| call.method == "POST" && call.path == "/scans").count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p04_kill_9_while_tags_are_followed_gives_one_outcome_per_image_and_the_tags_with_it() {
    let scanner = HttpScannerServer::start(answer);
    let mut settings = unhurried(&scanner.url());
    settings["limits"]["hostRatePerSecond"] = 100_000.into();
    settings["limits"]["defaultParallelism"] = 6.into();
    let mut service = Service::start(settings).await;
    let client = service.client("alpha");
    for number in 0..IMAGES {
        let mut image = sidecar(number);
        image["image"]["repository"] = format!("shop/app-{number}").into();
        assert_eq!(client.put(&format!("/images/{}/bom-index", digest(number)), &image).await.status, 201);
    }
    let run = client.start_run(&json!({ "mode": "content-refresh" })).await;
    for kill in 1..=3 {
        let settled = || scanner.calls().iter().filter(|call| call.path == "/reports").count();
        eventually("a quarter of the reports", async || (settled() >= kill * IMAGES / 4).then_some(())).await;
        service.kill();
        service.spawn().await;
    }
    let client = service.client("alpha");
    let run = client.ended(&run).await;
    assert_eq!((&run["state"], &run["stats"]["completed"]), (&json!("completed"), &json!(IMAGES)), "{run}");
    assert_eq!(run["stats"]["deltas"], json!(IMAGES), "P5: the finding of each image is news, once");
    let outcomes = client.all(&format!("/runs/{}/images", run["id"].as_str().unwrap())).await;
    let images: BTreeSet<&str> = outcomes.iter().map(|outcome| outcome["imageDigest"].as_str().unwrap()).collect();
    assert_eq!((outcomes.len(), images.len()), (IMAGES, IMAGES), "P4");
    for number in 0..IMAGES {
        let of: Vec<&Value> = outcomes.iter().filter(|outcome| outcome["imageDigest"] == digest(number)).collect();
        assert_eq!(of[0]["reported"], json!([{ "tag": "prod-1", "digest": pointed(number) }]));
    }
    let before = scans(&scanner);
    // A scan that a kill meets is begun again; the scanner knows that it is the same image.
    assert!((IMAGES / 2..=4 * IMAGES / 2).contains(&before), "{before} scans of {} images that moved", IMAGES / 2);
    let again = client.start_run(&json!({ "mode": "content-refresh" })).await;
    assert_eq!(client.ended(&again).await["stats"]["deltas"], 0);
    assert_eq!(scans(&scanner), before, "TAG-1: what the tags point to is known");
}
