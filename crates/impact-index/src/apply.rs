use crate::images::digest_bytes;
use crate::state::State;
use crate::terms::NONE;
use crate::{Change, IndexError, PutImage};

impl State {
    /// The components of the changes' images, one after the other, [`NONE`] for those that are not there yet. It is the
    /// longer part of applying them, and changes nothing.
    pub(crate) fn known_components(&self, changes: &[Change<'_>]) -> Vec<u32> {
        let images = || changes.iter().filter_map(|change| change.put.as_ref());
        let components = || images().flat_map(|put| put.components);
        let mut terms = Vec::new();
        self.dictionary.find_terms(components().flat_map(|component| component.names()), |term| terms.push(term));
        let mut terms = terms.into_iter();
        let mut next = || terms.next().filter(|&term| term != NONE);
        components()
            .map(|component| {
                let own = next();
                let source = component.source().map(|_| next());
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
    pub(crate) fn apply(&mut self, changes: &[Change<'_>], known: &[u32]) -> Result<(), IndexError> {
        let mut known = known;
        for change in changes {
            let len = change.put.as_ref().map_or(0, |put| put.components.len());
            let (own, rest) = known.split_at_checked(len).unwrap_or_default();
            known = rest;
            if change.sequence > self.sequence {
                self.apply_one(change, own)?;
                self.sequence = change.sequence;
            }
        }
        Ok(())
    }

    fn apply_one(&mut self, change: &Change<'_>, known: &[u32]) -> Result<(), IndexError> {
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
                self.put(tenant, digest, put, known)
            }
        }
    }

    fn put(&mut self, tenant: u32, digest: [u8; 32], put: &PutImage<'_>, known: &[u32]) -> Result<(), IndexError> {
        let components = self.intern_components(put, known)?;
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
    fn intern_components(&mut self, put: &PutImage<'_>, known: &[u32]) -> Result<Vec<(u32, bool)>, IndexError> {
        let mut used = vec![put.used.is_none(); put.components.len()];
        for &position in put.used.unwrap_or_default() {
            if let Some(used) = used.get_mut(position as usize) {
                *used = true;
            }
        }
        let mut components = Vec::with_capacity(put.components.len());
        let known = known.iter().copied().chain(std::iter::repeat(NONE));
        for ((component, used), known) in put.components.iter().zip(used).zip(known) {
            let id = if known == NONE { self.dictionary.intern(component)? } else { known };
            if id >= self.postings.sets() {
                self.postings.push_set();
            }
            components.push((id, used));
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
