use crate::IndexError;
use crate::column::{Column, read};
use std::sync::atomic::AtomicU32;

/// Marks the end of a chain.
const END: u32 = u32::MAX;

/// Lists of numbers that only grow, without a heap object for each: most have one member.
pub(crate) struct Chains {
    heads: Column<AtomicU32>,
    /// A member and the link after it.
    links: Column<[AtomicU32; 2]>,
}

impl Chains {
    pub(crate) fn new(what: &'static str, first_len: u32) -> Self {
        Self { heads: Column::new(what, first_len), links: Column::new(what, first_len) }
    }

    /// A further list, empty; lists are numbered from 0.
    pub(crate) fn push_list(&self) -> Result<(), IndexError> {
        self.heads.push(END).map(|_| ())
    }

    /// Adds a member at the front.
    pub(crate) fn add(&self, list: u32, member: u32) -> Result<(), IndexError> {
        let Some(head) = self.heads.value(list) else { return Ok(()) };
        self.heads.set(list, self.links.push([member, head])?);
        Ok(())
    }

    pub(crate) fn iter(&self, list: u32) -> impl Iterator<Item = u32> {
        let mut link = self.heads.value(list).unwrap_or(END);
        std::iter::from_fn(move || {
            let [member, next] = self.links.get(link)?;
            link = read(next);
            Some(read(member))
        })
    }

    pub(crate) fn bytes_used(&self) -> usize {
        self.heads.bytes_used() + self.links.bytes_used()
    }
}
