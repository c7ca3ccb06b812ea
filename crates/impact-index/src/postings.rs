use crate::arena::{Arena, block_len, class_for};
use crate::{IndexError, Thresholds};

/// The bit of a posting that says that the image uses the component (IDX-1).
pub(crate) const USED: u32 = 1 << 31;
/// How many ordinals there can be.
pub(crate) const ORDINALS_MAX: u32 = USED;
/// In [`Slot::len`]: the set is kept as bit sets.
const DENSE: u32 = u32::MAX;

/// Sets of postings, numbered from 0. A posting is an image ordinal with the [`USED`] bit; they come in ascending order
/// of ordinals. One is kept in place, more in a list in the arena, and very many as bit sets.
pub(crate) struct Postings {
    slots: Vec<Slot>,
    arena: Arena,
    dense: Vec<Dense>,
    dense_free: Vec<u32>,
    in_place: bool,
    dense_min: u32,
    dense_one_in: u32,
    total: u64,
}

/// Where a set is and how it is kept; as of now, for a later append may move it. Eight bytes, since there is one for each
/// package, and most packages are in few images.
#[derive(Clone, Copy)]
struct Slot {
    /// How many postings, or [`DENSE`].
    len: u32,
    /// The posting itself, the block in the arena (its size follows from the length), or the number of the bit sets.
    at: u32,
}

#[derive(Default)]
pub(crate) struct Dense {
    contains: Vec<u64>,
    /// `None` while all of them are used.
    used: Option<Vec<u64>>,
    len: u32,
}

