use std::cmp::Ordering;

/// A version of Alpine: `1.2.3b_rc1_p2~0abcdef-r4`. No well-kept crate compares them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Apk {
    numbers: Vec<Number>,
    letter: Option<char>,
    suffixes: Vec<(Suffix, Option<u64>)>,
    revision: Option<u64>,
}

/// A number, and whether it is written with a zero before it: then some versions of apk take it for a fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Number {
    value: u64,
    is_padded: bool,
}

/// What may follow the numbers, in order; `End` is where nothing follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Suffix {
    Alpha,
    Beta,
    Pre,
    Rc,
    End,
    Cvs,
    Svn,
    Git,
    Hg,
    P,
}

impl Apk {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (text, revision) = match text.rsplit_once("-r") {
            Some((text, revision)) => (text, Some(number(revision)?)),
            None => (text, None),
        };
        // A commit after `~` says where it comes from, not how old it is.
        let mut parts = text.split('~').next()?.split('_');
        let numbers = parts.next()?;
        let letter = numbers.chars().last().filter(char::is_ascii_lowercase);
        let numbers = numbers.strip_suffix(|c: char| Some(c) == letter).unwrap_or(numbers);
        let numbers = numbers.split('.').map(|digits| {
            Some(Number { value: number(digits)?, is_padded: digits.len() > 1 && digits.starts_with('0') })
        });
        let numbers = numbers.collect::<Option<_>>()?;
        let mut suffixes = parts.map(suffix).collect::<Option<Vec<_>>>()?;
        suffixes.push((Suffix::End, None));
        Some(Self { numbers, letter, suffixes, revision })
    }

    /// The order; `None` when a number that is written with a zero before it decides.
    pub(crate) fn order(&self, other: &Self) -> Option<Ordering> {
        let first = self.numbers.iter().zip(&other.numbers).find(|(own, other)| own != other);
        match first {
            Some((own, other)) if own.is_padded || other.is_padded => None,
            _ => Some(self.cmp(other)),
        }
    }

    /// See [`crate::Version::sure_order`].
    pub(crate) fn sure_order(&self, bound: &Self) -> Option<Ordering> {
        if self.revision.is_some() == bound.revision.is_some() {
            return self.order(bound);
        }
        let without = |of: &Self| Self { revision: None, ..of.clone() };
        without(self).order(&without(bound)).filter(|order| order.is_ne())
    }
}

/// Digits only: a sign, which a number may have elsewhere, is none of a version.
fn number(digits: &str) -> Option<u64> {
    if digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse().ok() } else { None }
}

fn suffix(text: &str) -> Option<(Suffix, Option<u64>)> {
    let digits = text.find(|c: char| c.is_ascii_digit()).unwrap_or(text.len());
    let (word, digits) = text.split_at_checked(digits)?;
    let word = match word {
        "alpha" => Suffix::Alpha,
        "beta" => Suffix::Beta,
        "pre" => Suffix::Pre,
        "rc" => Suffix::Rc,
        "cvs" => Suffix::Cvs,
        "svn" => Suffix::Svn,
        "git" => Suffix::Git,
        "hg" => Suffix::Hg,
        "p" => Suffix::P,
        _ => return None,
    };
    Some((word, if digits.is_empty() { None } else { Some(number(digits)?) }))
}
