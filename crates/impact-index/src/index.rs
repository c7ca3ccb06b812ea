use crate::apply::Packages;
use crate::images::digest_bytes;
use crate::resolve::UnionProbe;
use crate::save::{Meta, erase, save};
use crate::state::State;
use crate::{Change, Difference, IndexError, IndexStats, Query, Resolution, SelectedImage, Thresholds, Want};
use parking_lot::{Mutex, RwLock};
use roaring::RoaringBitmap;
use rocksdb::{DB, DBCompressionType, Options};
use scheduler_model::purl::Component;
use scheduler_model::{ImageDigest, TenantId};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// So many changes are applied before waiting readers get their turn.
const CHANGES_PER_LOCK: usize = 16;
const WRITE_BUFFER_BYTES: usize = 16 * 1024 * 1024;
const OPEN_FILES_MAX: i32 = 64;

/// The index: in memory, with a checkpoint in a folder of its own unless it is [`ImpactIndex::in_memory`].
///
/// Readers share it; one writer at a time applies changes, compacts and writes checkpoints.
///
/// ```
/// use scheduler_impact_index::{Change, ImpactIndex, PutImage, Query, QueryKey, Thresholds, Want};
/// use scheduler_model::purl::{Component, ProductKey, Purl};
/// use scheduler_model::{ImageDigest, ImagePlace, Selection, TenantId};
///
/// let tenant = TenantId::try_from("default".to_owned()).unwrap();
/// let purl = Purl::parse_strict("pkg:deb/debian/libssl3@3.0.11-1?upstream=openssl").unwrap();
/// let index = ImpactIndex::in_memory(Thresholds::default());
/// index.apply(&[Component::from_purl(&purl, None)], &[Change {
///     sequence: 1,
///     tenant: &tenant,
///     digest: &ImageDigest::of(b"cart"),
///     put: Some(PutImage {
///         place: &ImagePlace::default(),
///         components: &[0],
///         used: None,
///     }),
/// }]).unwrap();
/// let (key, _) = ProductKey::parse("pkg:deb/openssl").unwrap();
/// let keys = [QueryKey::new(key, None)];
/// let query = Query { tenant: &tenant, selection: &Selection::default(), keys: Some(&keys), usage_only: true };
/// assert_eq!(index.resolve(&query, Want::default()).candidates, 1);
/// ```
pub struct ImpactIndex {
    state: RwLock<State>,
    /// Held by whoever changes or stores the state; taken before `state`.
    store: Mutex<Store>,
    /// The sequence of the last checkpoint, for readers that must not wait for a writer.
    checkpointed: AtomicU64,
    thresholds: Thresholds,
}

struct Store {
    /// `None`: in memory only.
    db: Option<DB>,
    saved: Meta,
}

impl ImpactIndex {
    /// An empty index that is never stored.
    pub fn in_memory(thresholds: Thresholds) -> Self {
        Self::over(State::new(&thresholds, 0), None, Meta::default(), thresholds)
    }

    /// The index as its last checkpoint in the folder has it; empty, at sequence 0, when there is none. The catalog's
    /// changes after [`ImpactIndex::sequence`] are then for the caller to apply.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] when the checkpoint cannot be read whole: then [`ImpactIndex::create`] and a rebuild from
    /// the catalog are the way out.
    pub fn open(path: &Path, thresholds: Thresholds) -> Result<Self, IndexError> {
        let db = DB::open(&options(), path)?;
        let (state, saved) = crate::load::load(&db, &thresholds)?;
        Ok(Self::over(state, Some(db), saved, thresholds))
    }

    /// An empty index in the folder, in place of what the storage engine has there, damaged or not.
    ///
    /// # Errors
    /// When the storage fails, or another process holds the folder.
    pub fn create(path: &Path, thresholds: Thresholds) -> Result<Self, IndexError> {
        DB::destroy(&options(), path)?;
        Self::open(path, thresholds)
    }

    fn over(state: State, db: Option<DB>, saved: Meta, thresholds: Thresholds) -> Self {
        let checkpointed = AtomicU64::new(saved.sequence);
        Self { state: RwLock::new(state), store: Mutex::new(Store { db, saved }), checkpointed, thresholds }
    }

    /// Empties the index, and its checkpoint, for a rebuild: a new generation at sequence 0.
    ///
    /// # Errors
    /// When the storage fails; the index is then as before.
    pub fn reset(&self) -> Result<(), IndexError> {
        self.swap(State::new(&self.thresholds, 0))
    }

    /// Takes over what another index holds, as a new generation, and checkpoints it. Readers see the old one until then
    /// and the new one from then on.
    ///
    /// # Errors
    /// When the storage fails. The index answers as one of the two; a checkpoint that is lacking is made up for by a replay
    /// from the catalog.
    pub fn replace(&self, fresh: Self) -> Result<u64, IndexError> {
        self.swap(fresh.state.into_inner())?;
        self.checkpoint()
    }

