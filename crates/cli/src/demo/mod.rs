//! `demo`: the main job from nothing, on a sample catalog or on the user's own files.
//!
//! - DEMO-1: the service is the real one, talked to over HTTP only; what is the demo's own is the scanner and the files.
//! - DEMO-2: nothing is claimed that was not checked: the demo works out by brute force which images the export touches and which
//!   have news, and fails with a sentence when the service says otherwise.
//! - DEMO-3: it needs no network beyond the loopback, and leaves nothing behind unless it was told to.

mod catalog;
mod client;
mod follow;
mod intel;
mod own;
mod scanner;
mod scenario;
mod screen;
mod service;
mod steps;
mod summary;
#[cfg(test)]
mod tests;
mod universe;

use anyhow::{Context, bail, ensure};
use scanner::DemoScanner;
use scenario::Scenario;
use screen::Screen;
use service::Service;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use steps::Story;
use summary::Summary;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// What can be said to the demo.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  stella-scheduler demo
  stella-scheduler demo --images 20000 --keep
  stella-scheduler demo --sboms ./sboms --export export.json")]
pub struct Args {
    /// How many images the sample catalog has.
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    images: u32,
    /// Which sample catalog: the same number gives the same one.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Use your own SBOMs and sidecars: every `.json`, `.json.zst` and `.json.gz` in this folder.
    #[arg(long, value_name = "DIR", requires = "export")]
    sboms: Option<PathBuf>,
    /// The advisory export for your own files.
    #[arg(long, value_name = "FILE", requires = "sboms")]
    export: Option<PathBuf>,
    /// Keep service and scanner running at the end, until Ctrl-C.
    #[arg(long)]
    keep: bool,
    /// Where the service keeps its data; an empty folder. Without it: a temporary one, removed at the end.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// Runs the demo until it has shown everything, or with `--keep` until it is stopped. With `json` the figures are a document on
/// stdout, and all else goes to stderr.
pub async fn run(args: Args, json: bool) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stopped = CancellationToken::new();
    let stop = stopped.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.cancel();
    });
    let mut screen = if json {
        Screen::with_document(Box::new(std::io::stderr()), Box::new(std::io::stdout()))
    } else {
        Screen::new(Box::new(std::io::stdout()))
    };
    let scenario = tokio::task::spawn_blocking({
        let (images, seed) = (usize::try_from(args.images)?, args.seed);
        let own = args.sboms.zip(args.export);
        move || match own {
            None => scenario::sample(images, seed),
            Some((folder, export)) => own::scenario(&folder, &export),
        }
    })
    .await??;
    let temporary = match args.data_dir {
        None => Some(tempfile::Builder::new().prefix("stella-demo-").tempdir().context("no temporary folder")?),
        Some(_) => None,
    };
    let folder = match (&args.data_dir, &temporary) {
        (Some(folder), _) => empty(folder)?,
        (None, Some(folder)) => folder.path(),
        (None, None) => bail!("there is no folder for the data"),
    };
    play(&scenario, folder, &mut screen, args.keep, stopped).await?;
    Ok(())
}

/// Plays a scenario with its data in a folder.
async fn play(
    scenario: &Scenario,
    folder: &Path,
    screen: &mut Screen,
    keep: bool,
    stopped: CancellationToken,
) -> anyhow::Result<Summary> {
    let scanner = DemoScanner::new(scenario.images.iter().cloned());
    let scanner_stop = CancellationToken::new();
    let scanner_address = scanner.serve(scanner_stop.clone()).await?;
    screen.text("Stella Scheduler, the main job from nothing")?;
    let service = Service::start(folder, scanner_address).await?;
    let mut story = Story { scenario, service: &service, scanner: &scanner, screen };
    let told = tokio::select! {
        told = story.tell() => told,
        () = stopped.cancelled() => Err(anyhow::anyhow!("the demo was interrupted")),
    };
    let shown = match &told {
        Ok(summary) => screen.figures(summary).map_err(anyhow::Error::from),
        Err(_) => Ok(()),
    };
    if keep && told.is_ok() && shown.is_ok() {
        screen.text(&invitation(&service, scanner_address, scenario))?;
        stopped.cancelled().await;
    }
    service.stop().await?;
    scanner_stop.cancel();
    shown.and(told)
}

/// The folder, created when it is not there; one with something in it is refused.
fn empty(folder: &Path) -> anyhow::Result<&Path> {
    std::fs::create_dir_all(folder).with_context(|| format!("{} cannot be created", folder.display()))?;
    let mut entries = std::fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    ensure!(entries.next().is_none(), "{} is not empty; the demo begins from nothing", folder.display());
    Ok(folder)
}

/// What `--keep` says at the end.
fn invitation(service: &Service, scanner: SocketAddr, scenario: &Scenario) -> String {
    let base = service.api.base();
    let key = scenario.keys.first().map(|key| key.to_string()).unwrap_or_default();
    format!(
        "\nStill running, until Ctrl-C:\n  \
           service  {base}\n  \
           metrics  http://{}/metrics\n  \
           scanner  http://{scanner}\n\
         Try:\n  \
           curl -s {base}/runs\n  \
           curl -s {base}/preview/impact -H 'content-type: application/json' -d '{{\"keys\": [\"{key}\"]}}'\n  \
           curl -s {base}/run -H 'content-type: application/json' -d '{{\"keys\": [\"{key}\"]}}'",
        service.address
    )
}
