use crate::edition::Edition;
use crate::view::{bit, bits_of};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// An image's repository is some steps away; a test whether an image of a repository is chosen is one.
const STEPS_TO_REPOSITORY: u64 = 4;

/// In the order of the answer: the larger count first, by name among equals.
type Counted = (Reverse<u64>, String);

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
        let largest = if images.saturating_mul(STEPS_TO_REPOSITORY) <= all {
            self.count_by_image(chosen, top)
        } else {
            self.count_by_repository(self.state.images.repositories(tenant), chosen, top)
        };
        largest.into_iter().map(|(Reverse(count), name)| (name, count)).collect()
    }

    fn count_by_image(&self, chosen: &[u64], top: usize) -> Vec<Counted> {
        let mut counts: HashMap<u32, u64> = HashMap::new();
        let ordinals =
            (0_u32..).step_by(64).zip(chosen).flat_map(|(base, &word)| bits_of(word).map(move |at| base + at));
        for facet in ordinals.filter_map(|ordinal| self.state.images.repository_facet(ordinal)) {
            *counts.entry(facet).or_default() += 1;
        }
        let mut counts: Vec<(u32, u64)> = counts.into_iter().collect();
        counts.sort_unstable_by_key(|&(_, count)| Reverse(count));
        let enough = counts.get(top - 1).map_or(0, |&(_, count)| count);
        let candidates = counts.into_iter().take_while(|&(_, count)| count >= enough);
        let mut largest: Vec<Counted> =
            candidates.map(|(facet, count)| (Reverse(count), self.state.images.facet_text(facet))).collect();
        largest.sort_unstable();
        largest.truncate(top);
        largest
    }

    fn count_by_repository(&self, repositories: Vec<(u32, u32)>, chosen: &[u64], top: usize) -> Vec<Counted> {
        let mut by_size: BinaryHeap<(u32, u32)> = repositories.into();
        // The last in the order comes out first.
        let mut largest: BinaryHeap<Counted> = BinaryHeap::new();
        let is_beaten =
            |largest: &BinaryHeap<Counted>, most: &Counted| largest.len() == top && largest.peek() < Some(most);
        while let Some(&(size, _)) = by_size.peek() {
            if is_beaten(&largest, &(Reverse(size.into()), String::new())) {
                break;
            }
            let mut of_size = Vec::new();
            while let Some(&(_, facet)) = by_size.peek().filter(|&&(other, _)| other == size) {
                of_size.push(Reverse((self.state.images.facet_text(facet), facet)));
                by_size.pop();
            }
            let mut by_name: BinaryHeap<_> = of_size.into();
            while let Some(Reverse((name, facet))) = by_name.pop() {
                let most = (Reverse(size.into()), name);
                // Those after it have a later name.
                if is_beaten(&largest, &most) {
                    break;
                }
                let mut count = 0_u64;
                let images = self.state.images.with_repository(facet);
                images.each(0, u32::MAX, |ordinal, _| count += u64::from(bit(chosen, ordinal)));
                if count > 0 {
                    largest.push((Reverse(count), most.1));
                }
                if largest.len() > top {
                    largest.pop();
                }
            }
        }
        largest.into_sorted_vec()
    }
}
