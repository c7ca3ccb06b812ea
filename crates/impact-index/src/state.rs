use crate::Thresholds;
use crate::dictionary::Dictionary;
use crate::images::Images;
use crate::postings::Postings;

/// Everything of one generation, as of one sequence.
pub(crate) struct State {
    pub(crate) dictionary: Dictionary,
    pub(crate) postings: Postings,
    pub(crate) images: Images,
    pub(crate) generation: u64,
    pub(crate) sequence: u64,
}

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

impl State {
    pub(crate) fn new(thresholds: &Thresholds, generation: u64) -> Self {
        Self {
            dictionary: Dictionary::new(),
            postings: Postings::new(thresholds),
            images: Images::new(thresholds),
            generation,
            sequence: 0,
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
            // Every ordinal is retired at most once.
            retired: u32::try_from(self.images.retired().len()).unwrap_or(u32::MAX),
        }
    }

    pub(crate) fn bytes_used(&self) -> usize {
        self.dictionary.bytes_used() + self.postings.bytes_used() + self.images.bytes_used()
    }
}
