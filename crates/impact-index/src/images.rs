use crate::arena::Blocks;
use crate::chains::Chains;
use crate::column::{Column, read, write};
use crate::edition::Live;
use crate::interner::Interner;
use crate::oci::name_of;
use crate::postings::{ORDINALS_MAX, Postings};
use crate::table::Table;
use crate::terms::NONE;
use crate::view::View;
use crate::{ImageInfo, ImageRef, IndexError, Thresholds};
use scheduler_model::{ImageDigest, ImagePlace, TenantId};
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::AtomicU32;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// An image's digest without its prefix.
pub(crate) type Digest = [u8; 32];

/// What can be selected by: each (tenant, kind, text) is a *facet* with a set of images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Registry = 0,
    Repository = 1,
    /// The last segment of the repository, for `oci` keys.
    RepositoryName = 2,
    Namespace = 3,
    Label = 4,
    Tag = 5,
}

/// The images of all tenants by ordinal, and the facets by which they are selected. Which of them are live is for an edition
/// to say.
pub(crate) struct Images {
    pub(crate) tenants: Interner,
    pub(crate) facets: Interner,
    facet_images: Postings,
    tags_of_tenant: Chains,
    repositories_of_tenant: Chains,
    rows: Column<StoredRow>,
    /// The facets of all rows, one row after the other; of each first registry, repository and its name.
    row_facets: Column<AtomicU32>,
    /// The last image of each tenant and digest; a row leads to the one before it.
    by_digest: Table,
    seed: u64,
    /// Ordinals in the order in which they were retired.
    retired: Column<AtomicU32>,
}

/// Tenant, digest, number of components, end in `row_facets`, the ordinal before of the same tenant and digest.
type StoredRow = [AtomicU32; 12];

/// What is known of an ordinal.
pub(crate) struct Row {
    pub(crate) tenant: u32,
    pub(crate) digest: Digest,
    pub(crate) components: u32,
}

impl Images {
    pub(crate) fn new(thresholds: &Thresholds) -> Self {
        let len = thresholds.piece_len;
        Self {
            tenants: Interner::new("tenants", len),
            facets: Interner::new("tags, labels and repositories", len),
            facet_images: Postings::new(thresholds),
            tags_of_tenant: Chains::new("tags", len),
            repositories_of_tenant: Chains::new("repositories", len),
            rows: Column::new("images", len),
            row_facets: Column::new("images", len),
            by_digest: Table::new(),
            seed: RandomState::new().hash_one("digests"),
            retired: Column::new("images", len),
        }
    }

    pub(crate) fn tenant(&self, tenant: &TenantId) -> Option<u32> {
        self.tenants.find(tenant.as_str().as_bytes())
    }

    /// For the writer alone, as everything that changes.
    pub(crate) fn intern_tenant(&self, tenant: &[u8]) -> Result<u32, IndexError> {
        let (id, fresh) = self.tenants.intern(tenant)?;
        if fresh {
            self.tags_of_tenant.push_list()?;
            self.repositories_of_tenant.push_list()?;
        }
        Ok(id)
    }

    /// Adds a facet in its stored form; its tenant is there already.
    pub(crate) fn intern_facet(&self, key: &[u8]) -> Result<u32, IndexError> {
        let (id, fresh) = self.facets.intern(key)?;
        if fresh {
            self.facet_images.push_set()?;
            let (tenant, kind, _) = decode_facet(key).ok_or_else(|| IndexError::damaged("a facet cannot be read"))?;
            match kind {
                Kind::Tag => self.tags_of_tenant.add(tenant, id)?,
                Kind::Repository => self.repositories_of_tenant.add(tenant, id)?,
                Kind::Registry | Kind::RepositoryName | Kind::Namespace | Kind::Label => {}
            }
        }
        Ok(id)
    }

