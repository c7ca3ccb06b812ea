//! The event stream: resumption, and five hundred readers of whom one never reads.

use crate::catalog::sidecar;
use crate::client::{Client, PATIENCE};
use crate::durability::unhurried;
use crate::scanner::Promises;
use crate::service::Service;
use crate::sse::{Event, Stream};
use reqwest::Method;
use serde_json::{Value, json};
use std::io::Write;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

const READERS: usize = 500;
const IMAGES: usize = 400;

/// What 500 streams may cost, in MiB: about 60 KiB each, most of it hyper's.
const GROWTH_MIB_MAX: u64 = 60;

async fn put_images(client: &Client, count: usize) {
    let lines: Vec<String> = (0..count).map(|number| sidecar(number).to_string()).collect();
    let answer = client.send(client.request(Method::POST, "/images/bulk").body(lines.join("\n"))).await;
    assert_eq!(answer.text.matches("sequence").count(), count, "{}", answer.text);
}

async fn next(stream: &mut Stream) -> Event {
    timeout(PATIENCE, stream.next()).await.unwrap().unwrap()
}

/// Reads until a run has ended; gives the events.
async fn until_ended(stream: &mut Stream, run: &str) -> Vec<Event> {
    let mut events = Vec::new();
    loop {
        let event = next(stream).await;
        let last = event.data["subject"] == *run && event.data["data"]["state"] == "completed";
        events.push(event);
        if last {
            return events;
        }
    }
}

