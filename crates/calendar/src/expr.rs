//! A parsed expression: the source text and what its fields hold.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::civil::{YEAR_FIRST, YEAR_LAST};
use crate::days::{self, Join, Mask, MonthDays, WeekDays};
use crate::error::CronError;
use crate::{explain, parse};

/// Longest expression that is read, in bytes: a list of all minutes, hours, days and months fits.
pub const EXPR_LEN_MAX: usize = 512;

/// A valid cron expression of five, six (seconds first) or seven (seconds first, year last) fields, or a nickname.
///
/// Two expressions are equal when their texts are. Some date of the Gregorian calendar matches it, which says nothing
/// about the future: an expression with a year may never run again.
///
/// ```
/// use scheduler_calendar::CronExpr;
///
/// let nightly = CronExpr::parse("0 2 * * *")?;
/// assert_eq!(nightly.to_string(), "0 2 * * *");
/// assert_eq!(nightly.explain(), "at 02:00 every day");
///
/// let error = CronExpr::parse("61 * * * *").unwrap_err();
/// assert_eq!(error.to_string(), "minute field `61`: 61 is over 59");
/// # Ok::<(), scheduler_calendar::CronError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CronExpr {
    source: String,
    pub(crate) fields: Fields,
}

/// What the fields of an expression hold. Bits are values; week days are 0 = Sunday in every form.
#[derive(Clone, Debug)]
pub(crate) struct Fields {
    pub(crate) seconds: Mask,
    pub(crate) minutes: Mask,
    pub(crate) hours: Mask,
    pub(crate) month_days: MonthDays,
    pub(crate) months: Mask,
    pub(crate) week_days: WeekDays,
    pub(crate) join: Join,
    /// `None`: every year.
    pub(crate) years: Option<BTreeSet<i32>>,
    /// A fixed-time job: neither minute nor hour begins with `*`.
    pub(crate) fixed: bool,
}

impl Fields {
    /// The matching days of a month, as bits.
    pub(crate) fn days(&self, year: i32, month: u32) -> Mask {
        days::matching(&self.month_days, &self.week_days, self.join, year, month)
    }

    pub(crate) fn year_matches(&self, year: i32) -> bool {
        self.years.as_ref().is_none_or(|years| years.contains(&year))
    }

    /// Some month of some year has a matching day, whatever the year field says.
    pub(crate) fn has_dates(&self) -> bool {
        (YEAR_FIRST..=YEAR_LAST).any(|year| days::bits(self.months).any(|month| self.days(year, month) != 0))
    }
}

impl CronExpr {
    /// Reads an expression.
    ///
    /// # Errors
    ///
    /// A [`CronError`] names the first field that is wrong. Dates that no year has (`0 0 30 2 *`) are an error too.
    pub fn parse(source: &str) -> Result<Self, CronError> {
        Ok(Self { fields: parse::parse(source)?, source: source.to_owned() })
    }

    /// The text as it was given.
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// A reading in plain English: `at 02:00 every day`.
    pub fn explain(&self) -> String {
        explain::explain(&self.fields)
    }

    /// Whether this is a fixed-time job under the daylight-saving rules: neither minute nor hour begins with `*`.
    pub fn is_fixed_time(&self) -> bool {
        self.fields.fixed
    }
}

impl PartialEq for CronExpr {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for CronExpr {}

impl fmt::Display for CronExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

impl FromStr for CronExpr {
    type Err = CronError;

    fn from_str(source: &str) -> Result<Self, CronError> {
        Self::parse(source)
    }
}

impl TryFrom<String> for CronExpr {
    type Error = CronError;

    fn try_from(source: String) -> Result<Self, CronError> {
        Self::parse(&source)
    }
}

impl From<CronExpr> for String {
    fn from(expr: CronExpr) -> Self {
        expr.source
    }
}
