/// In place of a number: the slot is free.
const FREE: u32 = u32::MAX;

/// A hash table that only grows, from hashes to the numbers of things that are kept elsewhere.
///
/// A slot is the upper half of the hash and the number, side by side: a probe is one cache miss, growing asks nobody for
/// a hash again, and a number whose hash differs is hardly ever looked at. Numbers are below `u32::MAX`.
pub(crate) struct Table {
    slots: Vec<Slot>,
    len: usize,
}

#[derive(Clone, Copy)]
struct Slot {
    tag: u32,
    number: u32,
}

impl Table {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), len: 0 }
    }

    /// The numbers under this hash; what they stand for is still to be compared.
    pub(crate) fn candidates(&self, hash: u64) -> impl Iterator<Item = u32> {
        let tag = tag_of(hash);
        let (before, from) = self.slots.split_at_checked(self.home(tag)).unwrap_or_default();
        let run = from.iter().chain(before).take_while(|slot| slot.number != FREE);
        run.filter(move |slot| slot.tag == tag).map(|slot| slot.number)
    }

    /// The first of them, if there is any.
    pub(crate) fn first(&self, hash: u64) -> Option<u32> {
        let tag = tag_of(hash);
        let mut at = self.home(tag);
        loop {
            let slot = match self.slots.get(at) {
                Some(slot) => slot,
                // The run goes on at the beginning; there is none in an empty table.
                None if at > 0 => self.slots.first()?,
                None => return None,
            };
            if slot.number == FREE {
                return None;
            }
            if slot.tag == tag {
                return Some(slot.number);
            }
            at = if at >= self.slots.len() { 1 } else { at + 1 };
        }
    }

    pub(crate) fn insert(&mut self, hash: u64, number: u32) {
        // At most four fifths are taken, so that every run ends.
        if (self.len + 1) * 5 > self.slots.len() * 4 {
            let grown = vec![Slot { tag: 0, number: FREE }; (self.slots.len() * 7 / 5).max(16)];
            for slot in std::mem::replace(&mut self.slots, grown) {
                if slot.number != FREE {
                    self.place(slot);
                }
            }
        }
        self.place(Slot { tag: tag_of(hash), number });
        self.len += 1;
    }

    fn place(&mut self, slot: Slot) {
        let home = self.home(slot.tag);
        let (before, from) = self.slots.split_at_mut_checked(home).unwrap_or_default();
        if let Some(free) = from.iter_mut().chain(before).find(|slot| slot.number == FREE) {
            *free = slot;
        }
    }

    /// Where the tag's run begins: the tags are spread over the slots in their order.
    fn home(&self, tag: u32) -> usize {
        let at = (u64::from(tag) * self.slots.len() as u64) >> 32;
        usize::try_from(at).unwrap_or_default()
    }

    pub(crate) fn bytes_used(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }
}

fn tag_of(hash: u64) -> u32 {
    // The shift leaves 32 bits.
    u32::try_from(hash >> 32).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_number_is_found_under_its_hash(tags in prop::collection::vec(prop_oneof![0_u64..4, (1_u64 << 32) - 3..1 << 32, 0_u64..1 << 32], 0..200)) {
            let mut table = Table::new();
            for (number, tag) in (0_u32..).zip(&tags) {
                table.insert(tag << 32, number);
            }
            for tag in tags.iter().copied().chain([0, 7, u64::from(u32::MAX)]) {
                let mut found: Vec<u32> = table.candidates(tag << 32).collect();
                found.sort_unstable();
                prop_assert_eq!(table.first(tag << 32), table.candidates(tag << 32).next());
                let expected: Vec<u32> = (0_u32..).zip(&tags).filter(|(_, own)| **own == tag).map(|(at, _)| at).collect();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
