use crate::IndexError;
use crate::pieces::Pieces;
use std::sync::atomic::{AtomicU32, Ordering};

/// Byte strings, one after the other, each found by its place. One writer, any readers.
///
/// A string is a word with its length, then its bytes, four to a word; it lies in one piece.
pub(crate) struct Texts {
    words: Pieces<AtomicU32>,
    end: AtomicU32,
}

/// A string where it is kept: its length, then its words.
#[derive(Clone, Copy)]
pub(crate) struct Text<'a>(&'a [AtomicU32]);

impl Texts {
    /// `what` names the strings in errors.
    pub(crate) fn new(what: &'static str, first_len: u32) -> Self {
        Self { words: Pieces::new(what, first_len), end: AtomicU32::new(0) }
    }

    /// Keeps a string; gives its place. For the writer alone.
    pub(crate) fn push(&self, text: &[u8]) -> Result<u32, IndexError> {
        let full = || self.words.full();
        let words = text.len().div_ceil(4) + 1;
        let place = self.words.fit(self.end.load(Ordering::Relaxed), words)?;
        let end = u64::from(place) + words as u64;
        let end = u32::try_from(end).map_err(|_| full())?;
        self.words.make(place)?;
        let len = u32::try_from(text.len()).map_err(|_| full())?;
        let content = std::iter::once(len).chain(words_of(text));
        for (word, content) in self.words.slice(place, words).iter().zip(content) {
            word.store(content, Ordering::Relaxed);
        }
        self.end.store(end, Ordering::Relaxed);
        Ok(place)
    }

    /// The string at a place.
    pub(crate) fn at(&self, place: u32) -> Text<'_> {
        Text(self.words.slice(place, self.len_at(place).div_ceil(4) + 1))
    }

    /// The length of the string at a place, in bytes: what is read of it first.
    pub(crate) fn len_at(&self, place: u32) -> usize {
        // Whoever has the place has come by it after the string was written.
        self.words.get(place).map_or(0, |len| len.load(Ordering::Relaxed)) as usize
    }

    pub(crate) fn bytes_used(&self) -> usize {
        self.end.load(Ordering::Relaxed) as usize * 4
    }
}

/// The text by four bytes, the last ones followed by zeros.
fn words_of(text: &[u8]) -> impl Iterator<Item = u32> {
    let (whole, rest) = text.as_chunks::<4>();
    let rest = Some(rest).filter(|rest| !rest.is_empty()).map(|rest| {
        let mut word = [0; 4];
        word.iter_mut().zip(rest).for_each(|(place, byte)| *place = *byte);
        word
    });
    whole.iter().copied().chain(rest).map(u32::from_le_bytes)
}

impl Text<'_> {
    pub(crate) const EMPTY: Self = Self(&[]);

    fn len(&self) -> usize {
        self.0.first().map_or(0, |len| len.load(Ordering::Relaxed)) as usize
    }

    fn words(&self) -> impl Iterator<Item = u32> {
        self.0.iter().skip(1).map(|word| word.load(Ordering::Relaxed))
    }

    pub(crate) fn is(&self, text: &[u8]) -> bool {
        let (whole, rest) = text.as_chunks::<4>();
        let (own, last) = self.0.get(1..).unwrap_or_default().split_at_checked(whole.len()).unwrap_or_default();
        self.len() == text.len()
            && own.iter().zip(whole).all(|(own, bytes)| own.load(Ordering::Relaxed) == u32::from_le_bytes(*bytes))
            && last.iter().map(|own| own.load(Ordering::Relaxed)).eq(words_of(rest))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn append_to(&self, out: &mut Vec<u8>) {
        let end = out.len() + self.len();
        out.extend(self.words().flat_map(u32::to_le_bytes));
        out.truncate(end);
    }

    pub(crate) fn to_vec(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.0.len() * 4);
        self.append_to(&mut bytes);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_string_stays_at_its_place(
            strings in prop::collection::vec(prop::collection::vec(prop_oneof![Just(0_u8), any::<u8>()], 0..90), 0..60), first_len in 1_u32..40,
        ) {
            let texts = Texts::new("strings", first_len);
            let places: Vec<u32> = strings.iter().map(|string| texts.push(string).unwrap()).collect();
            for (string, place) in strings.iter().zip(places) {
                let text = texts.at(place);
                prop_assert_eq!(&text.to_vec(), string);
                prop_assert_eq!(text.is_empty(), string.is_empty());
                prop_assert_eq!(texts.len_at(place), string.len());
                prop_assert!(text.is(string));
                for other in [[string.as_slice(), b"\0"].concat(), [b"x", string.as_slice()].concat()] {
                    prop_assert!(!text.is(&other));
                }
                if let Some((last, rest)) = string.split_last() {
                    prop_assert!(!text.is(rest) && !text.is(&[rest, &[last ^ 1]].concat()));
                }
            }
        }
    }
}
