//! From what is written to what can be used: types, ranges, files and relations.

use super::raw::{self, Scheduler};
use super::{ConfigError, secrets, tls, urls};
use scheduler_auth::{Verifier, WebhookKey};
use scheduler_core::launch::RunDefaults;
use scheduler_model::{Source, TenantId, TenantScope, WebhookKeyId};
use scheduler_web::tls::TlsFiles;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Where the ImpactIndex keeps its checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexStorage {
    /// On disk.
    RocksDb,
    /// Nowhere: rebuilt from the catalog at every start.
    Memory,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Pretty,
}

/// Whether a source's webhook is there at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WebhookSource {
    /// `integrates.feedserWebhook`.
    pub feedser: bool,
    /// `integrates.vexerWebhook`.
    pub vexer: bool,
}

/// A configuration that was checked.
#[derive(Debug)]
pub struct Config {
    pub listen: SocketAddr,
    pub tls: Option<TlsFiles>,
    pub data_dir: PathBuf,
    pub public_url: Option<String>,
    pub index_storage: IndexStorage,
    pub narrow_by_range: bool,
    pub run_defaults: RunDefaults,
    pub limits: raw::Limits,
    pub debounce: Duration,
    pub verifier: Verifier,
    /// The ids of the verifier's keys, with their sources.
    pub webhook_keys: Vec<(WebhookKeyId, Source)>,
    pub webhooks: WebhookSource,
    pub scanner_url: Option<String>,
    pub scanner_timeout: Duration,
    pub scanner_auth: raw::ScannerAuth,
    pub emit: bool,
    pub retry: raw::Retry,
    pub lease: Duration,
    pub completed_runs: Duration,
    pub image_age: Option<Duration>,
    pub outbound_events: Duration,
    pub log_format: LogFormat,
    pub otlp_endpoint: Option<String>,
    pub metrics_listen: Option<SocketAddr>,
    pub grace: Duration,
}

const DAY_SECONDS: u64 = 86_400;

pub fn validate(mut file: Scheduler) -> Result<Config, ConfigError> {
    secrets::resolve_urls(&mut file)?;
    let listen = address("listen", &file.listen)?;
    authority(&file.authority, listen)?;
    engines(&file)?;
    ranges(&file)?;
    let tls = tls::files(&file.tls)?;
    urls::check(&file)?;
    named_files(&file)?;
    let metrics_listen = match file.telemetry.metrics_listen.as_str() {
        "" => None,
        text => Some(address("telemetry.metricsListen", text)?),
    };
    if metrics_listen == Some(listen) && listen.port() != 0 {
        return Err(ConfigError::at(
            "telemetry.metricsListen",
            format!("{listen} is `listen` already; leave it empty to serve metrics there"),
        ));
    }
    let (verifier, webhook_keys) = verifier(&file.webhooks)?;
    Ok(Config {
        listen,
        data_dir: PathBuf::from(&file.data_dir),
        public_url: Some(file.public_url.trim_end_matches('/').to_owned()).filter(|url| !url.is_empty()),
        index_storage: match file.impact_index.storage.as_str() {
            "rocksdb" => IndexStorage::RocksDb,
            "memory" => IndexStorage::Memory,
            other => {
                return Err(ConfigError::at(
                    "impactIndex.storage",
                    format!("`{other}` is not supported; use `rocksdb` (on disk) or `memory`"),
                ));
            }
        },
        narrow_by_range: file.impact_index.narrow_by_range,
        run_defaults: RunDefaults {
            rate_per_second: file.limits.default_rate_per_second,
            parallelism: file.limits.default_parallelism,
            max_jobs: file.limits.max_jobs_per_run,
            usage_only: file.impact_index.usage_only_default,
        },
        debounce: Duration::from_secs(file.events.debounce_seconds.into()),
        verifier: verifier
            .with_clients(tls::clients(&file.webhooks, tls.as_ref())?)
            .map_err(|e| ConfigError::at("webhooks.clients", e))?,
        webhook_keys,
        tls,
        webhooks: WebhookSource { feedser: file.integrates.feedser_webhook, vexer: file.integrates.vexer_webhook },
        scanner_url: Some(file.integrates.scanner_url).filter(|url| !url.is_empty()),
        scanner_timeout: Duration::from_secs(file.integrates.timeout_seconds.into()),
        scanner_auth: file.integrates.auth,
        emit: one_of("notifications.emitBus", &file.notifications.emit_bus, &[("internal", true), ("none", false)])?,
        lease: Duration::from_secs(file.queue.lease_seconds.into()),
        completed_runs: Duration::from_secs(u64::from(file.retention.completed_runs_days) * DAY_SECONDS),
        image_age: Some(file.retention.image_days)
            .filter(|days| *days > 0)
            .map(|days| Duration::from_secs(u64::from(days) * DAY_SECONDS)),
        outbound_events: Duration::from_secs(u64::from(file.retention.outbound_event_hours) * 3600),
        log_format: one_of(
            "telemetry.logFormat",
            &file.telemetry.log_format,
            &[("json", LogFormat::Json), ("pretty", LogFormat::Pretty)],
        )?,
        otlp_endpoint: Some(file.telemetry.otlp_endpoint).filter(|url| !url.is_empty()),
        metrics_listen,
        grace: Duration::from_secs(file.shutdown.grace_seconds),
        limits: file.limits,
        retry: file.retry,
    })
}

