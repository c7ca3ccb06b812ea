use crate::edition::Edition;
use crate::hits::{Hits, KeyHits};
use crate::{Query, QueryKey, Sample, SampleMatch};
use roaring::RoaringBitmap;

/// What a key found: the position of an image among the samples, and the component unless the key names the image.
type Touch = (usize, Option<u32>);

impl Edition {
    /// The first images of a result with the keys that touch each. The first, because then only the beginning of each
    /// set is looked at.
    pub(crate) fn sample(
        &self,
        images: &RoaringBitmap,
        query: &Query<'_>,
        hits: Option<&Hits>,
        len: usize,
    ) -> Vec<Sample> {
        let ordinals: Vec<u32> = images.iter().take(len).collect();
        let with_info = |&ordinal: &u32| {
            Some(Sample { image: self.state.images.info(ordinal)?, matched_keys: Vec::new(), matches: Vec::new() })
        };
        let mut samples: Vec<Sample> = ordinals.iter().filter_map(with_info).collect();
        let keys = query.keys.unwrap_or_default();
        let found = hits.into_iter().flat_map(|hits| hits.keys.iter().map(move |found| (hits, found)));
        for ((key, (hits, found)), at) in keys.iter().zip(found).zip(0..) {
            let touched = self.touched(&ordinals, hits, found, query.usage_only);
            for touched in touched.chunk_by(|(a, _), (b, _)| a == b) {
                self.add_matches(&mut samples, key, at, touched);
            }
        }
        samples
    }

    /// Adds what a key found in one image. Components come by their names, since their numbers tell of what others have.
    fn add_matches(&self, samples: &mut [Sample], key: &QueryKey, at: usize, touched: &[Touch]) {
        let Some(sample) = touched.first().and_then(|&(sample, _)| samples.get_mut(sample)) else { return };
        sample.matched_keys.push(at);
        let room = Sample::MATCHES_MAX.saturating_sub(sample.matches.len());
        if room == 0 {
            return;
        }
        let mut found: Vec<_> =
            touched.iter().map(|(_, component)| component.map(|component| self.found(key, component))).collect();
        found.sort_unstable();
        sample.matches.extend(found.into_iter().take(room).map(|found| SampleMatch { key: at, found }));
    }

    /// What the key finds in the images; each component of an image once.
    fn touched(&self, ordinals: &[u32], hits: &Hits, key: &KeyHits, usage_only: bool) -> Vec<Touch> {
        let (Some(&first), Some(&last)) = (ordinals.first(), ordinals.last()) else { return Vec::new() };
        let mut touched: Vec<Touch> = Vec::new();
        let place = |ordinal: u32| ordinals.binary_search(&ordinal).ok();
        touched.extend(hits.named(key).iter().filter_map(|&ordinal| Some((place(ordinal)?, None))));
        for &component in hits.components(key) {
            self.state.postings.view(component).each(first, last, |ordinal, used| {
                if used || !usage_only {
                    touched.extend(place(ordinal).map(|at| (at, Some(component))));
                }
            });
        }
        if key.is_narrowed() {
            let part = hits.narrowed_to(key);
            let has =
                |ordinal| part.iter().any(|&component| self.state.postings.view(component).has(ordinal, usage_only));
            touched.retain(|&(at, _)| ordinals.get(at).is_some_and(|&ordinal| has(ordinal)));
        }
        touched.sort_unstable();
        touched.dedup();
        touched
    }
}
