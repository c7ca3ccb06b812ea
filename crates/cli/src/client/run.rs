//! `run`.

use super::Session;
use super::files::read_document;
use super::http::Request;
use super::output::{Listing, at_least_one, cell};
use super::selection::{KeyArgs, SelectionArgs};
use super::watch::watch;
use clap::Subcommand;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// Runs: one pass over a set of images.
#[derive(Subcommand, Debug)]
pub enum RunCommand {
    /// Starts a run by hand and prints its id.
    #[command(after_help = "Examples:
  stella-scheduler run start --watch
  stella-scheduler run start --key pkg:deb/debian/openssl --repository shop/cart
  stella-scheduler run start --schedule $SCHEDULE
  stella-scheduler run start --schedule $SCHEDULE --backfill --reason 'no exports on Monday'")]
    Start(Box<StartArgs>),
    /// Lists runs, newest first.
    #[command(after_help = "Examples:
  stella-scheduler run list --state running
  stella-scheduler run list --trigger feedser --since 2026-11-29T00:00:00Z")]
    List {
        /// Only of this schedule.
        #[arg(long, value_name = "ID")]
        schedule: Option<String>,
        /// Only in this state.
        #[arg(long, value_parser = ["planning", "queued", "running", "completed", "error", "cancelled"])]
        state: Option<String>,
        /// Only begun by this.
        #[arg(long, value_parser = ["cron", "feedser", "vexer", "policy", "manual", "backfill"])]
        trigger: Option<String>,
        /// Only created at this instant or later.
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
        /// Only created before this instant.
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
        /// At most so many.
        #[arg(long, value_name = "N", value_parser = at_least_one)]
        limit: Option<usize>,
    },
    /// Prints a run.
    #[command(after_help = "Examples:
  stella-scheduler run get $RUN")]
    Get {
        /// The run's id.
        id: String,
    },
    /// Follows a run to its end; exit code 1 when it was cancelled or ended in an error.
    #[command(after_help = "Examples:
  stella-scheduler run watch $RUN")]
    Watch {
        /// The run's id.
        id: String,
    },
    /// Cancels a run: no further call is begun.
    #[command(after_help = "Examples:
  stella-scheduler run cancel $RUN")]
    Cancel {
        /// The run's id.
        id: String,
    },
    /// Lists what each image got in a run.
    #[command(after_help = "Examples:
  stella-scheduler run images $RUN --outcome delta
  stella-scheduler run images $RUN --outcome failed --json")]
    Images {
        /// The run's id.
        id: String,
        /// Only these.
        #[arg(long, value_parser = ["delta", "unchanged", "failed", "skipped"])]
        outcome: Option<String>,
    },
}

/// What a run by hand is to do.
#[derive(clap::Args, Debug)]
pub struct StartArgs {
    /// The body of `POST /run`; `-` is standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["schedule", "mode", "reason", "KeyArgs", "SelectionArgs"])]
    file: Option<PathBuf>,
    /// What this schedule does, now.
    #[arg(long, value_name = "ID", conflicts_with = "mode")]
    schedule: Option<String>,
    /// To make up for what no export told of: goes after all other work.
    #[arg(long, requires = "schedule")]
    backfill: bool,
    /// Whether tags are resolved and scanned anew before the reports.
    #[arg(long, value_parser = ["analysis-only", "content-refresh"])]
    mode: Option<String>,
    /// Why, for those who look at the run later.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Starting again with the same key within 24 h starts nothing and prints the first run's id.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Follow the run to its end.
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    selection: SelectionArgs,
}

/// Members that every run has.
pub const RUN: [&str; 2] = ["id", "state"];

const COLUMNS: &[(&str, &str)] = &[
    ("ID", "/id"),
    ("TRIGGER", "/trigger"),
    ("STATE", "/state"),
    ("QUEUED", "/stats/queued"),
    ("DONE", "/stats/completed"),
    ("FAILED", "/stats/failed"),
    ("DELTAS", "/stats/deltas"),
    ("CREATED", "/createdAt"),
    ("FINISHED", "/finishedAt"),
];