fn address(path: &str, text: &str) -> Result<SocketAddr, ConfigError> {
    text.parse().map_err(|_| ConfigError::at(path, format!("`{text}` is no address such as 127.0.0.1:8585")))
}

fn one_of<T: Copy>(path: &str, text: &str, words: &[(&str, T)]) -> Result<T, ConfigError> {
    words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        ConfigError::at(path, format!("`{text}` is none of {}", known.join(", ")))
    })
}

/// `require` is `none` by default when no issuer is set and the listener is loopback, else `dpop`.
fn authority(authority: &raw::Authority, listen: SocketAddr) -> Result<(), ConfigError> {
    let loopback = listen.ip().is_loopback();
    let by_default = if authority.issuer.is_empty() && loopback { "none" } else { "dpop" };
    match authority.require.as_deref().unwrap_or(by_default) {
        "none" if loopback => Ok(()),
        "none" => Err(ConfigError::at(
            "authority.require",
            format!("`none` is for loopback listeners only, and listen is {listen}"),
        )),
        word @ ("dpop" | "mtls" | "bearer") => Err(ConfigError::at(
            "authority.require",
            format!("this version does not check access tokens yet (`{word}`); use `none` on a loopback listener"),
        )),
        other => Err(ConfigError::at("authority.require", format!("`{other}` is none of dpop, mtls, bearer, none"))),
    }
}

fn engines(file: &Scheduler) -> Result<(), ConfigError> {
    let store = file.store.kind.as_deref().unwrap_or(if file.mongo.uri.is_empty() { "embedded" } else { "mongo" });
    let bus = file.bus.kind.as_deref().unwrap_or(&file.queue.kind);
    for (path, kind, known) in [
        ("store.kind", store, ["embedded", "mongo"].as_slice()),
        ("queue.kind", &file.queue.kind, &["embedded", "redis", "nats"]),
        ("bus.kind", bus, &["embedded", "redis", "nats"]),
    ] {
        if !known.contains(&kind) {
            return Err(ConfigError::at(path, format!("`{kind}` is none of {}", known.join(", "))));
        }
        if kind != "embedded" {
            return Err(ConfigError::at(path, format!("this version has no `{kind}` engine yet; use `embedded`")));
        }
    }
    Ok(())
}

