//! Follows a run on the event stream to its end.

use super::client::{Event, Events};
use anyhow::{Context, bail, ensure};
use indicatif::ProgressBar;
use serde_json::Value;
use std::collections::HashMap;
use std::time::Duration;

/// A stream on which nothing comes for so long has nothing to tell any more.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// What the stream told of one run.
#[derive(Debug)]
pub struct Followed {
    /// The run in its end.
    pub run: Value,
    /// The `rescan.delta` events.
    pub deltas: Vec<Value>,
}

#[derive(Default)]
struct Seen {
    images: u64,
    deltas: Vec<Value>,
}

/// Reads until the run that `is_it` picks has ended and all its images were told of.
pub async fn follow(
    events: &mut Events,
    is_it: impl Fn(&Value) -> bool,
    bar: &ProgressBar,
) -> anyhow::Result<Followed> {
    // An image's event may come before the run is known by its id.
    let mut seen: HashMap<String, Seen> = HashMap::new();
    let mut run: Option<Value> = None;
    loop {
        if let Some(ended) = run.as_ref().filter(|run| has_ended(run)) {
            let told = seen.get(text(ended, "id")).map_or(0, |seen| seen.images);
            if told >= count(ended, "completed") {
                break;
            }
        }
        let event = tokio::time::timeout(SILENCE_MAX, events.next())
            .await
            .with_context(|| format!("nothing came on the event stream for {} s", SILENCE_MAX.as_secs()))??;
        take(event, &is_it, &mut seen, &mut run)?;
        let id = run.as_ref().map(|run| text(run, "id")).unwrap_or_default();
        bar.set_position(seen.get(id).map_or(0, |seen| seen.images));
    }
    let run = run.context("the run has no end")?;
    let state = text(&run, "state");
    ensure!(state == "completed", "the run ended in state {state}: {}", text(&run, "error"));
    ensure!(count(&run, "failed") == 0, "{} images got no verdict", count(&run, "failed"));
    let deltas = seen.remove(text(&run, "id")).unwrap_or_default().deltas;
    Ok(Followed { run, deltas })
}

fn take(
    event: Event,
    is_it: impl Fn(&Value) -> bool,
    seen: &mut HashMap<String, Seen>,
    run: &mut Option<Value>,
) -> anyhow::Result<()> {
    match event.kind.as_str() {
        "run.updated" if is_it(&event.data) => *run = Some(event.data),
        "rescan.delta" | "report.ready" => {
            let seen = seen.entry(text(&event.data, "runId").to_owned()).or_default();
            seen.images += 1;
            if event.kind == "rescan.delta" {
                seen.deltas.push(event.data);
            }
        }
        "resync" => bail!("the event stream lost its place"),
        _ => {}
    }
    Ok(())
}

fn has_ended(run: &Value) -> bool {
    matches!(text(run, "state"), "completed" | "error" | "cancelled")
}

/// A text member, empty when there is none.
pub fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value.get(member).and_then(Value::as_str).unwrap_or_default()
}

/// A counter of a run.
pub fn count(run: &Value, counter: &str) -> u64 {
    run.get("stats").and_then(|stats| stats.get(counter)).and_then(Value::as_u64).unwrap_or_default()
}
