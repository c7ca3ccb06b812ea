//! What a user should know about a schedule before saving it.

use std::fmt;

use chrono::{DateTime, NaiveDateTime, SecondsFormat, TimeDelta, Utc};

use crate::calendar::Calendar;
use crate::civil;
use crate::days::{Join, Mask};

/// How far ahead clock changes are looked for, whatever the caller asks.
pub const WARNING_HORIZON_DAYS_MAX: i64 = 366;

/// Something about a schedule that is valid and may still surprise.
///
/// Wall-clock times (`wall`) are those of the schedule's zone; of several matches in one change the first is named. A
/// wildcard job of every hour follows real time through every change, so changes are not reported for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// Day of month and day of week are both restricted, so either is enough.
    EitherDay,
    /// No instant follows.
    Never,
    /// Clocks go forward over a fixed time: it runs at the first instant after the gap.
    Moved {
        /// The match that does not exist.
        wall: NaiveDateTime,
        /// When the job runs instead.
        at: DateTime<Utc>,
    },
    /// Clocks go forward over a match of a wildcard job: it does not run.
    Skipped {
        /// The match that does not exist.
        wall: NaiveDateTime,
        /// When the clocks change.
        change: DateTime<Utc>,
    },
    /// Clocks go back over a fixed time: it runs in the first pass only.
    FirstPassOnly {
        /// The match that the clock shows twice.
        wall: NaiveDateTime,
        /// When the job runs.
        at: DateTime<Utc>,
    },
    /// Clocks go back over a match of a wildcard job: it runs in both passes.
    Doubled {
        /// The match that the clock shows twice.
        wall: NaiveDateTime,
        /// When the job runs first.
        first: DateTime<Utc>,
        /// When it runs again.
        second: DateTime<Utc>,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clock = |wall: &NaiveDateTime| wall.format("%Y-%m-%d %H:%M:%S").to_string();
        let utc = |at: &DateTime<Utc>| at.to_rfc3339_opts(SecondsFormat::Secs, true);
        match self {
            Self::EitherDay => {
                f.write_str("day of month and day of week are both restricted: the job runs when either matches")
            }
            Self::Never => f.write_str("the job never runs again: no later instant matches"),
            Self::Moved { wall, at } => {
                write!(f, "{} does not exist, clocks go forward: the job runs at {} instead", clock(wall), utc(at))
            }
            Self::Skipped { wall, change } => {
                write!(f, "{} does not exist, clocks go forward at {}: the job skips it", clock(wall), utc(change))
            }
            Self::FirstPassOnly { wall, at } => {
                write!(f, "{} comes twice, clocks go back: the job runs the first time, at {}", clock(wall), utc(at))
            }
            Self::Doubled { wall, first, second } => {
                let (first, second) = (utc(first), utc(second));
                write!(f, "{} comes twice, clocks go back: the job runs at {first} and at {second}", clock(wall))
            }
        }
    }
}

const EVERY_HOUR: Mask = (1 << 24) - 1;

pub(crate) fn warnings(calendar: &Calendar, from: DateTime<Utc>, horizon: TimeDelta) -> Vec<Warning> {
    let fields = &calendar.expr.fields;
    let mut warnings = Vec::new();
    if fields.join == Join::Either {
        warnings.push(Warning::EitherDay);
    }
    if calendar.next(from).is_none() {
        warnings.push(Warning::Never);
    }
    if fields.fixed || fields.hours != EVERY_HOUR {
        let from = from.timestamp();
        let until = from + horizon.min(TimeDelta::days(WARNING_HORIZON_DAYS_MAX)).num_seconds();
        let spans = calendar.zone.spans(from, until);
        let changes = spans.iter().filter(|span| span.start > from);
        warnings
            .extend(changes.filter_map(|span| change(calendar, span.start, span.start + span.offset, span.carried)));
    }
    warnings
}

/// What the job does when the clock goes at `at` from `carried` to `shown`.
fn change(calendar: &Calendar, at: i64, shown: i64, carried: i64) -> Option<Warning> {
    let fields = &calendar.expr.fields;
    let wall = civil::first_in(fields, shown.min(carried), shown.max(carried))?;
    let utc = |seconds| DateTime::from_timestamp(seconds, 0);
    let (first, second) = (utc(at + wall - carried)?, utc(at + wall - shown)?);
    let (wall, change) = (utc(wall)?.naive_utc(), utc(at)?);
    Some(match (shown > carried, fields.fixed) {
        (true, true) => Warning::Moved { wall, at: change },
        (true, false) => Warning::Skipped { wall, change },
        (false, true) => Warning::FirstPassOnly { wall, at: first },
        (false, false) => Warning::Doubled { wall, first, second },
    })
}
