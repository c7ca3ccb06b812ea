//! `doctor`: looks at everything that the service needs, and changes nothing.

pub(crate) mod certificates;
mod ports;
mod service;
mod why;

use crate::client::{Global, Output, Session, clean};
use crate::config::{self, Config, IndexStorage};
use crate::files;
use crate::system::SystemClock;
use crate::wire;
use anyhow::bail;
use scheduler_core::ports::{CatalogStore, Clock, Scanner};
use scheduler_impact_index::{ImpactIndex, IndexError, Thresholds};
use scheduler_model::Source;
use scheduler_store::{EmbeddedStore, OpenError};
use scheduler_telemetry::Collector;
use serde_json::{Value, json};
use service::{Service, time_at};
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How far the clock may be off before the operator should know: signatures tolerate more, but not other services' logs.
const CLOCK_OFF_SECONDS_WARN: u64 = 5;

/// How long a collector may take.
const COLLECTOR_WAIT_MAX: Duration = Duration::from_secs(5);

/// Time-zone data is called old so many months after the beginning of its year: about four releases come in each.
const TZDB_MONTHS_WARN: i64 = 18;

/// What `doctor` is told.
#[derive(clap::Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  stella-scheduler doctor
  stella-scheduler --config /etc/stella-scheduler/config.yaml doctor --json
  stella-scheduler doctor why $DIGEST CVE-2026-1234"
)]
pub struct DoctorArgs {
    #[command(subcommand)]
    command: Option<DoctorCommand>,
    /// Where the embedded engine keeps its files (instead of `dataDir`).
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// What can be asked beside how all is.
#[derive(clap::Subcommand, Debug)]
enum DoctorCommand {
    /// Tells what became of a vulnerability in an image: selected by which export, asked by which run, told or not, and why not.
    #[command(after_help = "Examples:
  stella-scheduler doctor why $DIGEST CVE-2026-1234
  stella-scheduler doctor why $DIGEST CVE-2026-1234 --json")]
    Why(why::WhyArgs),
}

/// How a check went; the later, the worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    Pass,
    Warn,
    Fail,
}

impl Verdict {
    fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Warn => "WARN",
            Self::Fail => "FAIL",
        }
    }
}

/// One line.
pub(crate) type Finding = (Verdict, String);

fn pass(text: impl Into<String>) -> Finding {
    (Verdict::Pass, text.into())
}

fn warn(text: impl Into<String>) -> Finding {
    (Verdict::Warn, text.into())
}

fn fail(text: impl Into<String>) -> Finding {
    (Verdict::Fail, text.into())
}

/// Prints findings as they come.
struct Report {
    out: Output,
    failed: u32,
}

impl Report {
    fn tell(&mut self, check: &str, (verdict, text): Finding) -> anyhow::Result<()> {
        self.failed += u32::from(verdict == Verdict::Fail);
        if self.out.json {
            return self.out.document(&json!({ "check": check, "verdict": verdict.as_str(), "text": text }));
        }
        if self.out.quiet && verdict == Verdict::Pass {
            return Ok(());
        }
        self.out.line(&format!("{}  {check:<12}  {}", verdict.as_str(), clean(&text)))
    }

    fn end(self) -> anyhow::Result<()> {
        match self.failed {
            0 => Ok(()),
            1 => bail!("1 check failed"),
            failed => bail!("{failed} checks failed"),
        }
    }
}

impl DoctorArgs {
    /// Carries it out.
    pub async fn run(self, global: &Global) -> anyhow::Result<()> {
        if let Some(DoctorCommand::Why(args)) = self.command {
            return args.run(&Session::new(global)?).await;
        }
        let mut report = Report { out: Output::new(global), failed: 0 };
        let from =
            global.config.as_deref().map_or_else(|| "the defaults".to_owned(), |path| path.display().to_string());
        let config = match config::read(global.config.as_deref(), self.data_dir.as_deref()) {
            Ok(config) => config,
            Err(error) => {
                report.tell("config", fail(error.to_string()))?;
                report.tell("zones", zones())?;
                return report.end();
            }
        };
        report.tell("config", pass(format!("{from}; listens on {}", config.listen)))?;
        let service = Service::find(global, &config, certificates::configured(&config).as_deref()).await;
        report.tell("ports", ports::check(&config, &service).await)?;
        let (finding, store) = store(&config.data_dir, &service).await;
        report.tell("store", finding)?;
        report.tell("queue", pass("embedded: part of the process"))?;
        report.tell("bus", pass("embedded: events are read from the event stream"))?;
        report.tell("index", index(&config, &service, store.as_ref()).await)?;
        drop(store);
        report.tell("scanner", scanner(&config).await)?;
        report.tell("keys", keys(&config))?;
        let now = u64::try_from(SystemClock.now().seconds()).unwrap_or_default();
        report.tell("certificates", certificates::check(&config, service.certificate.as_deref(), now))?;
        report.tell("traces", traces(&config).await)?;
        report.tell("files", files_allowed(files::raised()))?;
        report.tell("clock", clock(&config, &service).await)?;
        report.tell("zones", zones())?;
        report.end()
    }
}

