//! The real service, started inside the demo's process.

use super::client::Api;
use super::own::DOCUMENT_LEN_MAX;
use crate::config::{self, raw};
use crate::serve::{self, Running};
use anyhow::Context;
use scheduler_auth::{SigningKey, generate_hmac_secret};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The name of the demo's webhook key.
pub const KEY_ID: &str = "demo-feedser";

/// A running service with what it takes to talk to it.
pub struct Service {
    /// Its interface.
    pub api: Api,
    /// Where it listens.
    pub address: SocketAddr,
    /// The sender's side of its webhook key.
    pub key: SigningKey,
    running: Running,
}

impl Service {
    /// Starts it on a free port, with its data and a fresh key in the folder.
    pub async fn start(folder: &Path, scanner: SocketAddr) -> anyhow::Result<Self> {
        let secret = generate_hmac_secret(rand::random());
        let secret_file = folder.join("feedser.secret");
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&secret_file)
            .with_context(|| format!("{} cannot be written", secret_file.display()))?;
        file.write_all(secret.expose())?;
        let key = SigningKey::hmac(KEY_ID.parse()?, secret.expose())?;
        let running = serve::start(config::validate(configuration(folder, &secret_file, scanner))?).await?;
        let address = running.address;
        Ok(Self { api: Api::new(address)?, address, key, running })
    }

    /// Drains it and waits.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.running.stop().await
    }
}

/// The defaults, but for the places, the key, and a pace that nobody has to wait for.
fn configuration(folder: &Path, secret_file: &Path, scanner: SocketAddr) -> raw::Scheduler {
    let key = raw::WebhookKey {
        id: KEY_ID.to_owned(),
        source: "feedser".to_owned(),
        algorithm: "hmac-sha256".to_owned(),
        secret_file: secret_file.display().to_string(),
        ..raw::WebhookKey::default()
    };
    raw::Scheduler {
        listen: "127.0.0.1:0".to_owned(),
        data_dir: folder.join("data").display().to_string(),
        limits: raw::Limits {
            default_rate_per_second: 100_000,
            default_parallelism: 32,
            max_jobs_per_run: 10_000_000,
            max_keys_per_event: 10_000_000,
            max_body_bytes: DOCUMENT_LEN_MAX,
            tenant_rate_per_second: 100_000,
            ..raw::Limits::default()
        },
        webhooks: raw::Webhooks { keys: vec![key], ..raw::Webhooks::default() },
        integrates: raw::Integrates { scanner_url: format!("http://{scanner}"), ..raw::Integrates::default() },
        ..raw::Scheduler::default()
    }
}
