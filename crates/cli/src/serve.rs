//! `serve`: web part, planner, runner and index in one process.

use crate::config::Config;
use crate::files;
use crate::wire::{Wired, wire};
use anyhow::anyhow;
use futures::FutureExt;
use futures::future::select_all;
use metrics_exporter_prometheus::PrometheusBuilder;
use scheduler_web::connections::{self, Links, QUIET_MAX};
use scheduler_web::tls::{Certificates, HandshakeLimits, TlsListener};
use scheduler_worker::{Planner, Ticker, gauges, housekeeping, runner};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

/// How long open connections are waited for once everything else has ended.
const CONNECTIONS_GRACE: Duration = Duration::from_secs(2);

/// Connections of those who fetch metrics at an address of their own.
const METRICS_CONNECTIONS_MAX: usize = 64;

/// How often certificate files are looked at for changes.
const CERTIFICATES_EVERY: Duration = Duration::from_secs(60);

/// What a started service needs to be stopped.
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    drain: CancellationToken,
    done: tokio::task::JoinHandle<anyhow::Result<()>>,
}

impl Running {
    /// Drains and waits.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.drain.cancel();
        self.done.await.map_err(|error| anyhow!("the service ended in a panic: {error}"))?
    }
}

/// Runs until SIGTERM or SIGINT.
pub async fn serve(config: Config) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let running = start(config).await?;
    eprintln!("listening on {scheme}://{}", running.address);
    tokio::select! {
        _ = terminate.recv() => info!("SIGTERM: draining"),
        _ = interrupt.recv() => info!("SIGINT: draining; once more ends it at once"),
    }
    tokio::select! {
        stopped = running.stop() => stopped,
        // What was under way is repeated after the next start, as after a crash.
        _ = interrupt.recv() => Err(anyhow!("interrupted twice: ended without waiting for the calls in flight")),
    }
}

/// Starts everything; returns when requests are answered.
pub async fn start(config: Config) -> anyhow::Result<Running> {
    let listen = config.listen;
    let grace = config.grace;
    // The port first: a second instance must not touch the data before it knows that it is the second.
    let listener = TcpListener::bind(listen).await.map_err(|error| {
        anyhow!(
            "cannot listen on {listen}: {error}; configuration key listen, or SCHEDULER__LISTEN, names another address"
        )
    })?;
    let address = listener.local_addr()?;
    let certificates = config.tls.clone().map(Certificates::load).transpose()?;
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(
            metrics_exporter_prometheus::Matcher::Full("scheduler_impact_resolve_seconds".into()),
            &[0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5],
        )?
        .set_buckets_for_metric(
            metrics_exporter_prometheus::Matcher::Full("scheduler_run_latency_seconds".into()),
            &[0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0],
        )?
        .build_recorder();
    let render = recorder.handle();
    // A second service in one process (tests, the demo) shares the first one's recorder.
    let _ = metrics::set_global_recorder(recorder);
    scheduler_telemetry::describe();
    let streams = CancellationToken::new();
    let here: Box<dyn Fn() -> String + Send + Sync> = Box::new(move || render.render());
    let (metrics, elsewhere) = match config.metrics_listen {
        None => (Some(here), None),
        Some(address) => (None, Some((address, here))),
    };
    let drain = CancellationToken::new();
    if let Some((address, render)) = elsewhere {
        metrics_alone(address, render, drain.clone()).await?;
    }
    let connections = files::connections(files::raised());
    let folder = config.data_dir.clone();
    let wired =
        wire(config, metrics, streams.clone(), connections).await.map_err(|error| without_room(error, &folder))?;
    let listener = Links::new(listener, connections, certificates.is_none());
    let done = tokio::spawn(run(wired, listener, certificates, drain.clone(), streams, grace));
    Ok(Running { address, drain, done })
}

