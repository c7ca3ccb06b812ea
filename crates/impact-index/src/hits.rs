use crate::dictionary::Dictionary;
use crate::edition::Edition;
use crate::naming::{bare_key, encode_name};
use crate::terms::NONE;
use crate::{ImageRef, QueryKey};
use scheduler_model::purl::ProductKey;
use scheduler_versions::Ranges;
use std::borrow::Cow;
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
    /// Components that a key has and its ranges leave out.
    left_out: Vec<u32>,
    named: Vec<u32>,
    /// Whether some key has a subcomponent.
    is_narrowed: bool,
}

/// Where in [`Hits`] the finds of one key are.
pub(crate) struct KeyHits {
    /// In [`Hits::all_components`].
    pub(crate) components: Range<usize>,
    left_out: Range<usize>,
    named: Range<usize>,
    /// The components of the subcomponent, when one is asked for.
    narrowed_to: Option<Range<usize>>,
}

impl KeyHits {
    pub(crate) fn is_narrowed(&self) -> bool {
        self.narrowed_to.is_some()
    }
}

/// What several keys may have asked for: a term, a name, or a name in any namespace.
#[derive(PartialEq, Eq, Hash)]
enum Asked<'a> {
    Term(u32),
    Name(u32),
    Bare(u32, Option<&'a str>),
}

impl Hits {
    /// Looks the keys up; images are the tenant's live ones, components anybody's.
    pub(crate) fn find(edition: &Edition, tenant: u32, keys: &[QueryKey]) -> Self {
        let mut hits = Self { keys: Vec::with_capacity(keys.len()), ..Self::default() };
        let mut found = hits.find_components(&edition.state.dictionary, keys).into_iter();
        let mut shared = HashMap::new();
        for key in keys {
            let (components, left_out) = found.next().unwrap_or_default();
            let named = key.image.as_ref().map_or(0..0, |image| hits.find_named(edition, tenant, image, &mut shared));
            let narrowed_to = key.subcomponent.as_ref().and_then(|_| found.next()).map(|(components, _)| components);
            hits.is_narrowed |= narrowed_to.is_some();
            hits.keys.push(KeyHits { components, left_out, named, narrowed_to });
        }
        hits
    }

    /// The components of each key, with those that are left out, and, after it, of its subcomponent when it has one.
    fn find_components(&mut self, dictionary: &Dictionary, keys: &[QueryKey]) -> Vec<(Range<usize>, Range<usize>)> {
        let all = || keys.iter().flat_map(|key| std::iter::once(&key.key).chain(&key.subcomponent));
        let ranges =
            keys.iter().flat_map(|key| std::iter::once(key.ranges()).chain(key.subcomponent.iter().map(|_| None)));
        // Most keys name a version and a namespace, or are of a type that has one name only: these have one term.
        let is_term = |key: &ProductKey| key.version().is_some() && !key.any_namespace();
        let asks = all().filter(|key| is_term(key)).map(|key| (key.match_name(), key.version()));
        let mut terms = Vec::with_capacity(keys.len());
        dictionary.find_terms(asks, |term| terms.push(term));
        let mut terms = terms.into_iter();
        let mut shared = HashMap::new();
        let mut found = Vec::with_capacity(keys.len());
        for (key, ranges) in all().zip(ranges) {
            let term = if is_term(key) { terms.next() } else { None };
            found.push(match ranges {
                None => (self.add_components(dictionary, key, term, &mut shared), 0..0),
                Some(ranges) => self.add_affected(dictionary, key, ranges),
            });
        }
        found
    }

