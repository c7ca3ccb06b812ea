//! Whole configurations: examples, relations, files.

use super::load::load;
use super::{Config, ConfigError, validate};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Of architecture.md §10.
const SPECIFIED: &str = r#"
scheduler:
  authority:
    issuer: "https://authority.internal"
    require: "dpop"            # or "mtls"
  queue:
    kind: "redis"              # or "nats"
    url: "redis://redis:6379/4"
  mongo:
    uri: "mongodb://mongo/scheduler"
  impactIndex:
    storage: "rocksdb"         # "rocksdb" | "redis" | "memory"
    warmOnStart: true
    usageOnlyDefault: true
  limits:
    defaultRatePerSecond: 50
    defaultParallelism: 8
    maxJobsPerRun: 50000
  integrates:
    scannerUrl: "https://scanner-web.internal"
    feedserWebhook: true
    vexerWebhook: true
  notifications:
    emitBus: "internal"        # deliver to Notify via internal bus
"#;

fn read(yaml: &str, folder: &Path) -> Result<Config, ConfigError> {
    let path = folder.join("config.yaml");
    std::fs::write(&path, yaml).unwrap();
    validate(load(Some(&path), std::iter::empty())?.scheduler)
}

fn check(folder: &Path, members: &str, named: &[&str]) {
    let said = read(&format!("scheduler: {{ {members} }}"), folder).unwrap_err().to_string();
    for name in named {
        assert!(said.contains(name), "{members}: {said}");
    }
}

#[test]
fn every_example_loads_and_a_wrong_key_in_it_is_named() {
    let mut seen = 0;
    for entry in std::fs::read_dir(crate::golden::path("config")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|kind| kind != "yaml") {
            continue;
        }
        seen += 1;
        let text = std::fs::read_to_string(&path).unwrap();
        // Secrets of the examples lie where no test has any: what is checked is that the file is understood.
        load(Some(&path), std::iter::empty()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let folder = tempfile::tempdir().unwrap();
        let wrong = text.replacen("scheduler:\n", "scheduler:\n  lisen: \"127.0.0.1:1\"\n", 1);
        let said = read(&wrong, folder.path()).unwrap_err().to_string();
        assert!(said.contains("configuration key lisen"), "{}: {said}", path.display());
    }
    assert!(seen >= 2, "{seen} examples");
}

#[test]
fn the_examples_of_the_embedded_engine_start() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "0123456789abcdef0123456789abcdef\n").unwrap();
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    for name in ["config/default.yaml", "config/embedded.yaml"] {
        let text = std::fs::read_to_string(crate::golden::path(name)).unwrap();
        let text = text.replace("/etc/stella-scheduler/feedser-1.secret", &secret.display().to_string());
        read(&text, folder.path()).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn the_specified_configuration_is_understood() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.yaml");
    std::fs::write(&path, SPECIFIED).unwrap();
    let file = load(Some(&path), std::iter::empty()).unwrap().scheduler;
    assert_eq!((file.queue.kind.as_str(), file.mongo.uri.as_str()), ("redis", "mongodb://mongo/scheduler"));
    // What is not built yet is refused in a sentence, not ignored.
    let said = validate(file).unwrap_err().to_string();
    assert!(said.starts_with("configuration key "), "{said}");
}

