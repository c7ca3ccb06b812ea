use crate::IndexError;

/// Blocks of u32 in one allocation, of 1 to 8 words, then in eight sizes to each doubling (9, 10, …, 16, 18, 20, …); a block
/// that is given back is used again.
pub(crate) struct Arena {
    words: Vec<u32>,
    /// Offsets of the blocks that are free, by class.
    free: Vec<Vec<u32>>,
}

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
    pub(crate) fn new() -> Self {
        Self { words: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn alloc(&mut self, class: usize) -> Result<u32, IndexError> {
        if let Some(offset) = self.free.get_mut(class).and_then(Vec::pop) {
            return Ok(offset);
        }
        let end = self.words.len() + block_len(class);
        let offset = u32::try_from(self.words.len()).map_err(|_| IndexError::Full("postings"))?;
        self.words.resize(end, 0);
        Ok(offset)
    }

    pub(crate) fn release(&mut self, class: usize, offset: u32) {
        if self.free.len() <= class {
            self.free.resize_with(class + 1, Vec::new);
        }
        if let Some(free) = self.free.get_mut(class) {
            free.push(offset);
        }
    }

    pub(crate) fn block(&self, offset: u32, len: u32) -> &[u32] {
        let start = offset as usize;
        self.words.get(start..start + len as usize).unwrap_or_default()
    }

    pub(crate) fn block_mut(&mut self, offset: u32, len: usize) -> &mut [u32] {
        let start = offset as usize;
        self.words.get_mut(start..start + len).unwrap_or_default()
    }

    /// Copies the beginning of one block to another.
    pub(crate) fn copy(&mut self, from: u32, to: u32, len: u32) {
        let (from, to, len) = (from as usize, to as usize, len as usize);
        if from + len <= self.words.len() && to + len <= self.words.len() {
            self.words.copy_within(from..from + len, to);
        }
    }

    pub(crate) fn bytes_used(&self) -> usize {
        (self.words.len() + self.free.iter().map(Vec::len).sum::<usize>()) * 4
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
    fn a_block_that_is_given_back_is_used_again() {
        let mut arena = Arena::new();
        let first = arena.alloc(3).unwrap();
        let second = arena.alloc(3).unwrap();
        arena.release(3, first);
        assert_eq!((arena.alloc(3).unwrap(), arena.alloc(3).unwrap()), (first, second + 4));
    }
}
