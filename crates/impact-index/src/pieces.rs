use crate::IndexError;
use bytemuck::Zeroable;
use std::ops::Range;
use std::sync::OnceLock;

/// Pieces double, so that so many hold everything that a u32 can number.
const PIECES_MAX: usize = 33;

/// An array that grows without moving: readers look at what is there while the one writer appends.
///
/// It comes in pieces, each twice as long as the one before and zeroed by the operating system when it is first touched, so
/// that what is not used yet takes no memory. Elements are atomics, or arrays of them.
pub(crate) struct Pieces<T> {
    what: &'static str,
    first_log2: u32,
    pieces: [OnceLock<Box<[T]>>; PIECES_MAX],
}

impl<T: Zeroable> Pieces<T> {
    /// `what` names the elements in errors; the first piece has `first_len` of them, rounded up to a power of two.
    pub(crate) fn new(what: &'static str, first_len: u32) -> Self {
        let first_log2 = first_len.clamp(1, 1 << 30).next_power_of_two().ilog2();
        Self { what, first_log2, pieces: [const { OnceLock::new() }; PIECES_MAX] }
    }

    /// Nothing more can be numbered.
    pub(crate) fn full(&self) -> IndexError {
        IndexError::Full(self.what)
    }

    /// The piece and the place in it. Counted from before the first piece, as if there were one as long as it, pieces
    /// begin at the powers of two.
    fn place(&self, at: u32) -> (usize, usize) {
        let number = u64::from(at) + (1 << self.first_log2);
        let top = number.ilog2();
        ((top - self.first_log2) as usize, usize::try_from(number ^ (1 << top)).unwrap_or(usize::MAX))
    }

    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        let (piece, offset) = self.place(at);
        self.pieces.get(piece)?.get()?.get(offset)
    }

    /// So many elements; none when they are not there, or not in one piece.
    pub(crate) fn slice(&self, at: u32, len: usize) -> &[T] {
        let (piece, offset) = self.place(at);
        let piece = self.pieces.get(piece).and_then(OnceLock::get);
        piece.and_then(|piece| piece.get(offset..offset.checked_add(len)?)).unwrap_or_default()
    }

    /// Makes sure that the piece is there. For the writer alone.
    pub(crate) fn make(&self, at: u32) -> Result<(), IndexError> {
        let (piece, _) = self.place(at);
        let Some(slot) = self.pieces.get(piece) else { return Err(self.full()) };
        if slot.get().is_none() {
            let len = 1 << (self.first_log2 as usize + piece);
            let made = bytemuck::allocation::try_zeroed_slice_box(len).map_err(|()| self.full())?;
            // Nobody else makes one.
            let _ = slot.set(made);
        }
        Ok(())
    }

    /// The numbers of the piece that `at` is in.
    pub(crate) fn piece_of(&self, at: u32) -> Range<u64> {
        let (piece, offset) = self.place(at);
        let start = u64::from(at) - offset as u64;
        start..start + (1 << (self.first_log2 as usize + piece))
    }

    /// The first place from `at` on with room for so many elements in one piece.
    pub(crate) fn fit(&self, mut at: u32, len: usize) -> Result<u32, IndexError> {
        loop {
            let end = self.piece_of(at).end;
            if u64::from(at) + len as u64 <= end {
                return Ok(at);
            }
            at = u32::try_from(end).map_err(|_| self.full())?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn every_number_has_a_place_of_its_own() {
        for first_len in [0, 1, 2, 3, 16, 1024] {
            let pieces = Pieces::<AtomicU32>::new("numbers", first_len);
            for at in 0..10_000 {
                assert!(pieces.get(at).is_none_or(|number| number.load(Ordering::Relaxed) == 0));
                pieces.make(at).unwrap();
                pieces.get(at).unwrap().store(at + 1, Ordering::Relaxed);
            }
            for at in 0..10_000 {
                assert_eq!(pieces.get(at).unwrap().load(Ordering::Relaxed), at + 1);
                assert!(pieces.piece_of(at).contains(&u64::from(at)));
            }
        }
    }

    #[test]
    fn a_slice_lies_in_one_piece() {
        let pieces = Pieces::<AtomicU32>::new("numbers", 16);
        (0..200).for_each(|at| pieces.make(at).unwrap());
        assert_eq!((pieces.piece_of(15), pieces.piece_of(16), pieces.piece_of(47)), (0..16, 16..48, 16..48));
        assert_eq!((pieces.slice(14, 2).len(), pieces.slice(14, 3).len(), pieces.slice(16, 32).len()), (2, 0, 32));
        assert_eq!((pieces.fit(14, 2).unwrap(), pieces.fit(14, 3).unwrap(), pieces.fit(0, 40).unwrap()), (14, 16, 48));
    }

    #[test]
    fn the_last_number_has_a_place_and_beyond_it_is_an_error() {
        for first_len in [1, 16, 1 << 30] {
            let pieces = Pieces::<AtomicU32>::new("numbers", first_len);
            assert!(pieces.piece_of(u32::MAX).contains(&u64::from(u32::MAX)));
            assert!(pieces.get(u32::MAX).is_none() && pieces.slice(u32::MAX, 2).is_empty());
            assert!(matches!(pieces.fit(u32::MAX, 1 << 33), Err(IndexError::Full("numbers"))));
        }
    }
}
