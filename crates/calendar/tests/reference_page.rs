//! The reference page tells the truth: every example of it is run.
#![expect(clippy::expect_used, reason = "the helpers of a test may panic")]

use chrono::{DateTime, Utc};
use scheduler_calendar::{Calendar, CronExpr, Zone};

const PAGE: &str = include_str!("../../../docs/reference/cron.md");

/// The rows of the table under a heading, without its head.
fn table(heading: &str) -> Vec<Vec<&'static str>> {
    let section = PAGE.split("\n## ").find(|section| section.starts_with(heading)).expect("the page has the heading");
    let lines = section.lines().filter(|line| line.starts_with('|')).skip(2);
    lines.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

fn code(cell: &str) -> &str {
    cell.trim_matches('`')
}

fn at(cell: &str) -> DateTime<Utc> {
    code(cell).parse().expect("an instant is RFC 3339")
}

#[test]
fn every_worked_example_holds() {
    let rows = table("Worked examples");
    assert_eq!(rows.len(), 21);
    for row in rows {
        let [expr, zone, after, instants, why] = row[..] else { panic!("five cells: {row:?}") };
        let expr = CronExpr::parse(code(expr)).unwrap();
        let calendar = Calendar { expr, zone: Zone::parse(code(zone)).unwrap() };
        let expected: Vec<_> = instants.split(' ').filter(|cell| *cell != "never").map(at).collect();
        let got: Vec<_> = calendar.upcoming(at(after)).take(expected.len().max(1)).collect();
        assert_eq!(got, expected, "{why}: {row:?}");
    }
}

#[test]
fn every_refused_example_is_refused_with_its_message() {
    let rows = table("Refused");
    assert_eq!(rows.len(), 9);
    for row in rows {
        let [expr, message] = row[..] else { panic!("two cells: {row:?}") };
        assert_eq!(CronExpr::parse(code(expr)).unwrap_err().to_string(), message, "{expr}");
    }
}

#[test]
fn every_nickname_means_what_the_page_says() {
    let nicknames = PAGE.lines().filter(|line| line.starts_with("| `@") && !line.contains("cron expression"));
    let mut count = 0;
    for line in nicknames {
        let [names, meaning] = line.trim_matches('|').split(" | ").map(str::trim).collect::<Vec<_>>()[..] else {
            panic!("two cells: {line}")
        };
        let calendar = |expr| Calendar { expr: CronExpr::parse(code(expr)).unwrap(), zone: Zone::UTC };
        let upcoming = |expr| calendar(expr).upcoming(DateTime::UNIX_EPOCH).take(3).collect::<Vec<_>>();
        for name in names.split(", ") {
            assert_eq!(upcoming(name), upcoming(meaning), "{line}");
            count += 1;
        }
    }
    assert_eq!(count, 7);
}
