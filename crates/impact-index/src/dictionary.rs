use crate::IndexError;
use crate::chains::Chains;
use crate::interner::Interner;
use scheduler_model::purl::{Component, MatchName, ProductKey};

/// In place of a source: there is none.
const NO_SOURCE: u32 = u32::MAX;

/// The components and the names under which keys find them.
///
/// A *name* is (type, namespace, name), a *term* a name with an optional version, and a *component* its own term with,
/// of distribution packages, the source's term. Two components of equal terms are found by the same keys, hence they
/// are one. All are numbered in the order in which they came.
pub(crate) struct Dictionary {
    pub(crate) names: Interner,
    pub(crate) terms: Interner,
    pub(crate) components: Interner,
    /// (type, name) of the types whose keys may leave the namespace out.
    bare: Interner,
    names_of_bare: Chains,
    terms_of_name: Chains,
    components_of_term: Chains,
    scratch: Vec<u8>,
}

impl Dictionary {
    pub(crate) fn new() -> Self {
        Self {
            names: Interner::new("package names"),
            terms: Interner::new("package versions"),
            components: Interner::new("components"),
            bare: Interner::new("package names"),
            names_of_bare: Chains::new(),
            terms_of_name: Chains::new(),
            components_of_term: Chains::new(),
            scratch: Vec::new(),
        }
    }

    /// The number of the component.
    pub(crate) fn intern(&mut self, component: &Component) -> Result<u32, IndexError> {
        let mut terms = [NO_SOURCE; 2];
        for (term, (name, version)) in terms.iter_mut().zip(component.names()) {
            *term = self.intern_term(&name, version)?;
        }
        let [own, source] = terms;
        self.intern_terms(own, if source == own { NO_SOURCE } else { source })
    }

    fn intern_term(&mut self, name: &MatchName<'_>, version: Option<&str>) -> Result<u32, IndexError> {
        let mut key = std::mem::take(&mut self.scratch);
        encode_name(&mut key, name);
        let name = self.intern_name(&key);
        let term = name.and_then(|name| {
            encode_term(&mut key, name, version);
            self.intern_term_key(&key)
        });
        self.scratch = key;
        term
    }

    /// Adds a name in its stored form.
    pub(crate) fn intern_name(&mut self, key: &[u8]) -> Result<u32, IndexError> {
        if let Some(id) = self.names.find(key) {
            return Ok(id);
        }
        let Some(name) = decode_name(key) else { return Err(IndexError::damaged("a name cannot be read")) };
        // First what may fail, so that a name is never half there.
        let bare = if has_bare(name.ty) {
            let (bare, fresh) = self.bare.intern(&bare_key(name.ty, name.name))?;
            if fresh {
                self.names_of_bare.push_list();
            }
            Some(bare)
        } else {
            None
        };
        let (id, _) = self.names.intern(key)?;
        self.terms_of_name.push_list();
        if let Some(bare) = bare {
            self.names_of_bare.add(bare, id);
        }
        Ok(id)
    }

    /// Adds a term in its stored form; its name is there already.
    pub(crate) fn intern_term_key(&mut self, key: &[u8]) -> Result<u32, IndexError> {
        let (id, fresh) = self.terms.intern(key)?;
        if fresh {
            let (name, _) = decode_term(key).ok_or_else(|| IndexError::damaged("a version cannot be read"))?;
            self.components_of_term.push_list();
            self.terms_of_name.add(name, id);
        }
        Ok(id)
    }

    /// Adds a component by its terms, which are there already.
    pub(crate) fn intern_terms(&mut self, own: u32, source: u32) -> Result<u32, IndexError> {
        let mut key = [0; 8];
        let (first, second) = key.split_at_mut(4);
        first.copy_from_slice(&own.to_le_bytes());
        second.copy_from_slice(&source.to_le_bytes());
        let (id, fresh) = self.components.intern(&key)?;
        if fresh {
            self.components_of_term.add(own, id);
            if source != NO_SOURCE {
                self.components_of_term.add(source, id);
            }
        }
        Ok(id)
    }

