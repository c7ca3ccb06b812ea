//! A service in a test's hands: the embedded store, real tickers and a real planner, clocks that the test sets.

use async_trait::async_trait;
use parking_lot::Mutex;
use scheduler_core::launch::RunDefaults;
use scheduler_core::ports::{Clock, Conductor, Ids, Random, Store};
use scheduler_model::{RunId, TenantId, Timestamp};
use scheduler_queue::EmbeddedQueue;
use scheduler_scanner::LocalPacer;
use scheduler_store::EmbeddedStore;
use scheduler_testkit::scanner::ScriptedScanner;
use scheduler_worker::{IndexHost, Services, Settings};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// A clock that stands where the test puts it, in seconds.
#[derive(Default)]
pub struct SetClock(AtomicI64);

impl SetClock {
    pub fn set(&self, second: i64) {
        self.0.store(second, Ordering::Relaxed);
    }
}

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed) * 1000)
    }
}

/// Remembers which runs it was told to stop.
#[derive(Default)]
pub struct Recorder(pub Mutex<Vec<(TenantId, RunId)>>);

#[async_trait]
impl Conductor for Recorder {
    fn export_accepted(&self) {}

    fn run_begun(&self) {}

    async fn run_cancelled(&self, tenant: &TenantId, run: &RunId) {
        self.0.lock().push((tenant.clone(), run.clone()));
    }
}

struct Middle;

impl Random for Middle {
    fn unit(&self) -> f64 {
        0.5
    }
}

struct Counted(AtomicI64);

impl Ids for Counted {
    fn fresh(&self) -> String {
        format!("id-{}", self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// What the processes of a test share.
pub struct World {
    pub store: Arc<EmbeddedStore>,
    pub index: Arc<IndexHost>,
    pub recorder: Arc<Recorder>,
    stop: CancellationToken,
    _folder: TempDir,
}

impl World {
    pub async fn new() -> Self {
        let folder = in_memory();
        let store = Arc::new(EmbeddedStore::open(folder.path()).unwrap());
        let index = IndexHost::open(store.clone(), store.clone(), None).unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(index.clone().follow(stop.clone()));
        index.warm().await;
        Self { store, index, recorder: Arc::default(), stop, _folder: folder }
    }

    /// A process of the service, by its own clock, with so many runs per tenant.
    pub fn process(&self, clock: Arc<SetClock>, active_runs_per_tenant: u64) -> Arc<Services> {
        self.process_over(self.store.clone(), clock, active_runs_per_tenant)
    }

    /// The same, that sees the store through something.
    pub fn process_over(
        &self,
        store: Arc<dyn Store>,
        clock: Arc<SetClock>,
        active_runs_per_tenant: u64,
    ) -> Arc<Services> {
        let settings = Settings {
            run_defaults: RunDefaults { rate_per_second: 50, parallelism: 8, max_jobs: 1000, usage_only: true },
            debounce: Duration::ZERO,
            deadline: Duration::from_secs(86_400),
            tenant_rate_per_second: 200,
            host_rate_per_second: 20,
            host_rates: std::collections::BTreeMap::new(),
            max_attempts: 3,
            backoff_base: Duration::from_millis(1),
            backoff_cap: Duration::from_millis(1),
            call_timeout: Duration::from_secs(1),
            lease: Duration::from_secs(30),
            slots: 8,
            emit: true,
            narrow_by_range: false,
            outbound_events: Duration::from_secs(3600),
            active_runs_per_tenant,
            backlog_per_tenant: 1_000_000,
            completed_runs: Duration::from_secs(86_400),
            image_age: None,
        };
        Arc::new(Services {
            store,
            feed: self.store.clone(),
            queue: Arc::new(EmbeddedQueue::new(1)),
            scanner: Arc::new(ScriptedScanner::content()),
            pacer: Arc::new(LocalPacer::new()),
            index: self.index.clone(),
            clock,
            random: Arc::new(Middle),
            ids: Arc::new(Counted(AtomicI64::new(0))),
            worker: "worker".parse().unwrap(),
            settings,
            planner_bell: Notify::new(),
            ticker_bell: Notify::new(),
        })
    }
}

/// A folder that needs no disk, where the machine has such a thing: nothing here is about what survives a power loss.
fn in_memory() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap()
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
