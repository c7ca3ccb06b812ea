use crate::IndexError;
use crate::pieces::Pieces;
use std::sync::atomic::{AtomicU32, Ordering};

/// Blocks of numbers, of 1 to 8, then in eight sizes to each doubling (9, 10, …, 16, 18, 20, …). Readers look at them while
/// the writer fills others.
pub(crate) struct Arena {
    words: Pieces<AtomicU32>,
    /// What was ever given out ends here.
    end: AtomicU32,
}

/// Which blocks of an [`Arena`] are free: the writer's part of it.
#[derive(Default)]
pub(crate) struct Blocks {
    /// Offsets, by class.
    free: Vec<Vec<u32>>,
    /// What was given back and may still be looked at: class and offset.
    given_back: Vec<Block>,
}

/// A block by its class and its offset.
pub(crate) type Block = (usize, u32);

/// How many words a block of the class has.
pub(crate) fn block_len(class: usize) -> usize {
    match class {
        0..8 => class + 1,
        _ => (8 + class % 8 + 1) << (class / 8 - 1),
    }
}

/// The smallest class with room for so many words, of which there is at least one.
pub(crate) fn class_for(len: usize) -> usize {
    let last = len.saturating_sub(1);
    match last {
        0..8 => last,
        _ => {
            let doublings = last.ilog2() as usize - 3;
            (doublings << 3) + (last >> doublings)
        }
    }
}

impl Arena {
    pub(crate) fn new(what: &'static str, first_len: u32) -> Self {
        Self { words: Pieces::new(what, first_len), end: AtomicU32::new(0) }
    }

    /// The beginning of a block; empty when it is not there.
    pub(crate) fn block(&self, at: u32, len: usize) -> &[AtomicU32] {
        self.words.slice(at, len)
    }

    /// A block of the class, with whatever is in it.
    pub(crate) fn alloc(&self, blocks: &mut Blocks, class: usize) -> Result<u32, IndexError> {
        if let Some(at) = blocks.free.get_mut(class).and_then(Vec::pop) {
            return Ok(at);
        }
        let len = block_len(class);
        let mut at = self.end.load(Ordering::Relaxed);
        loop {
            self.words.make(at)?;
            let end = self.words.piece_of(at).end;
            if u64::from(at) + len as u64 <= end {
                break;
            }
            // The block goes to the beginning of a later piece.
            blocks.add_rest(at, end);
            at = u32::try_from(end).map_err(|_| self.words.full())?;
        }
        let next = u32::try_from(u64::from(at) + len as u64).map_err(|_| self.words.full())?;
        self.end.store(next, Ordering::Relaxed);
        Ok(at)
    }

    /// Copies the beginning of one block to another.
    pub(crate) fn copy(&self, from: u32, to: u32, len: usize) {
        for (from, to) in self.block(from, len).iter().zip(self.block(to, len)) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    pub(crate) fn bytes_used(&self) -> usize {
        self.end.load(Ordering::Relaxed) as usize * 4
    }
}

impl Blocks {
    /// Gives a block back. It is not given out before [`Blocks::reuse`]: somebody may be reading it.
    pub(crate) fn release(&mut self, class: usize, at: u32) {
        self.given_back.push((class, at));
    }

    /// The blocks that were given back since the last time.
    pub(crate) fn take_given_back(&mut self) -> Vec<Block> {
        std::mem::take(&mut self.given_back)
    }

    /// Blocks that nobody looks at any more.
    pub(crate) fn reuse(&mut self, blocks: Vec<Block>) {
        blocks.into_iter().for_each(|(class, at)| self.add(class, at));
    }

    fn add(&mut self, class: usize, at: u32) {
        if self.free.len() <= class {
            self.free.resize_with(class + 1, Vec::new);
        }
        if let Some(free) = self.free.get_mut(class) {
            free.push(at);
        }
    }

    /// Makes blocks of what is left of a piece.
    fn add_rest(&mut self, mut at: u32, end: u64) {
        while let Some(left) =
            usize::try_from(end).ok().and_then(|end| end.checked_sub(at as usize)).filter(|&left| left > 0)
        {
            let class = class_for(left);
            let class = if block_len(class) > left { class.saturating_sub(1) } else { class };
            self.add(class, at);
            // It lies below `end`, which is at most 2^32 and the end of a piece that something follows.
            at = at.saturating_add(u32::try_from(block_len(class)).unwrap_or(u32::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_room_and_no_smaller_one_would_have() {
        for len in (1..5000).chain([(1 << 31) - 1, 1 << 31]) {
            let class = class_for(len);
            assert!(block_len(class) >= len, "{len}");
            assert!(class == 0 || block_len(class - 1) < len, "{len}");
        }
    }

    #[test]
    fn a_block_that_is_given_back_is_used_again_but_not_at_once() {
        let (arena, mut blocks) = (Arena::new("numbers", 64), Blocks::default());
        let first = arena.alloc(&mut blocks, 3).unwrap();
        let second = arena.alloc(&mut blocks, 3).unwrap();
        blocks.release(3, first);
        let third = arena.alloc(&mut blocks, 3).unwrap();
        assert_eq!((first, second, third), (0, 4, 8));
        let given_back = blocks.take_given_back();
        blocks.reuse(given_back);
        assert_eq!((arena.alloc(&mut blocks, 3).unwrap(), arena.alloc(&mut blocks, 3).unwrap()), (first, 12));
    }

    /// Blocks of all sizes in pieces of 1, 2, 4, … words: none overlaps another, and what is left of a piece is used.
    #[test]
    fn blocks_never_overlap_and_waste_nothing() {
        let (arena, mut blocks) = (Arena::new("numbers", 1), Blocks::default());
        let mut owners = vec![None; 1 << 14];
        let mut take = |blocks: &mut Blocks, class: usize, owner: usize| {
            let at = arena.alloc(blocks, class).unwrap();
            assert_eq!(arena.block(at, block_len(class)).len(), block_len(class));
            for word in &mut owners[at as usize..at as usize + block_len(class)] {
                assert_eq!(word.replace(owner), None);
            }
        };
        // The first one is too large for several pieces.
        take(&mut blocks, class_for(100), 999);
        for owner in 0..200 {
            take(&mut blocks, owner * 7 % 31, owner);
        }
        for class in 0..blocks.free.len() {
            for at in 0..blocks.free[class].len() {
                take(&mut blocks, class, 1000 + class * 100 + at);
            }
        }
        let used = owners.iter().rposition(Option::is_some).unwrap() + 1;
        assert_eq!(arena.bytes_used(), used * 4);
        assert!(owners[..used].iter().all(Option::is_some));
    }
}