    /// The terms of a component: its own and its source's.
    pub(crate) fn terms_of(&self, component: u32) -> (u32, Option<u32>) {
        decode_component(self.components.get(component)).unwrap_or((0, None))
    }

    /// The component in another dictionary that has the same names, if there is one.
    pub(crate) fn counterpart(&self, component: u32, other: &Self) -> Option<u32> {
        let (own, source) = self.terms_of(component);
        let own = self.counterpart_term(own, other)?;
        let source = source.map_or(Some(NO_SOURCE), |source| self.counterpart_term(source, other))?;
        let mut key = own.to_le_bytes().to_vec();
        key.extend_from_slice(&source.to_le_bytes());
        other.components.find(&key)
    }

    fn counterpart_term(&self, term: u32, other: &Self) -> Option<u32> {
        let (name, version) = decode_term(self.terms.get(term))?;
        let name = other.names.find(self.names.get(name))?;
        let mut key = Vec::new();
        encode_term(&mut key, name, version);
        other.terms.find(&key)
    }

    /// Copies a component, with its names, from another dictionary.
    pub(crate) fn copy_from(&mut self, other: &Self, component: u32) -> Result<u32, IndexError> {
        let (own, source) = other.terms_of(component);
        let own = self.copy_term(other, own)?;
        let source = source.map_or(Ok(NO_SOURCE), |source| self.copy_term(other, source))?;
        self.intern_terms(own, source)
    }

    fn copy_term(&mut self, other: &Self, term: u32) -> Result<u32, IndexError> {
        let (name, version) =
            decode_term(other.terms.get(term)).ok_or_else(|| IndexError::damaged("a version cannot be read"))?;
        let name = self.intern_name(other.names.get(name))?;
        let mut key = Vec::new();
        encode_term(&mut key, name, version);
        self.intern_term_key(&key)
    }

    /// Adds the components that the key selects; each at most once for the key's own names, twice when a component and
    /// its source have the key's name.
    pub(crate) fn find(&self, key: &ProductKey, scratch: &mut Vec<u8>, found: &mut Vec<u32>) {
        let name = key.match_name();
        if key.any_namespace() {
            if let Some(bare) = self.bare.find(&bare_key(name.ty, name.name)) {
                self.names_of_bare.iter(bare).for_each(|name| self.find_in_name(name, key.version(), scratch, found));
            }
        } else {
            encode_name(scratch, &name);
            if let Some(name) = self.names.find(scratch) {
                self.find_in_name(name, key.version(), scratch, found);
            }
        }
    }

    fn find_in_name(&self, name: u32, version: Option<&str>, scratch: &mut Vec<u8>, found: &mut Vec<u32>) {
        if version.is_some() {
            encode_term(scratch, name, version);
            if let Some(term) = self.terms.find(scratch) {
                found.extend(self.components_of_term.iter(term));
            }
        } else {
            found.extend(self.terms_of_name.iter(name).flat_map(|term| self.components_of_term.iter(term)));
        }
    }

    /// Whether the component is found by each of its names.
    pub(crate) fn is_named(&self, component: u32) -> bool {
        let (own, source) = self.terms_of(component);
        [Some(own), source].into_iter().flatten().all(|term| {
            let Some((name, _)) = decode_term(self.terms.get(term)) else { return false };
            let in_name = self.terms_of_name.iter(name).any(|id| id == term);
            let in_bare = decode_name(self.names.get(name)).is_some_and(|parts| {
                let bare = || self.bare.find(&bare_key(parts.ty, parts.name));
                !has_bare(parts.ty) || bare().is_some_and(|bare| self.names_of_bare.iter(bare).any(|id| id == name))
            });
            in_name && in_bare && self.components_of_term.iter(term).any(|id| id == component)
        })
    }