    /// The facets of a place, each once, in the order of its members.
    pub(crate) fn intern_place(&self, tenant: u32, place: &ImagePlace) -> Result<Vec<u32>, IndexError> {
        let name = name_of(&place.repository);
        let labels: Vec<Vec<u8>> = place.labels.iter().map(|(key, value)| label_text(key, value)).collect();
        let all = [
            (Kind::Registry, place.registry.as_bytes()),
            (Kind::Repository, place.repository.as_bytes()),
            (Kind::RepositoryName, name.as_bytes()),
        ];
        let all = all
            .into_iter()
            .chain(place.namespaces.iter().map(|text| (Kind::Namespace, text.as_bytes())))
            .chain(labels.iter().map(|text| (Kind::Label, text.as_slice())))
            .chain(place.tags.iter().map(|text| (Kind::Tag, text.as_bytes())));
        let mut facets = Vec::new();
        let mut seen = HashSet::new();
        for (kind, text) in all {
            let facet = self.intern_facet(&facet_key(tenant, kind, text))?;
            if seen.insert(facet) {
                facets.push(facet);
            }
        }
        Ok(facets)
    }

    /// Gives the next ordinal. Nobody finds the image before [`Self::enter`]; on an error the ordinal is spent.
    pub(crate) fn push(
        &self,
        blocks: &mut Blocks,
        tenant: u32,
        digest: &Digest,
        facets: &[u32],
        components: u32,
    ) -> Result<u32, IndexError> {
        if self.len() >= ORDINALS_MAX {
            return Err(self.rows.full());
        }
        for &facet in facets {
            self.row_facets.push(facet)?;
        }
        let (words, _) = digest.as_chunks::<4>();
        let end = self.row_facets.len();
        let fields = std::iter::once(tenant)
            .chain(words.iter().map(|word| u32::from_le_bytes(*word)))
            .chain([components, end, NONE]);
        let ordinal =
            self.rows.push_with(|row| row.iter().zip(fields).for_each(|(place, field)| write(place, field)))?;
        for &facet in facets {
            if let Err(error) = self.facet_images.append(blocks, facet, ordinal, true) {
                self.retired.push(ordinal)?;
                return Err(error);
            }
        }
        Ok(ordinal)
    }

    /// Lets an image be found by its digest.
    pub(crate) fn enter(&self, ordinal: u32) {
        let (Some(row), Some(stored)) = (self.row(ordinal), self.rows.get(ordinal)) else { return };
        let hash = digest_hash(self.seed, row.tenant, &row.digest);
        let [.., before] = stored;
        match self.last_of(row.tenant, &row.digest) {
            Some(last) => {
                write(before, last);
                self.by_digest.replace(hash, last, ordinal);
            }
            None => self.by_digest.insert(hash, ordinal),
        }
    }

    /// Notes that an image is replaced or gone.
    pub(crate) fn retire(&self, ordinal: u32) -> Result<(), IndexError> {
        self.retired.push(ordinal).map(|_| ())
    }

    /// How many ordinals were given.
    pub(crate) fn len(&self) -> u32 {
        self.rows.len()
    }

    pub(crate) fn retired_len(&self) -> u32 {
        self.retired.len()
    }

    /// Some of the ordinals that were retired, in the order in which they were.
    pub(crate) fn retired(&self, places: std::ops::Range<u32>) -> impl Iterator<Item = u32> {
        places.filter_map(|at| self.retired.value(at))
    }

    pub(crate) fn tenant_of(&self, ordinal: u32) -> Option<u32> {
        self.rows.get(ordinal).map(|[tenant, ..]| read(tenant))
    }

    pub(crate) fn row(&self, ordinal: u32) -> Option<Row> {
        let [tenant, digest @ .., components, _, _] = self.rows.get(ordinal)?;
        let mut bytes = [0; 32];
        let (words, _) = bytes.as_chunks_mut::<4>();
        words.iter_mut().zip(digest).for_each(|(bytes, word)| *bytes = read(word).to_le_bytes());
        Some(Row { tenant: read(tenant), digest: bytes, components: read(components) })
    }

