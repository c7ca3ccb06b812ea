//! Keys: parts in the order in which they sort.
//!
//! A text part ends with NUL, which no id has; numbers are big endian. So no key is the beginning of one of other parts.

use scheduler_model::Timestamp;

/// A key in the making.
#[derive(Debug, Clone, Default)]
pub(crate) struct Key(Vec<u8>);

impl Key {
    /// An id, with its end.
    pub(crate) fn id(mut self, text: &str) -> Self {
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
        self
    }

    /// A text that may hold any character: its length goes first, so it does not sort by content.
    pub(crate) fn any_text(mut self, text: &str) -> Self {
        self.0.extend_from_slice(&(text.len() as u64).to_be_bytes());
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    /// A number.
    pub(crate) fn number(mut self, number: u64) -> Self {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    /// A time, earlier ones first.
    pub(crate) fn time(self, time: Timestamp) -> Self {
        self.number(ordered(time))
    }

    /// A time, later ones first.
    pub(crate) fn time_desc(self, time: Timestamp) -> Self {
        self.number(!ordered(time))
    }

    /// The last part, without an end.
    pub(crate) fn last(mut self, text: &str) -> Vec<u8> {
        self.0.extend_from_slice(text.as_bytes());
        self.0
    }

    /// The key as it is: a prefix, or one that ends with a number or an ended id.
    pub(crate) fn done(self) -> Vec<u8> {
        self.0
    }
}

/// A time as a number of the same order.
fn ordered(time: Timestamp) -> u64 {
    time.millis().cast_unsigned() ^ (1 << 63)
}

/// The number at the end of a key or in a value; 0 when there is none.
pub(crate) fn trailing_number(bytes: &[u8]) -> u64 {
    bytes.last_chunk::<8>().map_or(0, |last| u64::from_be_bytes(*last))
}

/// The text after the first `prefix_len` bytes of a key.
pub(crate) fn text_after(key: &[u8], prefix_len: usize) -> String {
    String::from_utf8_lossy(key.get(prefix_len..).unwrap_or_default()).into_owned()
}

/// Bytes as the text of a list position.
pub(crate) fn to_cursor(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a list position; `None` when it is none.
pub(crate) fn from_cursor(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(
        digits
            .chunks(2)
            .map(|pair| match pair {
                [high, low] => high << 4 | low,
                _ => 0,
            })
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn times_sort_as_they_should(a in any::<i32>(), b in any::<i32>()) {
            let (a, b) = (Timestamp::from_millis(a.into()), Timestamp::from_millis(b.into()));
            let key = |t| Key::default().time(t).done();
            let desc = |t| Key::default().time_desc(t).done();
            prop_assert_eq!(key(a).cmp(&key(b)), a.cmp(&b));
            prop_assert_eq!(desc(a).cmp(&desc(b)), b.cmp(&a));
        }

        #[test]
        fn cursors_round_trip(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(from_cursor(&to_cursor(&bytes)), Some(bytes));
        }
    }

    #[test]
    fn other_texts_are_no_cursors() {
        for text in ["f", "zz", "é", "0g"] {
            assert_eq!(from_cursor(text), None, "{text}");
        }
    }

    #[test]
    fn parts_do_not_run_together() {
        assert_ne!(Key::default().id("a").last("bc"), Key::default().id("ab").last("c"));
        assert_ne!(Key::default().any_text("a\0").last("b"), Key::default().any_text("a").last("\0b"));
    }
}
