//! Senders who are slow, greedy or unknown: what they can hold up, and what they cost.

use crate::catalog::{digest, export, sidecar};
use crate::client::{Client, eventually, sign, unix_now};
use crate::service::Service;
use crate::sse::Stream;
use futures::future::join_all;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A body of nearly the most that is taken.
const LARGE: usize = 30 << 20;

/// A request as it is written, up to some part of its body.
struct Sender(TcpStream);

impl Sender {
    async fn begin(service: &Service, method: &str, path: &str, headers: &str, length: usize) -> Self {
        let mut stream = TcpStream::connect(service.socket()).await.unwrap();
        stream.set_nodelay(true).unwrap();
        stream.write_all(&Self::head(method, path, headers, length)).await.unwrap();
        Self(stream)
    }

    fn head(method: &str, path: &str, headers: &str, length: usize) -> Vec<u8> {
        let line = format!("{method} /api/v1/scheduler{path} HTTP/1.1\r\nhost: localhost\r\n");
        format!("{line}{headers}content-length: {length}\r\n\r\n").into_bytes()
    }

    /// Sends so much; stops when the service does not take it.
    async fn send(&mut self, part: &[u8]) {
        drop(self.0.write_all(part).await);
    }

    /// The head of the answer; empty when the connection ends without one.
    async fn answer(&mut self) -> String {
        let mut answer = Vec::new();
        while !answer.windows(4).any(|window| window == b"\r\n\r\n") {
            let mut part = [0; 1024];
            match self.0.read(&mut part).await {
                Ok(count) if count > 0 => answer.extend_from_slice(&part[..count]),
                _ => break,
            }
        }
        String::from_utf8_lossy(&answer).into_owned()
    }
}

/// Signatures that can be seen to be wrong without the body.
fn hopeless() -> Vec<(&'static str, String)> {
    let signed = |key: &str, time: u64| sign(key, b"", time);
    let header = |value: String| format!("x-scheduler-signature: {value}\r\n");
    vec![
        ("no signature", String::new()),
        ("unreadable", header("nonsense".to_owned())),
        ("unknown key", header(signed("nobody", unix_now()))),
        ("another source's key", header(signed("vexer-1", unix_now()))),
        ("stale", header(signed("feedser-1", unix_now() - 3600))),
        ("ahead", header(signed("feedser-1", unix_now() + 3600))),
        ("no base64", header(format!("keyId=feedser-1,t={},alg=hmac-sha256,sig=?", unix_now()))),
        ("standard, stale", "webhook-id: 1\r\nwebhook-timestamp: 1000\r\nwebhook-signature: v1,AAAA\r\n".to_owned()),
    ]
}

/// HOOK: who cannot be let in is told so before the body, and costs nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p10_a_hopeless_delivery_is_401_before_its_body_and_takes_no_memory() {
    let service = Service::start(json!({})).await;
    for (what, headers) in hopeless() {
        let mut sender = Sender::begin(&service, "POST", "/events/feedser-export", &headers, LARGE).await;
        let answer = sender.answer().await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{what}: {answer}");
    }
    // Those who send first and read afterwards get their answer too.
    let before = service.peak_mib();
    let body = vec![b' '; LARGE];
    let all: Vec<_> = hopeless().into_iter().cycle().take(40).collect();
    join_all(all.iter().map(async |(what, headers)| {
        let mut sender = Sender::begin(&service, "POST", "/events/feedser-export", headers, LARGE).await;
        sender.send(&body).await;
        let answer = sender.answer().await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{what}: {answer}");
    }))
    .await;
    let grown = service.peak_mib() - before;
    println!("40 hopeless deliveries of 30 MiB added {grown} MiB");
    assert!(grown < 60, "{grown} MiB");
}

