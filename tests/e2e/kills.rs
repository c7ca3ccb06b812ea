//! Rounds of work that a kill ends at a random moment, and what must hold after them.

use crate::catalog::{digest, export, sidecar};
use crate::client::{Client, PATIENCE, eventually};
use crate::durability::unhurried;
use crate::scanner::Promises;
use crate::service::Service;
use crate::sse::{Event, Stream};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

/// One tenant for each form of a scanner's answer.
const TENANTS: [&str; 2] = ["delta", "findings"];

/// Lines of a bulk upload, and uploads of a round: enough that a kill meets one, few enough that runs stay small.
const BULK_LINES: usize = 30;
const BULKS_PER_ROUND: usize = 3;

/// The longest time from a round's beginning to its kill.
const KILL_AFTER_MS_MAX: u64 = 700;

/// What the service has acknowledged, by tenant.
#[derive(Default)]
struct Acknowledged {
    images: BTreeSet<String>,
    deleted: BTreeSet<String>,
    /// Deletions that were asked for and not answered: either is right.
    in_doubt: BTreeSet<String>,
    runs: BTreeSet<String>,
}

#[derive(Default)]
struct Ledger {
    tenants: BTreeMap<&'static str, Acknowledged>,
    exports: BTreeSet<String>,
    /// Exports and runs without an answer: they are sent again as they were.
    unanswered_exports: BTreeSet<String>,
    unanswered_runs: BTreeSet<(&'static str, String)>,
}

/// A service under kills.
pub struct Trial {
    rng: StdRng,
    service: Service,
    promises: Promises,
    ledger: Arc<Mutex<Ledger>>,
    numbers: Arc<AtomicUsize>,
    address: watch::Sender<Option<Client>>,
    heard: BTreeMap<&'static str, Arc<Mutex<Vec<Event>>>>,
    followers: Vec<AbortHandle>,
}

impl Trial {
    pub async fn start(seed: u64) -> Self {
        let promises = Promises::start(Duration::from_millis(4));
        let service = Service::start(unhurried(&promises.server.url())).await;
        let mut trial = Self {
            rng: StdRng::seed_from_u64(seed),
            service,
            promises,
            ledger: Arc::default(),
            numbers: Arc::default(),
            address: watch::Sender::new(None),
            heard: BTreeMap::new(),
            followers: Vec::new(),
        };
        for tenant in TENANTS {
            trial.service.client(tenant).subscribe("all").await;
            let heard: Arc<Mutex<Vec<Event>>> = Arc::default();
            trial.heard.insert(tenant, heard.clone());
            let follower = tokio::spawn(follow(tenant, trial.address.subscribe(), heard));
            trial.followers.push(follower.abort_handle());
        }
        trial.announce();
        trial
    }

    /// Lets the followers know where the service is now.
    fn announce(&self) {
        self.address.send_replace(Some(self.service.client("")));
    }

    /// Works, kills, starts again.
    pub async fn round(&mut self) {
        let mut work = JoinSet::new();
        for tenant in TENANTS {
            let client = self.service.client(tenant);
            work.spawn(ingest(tenant, client.clone(), self.ledger.clone(), self.numbers.clone()));
            work.spawn(deliver(client.clone(), self.ledger.clone(), self.numbers.clone()));
        }
        if self.rng.random_ratio(1, 4) {
            // A kill meets the writing of a whole checkpoint, too.
            let client = self.service.client("delta");
            work.spawn(async move {
                drop(client.try_send(client.request(Method::POST, "/admin/index/rebuild")).await);
            });
        }
        work.spawn(start_runs("delta", self.service.client("delta"), self.ledger.clone(), self.numbers.clone()));
        tokio::time::sleep(Duration::from_millis(self.rng.random_range(0..KILL_AFTER_MS_MAX))).await;
        if self.rng.random_ratio(1, 4) {
            // In the middle of the drain, and of the index's checkpoint.
            self.service.ask_to_end();
            tokio::time::sleep(Duration::from_millis(self.rng.random_range(0..60))).await;
        }
        self.service.kill();
        // Every request ends by itself: its connection is gone.
        while let Some(done) = work.join_next().await {
            done.unwrap();
        }
        while self.rng.random_ratio(1, 4) {
            self.service.begin(&[]);
            tokio::time::sleep(Duration::from_millis(self.rng.random_range(0..150))).await;
            self.service.kill();
        }
        self.service.spawn().await;
        self.announce();
    }

