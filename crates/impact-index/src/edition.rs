use crate::Thresholds;
use crate::dictionary::Dictionary;
use crate::images::Images;
use crate::postings::Postings;
use roaring::RoaringBitmap;
use std::sync::Arc;

/// The tables of one generation: they only grow, and the one writer fills them while readers look.
pub(crate) struct State {
    pub(crate) dictionary: Dictionary,
    pub(crate) postings: Postings,
    pub(crate) images: Images,
}

/// The live images, by tenant.
#[derive(Clone, Default)]
pub(crate) struct Live(Vec<Arc<RoaringBitmap>>);

/// How many of everything there are: within a generation all of them only grow, so that what is new since a mark is
/// what comes after it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) tenants: u32,
    pub(crate) names: u32,
    pub(crate) terms: u32,
    pub(crate) components: u32,
    pub(crate) facets: u32,
    pub(crate) rows: u32,
    pub(crate) retired: u32,
}

/// What a reader works on (IDX-5): the live images as of one sequence, over tables that may be ahead of it.
///
/// That they are ahead changes no answer, for every answer is cut to the live images: an ordinal that was given later is not
/// among them, and nothing is ever taken away from the others.
pub(crate) struct Edition {
    pub(crate) state: Arc<State>,
    pub(crate) live: Live,
    pub(crate) generation: u64,
    pub(crate) sequence: u64,
    pub(crate) timeline: u64,
    pub(crate) marks: Marks,
    pub(crate) postings: u64,
}

impl State {
    pub(crate) fn new(thresholds: &Thresholds) -> Self {
        Self {
            dictionary: Dictionary::new(thresholds.piece_len),
            postings: Postings::new(thresholds),
            images: Images::new(thresholds),
        }
    }

    pub(crate) fn marks(&self) -> Marks {
        Marks {
            tenants: self.images.tenants.len(),
            names: self.dictionary.names.len(),
            terms: self.dictionary.terms.len(),
            components: self.dictionary.len(),
            facets: self.images.facets.len(),
            rows: self.images.len(),
            retired: self.images.retired_len(),
        }
    }

    pub(crate) fn bytes_used(&self) -> usize {
        self.dictionary.bytes_used() + self.postings.bytes_used() + self.images.bytes_used()
    }
}

impl Live {
    pub(crate) fn of(&self, tenant: u32) -> Option<&RoaringBitmap> {
        self.0.get(tenant as usize).map(Arc::as_ref)
    }

    pub(crate) fn has(&self, tenant: u32, ordinal: u32) -> bool {
        self.of(tenant).is_some_and(|live| live.contains(ordinal))
    }

    pub(crate) fn insert(&mut self, tenant: u32, ordinal: u32) {
        if self.0.len() <= tenant as usize {
            self.0.resize_with(tenant as usize + 1, Arc::default);
        }
        if let Some(live) = self.0.get_mut(tenant as usize) {
            Arc::make_mut(live).insert(ordinal);
        }
    }

    pub(crate) fn remove(&mut self, tenant: u32, ordinal: u32) {
        if let Some(live) = self.0.get_mut(tenant as usize) {
            Arc::make_mut(live).remove(ordinal);
        }
    }

    fn bytes_used(&self) -> usize {
        self.0.iter().map(|live| live.serialized_size()).sum()
    }
}

impl Edition {
    pub(crate) fn is_live(&self, ordinal: u32) -> bool {
        self.state.images.tenant_of(ordinal).is_some_and(|tenant| self.live.has(tenant, ordinal))
    }

    pub(crate) fn bytes_used(&self) -> usize {
        self.state.bytes_used() + self.live.bytes_used()
    }
}