/// One set, for reading.
#[derive(Clone, Copy)]
pub(crate) enum View<'a> {
    List(&'a [u32]),
    Dense(&'a Dense),
}

impl Postings {
    pub(crate) fn new(thresholds: &Thresholds) -> Self {
        Self {
            slots: Vec::new(),
            arena: Arena::new(),
            dense: Vec::new(),
            dense_free: Vec::new(),
            in_place: thresholds.one_in_place,
            dense_min: thresholds.dense_len_min.max(1),
            dense_one_in: thresholds.dense_one_in.max(1),
            total: 0,
        }
    }

    /// A further set, empty.
    pub(crate) fn push_set(&mut self) {
        self.slots.push(Slot { len: 0, at: 0 });
    }

    /// How many sets there are.
    pub(crate) fn sets(&self) -> u32 {
        // A set belongs to an interned string, of which there are no more.
        u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    /// How many postings all sets have.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn view(&self, set: u32) -> View<'_> {
        self.slots.get(set as usize).map_or(View::List(&[]), |slot| self.view_of(slot))
    }

    fn view_of<'a>(&'a self, slot: &'a Slot) -> View<'a> {
        match slot.len {
            DENSE => self.dense.get(slot.at as usize).map_or(View::List(&[]), View::Dense),
            1 if self.in_place => View::List(std::slice::from_ref(&slot.at)),
            len => View::List(self.arena.block(slot.at, len)),
        }
    }

    /// Takes the sets' images out of `left`, a bit set, counting use only if asked; stops when none is left.
    ///
    /// The largest sets come first, to the power of two: most others then add nothing. Each set's slot is read once, in a
    /// pass of its own, so that the waits for memory overlap.
    pub(crate) fn clear_all_from(&self, sets: &[u32], left: &mut [u64], usage_only: bool) {
        let slots: Vec<(u8, Slot)> = sets
            .iter()
            .filter_map(|&set| self.slots.get(set as usize))
            .map(|&slot| (self.size_class(slot), slot))
            .collect();
        let mut work = 0;
        for slot in by_class(&slots) {
            work += self.view_of(&slot).clear_from(left, usage_only);
            // To look costs as much as the work since the last look, no more.
            if work >= left.len() {
                work = 0;
                if left.iter().all(|&word| word == 0) {
                    return;
                }
            }
        }
    }

    /// 0 for the largest sets, 32 for the empty one.
    fn size_class(&self, slot: Slot) -> u8 {
        let dense = |at: u32| self.dense.get(at as usize).map_or(0, |dense| dense.len);
        let len = if slot.len == DENSE { dense(slot.at) } else { slot.len };
        u8::try_from(len.leading_zeros()).unwrap_or_default()
    }

    /// Adds a posting. Its ordinal is higher than every one in the set (IDX-3).
    pub(crate) fn append(&mut self, set: u32, ordinal: u32, used: bool) -> Result<(), IndexError> {
        let posting = if used { ordinal | USED } else { ordinal };
        let Some(slot) = self.slots.get(set as usize).copied() else { return Ok(()) };
        let slot = match slot.len {
            DENSE => {
                if let Some(dense) = self.dense.get_mut(slot.at as usize) {
                    dense.append(ordinal, used);
                }
                slot
            }
            0 if self.in_place => Slot { len: 1, at: posting },
            len => Slot { len: len + 1, at: self.append_to_list(slot, posting)? },
        };
        self.total += 1;
        let slot = self.settle(slot, ordinal)?;
        if let Some(place) = self.slots.get_mut(set as usize) {
            *place = slot;
        }
        Ok(())
    }

    /// Gives the block in which the list is then.
    fn append_to_list(&mut self, slot: Slot, posting: u32) -> Result<u32, IndexError> {
        let len = slot.len as usize;
        let class = class_for(len);
        let at = if len == 0 {
            self.arena.alloc(0)?
        } else if len == 1 && self.in_place {
            let at = self.arena.alloc(class_for(2))?;
            if let Some(place) = self.arena.block_mut(at, 1).first_mut() {
                *place = slot.at;
            }
            at
        } else if len == block_len(class) {
            let at = self.arena.alloc(class + 1)?;
            self.arena.copy(slot.at, at, slot.len);
            self.arena.release(class, slot.at);
            at
        } else {
            slot.at
        };
        if let Some(place) = self.arena.block_mut(at, len + 1).last_mut() {
            *place = posting;
        }
        Ok(at)
    }

    /// Moves a set between list and bit set as its density asks. It goes back at half the density only, so that a set
    /// at the border does not move with every image.
    fn settle(&mut self, slot: Slot, last: u32) -> Result<Slot, IndexError> {
        let ordinals = u64::from(last) + 1;
        if slot.len != DENSE {
            let is_dense = slot.len >= self.dense_min
                && u64::from(slot.len) * u64::from(self.dense_one_in) > ordinals
                && !(slot.len == 1 && self.in_place);
            return if is_dense { self.dense_of(slot) } else { Ok(slot) };
        }
        let Some(dense) = self.dense.get_mut(slot.at as usize) else { return Ok(slot) };
        if u64::from(dense.len) * u64::from(self.dense_one_in) * 2 >= ordinals {
            return Ok(slot);
        }
        let block = self.arena.alloc(class_for(dense.len as usize))?;
        let dense = std::mem::take(dense);
        self.dense_free.push(slot.at);
        let mut list = Vec::with_capacity(dense.len as usize);
        View::Dense(&dense).each(0, u32::MAX, |ordinal, used| list.push(ordinal | if used { USED } else { 0 }));
        self.arena.block_mut(block, list.len()).copy_from_slice(&list);
        Ok(Slot { len: dense.len, at: block })
    }

    fn dense_of(&mut self, slot: Slot) -> Result<Slot, IndexError> {
        let mut dense = Dense::default();
        for &posting in self.arena.block(slot.at, slot.len) {
            dense.append(posting & !USED, posting & USED != 0);
        }
        let at = match self.dense_free.pop() {
            Some(at) => at,
            None => u32::try_from(self.dense.len()).map_err(|_| IndexError::Full("postings"))?,
        };
        match self.dense.get_mut(at as usize) {
            Some(place) => *place = dense,
            None => self.dense.push(dense),
        }
        self.arena.release(class_for(slot.len as usize), slot.at);
        Ok(Slot { len: DENSE, at })
    }

    pub(crate) fn bytes_used(&self) -> usize {
        let words = |dense: &Dense| {
            (dense.contains.capacity() + dense.used.as_ref().map_or(0, Vec::capacity)) * size_of::<u64>()
        };
        self.slots.capacity() * size_of::<Slot>()
            + self.arena.bytes_used()
            + self.dense.iter().map(|dense| words(dense) + size_of::<Dense>()).sum::<usize>()
    }
}

impl Dense {
    fn append(&mut self, ordinal: u32, used: bool) {
        if !used && self.used.is_none() {
            self.used = Some(self.contains.clone());
        }
        set_bit(&mut self.contains, ordinal);
        if let (true, Some(words)) = (used, &mut self.used) {
            set_bit(words, ordinal);
        }
        self.len += 1;
    }

    fn words(&self, usage_only: bool) -> &[u64] {
        self.used.as_deref().filter(|_| usage_only).unwrap_or(&self.contains)
    }
}

impl View<'_> {
    pub(crate) fn len(&self) -> u32 {
        match self {
            Self::List(list) => u32::try_from(list.len()).unwrap_or(u32::MAX),
            Self::Dense(dense) => dense.len,
        }
    }

    /// The highest ordinal.
    pub(crate) fn last(&self) -> Option<u32> {
        match self {
            Self::List(list) => list.last().map(|posting| posting & !USED),
            Self::Dense(dense) => {
                let word = dense.contains.last()?;
                let base = u32::try_from(dense.contains.len() - 1).ok()?.checked_mul(64)?;
                Some(base + word.checked_ilog2()?)
            }
        }
    }

    /// Whether the ordinal is there, and if so whether it is used.
    pub(crate) fn get(&self, ordinal: u32) -> Option<bool> {
        match self {
            Self::List(list) => {
                let at = list.binary_search_by_key(&ordinal, |posting| posting & !USED).ok()?;
                list.get(at).map(|posting| posting & USED != 0)
            }
            Self::Dense(dense) => {
                bit(&dense.contains, ordinal).then(|| dense.used.as_ref().is_none_or(|words| bit(words, ordinal)))
            }
        }
    }

    /// Whether an image has it, counting use only if asked.
    pub(crate) fn has(&self, ordinal: u32, usage_only: bool) -> bool {
        self.get(ordinal).is_some_and(|used| used || !usage_only)
    }

    /// Visits the postings from one ordinal to another, both included, in ascending order.
    pub(crate) fn each(&self, first: u32, last: u32, mut visit: impl FnMut(u32, bool)) {
        self.any(first, last, |ordinal, used| {
            visit(ordinal, used);
            false
        });
    }

    /// Whether the test holds for a posting from one ordinal to another; stops at the first such.
    pub(crate) fn any(&self, first: u32, last: u32, mut test: impl FnMut(u32, bool) -> bool) -> bool {
        match self {
            Self::List(list) => {
                let start = list.partition_point(|posting| posting & !USED < first);
                let rest = list.get(start..).unwrap_or_default().iter();
                rest.map(|posting| (posting & !USED, posting & USED != 0))
                    .take_while(|&(ordinal, _)| ordinal <= last)
                    .any(|(ordinal, used)| test(ordinal, used))
            }
            Self::Dense(dense) => {
                let start = (first / 64) as usize;
                let words = dense.contains.get(start..).unwrap_or_default();
                let bases = (first / 64..).map(|word| word.saturating_mul(64));
                bases.take_while(|&base| base <= last).zip(words).any(|(base, &word)| {
                    bits_of(word).map(|at| base + at).any(|ordinal| {
                        (first..=last).contains(&ordinal)
                            && test(ordinal, dense.used.as_ref().is_none_or(|words| bit(words, ordinal)))
                    })
                })
            }
        }
    }

    /// Takes the set's images out of `left`, a bit set; counting use only if asked. Returns the work it was, in words.
    pub(crate) fn clear_from(&self, left: &mut [u64], usage_only: bool) -> usize {
        match self {
            Self::List(list) => {
                let always = u32::from(!usage_only);
                for posting in *list {
                    // No branch on use: it is as good as random.
                    let bit = u64::from((posting >> 31) | always) << (posting & 63);
                    if let Some(word) = left.get_mut(((posting & !USED) / 64) as usize) {
                        *word &= !bit;
                    }
                }
                list.len()
            }
            Self::Dense(dense) => {
                let words = dense.words(usage_only);
                for (left, word) in left.iter_mut().zip(words) {
                    *left &= !word;
                }
                words.len() / 4
            }
        }
    }
}