/// What many large bodies hold at once is bounded; who finds no room is told when to come back, and no other caller is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p10_bytes_of_bodies_that_are_held_are_bounded_for_all_and_for_each() {
    let service = Service::start(json!({})).await;
    let body = vec![b' '; LARGE - 1];
    let image = format!("/images/{}/bom-index", digest(1));
    let signature = format!("x-scheduler-signature: {}\r\n", sign("feedser-1", b"", unix_now()));
    let routes = [
        ("POST", "/events/feedser-export", signature.as_str()),
        ("POST", "/run", "x-tenant-id: one\r\n"),
        ("POST", "/preview/impact", "x-tenant-id: one\r\n"),
        ("PUT", image.as_str(), "x-tenant-id: one\r\n"),
        ("POST", "/images/bulk", "x-tenant-id: two\r\n"),
    ];
    let before = service.peak_mib();
    // All but the last byte of each.
    let senders = routes.iter().cycle().take(40).map(async |&(method, path, headers)| {
        let mut sender = Sender::begin(&service, method, path, headers, LARGE).await;
        sender.send(&body).await;
        sender
    });
    let other = async {
        let client = service.client("other");
        let mut large = sidecar(2);
        large["note"] = "x".repeat(20 << 20).into();
        let put = client.put(&format!("/images/{}/bom-index", digest(2)), &large).await;
        assert_eq!(put.status, 201, "{}", put.text);
    };
    let (mut senders, ()) = tokio::join!(join_all(senders), other);
    let grown = service.peak_mib() - before;
    println!("40 bodies of 30 MiB added {grown} MiB");
    assert!(grown < 450, "{grown} MiB");
    let answers = join_all(senders.iter_mut().map(async |sender| {
        sender.send(b" ").await;
        sender.answer().await
    }))
    .await;
    let busy = answers.iter().filter(|answer| answer.starts_with("HTTP/1.1 503")).count();
    assert!(busy >= 16, "{answers:?}");
    for answer in answers {
        let told = answer.starts_with("HTTP/1.1 503") && answer.contains("\r\nretry-after: ");
        assert!(
            told || ["200", "202", "400", "401"].iter().any(|status| answer.starts_with(&format!("HTTP/1.1 {status}"))),
            "{answer}"
        );
    }
    // The room is free again.
    let delivered = service.client("one").post_event("feedser", &export("after", &["pkg:npm/a".into()])).await;
    assert_eq!(delivered.status, 202, "{}", delivered.text);
}

