//! The configuration as it is written: every key of the file, with its default. Nothing here is checked beyond types.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Declares a section: a struct whose members all have a default, and that refuses keys it does not know.
macro_rules! section {
    ($(#[$doc:meta])* $name:ident { $($field:ident : $ty:ty = $default:expr),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields, default)]
        pub struct $name { $(pub $field: $ty),* }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default),* }
            }
        }
    };
}

section!(File { scheduler: Scheduler = Scheduler::default() });

section!(Scheduler {
    listen: String = "127.0.0.1:8585".into(),
    data_dir: String = "./data".into(),
    public_url: String = String::new(),
    tls: Tls = Tls::default(),
    authority: Authority = Authority::default(),
    store: Store = Store::default(),
    mongo: Mongo = Mongo::default(),
    queue: Queue = Queue::default(),
    bus: Bus = Bus::default(),
    impact_index: ImpactIndex = ImpactIndex::default(),
    limits: Limits = Limits::default(),
    events: Events = Events::default(),
    webhooks: Webhooks = Webhooks::default(),
    integrates: Integrates = Integrates::default(),
    notifications: Notifications = Notifications::default(),
    retry: Retry = Retry::default(),
    retention: Retention = Retention::default(),
    telemetry: Telemetry = Telemetry::default(),
    shutdown: Shutdown = Shutdown::default(),
});

section!(Tls {
    cert_file: String = String::new(),
    key_file: String = String::new(),
    client_ca_file: String = String::new(),
});

section!(Authority {
    issuer: String = String::new(),
    audience: String = "scheduler".into(),
    jwks_file: String = String::new(),
    jwks_uri: String = String::new(),
    client_id: String = String::new(),
    require: Option<String> = None,
});

section!(Store { kind: Option<String> = None });

section!(Mongo { uri: String = String::new(), uri_file: String = String::new(), uri_env: String = String::new() });

section!(Queue {
    kind: String = "embedded".into(),
    url: String = String::new(),
    url_file: String = String::new(),
    url_env: String = String::new(),
    prefix: String = "scheduler".into(),
    lease_seconds: u32 = 30,
});

section!(Bus {
    kind: Option<String> = None,
    url: String = String::new(),
    url_file: String = String::new(),
    url_env: String = String::new(),
});

section!(ImpactIndex {
    storage: String = "rocksdb".into(),
    warm_on_start: bool = true,
    usage_only_default: bool = true,
    narrow_by_range: bool = false,
});

section!(Limits {
    default_rate_per_second: u32 = 50,
    default_parallelism: u32 = 8,
    max_jobs_per_run: u32 = 50_000,
    max_keys_per_event: u32 = 100_000,
    max_body_bytes: u64 = 32 << 20,
    max_active_runs_per_tenant: u32 = 100,
    max_backlog_per_tenant: u64 = 1_000_000,
    max_inbox_events: u64 = 10_000,
    deadline_seconds: u64 = 86_400,
    tenant_rate_per_second: u32 = 200,
    host_rate_per_second: u32 = 20,
    host_rates: BTreeMap<String, u32> = BTreeMap::new(),
});

section!(Events { debounce_seconds: u32 = 30, cold_index_cap: String = "kev-critical".into() });

section!(Webhooks {
    tolerance_seconds: u32 = 300,
    keys: Vec<WebhookKey> = Vec::new(),
    clients: Vec<WebhookClient> = Vec::new(),
});

section!(WebhookKey {
    id: String = String::new(),
    source: String = String::new(),
    algorithm: String = String::new(),
    secret_file: String = String::new(),
    secret_env: String = String::new(),
    public_key_file: String = String::new(),
    public_key_env: String = String::new(),
    tenants: Vec<String> = vec!["*".into()],
});

section!(WebhookClient {
    subject: String = String::new(),
    source: String = String::new(),
    tenants: Vec<String> = vec!["*".into()],
});

section!(Integrates {
    scanner_url: String = String::new(),
    scanner_url_file: String = String::new(),
    scanner_url_env: String = String::new(),
    timeout_seconds: u32 = 20,
    auth: ScannerAuth = ScannerAuth::default(),
    feedser_webhook: bool = true,
    vexer_webhook: bool = true,
});

section!(ScannerAuth {
    token_file: String = String::new(),
    ca_file: String = String::new(),
    client_cert_file: String = String::new(),
    client_key_file: String = String::new(),
});

section!(Notifications { emit_bus: String = "internal".into() });

section!(Retry { max_attempts: u32 = 6, base_millis: u64 = 200, cap_seconds: u64 = 60 });

section!(Retention { completed_runs_days: u32 = 180, outbound_event_hours: u32 = 24, image_days: u32 = 0 });

section!(Telemetry {
    otlp_endpoint: String = String::new(),
    log_format: String = "json".into(),
    metrics_listen: String = String::new(),
});

section!(Shutdown { grace_seconds: u64 = 20 });
