//! The walk against a naive model: every UTC minute of a window, put on the wall clock, one after the other.
//!
//! The model shares no code with the library: it keeps the values of each field as it wrote them into the text, decides
//! about days by counting in the month, and learns about clock changes only from the minutes themselves.
#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "the helpers of a test may panic")]

use std::collections::BTreeSet;

use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, TimeDelta, Timelike, Utc};
use chrono_tz::Tz;
use proptest::prelude::*;
use scheduler_calendar::{Calendar, CronExpr, Zone};

const ZONES: [&str; 14] = [
    "Europe/Sofia",
    "Europe/London",
    "Europe/Dublin",
    "America/New_York",
    "America/Havana",
    "America/Santiago",
    "America/St_Johns",
    "Africa/Casablanca",
    "Africa/Cairo",
    "Antarctica/Troll",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Asia/Gaza",
    "UTC",
];

const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// A numeric field: its text and its values.
#[derive(Clone, Debug)]
struct Numbers {
    text: String,
    values: BTreeSet<u32>,
}

fn numbers(low: u32, high: u32) -> impl Strategy<Value = Numbers> {
    let range = move || (low..=high, low..=high).prop_map(|(a, b)| (a.min(b), a.max(b)));
    let step = 1..=(high - low + 1);
    let stepped = move |text: String, from: u32, to: u32, step: u32| Numbers {
        text: format!("{text}/{step}"),
        values: (from..=to).filter(|value| (value - from).is_multiple_of(step)).collect(),
    };
    prop_oneof![
        2 => Just(Numbers { text: "*".into(), values: (low..=high).collect() }),
        4 => (low..=high).prop_map(|v| Numbers { text: v.to_string(), values: [v].into() }),
        1 => (low..=high, low..=high).prop_map(|(a, b)| Numbers { text: format!("{a},{b}"), values: [a, b].into() }),
        1 => range().prop_map(|(a, b)| Numbers { text: format!("{a}-{b}"), values: (a..=b).collect() }),
        1 => step.clone().prop_map(move |n| stepped("*".into(), low, high, n)),
        1 => (low..=high, step.clone()).prop_map(move |(a, n)| stepped(a.to_string(), a, high, n)),
        1 => (range(), step).prop_map(move |((a, b), n)| stepped(format!("{a}-{b}"), a, b, n)),
    ]
}

/// What a day field says.
#[derive(Clone, Debug)]
enum Days {
    Question,
    Numbers(Numbers),
    /// `L-n`.
    BeforeLast(u32),
    LastWorkday,
    /// `nW`.
    Nearest(u32),
    /// Week days, 0 = Sunday.
    Week(BTreeSet<u32>),
    LastOf(u32),
    Nth(u32, u32),
}

#[derive(Clone, Debug)]
struct Model {
    text: String,
    seconds: BTreeSet<u32>,
    minutes: BTreeSet<u32>,
    hours: BTreeSet<u32>,
    months: BTreeSet<u32>,
    month_day: Days,
    week_day: Days,
    both: bool,
    wildcard: bool,
}

fn month_day() -> impl Strategy<Value = (String, Days)> {
    prop_oneof![
        6 => Just(("*".to_owned(), Days::Numbers(Numbers { text: "*".into(), values: (1..=31).collect() }))),
        4 => numbers(1, 31).prop_map(|n| (n.text.clone(), Days::Numbers(n))),
        1 => (0..8u32).prop_map(|n| (if n == 0 { "L".into() } else { format!("L-{n}") }, Days::BeforeLast(n))),
        1 => Just(("LW".into(), Days::LastWorkday)),
        1 => (1..=31u32).prop_map(|n| (format!("{n}W"), Days::Nearest(n))),
    ]
}

/// `first` is the number of Sunday in this form.
fn week_day(first: u32) -> impl Strategy<Value = (String, Days)> {
    let day = 0..7u32;
    prop_oneof![
        6 => Just(("*".to_owned(), Days::Week((0..7).collect()))),
        2 => day.clone().prop_map(move |d| ((d + first).to_string(), Days::Week([d].into()))),
        1 => day.clone().prop_map(move |d| (WEEKDAYS[d as usize].to_lowercase(), Days::Week([d].into()))),
        1 => (1..4u32, 4..7u32).prop_map(move |(a, b)| {
            (format!("{}-{}", a + first, WEEKDAYS[b as usize]), Days::Week((a..=b).collect()))
        }),
        1 => (1..7u32).prop_map(|n| (format!("*/{n}"), Days::Week((0..7u32).filter(|d| d.is_multiple_of(n)).collect()))),
        1 => day.clone().prop_map(move |d| (format!("{}L", d + first), Days::LastOf(d))),
        1 => (day, 1..=5u32).prop_map(move |(d, n)| (format!("{}#{n}", d + first), Days::Nth(d, n))),
    ]
}

