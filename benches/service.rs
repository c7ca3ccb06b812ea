//! What the service does end to end, measured on the optimised binary from outside, with the bare limit beside it.
//!
//! Prints `figure NAME VALUE UNIT` and `ratio NAME VALUE`, medians of several rounds. `docs/results/service.md` has the method.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    reason = "a benchmark measures real time and stops at the first surprise"
)]

use axum::Router;
use axum::body::Bytes;
use axum::http::header;
use axum::routing::post;
use futures::StreamExt;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use scheduler_auth::{SCHEDULER_SIGNATURE_HEADER, SigningKey};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::net::TcpListener;

const SECRET: &str = "a-secret-for-benchmarks-only";
const NIGHTLY_IMAGES: usize = 50_000;
const PARALLELISM: u32 = 128;
const INGEST_IMAGES: usize = 20_000;
const INGEST_COMPONENTS: usize = 300;
const INGEST_PURLS: u64 = 1_000_000;
const INGEST_LINES: usize = 1000;

/// A scanner of zero latency that knows each digest by its call alone.
struct Scanner {
    url: String,
    calls: Arc<AtomicU64>,
}

impl Scanner {
    async fn start() -> Self {
        let calls = Arc::new(AtomicU64::new(0));
        let counter = calls.clone();
        let report = move |_: Bytes| {
            counter.fetch_add(1, Ordering::Relaxed);
            std::future::ready((
                [(header::CONTENT_TYPE, "application/json")],
                r#"{"verdict":"pass","delta":{"newFindings":0}}"#,
            ))
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, Router::new().route("/reports", post(report))).await });
        Self { url, calls }
    }
}

/// The optimised binary on a folder of its own.
struct Service {
    process: Child,
    url: String,
    client: reqwest::Client,
    _folder: tempfile::TempDir,
}

impl Service {
    async fn start(scanner: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        write_private(&secret, SECRET);
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = json!({ "scheduler": {
            "listen": format!("127.0.0.1:{port}"),
            "dataDir": folder.path().join("data"),
            "limits": { "tenantRatePerSecond": 1_000_000, "defaultRatePerSecond": 100_000, "defaultParallelism": PARALLELISM },
            "events": { "debounceSeconds": 0 },
            "integrates": { "scannerUrl": scanner },
            "webhooks": { "keys": [
                { "id": "bench", "source": "feedser", "algorithm": "hmac-sha256", "secretFile": secret }
            ] },
        } });
        let path = folder.path().join("config.yaml");
        std::fs::write(&path, config.to_string()).unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_stella-scheduler"))
            .args(["--config", path.to_str().unwrap(), "serve"])
            .env("RUST_LOG", "warn")
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let service = Self {
            process,
            url: format!("http://127.0.0.1:{port}"),
            client: reqwest::Client::builder().no_proxy().build().unwrap(),
            _folder: folder,
        };
        while service.client.get(format!("{}/healthz", service.url)).send().await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        service
    }

    fn api(&self, path: &str) -> String {
        format!("{}/api/v1/scheduler{path}", self.url)
    }

    async fn get(&self, path: &str) -> Value {
        self.client.get(self.api(path)).send().await.unwrap().json().await.unwrap()
    }

    async fn post(&self, path: &str, body: &Value) -> Value {
        self.client.post(self.api(path)).body(body.to_string()).send().await.unwrap().json().await.unwrap()
    }

    async fn put_images(&self, count: usize, purls: impl Fn(usize) -> Vec<String>) {
        for start in (0..count).step_by(1000) {
            let lines: Vec<String> = (start..count.min(start + 1000))
                .map(|number| {
                    json!({
                        "schema": "bom-index@1", "imageDigest": digest(number), "purls": purls(number),
                        "image": { "registry": "registry.example.com", "repository": format!("team/app-{}", number % 500) },
                    })
                    .to_string()
                })
                .collect();
            let answer = self.client.post(self.api("/images/bulk")).body(lines.join("\n")).send().await.unwrap();
            assert_eq!(answer.text().await.unwrap().lines().filter(|l| l.contains("sequence")).count(), lines.len());
        }
    }

