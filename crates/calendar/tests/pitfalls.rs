//! What went wrong in other schedulers, one test for each report.
#![expect(clippy::expect_used, reason = "the helpers of a test may panic")]

use chrono::{DateTime, TimeDelta, Utc};
use scheduler_calendar::{Calendar, CronExpr, Field, Reason, Warning, Zone};

fn calendar(expr: &str, zone: &str) -> Calendar {
    Calendar { expr: CronExpr::parse(expr).expect("valid"), zone: Zone::parse(zone).expect("known") }
}

fn at(text: &str) -> DateTime<Utc> {
    text.parse().expect("RFC 3339")
}

/// The instants after `after` begin with `expected`.
fn check(expr: &str, zone: &str, after: &str, expected: &[&str]) {
    let got: Vec<_> = calendar(expr, zone).upcoming(at(after)).take(expected.len()).collect();
    let expected: Vec<_> = expected.iter().map(|text| at(text)).collect();
    assert_eq!(got, expected, "{expr} {zone} {after}");
}

#[test]
fn cron_01_a_nightly_job_runs_once_when_clocks_go_back() {
    let expected = ["2023-10-29T00:00:00Z", "2023-10-30T01:00:00Z"];
    check("0 2 * * *", "Europe/Berlin", "2023-10-28T12:00:00Z", &expected);
}

#[test]
fn cron_02_a_job_in_the_gap_is_not_lost() {
    let expected = ["2025-03-09T10:00:00Z", "2025-03-10T09:00:00Z"];
    check("0 2 * * *", "US/Pacific", "2025-03-09T08:00:00Z", &expected);
}

#[test]
fn cron_03_asking_just_before_the_gap_gives_its_end() {
    check("0 2 * * *", "America/New_York", "2025-03-09T06:30:00Z", &["2025-03-09T07:00:00Z"]);
}

#[test]
fn cron_04_now_may_lie_in_either_pass_of_the_repeated_hour() {
    for expr in ["* * * * *", "*/1 * * * *", "0 * * * * *", "0 * * * * ?"] {
        check(expr, "Europe/London", "2019-10-27T00:03:29Z", &["2019-10-27T00:04:00Z"]);
        check(expr, "Europe/London", "2019-10-27T01:03:29Z", &["2019-10-27T01:04:00Z"]);
    }
}

#[test]
fn cron_05_an_hourly_job_runs_in_every_real_hour() {
    let expected = ["2025-11-02T08:00:00Z", "2025-11-02T09:00:00Z", "2025-11-02T10:00:00Z"];
    check("0 * * * *", "America/Los_Angeles", "2025-11-02T07:30:00Z", &expected);
}

#[test]
fn cron_07_parts_of_a_second_in_the_repeated_hour_do_no_harm() {
    check("* * * * *", "America/New_York", "2025-11-02T05:30:59.999Z", &["2025-11-02T05:31:00Z"]);
    check("* * * * *", "America/New_York", "2025-11-02T06:30:00.001Z", &["2025-11-02T06:31:00Z"]);
}

#[test]
fn cron_08_a_gap_at_midnight_ends_the_search() {
    check("0 6 * * *", "America/Santiago", "2018-08-12T07:00:00Z", &["2018-08-12T09:00:00Z"]);
    check("0 6 * * *", "America/Santiago", "2018-08-12T03:00:00Z", &["2018-08-12T09:00:00Z"]);
}

#[test]
fn cron_10_the_only_time_of_the_year_may_be_in_the_gap() {
    let expected = ["2025-03-30T01:00:00Z", "2026-03-30T00:00:00Z"];
    check("0 1 30 3 *", "Europe/Lisbon", "2025-03-01T00:00:00Z", &expected);
}

#[test]
fn cron_12_a_stepped_hour_passes_the_change() {
    let expected = ["2023-03-12T08:20:00Z", "2023-03-12T11:20:00Z"];
    check("20 */4 * * *", "America/Los_Angeles", "2023-03-12T08:00:00Z", &expected);
}

#[test]
fn cron_14_fixed_hours_after_the_change_are_on_time() {
    let expected = ["2020-03-08T14:00:00Z", "2020-03-08T16:00:00Z"];
    check("0 7,9 * * *", "America/Los_Angeles", "2020-03-08T08:00:00Z", &expected);
}

