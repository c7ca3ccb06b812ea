use crate::edition::Edition;
use crate::images::{Kind, digest_bytes, label_text};
use crate::view::{View, set_bits};
use roaring::RoaringBitmap;
use scheduler_model::{Selection, glob_matches};
use std::sync::atomic::AtomicU32;

impl Edition {
    /// The tenant's live images, as a bit set over all ordinals.
    pub(crate) fn live_bits(&self, tenant: u32) -> Vec<u64> {
        let mut live = vec![0; self.marks.rows.div_ceil(64) as usize];
        let mut ordinals = self.live.of(tenant).map(RoaringBitmap::iter);
        // Most images are live, so that there are few and long ranges.
        while let Some(range) = ordinals.as_mut().and_then(|ordinals| ordinals.next_range()) {
            set_bits(&mut live, *range.start(), *range.end());
        }
        live
    }

    /// Those of the tenant's live images that pass every filter (IDX-2).
    pub(crate) fn select(&self, tenant: u32, selection: &Selection, live: &[u64]) -> Vec<u64> {
        let images = &self.state.images;
        let mut selected = live.to_vec();
        let texts = |kind, texts: &[String]| -> Vec<View<'_>> {
            texts.iter().filter_map(|text| images.with_facet(tenant, kind, text.as_bytes())).collect()
        };
        if !selection.namespaces.is_empty() {
            keep_any(&mut selected, texts(Kind::Namespace, &selection.namespaces));
        }
        if !selection.repositories.is_empty() {
            keep_any(&mut selected, texts(Kind::Repository, &selection.repositories));
        }
        if !selection.digests.is_empty() {
            let mut ordinals: Vec<u32> = selection
                .digests
                .iter()
                .filter_map(|digest| images.find(&self.live, tenant, &digest_bytes(digest)))
                .collect();
            ordinals.sort_unstable();
            let ordinals: Vec<AtomicU32> = ordinals.into_iter().map(AtomicU32::new).collect();
            keep_any(&mut selected, [View::List(&ordinals)]);
        }
        for (key, value) in &selection.labels {
            keep_any(&mut selected, images.with_facet(tenant, Kind::Label, &label_text(key, value)));
        }
        if !selection.include_tags.is_empty() {
            let matches = |tag: &str| selection.include_tags.iter().any(|glob| glob_matches(glob, tag));
            keep_any(&mut selected, images.tags(tenant).filter(|(tag, _)| matches(tag)).map(|(_, images)| images));
        }
        selected
    }
}

/// Keeps what is in one of the sets.
fn keep_any<'a>(selected: &mut [u64], sets: impl IntoIterator<Item = View<'a>>) {
    let mut lacking = selected.to_vec();
    for set in sets {
        set.clear_from(&mut lacking, false);
    }
    for (word, lacking) in selected.iter_mut().zip(&lacking) {
        *word &= !lacking;
    }
}
