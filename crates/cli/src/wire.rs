//! Picks the engines and puts the parts together. Nothing else knows which engine it is.

use crate::config::{Config, IndexStorage};
use crate::system::{SystemClock, SystemRandom, UuidIds};
use anyhow::Context;
use scheduler_core::ports::{Feed, Ids, Scanner, Store};
use scheduler_model::{Source, WorkerId};
use scheduler_queue::EmbeddedQueue;
use scheduler_scanner::{ClientIdentity, HttpScanner, LocalPacer, ScannerConfig, ScannerSetupError, TokenSource};
use scheduler_store::EmbeddedStore;
use scheduler_web::{App, Hub, Reception, ReceptionLimits, WebLimits};
use scheduler_worker::{Fleet, IndexHost, Services, Settings};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Calls in flight in one process, over all runs.
const PROCESS_SLOTS: u32 = 256;

/// Where the scanner is looked for when the configuration does not say: nothing answers there, so runs wait for it.
const NO_SCANNER: &str = "http://127.0.0.1:9";

/// The parts of a running service.
pub struct Wired {
    /// What the loops work with.
    pub services: Arc<Services>,
    /// The loops' side of the web part.
    pub fleet: Arc<Fleet>,
    /// The web part.
    pub app: Arc<App>,
}

/// Wires the service on the embedded engine, for so many connections.
pub async fn wire(
    config: Config,
    metrics: Option<Box<dyn Fn() -> String + Send + Sync>>,
    shutdown: CancellationToken,
    connections: usize,
) -> anyhow::Result<Wired> {
    let folder = config.data_dir.clone();
    let store = {
        let folder = folder.join("store");
        tokio::task::spawn_blocking(move || EmbeddedStore::open(&folder)).await??
    };
    let store = Arc::new(store);
    let epoch = store.next_epoch().await.context("the store cannot be written")?;
    let queue = EmbeddedQueue::new(u32::try_from(epoch).context("the store was opened too often")?);
    let feed: Arc<dyn Feed> = store.clone();
    let store: Arc<dyn Store> = store;
    let index_folder: Option<PathBuf> = match config.index_storage {
        IndexStorage::RocksDb => Some(folder.join("index")),
        IndexStorage::Memory => None,
    };
    let index = {
        let (store, feed) = (store.clone(), feed.clone());
        tokio::task::spawn_blocking(move || IndexHost::open(store, feed, index_folder)).await??
    };
    let scanner: Arc<dyn Scanner> = Arc::new(scanner(&config)?);
    let ids: Arc<dyn Ids> = Arc::new(UuidIds);
    let clock = Arc::new(SystemClock);
    let services = Arc::new(Services {
        store: store.clone(),
        feed: feed.clone(),
        queue: Arc::new(queue),
        scanner,
        pacer: Arc::new(LocalPacer::new()),
        index: index.clone(),
        clock: clock.clone(),
        random: Arc::new(SystemRandom),
        ids: ids.clone(),
        worker: WorkerId::try_from(ids.fresh())?,
        settings: settings(&config),
        planner_bell: Notify::new(),
        ticker_bell: Notify::new(),
    });
    let fleet = Fleet::new(services.clone());
    let webhooks = [(Source::Feedser, config.webhooks.feedser), (Source::Vexer, config.webhooks.vexer)];
    let public_url = config.public_url.unwrap_or_default();
    let app = Arc::new(App {
        hub: Hub::new(store.clone(), feed.clone(), public_url.clone(), connections),
        reception: Reception::new(ReceptionLimits::for_bodies(config.limits.max_body_bytes)),
        store,
        feed,
        index,
        conductor: fleet.clone(),
        clock,
        ids,
        verifier: config.verifier,
        webhooks: webhooks.into_iter().filter(|(_, there)| *there).map(|(source, _)| source).collect(),
        run_defaults: config.run_defaults,
        narrow_by_range: config.narrow_by_range,
        limits: WebLimits {
            body_bytes: config.limits.max_body_bytes,
            keys_per_event: usize::try_from(config.limits.max_keys_per_event)?,
            inbox_events: config.limits.max_inbox_events,
            active_runs_per_tenant: config.limits.max_active_runs_per_tenant.into(),
            backlog_per_tenant: config.limits.max_backlog_per_tenant,
        },
        public_url,
        metrics,
        shutdown,
    });
    Ok(Wired { services, fleet, app })
}

fn settings(config: &Config) -> Settings {
    Settings {
        run_defaults: config.run_defaults,
        debounce: config.debounce,
        deadline: Duration::from_secs(config.limits.deadline_seconds),
        tenant_rate_per_second: config.limits.tenant_rate_per_second,
        host_rate_per_second: config.limits.host_rate_per_second,
        host_rates: config.limits.host_rates.iter().map(|(host, rate)| (host.to_ascii_lowercase(), *rate)).collect(),
        max_attempts: config.retry.max_attempts,
        backoff_base: Duration::from_millis(config.retry.base_millis),
        backoff_cap: Duration::from_secs(config.retry.cap_seconds),
        call_timeout: config.scanner_timeout,
        lease: config.lease,
        slots: PROCESS_SLOTS,
        emit: config.emit,
        narrow_by_range: config.narrow_by_range,
        outbound_events: config.outbound_events,
        active_runs_per_tenant: config.limits.max_active_runs_per_tenant.into(),
        backlog_per_tenant: config.limits.max_backlog_per_tenant,
        completed_runs: config.completed_runs,
        image_age: config.image_age,
    }
}

/// The scanner's client; `doctor` asks by it too.
pub fn scanner(config: &Config) -> anyhow::Result<HttpScanner> {
    let given = |path: &str| Some(PathBuf::from(path)).filter(|p| !p.as_os_str().is_empty());
    let auth = &config.scanner_auth;
    let reach = ScannerConfig {
        base_url: config.scanner_url.clone().unwrap_or_else(|| NO_SCANNER.to_owned()),
        timeout: config.scanner_timeout,
        token: given(&auth.token_file).map(TokenSource::File),
        ca_file: given(&auth.ca_file),
        identity: given(&auth.client_cert_file)
            .zip(given(&auth.client_key_file))
            .map(|(cert_file, key_file)| ClientIdentity { cert_file, key_file }),
    };
    let key = |error: &ScannerSetupError| match error {
        ScannerSetupError::Url => "integrates.scannerUrl",
        ScannerSetupError::Token => "integrates.auth.tokenFile",
        ScannerSetupError::Certificates { .. } => "integrates.auth.caFile",
        ScannerSetupError::Identity { .. } => "integrates.auth.clientCertFile",
        ScannerSetupError::File { .. } | ScannerSetupError::Client(_) => "integrates.auth",
    };
    HttpScanner::new(&reach, Arc::new(SystemClock)).map_err(|error| {
        let key = format!("configuration key {}", key(&error));
        anyhow::Error::new(error).context(key)
    })
}