fn ranges(file: &Scheduler) -> Result<(), ConfigError> {
    let limits = &file.limits;
    for (path, value, least, most) in [
        ("limits.defaultRatePerSecond", u64::from(limits.default_rate_per_second), 1, 100_000),
        ("limits.defaultParallelism", limits.default_parallelism.into(), 1, 10_000),
        ("limits.maxJobsPerRun", limits.max_jobs_per_run.into(), 1, 10_000_000),
        ("limits.maxKeysPerEvent", limits.max_keys_per_event.into(), 1, 10_000_000),
        ("limits.maxBodyBytes", limits.max_body_bytes, 1024, 16 << 30),
        ("limits.maxActiveRunsPerTenant", limits.max_active_runs_per_tenant.into(), 1, 1_000_000),
        ("limits.maxBacklogPerTenant", limits.max_backlog_per_tenant, 1, 1 << 40),
        ("limits.maxInboxEvents", limits.max_inbox_events, 1, 10_000_000),
        ("limits.deadlineSeconds", limits.deadline_seconds, 1, 365 * DAY_SECONDS),
        ("limits.tenantRatePerSecond", limits.tenant_rate_per_second.into(), 1, 1_000_000),
        ("limits.hostRatePerSecond", limits.host_rate_per_second.into(), 1, 1_000_000),
        ("events.debounceSeconds", file.events.debounce_seconds.into(), 0, 3600),
        ("webhooks.toleranceSeconds", file.webhooks.tolerance_seconds.into(), 1, scheduler_auth::TOLERANCE_SECONDS_MAX),
        ("integrates.timeoutSeconds", file.integrates.timeout_seconds.into(), 1, 3600),
        ("retry.maxAttempts", file.retry.max_attempts.into(), 1, 1000),
        ("retry.baseMillis", file.retry.base_millis, 1, 3_600_000),
        ("retry.capSeconds", file.retry.cap_seconds, 1, 3600),
        ("queue.leaseSeconds", file.queue.lease_seconds.into(), 1, 3600),
        ("retention.completedRunsDays", file.retention.completed_runs_days.into(), 1, 36_500),
        ("retention.outboundEventHours", file.retention.outbound_event_hours.into(), 1, 87_600),
        ("retention.imageDays", file.retention.image_days.into(), 0, 36_500),
        ("shutdown.graceSeconds", file.shutdown.grace_seconds, 0, 3600),
    ] {
        if !(least..=most).contains(&value) {
            return Err(ConfigError::at(path, format!("{value} is not between {least} and {most}")));
        }
    }
    for (host, rate) in &limits.host_rates {
        if !(1..=1_000_000).contains(rate) {
            return Err(ConfigError::at(
                format!("limits.hostRates.{host}"),
                format!("{rate} is not between 1 and 1000000"),
            ));
        }
    }
    if file.queue.lease_seconds <= file.integrates.timeout_seconds {
        return Err(ConfigError::at(
            "queue.leaseSeconds",
            format!(
                "a lease of {} s must be longer than a call (integrates.timeoutSeconds: {} s)",
                file.queue.lease_seconds, file.integrates.timeout_seconds
            ),
        ));
    }
    if file.retry.base_millis > file.retry.cap_seconds * 1000 {
        return Err(ConfigError::at(
            "retry.baseMillis",
            format!(
                "the first wait of {} ms is longer than the longest (retry.capSeconds: {} s)",
                file.retry.base_millis, file.retry.cap_seconds
            ),
        ));
    }
    if file.events.cold_index_cap != "kev-critical" {
        return Err(ConfigError::at("events.coldIndexCap", "the only value is `kev-critical`"));
    }
    Ok(())
}

