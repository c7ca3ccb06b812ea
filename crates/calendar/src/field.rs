//! What each field may hold, and the reading of one item of a list: a number, a name, a range, a step.

use crate::error::{CronError, Field, Reason};

/// The values of one field.
pub(crate) struct Spec {
    pub(crate) field: Field,
    pub(crate) low: u32,
    pub(crate) high: u32,
    /// Where `*` and `a/n` end: the highest value that is no second name of a lower one (7 is Sunday, as 0 is).
    pub(crate) end: u32,
    /// Names in the order of the values, from `low` on.
    pub(crate) names: &'static [&'static str],
    /// A range whose end is lower goes on at `low`.
    pub(crate) wraps: bool,
}

const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// First and last year of the year field.
pub(crate) const YEAR_FIELD: (u32, u32) = (1970, 2099);

impl Spec {
    /// The rules of `field`; `quartz` is the form with a `?`.
    pub(crate) fn of(field: Field, quartz: bool) -> Self {
        let (low, high, names): (u32, u32, &'static [&'static str]) = match field {
            Field::Second | Field::Minute => (0, 59, &[]),
            Field::Hour => (0, 23, &[]),
            Field::DayOfMonth | Field::Expression => (1, 31, &[]),
            Field::Month => (1, 12, &MONTHS),
            Field::DayOfWeek if quartz => (1, 7, &WEEKDAYS),
            Field::DayOfWeek => (0, 7, &WEEKDAYS),
            Field::Year => (YEAR_FIELD.0, YEAR_FIELD.1, &[]),
        };
        let end = if field == Field::DayOfWeek && !quartz { 6 } else { high };
        Self { field, low, high, end, names, wraps: quartz && field != Field::Year }
    }

    /// One number or name.
    pub(crate) fn value(&self, item: Item<'_>) -> Result<u32, CronError> {
        let text = item.text;
        if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
            return match text.parse::<u32>() {
                Ok(value) if value < self.low => {
                    Err(self.error(item, Reason::Under { value: text.to_owned(), low: self.low }))
                }
                Ok(value) if value <= self.high => Ok(value),
                // What does not fit the integer is over every limit too.
                _ => Err(self.error(item, Reason::Over { value: text.to_owned(), high: self.high })),
            };
        }
        if let Some(value) = (self.low..).zip(self.names).find(|(_, n)| n.eq_ignore_ascii_case(text)).map(|(v, _)| v) {
            return Ok(value);
        }
        let reason = match text {
            _ if text.contains('=') => Reason::ZonePrefix,
            _ if text.contains('?') => Reason::QuestionMark,
            _ if text.contains('#') || matches!(text.to_ascii_uppercase().as_str(), "L" | "W" | "LW") => {
                Reason::Special
            }
            _ if !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphabetic()) => Reason::Name,
            _ => Reason::Garbage,
        };
        Err(self.error(item, reason))
    }

    /// The values of one list item without specials, in the order in which they are stepped through.
    pub(crate) fn values(&self, item: Item<'_>) -> Result<Vec<u32>, CronError> {
        let (base, step) = match item.text.split_once('/') {
            Some((base, step)) => (Item { text: base, ..item }, Some(self.step(item, step)?)),
            None => (item, None),
        };
        let (from, to) = if base.text == "*" {
            (self.low, self.end)
        } else if let Some((from, to)) = base.text.split_once('-') {
            if [from, to].iter().any(|end| end.is_empty() || *end == "*") {
                return Err(self.error(item, Reason::HalfRange));
            }
            let to = Item { text: to, position: base.position + from.len() + 1 };
            (self.value(Item { text: from, ..base })?, self.value(to)?)
        } else {
            let from = self.value(base)?;
            (from, if step.is_some() { self.end.max(from) } else { from })
        };
        if to < from && !self.wraps {
            return Err(self.error(item, Reason::ReversedRange));
        }
        let span = self.end - self.low + 1;
        let to = if to < from { to + span } else { to };
        let wrap = |value: u32| if value > self.high { value - span } else { value };
        Ok((from..=to).step_by(step.unwrap_or(1)).map(wrap).collect())
    }

    fn step(&self, item: Item<'_>, text: &str) -> Result<usize, CronError> {
        if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(self.error(item, Reason::Step));
        }
        let high = self.end - self.low + 1;
        match text.parse::<u32>().ok().filter(|step| *step <= high).and_then(|step| usize::try_from(step).ok()) {
            Some(0) => Err(self.error(item, Reason::StepZero)),
            Some(step) => Ok(step),
            None => Err(self.error(item, Reason::StepOver { value: text.to_owned(), high })),
        }
    }

    /// An error about `item` of this field.
    pub(crate) fn error(&self, item: Item<'_>, reason: Reason) -> CronError {
        CronError::new(self.field, item.position, item.text, reason)
    }
}

/// A piece of the expression and where it begins, in bytes.
#[derive(Clone, Copy)]
pub(crate) struct Item<'a> {
    pub(crate) text: &'a str,
    pub(crate) position: usize,
}

impl<'a> Item<'a> {
    /// The items of a comma-separated list.
    pub(crate) fn list(self) -> impl Iterator<Item = Self> {
        let mut position = self.position;
        self.text.split(',').map(move |text| {
            let item = Item { text, position };
            position += text.len() + 1;
            item
        })
    }
}
