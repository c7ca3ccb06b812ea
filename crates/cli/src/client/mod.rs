//! The verbs that talk to a running service, for people and scripts: calls go through [`Client`], answers through [`Output`].
//!
//! - CLI-1: results go to stdout, everything else to stderr; with `--json` stdout is one document, or one line for each item.
//! - CLI-2: a failure is one sentence with the way out, and exit code 1; wrong usage is exit code 2.
//! - CLI-3: no token, secret or password of a URL is ever shown.

mod error;
mod event;
mod files;
mod http;
mod image;
mod import;
mod index;
mod output;
mod preview;
mod problem;
mod run;
mod schedule;
mod selection;
mod watch;

#[cfg(test)]
mod tests;

pub use error::ClientError;
pub use event::{EventCommand, SourceArg};
pub use files::read_input;
pub use http::{Client, Request};
pub use image::ImageCommand;
pub use import::name_of;
pub use index::IndexCommand;
pub use output::{Output, clean, count};
pub use preview::PreviewArgs;
pub use run::RunCommand;
pub use schedule::ScheduleCommand;

use scheduler_model::TenantId;
use std::path::PathBuf;

/// Flags of every command.
#[derive(clap::Args, Debug, Clone)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// The configuration file (YAML); without one everything has its default.
    #[arg(long, global = true, env = "SCHEDULER_CONFIG", hide_env_values = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The service that is asked.
    #[arg(
        long,
        global = true,
        env = "SCHEDULER_SERVER",
        hide_env_values = true,
        value_name = "URL",
        default_value = "http://127.0.0.1:8585"
    )]
    pub server: String,
    /// The tenant, where no token names it.
    #[arg(long, global = true, env = "SCHEDULER_TENANT", hide_env_values = true, value_name = "ID", value_parser = tenant)]
    pub tenant: Option<TenantId>,
    /// A file with the access token.
    #[arg(long, global = true, env = "SCHEDULER_TOKEN_FILE", hide_env_values = true, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// One JSON document, or one line for each item of a list and each step of a watch.
    #[arg(long, global = true)]
    pub json: bool,
    /// Ids only: no tables, summaries and progress.
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

fn tenant(text: &str) -> Result<TenantId, String> {
    TenantId::try_from(text.to_owned()).map_err(|error| error.to_string())
}

/// What the verbs work with.
pub struct Session {
    /// Where calls go.
    pub client: Client,
    /// Where answers go.
    pub out: Output,
}

impl Session {
    /// A session with the service that the flags name; nothing is sent yet.
    pub fn new(global: &Global) -> Result<Self, ClientError> {
        Ok(Self { client: Client::new(global)?, out: Output::new(global) })
    }
}