/// A large CycloneDX document.
fn sbom() -> String {
    let filler = "x".repeat(5 << 20);
    format!(
        r#"{{"bomFormat":"CycloneDX","specVersion":"1.5","filler":"{filler}","components":[{{"purl":"pkg:npm/a@1"}}]}}"#
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p10_a_tenant_that_sends_large_sboms_slowly_holds_up_no_other() {
    let service = Service::start(json!({})).await;
    let document = sbom();
    let path = |number: usize| format!("/images/{}/sbom?repository=shop/a", digest(number));
    // More than are read at once; all of them wait for their senders.
    let slow = join_all((0..8).map(async |number| {
        let mut sender = Sender::begin(&service, "PUT", &path(number), "x-tenant-id: slow\r\n", document.len()).await;
        sender.send(&document.as_bytes()[..document.len() - 1000]).await;
        sender
    }))
    .await;
    let other = service.client("other");
    let put = other.send(other.request(reqwest::Method::PUT, &path(20)).body(document.clone())).await;
    assert_eq!(put.status, 201, "{}", put.text);
    // Half of the slow ones have a reader; the others are told to come again, and so is a ninth.
    let mine = service.client("slow");
    let put = mine.send(mine.request(reqwest::Method::PUT, &path(21)).body(document.clone())).await;
    assert_eq!((put.status, put.code(), put.retry_after().is_some()), (503, "busy", true), "{}", put.text);
    let answers = join_all(slow.into_iter().map(async |mut sender| {
        sender.send(&document.as_bytes()[document.len() - 1000..]).await;
        sender.answer().await
    }))
    .await;
    let with = |status: &str| answers.iter().filter(|answer| answer.starts_with(&format!("HTTP/1.1 {status}"))).count();
    assert_eq!((with("201"), with("503")), (4, 4), "{answers:?}");
    let put = mine.send(mine.request(reqwest::Method::PUT, &path(21)).body(document)).await;
    assert_eq!(put.status, 201, "{}", put.text);
}

/// Starts the service where a process may have so many files open, and may raise that to so many.
async fn with_files(soft: u32, hard: u32) -> Service {
    let mut service = Service::prepare(json!({}));
    let limits = format!("ulimit -Sn {soft} && ulimit -Hn {hard} && exec \"$0\" \"$@\"");
    service.spawn_as(&["sh", "-c", &limits]).await;
    service
}

#[tokio::test]
async fn p10_the_process_takes_as_many_files_as_it_may() {
    let service = with_files(64, 700).await;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", service.pid())).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(files.split_whitespace().nth(3), Some("700"), "{files}");
}

/// Half of the files are for connections; who comes then is told so at once, and the service goes on.
#[tokio::test]
async fn p10_idle_connections_do_not_use_the_files_up() {
    let service = with_files(256, 256).await;
    let mut open = Vec::new();
    for _ in 0..128 {
        open.push(TcpStream::connect(service.socket()).await.unwrap());
    }
    let refused = eventually("all places to be taken", async || {
        let answer = Client::new(service.client("a").address(), "a").try_get("/runs").await?;
        (answer.status == 503).then_some(answer)
    })
    .await;
    assert_eq!((refused.code(), refused.retry_after().is_some()), ("busy", true), "{}", refused.text);
    // Far more than there are files.
    for _ in 0..300 {
        let mut sender = Sender::begin(&service, "GET", "/runs", "", 0).await;
        let answer = sender.answer().await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 503"), "{answer}");
    }
    open.clear();
    eventually("places to be free again", async || {
        let answer = Client::new(service.client("a").address(), "a").try_get("/runs").await?;
        (answer.status == 200).then_some(())
    })
    .await;
    let put = service.client("a").put(&format!("/images/{}/bom-index", digest(1)), &sidecar(1)).await;
    assert_eq!(put.status, 201, "{}", put.text);
}

#[tokio::test]
async fn p10_a_tenant_has_its_part_of_the_streams() {
    // 128 connections, 64 streams, 16 of a tenant.
    let service = with_files(256, 256).await;
    let (greedy, other) = (service.client("greedy"), service.client("other"));
    let mut streams = Vec::new();
    for number in 0..16 {
        streams.push(Stream::open(&greedy, None).await.unwrap_or_else(|| panic!("stream {number}")));
    }
    let refused = greedy.get("/events/stream").await;
    assert_eq!((refused.status, refused.code(), refused.retry_after().is_some()), (503, "too-many-streams", true));
    assert!(Stream::open(&other, None).await.is_some());
    streams.pop();
    eventually("its place to be free", async || Stream::open(&greedy, None).await).await;
}

/// A whole answer of a connection that stays open: its head.
async fn whole_answer(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&answer).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if body.len() == length.parse::<usize>().unwrap() {
                return head.to_owned();
            }
        }
        let mut part = [0; 4096];
        let count = stream.read(&mut part).await.unwrap();
        assert!(count > 0, "the connection ends after {text:?}");
        answer.extend_from_slice(&part[..count]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_before_the_body_costs_no_connection() {
    let service = Service::start(json!({})).await;
    for (method, path, headers) in [
        ("POST", "/events/nobody", ""),
        ("POST", "/schedules", "x-tenant-id: bad tenant!\r\n"),
        ("PUT", "/runs", ""),
        ("POST", "/run", "content-type: text/plain\r\n"),
        ("PUT", "/images/zz/sbom", ""),
        ("DELETE", "/images/zz", ""),
        ("POST", "/events/feedser-export", ""),
    ] {
        let mut stream = Sender::begin(&service, method, path, headers, 7).await.0;
        for round in 0..60 {
            stream.write_all(b"{\"a\":1}").await.unwrap();
            let answer = whole_answer(&mut stream).await;
            assert!(answer.starts_with("HTTP/1.1 4"), "{method} {path} in round {round}: {answer}");
            stream.write_all(&Sender::head(method, path, headers, 7)).await.unwrap();
        }
    }
}
