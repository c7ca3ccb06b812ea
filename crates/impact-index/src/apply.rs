use crate::images::digest_bytes;
use crate::state::State;
use crate::terms::NONE;
use crate::{Change, IndexError, PutImage};
use scheduler_model::purl::Component;

/// The packages of some changes, with the numbers of those that are known.
pub(crate) struct Packages<'a> {
    pub(crate) all: &'a [Component],
    /// As long as `all`; [`NONE`] for those that are not there yet.
    pub(crate) known: Vec<u32>,
}

impl State {
    /// The number of each package, [`NONE`] for those that are not there yet. It is the longer part of applying changes, and
    /// changes nothing.
    pub(crate) fn known_components(&self, packages: &[Component]) -> Vec<u32> {
        let mut terms = Vec::with_capacity(packages.len());
        self.dictionary.find_terms(packages.iter().flat_map(Component::names), |term| terms.push(term));
        let mut terms = terms.into_iter();
        let mut next = || terms.next().filter(|&term| term != NONE);
        packages
            .iter()
            .map(|package| {
                let own = next();
                let source = package.source().map(|_| next());
                let known = match (own, source) {
                    (Some(own), Some(Some(source))) => {
                        self.dictionary.find_component(own, Some(source).filter(|&source| source != own))
                    }
                    (Some(own), None) => self.dictionary.find_component(own, None),
                    _ => None,
                };
                known.unwrap_or(NONE)
            })
            .collect()
    }

    /// Applies changes, except those that are in already. After an error the changes before the failing one are in, and
    /// the index answers as it did after them.
    pub(crate) fn apply(&mut self, packages: &mut Packages<'_>, changes: &[Change<'_>]) -> Result<(), IndexError> {
        for change in changes {
            if change.sequence > self.sequence {
                self.apply_one(packages, change)?;
                self.sequence = change.sequence;
            }
        }
        Ok(())
    }

    fn apply_one(&mut self, packages: &mut Packages<'_>, change: &Change<'_>) -> Result<(), IndexError> {
        let digest = digest_bytes(change.digest);
        match &change.put {
            None => {
                let tenant = self.images.tenant(change.tenant);
                if let Some(ordinal) = tenant.and_then(|tenant| self.images.find(tenant, &digest)) {
                    self.images.retire(ordinal);
                }
                Ok(())
            }
            Some(put) => {
                let tenant = self.images.intern_tenant(change.tenant.as_str().as_bytes())?;
                self.put(tenant, digest, put, packages)
            }
        }
    }

    fn put(
        &mut self,
        tenant: u32,
        digest: [u8; 32],
        put: &PutImage<'_>,
        packages: &mut Packages<'_>,
    ) -> Result<(), IndexError> {
        let components = self.intern_components(put, packages)?;
        let count = u32::try_from(components.len()).map_err(|_| IndexError::Full("components of an image"))?;
        let facets = self.images.intern_place(tenant, put.place)?;
        let before = self.images.find(tenant, &digest);
        if before.is_some_and(|ordinal| self.is_equal(ordinal, &components, count, &facets)) {
            return Ok(());
        }
        let ordinal = self.images.push(tenant, digest, &facets, count)?;
        for &(component, used) in &components {
            if let Err(error) = self.postings.append(component, ordinal, used) {
                self.images.retire(ordinal);
                return Err(error);
            }
        }
        if let Some(before) = before {
            self.images.retire(before);
        }
        self.images.enter(ordinal);
        Ok(())
    }

    /// The distinct components with whether they count as used.
    fn intern_components(
        &mut self,
        put: &PutImage<'_>,
        packages: &mut Packages<'_>,
    ) -> Result<Vec<(u32, bool)>, IndexError> {
        let mut used = vec![put.used.is_none(); put.components.len()];
        for &position in put.used.unwrap_or_default() {
            if let Some(used) = used.get_mut(position as usize) {
                *used = true;
            }
        }
        let mut components = Vec::with_capacity(put.components.len());
        for (&package, used) in put.components.iter().zip(used) {
            let at = package as usize;
            let (Some(package), Some(known)) = (packages.all.get(at), packages.known.get_mut(at)) else { continue };
            if *known == NONE {
                *known = self.dictionary.intern(package)?;
                if *known >= self.postings.sets() {
                    self.postings.push_set();
                }
            }
            components.push((*known, used));
        }
        components.sort_unstable();
        // Of equals the used one is the later.
        components.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            kept.1 |= same && later.1;
            same
        });
        Ok(components)
    }

    /// Whether the image is just so already; then it keeps its ordinal. Equal counts and no member missing make equal sets.
    fn is_equal(&self, ordinal: u32, components: &[(u32, bool)], count: u32, facets: &[u32]) -> bool {
        self.images.row(ordinal).is_some_and(|row| row.components == count)
            && self.images.facets_of(ordinal) == facets
            && components.iter().all(|&(component, used)| self.postings.view(component).get(ordinal) == Some(used))
    }
}
