//! Every row of the shared time data: next instants, and text that must be refused.
#![expect(clippy::expect_used, reason = "the helpers of a test may panic")]

use chrono::{DateTime, Utc};
use scheduler_calendar::{Calendar, CronExpr, Zone};
use serde_json::Value;

/// The rows of a shared file; `None` where there is no shared data.
fn rows(file: &str) -> Option<Vec<Value>> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared");
    let folder = std::env::var("SCHEDULER_SHARED").unwrap_or_else(|_| default.to_owned());
    let Ok(text) = std::fs::read_to_string(format!("{folder}/oracles/{file}")) else {
        println!("skipped: no shared data");
        return None;
    };
    Some(text.lines().map(|line| serde_json::from_str(line).expect("a row is JSON")).collect())
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row.get(key).and_then(Value::as_str).expect("a row has the key")
}

fn instant(text: &str) -> DateTime<Utc> {
    text.parse().expect("an instant is RFC 3339")
}

fn instants(row: &Value) -> Vec<DateTime<Utc>> {
    let list = row.get("next").and_then(Value::as_array).expect("a row has instants");
    list.iter().filter_map(Value::as_str).map(instant).collect()
}

#[test]
fn next_agrees_with_every_row() {
    let Some(rows) = rows("cron-next.jsonl") else { return };
    let mut wrong = Vec::new();
    for row in &rows {
        let zone = Zone::parse(text(row, "tz")).expect("the zone is known");
        let expected = instants(row);
        let expr = match CronExpr::parse(text(row, "expr")) {
            Ok(expr) => expr,
            Err(_) if text(row, "kind") == "never" && expected.is_empty() => continue,
            Err(error) => {
                wrong.push(format!("{row}\n  {error}"));
                continue;
            }
        };
        let calendar = Calendar { expr, zone };
        let got: Vec<_> = calendar.upcoming(instant(text(row, "after"))).take(5).collect();
        if got != expected {
            wrong.push(format!("{row}\n  {got:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

#[test]
fn prev_leads_back_through_every_row() {
    let Some(rows) = rows("cron-next.jsonl") else { return };
    for row in &rows {
        let Ok(expr) = CronExpr::parse(text(row, "expr")) else { continue };
        let calendar = Calendar { expr, zone: Zone::parse(text(row, "tz")).expect("the zone is known") };
        for pair in instants(row).windows(2) {
            assert_eq!(calendar.prev(pair[1]), Some(pair[0]), "{row}");
        }
    }
}

#[test]
fn every_invalid_row_is_refused_at_its_field() {
    let Some(rows) = rows("cron-invalid.jsonl") else { return };
    for row in &rows {
        let source = text(row, "expr");
        if text(row, "cls") == "tz" {
            assert!(Zone::parse(text(row, "tz")).is_err(), "{row}");
            continue;
        }
        let error = CronExpr::parse(source).expect_err(&row.to_string());
        assert!(error.position <= source.len(), "{row}");
        let named = [
            ("minute out", "minute field"),
            ("hour out", "hour field"),
            ("day of month out", "day-of-month field"),
            ("month out", "month field"),
            ("day of week out", "day-of-week field"),
            ("second out", "second field"),
            ("bad year", "year field"),
        ];
        if let Some((_, field)) = named.iter().find(|(why, _)| text(row, "why").starts_with(why)) {
            assert!(error.to_string().starts_with(field), "{row}\n  {error}");
        }
    }
}
