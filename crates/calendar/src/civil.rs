//! Wall-clock times that match the fields, without any zone: a walk year → month → day → time of day.
//!
//! A wall-clock time is counted in seconds from 1970-01-01T00:00:00 on the same clock. The walk skips by fields, so its
//! cost is bounded by the months between [`YEAR_FIRST`] and [`YEAR_LAST`], not by the time between two matches.

use chrono::{DateTime, Datelike, NaiveDate};

use crate::days::Mask;
use crate::expr::Fields;

/// First year in which anything matches.
pub(crate) const YEAR_FIRST: i32 = 1970;
/// Last year in which anything matches: later is "never".
pub(crate) const YEAR_LAST: i32 = 2199;

pub(crate) const DAY_S: i64 = 86_400;

/// The first match in `from..until`.
pub(crate) fn first_in(fields: &Fields, from: i64, until: i64) -> Option<i64> {
    let from = from.max(0);
    let (mut date, time) = (date_of(from)?, time_of(from));
    if day_matches(fields, date)
        && let Some(time) = time_from(fields, time)
    {
        return within(seconds(date, time)?, from, until);
    }
    date = date.succ_opt()?;
    let (mut year, mut month, mut day) = (date.year(), date.month(), date.day());
    while year <= YEAR_LAST && seconds(NaiveDate::from_ymd_opt(year, month, 1)?, 0)? < until {
        let days = if month_matches(fields, year, month) { fields.days(year, month) } else { 0 };
        if let Some(day) = bit_from(days, day) {
            let date = NaiveDate::from_ymd_opt(year, month, day)?;
            return within(seconds(date, time_from(fields, 0)?)?, from, until);
        }
        (year, month, day) = if month == 12 { (year + 1, 1, 1) } else { (year, month + 1, 1) };
    }
    None
}

/// The last match in `from..until`.
pub(crate) fn last_in(fields: &Fields, from: i64, until: i64) -> Option<i64> {
    let end = NaiveDate::from_ymd_opt(YEAR_LAST + 1, 1, 1)?;
    let last = until.min(seconds(end, 0)?) - 1;
    let (mut date, time) = (date_of(last)?, time_of(last));
    if day_matches(fields, date)
        && let Some(time) = time_to(fields, time)
    {
        return within(seconds(date, time)?, from, until);
    }
    date = date.pred_opt()?;
    let (mut year, mut month, mut day) = (date.year(), date.month(), date.day());
    while year >= YEAR_FIRST && seconds(NaiveDate::from_ymd_opt(year, month, 1)?, 31 * DAY_S)? > from {
        let days = if month_matches(fields, year, month) { fields.days(year, month) } else { 0 };
        if let Some(day) = bit_to(days, day) {
            let date = NaiveDate::from_ymd_opt(year, month, day)?;
            return within(seconds(date, time_to(fields, DAY_S - 1)?)?, from, until);
        }
        (year, month, day) = if month == 1 { (year - 1, 12, 31) } else { (year, month - 1, 31) };
    }
    None
}

fn within(found: i64, from: i64, until: i64) -> Option<i64> {
    (from..until).contains(&found).then_some(found)
}

fn date_of(time: i64) -> Option<NaiveDate> {
    Some(DateTime::from_timestamp(time, 0)?.date_naive())
}

/// Second of the day.
fn time_of(time: i64) -> i64 {
    time.rem_euclid(DAY_S)
}

fn seconds(date: NaiveDate, time: i64) -> Option<i64> {
    Some(date.and_hms_opt(0, 0, 0)?.and_utc().timestamp() + time)
}

fn month_matches(fields: &Fields, year: i32, month: u32) -> bool {
    fields.year_matches(year) && fields.months >> month & 1 == 1
}

fn day_matches(fields: &Fields, date: NaiveDate) -> bool {
    (YEAR_FIRST..=YEAR_LAST).contains(&date.year())
        && month_matches(fields, date.year(), date.month())
        && fields.days(date.year(), date.month()) >> date.day() & 1 == 1
}

/// The lowest set bit that is not under `low`.
fn bit_from(mask: Mask, low: u32) -> Option<u32> {
    let rest = mask & Mask::MAX.checked_shl(low)?;
    (rest != 0).then(|| rest.trailing_zeros())
}

/// The highest set bit that is not over `high`.
fn bit_to(mask: Mask, high: u32) -> Option<u32> {
    let rest = mask & (Mask::MAX >> (Mask::BITS - 1).checked_sub(high)?);
    (rest != 0).then(|| Mask::BITS - 1 - rest.leading_zeros())
}

fn split(time: i64) -> Option<(u32, u32, u32)> {
    let time = u32::try_from(time).ok()?;
    Some((time / 3600, time / 60 % 60, time % 60))
}

fn join(hour: u32, minute: u32, second: u32) -> i64 {
    i64::from(hour * 3600 + minute * 60 + second)
}

/// The first matching second of a day that is not before `time`.
fn time_from(fields: &Fields, time: i64) -> Option<i64> {
    let (hour, minute, second) = split(time)?;
    let (first_second, first_minute) = (bit_from(fields.seconds, 0)?, bit_from(fields.minutes, 0)?);
    let reached = bit_from(fields.hours, hour)?;
    if reached > hour {
        return Some(join(reached, first_minute, first_second));
    }
    if bit_from(fields.minutes, minute) == Some(minute)
        && let Some(second) = bit_from(fields.seconds, second)
    {
        return Some(join(hour, minute, second));
    }
    if let Some(minute) = bit_from(fields.minutes, minute + 1) {
        return Some(join(hour, minute, first_second));
    }
    Some(join(bit_from(fields.hours, hour + 1)?, first_minute, first_second))
}

/// The last matching second of a day that is not after `time`.
fn time_to(fields: &Fields, time: i64) -> Option<i64> {
    let (hour, minute, second) = split(time)?;
    let (last_second, last_minute) = (bit_to(fields.seconds, 59)?, bit_to(fields.minutes, 59)?);
    let reached = bit_to(fields.hours, hour)?;
    if reached < hour {
        return Some(join(reached, last_minute, last_second));
    }
    if bit_to(fields.minutes, minute) == Some(minute)
        && let Some(second) = bit_to(fields.seconds, second)
    {
        return Some(join(hour, minute, second));
    }
    if let Some(minute) = minute.checked_sub(1).and_then(|minute| bit_to(fields.minutes, minute)) {
        return Some(join(hour, minute, last_second));
    }
    Some(join(bit_to(fields.hours, hour.checked_sub(1)?)?, last_minute, last_second))
}
