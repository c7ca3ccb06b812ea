use crate::arena::{Arena, Blocks, block_len, class_for};
use crate::column::{Column, read, write};
use crate::view::{Pages, View};
use crate::{IndexError, Thresholds};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The bit of a posting that says that the image uses the component (IDX-1).
pub(crate) const USED: u32 = 1 << 31;
/// How many ordinals there can be.
pub(crate) const ORDINALS_MAX: u32 = USED;

/// In [`Slot::len`]: the set is kept as pages of bits.
const DENSE: u32 = 1 << 31;
/// Where in the table of a list its first ordinal is.
const FIRST_OF_TABLE: u32 = 2;
/// The last page of a list has room for so many postings from the start.
const LAST_PAGE_MIN: u32 = 8;
/// How many sets are touched before they are united.
const TOUCHED_TOGETHER: usize = 32;
/// So many postings lie in one line of the caches.
const LINE_LEN: usize = 16;
/// In place of a page: it has no bits, or, of a page of use, all of the other are set.
const NO_PAGE: u32 = u32::MAX;

/// Sets of postings, numbered from 0. A posting is an image ordinal with the [`USED`] bit; they come in ascending order
/// of ordinals. One is kept in place, some in a list in the arena, more in pages of a list, and very many in pages of bits.
///
/// A set that outgrows its block moves to another one. Whoever has read its slot before goes on in the old block, which is
/// therefore given back only (IDX-8). Pages stay where they are: to copy large sets over and over costs time, and leaves blocks
/// that are too small for those who grow at the same time.
pub(crate) struct Postings {
    slots: Column<AtomicU64>,
    arena: Arena,
    in_place: bool,
    dense_min: u32,
    dense_one_in: u32,
    /// A power of two.
    page_words: u32,
    total: AtomicU64,
}

/// Where a set is and how it is kept. Eight bytes, since there is one for each package, and most packages are in few
/// images; read and written as one number, so that nobody sees half of a change.
#[derive(Clone, Copy)]
struct Slot {
    /// How many postings, with [`DENSE`] when they are bits.
    len: u32,
    /// The posting itself, or the block in the arena: the list, whose class follows from the length, or, when that is more
    /// than a page, a table. A table is how many pages there are, then two numbers for each: see [`View`].
    at: u32,
}

impl Slot {
    fn of(number: u64) -> Self {
        let [a, b, c, d, e, f, g, h] = number.to_le_bytes();
        Self { at: u32::from_le_bytes([a, b, c, d]), len: u32::from_le_bytes([e, f, g, h]) }
    }

    fn number(self) -> u64 {
        u64::from(self.len) << 32 | u64::from(self.at)
    }

    fn is_dense(self) -> bool {
        self.len & DENSE != 0
    }

    fn count(self) -> u32 {
        self.len & !DENSE
    }

    /// 0 for the largest sets, 32 for the empty one.
    fn size_class(self) -> u8 {
        u8::try_from(self.count().leading_zeros()).unwrap_or_default()
    }
}

impl Postings {
    pub(crate) fn new(thresholds: &Thresholds) -> Self {
        let what = "postings";
        Self {
            slots: Column::new(what, thresholds.piece_len),
            arena: Arena::new(what, thresholds.piece_len),
            in_place: thresholds.one_in_place,
            dense_min: thresholds.dense_len_min.max(1),
            dense_one_in: thresholds.dense_one_in.max(1),
            page_words: thresholds.page_words.clamp(2, 1 << 20).next_power_of_two(),
            total: AtomicU64::new(0),
        }
    }

    /// A further set, empty. For the writer alone, as everything that changes.
    pub(crate) fn push_set(&self) -> Result<(), IndexError> {
        self.slots.push_with(|slot| slot.store(0, Ordering::Release)).map(|_| ())
    }

    /// How many sets there are.
    pub(crate) fn sets(&self) -> u32 {
        self.slots.len()
    }

