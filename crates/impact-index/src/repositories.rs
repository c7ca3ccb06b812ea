use crate::edition::Edition;
use crate::view::{bit, bits_of};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

impl Edition {
    /// The repositories with the most of the chosen images, the largest first and by name among equals.
    ///
    /// Of few images each is asked for its repository. Of many, the repositories are counted instead, those with the most
    /// images at all first, until no further one can have enough: so no query visits each image of a large answer.
    pub(crate) fn by_repository(&self, tenant: u32, chosen: &[u64], images: u64, top: usize) -> Vec<(String, u64)> {
        if top == 0 || images == 0 {
            return Vec::new();
        }
        let repositories = self.state.images.repositories(tenant);
        let counted = if images <= repositories.len() as u64 {
            self.count_by_image(chosen)
        } else {
            self.count_by_repository(repositories, chosen, top)
        };
        let mut largest: Vec<_> =
            counted.into_iter().map(|(facet, count)| (Reverse(count), self.state.images.facet_text(facet))).collect();
        largest.sort_unstable();
        largest.truncate(top);
        largest.into_iter().map(|(Reverse(count), name)| (name, count)).collect()
    }

    fn count_by_image(&self, chosen: &[u64]) -> Vec<(u32, u64)> {
        let mut counts: HashMap<u32, u64> = HashMap::new();
        let ordinals =
            (0_u32..).step_by(64).zip(chosen).flat_map(|(base, &word)| bits_of(word).map(move |at| base + at));
        for facet in ordinals.filter_map(|ordinal| self.state.images.repository_facet(ordinal)) {
            *counts.entry(facet).or_default() += 1;
        }
        counts.into_iter().collect()
    }

    fn count_by_repository(&self, repositories: Vec<(u32, u32)>, chosen: &[u64], top: usize) -> Vec<(u32, u64)> {
        let mut by_size: BinaryHeap<(u32, u32)> = repositories.into();
        let (mut counted, mut best) = (Vec::new(), BinaryHeap::new());
        while let Some((size, facet)) = by_size.pop() {
            let enough = best.peek().map_or(0, |&Reverse(count)| count);
            if best.len() == top && u64::from(size) < enough {
                break;
            }
            let mut count = 0_u64;
            self.state
                .images
                .with_repository(facet)
                .each(0, u32::MAX, |ordinal, _| count += u64::from(bit(chosen, ordinal)));
            if count == 0 {
                continue;
            }
            counted.push((facet, count));
            best.push(Reverse(count));
            if best.len() > top {
                best.pop();
            }
        }
        let enough = best.peek().map_or(0, |&Reverse(count)| count);
        counted.retain(|&(_, count)| count >= enough);
        counted
    }
}
