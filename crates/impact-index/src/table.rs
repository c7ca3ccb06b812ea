use arc_swap::{ArcSwap, Guard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A hash table from hashes to the numbers of things that are kept elsewhere. One writer, any readers.
///
/// A slot is the upper half of the hash and the number, side by side: a probe is one cache miss, growing asks nobody for
/// a hash again, and a number whose hash differs is hardly ever looked at. When it grows, readers go on with the slots
/// that they have: what comes later is not in what they look for.
pub(crate) struct Table {
    slots: ArcSwap<Slots>,
    len: AtomicUsize,
}

/// Each is 0 while it is free, else the upper half of the hash and, below it, the number and one; numbers are below
/// `u32::MAX`.
pub(crate) struct Slots(Box<[AtomicU64]>);

impl Table {
    pub(crate) fn new() -> Self {
        Self { slots: ArcSwap::from_pointee(Slots::zeroed(0)), len: AtomicUsize::new(0) }
    }

    /// The slots as they are now.
    pub(crate) fn slots(&self) -> Guard<Arc<Slots>> {
        self.slots.load()
    }

    /// Adds a number. For the writer alone, as everything that changes.
    pub(crate) fn insert(&self, hash: u64, number: u32) {
        let len = self.len.load(Ordering::Relaxed) + 1;
        let slots = self.slots();
        // At most four fifths are taken, so that every run ends.
        if len * 5 > slots.0.len() * 4 {
            let grown = Slots::zeroed((slots.0.len() * 7 / 5).max(16));
            slots
                .0
                .iter()
                .map(|slot| slot.load(Ordering::Relaxed))
                .filter(|&slot| slot != 0)
                .for_each(|slot| grown.place(slot));
            grown.place(slot_of(hash, number));
            self.slots.store(Arc::new(grown));
        } else {
            slots.place(slot_of(hash, number));
        }
        self.len.store(len, Ordering::Relaxed);
    }

    /// Puts a number in the place of another one with the same hash.
    pub(crate) fn replace(&self, hash: u64, number: u32, by: u32) {
        let slots = self.slots();
        let (before, from) = slots.run(tag_of(hash));
        let old = slot_of(hash, number);
        if let Some(slot) = from.iter().chain(before).find(|slot| slot.load(Ordering::Relaxed) == old) {
            slot.store(slot_of(hash, by), Ordering::Release);
        }
    }

    pub(crate) fn bytes_used(&self) -> usize {
        self.slots().0.len() * size_of::<AtomicU64>()
    }
}

impl Slots {
    fn zeroed(len: usize) -> Self {
        Self(bytemuck::allocation::zeroed_slice_box(len))
    }

    /// The numbers under this hash; what they stand for is still to be compared.
    pub(crate) fn candidates(&self, hash: u64) -> impl Iterator<Item = u32> {
        let tag = tag_of(hash);
        let (before, from) = self.run(tag);
        let slots = from.iter().chain(before).map(|slot| slot.load(Ordering::Acquire));
        slots.take_while(|&slot| slot != 0).filter(move |&slot| tag_of(slot) == tag).map(number_of)
    }

    /// The first of them, if there is any.
    pub(crate) fn first(&self, hash: u64) -> Option<u32> {
        let tag = tag_of(hash);
        let mut at = self.home(tag);
        loop {
            let slot = match self.0.get(at) {
                Some(slot) => slot.load(Ordering::Acquire),
                // The run goes on at the beginning; there is none in an empty table.
                None if at > 0 => self.0.first()?.load(Ordering::Acquire),
                None => return None,
            };
            if slot == 0 {
                return None;
            }
            if tag_of(slot) == tag {
                return Some(number_of(slot));
            }
            at = if at >= self.0.len() { 1 } else { at + 1 };
        }
    }

    fn place(&self, slot: u64) {
        let (before, from) = self.run(tag_of(slot));
        if let Some(free) = from.iter().chain(before).find(|slot| slot.load(Ordering::Relaxed) == 0) {
            free.store(slot, Ordering::Release);
        }
    }

    /// The slots from the tag's home on, and those before it, where the run goes on after the end.
    fn run(&self, tag: u32) -> (&[AtomicU64], &[AtomicU64]) {
        self.0.split_at_checked(self.home(tag)).unwrap_or_default()
    }

    /// Where the tag's run begins: the tags are spread over the slots in their order.
    fn home(&self, tag: u32) -> usize {
        let at = (u64::from(tag) * self.0.len() as u64) >> 32;
        usize::try_from(at).unwrap_or_default()
    }
}

fn slot_of(hash: u64, number: u32) -> u64 {
    hash >> 32 << 32 | (u64::from(number) + 1)
}

fn tag_of(hash: u64) -> u32 {
    // The shift leaves 32 bits.
    u32::try_from(hash >> 32).unwrap_or_default()
}

fn number_of(slot: u64) -> u32 {
    // A taken slot has at least one in its lower half.
    u32::try_from((slot & u64::from(u32::MAX)).wrapping_sub(1)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_number_is_found_under_its_hash(
            tags in prop::collection::vec(prop_oneof![0_u64..4, (1_u64 << 32) - 3..1 << 32, 0_u64..1 << 32], 0..200), replaced in any::<prop::sample::Index>(),
        ) {
            let table = Table::new();
            for (number, tag) in (0_u32..).zip(&tags) {
                table.insert(tag << 32, number);
            }
            let before = table.slots();
            let mut numbers: Vec<u32> = (0..).take(tags.len()).collect();
            if !tags.is_empty() {
                let at = replaced.index(tags.len());
                table.replace(tags[at] << 32, numbers[at], 1_000_000);
                numbers[at] = 1_000_000;
            }
            for tag in tags.iter().copied().chain([0, 7, u64::from(u32::MAX)]) {
                let slots = table.slots();
                let mut found: Vec<u32> = slots.candidates(tag << 32).collect();
                found.sort_unstable();
                prop_assert_eq!(slots.first(tag << 32), slots.candidates(tag << 32).next());
                let mut expected: Vec<u32> = numbers.iter().zip(&tags).filter(|(_, own)| **own == tag).map(|(number, _)| *number).collect();
                expected.sort_unstable();
                prop_assert_eq!(found, expected);
                prop_assert_eq!(before.candidates(tag << 32).count(), slots.candidates(tag << 32).count());
            }
        }
    }
}
