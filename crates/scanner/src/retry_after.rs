//! The `Retry-After` field of an answer: seconds, or one of the three forms of an HTTP date.

use scheduler_model::Timestamp;
use std::time::{Duration, SystemTime};

/// The longest wait that a scanner may ask for; a longer one is cut to it.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// A two-digit year further ahead than this is one of the past (RFC 9110, 5.6.7).
const YEARS_AHEAD_MAX: i64 = 50;

/// How long the field asks to wait, before any cap; `None` for a value that is to be ignored.
///
/// A date at or before `now` is no wait. A number that does not fit 63 bits saturates to [`Duration::MAX`].
///
/// ```
/// use scheduler_model::Timestamp;
/// use scheduler_scanner::retry_after;
/// use std::time::Duration;
/// let now = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
/// assert_eq!(retry_after("120", now), Some(Duration::from_secs(120)));
/// assert_eq!(retry_after("Thu, 01 Jan 2026 00:00:30 GMT", now), Some(Duration::from_secs(30)));
/// assert_eq!(retry_after("soon", now), None);
/// ```
pub fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim_matches([' ', '\t']);
    if value.is_empty() {
        return None;
    }
    if value.bytes().all(|b| b.is_ascii_digit()) {
        let seconds = value.parse::<i64>().ok().and_then(|seconds| u64::try_from(seconds).ok());
        return Some(seconds.map_or(Duration::MAX, Duration::from_secs));
    }
    let date = http_date(value, now)?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let now = u64::try_from(now.millis()).map(Duration::from_millis).unwrap_or_default();
    Some(date.saturating_sub(now))
}

fn http_date(value: &str, now: Timestamp) -> Option<SystemTime> {
    match fixdate_of_rfc850(value, now) {
        Some(fixdate) => httpdate::parse_http_date(&fixdate).ok(),
        None => httpdate::parse_http_date(value).ok(),
    }
}

/// `Sunday, 06-Nov-94 08:49:37 GMT` with its year in full. The library settles the century by a fixed year, the rule
/// goes by `now`.
fn fixdate_of_rfc850(value: &str, now: Timestamp) -> Option<String> {
    let (weekday, rest) = value.split_once(", ")?;
    let short = match weekday {
        "Monday" => "Mon",
        "Tuesday" => "Tue",
        "Wednesday" => "Wed",
        "Thursday" => "Thu",
        "Friday" => "Fri",
        "Saturday" => "Sat",
        "Sunday" => "Sun",
        _ => return None,
    };
    let (date, time) = rest.split_once(' ')?;
    let mut parts = date.split('-');
    let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || year.len() != 2 || !year.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let this_year: i64 = now.to_string().split('-').next()?.parse().ok()?;
    let same_century = this_year - this_year.rem_euclid(100) + year.parse::<i64>().ok()?;
    let year = if same_century > this_year + YEARS_AHEAD_MAX { same_century - 100 } else { same_century };
    Some(format!("{short}, {day} {month} {year:04} {time}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::PathBuf;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    #[test]
    fn every_row_of_the_oracle_holds() {
        let shared = std::env::var_os("SCHEDULER_SHARED")
            .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")), PathBuf::from);
        let Ok(rows) = std::fs::read_to_string(shared.join("oracles/retry-after.jsonl")) else {
            println!("skipped: no shared data");
            return;
        };
        for row in rows.lines() {
            let row: serde_json::Value = serde_json::from_str(row).unwrap();
            let got = retry_after(row["value"].as_str().unwrap(), at(row["now"].as_str().unwrap()));
            let expected = match &row["wait_s"] {
                serde_json::Value::Null => None,
                serde_json::Value::String(max) if max == "max" => Some(Duration::MAX),
                seconds => Some(Duration::from_secs(seconds.as_u64().unwrap())),
            };
            assert_eq!(got, expected, "{row}");
        }
    }

    #[test]
    fn a_two_digit_year_is_at_most_fifty_years_ahead() {
        let now = at("2025-11-24T16:00:00Z");
        let check = |value: &str, wait_s: Option<u64>| {
            assert_eq!(retry_after(value, now), wait_s.map(Duration::from_secs), "{value}");
        };
        check("Monday, 24-Nov-25 16:00:30 GMT", Some(30));
        check("Sunday, 06-Nov-94 08:49:37 GMT", Some(0));
        check("Sunday, 24-Nov-75 16:00:00 GMT", Some(1_577_836_800));
        check("Wednesday, 24-Nov-76 16:00:00 GMT", Some(0));
        check("Monday, 31-Feb-26 16:00:00 GMT", None);
        check("Monday, 24-Nov-2025 16:00:30 GMT", None);
    }

    #[test]
    fn a_date_counts_from_the_millisecond_of_now() {
        let now = at("2025-11-24T16:00:00.250Z");
        assert_eq!(retry_after("Mon, 24 Nov 2025 16:00:01 GMT", now), Some(Duration::from_millis(750)));
    }

    proptest! {
        #[test]
        fn no_text_panics(value in ".{0,40}", millis in any::<i64>()) {
            let _ = retry_after(&value, Timestamp::from_millis(millis));
        }

        #[test]
        fn texts_like_dates_do_not_panic(value in "[A-Z][a-z]{2,8}, [0-9]{1,2}[- ][A-Z][a-z]{2}[- ][0-9]{2,4} [0-9:]{8} GMT") {
            let _ = retry_after(&value, at("2025-11-24T16:00:00Z"));
        }

        #[test]
        fn seconds_are_taken_as_they_are(seconds in 0_u64..=i64::MAX as u64) {
            let got = retry_after(&seconds.to_string(), at("2025-11-24T16:00:00Z"));
            prop_assert_eq!(got, Some(Duration::from_secs(seconds)));
        }
    }
}
