//! The catalog as a map, and the rules of the contract written down as loops over it.

use crate::explaining;
use scheduler_impact_index::{Change, ImpactIndex, PutImage, Query, QueryKey, Resolution, Want};
use scheduler_model::purl::{Component, ProductKey};
use scheduler_model::{ImageDigest, ImagePlace, Selection, TenantId, glob_matches};
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
pub struct ModelImage {
    pub place: ImagePlace,
    pub components: Vec<Component>,
    pub used: Option<Vec<u32>>,
}

#[derive(Debug, Clone)]
pub struct Op {
    pub tenant: TenantId,
    pub digest: ImageDigest,
    pub put: Option<ModelImage>,
}

#[derive(Debug, Default, Clone)]
pub struct Model(pub BTreeMap<(TenantId, ImageDigest), ModelImage>);

impl Model {
    pub fn of(ops: &[Op]) -> Self {
        let mut model = Self::default();
        ops.iter().for_each(|op| model.apply(op));
        model
    }

    pub fn apply(&mut self, op: &Op) {
        let name = (op.tenant.clone(), op.digest.clone());
        match &op.put {
            Some(image) => drop(self.0.insert(name, image.clone())),
            None => drop(self.0.remove(&name)),
        }
    }

    pub fn of_tenant(&self, tenant: &TenantId) -> impl Iterator<Item = (&ImageDigest, &ModelImage)> {
        self.0.iter().filter(move |((owner, _), _)| owner == tenant).map(|((_, digest), image)| (digest, image))
    }

    /// How many images a query selects, and which of them it touches.
    pub fn answer(&self, query: &Query<'_>) -> (u64, Vec<ImageDigest>) {
        let selected: Vec<_> =
            self.of_tenant(query.tenant).filter(|(digest, image)| selects(query.selection, digest, image)).collect();
        let is_touched = |digest: &ImageDigest, image: &ModelImage| {
            query.keys.is_none_or(|keys| keys.iter().any(|key| touches(key, digest, image, query.usage_only)))
        };
        let touched = selected.iter().filter(|(digest, image)| is_touched(digest, image));
        (selected.len() as u64, touched.map(|(digest, _)| (*digest).clone()).collect())
    }

    /// What the index has to answer.
    pub fn check(&self, index: &ImpactIndex, query: &Query<'_>) {
        let selected: Vec<_> =
            self.of_tenant(query.tenant).filter(|(digest, image)| selects(query.selection, digest, image)).collect();
        let touching = |digest: &ImageDigest, image: &ModelImage| -> Vec<usize> {
            let keys = query.keys.unwrap_or_default().iter().enumerate();
            keys.filter(|(_, key)| touches(key, digest, image, query.usage_only)).map(|(at, _)| at).collect()
        };
        let expected: Vec<_> = selected
            .iter()
            .map(|(digest, image)| (*digest, *image, touching(digest, image)))
            .filter(|(_, _, keys)| query.keys.is_none() || !keys.is_empty())
            .collect();
        let full: Vec<QueryKey> = query.keys.unwrap_or_default().iter().cloned().map(un_narrowed).collect();
        let would_touch = |digest: &ImageDigest, image: &ModelImage| {
            query.keys.is_none() || full.iter().any(|key| touches(key, digest, image, query.usage_only))
        };
        let narrowed_away =
            selected.iter().filter(|(digest, image)| would_touch(digest, image)).count() - expected.len();
        let matched = query.keys.unwrap_or_default().iter().filter(|key| {
            self.of_tenant(query.tenant).any(|(digest, image)| {
                names(key, digest, image) || image.components.iter().any(|component| key.key.matches(component))
            })
        });
        let mut repositories: BTreeMap<&str, u64> = BTreeMap::new();
        expected.iter().for_each(|(_, image, _)| *repositories.entry(&image.place.repository).or_default() += 1);
        let mut repositories: Vec<_> = repositories.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
        repositories.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        repositories.truncate(2);

        let matched = matched.count() as u64;
        let all =
            index.resolve(query, Want { sample: usize::MAX, explain: usize::MAX, by_repository: 2, digests: true });
        assert_eq!(all.total, selected.len() as u64, "total of {query:?}");
        let digests: Vec<_> = all.digests.iter().map(|image| (&image.digest, image.repository.as_str())).collect();
        let wanted: Vec<_> =
            expected.iter().map(|(digest, image, _)| (*digest, image.place.repository.as_str())).collect();
        assert_eq!(digests, wanted, "images of {query:?}");
        assert_eq!((all.candidates, all.images.len()), (wanted.len() as u64, wanted.len() as u64));
        assert_eq!(all.narrowed_away, narrowed_away as u64, "images that ranges leave out of {query:?}");
        assert_eq!(all.keys_matched, matched, "matched keys of {query:?}");
        assert_eq!(all.keys_unknown, query.keys.map_or(0, <[QueryKey]>::len) as u64 - matched);
        assert_eq!(all.by_repository, repositories);
        assert_eq!(all.sample.len(), expected.len());
        let by_digest: BTreeMap<_, _> =
            expected.iter().map(|(digest, image, keys)| (*digest, (*image, keys))).collect();
        for sample in &all.sample {
            let (image, keys) = by_digest[&sample.image.digest];
            assert_eq!(&sample.matched_keys, keys, "keys that touch {} in {query:?}", sample.image.digest);
            assert_eq!(sample.image.registry, image.place.registry);
            let mut tags = Vec::new();
            image
                .place
                .tags
                .iter()
                .filter(|tag| !tags.contains(*tag))
                .cloned()
                .collect::<Vec<_>>()
                .clone_into(&mut tags);
            assert_eq!(sample.image.tags.iter().collect::<std::collections::BTreeSet<_>>(), tags.iter().collect());
        }

        explaining::check(&selected, &all, query);

        let few = index.resolve(query, Want { sample: 2, ..Want::default() });
        assert_eq!(few.sample[..], all.sample[..few.sample.len()]);
        let plain = index.resolve(query, Want::default());
        assert_eq!(
            plain,
            Resolution { digests: vec![], by_repository: vec![], explain: vec![], sample: vec![], ..all }
        );
    }
}

