//! Text → fields. Everything that is not understood in full is refused (CAL-5).

use crate::days::{Join, Mask, MonthDays, WeekDays};
use crate::error::{CronError, Field, Reason};
use crate::expr::{EXPR_LEN_MAX, Fields};
use crate::field::{Item, Spec};

const NICKNAMES: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// Reads an expression of any form.
pub(crate) fn parse(source: &str) -> Result<Fields, CronError> {
    let whole = |reason| CronError::new(Field::Expression, 0, source, reason);
    if source.len() > EXPR_LEN_MAX {
        return Err(whole(Reason::TooLong(EXPR_LEN_MAX)));
    }
    if let Some((position, c)) = source.char_indices().find(|(_, c)| !matches!(c, '\t' | ' '..='~')) {
        return Err(CronError::new(Field::Expression, position, c.encode_utf8(&mut [0; 4]), Reason::Character));
    }
    let items = split(source);
    let Some(first) = items.first() else { return Err(whole(Reason::Empty)) };
    if first.text.starts_with('@') {
        let found = NICKNAMES.iter().find(|(name, _)| items.len() == 1 && name.eq_ignore_ascii_case(first.text));
        let Some((_, meaning)) = found else { return Err(whole(Reason::Nickname)) };
        return fields(&split(meaning)).map_err(|error| CronError { position: first.position, ..error });
    }
    if first.text.contains('=') {
        return Err(CronError::new(Field::Expression, first.position, first.text, Reason::ZonePrefix));
    }
    fields(&items)
}

fn split(source: &str) -> Vec<Item<'_>> {
    let blank = [' ', '\t'];
    let mut position = 0;
    let pieces = source.split(blank).map(|text| {
        let item = Item { text, position };
        position += text.len() + 1;
        item
    });
    pieces.filter(|item| !item.text.is_empty()).collect()
}

