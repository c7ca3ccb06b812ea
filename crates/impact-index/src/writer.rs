use crate::arena::{Block, Blocks};
use crate::edition::{Edition, Live, State};
use crate::images::{Digest, digest_bytes};
use crate::terms::NONE;
use crate::{Change, IndexError, PutImage, Thresholds};
use scheduler_model::purl::Component;
use std::collections::VecDeque;
use std::sync::Arc;

/// The packages of some changes, with the numbers of those that are known.
pub(crate) struct Packages<'a> {
    all: &'a [Component],
    /// As long as `all`; [`NONE`] for those that are not there yet.
    known: Vec<u32>,
}

/// The one that changes a [`State`]: whatever its tables have beyond what readers see, and what only a writer needs.
pub(crate) struct Writer {
    pub(crate) state: Arc<State>,
    pub(crate) live: Live,
    pub(crate) generation: u64,
    pub(crate) sequence: u64,
    /// Of the change of that sequence.
    pub(crate) timeline: u64,
    pub(crate) blocks: WriterBlocks,
    /// Editions that were replaced and may still be read, the oldest first, with the blocks that were given back
    /// before the next one was published.
    past: VecDeque<(Arc<Edition>, [Vec<Block>; 2])>,
}

/// The free blocks of both arenas.
#[derive(Default)]
pub(crate) struct WriterBlocks {
    pub(crate) postings: Blocks,
    pub(crate) facets: Blocks,
}

impl WriterBlocks {
    fn take_given_back(&mut self) -> [Vec<Block>; 2] {
        [self.postings.take_given_back(), self.facets.take_given_back()]
    }

    fn reuse(&mut self, [postings, facets]: [Vec<Block>; 2]) {
        self.postings.reuse(postings);
        self.facets.reuse(facets);
    }

    /// Uses again what was given back; for tables that no reader has seen yet.
    pub(crate) fn reuse_at_once(&mut self) {
        let given_back = self.take_given_back();
        self.reuse(given_back);
    }
}

impl Writer {
    pub(crate) fn new(thresholds: &Thresholds, generation: u64) -> Self {
        Self {
            state: Arc::new(State::new(thresholds)),
            live: Live::default(),
            generation,
            sequence: 0,
            timeline: 0,
            blocks: WriterBlocks::default(),
            past: VecDeque::new(),
        }
    }

    /// Everything up to now, for readers.
    pub(crate) fn edition(&self) -> Arc<Edition> {
        Arc::new(Edition {
            state: self.state.clone(),
            live: self.live.clone(),
            generation: self.generation,
            sequence: self.sequence,
            timeline: self.timeline,
            marks: self.state.marks(),
            postings: self.state.postings.total(),
        })
    }

    /// Takes the edition that another one has replaced, and uses again the blocks that nobody can be looking at any more
    /// (IDX-8): those that were given back before every edition that is still held was published.
    pub(crate) fn retire_edition(&mut self, edition: Arc<Edition>) {
        self.past.push_back((edition, self.blocks.take_given_back()));
        while self.past.front_mut().is_some_and(|(edition, _)| Arc::get_mut(edition).is_some()) {
            if let Some((_, given_back)) = self.past.pop_front() {
                self.blocks.reuse(given_back);
            }
        }
    }