#[test]
fn what_cannot_be_is_refused_by_the_path_of_its_key() {
    let folder = tempfile::tempdir().unwrap();
    for (members, named) in [
        ("listen: here", &["listen"][..]),
        ("listen: 8585", &["listen"]),
        ("authority: { require: never }", &["authority.require"]),
        ("listen: '0.0.0.0:8585', authority: { require: none }", &["authority.require", "0.0.0.0"]),
        ("impactIndex: { storage: redis }", &["impactIndex.storage", "rocksdb"]),
        ("store: { kind: mysql }", &["store.kind", "mysql"]),
        ("queue: { leaseSeconds: 20 }", &["queue.leaseSeconds", "integrates.timeoutSeconds"]),
        ("retry: { baseMillis: 61000 }", &["retry.baseMillis", "retry.capSeconds"]),
        ("limits: { hostRates: { r.example.com: 0 } }", &["limits.hostRates.r.example.com"]),
        ("limits: { maxJobsPerRun: 0 }", &["limits.maxJobsPerRun"]),
        ("retention: { imageDays: 100000 }", &["retention.imageDays"]),
        ("integrates: { scannerUrl: scanner }", &["integrates.scannerUrl"]),
        ("integrates: { scannerUrl: 'http://a', scannerUrlEnv: B }", &["integrates.scannerUrl", "scannerUrlEnv"]),
        ("integrates: { auth: { caFile: /no/such/file } }", &["integrates.auth.caFile", "/no/such/file"]),
        ("authority: { jwksFile: /no/such/file }", &["authority.jwksFile"]),
        ("integrates: { scannerUrl: 'http://h:99999' }", &["integrates.scannerUrl", "port"]),
        ("integrates: { scannerUrl: 'http://u:p@' }", &["integrates.scannerUrl", "host"]),
        ("telemetry: { otlpEndpoint: 'http://u:p@' }", &["telemetry.otlpEndpoint", "host"]),
        ("telemetry: { otlpEndpoint: 'http://h/a b' }", &["telemetry.otlpEndpoint"]),
        ("publicUrl: 'http://'", &["publicUrl", "host"]),
        ("publicUrl: scheduler.example.com", &["publicUrl"]),
        ("publicUrlFile: /no/such/file", &["publicUrlFile"]),
        ("telemetry: { logFormat: xml }", &["telemetry.logFormat", "xml"]),
        ("telemetry: { metricsListen: '127.0.0.1:8585' }", &["telemetry.metricsListen", "listen"]),
        ("webhooks: { keys: [{ id: a, source: nobody }] }", &["webhooks.keys[0].source"]),
        ("webhooks: { keys: [{ id: a, source: vexer, algorithm: rsa }] }", &["webhooks.keys[0].algorithm"]),
        (
            "webhooks: { keys: [{ id: a, source: vexer, algorithm: hmac-sha256, secretFile: /no/such/file }] }",
            &["webhooks.keys[0].secretFile"],
        ),
        (
            "webhooks: { keys: [{ id: a, source: vexer, algorithm: hmac-sha256, secretEnv: NO_SUCH_VARIABLE_HERE }] }",
            &["webhooks.keys[0].secretEnv", "NO_SUCH_VARIABLE_HERE"],
        ),
        ("webhooks: { keys: [{ id: a, source: vexer, algorithm: ed25519 }] }", &["webhooks.keys[0].publicKeyFile"]),
    ] {
        check(folder.path(), members, named);
    }
}

#[test]
fn p12_secret_files_that_others_can_read_are_refused_and_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "http://user:hunter2@scanner\n").unwrap();
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o644)).unwrap();
    let file = secret.display();
    for (members, path) in [
        (format!("integrates: {{ scannerUrlFile: '{file}' }}"), "integrates.scannerUrlFile"),
        (format!("integrates: {{ auth: {{ tokenFile: '{file}' }} }}"), "integrates.auth.tokenFile"),
        (
            format!("webhooks: {{ keys: [{{ id: a, source: vexer, algorithm: hmac-sha256, secretFile: '{file}' }}] }}"),
            "webhooks.keys[0].secretFile",
        ),
    ] {
        let said = read(&format!("scheduler: {{ {members} }}"), folder.path()).unwrap_err().to_string();
        assert!(said.contains(path) && said.contains("chmod 600") && !said.contains("hunter2"), "{said}");
    }
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    let config = read(&format!("scheduler: {{ integrates: {{ scannerUrlFile: '{file}' }} }}"), folder.path()).unwrap();
    assert_eq!(config.scanner_url.as_deref(), Some("http://user:hunter2@scanner"));
}
