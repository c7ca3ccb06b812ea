use crate::edition::Edition;
use crate::images::{decode_facet, facet_key};
use crate::writer::Writer;
use crate::{IndexError, Thresholds};

impl Edition {
    /// Whether so much is retired that a compaction pays.
    pub(crate) fn wants_compaction(&self, thresholds: &Thresholds) -> bool {
        let (retired, all) = (self.marks.retired, self.marks.rows);
        retired > 0
            && retired >= thresholds.compact_retired_min
            && u64::from(retired) * 100 > u64::from(all) * u64::from(thresholds.compact_percent)
    }

    /// The live images alone, as a new generation at the same sequence.
    pub(crate) fn compacted(&self, thresholds: &Thresholds) -> Result<Writer, IndexError> {
        let mut next = Writer::new(thresholds, self.generation + 1);
        let mut moved = Vec::with_capacity(self.marks.rows as usize);
        for ordinal in 0..self.marks.rows {
            moved.push(if self.is_live(ordinal) { Some(self.copy_image(ordinal, &mut next)?) } else { None });
            next.blocks.reuse_at_once();
        }
        let mut live = Vec::new();
        for component in 0..self.marks.components {
            live.clear();
            self.state.postings.view(component).each(0, u32::MAX, |ordinal, used| {
                live.extend(moved.get(ordinal as usize).copied().flatten().map(|ordinal| (ordinal, used)));
            });
            if live.is_empty() {
                continue;
            }
            let id = next.state.dictionary.copy_from(&self.state.dictionary, component)?;
            next.state.postings.push_set()?;
            for &(ordinal, used) in &live {
                next.state.postings.append(&mut next.blocks.postings, id, ordinal, used)?;
            }
            next.blocks.reuse_at_once();
        }
        (next.sequence, next.timeline) = (self.sequence, self.timeline);
        Ok(next)
    }

    fn copy_image(&self, ordinal: u32, next: &mut Writer) -> Result<u32, IndexError> {
        let lost = || IndexError::damaged("an image cannot be read");
        let (from, to) = (&self.state.images, next.state.clone());
        let row = from.row(ordinal).ok_or_else(lost)?;
        let tenant = to.images.intern_tenant(&from.tenants.get(row.tenant).to_vec())?;
        let mut facets = Vec::new();
        for facet in from.facets_of(ordinal) {
            let stored = from.facets.get(facet).to_vec();
            let (_, kind, text) = decode_facet(&stored).ok_or_else(lost)?;
            facets.push(to.images.intern_facet(&facet_key(tenant, kind, text))?);
        }
        let copy = to.images.push(&mut next.blocks.facets, tenant, &row.digest, &facets, row.components)?;
        next.enter(tenant, copy);
        Ok(copy)
    }
}