const FIELDS: &[(&str, &str)] = &[
    ("id", "/id"),
    ("schedule", "/scheduleId"),
    ("trigger", "/trigger"),
    ("reason", "/reason"),
    ("state", "/state"),
    ("error", "/error"),
    ("mode", "/mode"),
    ("priority", "/priority"),
    ("stats", "/stats"),
    ("created", "/createdAt"),
    ("started", "/startedAt"),
    ("first verdict", "/firstVerdictAt"),
    ("finished", "/finishedAt"),
];

const IMAGE_COLUMNS: &[(&str, &str)] = &[
    ("DIGEST", "/imageDigest"),
    ("REPOSITORY", "/repository"),
    ("OUTCOME", "/outcome"),
    ("VERDICT", "/verdict"),
    ("NEW", "/delta/newFindings"),
    ("CRITICAL", "/delta/newCriticals"),
    ("HIGH", "/delta/newHigh"),
    ("KEV", "/delta/kevHits"),
    ("WHY", "/reason /error/message"),
];

impl RunCommand {
    /// Carries it out.
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let Session { client, out } = session;
        match self {
            Self::Start(args) => start(session, *args).await,
            Self::List { schedule, state, trigger, since, until, limit } => {
                let asked = Request::get(&["runs"])
                    .maybe("scheduleId", schedule)
                    .maybe("state", state)
                    .maybe("trigger", trigger)
                    .maybe("since", since)
                    .maybe("until", until);
                let mut listing = Listing::new(*out, "/id", COLUMNS, "no runs");
                client.each(asked, limit, |item| listing.push(&item)).await?;
                listing.end()
            }
            Self::Get { id } => {
                let run = client.call(Request::get(&["runs", &id]), &RUN).await?;
                out.thing(&run, "/id", FIELDS)
            }
            Self::Watch { id } => watch(session, &id).await,
            Self::Cancel { id } => {
                let run = client.call(Request::post(&["runs", &id, "cancel"]), &RUN).await?;
                if out.json {
                    return out.document(&run);
                }
                out.say(&format!("run {id} begins no further call"))
            }
            Self::Images { id, outcome } => {
                let asked = Request::get(&["runs", &id, "images"]).maybe("outcome", outcome);
                let mut listing = Listing::new(*out, "/imageDigest", IMAGE_COLUMNS, "no images");
                client.each(asked, None, |item| listing.push(&item)).await?;
                listing.end()
            }
        }
    }
}

async fn start(session: &Session, args: StartArgs) -> anyhow::Result<()> {
    let mut body = match &args.file {
        Some(path) => match read_document(path)? {
            Value::Object(members) => members,
            _ => anyhow::bail!("{} is no JSON object", path.display()),
        },
        None => Map::new(),
    };
    for (member, value) in [
        ("scheduleId", args.schedule.map(Value::String)),
        ("backfill", args.backfill.then_some(Value::Bool(true))),
        ("mode", args.mode.map(Value::String)),
        ("reason", args.reason.map(Value::String)),
        ("selection", args.selection.selection()),
    ] {
        if let Some(value) = value {
            body.insert(member.to_owned(), value);
        }
    }
    args.keys.write(&mut body)?;
    let mut request = Request::post(&["run"]).json(&Value::Object(body));
    if let Some(key) = &args.idempotency_key {
        request = request.header("idempotency-key", key);
    }
    let answer = session.client.call(request, &["runId"]).await?;
    let id = cell(&answer, "/runId");
    if args.watch {
        session.out.remark(&format!("run {id}"));
        return watch(session, &id).await;
    }
    if session.out.json {
        session.out.document(&json!({ "runId": id }))
    } else if session.out.quiet {
        session.out.line(&id)
    } else {
        session.out.line(&format!("started run {id}; `stella-scheduler run watch {id}` follows it"))
    }
}
