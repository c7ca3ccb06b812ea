//! The binary `stella-scheduler`.

mod config;
mod demo;
mod serve;
mod system;
#[cfg(test)]
mod tls_tests;
mod wire;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Keeps the verdicts of container images current without rescanning the world.
#[derive(Parser)]
#[command(name = "stella-scheduler", version, propagate_version = true)]
struct Cli {
    /// The configuration file (YAML); without one everything has its default.
    #[arg(long, global = true, env = "SCHEDULER_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs web service, planner and workers in one process.
    Serve {
        /// Where the embedded engine keeps its files (instead of `dataDir`).
        #[arg(long, value_name = "DIR")]
        data_dir: Option<PathBuf>,
    },
    /// Shows the main job from nothing, on a sample catalog or on your own files.
    Demo(demo::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // Both ring and aws-lc-rs may be linked; one has to be chosen before the first use. A second call changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Command::Serve { data_dir } => {
            let config = config::read(cli.config.as_deref(), data_dir.as_deref())?;
            scheduler_telemetry::init_logs(config.log_format == config::LogFormat::Json);
            tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(serve::serve(config))
        }
        Command::Demo(args) => {
            tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(demo::run(args))
        }
    }
}
