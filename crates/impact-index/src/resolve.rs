use crate::edition::{Edition, State};
use crate::hits::{Hits, KeyHits};
use crate::images::digest_text;
use crate::view::{bit, bits_of};
use crate::{Query, QueryKey, Resolution, SelectedImage, Want};
use roaring::RoaringBitmap;

/// The union of a query on its own, with everything looked up: for measuring it beside that of others.
pub struct UnionProbe<'a> {
    edition: &'a Edition,
    hits: Hits,
    selected: Vec<u64>,
    usage_only: bool,
}

impl UnionProbe<'_> {
    /// How many images the union has under the selection.
    pub fn union_len(&self) -> u64 {
        count(&self.edition.union(&self.hits, &self.selected, self.usage_only))
    }

    /// The ordinals of each set that is united, as the query counts use.
    pub fn sets(&self) -> impl Iterator<Item = Vec<u32>> {
        self.hits.plain_components().into_owned().into_iter().map(|set| {
            let mut ordinals = Vec::new();
            self.edition.state.postings.view(set).each(0, u32::MAX, |ordinal, used| {
                ordinals.extend(Some(ordinal).filter(|_| used || !self.usage_only));
            });
            ordinals
        })
    }
}

impl Edition {
    pub(crate) fn probe_union(&self, query: &Query<'_>) -> Option<UnionProbe<'_>> {
        let tenant = self.state.images.tenant(query.tenant)?;
        Some(UnionProbe {
            hits: Hits::find(self, tenant, query.keys?),
            selected: self.select(tenant, query.selection, &self.live_bits(tenant)),
            usage_only: query.usage_only,
            edition: self,
        })
    }

    pub(crate) fn resolve(&self, query: &Query<'_>, want: Want) -> Resolution {
        let keys = query.keys.map_or(0, <[QueryKey]>::len) as u64;
        let nothing = Resolution {
            keys_unknown: keys,
            sequence: self.sequence,
            generation: self.generation,
            ..Resolution::default()
        };
        let Some(tenant) = self.state.images.tenant(query.tenant) else { return nothing };
        let live = self.live_bits(tenant);
        let selected = self.select(tenant, query.selection, &live);
        let hits = query.keys.map(|keys| Hits::find(self, tenant, keys));
        let chosen = match &hits {
            None => selected.clone(),
            Some(hits) => self.union(hits, &selected, query.usage_only),
        };
        let matched = hits.as_ref().map_or(0, |hits| self.count_matched(&live, hits));
        let narrowed_away =
            hits.as_ref().map_or(0, |hits| self.narrowed_away(hits, &selected, &chosen, query.usage_only));
        let images = bitmap(&chosen);
        Resolution {
            candidates: images.len(),
            narrowed_away,
            total: count(&selected),
            keys_matched: matched,
            keys_unknown: keys - matched,
            digests: if want.digests { self.digests(&images) } else { Vec::new() },
            by_repository: self.by_repository(tenant, &chosen, images.len(), want.by_repository),
            explain: hits.as_ref().map_or_else(Vec::new, |hits| self.explain(query, hits, &selected, want.explain)),
            sample: self.sample(&images, query, hits.as_ref(), want.sample),
            images,
            ..nothing
        }
    }

    /// The selected images that one of the keys touches: those that would be left are counted down, so that the work
    /// stops when none is.
    fn union(&self, hits: &Hits, selected: &[u64], usage_only: bool) -> Vec<u64> {
        let mut left = selected.to_vec();
        for key in hits.narrowed_keys() {
            for ordinal in self.narrowed(hits, key, usage_only) {
                clear_bit(&mut left, ordinal);
            }
        }
        for &ordinal in hits.plain_named() {
            clear_bit(&mut left, ordinal);
        }
        self.state.postings.clear_all_from(&hits.plain_components(), &mut left, usage_only);
        selected.iter().zip(&left).map(|(selected, left)| selected & !left).collect()
    }

    /// The images that a key with a subcomponent touches: those that have both.
    pub(crate) fn narrowed(&self, hits: &Hits, key: &KeyHits, usage_only: bool) -> Vec<u32> {
        let state = &self.state;
        let of_key = Side { components: hits.components(key), named: hits.named(key) };
        let of_part = Side { components: hits.narrowed_to(key), named: &[] };
        let (small, large) = if of_key.len(state) < of_part.len(state) { (of_key, of_part) } else { (of_part, of_key) };
        let mut both = small.ordinals(state, usage_only);
        if both.len() * large.components.len() < large.len(state) {
            both.retain(|&ordinal| large.has(state, ordinal, usage_only));
        } else {
            let mut other = large.ordinals(state, usage_only);
            other.sort_unstable();
            both.retain(|ordinal| other.binary_search(ordinal).is_ok());
        }
        both
    }

    /// How many more images the keys would touch if their ranges left nothing out.
    fn narrowed_away(&self, hits: &Hits, selected: &[u64], chosen: &[u64], usage_only: bool) -> u64 {
        if hits.all_left_out().is_empty() {
            return 0;
        }
        let mut left: Vec<u64> = selected.iter().zip(chosen).map(|(selected, chosen)| selected & !chosen).collect();
        let before = count(&left);
        self.state.postings.clear_all_from(hits.all_left_out(), &mut left, usage_only);
        before - count(&left)
    }

    fn count_matched(&self, live: &[u64], hits: &Hits) -> u64 {
        let firsts = self.state.postings.firsts(hits.all_components());
        let has = |&set: &u32| self.state.postings.view(set).any(0, u32::MAX, |ordinal, _| bit(live, ordinal));
        let matched = |key: &&KeyHits| {
            // Most sets begin with a live image.
            let firsts = firsts.get(key.components.clone()).unwrap_or_default();
            !hits.named(key).is_empty()
                || firsts.iter().any(|&ordinal| bit(live, ordinal))
                || hits.components(key).iter().chain(hits.left_out(key)).any(has)
        };
        hits.keys.iter().filter(matched).count() as u64
    }

    pub(crate) fn digests(&self, images: &RoaringBitmap) -> Vec<SelectedImage> {
        let mut rows: Vec<_> =
            images.iter().filter_map(|ordinal| Some((self.state.images.row(ordinal)?.digest, ordinal))).collect();
        rows.sort_unstable();
        let repository = |ordinal| {
            let facet = self.state.images.repository_facet(ordinal);
            facet.map(|facet| self.state.images.facet_text(facet)).unwrap_or_default()
        };
        rows.into_iter()
            .map(|(digest, ordinal)| SelectedImage { digest: digest_text(&digest), repository: repository(ordinal) })
            .collect()
    }
}

/// The images of one half of a key with a subcomponent.
struct Side<'a> {
    components: &'a [u32],
    named: &'a [u32],
}