    /// The packages with the numbers of those that are there. It is the longer part of applying changes, and changes nothing.
    pub(crate) fn known<'a>(&self, packages: &'a [Component]) -> Packages<'a> {
        let dictionary = &self.state.dictionary;
        let mut terms = Vec::with_capacity(packages.len());
        dictionary.find_terms(packages.iter().flat_map(Component::names), |term| terms.push(term));
        let mut terms = terms.into_iter();
        let mut next = || terms.next().filter(|&term| term != NONE);
        let known = packages.iter().map(|package| {
            let own = next();
            let source = package.source().map(|_| next());
            let known = match (own, source) {
                (Some(own), Some(Some(source))) => {
                    dictionary.find_component(own, Some(source).filter(|&source| source != own))
                }
                (Some(own), None) => dictionary.find_component(own, None),
                _ => None,
            };
            known.unwrap_or(NONE)
        });
        Packages { known: known.collect(), all: packages }
    }

    /// Applies changes, except those that are in already. After an error the changes before the failing one are in, and
    /// the index answers as it did after them.
    pub(crate) fn apply(&mut self, packages: &mut Packages<'_>, changes: &[Change<'_>]) -> Result<(), IndexError> {
        for change in changes {
            if change.sequence > self.sequence {
                self.apply_one(packages, change)?;
                self.sequence = change.sequence;
                self.timeline = change.timeline;
            }
        }
        Ok(())
    }

    fn apply_one(&mut self, packages: &mut Packages<'_>, change: &Change<'_>) -> Result<(), IndexError> {
        let digest = digest_bytes(change.digest);
        match &change.put {
            None => {
                let tenant = self.state.images.tenant(change.tenant);
                let found = tenant.and_then(|tenant| Some((tenant, self.find(tenant, &digest)?)));
                found.map_or(Ok(()), |(tenant, ordinal)| self.retire(tenant, ordinal))
            }
            Some(put) => {
                let tenant = self.state.images.intern_tenant(change.tenant.as_str().as_bytes())?;
                self.put(tenant, &digest, put, packages)
            }
        }
    }

    /// The tenant's live image of the digest.
    pub(crate) fn find(&self, tenant: u32, digest: &Digest) -> Option<u32> {
        self.state.images.find(&self.live, tenant, digest)
    }

    fn put(
        &mut self,
        tenant: u32,
        digest: &Digest,
        put: &PutImage<'_>,
        packages: &mut Packages<'_>,
    ) -> Result<(), IndexError> {
        let state = self.state.clone();
        let components = intern_components(&state, put, packages)?;
        let count = u32::try_from(components.len()).map_err(|_| IndexError::Full("components of an image"))?;
        let facets = state.images.intern_place(tenant, put.place)?;
        let before = self.find(tenant, digest);
        if before.is_some_and(|ordinal| is_equal(&state, ordinal, &components, count, &facets)) {
            return Ok(());
        }
        let ordinal = state.images.push(&mut self.blocks.facets, tenant, digest, &facets, count)?;
        if !state.postings.end_before(components.iter().map(|(component, _)| *component), ordinal) {
            state.images.retire(ordinal)?;
            return Err(IndexError::damaged("ordinals do not ascend"));
        }
        for &(component, used) in &components {
            if let Err(error) = state.postings.append(&mut self.blocks.postings, component, ordinal, used) {
                state.images.retire(ordinal)?;
                return Err(error);
            }
        }
        if let Some(before) = before {
            self.retire(tenant, before)?;
        }
        self.enter(tenant, ordinal);
        Ok(())
    }

    /// Makes an image live.
    pub(crate) fn enter(&mut self, tenant: u32, ordinal: u32) {
        self.state.images.enter(ordinal);
        self.live.insert(tenant, ordinal);
    }

    fn retire(&mut self, tenant: u32, ordinal: u32) -> Result<(), IndexError> {
        self.state.images.retire(ordinal)?;
        self.live.remove(tenant, ordinal);
        Ok(())
    }
}

/// The distinct components with whether they count as used.
fn intern_components(
    state: &State,
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
            *known = state.dictionary.intern(package)?;
            while state.postings.sets() <= *known {
                state.postings.push_set()?;
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
fn is_equal(state: &State, ordinal: u32, components: &[(u32, bool)], count: u32, facets: &[u32]) -> bool {
    state.images.row(ordinal).is_some_and(|row| row.components == count)
        && state.images.facets_of(ordinal).eq(facets.iter().copied())
        && components.iter().all(|&(component, used)| state.postings.view(component).get(ordinal) == Some(used))
}
