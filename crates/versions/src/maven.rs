//! Versions of Maven, as its `ComparableVersion` orders them.
//!
//! Numbers and words, split at dots, at hyphens and where digits meet letters; what comes after a hyphen or such a place
//! is a list of its own. The one crate for it is young, holds no parsed version, and panics on some texts.

use std::cmp::Ordering;

/// The words that come before the release, the release itself, and what comes after it; any other word is later still.
const QUALIFIERS: [&str; 7] = ["alpha", "beta", "milestone", "rc", "snapshot", "", "sp"];
const RELEASE: Word<'static> = Word { known: 5, text: "" };

/// A version of Maven.
#[derive(Debug, Clone)]
pub(crate) struct Maven(Vec<Item>);

#[derive(Debug, Clone)]
enum Item {
    /// Digits without zeros before them; of zero, none.
    Number(String),
    Word(String),
    List(Vec<Item>),
}

/// A word as it is compared: by its place among the known ones, then, of the others, by its text.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Word<'a> {
    known: usize,
    text: &'a str,
}

impl Maven {
    /// Reads a version. Maven compares any text; here it has to begin with a number.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if !text.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let text = text.to_ascii_lowercase();
        let mut lists = vec![Vec::new()];
        let mut rest = text.as_str();
        loop {
            let is_digit = rest.starts_with(|c: char| c.is_ascii_digit());
            let end =
                rest.find(|c: char| matches!(c, '.' | '-') || c.is_ascii_digit() != is_digit).unwrap_or(rest.len());
            let (part, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
            let separator = after.chars().next();
            let meets_digits = separator.is_some_and(|c| c.is_ascii_digit());
            // `1.beta2` is `1-beta2`.
            if meets_digits && lists.last().is_some_and(|list| !list.is_empty()) {
                lists.push(Vec::new());
            }
            if let Some(list) = lists.last_mut() {
                match (part, separator) {
                    // Nothing stands before the separator: that is a zero; nothing at the end is nothing.
                    ("", Some(_)) => list.push(Item::Number(String::new())),
                    ("", None) => {}
                    (digits, _) if is_digit => list.push(Item::Number(digits.trim_start_matches('0').to_owned())),
                    (word, _) => list.push(Item::Word(unabbreviated(word, meets_digits))),
                }
            }
            match separator {
                None => break,
                Some('.') => rest = after.get(1..).unwrap_or_default(),
                Some(other) => {
                    rest = if other == '-' { after.get(1..).unwrap_or_default() } else { after };
                    lists.push(Vec::new());
                }
            }
        }
        // Each list is the last member of the one before it.
        let mut inner: Option<Vec<Item>> = None;
        for mut list in lists.into_iter().rev() {
            list.extend(inner.map(Item::List));
            trim(&mut list);
            inner = Some(list);
        }
        inner.map(Self)
    }
}

/// Takes away what means nothing at the end of a list, and before the list at its end.
fn trim(items: &mut Vec<Item>) {
    for at in (0..items.len()).rev() {
        match items.get(at) {
            Some(item) if item.is_nothing() => drop(items.remove(at)),
            Some(Item::List(_)) => {}
            _ => break,
        }
    }
}

fn unabbreviated(word: &str, before_digit: bool) -> String {
    match word {
        "a" if before_digit => "alpha",
        "b" if before_digit => "beta",
        "m" if before_digit => "milestone",
        "ga" | "final" | "release" => "",
        "cr" => "rc",
        other => other,
    }
    .to_owned()
}

fn word(text: &str) -> Word<'_> {
    match QUALIFIERS.iter().position(|known| *known == text) {
        Some(known) => Word { known, text: "" },
        None => Word { known: QUALIFIERS.len(), text },
    }
}

impl Item {
    fn is_nothing(&self) -> bool {
        match self {
            Self::Number(digits) => digits.is_empty(),
            Self::Word(text) => text.is_empty(),
            Self::List(items) => items.is_empty(),
        }
    }

    /// How an item stands to none at all.
    fn order_to_nothing(&self) -> Ordering {
        match self {
            Self::Number(digits) if digits.is_empty() => Ordering::Equal,
            Self::Number(_) => Ordering::Greater,
            Self::Word(text) => word(text).cmp(&RELEASE),
            Self::List(items) => {
                items.iter().map(Self::order_to_nothing).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
            }
        }
    }

    fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(own), Self::Number(other)) => own.len().cmp(&other.len()).then_with(|| own.cmp(other)),
            (Self::Word(own), Self::Word(other)) => word(own).cmp(&word(other)),
            (Self::List(own), Self::List(other)) => order_of(own, other),
            (Self::Number(_), _) | (Self::List(_), Self::Word(_)) => Ordering::Greater,
            (_, Self::Number(_)) | (Self::Word(_), Self::List(_)) => Ordering::Less,
        }
    }
}

fn order_of(own: &[Item], other: &[Item]) -> Ordering {
    let orders = (0..own.len().max(other.len())).map(|at| match (own.get(at), other.get(at)) {
        (Some(own), Some(other)) => own.order(other),
        (Some(own), None) => own.order_to_nothing(),
        (None, Some(other)) => other.order_to_nothing().reverse(),
        (None, None) => Ordering::Equal,
    });
    orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

impl Ord for Maven {
    fn cmp(&self, other: &Self) -> Ordering {
        order_of(&self.0, &other.0)
    }
}

impl PartialOrd for Maven {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Maven {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Maven {}