    /// How many postings all sets have.
    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    pub(crate) fn view(&self, set: u32) -> View<'_> {
        self.slots.value(set).map_or(View::EMPTY, |slot| self.view_of(Slot::of(slot)))
    }

    fn view_of(&self, slot: Slot) -> View<'_> {
        match slot.len {
            1 if self.in_place => View::One(slot.at),
            len if len <= self.page_words => View::List(self.arena.block(slot.at, len as usize)),
            _ if slot.is_dense() => View::Dense(self.pages(slot)),
            _ => View::Long(self.pages(slot)),
        }
    }

    fn pages(&self, slot: Slot) -> Pages<'_> {
        let entries = self.pages_len(slot.at) as usize * 2;
        let (table, _) = self.arena.block(slot.at.saturating_add(1), entries).as_chunks();
        Pages { table, arena: &self.arena, page_words: self.page_words, len: slot.count() }
    }

    /// How many pages a table has.
    fn pages_len(&self, table: u32) -> u32 {
        self.word(table)
    }

    fn word(&self, at: u32) -> u32 {
        self.arena.block(at, 1).first().map_or(0, read)
    }

    /// The first ordinal of each set; [`USED`], which is none, of the empty and of bits. Each table is read in a pass of its
    /// own, so that the waits for memory overlap.
    pub(crate) fn firsts(&self, sets: &[u32]) -> Vec<u32> {
        let slots: Vec<Slot> = sets.iter().map(|&set| Slot::of(self.slots.value(set).unwrap_or_default())).collect();
        let first = |slot: Slot| match slot.len {
            0 => USED,
            1 if self.in_place => slot.at & !USED,
            _ if slot.is_dense() => USED,
            len if len <= self.page_words => self.word(slot.at) & !USED,
            _ => self.word(slot.at.saturating_add(FIRST_OF_TABLE)),
        };
        slots.into_iter().map(first).collect()
    }

    /// Takes the sets' images out of `left`, a bit set, counting use only if asked; stops when none is left.
    ///
    /// The largest sets come first, to the power of two: most others then add nothing. Each set's slot is read once, in a
    /// pass of its own, so that the waits for memory overlap.
    pub(crate) fn clear_all_from(&self, sets: &[u32], left: &mut [u64], usage_only: bool) {
        let slots: Vec<(u8, Slot)> = sets
            .iter()
            .filter_map(|&set| self.slots.value(set))
            .map(|slot| (Slot::of(slot).size_class(), Slot::of(slot)))
            .collect();
        let mut work = 0;
        for slots in by_class(&slots).chunks(TOUCHED_TOGETHER) {
            self.touch(slots);
            for &slot in slots {
                work += self.view_of(slot).clear_from(left, usage_only);
            }
            // To look costs as much as the work since the last look, no more.
            if work >= left.len() {
                work = 0;
                if left.iter().all(|&word| word == 0) {
                    return;
                }
            }
        }
    }

    /// Reads short lists here and there, so that the waits for memory overlap and the reads that follow find them near.
    fn touch(&self, slots: &[Slot]) {
        let lists = slots.iter().filter(|slot| slot.len <= self.page_words && slot.len > 1);
        let sum = lists.fold(0, |sum, slot| {
            let list = self.arena.block(slot.at, slot.len as usize);
            let lines = list.iter().step_by(LINE_LEN).chain(list.last());
            lines.fold(sum, |sum, posting| sum ^ posting.load(Ordering::Relaxed))
        });
        std::hint::black_box(sum);
    }

    /// Whether every one of the sets ends before the ordinal, as far as lists are concerned (IDX-3).
    ///
    /// An append waits for memory twice, for the slot and for the end of the list. Here both are read in passes of their own,
    /// so that the waits overlap, and the appends that follow find them near.
    pub(crate) fn end_before(&self, sets: impl Iterator<Item = u32>, ordinal: u32) -> bool {
        let slots: Vec<Slot> = sets.filter_map(|set| self.slots.value(set)).map(Slot::of).collect();
        let last = |slot: &Slot| match slot.len {
            0 => None,
            1 if self.in_place => Some(slot.at),
            len if len <= self.page_words => Some(self.word(slot.at.saturating_add(len - 1))),
            _ => None,
        };
        slots.iter().filter_map(last).fold(true, |all, posting| all & (posting & !USED < ordinal))
    }

    /// Adds a posting. Its ordinal is higher than every one in the set (IDX-3).
    pub(crate) fn append(&self, blocks: &mut Blocks, set: u32, ordinal: u32, used: bool) -> Result<(), IndexError> {
        let Some(slot) = self.slots.value(set).map(Slot::of) else { return Ok(()) };
        let slot = self.append_to(blocks, slot, ordinal, used)?;
        let slot = self.settle(blocks, slot, ordinal)?;
        self.slots.set(set, slot.number());
        self.total.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Adds a posting to a set where it is kept; gives its slot then.
    fn append_to(&self, blocks: &mut Blocks, slot: Slot, ordinal: u32, used: bool) -> Result<Slot, IndexError> {
        let posting = if used { ordinal | USED } else { ordinal };
        let at = match slot.len {
            0 if self.in_place => posting,
            _ if slot.is_dense() => self.append_to_dense(blocks, slot, ordinal, used)?,
            _ => self.append_to_list(blocks, slot, posting)?,
        };
        Ok(Slot { len: slot.len + 1, at })
    }

    /// Gives the block in which the list is then, or the table of its pages.
    fn append_to_list(&self, blocks: &mut Blocks, slot: Slot, posting: u32) -> Result<u32, IndexError> {
        let len = slot.len as usize;
        if slot.len >= self.page_words {
            return self.append_to_pages(blocks, slot, posting);
        }
        let class = class_for(len);
        let at = if len == 0 {
            self.arena.alloc(blocks, 0)?
        } else if len == 1 && self.in_place {
            let at = self.arena.alloc(blocks, class_for(2))?;
            put(self.arena.block(at, 1), slot.at);
            at
        } else if len == block_len(class) {
            let at = self.arena.alloc(blocks, class + 1)?;
            self.arena.copy(slot.at, at, len);
            blocks.release(class, slot.at);
            at
        } else {
            slot.at
        };
        put(self.arena.block(at, len + 1), posting);
        Ok(at)
    }

    fn append_to_pages(&self, blocks: &mut Blocks, slot: Slot, posting: u32) -> Result<u32, IndexError> {
        let mut table = slot.at;
        if slot.len == self.page_words {
            // The list is the first page.
            let first = self.word(slot.at) & !USED;
            table = self.push_page(blocks, None, [slot.at, first])?;
        }
        let used = slot.len % self.page_words;
        let (class, wanted) = (self.last_page_class(slot.len), self.last_page_class(slot.len + 1));
        if used == 0 {
            let page = self.arena.alloc(blocks, wanted)?;
            table = self.push_page(blocks, Some(table), [page, posting & !USED])?;
        }
        let Some([place, _]) = self.pages(Slot { len: slot.len, at: table }).table.last() else { return Ok(table) };
        let mut page = read(place);
        if used != 0 && class != wanted {
            page = self.arena.alloc(blocks, wanted)?;
            self.arena.copy(read(place), page, used as usize);
            blocks.release(class, read(place));
        }
        put(self.arena.block(page, used as usize + 1), posting);
        write(place, page);
        Ok(table)
    }

    /// The class of the last page of so many postings: it is as large as it has to be, so that a set costs no half page.
    fn last_page_class(&self, len: u32) -> usize {
        let used = len % self.page_words;
        let used = if used == 0 { self.page_words } else { used };
        class_for(used.max(LAST_PAGE_MIN.min(self.page_words)) as usize)
    }

    /// Gives the table in which the pages are then.
    fn append_to_dense(&self, blocks: &mut Blocks, slot: Slot, ordinal: u32, used: bool) -> Result<u32, IndexError> {
        let page = ordinal / 32 / self.page_words;
        let mut table = slot.at;
        while self.pages_len(table) <= page {
            table = self.push_page(blocks, Some(table), [NO_PAGE; 2])?;
        }
        let pages = self.pages(Slot { at: table, ..slot });
        let Some([bits, used_bits]) = pages.table.get(page as usize) else { return Ok(table) };
        if read(bits) == NO_PAGE {
            write(bits, self.make_page(blocks)?);
        }
        if !used && read(used_bits) == NO_PAGE {
            let of_use = self.make_page(blocks)?;
            self.arena.copy(read(bits), of_use, self.page_words as usize);
            write(used_bits, of_use);
        }
        self.set_bit(read(bits), ordinal);
        if used && read(used_bits) != NO_PAGE {
            self.set_bit(read(used_bits), ordinal);
        }
        Ok(table)
    }

    fn set_bit(&self, page: u32, ordinal: u32) {
        let word = page.saturating_add(ordinal / 32 % self.page_words);
        if let Some(word) = self.arena.block(word, 1).first() {
            word.store(word.load(Ordering::Relaxed) | 1 << (ordinal % 32), Ordering::Relaxed);
        }
    }

    /// Adds a page to a table, or to a new one; gives the block in which the table is then.
    fn push_page(&self, blocks: &mut Blocks, table: Option<u32>, page: [u32; 2]) -> Result<u32, IndexError> {
        let pages = table.map_or(0, |table| self.pages_len(table));
        let (class, wanted) = (class_for(table_len(pages)), class_for(table_len(pages + 1)));
        let at = match table {
            Some(table) if class == wanted => table,
            Some(table) => {
                let at = self.arena.alloc(blocks, wanted)?;
                self.arena.copy(table, at, table_len(pages));
                blocks.release(class, table);
                at
            }
            None => self.arena.alloc(blocks, wanted)?,
        };
        let places = self.arena.block(at, table_len(pages + 1));
        places.iter().rev().zip(page.into_iter().rev()).for_each(|(place, number)| write(place, number));
        // The number last: whoever reads it finds the page.
        places.iter().take(1).for_each(|place| write(place, pages + 1));
        Ok(at)
    }

    /// A page without bits.
    fn make_page(&self, blocks: &mut Blocks) -> Result<u32, IndexError> {
        let len = self.page_words as usize;
        let at = self.arena.alloc(blocks, class_for(len))?;
        self.arena.block(at, len).iter().for_each(|word| word.store(0, Ordering::Relaxed));
        Ok(at)
    }

    fn release(&self, blocks: &mut Blocks, slot: Slot) {
        if slot.len <= self.page_words {
            return blocks.release(class_for(slot.len as usize), slot.at);
        }
        let table = self.pages(slot).table;
        let class = class_for(self.page_words as usize);
        if slot.is_dense() {
            let pages = table.iter().flatten().map(read).filter(|&page| page != NO_PAGE);
            pages.for_each(|page| blocks.release(class, page));
        } else if let Some(([last, _], whole)) = table.split_last() {
            whole.iter().for_each(|[page, _]| blocks.release(class, read(page)));
            blocks.release(self.last_page_class(slot.len), read(last));
        }
        blocks.release(class_for(table_len(self.pages_len(slot.at))), slot.at);
    }

    /// Moves a set between list and bits as its density asks. It goes back at half the density only, so that a set
    /// at the border does not move with every image.
    fn settle(&self, blocks: &mut Blocks, slot: Slot, last: u32) -> Result<Slot, IndexError> {
        let ordinals = u64::from(last) + 1;
        let weight = u64::from(slot.count()) * u64::from(self.dense_one_in);
        if slot.is_dense() {
            return if weight * 2 >= ordinals { Ok(slot) } else { self.list_of(blocks, slot) };
        }
        let stays = slot.len < self.dense_min || weight <= ordinals || (slot.len == 1 && self.in_place);
        if stays { Ok(slot) } else { self.dense_of(blocks, slot) }
    }

    fn list_of(&self, blocks: &mut Blocks, slot: Slot) -> Result<Slot, IndexError> {
        self.remade(blocks, slot, Slot { len: 0, at: 0 })
    }

    fn dense_of(&self, blocks: &mut Blocks, slot: Slot) -> Result<Slot, IndexError> {
        let table = self.arena.alloc(blocks, class_for(table_len(0)))?;
        self.arena.block(table, 1).iter().for_each(|place| write(place, 0));
        self.remade(blocks, slot, Slot { len: DENSE, at: table })
    }

    /// Copies a set into an empty one of the other kind.
    fn remade(&self, blocks: &mut Blocks, slot: Slot, mut other: Slot) -> Result<Slot, IndexError> {
        let mut copied = Ok(());
        self.view_of(slot).any(0, u32::MAX, |ordinal, used| {
            copied = self.append_to(blocks, other, ordinal, used).map(|longer| other = longer);
            copied.is_err()
        });
        copied?;
        self.release(blocks, slot);
        Ok(other)
    }

    pub(crate) fn bytes_used(&self) -> usize {
        self.slots.bytes_used() + self.arena.bytes_used()
    }
}