/// How many files a service that is started as this program was may have open.
fn files_allowed(files: u64) -> Finding {
    let connections = files::connections(files);
    let text = format!("a process may have {files} open, {connections} connections among them");
    if files >= files::FILES_WARN {
        return pass(text);
    }
    warn(format!(
        "{text}; raise the hard limit (`ulimit -Hn`, `LimitNOFILE=` of systemd) to {} or more",
        files::FILES_WARN
    ))
}

async fn store(data_dir: &Path, service: &Service) -> (Finding, Option<EmbeddedStore>) {
    let folder = data_dir.join("store");
    if !folder.join("CURRENT").exists() {
        return (new_store(data_dir), None);
    }
    let opened = tokio::task::spawn_blocking(move || EmbeddedStore::open(&folder)).await;
    let shown = data_dir.display();
    match opened {
        Ok(Ok(store)) => {
            let finding = match store.catalog_head().await {
                Ok(head) => pass(format!("{shown} can be opened; the catalog is at change {head}")),
                Err(error) => fail(format!("{shown} cannot be read: {error}; restore it from a backup")),
            };
            (finding, Some(store))
        }
        Ok(Err(OpenError::InUse { .. })) if service.is_running => {
            (pass(format!("{shown} is open in the service on {}", service.address)), None)
        }
        Ok(Err(OpenError::InUse { .. })) => {
            (warn(format!("{shown} is open in another process, and nothing answers on {}", service.address)), None)
        }
        Ok(Err(error)) => {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            (fail(format!("{error}{cause}; see who owns the files, or restore them from a backup")), None)
        }
        Err(error) => (fail(format!("{shown} cannot be opened: {error}")), None),
    }
}

/// A folder that the first start makes: it has to be possible.
fn new_store(data_dir: &Path) -> Finding {
    let absolute = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_path_buf());
    let Some(there) = absolute.ancestors().find(|folder| folder.exists()) else {
        return fail(format!("{} cannot be made: no folder above it is there", data_dir.display()));
    };
    let probe = there.join(format!(".stella-scheduler-doctor-{}", std::process::id()));
    let made = OpenOptions::new().write(true).create_new(true).open(&probe);
    let removed = made.and_then(|_| std::fs::remove_file(&probe));
    match removed {
        Ok(()) => pass(format!("{} is empty; the first start fills it", data_dir.display())),
        Err(error) => fail(format!(
            "{} cannot be made in {}: {error}; give dataDir, or the rights to the service's user",
            data_dir.display(),
            there.display()
        )),
    }
}

async fn index(config: &Config, service: &Service, store: Option<&EmbeddedStore>) -> Finding {
    if let Some(stats) = service.index().await {
        let state = stats.get("state").and_then(Value::as_str).unwrap_or_default();
        let text = format!("{state}, {} images, in the running service", stats.get("images").unwrap_or(&Value::Null));
        return if state == "warm" { pass(text) } else { warn(format!("{text}; it catches up by itself")) };
    }
    if service.is_running {
        return warn("the running service does not let its index be seen; pass --token-file");
    }
    let folder = config.data_dir.join("index");
    if config.index_storage == IndexStorage::Memory {
        return pass("kept in memory, rebuilt from the catalog at every start");
    }
    if folder.symlink_metadata().is_ok() && !folder.is_dir() {
        return fail(format!("{} is no folder; move it away", folder.display()));
    }
    let Some(store) = store.filter(|_| folder.join("CURRENT").exists()) else {
        return pass("there is none yet; it is built from the catalog at the start");
    };
    let opened = tokio::task::spawn_blocking(move || ImpactIndex::open(&folder, Thresholds::default())).await;
    match opened {
        Ok(Ok(index)) => {
            let head = store.catalog_head().await.unwrap_or_default();
            if store.timeline_at(index.sequence()).await.is_ok_and(|timeline| timeline != index.timeline()) {
                return warn("it is not of this catalog as it is; the next start builds it anew");
            }
            let behind = head.saturating_sub(index.sequence());
            pass(format!("{} images, {behind} changes to catch up with at the start", index.stats().images))
        }
        Ok(Err(IndexError::Damaged { reason })) => {
            warn(format!("the checkpoint is damaged ({reason}); the next start builds it anew from the catalog"))
        }
        Ok(Err(error @ (IndexError::Full(_) | IndexError::Folder { .. } | IndexError::Storage(_)))) => {
            fail(error.to_string())
        }
        Err(error) => fail(format!("the index cannot be opened: {error}")),
    }
}

async fn scanner(config: &Config) -> Finding {
    if config.scanner_url.is_none() {
        return warn("no scanner: runs wait; give integrates.scannerUrl");
    }
    let scanner = match wire::scanner(config) {
        Ok(scanner) => scanner,
        Err(error) => return fail(format!("the scanner's client cannot be made: {error:#}; see integrates")),
    };
    match scanner.ping().await {
        Ok(()) => pass("the scanner answers"),
        Err(error) => fail(format!("the scanner does not answer: {error}; see integrates.scannerUrl")),
    }
}