impl Side<'_> {
    fn len(&self, state: &State) -> usize {
        let postings = self.components.iter().map(|&component| state.postings.view(component).len() as usize);
        self.named.len() + postings.sum::<usize>()
    }

    fn has(&self, state: &State, ordinal: u32, usage_only: bool) -> bool {
        self.named.binary_search(&ordinal).is_ok()
            || self.components.iter().any(|&component| state.postings.view(component).has(ordinal, usage_only))
    }

    fn ordinals(&self, state: &State, usage_only: bool) -> Vec<u32> {
        let mut ordinals = self.named.to_vec();
        for &component in self.components {
            state.postings.view(component).each(0, u32::MAX, |ordinal, used| {
                if used || !usage_only {
                    ordinals.push(ordinal);
                }
            });
        }
        ordinals
    }
}

pub(crate) fn clear_bit(words: &mut [u64], at: u32) {
    if let Some(word) = words.get_mut((at / 64) as usize) {
        *word &= !(1 << (at % 64));
    }
}

pub(crate) fn count(words: &[u64]) -> u64 {
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}

fn bitmap(words: &[u64]) -> RoaringBitmap {
    if count(words) * 64 < words.len() as u64 {
        let ordinals =
            (0_u32..).step_by(64).zip(words).flat_map(|(base, &word)| bits_of(word).map(move |at| base + at));
        return ordinals.collect();
    }
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    RoaringBitmap::from_lsb0_bytes(0, &bytes)
}
