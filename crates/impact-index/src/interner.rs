use crate::IndexError;
use crate::column::Column;
use crate::table::Table;
use crate::texts::{Text, Texts};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::AtomicU32;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Byte strings, each kept once and numbered from 0 in the order in which they came.
///
/// The hash only finds candidates; the bytes are compared (IDX-4). Its seed differs between processes, so that nobody
/// can prepare names that fall into one bucket.
pub(crate) struct Interner {
    texts: Texts,
    /// Where each string is in `texts`.
    places: Column<AtomicU32>,
    table: Table,
    seed: u64,
}

impl Interner {
    /// `what` names the strings in errors.
    pub(crate) fn new(what: &'static str, first_len: u32) -> Self {
        let seed = RandomState::new().hash_one(what);
        Self { texts: Texts::new(what, first_len), places: Column::new(what, first_len), table: Table::new(), seed }
    }

    pub(crate) fn len(&self) -> u32 {
        self.places.len()
    }

    pub(crate) fn get(&self, id: u32) -> Text<'_> {
        self.places.value(id).map_or(Text::EMPTY, |place| self.texts.at(place))
    }

    /// The length of a string in bytes.
    pub(crate) fn len_of(&self, id: u32) -> usize {
        self.places.value(id).map_or(0, |place| self.texts.len_at(place))
    }

    pub(crate) fn hash(&self, text: &[u8]) -> u64 {
        xxh3_64_with_seed(text, self.seed)
    }

    pub(crate) fn find(&self, text: &[u8]) -> Option<u32> {
        self.find_hashed(self.hash(text), text)
    }

    /// The same with its hash.
    pub(crate) fn find_hashed(&self, hash: u64, text: &[u8]) -> Option<u32> {
        self.table.slots().candidates(hash).find(|&id| self.get(id).is(text))
    }

    /// The number of the string, and whether it is new. For the writer alone, as everything that changes.
    pub(crate) fn intern(&self, text: &[u8]) -> Result<(u32, bool), IndexError> {
        let hash = self.hash(text);
        match self.find_hashed(hash, text) {
            Some(id) => Ok((id, false)),
            None => self.push(hash, text).map(|id| (id, true)),
        }
    }

    /// Adds a string that is not there yet.
    pub(crate) fn push(&self, hash: u64, text: &[u8]) -> Result<u32, IndexError> {
        let id = self.places.push(self.texts.push(text)?)?;
        self.table.insert(hash, id);
        Ok(id)
    }

    pub(crate) fn bytes_used(&self) -> usize {
        self.texts.bytes_used() + self.places.bytes_used() + self.table.bytes_used()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_keeps_its_number() {
        let strings = Interner::new("strings", 4);
        let texts: Vec<String> = (0..1000).map(|i| "x".repeat(i % 7) + &i.to_string()).collect();
        for (at, text) in texts.iter().enumerate() {
            assert_eq!(strings.intern(text.as_bytes()).unwrap(), (u32::try_from(at).unwrap(), true));
        }
        for (at, text) in texts.iter().enumerate() {
            let id = u32::try_from(at).unwrap();
            assert_eq!(strings.intern(text.as_bytes()).unwrap(), (id, false));
            assert_eq!(strings.get(id).to_vec(), text.as_bytes());
        }
        assert_eq!(strings.find(b"absent"), None);
        assert_eq!(strings.intern(b"").unwrap(), (1000, true));
        assert_eq!(strings.find(b""), Some(1000));
        assert_eq!(strings.len(), 1001);
    }
}