    pub(crate) fn facets_of(&self, ordinal: u32) -> impl Iterator<Item = u32> {
        let end = |ordinal: u32| self.rows.get(ordinal).map_or(0, |[.., end, _]| read(end));
        let start = ordinal.checked_sub(1).map_or(0, end);
        (start..end(ordinal)).filter_map(|at| self.row_facets.value(at))
    }

    /// The tenant's live image of the digest.
    pub(crate) fn find(&self, live: &Live, tenant: u32, digest: &Digest) -> Option<u32> {
        let mut next = self.last_of(tenant, digest);
        let chain = std::iter::from_fn(|| {
            let ordinal = next?;
            next = self.rows.get(ordinal).map(|[.., before]| read(before)).filter(|&before| before != NONE);
            Some(ordinal)
        });
        chain.into_iter().find(|&ordinal| live.has(tenant, ordinal))
    }

    fn last_of(&self, tenant: u32, digest: &Digest) -> Option<u32> {
        let slots = self.by_digest.slots();
        let is_it = |at: &u32| self.row(*at).is_some_and(|row| row.tenant == tenant && row.digest == *digest);
        slots.candidates(digest_hash(self.seed, tenant, digest)).find(is_it)
    }

    /// The images of a facet, retired ones included.
    pub(crate) fn with_facet(&self, tenant: u32, kind: Kind, text: &[u8]) -> Option<View<'_>> {
        Some(self.facet_images.view(self.facets.find(&facet_key(tenant, kind, text))?))
    }

    /// The distinct tags of the tenant's images, with the images of each; retired ones included.
    pub(crate) fn tags(&self, tenant: u32) -> impl Iterator<Item = (String, View<'_>)> {
        self.tags_of_tenant.iter(tenant).map(|facet| (self.facet_text(facet), self.facet_images.view(facet)))
    }

    pub(crate) fn facet_text(&self, facet: u32) -> String {
        let stored = self.facets.get(facet).to_vec();
        let text = decode_facet(&stored).and_then(|(_, _, text)| std::str::from_utf8(text).ok());
        text.unwrap_or_default().to_owned()
    }

    /// The facet of the image's repository.
    pub(crate) fn repository_facet(&self, ordinal: u32) -> Option<u32> {
        self.facets_of(ordinal).nth(1)
    }

    /// The tenant's repositories with how many images each has, those that are not live included: size and facet.
    pub(crate) fn repositories(&self, tenant: u32) -> Vec<(u32, u32)> {
        let facets = self.repositories_of_tenant.iter(tenant);
        facets.map(|facet| (self.facet_images.view(facet).len(), facet)).collect()
    }

    /// The images of a repository's facet, those that are not live included.
    pub(crate) fn with_repository(&self, facet: u32) -> View<'_> {
        self.facet_images.view(facet)
    }

    /// The live images of the tenant that a key names itself, ascending (IDX-2).
    pub(crate) fn named_by(&self, live: &Live, tenant: u32, image: &ImageRef, found: &mut Vec<u32>) {
        let is_live = |ordinal: &u32| live.has(tenant, *ordinal);
        let start = found.len();
        match image {
            ImageRef::Digest(digest) => found.extend(self.find(live, tenant, &digest_bytes(digest))),
            ImageRef::Name(name) => {
                if let Some(view) = self.with_facet(tenant, Kind::RepositoryName, name.as_bytes()) {
                    view.each(0, u32::MAX, |ordinal, _| found.extend(Some(ordinal).filter(is_live)));
                }
            }
            ImageRef::Location(location) => {
                let splits = location.match_indices('/').map(|(at, _)| at);
                // No registry at all, or everything before one of the slashes.
                for registry_len in std::iter::once(None).chain(splits.map(Some)) {
                    let (registry, repository) = match registry_len {
                        None => ("", location.as_str()),
                        Some(at) => {
                            (location.get(..at).unwrap_or_default(), location.get(at + 1..).unwrap_or_default())
                        }
                    };
                    let Some(view) = self.with_facet(tenant, Kind::Repository, repository.as_bytes()) else { continue };
                    view.each(0, u32::MAX, |ordinal, _| {
                        let facet = self.facets_of(ordinal).next().unwrap_or_default();
                        // A host's name has no case.
                        if is_live(&ordinal) && self.facet_text(facet).eq_ignore_ascii_case(registry) {
                            found.push(ordinal);
                        }
                    });
                }
                if let Some(added) = found.get_mut(start..) {
                    added.sort_unstable();
                }
            }
        }
    }

    /// What is known of an image.
    pub(crate) fn info(&self, ordinal: u32) -> Option<ImageInfo> {
        let row = self.row(ordinal)?;
        let text = |at: usize| self.facets_of(ordinal).nth(at).map(|facet| self.facet_text(facet)).unwrap_or_default();
        let is_tag = |facet: &u32| matches!(decode_facet(&self.facets.get(*facet).to_vec()), Some((_, Kind::Tag, _)));
        Some(ImageInfo {
            digest: digest_text(&row.digest),
            registry: text(0),
            repository: text(1),
            tags: self.facets_of(ordinal).filter(is_tag).map(|facet| self.facet_text(facet)).collect(),
        })
    }

    pub(crate) fn bytes_used(&self) -> usize {
        self.tenants.bytes_used()
            + self.facets.bytes_used()
            + self.facet_images.bytes_used()
            + self.tags_of_tenant.bytes_used()
            + self.repositories_of_tenant.bytes_used()
            + self.rows.bytes_used()
            + self.row_facets.bytes_used()
            + self.retired.bytes_used()
            + self.by_digest.bytes_used()
    }
}