    fn add_components<'a>(
        &mut self,
        dictionary: &Dictionary,
        key: &'a ProductKey,
        term: Option<u32>,
        shared: &mut HashMap<Asked<'a>, Range<usize>>,
    ) -> Range<usize> {
        let start = self.components.len();
        let asked = match term {
            Some(NONE) => return start..start,
            Some(term) => {
                if !dictionary.terms.has_sourced(term) {
                    self.components.extend(dictionary.terms.plain(term));
                    return start..self.components.len();
                }
                Asked::Term(term)
            }
            None => match ask(dictionary, key) {
                Some(asked) => asked,
                None => return start..start,
            },
        };
        if let Some(found) = shared.get(&asked) {
            return found.clone();
        }
        let terms = &dictionary.terms;
        match &asked {
            Asked::Term(term) => self.components.extend(terms.components(*term)),
            Asked::Name(name) => self.add_name(dictionary, *name, None),
            Asked::Bare(bare, version) => {
                dictionary.names_of_bare.iter(*bare).for_each(|name| self.add_name(dictionary, name, *version));
            }
        }
        let found = start..self.components.len();
        if found.len() >= SHARED_LEN_MIN {
            shared.insert(asked, found.clone());
        }
        found
    }

    fn add_name(&mut self, dictionary: &Dictionary, name: u32, version: Option<&str>) {
        let terms = &dictionary.terms;
        if version.is_some() {
            let key = dictionary.names.get(name).to_vec();
            let term = dictionary.find_term(dictionary.term_hash(&key, version), &key, version);
            self.components.extend(term.into_iter().flat_map(|term| terms.components(term)));
        } else {
            self.components.extend(terms.of_name(name).flat_map(|term| terms.components(term)));
        }
    }

    /// The components of a key without version, apart by its ranges. What has the name of its source too is judged by both
    /// versions: it is in both lists when one of them may be affected, and then it counts.
    fn add_affected(
        &mut self,
        dictionary: &Dictionary,
        key: &ProductKey,
        ranges: &Ranges,
    ) -> (Range<usize>, Range<usize>) {
        let (start, start_left_out) = (self.components.len(), self.left_out.len());
        let mut add = |name| {
            for term in dictionary.terms.of_name(name) {
                let version = dictionary.version_of(term);
                let is_out = ranges.surely_exclude(key.match_name().ty, version.as_deref());
                let list = if is_out { &mut self.left_out } else { &mut self.components };
                list.extend(dictionary.terms.components(term));
            }
        };
        match ask(dictionary, key) {
            None | Some(Asked::Term(_)) => {}
            Some(Asked::Name(name)) => add(name),
            Some(Asked::Bare(bare, _)) => dictionary.names_of_bare.iter(bare).for_each(add),
        }
        (start..self.components.len(), start_left_out..self.left_out.len())
    }

    fn find_named<'a>(
        &mut self,
        edition: &Edition,
        tenant: u32,
        image: &'a ImageRef,
        shared: &mut HashMap<&'a ImageRef, Range<usize>>,
    ) -> Range<usize> {
        if let Some(found) = shared.get(image) {
            return found.clone();
        }
        let start = self.named.len();
        edition.state.images.named_by(&edition.live, tenant, image, &mut self.named);
        let found = start..self.named.len();
        shared.insert(image, found.clone());
        found
    }

    /// The components of all keys and their subcomponents.
    pub(crate) fn all_components(&self) -> &[u32] {
        &self.components
    }

    pub(crate) fn components(&self, key: &KeyHits) -> &[u32] {
        self.components.get(key.components.clone()).unwrap_or_default()
    }

    /// The components that the key's ranges leave out.
    pub(crate) fn left_out(&self, key: &KeyHits) -> &[u32] {
        self.left_out.get(key.left_out.clone()).unwrap_or_default()
    }

    /// The components that the ranges of some key leave out.
    pub(crate) fn all_left_out(&self) -> &[u32] {
        &self.left_out
    }

    /// Live images of the tenant that the key names itself; use does not matter for them. Ascending.
    pub(crate) fn named(&self, key: &KeyHits) -> &[u32] {
        self.named.get(key.named.clone()).unwrap_or_default()
    }

    /// The components of the subcomponent.
    pub(crate) fn narrowed_to(&self, key: &KeyHits) -> &[u32] {
        key.narrowed_to.clone().and_then(|range| self.components.get(range)).unwrap_or_default()
    }

    /// The components of the keys that stand alone; what keys share comes once.
    pub(crate) fn plain_components(&self) -> Cow<'_, [u32]> {
        if !self.is_narrowed {
            return Cow::Borrowed(&self.components);
        }
        let plain = self.keys.iter().filter(|key| !key.is_narrowed());
        Cow::Owned(once(&self.components, plain.map(|key| &key.components)).copied().collect())
    }

    /// The images that the keys name that stand alone; what keys share comes once.
    pub(crate) fn plain_named(&self) -> impl Iterator<Item = &u32> {
        let keys = if self.named.is_empty() { &[] } else { self.keys.as_slice() };
        once(&self.named, keys.iter().filter(|key| !key.is_narrowed()).map(|key| &key.named))
    }

    /// The keys with a subcomponent.
    pub(crate) fn narrowed_keys(&self) -> impl Iterator<Item = &KeyHits> {
        let keys = if self.is_narrowed { self.keys.as_slice() } else { &[] };
        keys.iter().filter(|key| key.is_narrowed())
    }
}

/// What a key without one term asks for; `None` when nothing has its name.
fn ask<'a>(dictionary: &Dictionary, key: &'a ProductKey) -> Option<Asked<'a>> {
    let name = key.match_name();
    if key.any_namespace() {
        return dictionary.bare.find(&bare_key(name.ty, name.name)).map(|bare| Asked::Bare(bare, key.version()));
    }
    let mut stored = Vec::new();
    encode_name(&mut stored, &name);
    dictionary.names.find(&stored).map(Asked::Name)
}

fn once<'a>(all: &'a [u32], ranges: impl Iterator<Item = &'a Range<usize>>) -> impl Iterator<Item = &'a u32> {
    let mut ranges: Vec<(usize, usize)> =
        ranges.filter(|range| !range.is_empty()).map(|range| (range.start, range.end)).collect();
    ranges.sort_unstable();
    ranges.dedup();
    ranges.into_iter().flat_map(|(start, end)| all.get(start..end).unwrap_or_default())
}
