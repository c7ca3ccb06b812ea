//! A disk without room, and a sync between the write and the answer.

use crate::catalog::{digest, export};
use crate::client::{Client, eventually};
use crate::service::Service;
use scheduler_testkit::disk::Disk;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// A sidecar of about 200 kB that nothing packs well.
fn large(number: usize) -> Value {
    let mut sidecar = crate::catalog::sidecar(number);
    let tag = |at: usize| format!("{:x}", (number * 5000 + at).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    sidecar["image"]["tags"] = (0..10_000).map(tag).collect();
    sidecar
}

async fn has(client: &Client, number: usize) -> bool {
    match client.get(&format!("/images/{}", digest(number))).await.status {
        200 => true,
        404 => false,
        other => panic!("{other} for image {number}"),
    }
}

/// Puts images until three are refused; gives those taken.
async fn put_until_full(client: &Client, numbers: &mut std::ops::RangeFrom<usize>) -> (Vec<usize>, Vec<usize>) {
    let (mut taken, mut refused) = (Vec::new(), Vec::new());
    while refused.len() < 3 {
        let number = numbers.next().unwrap();
        let answer = client.put(&format!("/images/{}/bom-index", digest(number)), &large(number)).await;
        match answer.status {
            201 => taken.push(number),
            503 => {
                assert_eq!(
                    (answer.code(), answer.retry_after().is_some()),
                    ("store-unavailable", true),
                    "{}",
                    answer.text
                );
                refused.push(number);
            }
            _ => panic!("{}", answer.text),
        }
    }
    (taken, refused)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p08_a_full_disk_is_503_loses_nothing_and_heals_when_there_is_room() {
    let Some(disk) = Disk::mount(64) else {
        println!("skipped: no file system can be mounted here");
        return;
    };
    let data = disk.path().join("data");
    let mut service = Service::prepare_at(TempDir::new().unwrap(), data, json!({}));
    service.spawn().await;
    let mut numbers = 1_usize..;
    let mut kept = Vec::new();
    for round in 0..2 {
        let client = service.client("default");
        let filler = disk.fill();
        let (taken, refused) = put_until_full(&client, &mut numbers).await;
        kept.extend(taken);
        for (what, answer) in [
            (
                "an event",
                client.post_event("feedser", &export(&format!("full-{round}"), &["pkg:npm/common".into()])).await,
            ),
            ("a run", client.post("/run", &json!({ "keys": [] })).await),
            ("a schedule", client.post("/schedules", &json!({ "name": format!("full-{round}") })).await),
        ] {
            // A little room may be left for what is small; nothing but these two is right.
            assert!(
                answer.is_success() || (answer.status == 503 && answer.retry_after().is_some()),
                "{what}: {}",
                answer.text
            );
        }
        for &number in &kept {
            assert!(has(&client, number).await, "{number} while the disk is full");
        }
        for &number in &refused {
            assert!(!has(&client, number).await, "{number} was refused");
        }
        let ready = client.get("/readyz").await;
        assert_eq!((ready.status, ready.code()), (503, "store-unavailable"), "{}", ready.text);
        if round == 1 {
            service.kill();
            let said = service.fails_to_start().await;
            let last = said.lines().last().unwrap_or_default();
            assert!(last.starts_with("error: ") && last.contains("is full") && last.contains("make room"), "{said}");
            assert!(!last.contains("IO error"), "the engine's words are no help: {last}");
        }
        std::fs::remove_file(filler).unwrap();
        if round == 0 {
            // Nobody writes; looking at it is enough.
            eventually("writes to be tried again", async || (client.get("/readyz").await.status == 200).then_some(()))
                .await;
        }
        if round == 1 {
            service.spawn().await;
        }
        let client = service.client("default");
        let number = numbers.next().unwrap();
        let put = client.put(&format!("/images/{}/bom-index", digest(number)), &large(number)).await;
        assert_eq!(put.status, 201, "there is room again: {}", put.text);
        kept.push(number);
        for &number in &kept {
            assert!(has(&client, number).await, "{number} after round {round}");
        }
        let preview = client.post("/preview/impact", &json!({ "keys": ["pkg:npm/common"] })).await;
        assert_eq!(preview.body["candidates"], json!(kept.len()));
    }
    let verified = service.client("default").post("/admin/index/verify", &json!({})).await;
    assert_eq!(verified.body["equal"], true, "{}", verified.text);
}

/// The traced calls of all threads, in the order in which they ended; a call that was interrupted in the trace counts where it
/// ends, with its beginning in front.
fn traced(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap();
    // A last line without its end is still being written: it may turn out to be the beginning of a call.
    let text = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let mut begun: HashMap<&str, &str> = HashMap::new();
    let mut calls = Vec::new();
    for line in text.lines() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        if let Some(beginning) = call.strip_suffix("<unfinished ...>") {
            begun.insert(thread, beginning);
        } else if call.starts_with("<... ") {
            calls.push(format!("{}{call}", begun.remove(thread).unwrap_or_default()));
        } else {
            calls.push(call.to_owned());
        }
    }
    calls
}

/// kill -9 cannot show a missing sync; watching the system calls can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p08_the_log_is_synced_before_the_answer() {
    if !Command::new("strace").args(["-o", "/dev/null", "true"]).status().is_ok_and(|status| status.success()) {
        println!("skipped: nothing can be traced here");
        return;
    }
    let folder = TempDir::new().unwrap();
    let trace = folder.path().join("trace");
    let mut service = Service::prepare(json!({}));
    let calls = "trace=fsync,fdatasync,sync_file_range,write,writev,sendto,sendmsg";
    let path = trace.display().to_string();
    service.spawn_as(&["strace", "-f", "-y", "-s", "64", "-e", calls, "-o", &path]).await;
    let client = service.client("default");
    for (what, request) in [
        (
            "PUT bom-index",
            client
                .request(reqwest::Method::PUT, &format!("/images/{}/bom-index", digest(1)))
                .json(&crate::catalog::sidecar(1)),
        ),
        ("POST event", client.event("feedser", &export("e", &["pkg:npm/common".into()]))),
        ("POST run", client.request(reqwest::Method::POST, "/run").json(&json!({ "keys": [] }))),
        ("POST schedule", client.request(reqwest::Method::POST, "/schedules").json(&json!({ "name": "s" }))),
        ("DELETE image", client.request(reqwest::Method::DELETE, &format!("/images/{}", digest(1)))),
    ] {
        let before = traced(&trace).len();
        let answer = client.send(request).await;
        assert!(answer.is_success(), "{what}: {}", answer.text);
        let calls = eventually(what, async || {
            let calls = traced(&trace).split_off(before);
            let answered = calls.iter().position(|call| call.contains("\"HTTP/1.1 2"))?;
            Some(calls[..answered].to_vec())
        })
        .await;
        let log = |call: &&String| call.contains("/store/") && call.contains(".log>");
        let written = calls.iter().position(|call| call.starts_with("write") && log(&call));
        let synced = calls.iter().rposition(|call| call.contains("sync(") && log(&call));
        assert!(written.is_some() && written < synced, "{what} was answered before its sync: {calls:#?}");
    }
}