fn digest_hash(seed: u64, tenant: u32, digest: &Digest) -> u64 {
    xxh3_64_with_seed(digest, seed ^ u64::from(tenant))
}

/// A facet in its stored form.
pub(crate) fn facet_key(tenant: u32, kind: Kind, text: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(text.len() + 5);
    key.extend_from_slice(&tenant.to_le_bytes());
    key.push(kind as u8);
    key.extend_from_slice(text);
    key
}

/// Tenant, kind and text of a facet in its stored form; `None` when it is none.
pub(crate) fn decode_facet(key: &[u8]) -> Option<(u32, Kind, &[u8])> {
    let (tenant, rest) = key.split_first_chunk()?;
    let (kind, text) = rest.split_first()?;
    let kind = match kind {
        0 => Kind::Registry,
        1 => Kind::Repository,
        2 => Kind::RepositoryName,
        3 => Kind::Namespace,
        4 => Kind::Label,
        5 => Kind::Tag,
        _ => return None,
    };
    Some((u32::from_le_bytes(*tenant), kind, text))
}

/// A label as a facet's text: the key's length, the key, the value.
pub(crate) fn label_text(key: &str, value: &str) -> Vec<u8> {
    let mut text = (key.len() as u64).to_le_bytes().to_vec();
    text.extend_from_slice(key.as_bytes());
    text.extend_from_slice(value.as_bytes());
    text
}

pub(crate) fn digest_bytes(digest: &ImageDigest) -> Digest {
    let hex = digest.as_str().as_bytes().get(7..).unwrap_or_default();
    let nibble = |byte: u8| if byte.is_ascii_digit() { byte - b'0' } else { byte.wrapping_sub(b'a').wrapping_add(10) };
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
        *byte = pair.iter().fold(0, |byte: u8, &digit| (byte << 4) | (nibble(digit) & 15));
    }
    bytes
}

pub(crate) fn digest_text(digest: &Digest) -> ImageDigest {
    const HEX: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let mut text = String::with_capacity(71);
    text.push_str("sha256:");
    for byte in digest {
        text.extend([byte >> 4, byte & 15].iter().filter_map(|&nibble| HEX.get(usize::from(nibble))));
    }
    #[expect(clippy::expect_used, reason = "a prefix and 64 hexadecimal digits are a digest by construction")]
    ImageDigest::try_from(text).expect("a digest")
}
