//! Which days of a month match the two day fields.

use chrono::{Datelike, NaiveDate};

/// Bits 1 to 31: days of a month. Bits 0 to 6 of a week: Sunday to Saturday.
pub(crate) type Mask = u64;

/// The day-of-month field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MonthDays {
    pub(crate) days: Mask,
    /// Bit `n`: `L-n`, so bit 0 is `L`.
    pub(crate) before_last: Mask,
    /// Bit `n`: `nW`.
    pub(crate) nearest: Mask,
    /// `LW`.
    pub(crate) last_workday: bool,
}

/// The day-of-week field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WeekDays {
    pub(crate) days: Mask,
    /// `dL`.
    pub(crate) last: Mask,
    /// `d#n`, first to fifth.
    pub(crate) nth: [Mask; 5],
}

/// How the two day fields act together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    /// `?` in the day-of-week field.
    MonthOnly,
    /// `?` in the day-of-month field.
    WeekOnly,
    /// A day field begins with `*`: both must match.
    Both,
    /// Both are restricted: one is enough.
    Either,
}

/// A month of a year: how long it is and how its week days fall.
#[derive(Clone, Copy)]
struct Month {
    len: u32,
    /// Week day of the first, 0 = Sunday.
    first: u32,
}

impl Month {
    fn new(year: i32, month: u32) -> Option<Self> {
        let first = NaiveDate::from_ymd_opt(year, month, 1)?;
        let len = u32::from(first.num_days_in_month());
        Some(Self { len, first: first.weekday().num_days_from_sunday() })
    }

    fn weekday(self, day: u32) -> u32 {
        (self.first + day - 1) % 7
    }

    /// The Monday-to-Friday day nearest to `day` within the month; `day` exists.
    fn nearest_workday(self, day: u32) -> u32 {
        match self.weekday(day) {
            6 if day > 1 => day - 1,
            6 => day + 2,
            0 if day < self.len => day + 1,
            0 => day - 2,
            _ => day,
        }
    }
}

/// Values of the set bits, ascending.
pub(crate) fn bits(mask: Mask) -> impl DoubleEndedIterator<Item = u32> + Clone {
    (0..Mask::BITS).filter(move |bit| mask >> bit & 1 == 1)
}

impl MonthDays {
    fn mask(&self, month: Month) -> Mask {
        let existing = (1 << (month.len + 1)) - 2;
        let mut mask = self.days & existing;
        for n in bits(self.before_last).filter(|n| *n < month.len) {
            mask |= 1 << (month.len - n);
        }
        for day in bits(self.nearest & existing) {
            mask |= 1 << month.nearest_workday(day);
        }
        if self.last_workday {
            mask |= 1 << month.nearest_workday(month.len);
        }
        mask
    }
}

impl WeekDays {
    fn mask(&self, month: Month) -> Mask {
        (1..=month.len)
            .filter(|day| {
                let nth = usize::try_from((day - 1) / 7).ok().and_then(|week| self.nth.get(week)).copied();
                let last = if day + 7 > month.len { self.last } else { 0 };
                (self.days | last | nth.unwrap_or(0)) >> month.weekday(*day) & 1 == 1
            })
            .fold(0, |mask, day| mask | 1 << day)
    }
}

/// The days of a month on which a job runs; empty for a month that does not exist.
pub(crate) fn matching(month_days: &MonthDays, week_days: &WeekDays, join: Join, year: i32, month: u32) -> Mask {
    let Some(month) = Month::new(year, month) else { return 0 };
    match join {
        Join::MonthOnly => month_days.mask(month),
        Join::WeekOnly => week_days.mask(month),
        Join::Both => month_days.mask(month) & week_days.mask(month),
        Join::Either => month_days.mask(month) | week_days.mask(month),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(set: impl FnOnce(&mut MonthDays, &mut WeekDays), join: Join, (year, month): (i32, u32), expected: &[u32]) {
        let (mut month_days, mut week_days) = (MonthDays::default(), WeekDays::default());
        set(&mut month_days, &mut week_days);
        let got: Vec<u32> = bits(matching(&month_days, &week_days, join, year, month)).collect();
        assert_eq!(got, expected, "{year}-{month}");
    }

    #[test]
    fn a_workday_is_looked_for_inside_the_month() {
        // 2026-08-01 is a Saturday, 2026-05-31 a Sunday, 2026-02-28 a Saturday.
        check(|m, _| m.nearest = 1 << 1, Join::MonthOnly, (2026, 8), &[3]);
        check(|m, _| m.nearest = 1 << 31, Join::MonthOnly, (2026, 5), &[29]);
        check(|m, _| m.last_workday = true, Join::MonthOnly, (2026, 2), &[27]);
        check(|m, _| m.nearest = 1 << 31, Join::MonthOnly, (2026, 6), &[]);
    }

    #[test]
    fn last_days_follow_the_length_of_the_month() {
        check(|m, _| m.before_last = 1, Join::MonthOnly, (2028, 2), &[29]);
        check(|m, _| m.before_last = 1 << 28, Join::MonthOnly, (2027, 2), &[]);
        check(|_, w| w.last = 1 << 5, Join::WeekOnly, (2026, 7), &[31]);
        check(|_, w| w.nth[4] = 1, Join::WeekOnly, (2032, 2), &[29]);
        check(|_, w| w.nth[4] = 1, Join::WeekOnly, (2031, 2), &[]);
    }
}