/// The slots in the order of their classes.
fn by_class(slots: &[(u8, Slot)]) -> Vec<Slot> {
    let mut starts = [0_usize; 34];
    for &(class, _) in slots {
        if let Some(start) = starts.get_mut(usize::from(class) + 1) {
            *start += 1;
        }
    }
    let mut sum = 0;
    for start in &mut starts {
        sum += *start;
        *start = sum;
    }
    let mut ordered = vec![Slot { len: 0, at: 0 }; slots.len()];
    for &(class, slot) in slots {
        let Some(at) = starts.get_mut(usize::from(class)) else { continue };
        if let Some(place) = ordered.get_mut(*at) {
            *place = slot;
        }
        *at += 1;
    }
    ordered
}

/// The positions of the bits of a word, ascending.
pub(crate) fn bits_of(word: u64) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(word), |left| Some(left & left.wrapping_sub(1)))
        .take_while(|&left| left != 0)
        .map(u64::trailing_zeros)
}

pub(crate) fn set_bit(words: &mut Vec<u64>, at: u32) {
    let word = (at / 64) as usize;
    if words.len() <= word {
        // A sixteenth of spare room: these are many, and they all grow with every image.
        if words.capacity() <= word {
            words.reserve_exact(word + 1 + word / 16 - words.len());
        }
        words.resize(word + 1, 0);
    }
    if let Some(word) = words.get_mut(word) {
        *word |= 1 << (at % 64);
    }
}

