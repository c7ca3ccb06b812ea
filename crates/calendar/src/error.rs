//! Why an expression or a zone is refused, and where in the text.

use std::fmt;

/// The part of a cron expression that an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// The text as a whole: its length, its characters, the number of its fields.
    Expression,
    /// Seconds, 0 to 59; only in the forms of six and seven fields.
    Second,
    /// Minutes, 0 to 59.
    Minute,
    /// Hours, 0 to 23.
    Hour,
    /// Day of the month, 1 to 31.
    DayOfMonth,
    /// Month, 1 to 12 or a name.
    Month,
    /// Day of the week: 0 to 7, or 1 to 7 from Sunday where a `?` stands, or a name.
    DayOfWeek,
    /// Year, 1970 to 2099; only in the form of seven fields.
    Year,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expression => "cron expression",
            Self::Second => "second field",
            Self::Minute => "minute field",
            Self::Hour => "hour field",
            Self::DayOfMonth => "day-of-month field",
            Self::Month => "month field",
            Self::DayOfWeek => "day-of-week field",
            Self::Year => "year field",
        })
    }
}

/// A refused cron expression: the field, the offending text and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} `{text}`: {reason}")]
pub struct CronError {
    /// The field that is wrong.
    pub field: Field,
    /// Where the offending text begins, in bytes from the start of the expression.
    pub position: usize,
    /// The offending text, escaped where it does not print, and cut when it is long.
    pub text: String,
    /// What is wrong with it.
    pub reason: Reason,
}

/// Characters of the offending text that an error repeats.
const QUOTE_LEN_MAX: usize = 40;

impl CronError {
    pub(crate) fn new(field: Field, position: usize, text: &str, reason: Reason) -> Self {
        let mut quote: String = text.chars().take(QUOTE_LEN_MAX).flat_map(char::escape_debug).collect();
        if text.chars().nth(QUOTE_LEN_MAX).is_some() {
            quote.push('…');
        }
        Self { field, position, text: quote, reason }
    }
}

/// What is wrong with a part of a cron expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// Nothing but blanks.
    #[error("is empty")]
    Empty,
    /// Longer than [`crate::EXPR_LEN_MAX`] bytes.
    #[error("is longer than {0} bytes")]
    TooLong(usize),
    /// A character that is neither printable ASCII nor a blank.
    #[error("only printable ASCII characters and blanks are allowed")]
    Character,
    /// Not five, six or seven fields.
    #[error("has {0} fields; 5, 6 (seconds first) or 7 (year last) are allowed")]
    FieldCount(usize),
    /// A nickname that does not exist, or one with something after it.
    #[error("is no nickname; @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually are, alone")]
    Nickname,
    /// A zone written into the expression.
    #[error("a time zone does not belong into the expression")]
    ZonePrefix,
    /// Nothing between two commas, or before the first or after the last one.
    #[error("a list item is empty")]
    EmptyItem,
    /// Text that is neither a number nor anything else that the field takes.
    #[error("is not a number, a range, a step or a name of this field")]
    Garbage,
    /// A name that the field does not have.
    #[error("is no name of this field")]
    Name,
    /// A number under the field's lowest.
    #[error("{value} is under {low}")]
    Under {
        /// The number as written.
        value: String,
        /// The lowest number of the field.
        low: u32,
    },
    /// A number over the field's highest.
    #[error("{value} is over {high}")]
    Over {
        /// The number as written.
        value: String,
        /// The highest number of the field.
        high: u32,
    },
    /// A range with only one end, or with `*` for an end.
    #[error("a range needs a number or a name at both ends")]
    HalfRange,
    /// A range whose end is lower than its start, where ranges do not wrap.
    #[error("the range ends before it starts; only forms with `?` wrap, and years never do")]
    ReversedRange,
    /// A step that is no number.
    #[error("a step is a number, such as `/5`")]
    Step,
    /// `/0`.
    #[error("a step of zero never advances")]
    StepZero,
    /// A step over the number of the field's values.
    #[error("a step of {value} is over {high}, all that the field has")]
    StepOver {
        /// The step as written.
        value: String,
        /// How many values the field has.
        high: u32,
    },
    /// `?` in a field that is no day field, or with other text.
    #[error("`?` stands alone in one of the two day fields, nowhere else")]
    QuestionMark,
    /// `?` in both day fields.
    #[error("`?` may stand in one of the two day fields, not in both")]
    QuestionMarkTwice,
    /// Seven fields without a `?`.
    #[error("with a year, one of the two day fields must be `?`")]
    QuestionMarkMissing,
    /// `L`, `W` or `#` in a field or a place where it means nothing.
    #[error("`L`, `W` and `#` do not belong here")]
    Special,
    /// `W`, `L` or `#` of a range or a step.
    #[error("`W`, `L` and `#` are about one day, not about a range or a step")]
    SpecialOfSeveral,
    /// `L` alone as a day of the week, without a `?`.
    #[error("`L` alone is a day of the week only where `?` stands for the day of the month; write `SAT`")]
    LastWithoutQuestionMark,
    /// `d#n` with an `n` that is not 1 to 5.
    #[error("the number after `#` is 1 to 5")]
    Nth,
    /// No month of any year has a day that matches.
    #[error("no date can match: no such day exists in these months")]
    Impossible,
}

/// A refused time zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZoneError {
    /// Nothing, or only blanks.
    #[error("time zone is empty")]
    Empty,
    /// Not the exact name of a zone of the IANA data.
    #[error("time zone `{0}` is no IANA name, such as `Europe/Sofia` or `UTC` (upper and lower case count)")]
    Unknown(String),
}

impl ZoneError {
    pub(crate) fn unknown(text: &str) -> Self {
        Self::Unknown(text.chars().take(QUOTE_LEN_MAX).flat_map(char::escape_debug).collect())
    }
}
