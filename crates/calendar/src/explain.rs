//! A reading of an expression in plain English.

use crate::days::{Join, Mask, MonthDays, WeekDays, bits};
use crate::expr::Fields;
use crate::field::YEAR_FIELD;

/// Up to so many times of a day are told one by one.
const TIMES_MAX: u32 = 6;

const ON_THE_MINUTE: Mask = 1;
const EVERY_MINUTE: Mask = (1 << 60) - 1;
const EVERY_DAY: Mask = ((1 << 31) - 1) << 1;
const EVERY_MONTH: Mask = ((1 << 12) - 1) << 1;
const EVERY_WEEK_DAY: Mask = (1 << 7) - 1;

const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const ORDINALS: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];

/// `at 03:00 on the last day of the month`.
pub(crate) fn explain(fields: &Fields) -> String {
    let mut text = time(fields);
    match days(fields) {
        Some(days) => text.push_str(&format!(" on {days}")),
        None if few_times(fields) => text.push_str(" every day"),
        None => {}
    }
    if fields.months != EVERY_MONTH {
        text.push_str(&format!(" in {}", listed(&spans(bits(fields.months), |month| name(&MONTHS, *month, 1)), "and")));
    }
    if let Some(years) = &fields.years {
        let years = || years.iter().filter_map(|year| u32::try_from(*year).ok());
        if !years().eq(YEAR_FIELD.0..=YEAR_FIELD.1) {
            text.push_str(&format!(" in {}", listed(&spans(years(), u32::to_string), "and")));
        }
    }
    text
}

fn time(fields: &Fields) -> String {
    if few_times(fields) {
        let mut times = Vec::new();
        for hour in bits(fields.hours) {
            for minute in bits(fields.minutes) {
                times.extend(bits(fields.seconds).map(|second| clock(hour, minute, second)));
            }
        }
        return format!("at {}", listed(&times, "and"));
    }
    let mut parts = Vec::new();
    if fields.seconds != ON_THE_MINUTE {
        parts.push(unit(fields.seconds, 60, "second"));
    }
    match (single(fields.minutes), step(fields.hours, 24)) {
        (Some(0), Some(_)) => parts.push(unit(fields.hours, 24, "hour")),
        (Some(minute), Some(_)) => parts.push(format!("{} at minute {minute}", unit(fields.hours, 24, "hour"))),
        (_, hour_step) => {
            // "every 10 seconds" says every minute too.
            if fields.minutes != EVERY_MINUTE || step(fields.seconds, 60).is_none() {
                parts.push(unit(fields.minutes, 60, "minute"));
            }
            match hour_step {
                Some(1) if step(fields.minutes, 60).is_none() => parts.push("of every hour".to_owned()),
                Some(1) => {}
                Some(hours) => parts.push(format!("in every {} hour from 00:00", ordinal(hours))),
                None => parts.push(hours(fields.hours)),
            }
        }
    }
    parts.join(" ")
}

/// The times of a day can be told one by one.
fn few_times(fields: &Fields) -> bool {
    fields.seconds.count_ones() * fields.minutes.count_ones() * fields.hours.count_ones() <= TIMES_MAX
}

fn single(mask: Mask) -> Option<u32> {
    (mask.count_ones() == 1).then(|| mask.trailing_zeros())
}

/// `every minute`, `every 15 minutes`, `at minutes 10 and 44`.
fn unit(mask: Mask, size: u32, unit: &str) -> String {
    match step(mask, size) {
        Some(1) => format!("every {unit}"),
        Some(step) => format!("every {step} {unit}s"),
        None => match single(mask) {
            Some(value) => format!("at {unit} {value}"),
            None => format!("at {unit}s {}", listed(&spans(bits(mask), u32::to_string), "and")),
        },
    }
}

/// The step of a mask that starts at 0 and goes evenly around.
fn step(mask: Mask, size: u32) -> Option<u32> {
    let step = bits(mask).nth(1)?;
    let even = size.is_multiple_of(step) && bits(mask).eq((0..size).filter(|value| value % step == 0));
    even.then_some(step)
}

/// `from 08:00 to 17:59`, `from 02:00 to 02:59 and from 05:00 to 05:59`.
fn hours(mask: Mask) -> String {
    let told: Vec<String> =
        neighbours(bits(mask)).iter().map(|(from, to)| format!("from {from:02}:00 to {to:02}:59")).collect();
    listed(&told, "and")
}

fn clock(hour: u32, minute: u32, second: u32) -> String {
    if second == 0 { format!("{hour:02}:{minute:02}") } else { format!("{hour:02}:{minute:02}:{second:02}") }
}

/// `None`: every day.
fn days(fields: &Fields) -> Option<String> {
    let of_week = week_days(&fields.week_days);
    let word = if fields.join == Join::Both && of_week.is_some() { "or" } else { "and" };
    let of_month = month_days(&fields.month_days, word);
    match fields.join {
        Join::MonthOnly => of_month,
        Join::WeekOnly => of_week,
        Join::Both => match (of_month, of_week) {
            (Some(month), Some(week)) => Some(format!("{week} if it is {month}")),
            (month, week) => month.or(week),
        },
        // One that is every day makes both every day.
        Join::Either => Some(format!("{} or on {}", of_month?, of_week?)),
    }
}

