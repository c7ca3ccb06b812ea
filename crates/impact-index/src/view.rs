use crate::arena::Arena;
use crate::column::read;
use crate::postings::USED;
use std::sync::atomic::{AtomicU32, Ordering};

/// One set of postings, for reading. What the writer adds meanwhile may be seen or not: its ordinals are in no edition that
/// the reader can have.
#[derive(Clone, Copy)]
pub(crate) enum View<'a> {
    /// A posting that is kept in place.
    One(u32),
    /// Postings in ascending order of ordinals.
    List(&'a [AtomicU32]),
    /// The same in pages. Of each is known where it is and its first ordinal.
    Long(Pages<'a>),
    /// Bits over all ordinals, 32 to a word. Of each page is known where the bits are and where those of use. One that is not
    /// there is a page without bits; where it would be of use, all are used.
    Dense(Pages<'a>),
}

/// The pages of a set.
#[derive(Clone, Copy)]
pub(crate) struct Pages<'a> {
    pub(crate) table: &'a [[AtomicU32; 2]],
    pub(crate) arena: &'a Arena,
    /// How many words a page has.
    pub(crate) page_words: u32,
    /// How many postings all of them have.
    pub(crate) len: u32,
}

fn seen(place: &AtomicU32) -> u32 {
    // Whoever has the view has read its slot, which was written after this.
    place.load(Ordering::Relaxed)
}

/// As pages of a list.
impl<'a> Pages<'a> {
    /// The list in parts, from one of them on.
    fn parts(&self, from: usize) -> impl Iterator<Item = &'a [AtomicU32]> {
        let (arena, page_words) = (self.arena, self.page_words as usize);
        let left = (self.len as usize).saturating_sub(from * page_words);
        let pages = self.table.iter().skip(from).zip((0..left).step_by(page_words));
        pages.map(move |([page, _], before)| arena.block(read(page), page_words.min(left - before)))
    }

    /// The part in which the ordinal is, if it is there.
    fn part_of(&self, ordinal: u32) -> usize {
        // The last page may be one that the writer has only begun.
        let pages = self.table.get(..self.len.div_ceil(self.page_words) as usize).unwrap_or_default();
        pages.partition_point(|[_, first]| read(first) <= ordinal).saturating_sub(1)
    }
}

/// As pages of bits.
impl<'a> Pages<'a> {
    /// The words of a page; none when it has no bits.
    fn words(&self, page: &AtomicU32) -> &'a [AtomicU32] {
        self.arena.block(read(page), self.page_words as usize)
    }

    /// The words of a page's bits, or of its use.
    fn page(&self, [bits, used]: &[AtomicU32; 2], usage_only: bool) -> &'a [AtomicU32] {
        let used = if usage_only { self.words(used) } else { &[] };
        if used.is_empty() { self.words(bits) } else { used }
    }

    fn bit(&self, ordinal: u32) -> Option<bool> {
        let page = self.table.get((ordinal / 32 / self.page_words) as usize)?;
        let has = |usage_only| {
            let word = self.page(page, usage_only).get((ordinal / 32 % self.page_words) as usize);
            word.is_some_and(|word| seen(word) >> (ordinal % 32) & 1 == 1)
        };
        has(false).then(|| has(true))
    }

    fn last_bit(&self) -> Option<u32> {
        let pages = (0_u32..).zip(self.table).map(|(at, page)| (at, self.page(page, false)));
        let last = |(at, words): (u32, &[AtomicU32])| {
            let word = words.iter().rposition(|word| seen(word) != 0)?;
            let bit = seen(words.get(word)?).checked_ilog2()?;
            Some((at * self.page_words + u32::try_from(word).ok()?) * 32 + bit)
        };
        pages.filter_map(last).last()
    }

    fn any_bit(&self, first: u32, last: u32, mut test: impl FnMut(u32, bool) -> bool) -> bool {
        let first_page = first / 32 / self.page_words;
        let pages = (first_page..).zip(self.table.get(first_page as usize..).unwrap_or_default());
        let ordinals_of_page = self.page_words * 32;
        pages.take_while(|(at, _)| at.saturating_mul(ordinals_of_page) <= last).any(|(at, page)| {
            let (words, used) = (self.page(page, false), self.page(page, true));
            (at * self.page_words..).zip(words.iter().zip(used)).any(|(word, (bits, used))| {
                let (bits, used) = (seen(bits), seen(used));
                bits_of(bits.into()).any(|bit| {
                    let ordinal = word * 32 + bit;
                    (first..=last).contains(&ordinal) && test(ordinal, used >> bit & 1 == 1)
                })
            })
        })
    }

    fn clear_bits_from(&self, left: &mut [u64], usage_only: bool) {
        let lefts = left.chunks_mut(self.page_words as usize / 2);
        for (left, page) in lefts.zip(self.table) {
            let (pairs, _) = self.page(page, usage_only).as_chunks::<2>();
            for (left, [low, high]) in left.iter_mut().zip(pairs) {
                *left &= !(u64::from(seen(low)) | u64::from(seen(high)) << 32);
            }
        }
    }
}

