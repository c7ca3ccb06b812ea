//! Instants, as the contract writes them: RFC 3339, UTC, milliseconds, with `Z`.

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// An instant of wall time in UTC, in whole milliseconds.
///
/// ```
/// use scheduler_model::Timestamp;
/// let t = Timestamp::parse("2026-03-29T03:00:00+02:00").unwrap();
/// assert_eq!(t.to_string(), "2026-03-29T01:00:00.000Z");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Timestamp(DateTime<Utc>);

/// A text that is no RFC 3339 instant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no RFC 3339 time, such as 2026-01-31T02:00:00Z")]
pub struct TimestampError(String);

impl Timestamp {
    /// From milliseconds since 1970; out-of-range values saturate.
    pub fn from_millis(millis: i64) -> Self {
        Self(DateTime::from_timestamp_millis(millis).unwrap_or(if millis < 0 {
            DateTime::<Utc>::MIN_UTC
        } else {
            DateTime::<Utc>::MAX_UTC
        }))
    }

    /// Milliseconds since 1970.
    pub fn millis(self) -> i64 {
        self.0.timestamp_millis()
    }

    /// Seconds since 1970, rounded down.
    pub fn seconds(self) -> i64 {
        self.0.timestamp()
    }

    /// Reads RFC 3339 with any offset.
    pub fn parse(text: &str) -> Result<Self, TimestampError> {
        DateTime::parse_from_rfc3339(text)
            .map(|t| Self::from(t.with_timezone(&Utc)))
            .map_err(|_| TimestampError(text.chars().take(64).collect()))
    }

    /// So much later; saturates.
    pub fn plus(self, by: Duration) -> Self {
        TimeDelta::from_std(by)
            .ok()
            .and_then(|delta| self.0.checked_add_signed(delta))
            .map_or(Self(DateTime::<Utc>::MAX_UTC), Self::from)
    }

    /// So much earlier; saturates.
    pub fn minus(self, by: Duration) -> Self {
        TimeDelta::from_std(by)
            .ok()
            .and_then(|delta| self.0.checked_sub_signed(delta))
            .map_or(Self(DateTime::<Utc>::MIN_UTC), Self::from)
    }

    /// The time from `earlier` to here; zero when it is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        (self.0 - earlier.0).to_std().unwrap_or_default()
    }

    /// As chrono's type, for the calendar.
    pub fn utc(self) -> DateTime<Utc> {
        self.0
    }
}

impl From<DateTime<Utc>> for Timestamp {
    /// Cuts to whole milliseconds, so that what is shown is what is stored. A leap second, which UTC in milliseconds does not
    /// have, is the last millisecond before it ends, not one of the day that follows.
    fn from(time: DateTime<Utc>) -> Self {
        let millis = i64::from(time.timestamp_subsec_millis().min(999));
        Self::from_millis(time.timestamp().saturating_mul(1000).saturating_add(millis))
    }
}

impl TryFrom<String> for Timestamp {
    type Error = TimestampError;
    fn try_from(text: String) -> Result<Self, TimestampError> {
        Self::parse(&text)
    }
}

impl From<Timestamp> for String {
    fn from(time: Timestamp) -> String {
        time.to_string()
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_rfc3339_opts(SecondsFormat::Millis, true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leap_second_is_of_the_day_that_it_ends() {
        let read = |text: &str| Timestamp::parse(text).unwrap().to_string();
        assert_eq!(read("2026-06-30T23:59:60Z"), "2026-06-30T23:59:59.999Z");
        assert_eq!(read("2026-06-30T23:59:60.5Z"), "2026-06-30T23:59:59.999Z");
        assert_eq!(read("2026-06-30T23:59:59.9996Z"), "2026-06-30T23:59:59.999Z");
        assert_eq!(read("1969-12-31T23:59:59.25Z"), "1969-12-31T23:59:59.250Z");
    }
}
