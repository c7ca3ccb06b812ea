use crate::IndexError;
use crate::column::{Column, read, write};
use crate::table::{Slots, Table};
use crate::texts::{Text, Texts};
use arc_swap::Guard;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// In place of a number: there is none.
pub(crate) const NONE: u32 = u32::MAX;

/// How many terms there can be: a bit of their numbers is needed elsewhere.
const TERMS_MAX: u32 = 1 << 31;

/// Names with an optional version, numbered in the order in which they came, with the components of each.
///
/// Everything that leads from a term to its components is in one row, since on the way of a key each table is a cache
/// miss. The texts of versions are kept once, for many packages have the same; an empty version is none.
pub(crate) struct Terms {
    rows: Column<Row>,
    table: Table,
    versions: Texts,
    /// Finds the texts of versions.
    version_table: Table,
    version_seed: u64,
    /// By name: its last term.
    last_of_name: Column<AtomicU32>,
    /// A component with a source, and the link after it.
    links: Column<[AtomicU32; 2]>,
}

/// The name, the place of the version's text, the component of this term alone, the first link to the components with a source that have this
/// term (as their own or as the source's), and the term of the same name that came before.
type Row = [AtomicU32; 5];

/// A row on the way to its comparison.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub(crate) name: u32,
    /// The place of its text.
    version: u32,
}

impl Terms {
    pub(crate) fn new(first_len: u32) -> Self {
        let what = "package versions";
        Self {
            rows: Column::new(what, first_len),
            table: Table::new(),
            versions: Texts::new(what, first_len),
            version_table: Table::new(),
            version_seed: RandomState::new().hash_one(what),
            last_of_name: Column::new(what, first_len),
            links: Column::new(what, first_len),
        }
    }

    /// The hash of a term, from that of its name.
    pub(crate) fn hash(name: u64, version: Option<&str>) -> u64 {
        xxh3_64_with_seed(version.unwrap_or_default().as_bytes(), name)
    }

    pub(crate) fn len(&self) -> u32 {
        self.rows.len()
    }

    /// A further name, without terms.
    pub(crate) fn push_name(&self) -> Result<(), IndexError> {
        self.last_of_name.push(NONE).map(|_| ())
    }

    /// A further term; it is not there yet, its name is.
    pub(crate) fn push(&self, hash: u64, name: u32, version: Option<&str>) -> Result<u32, IndexError> {
        if self.len() >= TERMS_MAX {
            return Err(self.rows.full());
        }
        let version = self.intern_version(version.unwrap_or_default().as_bytes())?;
        let Some(before) = self.last_of_name.value(name) else {
            return Err(IndexError::damaged("the name of a version is missing"));
        };
        let id = self.rows.push([name, version, NONE, NONE, before])?;
        self.last_of_name.set(name, id);
        self.table.insert(hash, id);
        Ok(id)
    }

    /// The place of a version's text.
    fn intern_version(&self, version: &[u8]) -> Result<u32, IndexError> {
        let hash = xxh3_64_with_seed(version, self.version_seed);
        let known = self.version_table.slots().candidates(hash).find(|&place| self.versions.at(place).is(version));
        if let Some(place) = known {
            return Ok(place);
        }
        let place = self.versions.push(version)?;
        self.version_table.insert(hash, place);
        Ok(place)
    }

    /// Where terms are found by their hashes; they are still to be compared.
    pub(crate) fn slots(&self) -> Guard<Arc<Slots>> {
        self.table.slots()
    }

    /// The name and the version; an empty version is none.
    pub(crate) fn get(&self, term: u32) -> (u32, Text<'_>) {
        let found = self.found(term).unwrap_or(Found { name: NONE, version: NONE });
        (found.name, self.versions.at(found.version))
    }

    /// The name and the version, not yet read.
    pub(crate) fn found(&self, term: u32) -> Option<Found> {
        self.rows.get(term).map(|[name, version, ..]| Found { name: read(name), version: read(version) })
    }

    pub(crate) fn has_version(&self, found: Found, version: Option<&str>) -> bool {
        self.versions.at(found.version).is(version.unwrap_or_default().as_bytes())
    }

    /// The length of the version's text in bytes.
    pub(crate) fn version_len(&self, found: Found) -> usize {
        self.versions.len_at(found.version)
    }

    /// The component of the term alone.
    pub(crate) fn plain(&self, term: u32) -> Option<u32> {
        self.rows.get(term).map(|[_, _, plain, ..]| read(plain)).filter(|&component| component != NONE)
    }

    pub(crate) fn set_plain(&self, term: u32, component: u32) {
        if let Some([_, _, plain, ..]) = self.rows.get(term) {
            write(plain, component);
        }
    }

    /// Adds a component to both its terms; on an error to none.
    pub(crate) fn add_sourced(&self, own: u32, source: u32, component: u32) -> Result<(), IndexError> {
        if self.links.len() >= NONE - 3 {
            return Err(self.links.full());
        }
        for term in [own, source] {
            if let Some([_, _, _, sourced, _]) = self.rows.get(term) {
                write(sourced, self.links.push([component, read(sourced)])?);
            }
        }
        Ok(())
    }

    /// The components that have the term, as their own or as their source's; each once.
    pub(crate) fn components(&self, term: u32) -> impl Iterator<Item = u32> {
        let (plain, mut link) =
            self.rows.get(term).map_or((NONE, NONE), |[_, _, plain, sourced, _]| (read(plain), read(sourced)));
        let sourced = std::iter::from_fn(move || {
            let [component, next] = self.links.get(link)?;
            link = read(next);
            Some(read(component))
        });
        Some(plain).filter(|&plain| plain != NONE).into_iter().chain(sourced)
    }

    /// Whether the term has components beside the one of the term alone.
    pub(crate) fn has_sourced(&self, term: u32) -> bool {
        self.rows.get(term).is_some_and(|[_, _, _, sourced, _]| read(sourced) != NONE)
    }

    /// The terms of a name, the last first.
    pub(crate) fn of_name(&self, name: u32) -> impl Iterator<Item = u32> {
        let mut term = self.last_of_name.value(name).unwrap_or(NONE);
        std::iter::from_fn(move || {
            let [.., before] = self.rows.get(term)?;
            Some(std::mem::replace(&mut term, read(before)))
        })
    }

    pub(crate) fn bytes_used(&self) -> usize {
        self.rows.bytes_used()
            + self.versions.bytes_used()
            + self.version_table.bytes_used()
            + self.table.bytes_used()
            + self.last_of_name.bytes_used()
            + self.links.bytes_used()
    }
}