/// Whether this is the system's word for a full disk, which RocksDB and the standard library both hand on.
fn is_full_disk(cause: &(dyn std::error::Error + 'static)) -> bool {
    let words = cause.to_string();
    words.contains("No space left on device") || words.contains("Disk quota exceeded")
}

/// A full disk under the data folder, in words that say the way out; any other error as it is.
fn without_room(error: anyhow::Error, folder: &Path) -> anyhow::Error {
    if !error.chain().any(is_full_disk) {
        return error;
    }
    warn!(error = format!("{error:#}"), "the data folder cannot be opened");
    anyhow!(
        "the disk of the data folder {} is full; make room for some 300 MB on it and start again, nothing is lost \
         (see \"Full disk\" in docs/operations)",
        folder.display()
    )
}

/// Metrics on an address of their own.
async fn metrics_alone(
    address: SocketAddr,
    render: Box<dyn Fn() -> String + Send + Sync>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        anyhow!(
            "cannot listen on {address} for metrics: {error}; configuration key telemetry.metricsListen, or \
             SCHEDULER__TELEMETRY__METRICSLISTEN, names another address"
        )
    })?;
    let render = std::sync::Arc::new(render);
    let router = axum::Router::new().route("/metrics", axum::routing::get(move || std::future::ready(render())));
    tokio::spawn(connections::serve(Links::new(listener, METRICS_CONNECTIONS_MAX, true), router, QUIET_MAX, stop));
    Ok(())
}

/// Reads the certificates again once a minute and at SIGHUP, and uses what has changed.
async fn keep_current(mut certificates: Certificates, stop: CancellationToken) {
    let mut hangup = match signal(SignalKind::hangup()) {
        Ok(hangup) => hangup,
        Err(error) => return warn!(%error, "certificates are not read again until the next start"),
    };
    let mut look = tokio::time::interval(CERTIFICATES_EVERY);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = look.tick() => {}
            _ = hangup.recv() => info!("SIGHUP: reading the certificates again"),
        }
        let looking = tokio::task::spawn_blocking(move || {
            let result = certificates.reload();
            (certificates, result)
        });
        let Ok((back, result)) = looking.await else { return };
        certificates = back;
        match result {
            Ok(false) => {}
            Ok(true) => info!("new connections get the new certificates"),
            Err(error) => error!(%error, "the new certificates cannot be used; the old ones stay"),
        }
    }
}

async fn run(
    wired: Wired,
    listener: Links,
    certificates: Option<Certificates>,
    drain: CancellationToken,
    streams: CancellationToken,
    grace: Duration,
) -> anyhow::Result<()> {
    let Wired { services, fleet, app } = wired;
    runner::recover(&services).await?;
    let stop = CancellationToken::new();
    let follow = tokio::spawn(services.index.clone().follow(stop.clone()));
    let plan = tokio::spawn(Planner::new(services.clone()).run(stop.clone()));
    let tick = tokio::spawn(Ticker::new(services.clone(), fleet.clone()).run(stop.clone()));
    let keep = tokio::spawn(housekeeping::run(services.clone(), stop.clone()));
    let observe = tokio::spawn(gauges::run(services.clone(), stop.clone()));
    let mut work = tokio::spawn(runner::run(services.clone(), fleet, drain.clone()));
    let web_stop = CancellationToken::new();
    let router = scheduler_web::router(app);
    let mut web = match certificates {
        None => tokio::spawn(connections::serve(listener, router, QUIET_MAX, web_stop.clone())),
        Some(certificates) => {
            let listener = TlsListener::new(listener, &certificates, HandshakeLimits::default())?;
            tokio::spawn(keep_current(certificates, stop.clone()));
            tokio::spawn(connections::serve(listener, router, QUIET_MAX, web_stop.clone()))
        }
    };

    let mut loops =
        [("ticker", tick), ("planner", plan), ("housekeeping", keep), ("gauges", observe), ("index", follow)];
    let ended = select_all(loops.iter_mut().map(|(name, task)| task.map(|ended| (*name, ended)).boxed()));
    tokio::select! {
        // In this order: a drain ends the runner, and is no failure of it.
        biased;
        () = drain.cancelled() => {}
        ended = &mut web => return Err(anyhow!("the web part ended by itself: {ended:?}")),
        ended = &mut work => return Err(anyhow!("the runner ended by itself: {ended:?}")),
        // A service that answers and does nothing would be noticed by nobody.
        ((name, ended), ..) = ended => return Err(anyhow!("the {name} ended by itself: {ended:?}")),
    }
    // Calls in flight end within the grace; nothing new is leased.
    if tokio::time::timeout(grace, &mut work).await.is_err() {
        warn!("the grace is over: calls in flight are given up and repeated after the next start");
        work.abort();
    }
    stop.cancel();
    streams.cancel();
    web_stop.cancel();
    for (name, task) in loops {
        if let Err(error) = task.await {
            warn!(%error, "the {name} ended badly");
        }
    }
    if tokio::time::timeout(CONNECTIONS_GRACE, &mut web).await.is_err() {
        // Idle keep-alive connections do not hold the process.
        web.abort();
    }
    Ok(())
}