fn numbers(events: &[Event]) -> Vec<u64> {
    events.iter().map(|event| event.id).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_goes_on_after_any_event_without_a_gap_or_a_double() {
    let promises = Promises::start(Duration::ZERO);
    let mut service = Service::start(unhurried(&promises.server.url())).await;
    let client = service.client("default");
    put_images(&client, 300).await;
    let mut live = Stream::open(&client, None).await.unwrap();
    let first = client.start_run(&json!({})).await;
    let heard = until_ended(&mut live, &first).await;
    assert!(heard.len() > 300, "{}", heard.len());
    assert_eq!(numbers(&heard), (1..=heard.len() as u64).collect::<Vec<_>>(), "it starts with what comes next");
    // While the second run goes, a stream is opened after each of many places.
    let second = client.start_run(&json!({})).await;
    let all = until_ended(&mut Stream::open(&client, Some(0)).await.unwrap(), &second).await;
    assert_eq!(numbers(&all), (1..=all.len() as u64).collect::<Vec<_>>());
    for after in [1, 31, 32, 33, 127, 128, 129, all.len() as u64 - 1] {
        let rest = until_ended(&mut Stream::open(&client, Some(after)).await.unwrap(), &second).await;
        assert_eq!(numbers(&rest), (after + 1..=all.len() as u64).collect::<Vec<_>>(), "after {after}");
        assert!(rest.iter().zip(&all[usize::try_from(after).unwrap()..]).all(|(a, b)| a.data == b.data));
    }
    // HOOK-12: what is told again, even by another process, is told in the same bytes.
    service.kill();
    service.spawn().await;
    let client = service.client("default");
    let told = until_ended(&mut Stream::open(&client, Some(0)).await.unwrap(), &second).await;
    assert!(told.iter().zip(&all).all(|(a, b)| (a.id, &a.text) == (b.id, &b.text)) && told.len() == all.len());
    // Without an id, nothing of the past is told: the next event is the first one.
    let mut fresh = Stream::open(&client, None).await.unwrap();
    let third = client.start_run(&json!({ "keys": [] })).await;
    assert_eq!(next(&mut fresh).await.data["subject"], *third);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_an_id_that_is_gone_or_never_was_one_resync_tells_so_and_the_stream_goes_on() {
    let service = Service::start(json!({})).await;
    let client = service.client("default");
    let run = client.start_run(&json!({ "keys": [] })).await;
    client.ended(&run).await;
    for id in ["999999", "18446744073709551615", "-1", "x", ""] {
        let request = client.request(Method::GET, "/events/stream").header("Last-Event-ID", id);
        let mut stream = Stream::of(request).await.unwrap();
        let first = next(&mut stream).await;
        assert_eq!(first.kind, "resync", "after `{id}`");
        let run = client.start_run(&json!({ "keys": [] })).await;
        let second = next(&mut stream).await;
        assert_eq!((second.id, second.data["subject"].as_str()), (first.id + 1, Some(run.as_str())), "after `{id}`");
        let mut last = second;
        while last.data["data"]["state"] != "completed" {
            last = next(&mut stream).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p02_a_stream_tells_of_its_own_tenant_alone() {
    let service = Service::start(json!({})).await;
    let (mine, other) = (service.client("mine"), service.client("other"));
    let mut stream = Stream::open(&mine, None).await.unwrap();
    for _ in 0..5 {
        other.start_run(&json!({ "keys": [] })).await;
    }
    let run = mine.start_run(&json!({ "keys": [] })).await;
    let event = next(&mut stream).await;
    assert_eq!((event.id, event.data["subject"].as_str()), (1, Some(run.as_str())));
}

/// A connection that asks for the stream and never reads it.
fn never_reads(client: &Client) -> std::net::TcpStream {
    let address = client.address().strip_prefix("http://").unwrap().to_owned();
    let mut connection = std::net::TcpStream::connect(address).unwrap();
    let request = "GET /api/v1/scheduler/events/stream HTTP/1.1\r\nHost: x\r\nX-Tenant-Id: default\r\n\r\n";
    connection.write_all(request.as_bytes()).unwrap();
    connection
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p10_five_hundred_streams_and_one_that_never_reads_are_served_promptly_in_bounded_memory() {
    let promises = Promises::start(Duration::ZERO);
    let service = Service::start(unhurried(&promises.server.url())).await;
    let client = service.client("default");
    put_images(&client, IMAGES).await;
    let alone = Instant::now();
    let run = client.start_run(&json!({})).await;
    client.ended(&run).await;
    let alone = alone.elapsed();

    let before = service.resident_mib();
    let _stuck = never_reads(&client);
    let mut readers = JoinSet::new();
    let mut streams = Vec::new();
    for _ in 0..READERS {
        streams.push(Stream::open(&client, None).await.unwrap());
    }
    let began = Instant::now();
    let run = client.start_run(&json!({})).await;
    for mut stream in streams {
        let run = run.clone();
        readers.spawn(async move {
            let events = until_ended(&mut stream, &run).await;
            (numbers(&events), events.len(), began.elapsed())
        });
    }
    let mut answered = Duration::ZERO;
    while client.get(&format!("/runs/{run}")).await.body["state"] != "completed" {
        let asked = Instant::now();
        assert_eq!(client.get("/healthz").await.status, 200);
        answered = answered.max(asked.elapsed());
        assert!(began.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let watched = began.elapsed();
    let mut slowest = Duration::ZERO;
    let mut seen: Option<Vec<u64>> = None;
    while let Some(reader) = readers.join_next().await {
        let (numbers, len, took) = reader.unwrap();
        assert!(len > IMAGES);
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "a gap or a double");
        assert_eq!(seen.get_or_insert_with(|| numbers.clone()), &numbers, "every reader hears the same");
        slowest = slowest.max(took);
    }
    let growth = service.peak_mib().saturating_sub(before);
    println!(
        "alone {alone:?}, watched {watched:?}, last reader {slowest:?}, slowest answer {answered:?}, {growth} MiB more"
    );
    assert!(growth < GROWTH_MIB_MAX, "{growth} MiB more");
    assert!(slowest < Duration::from_secs(30) && answered < Duration::from_secs(5), "{slowest:?}, {answered:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p10_a_reader_that_stops_for_long_gets_everything_when_it_reads_again() {
    let promises = Promises::start(Duration::ZERO);
    let service = Service::start(unhurried(&promises.server.url())).await;
    let client = service.client("default");
    put_images(&client, 500).await;
    let mut stopped = Stream::open(&client, None).await.unwrap();
    let mut last = String::new();
    // More than the socket, the stream and the hub hold together.
    for _ in 0..6 {
        last = client.start_run(&json!({})).await;
        client.ended(&last).await;
    }
    let events = until_ended(&mut stopped, &last).await;
    assert!(events.len() > 3000, "{}", events.len());
    assert_eq!(numbers(&events), (1..=events.len() as u64).collect::<Vec<_>>());
    let kinds: Vec<&Value> = events.iter().map(|event| &event.data["type"]).collect();
    assert_eq!(kinds.iter().filter(|kind| ***kind == "scheduler.rescan.delta").count(), 500);
}