    /// Puts a state in the place of the present one, as a new generation that no checkpoint has yet.
    fn swap(&self, mut state: State) -> Result<(), IndexError> {
        let mut store = self.store.lock();
        state.generation = self.state.read().generation + 1;
        store.saved = match &store.db {
            Some(db) => erase(db, &store.saved, state.generation)?,
            None => Meta::default(),
        };
        self.checkpointed.store(0, Ordering::Relaxed);
        let before = std::mem::replace(&mut *self.state.write(), state);
        drop(before);
        Ok(())
    }

    /// Applies changes in ascending order of their sequences; `packages` are those that their images have, and a package that
    /// many of them have is best there once. A change that is in already is skipped, so that a replay may
    /// begin anywhere before [`ImpactIndex::sequence`]. A reader sees all changes up to some sequence and none after.
    ///
    /// # Errors
    /// [`IndexError::Full`]: the changes before the failing one are in, it and the later ones are not.
    pub fn apply(&self, packages: &[Component], changes: &[Change<'_>]) -> Result<(), IndexError> {
        let _store = self.store.lock();
        // Looked up while readers go on; no writer can come in between, for the store is held.
        let known = self.state.read().known_components(packages);
        let mut packages = Packages { all: packages, known };
        for changes in changes.chunks(CHANGES_PER_LOCK) {
            self.state.write().apply(&mut packages, changes)?;
        }
        let compacted = {
            let state = self.state.read();
            if !state.wants_compaction(&self.thresholds) {
                return Ok(());
            }
            // As above.
            state.compacted(&self.thresholds)?
        };
        let before = std::mem::replace(&mut *self.state.write(), compacted);
        drop(before);
        Ok(())
    }

    /// The last catalog change that is in the index.
    pub fn sequence(&self) -> u64 {
        self.state.read().sequence
    }

    /// Stores what is new since the last checkpoint, with the sequence, in one atomic step, and returns that sequence.
    /// Readers go on meanwhile.
    ///
    /// # Errors
    /// When the storage fails; the last checkpoint is then still valid.
    pub fn checkpoint(&self) -> Result<u64, IndexError> {
        let mut store = self.store.lock();
        let state = self.state.read();
        let unchanged = store.saved.generation == state.generation && store.saved.sequence == state.sequence;
        match &store.db {
            Some(db) if !unchanged => store.saved = save(db, &state, &store.saved, &self.thresholds)?,
            _ => {}
        }
        self.checkpointed.store(store.saved.sequence, Ordering::Relaxed);
        Ok(state.sequence)
    }

    /// The images that the query's keys touch. Blocks no other reader; asks no disk.
    pub fn resolve(&self, query: &Query<'_>, want: Want) -> Resolution {
        self.state.read().resolve(query, want)
    }

    /// What [`Resolution::digests`] says of some images of a resolution: for a part of them, chosen by other means. None when the
    /// ordinals are of another generation.
    pub fn selected(&self, generation: u64, images: &RoaringBitmap) -> Vec<SelectedImage> {
        let state = self.state.read();
        if state.generation == generation { state.digests(images) } else { Vec::new() }
    }

    /// The ordinals of live images, in the given order, and the generation that they are of.
    pub fn ordinals<'a>(
        &self,
        images: impl IntoIterator<Item = (&'a TenantId, &'a ImageDigest)>,
    ) -> (u64, Vec<Option<u32>>) {
        let state = self.state.read();
        let ordinal = |(tenant, digest): (&TenantId, &ImageDigest)| {
            state.images.find(state.images.tenant(tenant)?, &digest_bytes(digest))
        };
        (state.generation, images.into_iter().map(ordinal).collect())
    }

    /// Hands the union of a query out for measuring; `None` when the tenant has nothing or the query no keys. Writers wait
    /// meanwhile.
    pub fn probe_union<T>(&self, query: &Query<'_>, measure: impl FnOnce(&UnionProbe<'_>) -> T) -> Option<T> {
        self.state.read().probe_union(query).as_ref().map(measure)
    }

    /// How large the index is and how far it is.
    pub fn stats(&self) -> IndexStats {
        let state = self.state.read();
        let marks = state.marks();
        IndexStats {
            images: u64::from(marks.rows) - u64::from(marks.retired),
            retired: marks.retired.into(),
            components: marks.components.into(),
            postings: state.postings.total(),
            bytes: state.bytes_used() as u64,
            generation: state.generation,
            sequence: state.sequence,
            checkpointed: self.checkpointed.load(Ordering::Relaxed),
        }
    }

    /// Compares what every image answers to with an index that was rebuilt from the catalog at the same sequence (P9).
    ///
    /// # Errors
    /// The first difference, in the order of tenants and digests.
    pub fn verify_against(&self, rebuilt: &Self) -> Result<(), Difference> {
        if std::ptr::eq(self, rebuilt) {
            return Ok(());
        }
        self.state.read().verify_against(&rebuilt.state.read())
    }
}

fn options() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_write_buffer_size(WRITE_BUFFER_BYTES);
    options.set_max_open_files(OPEN_FILES_MAX);
    options.set_keep_log_file_num(2);
    options
}