/// Half of the time an hour in which clocks change.
fn hours() -> impl Strategy<Value = Numbers> {
    prop_oneof![numbers(0, 23), (0..4u32).prop_map(|v| Numbers { text: v.to_string(), values: [v].into() })]
}

fn months() -> impl Strategy<Value = Numbers> {
    prop_oneof![4 => Just(Numbers { text: "*".into(), values: (1..=12).collect() }), 1 => numbers(1, 12)]
}

fn model() -> impl Strategy<Value = Model> {
    let days = prop_oneof![
        3 => (month_day(), week_day(0), Just(false)),
        1 => (month_day(), Just(("?".to_owned(), Days::Question)), Just(true)),
        1 => (Just(("?".to_owned(), Days::Question)), week_day(1), Just(true)),
    ];
    (0..60u32, any::<bool>(), numbers(0, 59), hours(), days, months()).prop_map(
        |(second, with_second, minute, hour, (month_day, week_day, quartz), month)| {
            let (m, h, mo) = (&minute.text, &hour.text, &month.text);
            let fields = format!("{m} {h} {} {mo} {}", month_day.0, week_day.0);
            let with_second = with_second || quartz;
            Model {
                text: if with_second { format!("{second} {fields}") } else { fields },
                seconds: [if with_second { second } else { 0 }].into(),
                both: month_day.0.starts_with('*') || week_day.0.starts_with('*'),
                wildcard: minute.text.starts_with('*') || hour.text.starts_with('*'),
                minutes: minute.values,
                hours: hour.values,
                months: month.values,
                month_day: month_day.1,
                week_day: week_day.1,
            }
        },
    )
}

fn days_of_month(date: NaiveDate) -> Vec<NaiveDate> {
    (1..=31).filter_map(|day| NaiveDate::from_ymd_opt(date.year(), date.month(), day)).collect()
}

fn is_workday(date: &NaiveDate) -> bool {
    (1..=5).contains(&date.weekday().num_days_from_sunday())
}

impl Days {
    fn holds(&self, date: NaiveDate) -> Option<bool> {
        let all = days_of_month(date);
        let weekday = date.weekday().num_days_from_sunday();
        let same: Vec<NaiveDate> = all.iter().filter(|d| d.weekday() == date.weekday()).copied().collect();
        Some(match self {
            Self::Question => return None,
            Self::Numbers(numbers) => numbers.values.contains(&date.day()),
            Self::BeforeLast(n) => all.iter().rev().nth(*n as usize) == Some(&date),
            Self::LastWorkday => all.iter().rev().find(|d| is_workday(d)) == Some(&date),
            Self::Nearest(n) => {
                let target = all.iter().find(|d| d.day() == *n);
                let near = |d: &&NaiveDate| d.day().abs_diff(*n);
                target.is_some() && all.iter().filter(|d| is_workday(d)).min_by_key(near) == Some(&date)
            }
            Self::Week(days) => days.contains(&weekday),
            Self::LastOf(day) => weekday == *day && same.last() == Some(&date),
            Self::Nth(day, n) => weekday == *day && same.get(*n as usize - 1) == Some(&date),
        })
    }
}

impl Model {
    fn matches(&self, wall: NaiveDateTime) -> bool {
        self.seconds.contains(&wall.second())
            && self.minutes.contains(&wall.minute())
            && self.hours.contains(&wall.hour())
            && self.day_matches(wall.date())
    }

    fn day_matches(&self, date: NaiveDate) -> bool {
        self.months.contains(&date.month())
            && match (self.month_day.holds(date), self.week_day.holds(date)) {
                (Some(month), Some(week)) if self.both => month && week,
                (Some(month), Some(week)) => month || week,
                (month, week) => month.or(week).unwrap_or(false),
            }
    }

    /// All instants of `from..until`, found by going through every `step`.
    fn instants(&self, zone: Tz, from: DateTime<Utc>, until: DateTime<Utc>, step: TimeDelta) -> Vec<DateTime<Utc>> {
        let mut found = BTreeSet::new();
        let mut seen = BTreeSet::new();
        // Two days more show which wall-clock times are second passes.
        let mut at = from - TimeDelta::days(2);
        let mut expected = at.with_timezone(&zone).naive_local();
        while at < until {
            let wall = at.with_timezone(&zone).naive_local();
            while !self.wildcard && expected < wall {
                if self.matches(expected) {
                    // The first instant after the gap is the whole minute in which the clock changes.
                    found.insert(at.with_second(0).expect("a minute has a first second"));
                }
                expected += step;
            }
            let first_pass = seen.insert(wall);
            if (first_pass || self.wildcard) && self.matches(wall) {
                found.insert(at);
            }
            at += step;
            expected = wall + step;
        }
        found.into_iter().filter(|at| (from..until).contains(at)).collect()
    }
}