fn keys(config: &Config) -> Finding {
    let of = |source: Source| -> Vec<&str> {
        config.webhook_keys.iter().filter(|(_, of)| *of == source).map(|(id, _)| id.as_str()).collect()
    };
    let (mut told, mut lacking) = (Vec::new(), Vec::new());
    for (source, is_there) in [(Source::Feedser, config.webhooks.feedser), (Source::Vexer, config.webhooks.vexer)] {
        match of(source) {
            _ if !is_there => told.push(format!("{}: switched off", source.as_str())),
            ids if ids.is_empty() => lacking.push(source.as_str()),
            ids => told.push(format!("{}: {}", source.as_str(), ids.join(", "))),
        }
    }
    if lacking.is_empty() {
        return pass(told.join("; "));
    }
    told.push(format!("no webhook key for {}: its exports are refused", lacking.join(" and ")));
    warn(format!("{}; `stella-scheduler keys generate` makes keys", told.join("; ")))
}

/// An empty batch of spans is something that a collector takes.
async fn traces(config: &Config) -> Finding {
    let Some(endpoint) = &config.otlp_endpoint else { return pass("not sent; telemetry.otlpEndpoint would say where") };
    let collector = Collector::at(endpoint);
    let client = match reqwest::Client::builder().timeout(COLLECTOR_WAIT_MAX).build() {
        Ok(client) => client,
        Err(error) => return fail(format!("the collector's client cannot be made: {error}")),
    };
    let request = client.post(&collector.address).header("content-type", "application/x-protobuf").body(Vec::new());
    let request = match collector.authorization {
        Some(value) => request.header("authorization", value),
        None => request,
    };
    match request.send().await {
        Ok(answer) if answer.status().is_success() => pass("the collector takes spans"),
        Ok(answer) => {
            warn(format!("the collector answers {}; spans are dropped; see telemetry.otlpEndpoint", answer.status()))
        }
        Err(_) => warn("the collector does not answer; spans are dropped; see telemetry.otlpEndpoint"),
    }
}

async fn clock(config: &Config, service: &Service) -> Finding {
    let now = SystemClock.now().seconds();
    if let Some(theirs) = service.time {
        return compare_clocks(now, theirs, "the service");
    }
    if let Some(url) = &config.scanner_url
        && let Some(theirs) = time_at(&format!("{}/healthz", url.trim_end_matches('/'))).await
    {
        return compare_clocks(SystemClock.now().seconds(), theirs, "the scanner");
    }
    warn("nobody to compare with: neither the service nor the scanner tells the time")
}

fn compare_clocks(ours: i64, theirs: i64, who: &str) -> Finding {
    let off = ours.abs_diff(theirs);
    // `Date` has whole seconds.
    if off <= CLOCK_OFF_SECONDS_WARN {
        return pass(format!("agrees with {who}"));
    }
    let way = if ours > theirs { "ahead of" } else { "behind" };
    let text = format!("{off} s {way} {who}; let both follow the same time servers");
    if off >= scheduler_auth::TOLERANCE_SECONDS_MAX { fail(text) } else { warn(text) }
}

fn zones() -> Finding {
    let release = scheduler_calendar::TZDB_VERSION;
    let now = SystemClock.now().utc();
    zones_as_of(release, chrono::Datelike::year(&now), chrono::Datelike::month(&now))
}

fn zones_as_of(release: &str, year: i32, month: u32) -> Finding {
    let of = release.get(..4).and_then(|year| year.parse::<i64>().ok()).unwrap_or_default();
    let months = (i64::from(year) - of) * 12 + i64::from(month) - 1;
    if months < TZDB_MONTHS_WARN {
        return pass(format!("time-zone data of release {release}"));
    }
    warn(format!(
        "time-zone data of release {release}: schedules in zones whose rules changed since then run at the old times; update \
         the program"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_may_differ_by_what_a_date_header_hides() {
        for (ours, theirs, verdict, words) in [
            (1000, 1000, Verdict::Pass, "agrees"),
            (1005, 1000, Verdict::Pass, "agrees"),
            (1006, 1000, Verdict::Warn, "6 s ahead of the scanner"),
            (1000, 1060, Verdict::Warn, "60 s behind the scanner"),
            (10_000, 1000, Verdict::Fail, "9000 s ahead"),
        ] {
            let (found, text) = compare_clocks(ours, theirs, "the scanner");
            assert!(found == verdict && text.contains(words), "{ours} {theirs}: {found:?} {text}");
        }
    }

    #[test]
    fn old_time_zone_data_is_a_warning() {
        for (release, year, month, verdict) in [
            ("2025b", 2025, 3, Verdict::Pass),
            ("2025b", 2026, 6, Verdict::Pass),
            ("2025b", 2026, 7, Verdict::Warn),
            ("2027a", 2026, 7, Verdict::Pass),
            ("odd", 2026, 7, Verdict::Warn),
        ] {
            assert_eq!(zones_as_of(release, year, month).0, verdict, "{release} {year}-{month}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_made_fails_and_the_probe_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(new_store(&root.path().join("a/b")).0, Verdict::Pass);
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
        let file = root.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(new_store(&file.join("data")).0, Verdict::Fail);
    }
}