pub(crate) fn bit(words: &[u64], at: u32) -> bool {
    words.get((at / 64) as usize).is_some_and(|word| word >> (at % 64) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sets_hold_what_was_appended_in_every_representation(
            gaps in prop::collection::vec((0_usize..3, 1_u32..40, any::<bool>(), any::<bool>()), 0..300),
            one_in_place in any::<bool>(), dense_min in 1_u32..8, one_in in 1_u32..6,
        ) {
            let thresholds = Thresholds { one_in_place, dense_len_min: dense_min, dense_one_in: one_in, ..Thresholds::default() };
            let mut sets = Postings::new(&thresholds);
            let mut model: [Vec<(u32, bool)>; 3] = Default::default();
            (0..3).for_each(|_| sets.push_set());
            let mut ordinal = 0;
            for (set, gap, wide, used) in gaps {
                ordinal += if wide { gap } else { 1 };
                sets.append(u32::try_from(set).unwrap(), ordinal, used).unwrap();
                model[set].push((ordinal, used));
            }
            prop_assert_eq!(sets.total(), model.iter().map(|set| set.len() as u64).sum::<u64>());
            for (set, expected) in model.iter().enumerate() {
                let view = sets.view(u32::try_from(set).unwrap());
                let (first, last) = (ordinal / 4, ordinal / 4 * 3);
                let mut all = Vec::new();
                view.each(0, u32::MAX, |ordinal, used| all.push((ordinal, used)));
                prop_assert_eq!(&all, expected);
                prop_assert_eq!(view.len() as usize, expected.len());
                let mut part = Vec::new();
                view.each(first, last, |ordinal, used| part.push((ordinal, used)));
                prop_assert_eq!(part, expected.iter().copied().filter(|(o, _)| (first..=last).contains(o)).collect::<Vec<_>>());
                for at in 0..=ordinal + 1 {
                    prop_assert_eq!(view.get(at), expected.iter().find(|(o, _)| *o == at).map(|(_, used)| *used));
                }
                for usage_only in [false, true] {
                    let mut left = vec![u64::MAX; ordinal as usize / 64 + 1];
                    view.clear_from(&mut left, usage_only);
                    for at in 0..=ordinal {
                        prop_assert_eq!(!bit(&left, at), view.has(at, usage_only));
                    }
                }
            }
        }
    }
}