fn month_days(days: &MonthDays, word: &str) -> Option<String> {
    if days.days == EVERY_DAY {
        return None;
    }
    let mut told = spans(bits(days.days), |day| format!("the {}", ordinal(*day)));
    told.extend(bits(days.before_last).map(|n| match n {
        0 => "the last day".to_owned(),
        1 => "the day before the last day".to_owned(),
        n => format!("the day {n} days before the last day"),
    }));
    if days.last_workday {
        told.push("the last weekday".to_owned());
    }
    told.extend(bits(days.nearest).map(|day| format!("the weekday nearest to the {}", ordinal(day))));
    Some(format!("{} of the month", listed(&told, word)))
}

fn week_days(days: &WeekDays) -> Option<String> {
    if days.days == EVERY_WEEK_DAY {
        return None;
    }
    let weekday = |day: u32| name(&WEEKDAYS, day, 0);
    let mut told = spans(bits(days.days), |day| weekday(*day));
    for (mask, nth) in days.nth.iter().zip(ORDINALS) {
        told.extend(bits(*mask).map(|day| format!("the {nth} {} of the month", weekday(day))));
    }
    told.extend(bits(days.last).map(|day| format!("the last {} of the month", weekday(day))));
    Some(listed(&told, "and"))
}

fn name(names: &[&str], value: u32, first: u32) -> String {
    let index = usize::try_from(value.saturating_sub(first)).unwrap_or(usize::MAX);
    names.get(index).copied().unwrap_or_default().to_owned()
}

fn ordinal(n: u32) -> String {
    let suffix = match (n % 100, n % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{n}{suffix}")
}

/// Runs of neighbours, first and last of each.
fn neighbours(values: impl Iterator<Item = u32>) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for value in values {
        match runs.last_mut() {
            Some((_, to)) if *to + 1 == value => *to = value,
            _ => runs.push((value, value)),
        }
    }
    runs
}

/// Values as text, three or more neighbours as one span.
fn spans(values: impl Iterator<Item = u32>, tell: impl Fn(&u32) -> String) -> Vec<String> {
    let run = |(from, to): (u32, u32)| match to - from {
        0 => vec![tell(&from)],
        1 => vec![tell(&from), tell(&to)],
        _ => vec![format!("{} to {}", tell(&from), tell(&to))],
    };
    neighbours(values).into_iter().flat_map(run).collect()
}

/// `a, b and c`.
fn listed(items: &[String], word: &str) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [head @ .., last] => format!("{} {word} {last}", head.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use crate::CronExpr;

    #[test]
    fn readings_are_plain_english() {
        let cases = [
            ("0 2 * * *", "at 02:00 every day"),
            ("*/15 * * * *", "every 15 minutes"),
            ("* * * * *", "every minute"),
            ("0 * * * *", "every hour"),
            ("@hourly", "every hour"),
            ("@Daily", "at 00:00 every day"),
            ("5 * * * *", "every hour at minute 5"),
            ("20 */4 * * *", "at 00:20, 04:20, 08:20, 12:20, 16:20 and 20:20 every day"),
            ("30 */2 * * *", "every 2 hours at minute 30"),
            ("10,44 14 * * *", "at 14:10 and 14:44 every day"),
            ("*/15 8-17 * * 1-5", "every 15 minutes from 08:00 to 17:59 on Monday to Friday"),
            ("*/5 2,5 * * *", "every 5 minutes from 02:00 to 02:59 and from 05:00 to 05:59"),
            ("*/10 */2 * * *", "every 10 minutes in every 2nd hour from 00:00"),
            ("1-3,7 * * * *", "at minutes 1 to 3 and 7 of every hour"),
            ("*/10 * * * * *", "every 10 seconds"),
            ("5 * * * * *", "at second 5 every minute"),
            ("30 15 10 ? * MON", "at 10:15:30 on Monday"),
            ("0 0 3 L * ?", "at 03:00 on the last day of the month"),
            ("0 3 LW * *", "at 03:00 on the last weekday of the month"),
            (
                "0 0 3 L-1,L-3 * ?",
                "at 03:00 on the day before the last day and the day 3 days before the last day of the month",
            ),
            ("0 3 15W * *", "at 03:00 on the weekday nearest to the 15th of the month"),
            ("0 3 1,2,10-12,23 * *", "at 03:00 on the 1st, the 2nd, the 10th to the 12th and the 23rd of the month"),
            ("0 3 * * MON#1,FRIL", "at 03:00 on the first Monday of the month and the last Friday of the month"),
            ("0 0 8 ? * 2", "at 08:00 on Monday"),
            ("0 8 * * 2", "at 08:00 on Tuesday"),
            ("0 0 13 * 5", "at 00:00 on the 13th of the month or on Friday"),
            ("0 0 */10 * 5", "at 00:00 on Friday if it is the 1st, the 11th, the 21st or the 31st of the month"),
            ("0 0 1 1,4,6-8 *", "at 00:00 on the 1st of the month in January, April and June to August"),
            ("0 0 12 1 1 ? *", "at 12:00 on the 1st of the month in January"),
            ("0 0 12 1 1 ? 2026-2028", "at 12:00 on the 1st of the month in January in 2026 to 2028"),
        ];
        for (expr, expected) in cases {
            assert_eq!(CronExpr::parse(expr).unwrap().explain(), expected, "{expr}");
        }
    }
}