fn fields(items: &[Item<'_>]) -> Result<Fields, CronError> {
    let zero = Item { text: "0", position: 0 };
    let (second, [minute, hour, month_day, month, week_day], year) = match *items {
        [minute, hour, d, m, w] => (zero, [minute, hour, d, m, w], None),
        [second, minute, hour, d, m, w] => (second, [minute, hour, d, m, w], None),
        [second, minute, hour, d, m, w, year] => (second, [minute, hour, d, m, w], Some(year)),
        // The field that is missing or too many is not known, so the whole text is shown.
        _ => {
            let text = items.iter().map(|item| item.text).collect::<Vec<_>>().join(" ");
            let position = items.first().map_or(0, |item| item.position);
            return Err(CronError::new(Field::Expression, position, &text, Reason::FieldCount(items.len())));
        }
    };
    let quartz = month_day.text == "?" || week_day.text == "?";
    let seconds = mask(Field::Second, quartz, second)?;
    let minutes = mask(Field::Minute, quartz, minute)?;
    let hours = mask(Field::Hour, quartz, hour)?;
    let month_days = if month_day.text == "?" { MonthDays::default() } else { month_day_field(quartz, month_day)? };
    let months = mask(Field::Month, quartz, month)?;
    let week_days = if week_day.text == "?" { WeekDays::default() } else { week_day_field(quartz, week_day)? };
    let years = year.map(|year| list(&Spec::of(Field::Year, quartz), year, |spec, item| spec.values(item)));
    let star = |item: Item<'_>| item.text.starts_with('*');
    let join = match (month_day.text, week_day.text) {
        ("?", "?") => return Err(Spec::of(Field::DayOfWeek, quartz).error(week_day, Reason::QuestionMarkTwice)),
        ("?", _) => Join::WeekOnly,
        (_, "?") => Join::MonthOnly,
        _ if year.is_some() => {
            return Err(Spec::of(Field::DayOfWeek, quartz).error(week_day, Reason::QuestionMarkMissing));
        }
        _ if star(month_day) || star(week_day) => Join::Both,
        _ => Join::Either,
    };
    let fields = Fields {
        seconds,
        minutes,
        hours,
        month_days,
        months,
        week_days,
        join,
        years: years
            .transpose()?
            .map(|years| years.into_iter().flatten().filter_map(|y| i32::try_from(y).ok()).collect()),
        fixed: !star(minute) && !star(hour),
    };
    // Only dates that no calendar has: a year that has passed or is no leap year makes an expression that never runs
    // again, which is a fact about time and not an error in the text.
    if !fields.has_dates() {
        let item = if join == Join::WeekOnly { week_day } else { month_day };
        let field = if join == Join::WeekOnly { Field::DayOfWeek } else { Field::DayOfMonth };
        return Err(CronError::new(field, item.position, item.text, Reason::Impossible));
    }
    Ok(fields)
}

/// Reads every item of a comma-separated field.
fn list<T>(
    spec: &Spec,
    field: Item<'_>,
    read: impl Fn(&Spec, Item<'_>) -> Result<T, CronError>,
) -> Result<Vec<T>, CronError> {
    field
        .list()
        .map(|item| if item.text.is_empty() { Err(spec.error(field, Reason::EmptyItem)) } else { read(spec, item) })
        .collect()
}

fn to_mask(values: &[u32]) -> Mask {
    values.iter().fold(0, |mask, value| mask | 1 << value)
}

fn mask(field: Field, quartz: bool, text: Item<'_>) -> Result<Mask, CronError> {
    let masks = list(&Spec::of(field, quartz), text, |spec, item| Ok(to_mask(&spec.values(item)?)))?;
    Ok(masks.into_iter().fold(0, |all, mask| all | mask))
}

/// Whether a text, of which `L`, `W` or `#` is a part, means no range and no step.
fn is_one(text: &str) -> bool {
    !text.trim_start_matches("L-").contains(['-', '/', '*'])
}

fn month_day_field(quartz: bool, text: Item<'_>) -> Result<MonthDays, CronError> {
    let mut days = MonthDays::default();
    let read = |spec: &Spec, item: Item<'_>| {
        let upper = item.text.to_ascii_uppercase();
        let mut one = MonthDays::default();
        if upper == "LW" {
            one.last_workday = true;
        } else if upper == "L" {
            one.before_last = 1;
        } else if let Some(n) = upper.strip_prefix("L-") {
            let back = Spec { low: 0, high: 30, ..Spec::of(Field::DayOfMonth, false) };
            one.before_last = 1 << back.value(Item { text: n, position: item.position + 2 })?;
        } else if let Some(n) =
            upper.strip_suffix('W').filter(|n| n.bytes().all(|b| b.is_ascii_digit()) && !n.is_empty())
        {
            one.nearest = 1 << spec.value(Item { text: n, ..item })?;
        } else if upper.starts_with(['L', 'W']) || upper.ends_with(['L', 'W']) {
            let reason = if is_one(&upper) { Reason::Special } else { Reason::SpecialOfSeveral };
            return Err(spec.error(item, reason));
        } else {
            one.days = to_mask(&spec.values(item)?);
        }
        Ok(one)
    };
    for one in list(&Spec::of(Field::DayOfMonth, quartz), text, read)? {
        days.days |= one.days;
        days.before_last |= one.before_last;
        days.nearest |= one.nearest;
        days.last_workday |= one.last_workday;
    }
    Ok(days)
}

fn week_day_field(quartz: bool, text: Item<'_>) -> Result<WeekDays, CronError> {
    // The numbers count from 1 = Sunday where a `?` stands, else 0 and 7 are both Sunday.
    let bit = |value: u32| if quartz { value - 1 } else { value % 7 };
    let read = |spec: &Spec, item: Item<'_>| {
        let mut one = WeekDays::default();
        if item.text.eq_ignore_ascii_case("L") {
            if !quartz {
                return Err(spec.error(item, Reason::LastWithoutQuestionMark));
            }
            one.days = 1 << 6;
        } else if let Some((day, n)) = item.text.split_once('#') {
            let slot = n.parse::<usize>().ok().filter(|_| n.len() == 1).and_then(|n| n.checked_sub(1));
            let Some(slot) = slot.and_then(|slot| one.nth.get_mut(slot)) else {
                return Err(spec.error(item, Reason::Nth));
            };
            if !is_one(day) {
                return Err(spec.error(item, Reason::SpecialOfSeveral));
            }
            *slot = 1 << bit(spec.value(Item { text: day, ..item })?);
        } else if let Some(day) = item.text.strip_suffix(['L', 'l']) {
            if !is_one(day) {
                return Err(spec.error(item, Reason::SpecialOfSeveral));
            }
            one.last = 1 << bit(spec.value(Item { text: day, ..item })?);
        } else {
            one.days = spec.values(item)?.into_iter().fold(0, |mask, value| mask | 1 << bit(value));
        }
        Ok(one)
    };
    let mut days = WeekDays::default();
    for one in list(&Spec::of(Field::DayOfWeek, quartz), text, read)? {
        days.days |= one.days;
        days.last |= one.last;
        for (all, mask) in days.nth.iter_mut().zip(one.nth) {
            *all |= mask;
        }
    }
    Ok(days)
}