    /// The component for people: `type/namespace/name@version`, with its source.
    pub(crate) fn describe(&self, component: u32) -> String {
        let text = |term| {
            let (name, version) = decode_term(self.terms.get(term))?;
            let name = decode_name(self.names.get(name))?;
            let namespace = name.namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
            let version = version.map(|version| format!("@{version}")).unwrap_or_default();
            Some(format!("{}/{namespace}{}{version}", name.ty, name.name))
        };
        let (own, source) = self.terms_of(component);
        let source = source.and_then(text).map(|source| format!(" of source {source}")).unwrap_or_default();
        format!("{}{source}", text(own).unwrap_or_default())
    }

    pub(crate) fn bytes_used(&self) -> usize {
        [&self.names, &self.terms, &self.components, &self.bare].map(Interner::bytes_used).iter().sum::<usize>()
            + [&self.names_of_bare, &self.terms_of_name, &self.components_of_term]
                .map(Chains::bytes_used)
                .iter()
                .sum::<usize>()
    }
}

/// The types whose keys may leave the namespace out: those of `ProductKey::any_namespace`.
fn has_bare(ty: &str) -> bool {
    matches!(ty, "deb" | "rpm" | "apk")
}

fn bare_key(ty: &str, name: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(ty.len() + name.len() + 1);
    push_prefixed(&mut key, ty);
    key.extend_from_slice(name.as_bytes());
    key
}

/// Every part but the last has its length before it: no two names have one form.
fn encode_name(key: &mut Vec<u8>, name: &MatchName<'_>) {
    key.clear();
    push_prefixed(key, name.ty);
    match name.namespace {
        Some(namespace) => {
            key.push(1);
            push_prefixed(key, namespace);
        }
        None => key.push(0),
    }
    key.extend_from_slice(name.name.as_bytes());
}

/// The parts of a name in its stored form; `None` when it is none.
pub(crate) fn decode_name(key: &[u8]) -> Option<MatchName<'_>> {
    let (ty, rest) = split_prefixed(key)?;
    let (&flag, rest) = rest.split_first()?;
    let (namespace, name) = match flag {
        0 => (None, rest),
        1 => split_prefixed(rest).map(|(namespace, name)| (Some(namespace), name))?,
        _ => return None,
    };
    Some(MatchName { ty, namespace, name: std::str::from_utf8(name).ok()? })
}

fn encode_term(key: &mut Vec<u8>, name: u32, version: Option<&str>) {
    key.clear();
    key.extend_from_slice(&name.to_le_bytes());
    if let Some(version) = version {
        key.push(1);
        key.extend_from_slice(version.as_bytes());
    }
}

/// The name and the version of a term in its stored form; `None` when it is none.
pub(crate) fn decode_term(key: &[u8]) -> Option<(u32, Option<&str>)> {
    let (name, rest) = key.split_first_chunk()?;
    let version = match rest.split_first() {
        None => None,
        Some((1, version)) => Some(std::str::from_utf8(version).ok()?),
        Some(_) => return None,
    };
    Some((u32::from_le_bytes(*name), version))
}

/// The terms of a component in its stored form; `None` when it is none.
pub(crate) fn decode_component(key: &[u8]) -> Option<(u32, Option<u32>)> {
    let (own, source) = key.split_first_chunk()?;
    let source = u32::from_le_bytes(source.try_into().ok()?);
    Some((u32::from_le_bytes(*own), (source != NO_SOURCE).then_some(source)))
}

fn push_prefixed(key: &mut Vec<u8>, text: &str) {
    let len = u16::try_from(text.len()).unwrap_or(u16::MAX);
    key.extend_from_slice(&len.to_le_bytes());
    key.extend_from_slice(text.as_bytes());
}

fn split_prefixed(key: &[u8]) -> Option<(&str, &[u8])> {
    let (len, rest) = key.split_first_chunk()?;
    let (text, rest) = rest.split_at_checked(u16::from_le_bytes(*len).into())?;
    Some((std::str::from_utf8(text).ok()?, rest))
}
