//! `schedule`.

use super::files::read_document;
use super::http::Request;
use super::output::Listing;
use super::selection::SelectionArgs;
use super::{Output, Session};
use anyhow::{Context, bail};
use chrono::{DateTime, SecondsFormat, Utc};
use clap::Subcommand;
use reqwest::Method;
use scheduler_calendar::{Calendar, CronExpr, Zone};
use scheduler_model::Timestamp;
use scheduler_web::Ahead;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// The most instants that `next` computes.
const NEXT_COUNT_MAX: i64 = 500;

/// Schedules: when to look again, at which images, after which events.
#[derive(Subcommand, Debug)]
pub enum ScheduleCommand {
    /// Makes a schedule, from a file or from options, and prints it.
    #[command(after_help = "Examples:
  stella-scheduler schedule create --name nightly --cron '0 2 * * *' --timezone Europe/Sofia
  stella-scheduler schedule create --name advisories --on feedser --on vexer --namespace prod
  stella-scheduler schedule create --file nightly.json")]
    Create {
        /// The body of `POST /schedules`; `-` is standard input.
        #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "cron", "timezone", "on", "SelectionArgs"])]
        file: Option<PathBuf>,
        /// Its name, once in the tenant.
        #[arg(long, required_unless_present = "file")]
        name: Option<String>,
        /// When it runs: a cron expression.
        #[arg(long, value_name = "EXPR")]
        cron: Option<String>,
        /// The zone of the expression.
        #[arg(long, value_name = "ZONE", default_value = "UTC")]
        timezone: String,
        /// Whose exports it follows; may be given several times.
        #[arg(long, value_name = "SOURCE", value_parser = ["feedser", "vexer"])]
        on: Vec<String>,
        #[command(flatten)]
        selection: SelectionArgs,
    },
    /// Lists the tenant's schedules.
    #[command(after_help = "Examples:
  stella-scheduler schedule list
  stella-scheduler schedule list --name nightly --json")]
    List {
        /// Only the one of this name.
        #[arg(long)]
        name: Option<String>,
        /// Only those that are enabled, or are not.
        #[arg(long, value_name = "BOOL")]
        enabled: Option<bool>,
    },
    /// Prints a schedule.
    #[command(after_help = "Examples:
  stella-scheduler schedule get $SCHEDULE")]
    Get {
        /// The schedule's id.
        id: String,
    },
    /// Changes a schedule by a JSON merge patch and prints it.
    #[command(after_help = "Examples:
  stella-scheduler schedule update $SCHEDULE --file patch.json
  echo '{\"jitterSeconds\": 60}' | stella-scheduler schedule update $SCHEDULE --file -")]
    Update {
        /// The schedule's id.
        id: String,
        /// The members to change; `null` takes one away. `-` is standard input.
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
    },
    /// Disables a schedule: it neither ticks nor follows events.
    #[command(after_help = "Examples:
  stella-scheduler schedule pause $SCHEDULE")]
    Pause {
        /// The schedule's id.
        id: String,
    },
    /// Enables a schedule.
    #[command(after_help = "Examples:
  stella-scheduler schedule resume $SCHEDULE")]
    Resume {
        /// The schedule's id.
        id: String,
    },
    /// Deletes a schedule; its runs stay.
    #[command(after_help = "Examples:
  stella-scheduler schedule delete $SCHEDULE")]
    Delete {
        /// The schedule's id.
        id: String,
    },
    /// Tells the next instants of a cron expression, or of a schedule of the service.
    #[command(after_help = "Examples:
  stella-scheduler schedule next '30 2 * * *' --tz Europe/Sofia --count 3
  stella-scheduler schedule next --id $SCHEDULE")]
    Next {
        /// A cron expression; asks no service.
        #[arg(required_unless_present = "id", conflicts_with = "id", value_name = "EXPR")]
        expression: Option<String>,
        /// The zone of the expression.
        #[arg(long, value_name = "ZONE", default_value = "UTC")]
        tz: String,
        /// The schedule's id.
        #[arg(long)]
        id: Option<String>,
        /// How many.
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=NEXT_COUNT_MAX))]
        count: u32,
        /// Later than this instant, instead of now.
        #[arg(long, value_name = "TIME")]
        after: Option<DateTime<Utc>>,
    },
}

/// Members that every schedule has.
const SCHEDULE: [&str; 2] = ["id", "enabled"];

const COLUMNS: &[(&str, &str)] = &[
    ("ID", "/id"),
    ("NAME", "/name"),
    ("ENABLED", "/enabled"),
    ("CRON", "/whenCron"),
    ("ZONE", "/timezone"),
    ("EVENTS", "/onEvents"),
    ("NEXT", "/nextRunAt"),
    ("LAST", "/lastRun/state"),
];

const FIELDS: &[(&str, &str)] = &[
    ("id", "/id"),
    ("name", "/name"),
    ("enabled", "/enabled"),
    ("cron", "/whenCron"),
    ("zone", "/timezone"),
    ("events", "/onEvents"),
    ("mode", "/mode"),
    ("selection", "/selection"),
    ("only if", "/onlyIf"),
    ("notify", "/notify"),
    ("limits", "/limits"),
    ("next run", "/nextRunAt"),
    ("last run", "/lastRun/id /lastRun/state"),
    ("version", "/version"),
];