fn selects(selection: &Selection, digest: &ImageDigest, image: &ModelImage) -> bool {
    let place = &image.place;
    let any = |wanted: &[String], has: &[String]| wanted.is_empty() || wanted.iter().any(|text| has.contains(text));
    any(&selection.namespaces, &place.namespaces)
        && any(&selection.repositories, std::slice::from_ref(&place.repository))
        && (selection.digests.is_empty() || selection.digests.contains(digest))
        && selection.labels.iter().all(|(key, value)| place.labels.get(key) == Some(value))
        && (selection.include_tags.is_empty()
            || place.tags.iter().any(|tag| selection.include_tags.iter().any(|glob| glob_matches(glob, tag))))
}

fn has(image: &ModelImage, key: &ProductKey, usage_only: bool) -> bool {
    let counts = |at: usize| !usage_only || image.used.as_ref().is_none_or(|used| used.contains(&(at as u32)));
    image.components.iter().enumerate().any(|(at, component)| counts(at) && key.matches(component))
}

/// Whether the key is of an image itself, and of this one.
pub fn names(key: &QueryKey, digest: &ImageDigest, image: &ModelImage) -> bool {
    let purl = key.key.purl();
    if purl.ty() != "oci" {
        return false;
    }
    if let Some(version) = purl.version().filter(|version| ImageDigest::try_from((*version).to_owned()).is_ok()) {
        return version == digest.as_str();
    }
    let place = &image.place;
    match purl.qualifier("repository_url") {
        Some(url) if place.registry.is_empty() => url == place.repository,
        Some(url) => url == format!("{}/{}", place.registry, place.repository),
        None => place.repository.rsplit('/').next() == Some(purl.name()),
    }
}

pub fn un_narrowed(key: QueryKey) -> QueryKey {
    QueryKey { affected: None, ..key }
}

/// Whether one of the names under which the key finds the component has a version that is not surely another than the
/// affected ones.
pub fn may_be_affected(key: &QueryKey, component: &Component) -> bool {
    let Some(ranges) = &key.affected else { return true };
    if key.key.version().is_some() || key.subcomponent.is_some() {
        return true;
    }
    let wanted = key.key.match_name();
    component.names().any(|(name, version)| {
        let is_it = name.ty == wanted.ty
            && name.name == wanted.name
            && (key.key.any_namespace() || name.namespace == wanted.namespace);
        is_it && !ranges.surely_exclude(name.ty, version)
    })
}

fn has_affected(image: &ModelImage, key: &QueryKey, usage_only: bool) -> bool {
    let components = image.components.iter().enumerate().filter(|(_, one)| may_be_affected(key, one));
    let (components, used): (Vec<_>, Vec<_>) = components
        .map(|(at, one)| (one.clone(), image.used.as_ref().is_none_or(|used| used.contains(&(at as u32)))))
        .unzip();
    let used = (0..).zip(used).filter(|(_, used)| *used).map(|(at, _)| at).collect();
    has(&ModelImage { place: image.place.clone(), components, used: Some(used) }, &key.key, usage_only)
}

pub fn touches(key: &QueryKey, digest: &ImageDigest, image: &ModelImage, usage_only: bool) -> bool {
    (names(key, digest, image) || has_affected(image, key, usage_only))
        && key.subcomponent.as_ref().is_none_or(|part| has(image, part, usage_only))
}

/// What all changes are in; as long as one can be.
pub const TIMELINE: u64 = 0x8765_4321_0fed_cba9;

/// Applies operations as the catalog's changes from the sequence on.
pub fn apply(index: &ImpactIndex, from: u64, ops: &[Op]) {
    let mut packages: Vec<Component> = Vec::new();
    let mut positions: Vec<Vec<u32>> = Vec::new();
    for op in ops {
        let of_image = op.put.iter().flat_map(|image| &image.components);
        // Packages are looked up each once, as the service does it, except that some are there twice.
        let place = |component: &Component| {
            let known = packages.iter().rev().take(40).position(|known| known == component);
            let at = known.map(|back| packages.len() - 1 - back);
            at.unwrap_or_else(|| {
                packages.push(component.clone());
                packages.len() - 1
            }) as u32
        };
        positions.push(of_image.map(place).collect());
    }
    let changes: Vec<Change<'_>> = (from..)
        .zip(ops.iter().zip(&positions))
        .map(|(sequence, (op, components))| Change {
            sequence,
            timeline: TIMELINE,
            tenant: &op.tenant,
            digest: &op.digest,
            put: op.put.as_ref().map(|image| PutImage { place: &image.place, components, used: image.used.as_deref() }),
        })
        .collect();
    index.apply(&packages, &changes).unwrap();
}
