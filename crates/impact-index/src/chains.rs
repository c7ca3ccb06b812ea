/// Marks the end of a chain.
const END: u32 = u32::MAX;

/// Lists of numbers that only grow, without a heap object for each: most have one member.
pub(crate) struct Chains {
    heads: Vec<u32>,
    /// A member and the link after it.
    links: Vec<(u32, u32)>,
}

impl Chains {
    pub(crate) fn new() -> Self {
        Self { heads: Vec::new(), links: Vec::new() }
    }

    /// A further list, empty; lists are numbered from 0.
    pub(crate) fn push_list(&mut self) {
        self.heads.push(END);
    }

    /// Adds a member at the front. The number of links stays below that of the interned strings, which is checked.
    pub(crate) fn add(&mut self, list: u32, member: u32) {
        let link = u32::try_from(self.links.len()).unwrap_or(END);
        if let Some(head) = self.heads.get_mut(list as usize) {
            self.links.push((member, *head));
            *head = link;
        }
    }

    pub(crate) fn iter(&self, list: u32) -> impl Iterator<Item = u32> {
        let mut link = self.heads.get(list as usize).copied().unwrap_or(END);
        std::iter::from_fn(move || {
            let &(member, next) = self.links.get(link as usize)?;
            link = next;
            Some(member)
        })
    }

    pub(crate) fn bytes_used(&self) -> usize {
        self.heads.capacity() * 4 + self.links.capacity() * 8
    }
}
