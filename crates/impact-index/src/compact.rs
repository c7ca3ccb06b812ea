use crate::images::{decode_facet, facet_key};
use crate::state::State;
use crate::{IndexError, Thresholds};

impl State {
    /// Whether so much is retired that a compaction pays.
    pub(crate) fn wants_compaction(&self, thresholds: &Thresholds) -> bool {
        let (retired, all) = (self.marks().retired, self.images.len());
        retired > 0
            && retired >= thresholds.compact_retired_min
            && u64::from(retired) * 100 > u64::from(all) * u64::from(thresholds.compact_percent)
    }

    /// The live images alone, as a new generation at the same sequence.
    pub(crate) fn compacted(&self, thresholds: &Thresholds) -> Result<Self, IndexError> {
        let mut next = Self::new(thresholds, self.generation + 1);
        let mut moved = Vec::with_capacity(self.images.len() as usize);
        for ordinal in 0..self.images.len() {
            moved.push(if self.images.is_live(ordinal) { Some(self.copy_image(ordinal, &mut next)?) } else { None });
        }
        let mut live = Vec::new();
        for component in 0..self.postings.sets() {
            live.clear();
            self.postings.view(component).each(0, u32::MAX, |ordinal, used| {
                live.extend(moved.get(ordinal as usize).copied().flatten().map(|ordinal| (ordinal, used)));
            });
            if live.is_empty() {
                continue;
            }
            let id = next.dictionary.copy_from(&self.dictionary, component)?;
            next.postings.push_set();
            for &(ordinal, used) in &live {
                next.postings.append(id, ordinal, used)?;
            }
        }
        next.sequence = self.sequence;
        Ok(next)
    }

    fn copy_image(&self, ordinal: u32, next: &mut Self) -> Result<u32, IndexError> {
        let lost = || IndexError::damaged("an image cannot be read");
        let row = self.images.row(ordinal).ok_or_else(lost)?;
        let tenant = next.images.intern_tenant(self.images.tenants.get(row.tenant))?;
        let mut facets = Vec::new();
        for &facet in self.images.facets_of(ordinal) {
            let (_, kind, text) = decode_facet(self.images.facets.get(facet)).ok_or_else(lost)?;
            facets.push(next.images.intern_facet(&facet_key(tenant, kind, text))?);
        }
        let copy = next.images.push(tenant, row.digest, &facets, row.components)?;
        next.images.enter(copy);
        Ok(copy)
    }
}
