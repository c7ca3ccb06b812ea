//! Every answer takes bounded time, at the ends of time too.
#![expect(clippy::disallowed_methods, reason = "the time that an answer takes is what is tested")]

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use scheduler_calendar::{Calendar, CronExpr, Zone};

#[test]
fn the_worst_expressions_answer_within_ten_milliseconds() {
    let expressions = [
        "0 0 * 2 0#5",
        "0 12 29 2 */7",
        "0 0 0 29 2 ? 2099",
        "0 0 0 29 2 ? 2097-2099",
        "59 59 23 ? 2 SAT#5",
        "*/20 2 29 2 *",
        "* 2 * 3 SUN#2",
        "0 0 */31 2 *",
        "0 0 12 1 1 ? 1970",
    ];
    let parsed: Vec<CronExpr> = expressions.iter().filter_map(|text| CronExpr::parse(text).ok()).collect();
    for (expr, zone) in
        parsed.iter().flat_map(|expr| ["UTC", "America/New_York", "Africa/Casablanca"].map(|z| (expr, z)))
    {
        let calendar = Calendar { expr: expr.clone(), zone: Zone::parse(zone).unwrap() };
        let after: DateTime<Utc> = "2026-03-01T00:00:00Z".parse().unwrap();
        // The machine may be busy with something else, so the best of three counts.
        let best = (0..3)
            .map(|_| {
                let start = Instant::now();
                let _ = (calendar.next(after), calendar.prev(after));
                start.elapsed()
            })
            .min();
        assert!(best < Some(Duration::from_millis(10)), "{expr} {zone}: {best:?}");
    }
    let start = Instant::now();
    for impossible in ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *"] {
        CronExpr::parse(impossible).unwrap_err();
    }
    assert!(start.elapsed() < Duration::from_millis(100), "{:?}", start.elapsed());
}

#[test]
fn the_ends_of_time_have_answers() {
    let calendar = |expr| Calendar { expr: CronExpr::parse(expr).unwrap(), zone: Zone::parse("Pacific/Apia").unwrap() };
    let at = |text: &str| Some(text.parse::<DateTime<Utc>>().unwrap());
    let yearly = calendar("@yearly");
    let (first, last) = ("1970-01-01T11:00:00Z", "2198-12-31T11:00:00Z");
    assert_eq!(yearly.next(DateTime::<Utc>::MIN_UTC), at(first));
    assert_eq!(yearly.prev(DateTime::<Utc>::MAX_UTC), at(last));
    assert_eq!(yearly.next(DateTime::<Utc>::MAX_UTC), None);
    assert_eq!(yearly.prev(DateTime::<Utc>::MIN_UTC), None);
    assert_eq!(yearly.next(at(last).unwrap()), None);
    assert_eq!(yearly.prev(at(first).unwrap()), None);
    assert_eq!(yearly.upcoming(DateTime::<Utc>::MIN_UTC).count(), 230);
}

#[test]
fn a_missing_day_is_one_run_on_the_day_after() {
    let at = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
    let next = |expr: &str| {
        let calendar = Calendar { expr: CronExpr::parse(expr).unwrap(), zone: Zone::parse("Pacific/Apia").unwrap() };
        calendar.upcoming(at("2011-12-30T09:30:00Z")).take(2).collect::<Vec<_>>()
    };
    // Local Friday 2011-12-30 does not exist; the clock goes from Thursday 24:00 to Saturday 00:00 at 10:00Z.
    assert_eq!(next("0 6,7,8 30 12 *").first(), Some(&at("2011-12-30T10:00:00Z")));
    assert_eq!(next("0 0 * * *"), [at("2011-12-30T10:00:00Z"), at("2011-12-31T10:00:00Z")]);
    assert_eq!(next("*/30 6 30 12 *").first(), Some(&at("2012-12-29T16:00:00Z")));
}
