//! Cron expressions × time zones → instants.
//!
//! Pure: no clock, no runtime, no global; every question carries its own time. The semantics (dialects, day fields,
//! daylight saving) are written for users in `docs/reference/cron.md`, whose examples the tests run.
//!
//! - CAL-1: [`Calendar::next`] is strictly later than what it was asked about, [`Calendar::prev`] strictly earlier.
//! - CAL-2: every answer takes bounded time; "never" is `None`, not an error and not a search without end.
//! - CAL-3: a fixed-time job runs once for each wall-clock match: at the first instant after a gap when the match is
//!   missing (all matches of one gap together), in the first pass when it is repeated.
//! - CAL-4: a wildcard job runs at every wall-clock match that exists, and at nothing else.
//! - CAL-5: text that is not understood in full is refused with the field it is in; nothing is guessed.

mod calendar;
mod civil;
mod days;
mod error;
mod explain;
mod expr;
mod field;
mod parse;
mod warning;
mod zone;

pub use calendar::{Calendar, Upcoming};
pub use error::{CronError, Field, Reason, ZoneError};
pub use expr::{CronExpr, EXPR_LEN_MAX};
pub use warning::{WARNING_HORIZON_DAYS_MAX, Warning};
pub use zone::Zone;

/// Release of the IANA time-zone data that is compiled in, such as `2025b`.
///
/// Releases sort as text, so a caller can tell an old one. Rules of a zone that changed after this release are not known.
pub const TZDB_VERSION: &str = chrono_tz::IANA_TZDB_VERSION;
