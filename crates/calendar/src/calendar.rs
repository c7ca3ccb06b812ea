//! An expression in a zone, and the instants at which it runs.

use chrono::{DateTime, TimeDelta, Utc};

use crate::civil::{self, DAY_S, YEAR_FIRST, YEAR_LAST};
use crate::expr::CronExpr;
use crate::warning::{self, Warning};
use crate::zone::{Span, Zone};

/// More than any clock since 1970 is away from UTC, in either direction.
const OFFSET_MAX_S: i64 = 16 * 3600;

/// How much time one step looks at span by span. Longer than both offsets together, so that a wall-clock match found by
/// the walk over fields has its instant, if it has one, inside the window that starts `OFFSET_MAX_S` before it.
const WINDOW_S: i64 = 2 * DAY_S;

/// Unix times before and after which no wall clock shows a year that matches.
const EARLIEST_S: i64 = -2 * DAY_S;
const LATEST_S: i64 = (YEAR_LAST as i64 - YEAR_FIRST as i64 + 1) * 366 * DAY_S;

/// A cron expression on the clock of a time zone.
///
/// ```
/// use chrono::{DateTime, Utc};
/// use scheduler_calendar::{Calendar, CronExpr, Zone};
///
/// let nightly = Calendar { expr: CronExpr::parse("0 2 * * *")?, zone: Zone::parse("Europe/Berlin")? };
/// let after: DateTime<Utc> = "2023-10-28T12:00:00Z".parse()?;
/// // The clock shows 02:00 twice that night; the job runs the first time.
/// let next: Vec<String> = nightly.upcoming(after).take(2).map(|at| at.to_rfc3339()).collect();
/// assert_eq!(next, ["2023-10-29T00:00:00+00:00", "2023-10-30T01:00:00+00:00"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calendar {
    /// When, on the wall clock.
    pub expr: CronExpr,
    /// Whose wall clock.
    pub zone: Zone,
}

impl Calendar {
    /// The first instant strictly later than `after`, in whole seconds; `None`: never again.
    ///
    /// A match after the year 2199 counts as never.
    pub fn next(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let fields = &self.expr.fields;
        let mut cursor = (after.timestamp() + 1).max(EARLIEST_S);
        while cursor < LATEST_S {
            // No match shows on the clock before this one, so no instant is lost by going there. It may still have no
            // instant after `cursor` (skipped by a wildcard job, or its second pass): then the next window follows.
            let wall = civil::first_in(fields, cursor - OFFSET_MAX_S, LATEST_S)?;
            cursor = cursor.max(wall - OFFSET_MAX_S);
            let until = cursor + WINDOW_S;
            let mut spans = self.zone.spans(cursor, until).into_iter();
            if let Some(found) = spans.find_map(|span| self.first_within(span, cursor.max(span.start))) {
                return DateTime::from_timestamp(found, 0);
            }
            cursor = until;
        }
        None
    }

    /// The last instant strictly earlier than `before`, in whole seconds; `None`: never since 1970.
    pub fn prev(&self, before: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let fields = &self.expr.fields;
        let rounded_up = before.timestamp() + i64::from(before.timestamp_subsec_nanos() > 0);
        // Everything in this function is before the cursor, which itself is excluded.
        let mut cursor = rounded_up.min(LATEST_S);
        while cursor > EARLIEST_S {
            let wall = civil::last_in(fields, 0, cursor + OFFSET_MAX_S)?;
            cursor = cursor.min(wall + OFFSET_MAX_S + 1);
            let from = cursor - WINDOW_S;
            let mut spans = self.zone.spans(from, cursor).into_iter().rev();
            if let Some(found) = spans.find_map(|span| self.last_within(span, from.max(span.start))) {
                return DateTime::from_timestamp(found, 0);
            }
            cursor = from;
        }
        None
    }

    /// All instants strictly later than `after`, strictly increasing.
    pub fn upcoming(&self, after: DateTime<Utc>) -> Upcoming<'_> {
        Upcoming { calendar: self, after }
    }

    /// What a user should know before saving this: see [`Warning`].
    ///
    /// Clock changes are looked for from `from` over `horizon`, of which at most [`crate::WARNING_HORIZON_DAYS_MAX`] days
    /// count.
    pub fn warnings(&self, from: DateTime<Utc>, horizon: TimeDelta) -> Vec<Warning> {
        warning::warnings(self, from, horizon)
    }

    /// The first instant of `span` that is not before `from`, which lies in the span.
    fn first_within(&self, span: Span, from: i64) -> Option<i64> {
        let wall = civil::first_in(&self.expr.fields, self.wall_start(span, from), span.end + span.offset)?;
        Some((wall - span.offset).max(span.start))
    }

    /// The last instant of `span`, no earlier than `from`, which lies in the span.
    fn last_within(&self, span: Span, from: i64) -> Option<i64> {
        let wall = civil::last_in(&self.expr.fields, self.wall_start(span, from), span.end + span.offset)?;
        Some((wall - span.offset).max(span.start))
    }

    /// The wall-clock time from which matches count, for instants of `span` that are not before `from`.
    ///
    /// A wildcard job reads the clock as it is (CAL-4). A fixed-time job reads it as if it had run on through the
    /// change (CAL-3): from the start of a gap, whose matches then all fall on the first instant of the span, and from
    /// the end of a repeated time, whose second pass then has no match.
    fn wall_start(&self, span: Span, from: i64) -> i64 {
        let shown = from + span.offset;
        match self.expr.fields.fixed {
            false => shown,
            true if from == span.start => span.carried,
            true => shown.max(span.carried),
        }
    }
}

/// The instants of a [`Calendar`], from [`Calendar::upcoming`]; ends where the calendar says never.
#[derive(Clone, Debug)]
pub struct Upcoming<'a> {
    calendar: &'a Calendar,
    after: DateTime<Utc>,
}

impl Iterator for Upcoming<'_> {
    type Item = DateTime<Utc>;

    fn next(&mut self) -> Option<DateTime<Utc>> {
        self.after = self.calendar.next(self.after)?;
        Some(self.after)
    }
}