    async fn export(&self, body: String) -> Duration {
        let key = SigningKey::hmac("bench".parse().unwrap(), SECRET.as_bytes()).unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let header = key.scheduler_header(body.as_bytes(), now);
        let began = Instant::now();
        let request = self.client.post(self.api("/events/feedser-export")).header(SCHEDULER_SIGNATURE_HEADER, header);
        let answer = request.body(body).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 202);
        began.elapsed()
    }

    /// Waits for a run to end and gives its document.
    async fn ended(&self, run: &str) -> Value {
        loop {
            let run = self.get(&format!("/runs/{run}")).await;
            if matches!(run["state"].as_str(), Some("completed" | "error" | "cancelled")) {
                return run;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// How long the process was on a processor.
    fn processor_seconds(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let ticks = fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<f64>().unwrap());
        // A hundred ticks a second on every Linux.
        ticks.sum::<f64>() / 100.0
    }

    /// The most memory that the process ever had, in MB.
    fn peak_megabytes(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Nothing of it is needed any more.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn write_private(path: &Path, text: &str) {
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = std::fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn digest(number: usize) -> String {
    format!("sha256:{number:064x}")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn percentile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * share).round() as usize]
}

/// Report calls a second of a bare loop: the same requests, the same connections, nothing else.
async fn bare_calls_per_second(scanner: &Scanner, calls: usize) -> f64 {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let began = Instant::now();
    let next = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::new();
    for _ in 0..PARALLELISM {
        let (client, url, next) = (client.clone(), format!("{}/reports", scanner.url), next.clone());
        tasks.push(tokio::spawn(async move {
            loop {
                let number = usize::try_from(next.fetch_add(1, Ordering::Relaxed)).unwrap();
                if number >= calls {
                    return;
                }
                let body = json!({ "imageDigest": digest(number), "runId": "bare" }).to_string();
                let answer = client.post(&url).header("Idempotency-Key", "bare").body(body).send().await.unwrap();
                answer.bytes().await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    calls as f64 / began.elapsed().as_secs_f64()
}

async fn nightly() {
    let scanner = Scanner::start().await;
    let service = Service::start(&scanner.url).await;
    service
        .put_images(NIGHTLY_IMAGES, |n| {
            (0..20).map(|p| format!("pkg:npm/package-{}@1.{p}.0", (n + p * 7) % 2000)).collect()
        })
        .await;
    let before = service.peak_megabytes();
    let (mut seconds, mut ratios) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let bare = bare_calls_per_second(&scanner, 20_000).await;
        let asked = scanner.calls.load(Ordering::Relaxed);
        let began = Instant::now();
        let started = service.post("/run", &json!({})).await;
        let run = service.ended(started["runId"].as_str().unwrap()).await;
        let took = began.elapsed().as_secs_f64();
        assert_eq!(run["stats"]["completed"], NIGHTLY_IMAGES);
        assert_eq!(scanner.calls.load(Ordering::Relaxed) - asked, NIGHTLY_IMAGES as u64);
        seconds.push(took);
        ratios.push(NIGHTLY_IMAGES as f64 / took / bare);
        eprintln!("nightly: {took:.2} s, bare loop {bare:.0} calls/s");
    }
    println!("figure nightly-50k {:.2} s", median(seconds));
    println!("figure nightly-50k-rss-growth {:.0} MB", service.peak_megabytes() - before);
    println!("ratio report-calls-vs-bare-http {:.2}", median(ratios));
}

/// Sidecars of 300 packages each, drawn from a million, a thousand to a request.
fn sidecars() -> Vec<String> {
    let mixed = |seed: u64| StdRng::seed_from_u64(seed).random::<u64>();
    let purl = |rank: u64| {
        let (name, version) = (mixed(rank / 8) % 10_000_000, mixed(rank));
        let version = format!("{}.{}.{}", rank % 8, version % 30, version / 30 % 60);
        match name % 3 {
            0 => format!("pkg:npm/lib-{name}@{version}"),
            1 => format!("pkg:deb/debian/lib{name}@{version}-1?arch=amd64"),
            _ => format!("pkg:maven/org.group{}/artifact-{name}@{version}", name % 977),
        }
    };
    let line = |number: usize| {
        let mut random = StdRng::seed_from_u64(number as u64);
        let mut ranks = std::collections::BTreeSet::new();
        while ranks.len() < INGEST_COMPONENTS {
            // By Zipf's law, exponent 1, as the catalog of `benches/src/catalog.rs`.
            ranks.insert((random.random::<f64>() * (INGEST_PURLS as f64 + 1.0).ln()).exp() as u64 - 1);
        }
        let purls: Vec<String> = ranks.into_iter().map(purl).collect();
        let used: Vec<usize> = (0..INGEST_COMPONENTS).filter(|_| random.random_ratio(1, 3)).collect();
        json!({
            "schema": "bom-index@1", "imageDigest": digest(number), "purls": purls, "usedByEntrypoint": used,
            "image": { "registry": "registry.example.com", "repository": format!("team/app-{}", number / 20) },
        })
        .to_string()
    };
    let requests = (0..INGEST_IMAGES).step_by(INGEST_LINES);
    requests.map(|first| (first..first + INGEST_LINES).map(line).collect::<Vec<_>>().join("\n")).collect()
}

/// Images as an operator brings them: sidecars by `POST /images/bulk`, two requests at a time, until all are durable, and until all are in
/// the index.
async fn ingest() {
    let scanner = Scanner::start().await;
    let service = Arc::new(Service::start(&scanner.url).await);
    let requests = sidecars();
    let before = service.processor_seconds();
    let began = Instant::now();
    let mut running = tokio::task::JoinSet::new();
    for body in requests {
        if running.len() >= 2 {
            running.join_next().await.unwrap().unwrap();
        }
        let service = service.clone();
        running.spawn(async move {
            let answer = service.client.post(service.api("/images/bulk")).body(body).send().await.unwrap();
            let answer = answer.text().await.unwrap();
            assert_eq!(answer.lines().filter(|line| line.contains("sequence")).count(), INGEST_LINES);
        });
    }
    while let Some(done) = running.join_next().await {
        done.unwrap();
    }
    let durable = began.elapsed().as_secs_f64();
    loop {
        let index = service.get("/admin/index").await;
        if index["images"] == INGEST_IMAGES {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let indexed = began.elapsed().as_secs_f64();
    let images = INGEST_IMAGES as f64;
    println!("figure ingest-bulk-http-durable {:.0} images/s", images / durable);
    println!("figure ingest-bulk-http {:.0} images/s", images / indexed);
    let processor = service.processor_seconds() - before;
    println!("figure ingest-bulk-http-processor {:.0} us/image", processor / images * 1e6);
}

async fn event_to_verdict() {
    let scanner = Scanner::start().await;
    let service = Service::start(&scanner.url).await;
    service.put_images(1000, |n| vec![format!("pkg:npm/own-{n}@1.0.0"), "pkg:npm/shared@1.0.0".to_owned()]).await;
    service.post("/schedules", &json!({ "name": "bench", "onEvents": ["feedser"] })).await;
    let mut seconds = Vec::new();
    for number in 0..50 {
        let before = scanner.calls.load(Ordering::Relaxed);
        let export =
            json!({ "exportId": format!("e-{number}"), "changedProductKeys": [format!("pkg:npm/own-{number}")] });
        let began = Instant::now();
        service.export(export.to_string()).await;
        // The verdict is there when the run says so.
        loop {
            let runs = service.get("/runs?limit=1").await;
            let run = &runs["items"][0];
            if run["reason"]["feedserExportId"] == format!("e-{number}") && !run["firstVerdictAt"].is_null() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        seconds.push(began.elapsed().as_secs_f64());
        assert!(scanner.calls.load(Ordering::Relaxed) > before);
    }
    println!("figure event-to-verdict-p95 {:.3} s", percentile(seconds.clone(), 0.95));
    println!("figure event-to-verdict-median {:.3} s", median(seconds));
}

async fn webhook() {
    let scanner = Scanner::start().await;
    let service = Service::start(&scanner.url).await;
    let mut millis = Vec::new();
    for round in 0..7 {
        let keys: Vec<String> =
            (0..100_000).map(|n| format!("pkg:deb/debian/package-{}@{round}.{n}", n % 30_000)).collect();
        let body = json!({ "exportId": format!("e-{round}"), "changedProductKeys": keys }).to_string();
        millis.push(service.export(body).await.as_secs_f64() * 1e3);
    }
    println!("figure webhook-100k-keys {:.0} ms", median(millis));
}

/// Tenants that share the schedules, so that the usual limits let all of them begin at once.
const TENANTS: usize = 100;
const SCHEDULES_OF_TENANT: usize = 100;

/// From an instant that 10,000 schedules have in common until the last of their runs is planned, with its image queued. The
/// scanner is asked meanwhile.
async fn schedules_on_one_instant() {
    let scanner = Scanner::start().await;
    let service = Service::start(&scanner.url).await;
    let send = async |tenant: usize, method: reqwest::Method, path: String, body: Value| {
        let request = service.client.request(method, service.api(&path)).header("X-Tenant-Id", format!("t-{tenant}"));
        let answer = request.body(body.to_string()).send().await.unwrap();
        assert!(answer.status().is_success(), "{answer:?}");
    };
    for tenant in 0..TENANTS {
        let image = json!({
            "schema": "bom-index@1", "imageDigest": digest(tenant), "purls": ["pkg:npm/a@1.0.0"],
            "image": { "registry": "registry.example.com", "repository": "team/app" },
        });
        send(tenant, reqwest::Method::PUT, format!("/images/{}/bom-index", digest(tenant)), image).await;
    }
    let create = |number: usize| {
        let body = json!({ "name": format!("s-{number}"), "whenCron": "0,30 * * * * *" });
        send(number % TENANTS, reqwest::Method::POST, "/schedules".to_owned(), body)
    };
    futures::stream::iter(0..TENANTS * SCHEDULES_OF_TENANT).for_each_concurrent(64, create).await;
    let planned = async || -> usize {
        let text = service.client.get(format!("{}/metrics", service.url)).send().await.unwrap().text().await.unwrap();
        let lines = text.lines().filter(|line| line.starts_with("scheduler_jobs_enqueued_total"));
        lines.filter_map(|line| line.rsplit(' ').next()).map(|count| count.parse::<usize>().unwrap()).sum()
    };
    let mut seconds = Vec::new();
    for _ in 0..3 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        let instant = ((now + 2.0) / 30.0).ceil() * 30.0;
        tokio::time::sleep(Duration::from_secs_f64(instant - now - 1.0)).await;
        // What was due before is planned, and what is asked about has ended, or this instant would wait for it.
        let before = planned().await;
        while planned().await < before + TENANTS * SCHEDULES_OF_TENANT {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        seconds.push(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64() - instant);
    }
    println!("figure schedules-10k-one-instant {:.2} s", median(seconds));
}

fn main() {
    // `cargo test` also starts benches; only `cargo bench` measures.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    // By name, some of them; else all.
    let named: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let wanted = |name: &str| named.is_empty() || named.iter().any(|part| name.contains(part.as_str()));
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        if wanted("event-to-verdict") {
            event_to_verdict().await;
        }
        if wanted("webhook") {
            webhook().await;
        }
        if wanted("ingest") {
            ingest().await;
        }
        if wanted("nightly") {
            nightly().await;
        }
        if wanted("schedules") {
            schedules_on_one_instant().await;
        }
    });
}