impl ScheduleCommand {
    /// Carries it out.
    pub async fn run(self, session: &Session, now: DateTime<Utc>) -> anyhow::Result<()> {
        let Session { client, out } = session;
        match self {
            Self::Create { file, name, cron, timezone, on, selection } => {
                let body = match file {
                    Some(path) => read_document(&path)?,
                    None => body(name, cron, &timezone, on, &selection),
                };
                let schedule = client.call(Request::post(&["schedules"]).json(&body), &SCHEDULE).await?;
                warn(out, &schedule);
                out.thing(&schedule, "/id", FIELDS)
            }
            Self::List { name, enabled } => {
                let asked = Request::get(&["schedules"])
                    .maybe("name", name)
                    .maybe("enabled", enabled.map(|enabled| enabled.to_string()));
                let mut listing = Listing::new(*out, "/id", COLUMNS, "no schedules");
                client.each(asked, None, |item| listing.push(&item)).await?;
                listing.end()
            }
            Self::Get { id } => {
                let schedule = client.call(Request::get(&["schedules", &id]), &SCHEDULE).await?;
                out.thing(&schedule, "/id", FIELDS)
            }
            Self::Update { id, file } => {
                let schedule = patch(session, &id, &read_document(&file)?).await?;
                warn(out, &schedule);
                out.thing(&schedule, "/id", FIELDS)
            }
            Self::Pause { id } => enable(session, &id, false).await,
            Self::Resume { id } => enable(session, &id, true).await,
            Self::Delete { id } => {
                client.call(Request::new(Method::DELETE, &["schedules", &id]), &[]).await?;
                out.say(&format!("deleted schedule {id}"))
            }
            Self::Next { expression, tz, id, count, after } => match (expression, id) {
                (Some(expression), _) => next_of_expression(out, &expression, &tz, count, after.unwrap_or(now)),
                (None, Some(id)) => {
                    let after = after.map(|after| after.to_rfc3339_opts(SecondsFormat::AutoSi, true));
                    let asked = Request::get(&["schedules", &id, "next"])
                        .query("count", count.to_string())
                        .maybe("after", after);
                    ahead(out, &client.call(asked, &["instants"]).await?)
                }
                (None, None) => bail!("give a cron expression or --id"),
            },
        }
    }
}

fn body(
    name: Option<String>,
    cron: Option<String>,
    timezone: &str,
    on: Vec<String>,
    selection: &SelectionArgs,
) -> Value {
    let mut body = Map::new();
    body.insert("name".to_owned(), json!(name));
    body.insert("timezone".to_owned(), json!(timezone));
    if let Some(cron) = cron {
        body.insert("whenCron".to_owned(), json!(cron));
    }
    if !on.is_empty() {
        body.insert("onEvents".to_owned(), json!(on));
    }
    if let Some(selection) = selection.selection() {
        body.insert("selection".to_owned(), selection);
    }
    Value::Object(body)
}

async fn patch(session: &Session, id: &str, changes: &Value) -> anyhow::Result<Value> {
    let request = Request::new(Method::PATCH, &["schedules", id]);
    let request = request.body("application/merge-patch+json", changes.to_string().into_bytes());
    Ok(session.client.call(request, &SCHEDULE).await?)
}

async fn enable(session: &Session, id: &str, enabled: bool) -> anyhow::Result<()> {
    let schedule = patch(session, id, &json!({ "enabled": enabled })).await?;
    if session.out.json {
        return session.out.document(&schedule);
    }
    session.out.say(&format!("schedule {id} is {}", if enabled { "enabled" } else { "paused" }))
}

fn next_of_expression(
    out: &Output,
    expression: &str,
    zone: &str,
    count: u32,
    after: DateTime<Utc>,
) -> anyhow::Result<()> {
    let parsed = CronExpr::parse(expression);
    let expr = if expression.contains(char::is_whitespace) {
        parsed?
    } else {
        // One word may be a macro, but is more likely an id.
        parsed.context("an expression is one argument in quotes; a schedule of the service is named by --id")?
    };
    let zone = Zone::parse(zone)?;
    let found = Ahead::of(&Calendar { expr, zone }, Timestamp::from(after), usize::try_from(count)?);
    ahead(out, &serde_json::to_value(found)?)
}

/// Shows the instants ahead on both clocks, what the expression says, and what may surprise about it.
fn ahead(out: &Output, answer: &Value) -> anyhow::Result<()> {
    if out.json {
        return out.document(answer);
    }
    let text = |value: &Value, member: &str| value.get(member).and_then(Value::as_str).unwrap_or_default().to_owned();
    match text(answer, "reading").as_str() {
        "" => out.remark("no cron expression: it is run by events or by hand"),
        reading => out.remark(&format!("{reading} ({})", text(answer, "timezone"))),
    }
    warn(out, answer);
    let instants = answer.get("instants").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if instants.is_empty() {
        out.remark("never");
    }
    for instant in instants {
        let (utc, local) = (text(instant, "utc"), text(instant, "local"));
        match DateTime::parse_from_rfc3339(&local) {
            Ok(local) if !out.quiet => out.line(&format!("{utc}  {}", local.format("%a %Y-%m-%d %H:%M:%S %:z")))?,
            _ => out.line(&utc)?,
        }
    }
    Ok(())
}

/// Says what may surprise about a clock.
fn warn(out: &Output, answer: &Value) {
    let warnings = answer.get("warnings").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for detail in warnings.iter().filter_map(|warning| warning.get("detail")).filter_map(Value::as_str) {
        out.remark(&format!("warning: {detail}"));
    }
}
