//! The configuration as it is written: every key of the file, with its default and what it means. Nothing here is checked
//! beyond types. The texts become `config/default.yaml` and `docs/reference/configuration.md`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Declares a section: a struct whose members all have a default, and that refuses keys it does not know.
macro_rules! section {
    ($name:ident { $($(#[doc = $text:literal])* $field:ident : $ty:ty = $default:expr),* $(,)? }) => {
        #[derive(Debug, Clone, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields, default)]
        pub struct $name { $($(#[doc = $text])* pub $field: $ty),* }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default),* }
            }
        }

        #[cfg(test)]
        impl $name {
            /// The members, as Rust names them, each with the lines that say what it means.
            pub const TEXTS: &'static [(&'static str, &'static [&'static str])] =
                &[$((stringify!($field), &[$($text),*])),*];
        }
    };
}

section!(File {
    /// The one key at the top.
    scheduler: Scheduler = Scheduler::default()
});

section!(Scheduler {
    /// Where requests are answered: address and port.
    listen: String = "127.0.0.1:8585".into(),
    /// Where the embedded engine and the index keep their files; `--data-dir` goes before it.
    data_dir: String = "./data".into(),
    /// The service as callers see it behind a proxy, for links; empty: links are paths.
    public_url: String = String::new(),
    /// The same, from a file.
    public_url_file: String = String::new(),
    /// The same, from the variable of this name.
    public_url_env: String = String::new(),
    /// Encryption of the listener.
    tls: Tls = Tls::default(),
    /// Who may call.
    authority: Authority = Authority::default(),
    /// Where catalog, schedules, runs and events are kept.
    store: Store = Store::default(),
    /// The MongoDB of `store.kind: mongo`.
    mongo: Mongo = Mongo::default(),
    /// What carries segments to workers.
    queue: Queue = Queue::default(),
    /// Where outbound events go.
    bus: Bus = Bus::default(),
    /// The index from packages to images.
    impact_index: ImpactIndex = ImpactIndex::default(),
    /// Limits of the service and defaults of runs.
    limits: Limits = Limits::default(),
    /// How exports become runs.
    events: Events = Events::default(),
    /// Who may deliver exports.
    webhooks: Webhooks = Webhooks::default(),
    /// The services beside this one.
    integrates: Integrates = Integrates::default(),
    /// Events of images.
    notifications: Notifications = Notifications::default(),
    /// How failed report calls are repeated.
    retry: Retry = Retry::default(),
    /// How long things are kept.
    retention: Retention = Retention::default(),
    /// Logs, metrics and traces.
    telemetry: Telemetry = Telemetry::default(),
    /// How the process ends.
    shutdown: Shutdown = Shutdown::default(),
});

section!(Tls {
    /// The server's certificate with those that lead to its authority, PEM.
    cert_file: String = String::new(),
    /// Its private key, PEM.
    key_file: String = String::new(),
    /// Authorities of client certificates, PEM; turns mTLS on.
    client_ca_file: String = String::new(),
});

section!(Authority {
    /// Who issues the access tokens.
    issuer: String = String::new(),
    /// The same, from a file.
    issuer_file: String = String::new(),
    /// The same, from the variable of this name.
    issuer_env: String = String::new(),
    /// The audience that a token must name.
    audience: String = "scheduler".into(),
    /// The issuer's public keys, as a file.
    jwks_file: String = String::new(),
    /// Where the issuer's public keys are; without it and `jwksFile`: by discovery at the issuer.
    jwks_uri: String = String::new(),
    /// The same, from a file.
    jwks_uri_file: String = String::new(),
    /// The same, from the variable of this name.
    jwks_uri_env: String = String::new(),
    /// This service's client id at the issuer, for the console's sign-in.
    client_id: String = String::new(),
    /// `dpop`, `mtls`, `bearer` or `none`. Default: `none` when no issuer is set and the listener is loopback, else `dpop`.
    /// `none` is refused on other addresses.
    require: Option<String> = None,
});

section!(Store {
    /// `embedded` or `mongo`. Default: `mongo` when `mongo.uri` is set, else `embedded`.
    kind: Option<String> = None
});

section!(Mongo {
    /// The connection string.
    uri: String = String::new(),
    /// The same, from a file.
    uri_file: String = String::new(),
    /// The same, from the variable of this name.
    uri_env: String = String::new(),
});

section!(Queue {
    /// `embedded`, `redis` or `nats`.
    kind: String = "embedded".into(),
    /// Where the queue's server is.
    url: String = String::new(),
    /// The same, from a file.
    url_file: String = String::new(),
    /// The same, from the variable of this name.
    url_env: String = String::new(),
    /// What the names of streams and subjects begin with.
    prefix: String = "scheduler".into(),
    /// Seconds after which a segment of a silent worker goes to another; longer than a call may take.
    lease_seconds: u32 = 30,
});

section!(Bus {
    /// `embedded`, `redis` or `nats`. Default: as the queue.
    kind: Option<String> = None,
    /// Where the bus's server is. Default: as the queue.
    url: String = String::new(),
    /// The same, from a file.
    url_file: String = String::new(),
    /// The same, from the variable of this name.
    url_env: String = String::new(),
});

section!(ImpactIndex {
    /// `rocksdb`: checkpoints below the data folder. `memory`: rebuilt from the catalog at every start.
    storage: String = "rocksdb".into(),
    /// Load the index at the start rather than at the first question.
    warm_on_start: bool = true,
    /// Whether a schedule, run or preview that does not say so counts components that the entrypoint uses only.
    usage_only_default: bool = true,
    /// Drop images whose version is outside the range that an export gives.
    narrow_by_range: bool = false,
});

section!(Limits {
    /// Report calls a second of a run that does not say.
    default_rate_per_second: u32 = 50,
    /// Report calls in flight of a run that does not say.
    default_parallelism: u32 = 8,
    /// Images of one run that does not say; the rest waits for the next run.
    max_jobs_per_run: u32 = 50_000,
    /// Keys in each list of an export; beyond it: 413.
    max_keys_per_event: u32 = 100_000,
    /// Bytes of a body, as sent and after decompression; of a bulk upload, of each line. Beyond it: 413.
    max_body_bytes: u64 = 32 << 20,
    /// Runs of a tenant that have not ended; beyond it starting one by hand is 429, and cron and event runs wait.
    max_active_runs_per_tenant: u32 = 100,
    /// Images of such runs that have no outcome yet; the same.
    max_backlog_per_tenant: u64 = 1_000_000,
    /// Exports that are not planned yet; beyond it webhooks are 429.
    max_inbox_events: u64 = 10_000,
    /// Seconds after which an image that still waits is skipped, with the reason `expired`.
    deadline_seconds: u64 = 86_400,
    /// Report calls a second of one tenant, over the whole fleet.
    tenant_rate_per_second: u32 = 200,
    /// Resolve and scan calls a second for one registry host, over the whole fleet.
    host_rate_per_second: u32 = 20,
    /// The same for hosts that need their own, as `registry.example.com: 5`.
    host_rates: BTreeMap<String, u32> = BTreeMap::new(),
});

section!(Events {
    /// Seconds in which further exports are gathered after one was planned.
    debounce_seconds: u32 = 30,
    /// What an event run takes while the index is not warm: KEV and critical keys first.
    cold_index_cap: String = "kev-critical".into(),
});

section!(Webhooks {
    /// Seconds that a signature's time may be off.
    tolerance_seconds: u32 = 300,
    /// Keys that verify signatures; `keys generate` makes them.
    keys: Vec<WebhookKey> = Vec::new(),
    /// Client certificates that stand for a signature.
    clients: Vec<WebhookClient> = Vec::new(),
});

section!(WebhookKey {
    /// The name that signatures carry.
    id: String = String::new(),
    /// Whose key it is: `feedser` or `vexer`.
    source: String = String::new(),
    /// `hmac-sha256` or `ed25519`.
    algorithm: String = String::new(),
    /// The HMAC secret: a file of one line that only its owner reads; after `whsec_`, base64.
    secret_file: String = String::new(),
    /// The same, from the variable of this name.
    secret_env: String = String::new(),
    /// The Ed25519 public key, PEM.
    public_key_file: String = String::new(),
    /// The same, from the variable of this name.
    public_key_env: String = String::new(),
    /// Tenants that the sender may reach; `*`: all.
    tenants: Vec<String> = vec!["*".into()],
});

section!(WebhookClient {
    /// The subject of the certificate, as `CN=feedser`.
    subject: String = String::new(),
    /// Whose certificate it is: `feedser` or `vexer`.
    source: String = String::new(),
    /// Tenants that the sender may reach; `*`: all.
    tenants: Vec<String> = vec!["*".into()],
});

section!(Integrates {
    /// Where the scanner's service is; without it runs wait.
    scanner_url: String = String::new(),
    /// The same, from a file.
    scanner_url_file: String = String::new(),
    /// The same, from the variable of this name.
    scanner_url_env: String = String::new(),
    /// Seconds that one call to the scanner may take; shorter than a lease.
    timeout_seconds: u32 = 20,
    /// How this service shows the scanner who it is.
    auth: ScannerAuth = ScannerAuth::default(),
    /// Whether Feedser's webhook is there; `false`: it is 404.
    feedser_webhook: bool = true,
    /// Whether Vexer's webhook is there; `false`: it is 404.
    vexer_webhook: bool = true,
});

section!(ScannerAuth {
    /// A file with the bearer token; it is read again when it changes.
    token_file: String = String::new(),
    /// Certificates to trust instead of the system's, PEM.
    ca_file: String = String::new(),
    /// The client certificate, PEM.
    client_cert_file: String = String::new(),
    /// Its private key, PEM.
    client_key_file: String = String::new(),
});

section!(Notifications {
    /// `internal`: events of images leave over the bus. `none`: they do not.
    emit_bus: String = "internal".into()
});

section!(Retry {
    /// Calls for one image in one run, the first included.
    max_attempts: u32 = 6,
    /// The first wait is up to so many milliseconds; each further one up to twice the last.
    base_millis: u64 = 200,
    /// No wait of our own is longer; a longer `Retry-After` is still respected.
    cap_seconds: u64 = 60,
});

section!(Retention {
    /// Days that ended runs and their outcomes are kept.
    completed_runs_days: u32 = 180,
    /// Hours that outbound events are kept for readers that come back.
    outbound_event_hours: u32 = 24,
    /// Days after which an image without a new SBOM leaves the catalog; 0: never.
    image_days: u32 = 0,
});

section!(Telemetry {
    /// Where traces go: the base address of an OTLP collector over HTTP, such as http://127.0.0.1:4318; empty: nowhere.
    otlp_endpoint: String = String::new(),
    /// The same, from a file.
    otlp_endpoint_file: String = String::new(),
    /// The same, from the variable of this name.
    otlp_endpoint_env: String = String::new(),
    /// `json`: one object a line. `pretty`: for people.
    log_format: String = "json".into(),
    /// An address of its own for `/metrics`; empty: on `listen`.
    metrics_listen: String = String::new(),
});

section!(Shutdown {
    /// Seconds that calls in flight get after SIGTERM.
    grace_seconds: u64 = 20
});