#[test]
fn cron_15_prev_is_strictly_earlier() {
    let check = |expr, before, expected| {
        assert_eq!(calendar(expr, "America/New_York").prev(at(before)), Some(at(expected)), "{expr} {before}");
    };
    check("0 2 * * *", "2024-03-10T07:00:00Z", "2024-03-09T07:00:00Z");
    check("0 2 * * *", "2024-03-10T07:00:00.001Z", "2024-03-10T07:00:00Z");
    check("0 1 * * *", "2024-11-03T05:30:00Z", "2024-11-03T05:00:00Z");
    check("0 1 * * *", "2024-11-03T06:30:00Z", "2024-11-03T05:00:00Z");
}

#[test]
fn cron_17_the_hour_after_the_last_of_the_day_is_next() {
    check("55 * * * *", "Europe/Belgrade", "2026-03-29T21:55:00Z", &["2026-03-29T22:55:00Z"]);
}

#[test]
fn cron_19_skipping_months_takes_the_offset_of_the_new_one() {
    let after = DateTime::from_timestamp(1_423_976_400, 0).unwrap();
    let next = calendar("* * * */3 *", "America/New_York").next(after);
    assert_eq!(next, DateTime::from_timestamp(1_427_860_800, 0));
}

#[test]
fn cron_22_a_missing_hour_is_not_replayed() {
    let expected = ["2025-03-09T07:00:00Z", "2025-03-09T07:01:00Z"];
    check("* * * * *", "America/New_York", "2025-03-09T06:59:59Z", &expected);
}

#[test]
fn cron_23_a_zone_prefix_is_refused() {
    for zone in ["TZ=0", "TZ=", "TZ=TZ=TZ=", "CRON_TZ=UTC", "TZ=Europe/Sofia"] {
        Zone::parse(zone).unwrap_err();
        for expr in [zone.to_owned(), format!("{zone} 0 2 * * *"), format!("{zone} * * * *")] {
            assert_eq!(CronExpr::parse(&expr).unwrap_err().reason, Reason::ZonePrefix, "{expr}");
        }
    }
}

#[test]
fn cron_24_impossible_dates_are_refused_and_their_neighbours_are_not() {
    for expr in ["0 0 30 2 *", "0 0 31 4 *", "0 0 31 2,4,6 *", "0 0 31 4,6 *", "0 0 0 31W 2 ?", "0 0 0 L-30 2 ?"] {
        let error = CronExpr::parse(expr).unwrap_err();
        assert_eq!((error.field, error.reason), (Field::DayOfMonth, Reason::Impossible), "{expr}");
    }
    check("0 0 31 4,5 *", "UTC", "2025-01-01T00:00:00Z", &["2025-05-31T00:00:00Z"]);
    check("0 0 29 2 *", "UTC", "2025-01-01T00:00:00Z", &["2028-02-29T00:00:00Z"]);
    check("0 0 30 2 1", "UTC", "2025-01-01T00:00:00Z", &["2025-02-03T00:00:00Z"]);
}

#[test]
fn cron_26_two_restricted_day_fields_are_an_or_and_say_so() {
    let october = calendar("0 0 1-29 10 1-5", "UTC");
    let after = at("2025-10-01T00:00:00Z");
    let warnings = october.warnings(after, TimeDelta::days(365));
    assert_eq!(warnings, [Warning::EitherDay]);
    // Saturday the 4th by its date, Thursday the 30th by its week day.
    let next: Vec<_> = october.upcoming(after).take(30).collect();
    assert!(next.contains(&at("2025-10-04T00:00:00Z")) && next.contains(&at("2025-10-30T00:00:00Z")));
    for both in ["0 0 */2 * MON", "0 0 * * 1", "0 0 1 * *", "0 0 0 1 * ?"] {
        assert_eq!(calendar(both, "UTC").warnings(after, TimeDelta::days(365)), [], "{both}");
    }
}

#[test]
fn cron_27_the_zone_decides_what_noon_is() {
    check("0 12 * * *", "Asia/Shanghai", "2026-01-01T00:00:00Z", &["2026-01-01T04:00:00Z"]);
}

#[test]
fn cron_28_the_time_zone_data_is_recent_and_says_its_release() {
    check("0 2 * * *", "America/Mexico_City", "2023-04-03T00:00:00Z", &["2023-04-03T08:00:00Z"]);
    assert!(scheduler_calendar::TZDB_VERSION >= "2025b", "{}", scheduler_calendar::TZDB_VERSION);
}
