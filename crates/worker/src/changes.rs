//! Changes of the catalog on their way into the index.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use scheduler_core::ports::CatalogChange;
use scheduler_impact_index::{Change, ImpactIndex, IndexError, PutImage, Thresholds};
use scheduler_model::purl::Component;
use scheduler_model::{CatalogComponent, Image, ImageDigest, TenantId};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A position that no package has.
const NO_PACKAGE: u32 = u32::MAX;

/// Changes with their packages read, so that nothing is left but to apply them.
pub(crate) struct Prepared {
    changes: Vec<CatalogChange>,
    packages: Vec<Component>,
    /// Where the packages of each change are.
    positions: Vec<Vec<u32>>,
}

impl Prepared {
    pub(crate) fn of(changes: Vec<CatalogChange>) -> Self {
        let images = || changes.iter().flat_map(|change| &change.image);
        let mut packages = Packages::for_components(images().map(|image| image.components.len()).sum());
        let components = changes.iter().map(|change| change.image.iter().flat_map(|image| &image.components));
        let positions = components.map(|components| components.map(|stored| packages.of(stored)).collect()).collect();
        Self { packages: packages.parsed, positions, changes }
    }

    pub(crate) fn len(&self) -> usize {
        self.changes.len()
    }

    pub(crate) fn last_sequence(&self) -> Option<u64> {
        self.changes.last().map(|change| change.sequence)
    }

    /// The images that are put.
    pub(crate) fn placed(&self) -> Vec<(TenantId, ImageDigest)> {
        let put = self.changes.iter().filter(|change| change.image.is_some());
        put.map(|change| (change.tenant.clone(), change.digest.clone())).collect()
    }

    pub(crate) fn apply(&self, index: &ImpactIndex) -> Result<(), IndexError> {
        let changes: Vec<Change<'_>> = self
            .changes
            .iter()
            .zip(&self.positions)
            .map(|(change, components)| Change {
                sequence: change.sequence,
                timeline: change.timeline,
                tenant: &change.tenant,
                digest: &change.digest,
                put: change.image.as_ref().map(|image| PutImage {
                    place: &image.place,
                    components,
                    used: image.used.as_deref(),
                }),
            })
            .collect();
        index.apply(&self.packages, &changes)
    }
}

/// A small index of these images and nothing else, to ask them what the whole index cannot answer yet.
pub(crate) fn index_of(images: Vec<Image>) -> Result<ImpactIndex, IndexError> {
    let changes = (1..).zip(images).map(|(sequence, image)| CatalogChange {
        sequence,
        timeline: 0,
        tenant: image.tenant.clone(),
        digest: image.digest.clone(),
        image: Some(Arc::new(image)),
    });
    let index = ImpactIndex::in_memory(Thresholds::default());
    Prepared::of(changes.collect()).apply(&index)?;
    Ok(index)
}

/// The packages of some images, each read once: most images have mostly the same.
struct Packages<'a> {
    parsed: Vec<Component>,
    distinct: Vec<&'a CatalogComponent>,
    /// Of each distinct package, in the order in which they came: where it is in `parsed`.
    positions: Vec<u32>,
    /// Numbers of distinct packages.
    table: HashTable<u32>,
    seed: u64,
}

impl<'a> Packages<'a> {
    /// Room for as many packages as so many components of images usually are.
    fn for_components(components: usize) -> Self {
        let distinct = components / 2;
        Self {
            parsed: Vec::with_capacity(distinct),
            distinct: Vec::with_capacity(distinct),
            positions: Vec::with_capacity(distinct),
            table: HashTable::with_capacity(distinct),
            seed: RandomState::new().hash_one("packages"),
        }
    }

    /// Where the package is among those that were read.
    fn of(&mut self, stored: &'a CatalogComponent) -> u32 {
        let (seed, distinct) = (self.seed, &self.distinct);
        // Sources are compared but not hashed: few purls come with different ones.
        let hash = |stored: &CatalogComponent| xxh3_64_with_seed(stored.purl.as_bytes(), seed);
        let at = |number: u32| distinct.get(number as usize).copied();
        let entry =
            self.table.entry(hash(stored), |&number| at(number) == Some(stored), |&number| at(number).map_or(0, hash));
        let entry = match entry {
            Entry::Occupied(known) => return self.positions.get(*known.get() as usize).copied().unwrap_or(NO_PACKAGE),
            Entry::Vacant(entry) => entry,
        };
        let source = stored.source.as_ref().map(|(name, version)| (name.as_str(), version.as_deref()));
        // The catalog takes purls that parse and nothing else; a position of none is no package.
        let position = match Component::parse(&stored.purl, source) {
            Ok(component) => {
                self.parsed.push(component);
                u32::try_from(self.parsed.len() - 1).unwrap_or(NO_PACKAGE)
            }
            Err(_) => NO_PACKAGE,
        };
        entry.insert(u32::try_from(self.positions.len()).unwrap_or(NO_PACKAGE));
        self.positions.push(position);
        self.distinct.push(stored);
        position
    }
}
