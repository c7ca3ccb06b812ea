//! What is said about a schedule before it is saved.
#![expect(clippy::expect_used, reason = "the helpers of a test may panic")]

use chrono::{DateTime, TimeDelta, Utc};
use scheduler_calendar::{Calendar, CronExpr, WARNING_HORIZON_DAYS_MAX, Zone};

fn check(expr: &str, zone: &str, from: &str, days: i64, expected: &[&str]) {
    let calendar = Calendar { expr: CronExpr::parse(expr).expect("valid"), zone: Zone::parse(zone).expect("known") };
    let from: DateTime<Utc> = from.parse().expect("RFC 3339");
    let got: Vec<String> = calendar.warnings(from, TimeDelta::days(days)).iter().map(ToString::to_string).collect();
    assert_eq!(got, expected, "{expr} {zone} {from}");
}

#[test]
fn a_fixed_time_in_a_change_is_named_with_what_happens() {
    let both = [
        "2026-03-29 03:30:00 does not exist, clocks go forward: the job runs at 2026-03-29T01:00:00Z instead",
        "2026-10-25 03:30:00 comes twice, clocks go back: the job runs the first time, at 2026-10-25T00:30:00Z",
    ];
    check("30 3 * * *", "Europe/Sofia", "2026-01-01T00:00:00Z", 365, &both);
    check("30 5 * * *", "Europe/Sofia", "2026-01-01T00:00:00Z", 365, &[]);
    check("30 3 * * 1", "Europe/Sofia", "2026-01-01T00:00:00Z", 365, &[]);
    check("30 3 * * *", "UTC", "2026-01-01T00:00:00Z", 365, &[]);
}

#[test]
fn a_wildcard_job_of_some_hours_is_warned_about_and_one_of_all_hours_is_not() {
    let both = [
        "2026-03-29 03:00:00 does not exist, clocks go forward at 2026-03-29T01:00:00Z: the job skips it",
        "2026-10-25 03:00:00 comes twice, clocks go back: the job runs at 2026-10-25T00:00:00Z and at 2026-10-25T01:00:00Z",
    ];
    check("*/20 3 * * *", "Europe/Sofia", "2026-01-01T00:00:00Z", 365, &both);
    check("*/20 * * * *", "Europe/Sofia", "2026-01-01T00:00:00Z", 365, &[]);
}

#[test]
fn an_expression_that_is_over_says_never() {
    let never = ["the job never runs again: no later instant matches"];
    check("0 0 12 1 1 ? 2026", "UTC", "2026-06-01T00:00:00Z", 365, &never);
    check("0 0 12 29 2 ? 2026", "UTC", "2025-06-01T00:00:00Z", 365, &never);
    check("0 0 12 1 1 ? 2026", "UTC", "2025-06-01T00:00:00Z", 365, &[]);
}

#[test]
fn the_horizon_is_kept_and_has_a_limit() {
    let spring =
        ["2026-03-29 03:30:00 does not exist, clocks go forward: the job runs at 2026-03-29T01:00:00Z instead"];
    check("30 3 * 3 *", "Europe/Sofia", "2026-03-28T00:00:00Z", 1, &[]);
    check("30 3 * 3 *", "Europe/Sofia", "2026-03-28T00:00:00Z", 2, &spring);
    check("30 3 * 3 *", "Europe/Sofia", "2026-03-29T01:00:00Z", WARNING_HORIZON_DAYS_MAX - 2, &[]);
    // The change of 2027 is at 2027-03-28T01:00Z: just beyond the limit, and just within it.
    check("30 3 * 3 *", "Europe/Sofia", "2026-03-27T01:00:00Z", 100_000, &spring);
    let next = spring.map(|text| text.replace("2026-03-29", "2027-03-28"));
    check("30 3 * 3 *", "Europe/Sofia", "2026-03-29T01:00:00Z", 100_000, &[&next[0]]);
    check("30 3 * 3 *", "Europe/Sofia", "2026-03-28T00:00:00Z", -1, &[]);
}
