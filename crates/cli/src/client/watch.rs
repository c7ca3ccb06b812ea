//! Follows a run to its end, over a service that is restarted meanwhile.

use super::http::Request;
use super::output::cell;
use super::run::RUN;
use super::{ClientError, Session};
use anyhow::bail;
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The first look is soon, for runs that are short; then the pace slows down.
const PACE_MIN: Duration = Duration::from_millis(100);
const PACE_MAX: Duration = Duration::from_secs(1);

/// How long a service that cannot be reached is waited for.
const AWAY_MAX: Duration = Duration::from_secs(60);

/// Prints every step that is seen: with `--json` the run, else a line for people.
pub async fn watch(session: &Session, id: &str) -> anyhow::Result<()> {
    let Session { client, out } = session;
    let bar = out.progress(0);
    let mut pace = PACE_MIN;
    let mut last = Value::Null;
    let mut away_since: Option<Instant> = None;
    let run = loop {
        match client.call(Request::get(&["runs", id]), &RUN).await {
            Ok(run) => {
                away_since = None;
                if run != last {
                    pace = PACE_MIN;
                    if out.json {
                        out.document(&run)?;
                    } else if bar.is_hidden() {
                        out.say(&step(&run))?;
                    }
                    bar.set_length(number(&run, "/stats/queued"));
                    bar.set_position(done(&run));
                    bar.set_message(format!("{}, {} deltas", cell(&run, "/state"), cell(&run, "/stats/deltas")));
                    last = run.clone();
                }
                if has_ended(&run) {
                    break run;
                }
            }
            Err(error) => {
                if let Some(remark) = wait_for(&mut away_since, error, &last)? {
                    bar.suspend(|| out.remark(&remark));
                }
            }
        }
        sleep(pace).await;
        pace = (pace * 3 / 2).min(PACE_MAX);
    };
    bar.finish_and_clear();
    if !bar.is_hidden() {
        out.say(&step(&run))?;
    }
    match run.get("state").and_then(Value::as_str) {
        Some("completed") => Ok(()),
        Some("error") => bail!("run {id} could not be carried out: {}", cell(&run, "/error")),
        _ => bail!("run {id} was cancelled"),
    }
}

/// Bears with a service that was seen before and is away now, and says so the first time; every other error ends the watch.
fn wait_for(away_since: &mut Option<Instant>, error: ClientError, last: &Value) -> Result<Option<String>, ClientError> {
    let is_first = away_since.is_none();
    let since = *away_since.get_or_insert_with(Instant::now);
    if !error.is_transport() || last.is_null() || since.elapsed() > AWAY_MAX {
        return Err(error);
    }
    Ok(is_first.then(|| format!("{error}; the connection is tried again for {} s", AWAY_MAX.as_secs())))
}

fn has_ended(run: &Value) -> bool {
    matches!(run.get("state").and_then(Value::as_str), Some("completed" | "error" | "cancelled"))
}

fn number(run: &Value, pointer: &str) -> u64 {
    run.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

fn done(run: &Value) -> u64 {
    ["/stats/completed", "/stats/failed", "/stats/skipped"].iter().map(|pointer| number(run, pointer)).sum()
}

fn step(run: &Value) -> String {
    let count = |name: &str| number(run, &format!("/stats/{name}"));
    let mut text = format!(
        "{:<9}  {} of {} images, {} with news ({} new critical, {} KEV)",
        cell(run, "/state"),
        done(run),
        count("queued"),
        count("deltas"),
        count("newCriticals"),
        count("kevHits"),
    );
    for name in ["failed", "skipped", "spilled"] {
        if count(name) > 0 {
            text.push_str(&format!(", {} {name}", count(name)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_connection_that_is_lost_is_told_once_and_waited_for_a_minute() {
        let lost = || ClientError::Cut { server: "http://h".to_owned(), why: "the connection was reset".to_owned() };
        let seen = json!({ "state": "running" });
        let mut away = None;
        let told = wait_for(&mut away, lost(), &seen).unwrap().unwrap();
        assert!(told.contains("http://h did not answer") && told.contains("tried again for 60 s"), "{told}");
        assert!(wait_for(&mut away, lost(), &seen).unwrap().is_none());
        let mut almost = Instant::now().checked_sub(AWAY_MAX / 2);
        assert!(wait_for(&mut almost, lost(), &seen).unwrap().is_none());
        let mut over = Instant::now().checked_sub(AWAY_MAX);
        assert!(wait_for(&mut over, lost(), &seen).is_err());
        // A run that was never seen may not be there at all.
        assert!(wait_for(&mut None, lost(), &Value::Null).is_err());
    }

    #[test]
    fn a_step_tells_what_went_wrong_only_when_something_did() {
        let stats = json!({ "queued": 4, "completed": 2, "failed": 1, "skipped": 0, "deltas": 1, "newCriticals": 1 });
        assert_eq!(
            step(&json!({ "state": "running", "stats": stats })),
            "running    3 of 4 images, 1 with news (1 new critical, 0 KEV), 1 failed"
        );
    }
}