/// Files that are read later have to be there now, and secret ones have to be private.
fn named_files(file: &Scheduler) -> Result<(), ConfigError> {
    let auth = &file.integrates.auth;
    for (path, name, is_secret) in [
        ("authority.jwksFile", &file.authority.jwks_file, false),
        ("integrates.auth.tokenFile", &auth.token_file, true),
        ("integrates.auth.caFile", &auth.ca_file, false),
        ("integrates.auth.clientCertFile", &auth.client_cert_file, false),
        ("integrates.auth.clientKeyFile", &auth.client_key_file, true),
    ] {
        if name.is_empty() {
            continue;
        }
        if is_secret {
            secrets::private(path, name)?;
        }
        secrets::read(path, name)?;
    }
    match (auth.client_cert_file.is_empty(), auth.client_key_file.is_empty()) {
        (false, true) => Err(ConfigError::at("integrates.auth.clientKeyFile", "a client certificate needs its key")),
        (true, false) => Err(ConfigError::at("integrates.auth.clientCertFile", "a client key needs its certificate")),
        (true, true) | (false, false) => Ok(()),
    }
}

type WebhookKeyNames = Vec<(WebhookKeyId, Source)>;

fn verifier(webhooks: &raw::Webhooks) -> Result<(Verifier, WebhookKeyNames), ConfigError> {
    let mut keys = Vec::with_capacity(webhooks.keys.len());
    for (number, key) in webhooks.keys.iter().enumerate() {
        keys.push(webhook_key(&format!("webhooks.keys[{number}]"), key)?);
    }
    let names = keys.iter().map(|key| (key.id().clone(), key.source())).collect();
    let verifier = Verifier::new(keys, webhooks.tolerance_seconds.into());
    Ok((verifier.map_err(|e| ConfigError::at("webhooks.keys", e))?, names))
}

fn webhook_key(path: &str, key: &raw::WebhookKey) -> Result<WebhookKey, ConfigError> {
    let id = WebhookKeyId::try_from(key.id.clone()).map_err(|e| ConfigError::at(format!("{path}.id"), e))?;
    let source = source(path, &key.source)?;
    let tenants = tenants(&format!("{path}.tenants"), &key.tenants)?;
    match key.algorithm.as_str() {
        "hmac-sha256" => {
            let secret = secrets::secret_line(path, &key.secret_file, &key.secret_env, "secret")?;
            let given = if key.secret_env.is_empty() { "secretFile" } else { "secretEnv" };
            WebhookKey::hmac(id, source, &secret, tenants).map_err(|e| ConfigError::at(format!("{path}.{given}"), e))
        }
        "ed25519" => {
            let pem = match (key.public_key_file.as_str(), key.public_key_env.as_str()) {
                (file, "") if !file.is_empty() => secrets::read(&format!("{path}.publicKeyFile"), file)?,
                ("", variable) if !variable.is_empty() => {
                    std::env::var(variable).map(String::into_bytes).map_err(|_| {
                        ConfigError::at(format!("{path}.publicKeyEnv"), format!("the variable {variable} is not set"))
                    })?
                }
                _ => {
                    return Err(ConfigError::at(
                        format!("{path}.publicKeyFile"),
                        "give one of publicKeyFile and publicKeyEnv",
                    ));
                }
            };
            WebhookKey::ed25519_pem(id, source, &String::from_utf8_lossy(&pem), tenants)
                .map_err(|e| ConfigError::at(format!("{path}.publicKeyFile"), e))
        }
        other => {
            Err(ConfigError::at(format!("{path}.algorithm"), format!("`{other}` is none of hmac-sha256, ed25519")))
        }
    }
}

pub fn source(path: &str, word: &str) -> Result<Source, ConfigError> {
    one_of(&format!("{path}.source"), word, &[("feedser", Source::Feedser), ("vexer", Source::Vexer)])
}

pub fn tenants(path: &str, names: &[String]) -> Result<TenantScope, ConfigError> {
    if names.iter().any(|name| name == "*") {
        return Ok(TenantScope::All);
    }
    names
        .iter()
        .map(|name| TenantId::try_from(name.clone()).map_err(|e| ConfigError::at(path, format!("`{name}`: {e}"))))
        .collect::<Result<Vec<_>, _>>()
        .map(TenantScope::Only)
}
