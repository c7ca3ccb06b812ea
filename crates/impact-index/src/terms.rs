use crate::IndexError;
use crate::interner::Interner;
use crate::table::Table;
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
    rows: Vec<Row>,
    versions: Interner,
    table: Table,
    /// By name: its last term.
    last_of_name: Vec<u32>,
    /// A component with a source, and the link after it.
    links: Vec<(u32, u32)>,
}

#[derive(Clone, Copy)]
struct Row {
    name: u32,
    version: u32,
    /// The component of this term alone.
    plain: u32,
    /// The first link to the components with a source that have this term, as their own or as the source's.
    sourced: u32,
    /// The term of the same name that came before.
    before: u32,
}

/// A row on the way to its comparison.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub(crate) name: u32,
    version: u32,
}

impl Terms {
    pub(crate) fn new() -> Self {
        Self {
            rows: Vec::new(),
            versions: Interner::new("package versions"),
            table: Table::new(),
            last_of_name: Vec::new(),
            links: Vec::new(),
        }
    }

    /// The hash of a term, from that of its name.
    pub(crate) fn hash(name: u64, version: Option<&str>) -> u64 {
        xxh3_64_with_seed(version.unwrap_or_default().as_bytes(), name)
    }

    pub(crate) fn len(&self) -> u32 {
        // Every push checked it.
        u32::try_from(self.rows.len()).unwrap_or(u32::MAX)
    }

    /// A further name, without terms.
    pub(crate) fn push_name(&mut self) {
        self.last_of_name.push(NONE);
    }

    /// A further term; it is not there yet, its name is.
    pub(crate) fn push(&mut self, hash: u64, name: u32, version: Option<&str>) -> Result<u32, IndexError> {
        let full = || IndexError::Full("package versions");
        let id = u32::try_from(self.rows.len()).ok().filter(|&id| id < TERMS_MAX).ok_or_else(full)?;
        let (version, _) = self.versions.intern(version.unwrap_or_default().as_bytes())?;
        let Some(last) = self.last_of_name.get_mut(name as usize) else {
            return Err(IndexError::damaged("the name of a version is missing"));
        };
        let before = std::mem::replace(last, id);
        self.rows.push(Row { name, version, plain: NONE, sourced: NONE, before });
        self.table.insert(hash, id);
        Ok(id)
    }

    /// The terms under this hash; they are still to be compared.
    pub(crate) fn candidates(&self, hash: u64) -> impl Iterator<Item = u32> {
        self.table.candidates(hash)
    }

    /// The first of them; nearly always there is no other.
    pub(crate) fn first(&self, hash: u64) -> Option<u32> {
        self.table.first(hash)
    }

    /// The name and the version.
    pub(crate) fn get(&self, term: u32) -> (u32, Option<&str>) {
        let Some(found) = self.found(term) else { return (NONE, None) };
        // It came in as a text, or was checked when it was loaded.
        let version = std::str::from_utf8(self.versions.get(found.version)).ok();
        (found.name, version.filter(|version| !version.is_empty()))
    }

    /// The name and the version, not yet read.
    pub(crate) fn found(&self, term: u32) -> Option<Found> {
        self.row(term).map(|row| Found { name: row.name, version: row.version })
    }

    pub(crate) fn has_version(&self, found: Found, version: Option<&str>) -> bool {
        self.versions.get(found.version) == version.unwrap_or_default().as_bytes()
    }

    /// The component of the term alone.
    pub(crate) fn plain(&self, term: u32) -> Option<u32> {
        self.row(term).map(|row| row.plain).filter(|&component| component != NONE)
    }

    pub(crate) fn set_plain(&mut self, term: u32, component: u32) {
        if let Some(row) = self.rows.get_mut(term as usize) {
            row.plain = component;
        }
    }

    /// Adds a component to both its terms; on an error to none.
    pub(crate) fn add_sourced(&mut self, own: u32, source: u32, component: u32) -> Result<(), IndexError> {
        let first = u32::try_from(self.links.len()).ok().filter(|&link| link < NONE - 2);
        let first = first.ok_or(IndexError::Full("components"))?;
        for (link, term) in (first..).zip([own, source]) {
            if let Some(row) = self.rows.get_mut(term as usize) {
                self.links.push((component, std::mem::replace(&mut row.sourced, link)));
            }
        }
        Ok(())
    }

    /// The components that have the term, as their own or as their source's; each once.
    pub(crate) fn components(&self, term: u32) -> impl Iterator<Item = u32> {
        let (plain, mut link) = self.row(term).map_or((NONE, NONE), |row| (row.plain, row.sourced));
        let sourced = std::iter::from_fn(move || {
            let &(component, next) = self.links.get(link as usize)?;
            link = next;
            Some(component)
        });
        Some(plain).filter(|&plain| plain != NONE).into_iter().chain(sourced)
    }

    /// Whether the term has components beside the one of the term alone.
    pub(crate) fn has_sourced(&self, term: u32) -> bool {
        self.row(term).is_some_and(|row| row.sourced != NONE)
    }

    /// The terms of a name, the last first.
    pub(crate) fn of_name(&self, name: u32) -> impl Iterator<Item = u32> {
        let mut term = self.last_of_name.get(name as usize).copied().unwrap_or(NONE);
        std::iter::from_fn(move || {
            let row = self.row(term)?;
            Some(std::mem::replace(&mut term, row.before))
        })
    }

    fn row(&self, term: u32) -> Option<&Row> {
        self.rows.get(term as usize)
    }

    pub(crate) fn bytes_used(&self) -> usize {
        self.rows.capacity() * size_of::<Row>()
            + self.versions.bytes_used()
            + self.table.bytes_used()
            + self.last_of_name.capacity() * 4
            + self.links.capacity() * 8
    }
}