    /// Lets everything end, and checks it.
    pub async fn finish(self) {
        self.resend().await;
        let mut seen: BTreeMap<&str, Vec<(Value, Vec<Value>)>> = BTreeMap::new();
        for tenant in TENANTS {
            let client = self.service.client(tenant);
            eventually("every run to end", async || self.all_ended(&client).await.then_some(())).await;
            let mut runs = Vec::new();
            for run in client.all("/runs").await {
                let outcomes = client.all(&format!("/runs/{}/images", run["id"].as_str().unwrap())).await;
                runs.push((run, outcomes));
            }
            seen.insert(tenant, runs);
        }
        for (tenant, runs) in &seen {
            self.check_catalog(tenant).await;
            self.check_runs(tenant, runs);
            let heard = || self.heard[tenant].lock().clone();
            let mut lacking = check_events(&heard(), runs);
            let deadline = tokio::time::Instant::now() + PATIENCE;
            while lacking.is_err() && tokio::time::Instant::now() < deadline {
                tokio::time::sleep(Duration::from_millis(50)).await;
                lacking = check_events(&heard(), runs);
            }
            assert_eq!(lacking, Ok(()), "{tenant}");
        }
        let informed: BTreeSet<String> = self.promises.informed().into_iter().collect();
        assert_eq!(informed, news(&seen["delta"]), "every delta that the scanner gave stands in one outcome");
        for (digest, findings) in findings_by_image(&seen["findings"]) {
            assert_eq!(findings, 2, "the findings of {digest} are new once");
        }
        let count = |tenant: &str| seen[tenant].iter().map(|(_, outcomes)| outcomes.len()).sum::<usize>();
        println!(
            "{} images, {} runs and {} outcomes (delta), {} runs and {} outcomes (findings), {} exports, {} calls",
            self.numbers.load(Ordering::Relaxed),
            seen["delta"].len(),
            count("delta"),
            seen["findings"].len(),
            count("findings"),
            self.ledger.lock().exports.len(),
            self.promises.server.calls().len(),
        );
        self.followers.iter().for_each(AbortHandle::abort);
    }

    /// Sends again what had no answer.
    async fn resend(&self) {
        let client = self.service.client("delta");
        deliver_unanswered(&client, &self.ledger).await;
        start_unanswered("delta", &client, &self.ledger).await;
        let ledger = self.ledger.lock();
        assert!(ledger.unanswered_exports.is_empty() && ledger.unanswered_runs.is_empty());
    }

    async fn all_ended(&self, client: &Client) -> bool {
        let runs = client.all("/runs").await;
        let planned: BTreeSet<&str> = runs.iter().flat_map(exports_of).collect();
        let all_planned = self.ledger.lock().exports.iter().all(|export| planned.contains(export.as_str()));
        all_planned
            && runs.iter().all(|run| ["completed", "error", "cancelled"].contains(&run["state"].as_str().unwrap()))
    }

    async fn check_catalog(&self, tenant: &'static str) {
        let client = self.service.client(tenant);
        let there: BTreeSet<String> =
            client.all("/images").await.iter().map(|image| image["imageDigest"].as_str().unwrap().to_owned()).collect();
        {
            let mut ledger = self.ledger.lock();
            let known = ledger.tenants.entry(tenant).or_default();
            let expected: BTreeSet<String> = known
                .images
                .difference(&known.in_doubt)
                .filter(|image| !known.deleted.contains(*image))
                .cloned()
                .collect();
            assert_eq!(expected.difference(&there).next(), None, "{tenant}: an acknowledged image is lost");
            assert_eq!(known.deleted.intersection(&there).next(), None, "{tenant}: a deleted image is back");
        }
        let preview = client.post("/preview/impact", &json!({ "keys": ["pkg:npm/common"] })).await;
        assert_eq!(preview.body["candidates"], json!(there.len()), "the index has what the catalog has");
        let verified = client.post("/admin/index/verify", &json!({})).await;
        assert_eq!(verified.body["equal"], true, "P9: {}", verified.text);
    }

