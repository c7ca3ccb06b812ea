use std::cmp::Ordering;

/// A version of NuGet: one to four numbers, a pre-release, and a build that does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NuGet {
    numbers: [u64; 4],
    /// Lower case; empty for a release.
    pre: Vec<Identifier>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Word(String),
}

impl NuGet {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.split_once('+').map_or(text, |(version, _)| version);
        let (core, pre) = match text.split_once('-') {
            Some((core, pre)) => (core, Some(pre)),
            None => (text, None),
        };
        let mut numbers = [0; 4];
        let mut places = numbers.iter_mut();
        for part in core.split('.') {
            *places.next()? = number(part)?;
        }
        let pre = pre.map_or(Some(Vec::new()), |pre| pre.split('.').map(identifier).collect())?;
        Some(Self { numbers, pre })
    }
}

fn number(digits: &str) -> Option<u64> {
    if digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse().ok() } else { None }
}

fn identifier(text: &str) -> Option<Identifier> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return None;
    }
    Some(number(text).map_or_else(|| Identifier::Word(text.to_ascii_lowercase()), Identifier::Number))
}

impl Ord for NuGet {
    fn cmp(&self, other: &Self) -> Ordering {
        // A release is later than its pre-releases.
        let pre = || self.pre.is_empty().cmp(&other.pre.is_empty()).then_with(|| self.pre.cmp(&other.pre));
        self.numbers.cmp(&other.numbers).then_with(pre)
    }
}

impl PartialOrd for NuGet {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
