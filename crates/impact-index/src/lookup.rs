//! Looking many names up at once.
//!
//! The tables are far larger than the caches, and each step from a name to its term waits for memory. Done for one name
//! after the other, these waits add up. Here every step is done for a block of names before the next step is: the
//! steps of different names do not depend on each other, and the processor waits for many of them at the same time.

use crate::dictionary::{Ask, Dictionary};
use crate::naming::encode_name;
use crate::terms::{Found, NONE, Terms};

/// So many names go through the steps together: enough to keep the memory busy, few enough to stay in the nearest cache.
const BLOCK_LEN: usize = 64;

#[derive(Default)]
struct Probe {
    hash: u64,
    /// Where the name in its stored form ends in the block's buffer.
    name_end: usize,
    term: u32,
    found: Option<Found>,
    /// Whether its texts are as long as those that are looked for.
    has_lens: bool,
}

impl Dictionary {
    /// The term of each name with its version, in the given order; [`NONE`] for those that are not there.
    pub(crate) fn find_terms<'a>(&self, asks: impl Iterator<Item = Ask<'a>>, mut take: impl FnMut(u32)) {
        let mut asks = asks.fuse().peekable();
        let mut block: Vec<(Ask<'a>, Probe)> = Vec::with_capacity(BLOCK_LEN);
        let mut names = Vec::new();
        let slots = self.terms.slots();
        while asks.peek().is_some() {
            block.clear();
            names.clear();
            block.extend(asks.by_ref().take(BLOCK_LEN).map(|ask| {
                let start = names.len();
                encode_name(&mut names, &ask.0);
                let hash = Terms::hash(self.names.hash(names.get(start..).unwrap_or_default()), ask.1);
                (ask, Probe { hash, name_end: names.len(), ..Probe::default() })
            }));
            for (_, probe) in &mut block {
                probe.term = slots.first(probe.hash).unwrap_or(NONE);
            }
            for (_, probe) in &mut block {
                probe.found = self.terms.found(probe.term);
            }
            let mut start = 0;
            for ((_, version), probe) in &mut block {
                let name_len = probe.name_end - start;
                start = probe.name_end;
                let has_lens = |found: Found| {
                    self.terms.version_len(found) == version.map_or(0, str::len)
                        && self.names.len_of(found.name) == name_len
                };
                probe.has_lens = probe.found.is_some_and(has_lens);
            }
            start = 0;
            for ((_, version), probe) in &block {
                let name = names.get(start..probe.name_end).unwrap_or_default();
                start = probe.name_end;
                let has_texts =
                    |found: Found| self.terms.has_version(found, *version) && self.names.get(found.name).is(name);
                let is_first = probe.has_lens && probe.found.is_some_and(has_texts);
                // Another term under the same half of a hash is so rare that it may take its time.
                let other = || self.find_term(probe.hash, name, *version).unwrap_or(NONE);
                take(if is_first || probe.term == NONE { probe.term } else { other() });
            }
        }
    }
}
