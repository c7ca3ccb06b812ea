use crate::edition::Edition;
use crate::hits::{Hits, KeyHits};
use crate::naming::decode_name;
use crate::resolve::{clear_bit, count};
use crate::view::{bit, set_bit};
use crate::{Found, KeyMatch, PackageCount, Query, QueryKey, Way};
use scheduler_model::purl::{MatchName, Purl, PurlParts};
use std::cmp::Reverse;

/// To look at so many postings one by one costs as much as to copy and count a word of 64.
const POSTINGS_PER_WORD: usize = 2;

impl Edition {
    /// The first keys that touch a selected image, with the packages by which they do. Costs as much as the packages of
    /// these keys have postings, and of the others until the first image.
    pub(crate) fn explain(&self, query: &Query<'_>, hits: &Hits, selected: &[u64], len: usize) -> Vec<KeyMatch> {
        let keys = query.keys.into_iter().flatten().zip(&hits.keys).zip(0..);
        keys.filter_map(|((key, found), at)| self.explain_key(key, at, (hits, found), selected, query.usage_only))
            .take(len)
            .collect()
    }

    fn explain_key(
        &self,
        key: &QueryKey,
        at: usize,
        (hits, found): (&Hits, &KeyHits),
        selected: &[u64],
        usage_only: bool,
    ) -> Option<KeyMatch> {
        let of_claim = found.is_narrowed().then(|| {
            let mut both = vec![0; selected.len()];
            for ordinal in self.narrowed(hits, found, usage_only) {
                set_bit(&mut both, ordinal);
            }
            both.iter().zip(selected).map(|(both, selected)| both & selected).collect::<Vec<u64>>()
        });
        let within = of_claim.as_deref().unwrap_or(selected);
        let counts = |ordinal, used| bit(within, ordinal) && (used || !usage_only);
        let has_any = |&set: &u32| self.state.postings.view(set).any(0, u32::MAX, counts);
        let named = hits.named(found).iter().any(|&ordinal| bit(within, ordinal));
        let (components, left_out) = (hits.components(found), hits.left_out(found));
        if !(named || components.iter().chain(left_out).any(has_any)) {
            return None;
        }
        let mut left = within.to_vec();
        hits.named(found).iter().for_each(|&ordinal| clear_bit(&mut left, ordinal));
        self.state.postings.clear_all_from(components, &mut left, usage_only);
        let images = count(within) - count(&left);
        let before = count(&left);
        self.state.postings.clear_all_from(left_out, &mut left, usage_only);
        let counted = self.counted(components, within, usage_only);
        let packages = self.most(key, &counted);
        let mut how: Vec<Way> = counted
            .iter()
            .flat_map(|&(_, component)| ways(key, self.is_found_by(key, self.state.dictionary.terms_of(component).0)))
            .collect();
        how.extend(Some(Way::Image).filter(|_| named));
        how.sort_unstable();
        how.dedup();
        Some(KeyMatch {
            key: at,
            how,
            images,
            narrowed_away: before - count(&left),
            packages,
            packages_total: counted.len() as u64,
        })
    }

    /// The components that have images within the set, with their number, the most first.
    fn counted(&self, components: &[u32], within: &[u64], usage_only: bool) -> Vec<(u64, u32)> {
        let mut components = components.to_vec();
        components.sort_unstable();
        components.dedup();
        let (all, mut scratch) = (count(within), within.to_vec());
        let mut count_of = |component: u32| {
            let view = self.state.postings.view(component);
            let mut images = 0;
            // By words where that is the shorter way.
            if view.len() as usize > within.len() * POSTINGS_PER_WORD {
                scratch.copy_from_slice(within);
                view.clear_from(&mut scratch, usage_only);
                images = all - count(&scratch);
            } else {
                view.each(0, u32::MAX, |ordinal, used| {
                    images += u64::from(bit(within, ordinal) && (used || !usage_only))
                });
            }
            Some((images, component)).filter(|_| images > 0)
        };
        let mut counted: Vec<_> = components.into_iter().filter_map(&mut count_of).collect();
        counted.sort_unstable_by_key(|&(images, _)| Reverse(images));
        counted
    }

    /// The packages with the most images. Their numbers here tell of what other tenants have, so that names order equals.
    fn most(&self, key: &QueryKey, counted: &[(u64, u32)]) -> Vec<PackageCount> {
        let enough = counted.get(KeyMatch::PACKAGES_MAX - 1).map_or(0, |&(images, _)| images);
        let candidates = counted.iter().take_while(|&&(images, _)| images >= enough);
        let mut most: Vec<_> = candidates
            .map(|&(images, component)| PackageCount { package: self.found(key, component), images })
            .collect();
        most.sort_unstable_by(|a, b| b.images.cmp(&a.images).then_with(|| a.package.cmp(&b.package)));
        most.truncate(KeyMatch::PACKAGES_MAX);
        most
    }

    /// A package that the key has found, and how.
    pub(crate) fn found(&self, key: &QueryKey, component: u32) -> Found {
        let (own, source) = self.state.dictionary.terms_of(component);
        let by_own_name = self.is_found_by(key, own);
        Found {
            purl: self.purl(own),
            source: source.filter(|_| !by_own_name).map(|term| self.purl(term)),
            how: ways(key, by_own_name).collect(),
        }
    }

    /// Whether the key finds a package under this name and version.
    fn is_found_by(&self, key: &QueryKey, term: u32) -> bool {
        let (stored, version) = self.state.dictionary.parts_of(term);
        let Some(name) = decode_name(&stored) else { return false };
        let MatchName { ty, namespace, name: wanted } = key.key.match_name();
        let is_out = || key.ranges().is_some_and(|ranges| ranges.surely_exclude(ty, version.as_deref()));
        name.ty == ty
            && name.name == wanted
            && (key.key.any_namespace() || name.namespace == namespace)
            && key.key.version().is_none_or(|own| Some(own) == version.as_deref())
            && !is_out()
    }

    /// A name and version as a purl, in match form.
    fn purl(&self, term: u32) -> String {
        let (stored, version) = self.state.dictionary.parts_of(term);
        let Some(MatchName { ty, namespace, name }) = decode_name(&stored) else { return String::new() };
        let parts = PurlParts { ty, namespace, name, version: version.as_deref(), ..PurlParts::default() };
        // What the match form makes of a purl may be none to the letter.
        let plain = || [Some(ty), namespace, Some(name)].into_iter().flatten().collect::<Vec<_>>().join("/");
        Purl::build(&parts).map_or_else(|_| format!("pkg:{}", plain()), |purl| purl.as_str().to_owned())
    }
}

fn ways(key: &QueryKey, by_own_name: bool) -> impl Iterator<Item = Way> {
    let version = if key.key.version().is_some() { Way::Exact } else { Way::AllVersions };
    let namespace = key.key.any_namespace().then_some(Way::AnyNamespace);
    let source = (!by_own_name).then_some(Way::SourcePackage);
    [Some(version), namespace, source].into_iter().flatten()
}