impl View<'_> {
    pub(crate) const EMPTY: Self = Self::List(&[]);

    pub(crate) fn len(&self) -> u32 {
        match self {
            Self::One(_) => 1,
            Self::List(list) => u32::try_from(list.len()).unwrap_or(u32::MAX),
            Self::Long(pages) | Self::Dense(pages) => pages.len,
        }
    }

    /// The highest ordinal.
    pub(crate) fn last(&self) -> Option<u32> {
        let of_list = |list: &[AtomicU32]| list.last().map(|posting| seen(posting) & !USED);
        match self {
            Self::One(posting) => Some(posting & !USED),
            Self::List(list) => of_list(list),
            Self::Long(pages) => pages.parts(0).last().and_then(of_list),
            Self::Dense(pages) => pages.last_bit(),
        }
    }

    /// Whether the ordinal is there, and if so whether it is used.
    pub(crate) fn get(&self, ordinal: u32) -> Option<bool> {
        let in_list = |list: &[AtomicU32]| {
            let at = list.binary_search_by_key(&ordinal, |posting| seen(posting) & !USED).ok()?;
            list.get(at).map(|posting| seen(posting) & USED != 0)
        };
        match self {
            Self::One(posting) => (posting & !USED == ordinal).then_some(posting & USED != 0),
            Self::List(list) => in_list(list),
            Self::Long(pages) => pages.parts(pages.part_of(ordinal)).next().and_then(in_list),
            Self::Dense(pages) => pages.bit(ordinal),
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
            Self::One(posting) => {
                let ordinal = posting & !USED;
                (first..=last).contains(&ordinal) && test(ordinal, posting & USED != 0)
            }
            Self::List(list) => any_of(list, first, last, &mut test),
            Self::Long(pages) => {
                let begins = |part: &&[AtomicU32]| part.first().is_some_and(|posting| seen(posting) & !USED <= last);
                let parts = pages.parts(pages.part_of(first)).take_while(begins);
                parts.into_iter().any(|part| any_of(part, first, last, &mut test))
            }
            Self::Dense(pages) => pages.any_bit(first, last, test),
        }
    }

    /// Takes the set's images out of `left`, a bit set; counting use only if asked. Returns the work it was, in words.
    pub(crate) fn clear_from(&self, left: &mut [u64], usage_only: bool) -> usize {
        let always = u32::from(!usage_only);
        match self {
            Self::One(posting) => clear_posting(left, *posting, always),
            Self::List(list) => list.iter().for_each(|posting| clear_posting(left, seen(posting), always)),
            Self::Long(pages) => {
                pages.parts(0).flatten().for_each(|posting| clear_posting(left, seen(posting), always));
            }
            Self::Dense(pages) => {
                pages.clear_bits_from(left, usage_only);
                return left.len() / 2;
            }
        }
        self.len() as usize
    }
}

fn any_of(list: &[AtomicU32], first: u32, last: u32, test: &mut impl FnMut(u32, bool) -> bool) -> bool {
    let start = list.partition_point(|posting| seen(posting) & !USED < first);
    let rest = list.get(start..).unwrap_or_default().iter().map(seen);
    rest.map(|posting| (posting & !USED, posting & USED != 0))
        .take_while(|&(ordinal, _)| ordinal <= last)
        .any(|(ordinal, used)| test(ordinal, used))
}

fn clear_posting(left: &mut [u64], posting: u32, always: u32) {
    // No branch on use: it is as good as random.
    let bit = u64::from((posting >> 31) | always) << (posting & 63);
    if let Some(word) = left.get_mut(((posting & !USED) / 64) as usize) {
        *word &= !bit;
    }
}

/// The positions of the bits of a word, ascending.
pub(crate) fn bits_of(word: u64) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(word), |left| Some(left & left.wrapping_sub(1)))
        .take_while(|&left| left != 0)
        .map(u64::trailing_zeros)
}

/// Sets the bits from one to another, both included.
pub(crate) fn set_bits(words: &mut [u64], first: u32, last: u32) {
    let (from, to) = (u64::MAX << (first % 64), u64::MAX >> (63 - last % 64));
    match words.get_mut((first / 64) as usize..=(last / 64) as usize) {
        Some([word]) => *word |= from & to,
        Some([head, between @ .., tail]) => {
            *head |= from;
            between.fill(u64::MAX);
            *tail |= to;
        }
        _ => {}
    }
}

pub(crate) fn set_bit(words: &mut [u64], at: u32) {
    set_bits(words, at, at);
}

pub(crate) fn bit(words: &[u64], at: u32) -> bool {
    words.get((at / 64) as usize).is_some_and(|word| word >> (at % 64) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_bits_is_set_from_its_first_to_its_last() {
        for first in 0..200 {
            for last in first..200 {
                let mut words = [0; 3];
                set_bits(&mut words, first, last);
                // What lies beyond the words is no reason to set a part.
                let is_set = |at| last < 192 && (first..=last).contains(&at);
                assert!((0..192).all(|at| bit(&words, at) == is_set(at)), "{first} to {last}");
            }
        }
    }
}
