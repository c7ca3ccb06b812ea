//! Every limit of the interface, on both sides; and that a tenant at its limit is alone with it.

use crate::catalog::{digest, export, sidecar};
use crate::client::{Answer, Client, eventually};
use crate::service::Service;
use reqwest::Method;
use serde_json::{Value, json};
use std::io::Write;

/// Bytes that a body may have in these tests.
const BODY_MAX: usize = 4096;

async fn serve(limits: Value) -> Service {
    Service::start(json!({ "limits": limits, "events": { "debounceSeconds": 3600 } })).await
}

fn keys(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("pkg:npm/key-{number}")).collect()
}

/// A refusal says its code, and when to come back if that helps.
fn refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.code()), (status, code), "{}", answer.text);
    assert_eq!(answer.headers["content-type"], "application/problem+json");
    assert_eq!(answer.retry_after().is_some(), [429, 503].contains(&status), "{}", answer.text);
}

/// PACE-11: none, one, the limit and one more.
#[tokio::test]
async fn max_keys_per_event_holds_for_each_list() {
    let service = serve(json!({ "maxKeysPerEvent": 5 })).await;
    let client = service.client("default");
    let changes = |count: usize| -> Vec<Value> {
        keys(count).iter().map(|key| json!({ "productKey": key, "vulnId": "CVE-2026-1", "severity": "low" })).collect()
    };
    let claims = |count: usize| -> Vec<Value> {
        let claim = |key: &String| json!({ "productKey": key, "vulnId": "CVE-2026-1", "status": "none→affected" });
        keys(count).iter().map(claim).collect()
    };
    let kev: Vec<String> = (0..6).map(|number| format!("CVE-2026-{number}")).collect();
    for (source, body, status) in [
        ("feedser", json!({ "exportId": "k0", "changedProductKeys": [] }), 400),
        ("feedser", json!({ "exportId": "k1", "changedProductKeys": keys(1) }), 202),
        (
            "feedser",
            json!({ "exportId": "k5", "changedProductKeys": keys(5), "changes": changes(5), "kev": kev[..5] }),
            202,
        ),
        ("feedser", json!({ "exportId": "k6", "changedProductKeys": keys(6) }), 413),
        ("feedser", json!({ "exportId": "c6", "changedProductKeys": keys(1), "changes": changes(6) }), 413),
        ("feedser", json!({ "exportId": "v6", "changedProductKeys": keys(1), "kev": kev }), 413),
        ("vexer", json!({ "exportId": "x0", "changedClaims": [] }), 400),
        ("vexer", json!({ "exportId": "x5", "changedClaims": claims(5) }), 202),
        ("vexer", json!({ "exportId": "x6", "changedClaims": claims(6) }), 413),
    ] {
        let answer = client.post_event(source, &body).await;
        assert_eq!(answer.status, status, "{}: {}", body["exportId"], answer.text);
        if status == 413 {
            refused(&answer, 413, "too-many-keys");
        }
    }
}

