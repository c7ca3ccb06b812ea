use std::cmp::Ordering;

/// A version of RubyGems: `1.2.0.rc1`. Words come before numbers, zeros at the end of either mean nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gem(Vec<Segment>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Segment {
    Word(String),
    Number(u64),
}

impl Gem {
    /// Reads a version. One with a hyphen is not read: the platform of a built gem is written so, and it is no pre-release.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split('.').collect();
        let is_good = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric());
        let begins_well = parts.first().is_some_and(|first| first.bytes().all(|b| b.is_ascii_digit()));
        if !begins_well || !parts.iter().all(is_good) {
            return None;
        }
        let mut segments = Vec::new();
        for mut part in parts {
            while !part.is_empty() {
                let is_digit = part.starts_with(|c: char| c.is_ascii_digit());
                let end = part.find(|c: char| c.is_ascii_digit() != is_digit).unwrap_or(part.len());
                let (segment, rest) = part.split_at_checked(end)?;
                segments.push(match is_digit {
                    true => Segment::Number(segment.parse().ok()?),
                    false => Segment::Word(segment.to_owned()),
                });
                part = rest;
            }
        }
        let words_from = segments.iter().position(|s| matches!(s, Segment::Word(_))).unwrap_or(segments.len());
        let mut words = segments.split_off(words_from);
        for half in [&mut segments, &mut words] {
            while half.last() == Some(&Segment::Number(0)) {
                half.pop();
            }
        }
        segments.append(&mut words);
        Some(Self(segments))
    }
}

impl Ord for Gem {
    fn cmp(&self, other: &Self) -> Ordering {
        const ZERO: Segment = Segment::Number(0);
        let len = self.0.len().max(other.0.len());
        let at = |of: &'_ Self, at: usize| of.0.get(at).cloned().unwrap_or(ZERO);
        (0..len).map(|place| at(self, place).cmp(&at(other, place))).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
    }
}

impl PartialOrd for Gem {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
