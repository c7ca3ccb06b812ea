use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Appends a number in seven-bit groups, the lowest first.
pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(low_byte(number) | 0x80);
        number >>= 7;
    }
    out.push(low_byte(number));
}

fn low_byte(number: u64) -> u8 {
    let [low, ..] = number.to_le_bytes();
    low
}

/// Appends bytes with their length before them.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Closes a value with a checksum over it and the key under which it is stored, so that a value in the wrong place is
/// noticed too.
pub(crate) fn seal(key: &[u8], value: &mut Vec<u8>) {
    value.extend_from_slice(&checksum(key, value).to_le_bytes());
}

/// The value without its checksum; `None` when the checksum is not right.
pub(crate) fn unseal<'a>(key: &[u8], value: &'a [u8]) -> Option<&'a [u8]> {
    let (value, sum) = value.split_last_chunk()?;
    (u64::from_le_bytes(*sum) == checksum(key, value)).then_some(value)
}

fn checksum(key: &[u8], value: &[u8]) -> u64 {
    xxh3_64_with_seed(value, xxh3_64_with_seed(key, 0))
}

/// Reads what the functions above wrote; every read is `None` beyond the end.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let group = u64::from(byte & 0x7f);
            if shift == 63 && group > 1 {
                return None;
            }
            number |= group << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    pub(crate) fn number32(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        self.take(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_written_is_read(numbers in prop::collection::vec(any::<u64>(), 0..20), bytes in prop::collection::vec(any::<u8>(), 0..50)) {
            let mut out = Vec::new();
            numbers.iter().for_each(|&number| put_number(&mut out, number));
            put_bytes(&mut out, &bytes);
            seal(b"key", &mut out);
            prop_assert!(unseal(b"kex", &out).is_none());
            let mut reader = Reader(unseal(b"key", &out).unwrap());
            for number in numbers {
                prop_assert_eq!(reader.number(), Some(number));
            }
            prop_assert_eq!(reader.bytes(), Some(bytes.as_slice()));
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..50)) {
            let _ = unseal(b"", &bytes);
            let mut reader = Reader(&bytes);
            while reader.number().is_some() {}
            let _ = Reader(&bytes).bytes();
        }
    }
}