/// A JSON object of exactly so many bytes: blanks fill it up.
fn padded(body: &Value, bytes: usize) -> Vec<u8> {
    let mut text = body.to_string().into_bytes();
    assert!(text.len() <= bytes, "{} bytes do not fit", text.len());
    text.resize(bytes, b' ');
    text
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// As sent, and packed in either way.
fn forms(content: &[u8]) -> [(Option<&'static str>, Vec<u8>); 3] {
    let zstd = zstd::encode_all(content, 3).unwrap();
    [(None, content.to_vec()), (Some("gzip"), gzip(content)), (Some("zstd"), zstd)]
}

fn with_body(
    client: &Client,
    method: Method,
    path: &str,
    encoding: Option<&str>,
    body: Vec<u8>,
) -> reqwest::RequestBuilder {
    let mut request = client.request(method, path).header("content-type", "application/json");
    if let Some(encoding) = encoding {
        request = request.header("content-encoding", encoding);
    }
    request.body(body)
}

#[tokio::test]
async fn max_body_bytes_holds_as_sent_and_after_decompression() {
    let service = serve(json!({ "maxBodyBytes": BODY_MAX })).await;
    let client = service.client("default");
    let cyclonedx =
        json!({ "bomFormat": "CycloneDX", "specVersion": "1.5", "components": [{ "purl": "pkg:npm/a@1" }] });
    let sbom = format!("/images/{}/sbom?repository=shop/a", digest(1));
    let bom_index = format!("/images/{}/bom-index", digest(2));
    for (method, path, body) in [
        (Method::POST, "/preview/impact", json!({})),
        (Method::POST, "/run", json!({ "keys": [] })),
        (Method::PUT, &sbom, cyclonedx),
        (Method::PUT, &bom_index, sidecar(2)),
    ] {
        for (encoding, packed) in forms(&padded(&body, BODY_MAX)) {
            let answer = client.send(with_body(&client, method.clone(), path, encoding, packed)).await;
            assert!(answer.is_success(), "{path} {encoding:?}: {}", answer.text);
        }
        for (encoding, packed) in forms(&padded(&body, BODY_MAX + 1)) {
            assert!(encoding.is_none() || packed.len() < BODY_MAX / 2, "it is over the limit by decompression alone");
            let answer = client.send(with_body(&client, method.clone(), path, encoding, packed)).await;
            refused(&answer, 413, "body-too-large");
        }
    }
    // A schedule has a name of its own each time.
    for (length, status) in [(BODY_MAX, 201), (BODY_MAX + 1, 413)] {
        let body = padded(&json!({ "name": format!("s-{length}") }), length);
        assert_eq!(client.send(with_body(&client, Method::POST, "/schedules", None, body)).await.status, status);
    }
}

#[tokio::test]
async fn max_body_bytes_does_not_hold_what_a_length_does_not_announce() {
    let service = serve(json!({ "maxBodyBytes": BODY_MAX })).await;
    let client = service.client("default");
    for (length, status) in [(BODY_MAX, 200), (BODY_MAX + 1, 413)] {
        let parts =
            padded(&json!({}), length).chunks(1000).map(|part| Ok(part.to_vec())).collect::<Vec<std::io::Result<_>>>();
        let body = reqwest::Body::wrap_stream(futures::stream::iter(parts));
        let answer = client.send(client.request(Method::POST, "/preview/impact").body(body)).await;
        assert_eq!(answer.status, status, "{}", answer.text);
    }
}

#[tokio::test]
async fn max_body_bytes_holds_for_events_and_for_each_line_of_a_bulk_upload() {
    let service = serve(json!({ "maxBodyBytes": BODY_MAX })).await;
    let client = service.client("default");
    for (length, status) in [(BODY_MAX, 202), (BODY_MAX + 1, 413)] {
        for (encoding, packed) in forms(&padded(&export(&format!("e-{length}"), &keys(1)), length)) {
            let signature = crate::client::sign("feedser-1", &packed, crate::client::unix_now());
            let request = with_body(&client, Method::POST, "/events/feedser-export", encoding, packed);
            let answer = client.send(request.header("x-scheduler-signature", signature)).await;
            // The same content again, packed otherwise, is the same delivery.
            let expected = if status == 202 && encoding.is_some() { 200 } else { status };
            assert_eq!(answer.status, expected, "{encoding:?}: {}", answer.text);
        }
    }
    let lines =
        [padded(&sidecar(1), BODY_MAX), padded(&sidecar(2), BODY_MAX + 1), padded(&sidecar(3), BODY_MAX)].join(&b'\n');
    assert!(lines.len() > BODY_MAX * 3, "the upload itself has no such limit");
    for (encoding, packed) in forms(&lines) {
        let answer = client.send(with_body(&client, Method::POST, "/images/bulk", encoding, packed)).await;
        let answers: Vec<Value> = answer.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(answers.len(), 3, "{}", answer.text);
        assert_eq!((&answers[0]["imageDigest"], &answers[2]["imageDigest"]), (&json!(digest(1)), &json!(digest(3))));
        assert_eq!((&answers[1]["line"], &answers[1]["status"]), (&json!(2), &json!(413)));
    }
}

#[tokio::test]
async fn a_bulk_upload_has_a_hundred_thousand_lines_and_what_is_over_is_named() {
    let service = serve(json!({})).await;
    let client = service.client("default");
    for (blanks, status) in [(99_999, 200), (100_000, 413)] {
        let upload = "\n".repeat(blanks) + &sidecar(blanks).to_string() + "\n" + &sidecar(1).to_string();
        let answer = client.send(client.request(Method::POST, "/images/bulk").body(upload)).await;
        let answers: Vec<Value> = answer.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let last = answers.last().unwrap();
        assert_eq!(
            (last["status"].as_u64(), &last["problem"]["code"]),
            (Some(413), &json!("too-many-lines")),
            "{last}"
        );
        assert_eq!(last["line"], 100_001, "the first one over the limit is named, and ends the upload");
        let there = client.get(&format!("/images/{}", digest(blanks))).await.status;
        assert_eq!(there, if status == 200 { 200 } else { 404 });
        assert_eq!(answers.len(), if status == 200 { 2 } else { 1 });
    }
}

#[tokio::test]
async fn blank_lines_of_a_bulk_upload_count_as_lines_and_get_no_answer() {
    let service = serve(json!({})).await;
    let client = service.client("default");
    let (one, two) = (sidecar(1).to_string(), sidecar(2).to_string());
    for (upload, expected) in [
        // The end of the last line is no further line, and what has no line has no answer.
        (String::new(), vec![]),
        ("\n".to_owned(), vec![]),
        (" \t\r\n\n".to_owned(), vec![]),
        (format!("{one}\n"), vec![Ok(1)]),
        (format!("{one}\r\n\r\n{two}\r\n"), vec![Ok(1), Ok(2)]),
        // A mistake is told with the number of its line as an editor has it.
        (format!("\n{one}\n \t\n{{\n\r\n{two}\n{{}}"), vec![Ok(1), Err(4), Ok(2), Err(7)]),
    ] {
        for (encoding, packed) in forms(upload.as_bytes()) {
            let answer = client.send(with_body(&client, Method::POST, "/images/bulk", encoding, packed)).await;
            assert_eq!(answer.status, 200, "{upload:?}: {}", answer.text);
            let answers: Vec<Value> = answer.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let told: Vec<Result<Value, u64>> = answers
                .iter()
                .map(|one| one["line"].as_u64().map_or_else(|| Ok(one["imageDigest"].clone()), Err))
                .collect();
            let expected: Vec<_> = expected.iter().map(|one| one.map(|number| json!(digest(number)))).collect();
            assert_eq!(told, expected, "{upload:?} as {encoding:?}");
            assert!(answers.iter().all(|one| one["line"].is_null() || one["status"] == 400), "{}", answer.text);
        }
    }
}

/// Images of a tenant in one upload.
async fn put_images(client: &Client, count: usize) {
    let lines: Vec<String> = (0..count).map(|number| sidecar(number).to_string()).collect();
    let answer = client.send(client.request(Method::POST, "/images/bulk").body(lines.join("\n"))).await;
    assert_eq!(answer.text.matches("sequence").count(), count, "{}", answer.text);
}

#[tokio::test]
async fn max_active_runs_is_counted_for_each_tenant_alone() {
    // Nothing listens at the scanner's address: runs that have images stay.
    let service = serve(json!({ "maxActiveRunsPerTenant": 2 })).await;
    let (busy, other) = (service.client("busy"), service.client("other"));
    put_images(&busy, 1).await;
    put_images(&other, 1).await;
    let first = busy.start_run(&json!({})).await;
    busy.start_run(&json!({})).await;
    let refusal = busy.post("/run", &json!({})).await;
    refused(&refusal, 429, "limit-reached");
    assert!(refusal.text.contains("maxActiveRunsPerTenant"), "{}", refusal.text);
    other.start_run(&json!({})).await;
    other.start_run(&json!({})).await;
    assert_eq!(busy.post(&format!("/runs/{first}/cancel"), &json!({})).await.status, 202);
    busy.ended(&first).await;
    busy.start_run(&json!({})).await;
    refused(&busy.post("/run", &json!({})).await, 429, "limit-reached");
}

#[tokio::test]
async fn a_repeated_request_is_answered_with_its_run_even_at_the_limit_and_starts_no_other() {
    let service = serve(json!({ "maxActiveRunsPerTenant": 1 })).await;
    let client = service.client("busy");
    put_images(&client, 1).await;
    let keyed = |key: &str| client.request(Method::POST, "/run").header("Idempotency-Key", key).json(&json!({}));
    let first = client.send(keyed("a")).await;
    assert_eq!(first.status, 202);
    assert_eq!(client.send(keyed("a")).await.body["runId"], first.body["runId"]);
    refused(&client.send(keyed("b")).await, 429, "limit-reached");
}

#[tokio::test]
async fn max_backlog_is_counted_in_images_for_each_tenant_alone() {
    let service = serve(json!({ "maxBacklogPerTenant": 5 })).await;
    let (busy, other) = (service.client("busy"), service.client("other"));
    put_images(&busy, 4).await;
    put_images(&other, 4).await;
    let first = busy.start_run(&json!({})).await;
    busy.run_in(&first, &["queued", "running"]).await;
    // Four of five: one more run may begin, and takes it over the limit.
    let second = busy.start_run(&json!({})).await;
    busy.run_in(&second, &["queued", "running"]).await;
    let refusal = busy.post("/run", &json!({})).await;
    refused(&refusal, 429, "limit-reached");
    assert!(refusal.text.contains("maxBacklogPerTenant"), "{}", refusal.text);
    let run = other.start_run(&json!({})).await;
    other.run_in(&run, &["queued", "running"]).await;
    assert_eq!(busy.post(&format!("/runs/{first}/cancel"), &json!({})).await.status, 202);
    busy.ended(&first).await;
    busy.start_run(&json!({})).await;
}

#[tokio::test]
async fn max_inbox_events_counts_what_is_not_planned_and_duplicates_pass() {
    let service = serve(json!({ "maxInboxEvents": 2 })).await;
    let client = service.client("default");
    let id = client.subscribe("all").await;
    // The first one is planned at once; those after it wait for the window's end.
    assert_eq!(client.post_event("feedser", &export("e0", &keys(1))).await.status, 202);
    eventually("the first export to be planned", async || {
        (!client.all(&format!("/runs?scheduleId={id}")).await.is_empty()).then_some(())
    })
    .await;
    for export_id in ["e1", "e2"] {
        assert_eq!(client.post_event("feedser", &export(export_id, &keys(1))).await.status, 202);
    }
    let refusal = client.post_event("feedser", &export("e3", &keys(1))).await;
    refused(&refusal, 429, "limit-reached");
    assert_eq!(client.post_event("feedser", &export("e2", &keys(1))).await.body["status"], "duplicate");
    // Planning what waits makes room: what was refused is taken.
    let kev = json!({ "exportId": "e2", "changedProductKeys": keys(2), "kev": ["CVE-2026-1"] });
    assert_eq!(client.post_event("feedser", &kev).await.body["status"], "superseded");
    eventually("room in the inbox", async || {
        (client.post_event("feedser", &export("e3", &keys(1))).await.status == 202).then_some(())
    })
    .await;
}

#[tokio::test]
async fn pages_have_1_to_500_items_and_a_walk_sees_each_once() {
    let service = serve(json!({})).await;
    let client = service.client("default");
    put_images(&client, 7).await;
    for number in 0..3 {
        client.subscribe(&format!("schedule-{number}")).await;
        client.start_run(&json!({})).await;
    }
    let run = client.start_run(&json!({})).await;
    client.run_in(&run, &["queued", "running"]).await;
    client.post(&format!("/runs/{run}/cancel"), &json!({})).await;
    client.ended(&run).await;
    let of_run = format!("/runs/{run}/images");
    let lists = [("/images", 7), ("/schedules", 3), ("/runs", 4), (of_run.as_str(), 7)];
    for (path, count) in lists {
        for limit in ["0", "501", "-1", "x", ""] {
            refused(&client.get(&format!("{path}?limit={limit}")).await, 400, "bad-input");
        }
        refused(&client.get(&format!("{path}?cursor=%21")).await, 400, "bad-input");
        assert_eq!(client.get(&format!("{path}?limit=500")).await.body["items"].as_array().unwrap().len(), count);
        let mut seen = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = client.get(&format!("{path}?limit=1{cursor}")).await.body;
            assert!(page["items"].as_array().unwrap().len() <= 1);
            seen.extend(page["items"].as_array().unwrap().iter().map(Value::to_string));
            let Some(next) = page["nextCursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(seen.len(), count, "{path}");
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), count, "{path}");
        for (other, _) in lists.into_iter().filter(|(other, _)| *other != path) {
            refused(&client.get(&format!("{other}?limit=1{cursor}")).await, 400, "bad-input");
        }
    }
}

#[tokio::test]
async fn texts_and_numbers_of_requests_are_bounded() {
    let service = serve(json!({})).await;
    let client = service.client("default");
    let text = |length: usize| "x".repeat(length);
    for (body, status) in [
        (json!({ "sampleSize": 0 }), 200),
        (json!({ "sampleSize": 500 }), 200),
        (json!({ "sampleSize": 501 }), 400),
        (json!({ "sampleSize": -1 }), 400),
    ] {
        assert_eq!(client.post("/preview/impact", &body).await.status, status, "{body}");
    }
    for (body, status) in [
        (json!({ "name": "" }), 400),
        (json!({ "name": "é".repeat(200) }), 201),
        (json!({ "name": text(201) }), 400),
        (json!({ "name": "jitter", "jitterSeconds": 86_400 }), 201),
        (json!({ "name": "more jitter", "jitterSeconds": 86_401 }), 400),
        (
            json!({ "name": "most", "limits": { "maxJobs": 10_000_000, "ratePerSecond": 100_000, "parallelism": 10_000 } }),
            201,
        ),
        (json!({ "name": "jobs", "limits": { "maxJobs": 10_000_001 } }), 400),
        (json!({ "name": "rate", "limits": { "ratePerSecond": 100_001 } }), 400),
        (json!({ "name": "slots", "limits": { "parallelism": 10_001 } }), 400),
        (json!({ "name": "none", "limits": { "maxJobs": 0 } }), 400),
    ] {
        let answer = client.post("/schedules", &body).await;
        assert_eq!(answer.status, status, "{}", answer.text);
    }
    for (body, status) in [(json!({ "reason": text(1000) }), 202), (json!({ "reason": text(1001) }), 400)] {
        assert_eq!(client.post("/run", &body).await.status, status);
    }
    for (length, status) in [(1, 202), (255, 202), (256, 400)] {
        let request = client.request(Method::POST, "/run").header("Idempotency-Key", text(length)).json(&json!({}));
        assert_eq!(client.send(request).await.status, status, "a key of {length}");
    }
    for (length, status) in [(0, 400), (256, 202), (257, 400)] {
        let answer = client.post_event("feedser", &export(&text(length), &keys(1))).await;
        assert_eq!(answer.status, status, "an export id of {length}: {}", answer.text);
    }
    for (length, status) in [(64, 200), (65, 400)] {
        assert_eq!(service.client(&text(length)).get("/runs").await.status, status, "a tenant of {length}");
    }
    let schedule = client.post("/schedules", &json!({ "name": "cron", "whenCron": "* * * * *" })).await;
    let id = schedule.body["id"].as_str().unwrap();
    for (count, status) in [("0", 400), ("1", 200), ("500", 200), ("501", 400)] {
        let answer = client.get(&format!("/schedules/{id}/next?count={count}")).await;
        assert_eq!(answer.status, status, "{count} instants");
        if status == 200 {
            assert_eq!(answer.body["items"].as_array().unwrap().len().to_string(), count);
        }
    }
}

#[tokio::test]
async fn max_jobs_cuts_a_run_and_counts_what_it_left() {
    let service = serve(json!({ "maxJobsPerRun": 3 })).await;
    for (tenant, images, queued, spilled) in [("at", 3, 3, 0), ("over", 4, 3, 1)] {
        let client = service.client(tenant);
        put_images(&client, images).await;
        let id = client.start_run(&json!({})).await;
        let run = client.run_in(&id, &["queued", "running"]).await;
        assert_eq!((&run["stats"]["queued"], &run["stats"]["spilled"]), (&json!(queued), &json!(spilled)), "{tenant}");
    }
}

#[tokio::test]
async fn an_image_that_waits_longer_than_the_deadline_is_skipped() {
    let service = serve(json!({ "deadlineSeconds": 1 })).await;
    let client = service.client("default");
    put_images(&client, 2).await;
    let id = client.start_run(&json!({})).await;
    let run = client.ended(&id).await;
    assert_eq!((&run["state"], &run["stats"]["skipped"]), (&json!("completed"), &json!(2)));
    let outcomes = client.all(&format!("/runs/{id}/images")).await;
    assert!(outcomes.iter().all(|outcome| outcome["reason"] == "expired"), "{outcomes:?}");
}