/// A time near a clock change of the zone, when it has any in that year.
fn near_change(zone: Tz, year: i32, which: usize, shift_s: i64) -> DateTime<Utc> {
    let start = NaiveDate::from_ymd_opt(year, 1, 1).and_then(|d| d.and_hms_opt(0, 0, 0)).expect("a date").and_utc();
    let offset = |at: DateTime<Utc>| at.with_timezone(&zone).naive_local() - at.naive_utc();
    let hours = (0..366 * 24).map(|hour| start + TimeDelta::hours(hour));
    let changes: Vec<_> = hours.filter(|at| offset(*at) != offset(*at + TimeDelta::hours(1))).collect();
    changes.get(which % changes.len().max(1)).copied().unwrap_or(start) + TimeDelta::seconds(shift_s)
}

fn after() -> impl Strategy<Value = (&'static str, DateTime<Utc>)> {
    (prop::sample::select(&ZONES[..]), 2010..2030i32, 0..4usize, -150_000..150_000i64)
        .prop_map(|(name, year, which, shift)| (name, near_change(name.parse().expect("a zone"), year, which, shift)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn next_and_prev_agree_with_a_walk_over_every_minute(model in model(), (name, after) in after()) {
        let Ok(expr) = CronExpr::parse(&model.text) else {
            // Only a date that does not exist may be refused.
            let leap_year = NaiveDate::from_ymd_opt(2024, 1, 1).expect("a date").iter_days().take(366);
            prop_assert!(leap_year.into_iter().all(|date| !model.day_matches(date)), "{}", &model.text);
            return Ok(());
        };
        let calendar = Calendar { expr, zone: Zone::parse(name).expect("a zone") };
        let second = i64::from(*model.seconds.first().expect("one second"));
        // The grid of the walk is the second of the minute at which the job runs.
        let base = DateTime::from_timestamp(after.timestamp().div_euclid(60) * 60 + second, 0).expect("in range");
        let (from, until) = (base - TimeDelta::days(1), base + TimeDelta::days(3));
        let expected = model.instants(name.parse().expect("a zone"), from, until, TimeDelta::minutes(1));

        let later: Vec<_> = expected.iter().filter(|at| **at > after).copied().collect();
        let got: Vec<_> = calendar.upcoming(after).take_while(|at| *at < until).collect();
        prop_assert_eq!(got, later, "{} {} {}", &model.text, name, after);

        let mut before = after;
        for earlier in expected.iter().rev().filter(|at| **at < after) {
            let got = calendar.prev(before);
            prop_assert_eq!(got, Some(*earlier), "{} {} before {}", &model.text, name, before);
            before = *earlier;
        }
        prop_assert!(calendar.prev(before).is_none_or(|at| at < from), "{} {}", &model.text, name);
    }

    #[test]
    fn answers_are_strict_and_each_is_the_inverse_of_the_other(model in model(), (name, after) in after()) {
        let Ok(expr) = CronExpr::parse(&model.text) else { return Ok(()) };
        let calendar = Calendar { expr, zone: Zone::parse(name).expect("a zone") };
        let mut last = after;
        for at in calendar.upcoming(after).take(20) {
            prop_assert!(at > last);
            let back = calendar.prev(at);
            prop_assert!(back.is_some_and(|back| back < at) || back.is_none());
            if last != after {
                prop_assert_eq!(back, Some(last));
            }
            prop_assert_eq!(calendar.next(at - TimeDelta::seconds(1)), Some(at));
            last = at;
        }
    }

    #[test]
    fn any_text_is_read_or_refused_without_a_panic(text in "\\PC{0,40}", zone in "\\PC{0,20}") {
        let _ = Zone::parse(&zone);
        if let Err(error) = CronExpr::parse(&text) {
            prop_assert!(error.position <= text.len());
        }
    }

    #[test]
    fn text_that_looks_like_cron_is_read_or_refused_without_a_panic(text in "([0-9*?LW#/,\\-A-Z@=]{1,6}[ \t]){4,6}[0-9*?LW#/,-]{1,5}") {
        if let Ok(expr) = CronExpr::parse(&text) {
            prop_assert_eq!(expr.as_str(), text.as_str());
            prop_assert!(!expr.explain().is_empty());
            let calendar = Calendar { expr, zone: Zone::UTC };
            let _ = calendar.next(DateTime::UNIX_EPOCH).and_then(|at| calendar.prev(at));
        }
    }
}
