//! The binary `stella-scheduler`.

mod client;
mod completions;
mod config;
mod demo;
mod doctor;
mod files;
#[cfg(test)]
mod golden;
mod keys;
#[cfg(test)]
mod reference;
mod serve;
mod system;
#[cfg(test)]
mod tls_tests;
mod wire;

use anyhow::Context;
use clap::{CommandFactory, Parser, Subcommand};
use client::{EventCommand, Global, ImageCommand, IndexCommand, PreviewArgs, RunCommand, ScheduleCommand, Session};
use scheduler_core::ports::Clock;
use scheduler_telemetry::Telemetry;
use std::future::Future;
use std::path::PathBuf;
use std::process::ExitCode;

/// Keeps the verdicts of container images current without rescanning the world.
#[derive(Parser)]
#[command(
    name = "stella-scheduler",
    version,
    after_help = "Exit codes: 0 done, 1 the operation failed, 2 wrong usage."
)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs web service, planner and workers in one process.
    #[command(after_help = "Examples:
  stella-scheduler serve
  stella-scheduler serve --data-dir /var/lib/stella-scheduler
  stella-scheduler --config /etc/stella-scheduler/config.yaml serve")]
    Serve {
        /// Where the embedded engine keeps its files (instead of `dataDir`).
        #[arg(long, value_name = "DIR")]
        data_dir: Option<PathBuf>,
    },
    #[command(subcommand)]
    Schedule(ScheduleCommand),
    #[command(subcommand)]
    Run(RunCommand),
    #[command(subcommand)]
    Image(ImageCommand),
    /// Tells which images a change would touch; asks the index alone and changes nothing.
    Preview(PreviewArgs),
    #[command(subcommand)]
    Event(EventCommand),
    #[command(subcommand)]
    Index(IndexCommand),
    /// Checks configuration, ports, store, index, scanner, keys, certificates, traces and clock; one PASS, WARN or FAIL line each, exit code 1 on a FAIL.
    Doctor(doctor::DoctorArgs),
    #[command(subcommand)]
    Keys(keys::KeysCommand),
    /// Prints a shell's completions.
    #[command(after_help = "Examples:
  stella-scheduler completions bash > /etc/bash_completion.d/stella-scheduler
  stella-scheduler completions fish > ~/.config/fish/completions/stella-scheduler.fish")]
    Completions {
        /// For this shell.
        shell: clap_complete::Shell,
    },
    /// Prints the OpenAPI 3.1 document of the REST interface, the same as `GET /openapi.json`.
    #[command(after_help = "Examples:
  stella-scheduler openapi > openapi.json")]
    Openapi,
    /// Shows the main job from nothing, on a sample catalog or on your own files.
    Demo(demo::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // Both ring and aws-lc-rs may be linked; one has to be chosen before the first use. A second call changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the output has enough of it.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

fn run(cli: Cli) -> anyhow::Result<()> {
    let global = cli.global;
    match cli.command {
        Command::Serve { data_dir } => {
            let config = config::read(global.config.as_deref(), data_dir.as_deref())?;
            let json_logs = config.log_format == config::LogFormat::Json;
            let telemetry = Telemetry::start(json_logs, config.otlp_endpoint.as_deref())
                .context("configuration key telemetry.otlpEndpoint")?;
            let served =
                tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(serve::serve(config));
            telemetry.end();
            served
        }
        Command::Schedule(command) => {
            let now = system::SystemClock.now().utc();
            on_one_thread(async { command.run(&Session::new(&global)?, now).await })
        }
        Command::Run(command) => on_one_thread(async { command.run(&Session::new(&global)?).await }),
        Command::Image(command) => on_one_thread(async { command.run(&Session::new(&global)?).await }),
        Command::Preview(args) => on_one_thread(async { args.run(&Session::new(&global)?).await }),
        Command::Event(command) => {
            on_one_thread(async { command.run(&Session::new(&global)?, system::SystemClock.now()).await })
        }
        Command::Index(command) => on_one_thread(command.run(&global)),
        Command::Doctor(args) => on_one_thread(args.run(&global)),
        Command::Keys(command) => command.run(&global),
        Command::Completions { shell } => {
            client::Output::new(&global).line(completions::script(shell, &mut Cli::command()).trim_end())
        }
        Command::Openapi => client::Output::new(&global).line(&scheduler_web::openapi_json()?),
        Command::Demo(args) => {
            tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(demo::run(args, global.json))
        }
    }
}

/// Runs what waits for a service more than it works.
fn on_one_thread(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}
