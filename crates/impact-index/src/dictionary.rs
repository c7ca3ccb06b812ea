use crate::IndexError;
use crate::chains::Chains;
use crate::column::{Column, read};
use crate::interner::Interner;
use crate::naming::{bare_key, decode_name, decode_term, encode_name, has_bare};
use crate::table::Table;
use crate::terms::{NONE, Terms};
use scheduler_model::purl::{Component, MatchName};
use std::sync::atomic::AtomicU32;

/// The bit that says that a component has a source. Terms and pairs are fewer.
const SOURCED: u32 = 1 << 31;

/// A name with an optional version, as it is looked up.
pub(crate) type Ask<'a> = (MatchName<'a>, Option<&'a str>);

/// The components and the names under which keys find them.
///
/// A *name* is (type, namespace, name), a *term* a name with an optional version, and a *component* its own term with,
/// of distribution packages, the source's term. Two components of equal terms are found by the same keys, hence they
/// are one. All are numbered in the order in which they came.
pub(crate) struct Dictionary {
    pub(crate) names: Interner,
    pub(crate) terms: Terms,
    /// The term of each component, or [`SOURCED`] and where in `pairs` its two terms are.
    components: Column<AtomicU32>,
    /// Own term and source's.
    pairs: Column<[AtomicU32; 2]>,
    /// Finds components with a source by their terms; one without stands at its term.
    sourced: Table,
    /// (type, name) of the types whose keys may leave the namespace out.
    pub(crate) bare: Interner,
    pub(crate) names_of_bare: Chains,
}

impl Dictionary {
    pub(crate) fn new(first_len: u32) -> Self {
        let (names, components) = ("package names", "components");
        Self {
            names: Interner::new(names, first_len),
            terms: Terms::new(first_len),
            components: Column::new(components, first_len),
            pairs: Column::new(components, first_len),
            sourced: Table::new(),
            bare: Interner::new(names, first_len),
            names_of_bare: Chains::new(names, first_len),
        }
    }

    /// How many components there are.
    pub(crate) fn len(&self) -> u32 {
        self.components.len()
    }

    /// The number of the component. For the writer alone, as everything that changes.
    pub(crate) fn intern(&self, component: &Component) -> Result<u32, IndexError> {
        let mut terms = [None; 2];
        for (term, (name, version)) in terms.iter_mut().zip(component.names()) {
            *term = Some(self.intern_term(&name, version)?);
        }
        let [own, source] = terms;
        // A component has a name of its own.
        let own = own.unwrap_or(NONE);
        self.intern_terms(own, source.filter(|&source| source != own))
    }

    fn intern_term(&self, name: &MatchName<'_>, version: Option<&str>) -> Result<u32, IndexError> {
        let mut key = Vec::new();
        encode_name(&mut key, name);
        let of_name = self.names.hash(&key);
        let hash = Terms::hash(of_name, version);
        match self.find_term(hash, &key, version) {
            Some(term) => Ok(term),
            None => self.terms.push(hash, self.intern_hashed_name(of_name, &key)?, version),
        }
    }

    /// Adds a name in its stored form.
    pub(crate) fn intern_name(&self, key: &[u8]) -> Result<u32, IndexError> {
        self.intern_hashed_name(self.names.hash(key), key)
    }

    fn intern_hashed_name(&self, hash: u64, key: &[u8]) -> Result<u32, IndexError> {
        if let Some(id) = self.names.find_hashed(hash, key) {
            return Ok(id);
        }
        let Some(name) = decode_name(key) else { return Err(IndexError::damaged("a name cannot be read")) };
        // First what may fail, so that a name is never half there.
        let bare = if has_bare(name.ty) {
            let (bare, fresh) = self.bare.intern(&bare_key(name.ty, name.name))?;
            if fresh {
                self.names_of_bare.push_list()?;
            }
            Some(bare)
        } else {
            None
        };
        let id = self.names.push(hash, key)?;
        self.terms.push_name()?;
        if let Some(bare) = bare {
            self.names_of_bare.add(bare, id)?;
        }
        Ok(id)
    }

    /// Adds a term by the name, which is there already, and its version.
    pub(crate) fn intern_version(&self, name: u32, version: Option<&str>) -> Result<u32, IndexError> {
        let key = self.names.get(name).to_vec();
        let hash = self.term_hash(&key, version);
        match self.find_term(hash, &key, version) {
            Some(term) => Ok(term),
            None => self.terms.push(hash, name, version),
        }
    }

    /// Adds a component by its terms, which are there already.
    pub(crate) fn intern_terms(&self, own: u32, source: Option<u32>) -> Result<u32, IndexError> {
        if let Some(id) = self.find_component(own, source) {
            return Ok(id);
        }
        match source {
            None => {
                let id = self.components.push(own)?;
                self.terms.set_plain(own, id);
                Ok(id)
            }
            Some(source) => {
                let pair = self.pairs.push([own, source])?;
                if pair >= SOURCED {
                    return Err(self.pairs.full());
                }
                let id = self.components.push(pair | SOURCED)?;
                self.terms.add_sourced(own, source, id)?;
                self.sourced.insert(self.pair_hash(own, source), id);
                Ok(id)
            }
        }
    }

    /// The component of these terms.
    pub(crate) fn find_component(&self, own: u32, source: Option<u32>) -> Option<u32> {
        match source {
            None => self.terms.plain(own),
            Some(source) => {
                let slots = self.sourced.slots();
                slots.candidates(self.pair_hash(own, source)).find(|&id| self.terms_of(id) == (own, Some(source)))
            }
        }
    }

