use crate::state::State;
use crate::{ImageRef, QueryKey};
use scheduler_model::purl::{MatchName, ProductKey};
use std::collections::HashMap;
use std::ops::Range;

/// Finds of more members than this are shared by the keys that ask for the same, so that many spellings of one key
/// take no more room than one.
const SHARED_LEN_MIN: usize = 64;

/// The keys of a query as components and images.
#[derive(Default)]
pub(crate) struct Hits {
    pub(crate) keys: Vec<KeyHits>,
    components: Vec<u32>,
    named: Vec<u32>,
}

/// Where in [`Hits`] the finds of one key are.
pub(crate) struct KeyHits {
    components: Range<usize>,
    named: Range<usize>,
    /// The components of the subcomponent, when one is asked for.
    narrowed_to: Option<Range<usize>>,
}

impl KeyHits {
    pub(crate) fn is_narrowed(&self) -> bool {
        self.narrowed_to.is_some()
    }
}

/// Finds that several keys may share.
#[derive(Default)]
struct Shared<'a> {
    components: HashMap<(MatchName<'a>, Option<&'a str>), Range<usize>>,
    named: HashMap<&'a ImageRef, Range<usize>>,
    scratch: Vec<u8>,
}

impl Hits {
    /// Looks the keys up; images are the tenant's live ones, components anybody's.
    pub(crate) fn find(state: &State, tenant: u32, keys: &[QueryKey]) -> Self {
        let mut hits = Self { keys: Vec::with_capacity(keys.len()), ..Self::default() };
        let mut shared = Shared::default();
        for key in keys {
            let components = hits.find_components(state, &key.key, &mut shared);
            let named = key.image.as_ref().map_or(0..0, |image| hits.find_named(state, tenant, image, &mut shared));
            let narrowed_to = key.subcomponent.as_ref().map(|key| hits.find_components(state, key, &mut shared));
            hits.keys.push(KeyHits { components, named, narrowed_to });
        }
        hits
    }

    fn find_components<'a>(&mut self, state: &State, key: &'a ProductKey, shared: &mut Shared<'a>) -> Range<usize> {
        let name = || (key.match_name(), key.version());
        if !shared.components.is_empty()
            && let Some(found) = shared.components.get(&name())
        {
            return found.clone();
        }
        let start = self.components.len();
        state.dictionary.find(key, &mut shared.scratch, &mut self.components);
        let found = start..self.components.len();
        if found.len() >= SHARED_LEN_MIN {
            shared.components.insert(name(), found.clone());
        }
        found
    }

    fn find_named<'a>(
        &mut self,
        state: &State,
        tenant: u32,
        image: &'a ImageRef,
        shared: &mut Shared<'a>,
    ) -> Range<usize> {
        if let Some(found) = shared.named.get(image) {
            return found.clone();
        }
        let start = self.named.len();
        state.images.named_by(tenant, image, &mut self.named);
        let found = start..self.named.len();
        shared.named.insert(image, found.clone());
        found
    }

    pub(crate) fn components(&self, key: &KeyHits) -> &[u32] {
        self.components.get(key.components.clone()).unwrap_or_default()
    }

    /// Live images of the tenant that the key names itself; use does not matter for them. Ascending.
    pub(crate) fn named(&self, key: &KeyHits) -> &[u32] {
        self.named.get(key.named.clone()).unwrap_or_default()
    }

    /// The components of the subcomponent.
    pub(crate) fn narrowed_to(&self, key: &KeyHits) -> &[u32] {
        key.narrowed_to.clone().and_then(|range| self.components.get(range)).unwrap_or_default()
    }

    /// The components of some keys; what keys share comes once.
    pub(crate) fn components_once<'a>(
        &'a self,
        keys: impl Iterator<Item = &'a KeyHits>,
    ) -> impl Iterator<Item = &'a u32> {
        once(&self.components, keys.map(|key| &key.components))
    }

    /// The images that some keys name themselves; what keys share comes once.
    pub(crate) fn named_once<'a>(&'a self, keys: impl Iterator<Item = &'a KeyHits>) -> impl Iterator<Item = &'a u32> {
        once(&self.named, keys.map(|key| &key.named))
    }
}

fn once<'a>(all: &'a [u32], ranges: impl Iterator<Item = &'a Range<usize>>) -> impl Iterator<Item = &'a u32> {
    let mut ranges: Vec<(usize, usize)> =
        ranges.filter(|range| !range.is_empty()).map(|range| (range.start, range.end)).collect();
    ranges.sort_unstable();
    ranges.dedup();
    ranges.into_iter().flat_map(|(start, end)| all.get(start..end).unwrap_or_default())
}
