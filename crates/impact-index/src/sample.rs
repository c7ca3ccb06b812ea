use crate::Sample;
use crate::edition::Edition;
use crate::hits::{Hits, KeyHits};
use roaring::RoaringBitmap;

impl Edition {
    /// The first images of a result with the keys that touch each. The first, because then only the beginning of each
    /// set is looked at.
    pub(crate) fn sample(
        &self,
        images: &RoaringBitmap,
        hits: Option<&Hits>,
        usage_only: bool,
        len: usize,
    ) -> Vec<Sample> {
        let ordinals: Vec<u32> = images.iter().take(len).collect();
        let mut matched = vec![Vec::new(); ordinals.len()];
        let keys = hits.into_iter().flat_map(|hits| hits.keys.iter().enumerate().map(move |(at, key)| (hits, at, key)));
        for (hits, at, key) in keys {
            let mut touched = vec![false; ordinals.len()];
            self.touch(&ordinals, hits, key, usage_only, &mut touched);
            for (matched, _) in matched.iter_mut().zip(touched).filter(|(_, touched)| *touched) {
                matched.push(at);
            }
        }
        let with_info =
            |(&ordinal, matched_keys)| Some(Sample { image: self.state.images.info(ordinal)?, matched_keys });
        ordinals.iter().zip(matched).filter_map(with_info).collect()
    }

    /// Marks the images that the key touches.
    fn touch(&self, ordinals: &[u32], hits: &Hits, key: &KeyHits, usage_only: bool, touched: &mut [bool]) {
        let (Some(&first), Some(&last)) = (ordinals.first(), ordinals.last()) else { return };
        let mut touch = |ordinal: u32| {
            if let Some(touched) = ordinals.binary_search(&ordinal).ok().and_then(|at| touched.get_mut(at)) {
                *touched = true;
            }
        };
        for &component in hits.components(key) {
            self.state.postings.view(component).each(first, last, |ordinal, used| {
                if used || !usage_only {
                    touch(ordinal);
                }
            });
        }
        hits.named(key).iter().for_each(|&ordinal| touch(ordinal));
        if key.is_narrowed() {
            let narrowed_to = hits.narrowed_to(key);
            for (touched, &ordinal) in touched.iter_mut().zip(ordinals) {
                *touched &=
                    narrowed_to.iter().any(|&component| self.state.postings.view(component).has(ordinal, usage_only));
            }
        }
    }
}
