use crate::images::digest_bytes;
use crate::state::State;
use crate::{Change, IndexError, PutImage};

impl State {
    /// Applies one change, unless it is in already. After an error it is not in, and the index answers as before.
    pub(crate) fn apply(&mut self, change: &Change<'_>) -> Result<(), IndexError> {
        if change.sequence <= self.sequence {
            return Ok(());
        }
        let digest = digest_bytes(change.digest);
        match &change.put {
            None => {
                let tenant = self.images.tenant(change.tenant);
                if let Some(ordinal) = tenant.and_then(|tenant| self.images.find(tenant, &digest)) {
                    self.images.retire(ordinal);
                }
            }
            Some(put) => {
                let tenant = self.images.intern_tenant(change.tenant.as_str().as_bytes())?;
                self.put(tenant, digest, put)?;
            }
        }
        self.sequence = change.sequence;
        Ok(())
    }

    fn put(&mut self, tenant: u32, digest: [u8; 32], put: &PutImage<'_>) -> Result<(), IndexError> {
        let components = self.intern_components(put)?;
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
    fn intern_components(&mut self, put: &PutImage<'_>) -> Result<Vec<(u32, bool)>, IndexError> {
        let mut used = vec![put.used.is_none(); put.components.len()];
        for &position in put.used.unwrap_or_default() {
            if let Some(used) = used.get_mut(position as usize) {
                *used = true;
            }
        }
        let mut components = Vec::with_capacity(put.components.len());
        for (component, used) in put.components.iter().zip(used) {
            let id = self.dictionary.intern(component)?;
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