/// Writes the last place of a block's beginning.
fn put(block: &[AtomicU32], number: u32) {
    if let Some(place) = block.last() {
        place.store(number, Ordering::Relaxed);
    }
}

/// How long the table of so many pages is.
fn table_len(pages: u32) -> usize {
    pages as usize * 2 + 1
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::bit;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sets_hold_what_was_appended_in_every_representation(
            gaps in prop::collection::vec((0_usize..3, 1_u32..40, any::<bool>(), any::<bool>()), 0..300),
            one_in_place in any::<bool>(), dense_len_min in 1_u32..8, dense_one_in in 1_u32..6, piece_len in 1_u32..40,
            page_words in 1_u32..5, reuse_every in 1_usize..20,
        ) {
            let thresholds = Thresholds { one_in_place, dense_len_min, dense_one_in, piece_len, page_words, ..Thresholds::default() };
            let sets = Postings::new(&thresholds);
            let mut blocks = Blocks::default();
            let mut model: [Vec<(u32, bool)>; 3] = Default::default();
            (0..3).for_each(|_| sets.push_set().unwrap());
            let mut ordinal = 0;
            for (at, (set, gap, wide, used)) in gaps.into_iter().enumerate() {
                ordinal += if wide { gap } else { 1 };
                let before = sets.view(u32::try_from(set).unwrap());
                sets.append(&mut blocks, u32::try_from(set).unwrap(), ordinal, used).unwrap();
                // Whoever had the view still has what was in it.
                for &(ordinal, used) in &model[set] {
                    prop_assert_eq!(before.get(ordinal), Some(used));
                }
                model[set].push((ordinal, used));
                if at.is_multiple_of(reuse_every) {
                    let given_back = blocks.take_given_back();
                    blocks.reuse(given_back);
                }
            }
            prop_assert_eq!(sets.total(), model.iter().map(|set| set.len() as u64).sum::<u64>());
            for (set, expected) in model.iter().enumerate() {
                let view = sets.view(u32::try_from(set).unwrap());
                let (first, last) = (ordinal / 4, ordinal / 4 * 3);
                let mut all = Vec::new();
                view.each(0, u32::MAX, |ordinal, used| all.push((ordinal, used)));
                prop_assert_eq!(&all, expected);
                prop_assert_eq!(view.len() as usize, expected.len());
                prop_assert_eq!(view.last(), expected.last().map(|(ordinal, _)| *ordinal));
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
