//! What an answer says of the ways to its images, against loops over the catalog.

use crate::model::{ModelImage, may_be_affected, names, touches, un_narrowed};
use scheduler_impact_index::{Found, KeyMatch, Query, QueryKey, Resolution, Sample, Way};
use scheduler_model::ImageDigest;
use scheduler_model::purl::{Component, MatchName, Purl, PurlParts};
use std::collections::{BTreeMap, BTreeSet};

type Images<'a> = [(&'a ImageDigest, &'a ModelImage)];

fn purl((name, version): (MatchName<'_>, Option<&str>)) -> String {
    let MatchName { ty, namespace, name } = name;
    let parts = PurlParts { ty, namespace, name, version, ..PurlParts::default() };
    Purl::build(&parts).unwrap().as_str().to_owned()
}

/// What the key finds the component as; `None`: it does not.
fn found(key: &QueryKey, component: &Component) -> Option<Found> {
    let of_own = |component: &Component| key.key.matches(component) && may_be_affected(key, component);
    if !of_own(component) {
        return None;
    }
    let mut names = component.names();
    let own = names.next().unwrap();
    let alone = Component::parse(&purl(own), None).unwrap();
    let via_source = !of_own(&alone);
    let mut how = vec![if key.key.version().is_some() { Way::Exact } else { Way::AllVersions }];
    how.extend(Some(Way::AnyNamespace).filter(|_| key.key.any_namespace()));
    how.extend(Some(Way::SourcePackage).filter(|_| via_source));
    Some(Found { purl: purl(own), source: names.next().filter(|_| via_source).map(purl), how })
}

/// What the key finds in an image: each distinct component once.
fn found_in(key: &QueryKey, image: &ModelImage, usage_only: bool) -> Vec<(Vec<String>, Found)> {
    let counts = |at: usize| !usage_only || image.used.as_ref().is_none_or(|used| used.contains(&(at as u32)));
    let all = image.components.iter().enumerate().filter(|(at, _)| counts(*at));
    let distinct: BTreeMap<Vec<String>, Found> = all
        .filter_map(|(_, component)| Some((component.names().map(purl).collect(), found(key, component)?)))
        .collect();
    distinct.into_iter().collect()
}

/// Checks the explanation of an answer that explains all keys and samples all images.
pub fn check(selected: &Images<'_>, answer: &Resolution, query: &Query<'_>) {
    let keys = query.keys.unwrap_or_default();
    let expected: Vec<KeyMatch> =
        keys.iter().enumerate().filter_map(|(at, key)| explain(selected, at, key, query)).collect();
    let sorted = |explained: &[KeyMatch]| -> Vec<KeyMatch> {
        let mut explained = explained.to_vec();
        for one in &mut explained {
            // Of packages with equally many images any may come first.
            one.packages.sort_by_key(|count| (count.images, format!("{:?}", count.package)));
        }
        explained
    };
    assert_eq!(sorted(&answer.explain), sorted(&expected), "{query:?}");
    let by_digest: BTreeMap<_, _> = selected.iter().copied().collect();
    for sample in &answer.sample {
        check_sample(sample, by_digest[&sample.image.digest], keys, query.usage_only);
    }
}

fn explain(selected: &Images<'_>, at: usize, key: &QueryKey, query: &Query<'_>) -> Option<KeyMatch> {
    let touched = |key: &QueryKey| {
        selected.iter().filter(|(digest, image)| touches(key, digest, image, query.usage_only)).count() as u64
    };
    let (images, all) = (touched(key), touched(&un_narrowed(key.clone())));
    if all == 0 {
        return None;
    }
    let mut packages: BTreeMap<Vec<String>, (u64, Found)> = BTreeMap::new();
    let mut how = BTreeSet::new();
    for (digest, image) in selected.iter().filter(|(digest, image)| touches(key, digest, image, query.usage_only)) {
        how.extend(Some(Way::Image).filter(|_| names(key, digest, image)));
        for (names, found) in found_in(key, image, query.usage_only) {
            how.extend(found.how.iter().copied());
            packages.entry(names).or_insert((0, found)).0 += 1;
        }
    }
    Some(KeyMatch {
        key: at,
        how: how.into_iter().collect(),
        images,
        narrowed_away: all - images,
        packages_total: packages.len() as u64,
        packages: packages
            .into_values()
            .map(|(images, package)| scheduler_impact_index::PackageCount { package, images })
            .collect(),
    })
}

fn check_sample(sample: &Sample, image: &ModelImage, keys: &[QueryKey], usage_only: bool) {
    let mut expected: Vec<String> = Vec::new();
    for (at, key) in keys.iter().enumerate().filter(|(_, key)| touches(key, &sample.image.digest, image, usage_only)) {
        let named = names(key, &sample.image.digest, image).then(|| format!("{at} None"));
        expected.extend(named);
        let found = found_in(key, image, usage_only).into_iter().map(|(_, found)| format!("{at} {:?}", Some(found)));
        expected.extend(found);
    }
    let mut shown: Vec<String> = sample.matches.iter().map(|one| format!("{} {:?}", one.key, one.found)).collect();
    assert_eq!(shown.len(), expected.len().min(Sample::MATCHES_MAX), "{sample:?}");
    if expected.len() <= Sample::MATCHES_MAX {
        expected.sort();
        shown.sort();
        assert_eq!(shown, expected);
    }
}
