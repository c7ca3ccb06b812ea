//! A time zone, and the spans of time in which its offset from UTC stays the same.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Offset, TimeZone, Utc};
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};

use crate::civil::DAY_S;
use crate::error::ZoneError;

/// A time zone of the IANA data, by its exact name.
///
/// Old names that the data keeps (`US/Pacific`, `EST5EDT`) count; abbreviations, POSIX strings, paths, other spellings and
/// names that depend on the machine do not.
///
/// ```
/// use scheduler_calendar::Zone;
///
/// assert_eq!(Zone::parse("Europe/Sofia")?.name(), "Europe/Sofia");
/// assert!(Zone::parse("europe/sofia").is_err());
/// assert!(Zone::parse("UTC+2").is_err());
/// # Ok::<(), scheduler_calendar::ZoneError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Zone(Tz);

impl Zone {
    /// UTC, which never changes its clocks.
    pub const UTC: Self = Self(Tz::UTC);

    /// Reads a name.
    ///
    /// # Errors
    ///
    /// [`ZoneError`] for everything that is not a name of the data, character for character.
    pub fn parse(name: &str) -> Result<Self, ZoneError> {
        if name.trim().is_empty() {
            return Err(ZoneError::Empty);
        }
        // The comparison keeps the promise even if a feature of the crate makes its own parser lenient.
        match name.parse::<Tz>() {
            Ok(zone) if zone.name() == name => Ok(Self(zone)),
            _ => Err(ZoneError::unknown(name)),
        }
    }

    /// The IANA name.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// The instant with this zone's clock, for display.
    pub fn local(self, instant: DateTime<Utc>) -> DateTime<Tz> {
        instant.with_timezone(&self.0)
    }

    /// Seconds that the clock is ahead of UTC at a Unix time.
    pub(crate) fn offset(self, at: i64) -> i64 {
        let utc = DateTime::from_timestamp(at, 0).unwrap_or_default().naive_utc();
        i64::from(self.0.offset_from_utc_datetime(&utc).fix().local_minus_utc())
    }

    /// The spans that cover `from..until` (Unix seconds), ascending; the first may begin before `from`.
    ///
    /// A change up to [`LOOKBACK_S`] before `from` is seen, so that `carried` of the first span is right wherever it
    /// matters.
    pub(crate) fn spans(self, from: i64, until: i64) -> Vec<Span> {
        let mut at = from - LOOKBACK_S;
        let mut span = Span { start: at, end: until, offset: self.offset(at), carried: at + self.offset(at) };
        let mut spans = Vec::new();
        while at < until {
            let next = (at + PROBE_S).min(until);
            if self.offset(next) != span.offset {
                let change = self.change(at, next);
                let carried = change + span.offset;
                spans.push(Span { end: change, ..span });
                span = Span { start: change, end: until, offset: self.offset(change), carried };
            }
            at = next;
        }
        spans.push(span);
        spans.retain(|span| span.end > from && span.start < span.end.min(until));
        spans
    }

    /// The first second after `low` with another offset than at `low`; `high` has one.
    fn change(self, mut low: i64, mut high: i64) -> i64 {
        let offset = self.offset(low);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.offset(middle) == offset {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }
}

/// Distance of two looks at the offset. Changes of one zone are more than six days apart in all of the data since 1970
/// (release 2025b: 6.96 days, Palestine and Brazil), so no change hides between two looks.
const PROBE_S: i64 = DAY_S;

/// A change repeats at most a day, so one further back has no effect on the first passes of now.
const LOOKBACK_S: i64 = 2 * DAY_S;

/// A span of time with one offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// First second, Unix time.
    pub(crate) start: i64,
    /// First second after it.
    pub(crate) end: i64,
    /// Seconds ahead of UTC.
    pub(crate) offset: i64,
    /// What the clock would have shown at `start` had it not been changed: the start of the gap when clocks went
    /// forward, the end of the repeated time when they went back.
    pub(crate) carried: i64,
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Zone {
    type Err = ZoneError;

    fn from_str(name: &str) -> Result<Self, ZoneError> {
        Self::parse(name)
    }
}

impl TryFrom<String> for Zone {
    type Error = ZoneError;

    fn try_from(name: String) -> Result<Self, ZoneError> {
        Self::parse(&name)
    }
}

impl From<Zone> for String {
    fn from(zone: Zone) -> Self {
        zone.name().to_owned()
    }
}
