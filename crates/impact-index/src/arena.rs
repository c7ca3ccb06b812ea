use crate::IndexError;

/// Blocks of u32 in one allocation, in sizes 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, …; a block that is given back is used again.
pub(crate) struct Arena {
    words: Vec<u32>,
    /// Offsets of the blocks that are free, by class.
    free: Vec<Vec<u32>>,
}

/// How many words a block of the class has.
pub(crate) fn block_len(class: u8) -> usize {
    usize::from(4 + class % 4) << (class / 4)
}

/// The smallest class with room for so many words.
pub(crate) fn class_for(len: usize) -> u8 {
    // 4 × 30 classes reach beyond 2^31 words, more than there are ordinals.
    (0..120).find(|&class| block_len(class) >= len).unwrap_or(120)
}

impl Arena {
    pub(crate) fn new() -> Self {
        Self { words: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn alloc(&mut self, class: u8) -> Result<u32, IndexError> {
        if let Some(offset) = self.free.get_mut(usize::from(class)).and_then(Vec::pop) {
            return Ok(offset);
        }
        let end = self.words.len() + block_len(class);
        let offset = u32::try_from(self.words.len()).map_err(|_| IndexError::Full("postings"))?;
        self.words.resize(end, 0);
        Ok(offset)
    }

    pub(crate) fn release(&mut self, class: u8, offset: u32) {
        let class = usize::from(class);
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
