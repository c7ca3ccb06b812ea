//! A whole service but for its edges, in one thread.

use crate::store::SwitchedStore;
use scheduler_core::launch::{self, ManualRequest, RunDefaults};
use scheduler_core::ports::{
    Accepted, CatalogStore, Clock, EventStore, Ids, Random, RunFilter, RunStore, ScheduleStore, Store,
};
use scheduler_model::{
    ChangedKey, Export, Image, Outcome, OutcomeResult, Priority, Run, RunLimits, Schedule, Source, TenantId, Timestamp,
};
use scheduler_queue::EmbeddedQueue;
use scheduler_scanner::LocalPacer;
use scheduler_store::EmbeddedStore;
use scheduler_testkit::scanner::ScriptedScanner;
use scheduler_testkit::store::build::{alpha, at, digest, export, id, image};
use scheduler_worker::{Fleet, IndexHost, Planner, Services, Settings, runner};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What a test waits for comes within so long, or never.
const PATIENCE: Duration = Duration::from_secs(100_000);

/// Wall time that goes with the runtime's.
pub struct VirtualClock(Instant);

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        at(0).plus(self.0.elapsed())
    }
}

/// Numbers from a seed (splitmix64).
pub struct Seeded(AtomicU64);

impl Seeded {
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    pub fn below(&self, end: u64) -> u64 {
        let mut z = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

impl Random for Seeded {
    fn unit(&self) -> f64 {
        f64::from(u32::try_from(self.below(1 << 32)).unwrap()) / f64::from(u32::MAX)
    }
}

struct Counted(AtomicU64);

impl Ids for Counted {
    fn fresh(&self) -> String {
        format!("id-{:08}", self.0.fetch_add(1, Ordering::SeqCst))
    }
}

/// What a test may set.
#[derive(Clone)]
pub struct Options {
    pub settings: Settings,
    /// Whether the index follows the catalog from the start.
    pub warm: bool,
}

impl Default for Options {
    fn default() -> Self {
        let run_defaults = RunDefaults { rate_per_second: 1_000, parallelism: 8, max_jobs: 50_000, usage_only: true };
        let settings = Settings {
            run_defaults,
            debounce: Duration::from_secs(30),
            deadline: Duration::from_secs(86_400),
            tenant_rate_per_second: 1_000,
            host_rate_per_second: 1_000,
            host_rates: BTreeMap::new(),
            max_attempts: 6,
            backoff_base: Duration::from_millis(200),
            backoff_cap: Duration::from_secs(60),
            call_timeout: Duration::from_secs(20),
            lease: Duration::from_secs(30),
            slots: 64,
            emit: true,
            narrow_by_range: false,
            outbound_events: Duration::from_secs(86_400),
            completed_runs: Duration::from_secs(86_400),
            image_age: None,
            active_runs_per_tenant: 100,
            backlog_per_tenant: 1_000_000,
        };
        Self { settings, warm: true }
    }
}

pub struct Bench {
    pub store: Arc<SwitchedStore>,
    pub scanner: Arc<ScriptedScanner>,
    pub services: Arc<Services>,
    pub fleet: Arc<Fleet>,
    pub drain: CancellationToken,
    stop: CancellationToken,
    loops: Vec<JoinHandle<()>>,
    runner: Option<JoinHandle<()>>,
    options: Options,
    began: Instant,
    folder: Option<TempDir>,
}

impl Bench {
    /// A service whose loops run.
    pub async fn start(scanner: ScriptedScanner, options: Options) -> Self {
        let folder = TempDir::new().unwrap();
        let mut bench = Self::open(folder, Arc::new(scanner), options, Instant::now()).await;
        bench.run_loops().await;
        bench
    }

    pub async fn with(scanner: ScriptedScanner) -> Self {
        Self::start(scanner, Options::default()).await
    }

    async fn open(folder: TempDir, scanner: Arc<ScriptedScanner>, options: Options, began: Instant) -> Self {
        let embedded = Arc::new(open_store(folder.path()).await);
        let epoch = u32::try_from(embedded.next_epoch().await.unwrap()).unwrap();
        let store = Arc::new(SwitchedStore::new(embedded.clone()));
        let as_port: Arc<dyn Store> = store.clone();
        let index = IndexHost::open(as_port.clone(), embedded.clone(), None).unwrap();
        let services = Arc::new(Services {
            store: as_port,
            feed: embedded,
            queue: Arc::new(EmbeddedQueue::new(epoch)),
            scanner: scanner.clone(),
            pacer: Arc::new(LocalPacer::new()),
            index,
            clock: Arc::new(VirtualClock(began)),
            random: Arc::new(Seeded::new(1)),
            ids: Arc::new(Counted(AtomicU64::new(u64::from(epoch) * 1_000_000))),
            worker: id("worker"),
            settings: options.settings.clone(),
            planner_bell: Notify::new(),
            ticker_bell: Notify::new(),
        });
        let fleet = Fleet::new(services.clone());
        let (drain, stop) = (CancellationToken::new(), CancellationToken::new());
        let folder = Some(folder);
        Self { store, scanner, services, fleet, drain, stop, loops: Vec::new(), runner: None, options, began, folder }
    }

    async fn run_loops(&mut self) {
        runner::recover(&self.services).await.unwrap();
        if self.options.warm {
            self.warm();
        }
        self.loops.push(tokio::spawn(Planner::new(self.services.clone()).run(self.stop.clone())));
        self.runner = Some(tokio::spawn(runner::run(self.services.clone(), self.fleet.clone(), self.drain.clone())));
    }

    /// Lets the index follow the catalog.
    pub fn warm(&mut self) {
        self.loops.push(tokio::spawn(self.services.index.clone().follow(self.stop.clone())));
    }

    /// Drains: returns when the calls in flight have ended and been recorded.
    pub async fn drained(&mut self) {
        self.drain.cancel();
        self.runner.take().unwrap().await.unwrap();
    }

    /// Everything dies in this moment and begins anew over what was durable.
    pub async fn crash(mut self) -> Self {
        for task in self.loops.drain(..).chain(self.runner.take()) {
            task.abort();
            // A task that was aborted ends with an error that says so.
            let _ = task.await;
        }
        let Self { store, scanner, services, fleet, options, began, folder, .. } = self;
        drop((store, services, fleet));
        let mut bench = Self::open(folder.unwrap(), scanner, options, began).await;
        bench.run_loops().await;
        bench
    }

    /// Waits, in virtual time.
    pub async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let began = Instant::now();
        while !holds().await {
            assert!(began.elapsed() < PATIENCE, "never: {what}");
            self.pass(Duration::from_millis(100)).await;
        }
    }

    /// Lets virtual time pass: the clock stands still otherwise, and every timer in between goes off in its turn.
    pub async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    pub fn now(&self) -> Timestamp {
        self.services.clock.now()
    }

    /// Puts images of the tenant `alpha`, each with a package `pkg:npm/p<number>` and `pkg:npm/shared`.
    pub async fn put(&self, numbers: impl IntoIterator<Item = usize>) {
        let images = numbers.into_iter().map(|number| packed(&alpha(), number)).collect();
        self.store.put_images(images).await.unwrap();
    }

    /// Begins a run by hand over everything of `alpha`.
    pub async fn begin(&self, name: &str, limits: RunLimits) {
        self.begin_of(name, ManualRequest { limits, ..ManualRequest::default() }).await;
    }

    pub async fn begin_of(&self, name: &str, request: ManualRequest) {
        let new = launch::manual(id(name), alpha(), request, self.options.settings.run_defaults, self.now());
        self.store.begin_run(new).await.unwrap();
        self.services.planner_bell.notify_one();
    }

    pub async fn schedule(&self, schedule: Schedule) {
        self.store.create_schedule(schedule).await.unwrap();
    }

    pub async fn deliver(&self, export: Export) -> Accepted {
        let export = Export { received_at: self.now(), ..export };
        let accepted = self.store.accept(export, None, 1_000).await.unwrap();
        self.services.planner_bell.notify_one();
        accepted
    }

    pub async fn run(&self, name: &str) -> Run {
        self.store.run(&alpha(), &id(name)).await.unwrap().unwrap()
    }

    /// All runs of a tenant, the oldest first.
    pub async fn runs_of(&self, tenant: &TenantId) -> Vec<Run> {
        let page = self.store.runs(tenant, &RunFilter::default(), None, 1_000).await.unwrap();
        page.items.into_iter().rev().collect()
    }

    pub async fn runs(&self) -> Vec<Run> {
        self.runs_of(&alpha()).await
    }

    /// Waits for the run's end, and checks P4.
    pub async fn ended(&self, name: &str) -> Run {
        self.until(&format!("{name} ends"), async || self.run(name).await.state.is_ended()).await;
        let run = self.run(name).await;
        self.check_sums(&run).await;
        run
    }

    /// Waits until so many runs have ended and no other is there; gives them, the oldest first.
    pub async fn ended_runs(&self, count: usize) -> Vec<Run> {
        let ended = async || {
            let runs = self.runs().await;
            runs.len() >= count && runs.iter().all(|run| run.state.is_ended())
        };
        self.until(&format!("{count} runs end"), ended).await;
        let runs = self.runs().await;
        assert_eq!(runs.len(), count, "{runs:#?}");
        for run in &runs {
            self.check_sums(run).await;
        }
        runs
    }

    pub async fn outcomes(&self, run: &Run) -> Vec<Outcome> {
        self.store.outcomes(&run.id, None, None, 100_000).await.unwrap().items
    }

    /// P4: the numbers of a run are the sums of its outcomes, and it has ended exactly when every image has one.
    pub async fn check_sums(&self, run: &Run) {
        let outcomes = self.outcomes(run).await;
        let count = |is: fn(&OutcomeResult) -> bool| outcomes.iter().filter(|o| is(&o.result)).count() as u64;
        let stats = &run.stats;
        assert_eq!(stats.completed, count(|r| matches!(r, OutcomeResult::Reported { .. })), "{run:?}");
        assert_eq!(stats.failed, count(|r| matches!(r, OutcomeResult::Failed { .. })), "{run:?}");
        assert_eq!(stats.skipped, count(|r| matches!(r, OutcomeResult::Skipped { .. })), "{run:?}");
        assert_eq!(stats.deltas, count(|r| r.as_str() == "delta"), "{run:?}");
        assert_eq!(run.state.is_ended(), run.finished_at.is_some());
        if run.state.is_ended() {
            assert_eq!(stats.queued, stats.ended(), "{run:?}");
        }
    }

    /// The numbers of the images of a run's outcomes.
    pub async fn images_of(&self, run: &Run) -> Vec<usize> {
        let outcomes = self.outcomes(run).await;
        let numbers = outcomes.iter().map(|outcome| (0..1_000).find(|n| digest(*n) == outcome.digest).unwrap());
        numbers.collect()
    }
}

async fn open_store(folder: &Path) -> EmbeddedStore {
    for _ in 0..1_000 {
        if let Ok(store) = EmbeddedStore::open(folder) {
            return store;
        }
        // A read of the store's former life may still be on its way, in real time.
        tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(5))).await.unwrap();
    }
    panic!("the store's folder stays in use")
}

/// An image with a package of its own and one that all share.
pub fn packed(tenant: &TenantId, number: usize) -> Image {
    let component = |purl: String| scheduler_model::CatalogComponent { purl, source: None };
    let components = vec![component(format!("pkg:npm/p{number}@1.0.0")), component("pkg:npm/shared@1.0.0".to_owned())];
    Image { components, ..image(tenant, number) }
}

/// An export of keys of that urgency.
pub fn export_of(name: &str, content: &str, keys: &[(&str, Priority)]) -> Export {
    let keys = keys.iter().map(|(key, priority)| ChangedKey {
        key: (*key).to_owned(),
        priority: *priority,
        subcomponent: None,
        affected: Vec::new(),
    });
    Export { keys: keys.collect(), ..export(name, content) }
}

/// A schedule of `alpha` that hears Feedser.
pub fn hears_feedser(tenant: &TenantId, name: &str) -> Schedule {
    let mut schedule = scheduler_testkit::store::build::schedule(tenant, name);
    schedule.spec.on_events = vec![Source::Feedser];
    schedule
}
