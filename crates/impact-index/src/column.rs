use crate::IndexError;
use crate::pieces::Pieces;
use bytemuck::Zeroable;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Records that are numbered from 0 and only appended. One writer, any readers.
///
/// A record is written before its number is given to anybody ([`Ordering::Release`]), so that whoever has come by the
/// number ([`Ordering::Acquire`]) finds it whole.
pub(crate) struct Column<T> {
    pieces: Pieces<T>,
    len: AtomicU32,
}

impl<T: Zeroable> Column<T> {
    pub(crate) fn new(what: &'static str, first_len: u32) -> Self {
        Self { pieces: Pieces::new(what, first_len), len: AtomicU32::new(0) }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len.load(Ordering::Acquire)
    }

    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        self.pieces.get(at)
    }

    /// The error of a column that can take no more.
    pub(crate) fn full(&self) -> IndexError {
        self.pieces.full()
    }

    /// Appends a record that `fill` writes, and gives its number.
    pub(crate) fn push_with(&self, fill: impl FnOnce(&T)) -> Result<u32, IndexError> {
        let at = self.len();
        // The highest number stands for none.
        if at >= u32::MAX - 1 {
            return Err(self.full());
        }
        self.pieces.make(at)?;
        fill(self.pieces.get(at).ok_or_else(|| self.full())?);
        self.len.store(at + 1, Ordering::Release);
        Ok(at)
    }

    pub(crate) fn bytes_used(&self) -> usize {
        self.len() as usize * size_of::<T>()
    }
}

impl Column<AtomicU32> {
    pub(crate) fn value(&self, at: u32) -> Option<u32> {
        self.get(at).map(read)
    }

    pub(crate) fn set(&self, at: u32, value: u32) {
        if let Some(place) = self.get(at) {
            write(place, value);
        }
    }

    pub(crate) fn push(&self, value: u32) -> Result<u32, IndexError> {
        self.push_with(|place| write(place, value))
    }
}

impl Column<AtomicU64> {
    pub(crate) fn value(&self, at: u32) -> Option<u64> {
        self.get(at).map(|place| place.load(Ordering::Acquire))
    }

    pub(crate) fn set(&self, at: u32, value: u64) {
        if let Some(place) = self.get(at) {
            place.store(value, Ordering::Release);
        }
    }
}

impl<const N: usize> Column<[AtomicU32; N]> {
    pub(crate) fn push(&self, row: [u32; N]) -> Result<u32, IndexError>
    where
        [AtomicU32; N]: Zeroable,
    {
        self.push_with(|places| places.iter().zip(row).for_each(|(place, value)| write(place, value)))
    }
}

/// A number that a writer may change meanwhile; whatever it leads to is there.
pub(crate) fn read(place: &AtomicU32) -> u32 {
    place.load(Ordering::Acquire)
}

/// Shows a number to readers, after everything that it leads to was written.
pub(crate) fn write(place: &AtomicU32, value: u32) {
    place.store(value, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_keeps_its_number() {
        let column = Column::<[AtomicU32; 3]>::new("rows", 2);
        for at in 0..100 {
            assert_eq!(column.push([at, at + 1, at + 2]).unwrap(), at);
        }
        assert_eq!((column.len(), column.bytes_used()), (100, 1200));
        for at in 0..100 {
            assert_eq!(column.get(at).unwrap().each_ref().map(read), [at, at + 1, at + 2]);
        }
    }
}
