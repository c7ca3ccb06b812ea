//! `event`.

use super::http::Request;
use super::output::{cell, count};
use super::{ClientError, Session, read_input};
use anyhow::Context;
use clap::{ArgGroup, Subcommand, ValueEnum};
use scheduler_auth::{SCHEDULER_SIGNATURE_HEADER, SigningKey};
use scheduler_model::{Timestamp, WebhookKeyId};
use serde_json::Value;
use std::path::PathBuf;

/// Who sends an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SourceArg {
    /// Advisories.
    Feedser,
    /// VEX claims.
    Vexer,
}

impl SourceArg {
    /// The word of the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Feedser => "feedser",
            Self::Vexer => "vexer",
        }
    }
}

/// Exports of advisories and VEX claims.
#[derive(Subcommand, Debug)]
pub enum EventCommand {
    /// Signs an export and posts it to its webhook.
    #[command(group = ArgGroup::new("signing_key").required(true), after_help = "Examples:
  stella-scheduler event post --source feedser --key-id feedser-1 \\
      --secret-file keys/feedser-1.secret export.json
  stella-scheduler event post --source vexer --key-id vexer-1 \\
      --private-key-file keys/vexer-1.private.pem claims.json")]
    Post {
        /// Who the export is from.
        #[arg(long)]
        source: SourceArg,
        /// The id of the key, as in `webhooks.keys` of the service.
        #[arg(long, value_name = "ID")]
        key_id: String,
        /// The HMAC secret.
        #[arg(long, value_name = "FILE", group = "signing_key")]
        secret_file: Option<PathBuf>,
        /// The Ed25519 private key, PEM.
        #[arg(long, value_name = "FILE", group = "signing_key")]
        private_key_file: Option<PathBuf>,
        /// The export; `-` is standard input.
        #[arg(value_name = "PAYLOAD")]
        payload: PathBuf,
    },
}

impl EventCommand {
    /// Carries it out; `now` is the time of the signature.
    pub async fn run(self, session: &Session, now: Timestamp) -> anyhow::Result<()> {
        let Self::Post { source, key_id, secret_file, private_key_file, payload } = self;
        let Session { client, out } = session;
        let id = WebhookKeyId::try_from(key_id).context("--key-id")?;
        let key = match (&secret_file, &private_key_file) {
            (Some(path), _) => {
                SigningKey::hmac(id, &read_input(path)?).with_context(|| format!("{}", path.display()))?
            }
            (None, Some(path)) => {
                let pem = String::from_utf8(read_input(path)?)
                    .map_err(|_| ClientError::Input { path: path.clone(), why: "it is not UTF-8".to_owned() })?;
                SigningKey::ed25519_pem(id, &pem)
                    .map_err(|error| ClientError::Input { path: path.clone(), why: error.to_string() })?
            }
            (None, None) => anyhow::bail!("give --secret-file or --private-key-file"),
        };
        let body = read_input(&payload)?;
        let signature =
            key.scheduler_header(&body, u64::try_from(now.seconds()).context("the clock shows a time before 1970")?);
        let webhook = format!("{}-export", source.as_str());
        let request = Request::post(&["events", &webhook])
            .header(SCHEDULER_SIGNATURE_HEADER, &signature)
            .body("application/json", body);
        let answer = client.call(request, &["status", "exportId", "eventId"]).await?;
        if out.json {
            return out.document(&answer);
        }
        if out.quiet {
            return out.line(&cell(&answer, "/eventId"));
        }
        out.line(&format!(
            "{}: export {}, {} (event {})",
            cell(&answer, "/status"),
            cell(&answer, "/exportId"),
            count(answer.get("keys").and_then(Value::as_u64).unwrap_or_default(), "key"),
            cell(&answer, "/eventId")
        ))?;
        for skipped in answer.get("skipped").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default() {
            out.remark(&format!("skipped {}: {}", cell(skipped, "/key"), cell(skipped, "/reason")));
        }
        Ok(())
    }
}
