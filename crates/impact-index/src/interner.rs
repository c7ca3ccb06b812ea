use crate::IndexError;
use crate::table::Table;
use std::hash::{BuildHasher, RandomState};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Byte strings, each kept once and numbered from 0 in the order in which they came.
///
/// The hash only finds candidates; the bytes are compared (IDX-4). Its seed differs between processes, so that nobody
/// can prepare names that fall into one bucket.
pub(crate) struct Interner {
    what: &'static str,
    bytes: Vec<u8>,
    /// Where each string ends.
    ends: Vec<u32>,
    table: Table,
    seed: u64,
}

impl Interner {
    /// `what` names the strings in errors.
    pub(crate) fn new(what: &'static str) -> Self {
        let seed = RandomState::new().hash_one(what);
        Self { what, bytes: Vec::new(), ends: Vec::new(), table: Table::new(), seed }
    }

    pub(crate) fn len(&self) -> u32 {
        // Every push checked that the count fits.
        u32::try_from(self.ends.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn get(&self, id: u32) -> &[u8] {
        string_of(&self.bytes, &self.ends, id)
    }

    pub(crate) fn hash(&self, text: &[u8]) -> u64 {
        xxh3_64_with_seed(text, self.seed)
    }

    pub(crate) fn find(&self, text: &[u8]) -> Option<u32> {
        self.find_hashed(self.hash(text), text)
    }

    fn find_hashed(&self, hash: u64, text: &[u8]) -> Option<u32> {
        self.table.candidates(hash).find(|&id| self.get(id) == text)
    }

    /// The number of the string, and whether it is new.
    pub(crate) fn intern(&mut self, text: &[u8]) -> Result<(u32, bool), IndexError> {
        let hash = self.hash(text);
        if let Some(id) = self.find_hashed(hash, text) {
            return Ok((id, false));
        }
        let full = || IndexError::Full(self.what);
        let id = u32::try_from(self.ends.len()).ok().filter(|&id| id != u32::MAX).ok_or_else(full)?;
        let end = u32::try_from(self.bytes.len() + text.len()).map_err(|_| full())?;
        self.bytes.extend_from_slice(text);
        self.ends.push(end);
        self.table.insert(hash, id);
        Ok((id, true))
    }

    pub(crate) fn bytes_used(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * 4 + self.table.bytes_used()
    }
}

fn string_of<'a>(bytes: &'a [u8], ends: &[u32], id: u32) -> &'a [u8] {
    let at = id as usize;
    let start = at.checked_sub(1).and_then(|before| ends.get(before)).map_or(0, |&end| end as usize);
    let end = ends.get(at).map_or(start, |&end| end as usize);
    bytes.get(start..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_keeps_its_number() {
        let mut strings = Interner::new("strings");
        let texts: Vec<String> = (0..1000).map(|i| "x".repeat(i % 7) + &i.to_string()).collect();
        for (at, text) in texts.iter().enumerate() {
            assert_eq!(strings.intern(text.as_bytes()).unwrap(), (u32::try_from(at).unwrap(), true));
        }
        for (at, text) in texts.iter().enumerate() {
            let id = u32::try_from(at).unwrap();
            assert_eq!(strings.intern(text.as_bytes()).unwrap(), (id, false));
            assert_eq!(strings.get(id), text.as_bytes());
        }
        assert_eq!(strings.find(b"absent"), None);
        assert_eq!(strings.intern(b"").unwrap(), (1000, true));
        assert_eq!(strings.find(b""), Some(1000));
    }
}