    fn check_runs(&self, tenant: &'static str, runs: &[(Value, Vec<Value>)]) {
        let mut ledger = self.ledger.lock();
        let ids: BTreeSet<&str> = runs.iter().map(|(run, _)| run["id"].as_str().unwrap()).collect();
        for id in &ledger.tenants.entry(tenant).or_default().runs {
            assert!(ids.contains(id.as_str()), "{tenant}: the acknowledged run {id} is lost");
        }
        let mut planned: BTreeMap<&str, usize> = BTreeMap::new();
        for (run, outcomes) in runs {
            assert_eq!(run["state"], "completed", "{run}");
            let stats = |name: &str| run["stats"][name].as_u64().unwrap();
            let distinct: BTreeSet<&str> = outcomes.iter().map(|o| o["imageDigest"].as_str().unwrap()).collect();
            assert_eq!(distinct.len(), outcomes.len(), "P4: a second outcome in {run}");
            assert_eq!(outcomes.len() as u64, stats("queued"), "P4: {run}");
            assert_eq!(stats("completed"), stats("queued"), "nothing failed: {run}");
            let deltas = outcomes.iter().filter(|o| o["outcome"] == "delta").count() as u64;
            assert_eq!(deltas, stats("deltas"), "P4: {run}");
            for export in exports_of(run) {
                *planned.entry(export).or_default() += 1;
            }
        }
        assert_eq!(planned.iter().find(|(_, count)| **count != 1), None, "P3: {tenant}: an export in several runs");
        let lost = ledger.exports.iter().find(|export| !planned.contains_key(export.as_str()));
        assert_eq!(lost, None, "{tenant}: an acknowledged export in no run");
    }
}

fn exports_of(run: &Value) -> impl Iterator<Item = &str> {
    run["reason"]["exportIds"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// `<run>:<digest>` of every outcome with news.
fn news(runs: &[(Value, Vec<Value>)]) -> BTreeSet<String> {
    let of_run = |(run, outcomes): &(Value, Vec<Value>)| -> Vec<String> {
        let with_news = outcomes.iter().filter(|outcome| outcome["outcome"] == "delta");
        with_news.map(|o| format!("{}:{}", run["id"].as_str().unwrap(), o["imageDigest"].as_str().unwrap())).collect()
    };
    runs.iter().flat_map(of_run).collect()
}

fn findings_by_image(runs: &[(Value, Vec<Value>)]) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for outcome in runs.iter().flat_map(|(_, outcomes)| outcomes) {
        *sums.entry(outcome["imageDigest"].as_str().unwrap().to_owned()).or_default() +=
            outcome["delta"]["newFindings"].as_u64().unwrap_or_default();
    }
    sums
}

/// Whether the events, heard over any number of connections, are the runs' own: without a gap, each once.
pub fn check_events(events: &[Event], runs: &[(Value, Vec<Value>)]) -> Result<(), String> {
    let numbers: Vec<u64> = events.iter().map(|event| event.id).collect();
    if numbers.iter().zip(1..).any(|(number, expected)| *number != expected) {
        panic!("a gap, a double or a resync in {numbers:?}");
    }
    let mut heard: BTreeMap<&str, usize> = BTreeMap::new();
    let mut last_states: BTreeMap<&str, &str> = BTreeMap::new();
    for event in events {
        *heard.entry(event.cloud_id()).or_default() += 1;
        if event.kind == "run.updated" {
            last_states.insert(event.data["subject"].as_str().unwrap(), event.data["data"]["state"].as_str().unwrap());
        }
    }
    if let Some(double) = heard.iter().find(|(_, count)| **count > 1) {
        panic!("doubled by id: {double:?}");
    }
    let mut images = 0;
    for (run, outcomes) in runs {
        let id = run["id"].as_str().unwrap();
        if last_states.get(id) != run["state"].as_str().as_ref() {
            return Err(format!("the end of run {id} was not heard: {:?}", last_states.get(id)));
        }
        for outcome in outcomes {
            let kind = if outcome["outcome"] == "delta" { "scheduler.rescan.delta" } else { "scheduler.report.ready" };
            let event = format!("{id}:{}:{kind}", outcome["imageDigest"].as_str().unwrap());
            if !heard.contains_key(event.as_str()) {
                return Err(format!("{event} was not heard"));
            }
            images += 1;
        }
    }
    let of_images = events.iter().filter(|event| event.kind != "run.updated").count();
    if of_images == images { Ok(()) } else { Err(format!("{of_images} events of images for {images} outcomes")) }
}

/// Reads a tenant's events from the first on, over every restart.
async fn follow(tenant: &'static str, mut address: watch::Receiver<Option<Client>>, heard: Arc<Mutex<Vec<Event>>>) {
    loop {
        let client = address.borrow_and_update().clone().map(|client| client.of(tenant));
        if let Some(client) = client {
            let after = heard.lock().last().map_or(0, |event| event.id);
            if let Some(mut stream) = Stream::open(&client, Some(after)).await {
                while let Some(event) = stream.next().await {
                    heard.lock().push(event);
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Uploads images and deletes some, until the connection breaks.
async fn ingest(tenant: &'static str, client: Client, ledger: Arc<Mutex<Ledger>>, numbers: Arc<AtomicUsize>) {
    for _ in 0..BULKS_PER_ROUND {
        let first = numbers.fetch_add(BULK_LINES, Ordering::Relaxed);
        let lines: Vec<String> = (first..first + BULK_LINES).map(|number| sidecar(number).to_string()).collect();
        let upload = client.request(Method::POST, "/images/bulk").body(lines.join("\n"));
        let Some(answer) = client.try_send(upload).await else { return };
        assert_eq!(answer.status, 200);
        for line in answer.text.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let taken = line["imageDigest"].as_str().unwrap_or_else(|| panic!("{line}"));
            ledger.lock().tenants.entry(tenant).or_default().images.insert(taken.to_owned());
        }
        let victim = digest(first);
        ledger.lock().tenants.entry(tenant).or_default().in_doubt.insert(victim.clone());
        let delete = client.request(Method::DELETE, &format!("/images/{victim}"));
        let Some(answer) = client.try_send(delete).await else { return };
        assert_eq!(answer.status, 204);
        ledger.lock().tenants.entry(tenant).or_default().deleted.insert(victim);
    }
}

/// Posts exports, until the connection breaks.
async fn deliver(client: Client, ledger: Arc<Mutex<Ledger>>, numbers: Arc<AtomicUsize>) {
    loop {
        let id = format!("export-{}", numbers.fetch_add(1, Ordering::Relaxed));
        ledger.lock().unanswered_exports.insert(id);
        if !deliver_unanswered(&client, &ledger).await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
}

/// Posts what has no answer yet; false when the connection breaks.
async fn deliver_unanswered(client: &Client, ledger: &Mutex<Ledger>) -> bool {
    let open: Vec<String> = ledger.lock().unanswered_exports.iter().cloned().collect();
    for id in open {
        // The content follows from the id, so that sending it again is sending the same.
        let key = format!("pkg:npm/group-{}", id.bytes().map(u32::from).sum::<u32>() % 10);
        let Some(answer) = client.try_send(client.event("feedser", &export(&id, &[key]))).await else { return false };
        assert!([200, 202].contains(&answer.status), "{}", answer.text);
        let mut ledger = ledger.lock();
        ledger.unanswered_exports.remove(&id);
        ledger.exports.insert(id);
    }
    true
}

/// Starts runs by hand, until the connection breaks.
async fn start_runs(tenant: &'static str, client: Client, ledger: Arc<Mutex<Ledger>>, numbers: Arc<AtomicUsize>) {
    loop {
        let key = format!("run-{}", numbers.fetch_add(1, Ordering::Relaxed));
        ledger.lock().unanswered_runs.insert((tenant, key));
        if !start_unanswered(tenant, &client, &ledger).await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(90)).await;
    }
}

async fn start_unanswered(tenant: &'static str, client: &Client, ledger: &Mutex<Ledger>) -> bool {
    let open: Vec<(&str, String)> = ledger.lock().unanswered_runs.iter().cloned().collect();
    for (_, key) in open {
        let body = json!({ "keys": [format!("pkg:npm/group-{}", key.bytes().map(u32::from).sum::<u32>() % 10)], "reason": key });
        let request = client.request(Method::POST, "/run").header("Idempotency-Key", &key).json(&body);
        let Some(answer) = client.try_send(request).await else { return false };
        assert_eq!(answer.status, 202, "{}", answer.text);
        let mut ledger = ledger.lock();
        ledger.unanswered_runs.remove(&(tenant, key));
        let id = answer.body["runId"].as_str().unwrap().to_owned();
        ledger.tenants.entry(tenant).or_default().runs.insert(id);
    }
    true
}