    fn pair_hash(&self, own: u32, source: u32) -> u64 {
        self.names.hash(&(u64::from(own) << 32 | u64::from(source)).to_le_bytes())
    }

    /// The hash of a term, from its name in stored form.
    pub(crate) fn term_hash(&self, name: &[u8], version: Option<&str>) -> u64 {
        Terms::hash(self.names.hash(name), version)
    }

    /// The term, from its hash and its name in stored form.
    pub(crate) fn find_term(&self, hash: u64, name: &[u8], version: Option<&str>) -> Option<u32> {
        self.terms.slots().candidates(hash).find(|&term| self.is_term(term, name, version))
    }

    pub(crate) fn is_term(&self, term: u32, name: &[u8], version: Option<&str>) -> bool {
        let Some(found) = self.terms.found(term) else { return false };
        self.terms.has_version(found, version) && self.names.get(found.name).is(name)
    }

    /// The terms of a component: its own and its source's.
    pub(crate) fn terms_of(&self, component: u32) -> (u32, Option<u32>) {
        let component = self.components.value(component).unwrap_or(NONE);
        if component & SOURCED == 0 {
            return (component, None);
        }
        let pair = self.pairs.get(component & !SOURCED);
        pair.map_or((NONE, None), |[own, source]| (read(own), Some(read(source))))
    }

    /// Appends the term in its stored form.
    pub(crate) fn put_term(&self, out: &mut Vec<u8>, term: u32) {
        let (name, version) = self.terms.get(term);
        out.extend_from_slice(&name.to_le_bytes());
        if !version.is_empty() {
            out.push(1);
            version.append_to(out);
        }
    }

    /// Adds a term in its stored form; its name is there already.
    pub(crate) fn intern_term_key(&self, key: &[u8]) -> Result<u32, IndexError> {
        let (name, version) = decode_term(key).ok_or_else(|| IndexError::damaged("a version cannot be read"))?;
        self.intern_version(name, version)
    }

    /// The name of a term in its stored form, and its version.
    pub(crate) fn parts_of(&self, term: u32) -> (Vec<u8>, Option<String>) {
        let (name, _) = self.terms.get(term);
        (self.names.get(name).to_vec(), self.version_of(term))
    }

    /// The version of a term.
    pub(crate) fn version_of(&self, term: u32) -> Option<String> {
        let (_, version) = self.terms.get(term);
        // It came in as a text, or was checked when it was loaded.
        String::from_utf8(version.to_vec()).ok().filter(|version| !version.is_empty())
    }

    /// The component in another dictionary that has the same names, if there is one.
    pub(crate) fn counterpart(&self, component: u32, other: &Self) -> Option<u32> {
        let there = |term| {
            let (name, version) = self.parts_of(term);
            other.find_term(other.term_hash(&name, version.as_deref()), &name, version.as_deref())
        };
        let (own, source) = self.terms_of(component);
        let own = there(own)?;
        match source {
            None => other.find_component(own, None),
            Some(source) => other.find_component(own, Some(there(source)?)),
        }
    }

    /// Copies a component, with its names, from another dictionary.
    pub(crate) fn copy_from(&self, other: &Self, component: u32) -> Result<u32, IndexError> {
        let copy = |term| {
            let (name, version) = other.parts_of(term);
            self.intern_version(self.intern_name(&name)?, version.as_deref())
        };
        let (own, source) = other.terms_of(component);
        self.intern_terms(copy(own)?, source.map(copy).transpose()?)
    }

    /// Whether the component is found by each of its names.
    pub(crate) fn is_named(&self, component: u32) -> bool {
        let (own, source) = self.terms_of(component);
        [Some(own), source].into_iter().flatten().all(|term| {
            let (name, _) = self.terms.get(term);
            let (key, version) = self.parts_of(term);
            let (key, version) = (key.as_slice(), version.as_deref());
            let is_found = self.find_term(self.term_hash(key, version), key, version) == Some(term);
            let in_name = self.terms.of_name(name).any(|id| id == term);
            let in_bare = decode_name(key).is_some_and(|parts| {
                let bare = || self.bare.find(&bare_key(parts.ty, parts.name));
                !has_bare(parts.ty) || bare().is_some_and(|bare| self.names_of_bare.iter(bare).any(|id| id == name))
            });
            is_found && in_name && in_bare && self.terms.components(term).any(|id| id == component)
        })
    }

    /// The component for people: `type/namespace/name@version`, with its source.
    pub(crate) fn describe(&self, component: u32) -> String {
        let text = |term| {
            let (key, version) = self.parts_of(term);
            let name = decode_name(&key)?;
            let namespace = name.namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
            let version = version.map(|version| format!("@{version}")).unwrap_or_default();
            Some(format!("{}/{namespace}{}{version}", name.ty, name.name))
        };
        let (own, source) = self.terms_of(component);
        let source = source.and_then(text).map(|source| format!(" of source {source}")).unwrap_or_default();
        format!("{}{source}", text(own).unwrap_or_default())
    }

    pub(crate) fn bytes_used(&self) -> usize {
        self.names.bytes_used()
            + self.terms.bytes_used()
            + self.components.bytes_used()
            + self.pairs.bytes_used()
            + self.sourced.bytes_used()
            + self.bare.bytes_used()
            + self.names_of_bare.bytes_used()
    }
}
