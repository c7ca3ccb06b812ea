use crate::edition::Edition;
use crate::view::{bit, bits_of};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// An image's repository is some steps away; a test whether an image of a repository is chosen is one.
const STEPS_TO_REPOSITORY: u64 = 4;

/// How many of the chosen images, and the facet of the repository that has them.
type Counted = (u64, u32);

impl Edition {
    /// The repositories with the most of the chosen images, the largest first and by name among equals.
    ///
    /// When few of the tenant's images are chosen, each of these is asked for its repository. Else repositories are counted,
    /// those with the most images at all first, until none that is left can be among the largest: a large answer is not
    /// visited image by image.
    pub(crate) fn by_repository(&self, tenant: u32, chosen: &[u64], images: u64, top: usize) -> Vec<(String, u64)> {
        if top == 0 || images == 0 {
            return Vec::new();
        }
        let all = self.live.of(tenant).map_or(0, |live| live.len());
        let counted = if images.saturating_mul(STEPS_TO_REPOSITORY) <= all {
            self.count_by_image(chosen)
        } else {
            self.count_by_repository(self.state.images.repositories(tenant), chosen, top)
        };
        self.largest(counted, top)
    }

    fn count_by_image(&self, chosen: &[u64]) -> Vec<Counted> {
        let mut counts: HashMap<u32, u64> = HashMap::new();
        let ordinals =
            (0_u32..).step_by(64).zip(chosen).flat_map(|(base, &word)| bits_of(word).map(move |at| base + at));
        for facet in ordinals.filter_map(|ordinal| self.state.images.repository_facet(ordinal)) {
            *counts.entry(facet).or_default() += 1;
        }
        counts.into_iter().map(|(facet, count)| (count, facet)).collect()
    }

    /// The counts of the repositories that may be among the largest.
    fn count_by_repository(&self, repositories: Vec<(u32, u32)>, chosen: &[u64], top: usize) -> Vec<Counted> {
        let mut by_size: BinaryHeap<(u32, u32)> = repositories.into();
        let (mut counted, mut largest) = (Vec::new(), BinaryHeap::new());
        while let Some((size, facet)) = by_size.pop() {
            let enough = largest.peek().map_or(0, |&Reverse(count)| count);
            if largest.len() == top && u64::from(size) < enough {
                break;
            }
            let mut count = 0_u64;
            let images = self.state.images.with_repository(facet);
            images.each(0, u32::MAX, |ordinal, _| count += u64::from(bit(chosen, ordinal)));
            if count > 0 && (largest.len() < top || count >= enough) {
                counted.push((count, facet));
                largest.push(Reverse(count));
                if largest.len() > top {
                    largest.pop();
                }
            }
        }
        counted
    }

    /// Names are looked up for those alone that are large enough.
    fn largest(&self, mut counted: Vec<Counted>, top: usize) -> Vec<(String, u64)> {
        if top < counted.len() {
            let (_, &mut (enough, _), _) = counted.select_nth_unstable_by_key(top - 1, |&(count, _)| Reverse(count));
            counted.retain(|&(count, _)| count >= enough);
        }
        let mut named: Vec<(Reverse<u64>, String)> =
            counted.into_iter().map(|(count, facet)| (Reverse(count), self.state.images.facet_text(facet))).collect();
        if top < named.len() {
            named.select_nth_unstable(top);
            named.truncate(top);
        }
        named.sort_unstable();
        named.into_iter().map(|(Reverse(count), name)| (name, count)).collect()
    }
}
