use crate::edition::Edition;
use crate::images::digest_bytes;
use crate::resolve::UnionProbe;
use crate::save::{Meta, erase, save};
use crate::view::View;
use crate::writer::Writer;
use crate::{
    Change, Difference, IndexError, IndexStats, Query, Resolution, SelectedImage, Shapes, SnapshotError, SnapshotInfo,
    Thresholds, Want,
};
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use roaring::RoaringBitmap;
use rocksdb::{DB, DBCompressionType, DBRecoveryMode, Options};
use scheduler_model::purl::Component;
use scheduler_model::{ImageDigest, TenantId};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

const WRITE_BUFFER_BYTES: usize = 16 * 1024 * 1024;
const OPEN_FILES_MAX: i32 = 64;

/// The index: in memory, with a checkpoint in a folder of its own unless it is [`ImpactIndex::in_memory`].
///
/// Readers share it and wait for nobody; one writer at a time applies changes, compacts and writes checkpoints.
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
///     timeline: 0,
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
    /// What readers take, whole and at once.
    published: ArcSwap<Edition>,
    /// Held by whoever changes the index; taken before `storage`.
    writer: Mutex<Writer>,
    storage: Mutex<Storage>,
    /// The sequence of the last checkpoint, for readers that must not wait for one that is being written.
    checkpointed: AtomicU64,
    thresholds: Thresholds,
}

struct Storage {
    /// `None`: in memory only.
    db: Option<DB>,
    saved: Meta,
}

impl ImpactIndex {
    /// An empty index that is never stored.
    pub fn in_memory(thresholds: Thresholds) -> Self {
        Self::over(Writer::new(&thresholds, 0), None, Meta::default(), thresholds)
    }

    /// The index as its last checkpoint in the folder has it; empty, at sequence 0, when there is none. The catalog's
    /// changes after [`ImpactIndex::sequence`] are then for the caller to apply.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] when the checkpoint cannot be read whole: then [`ImpactIndex::create`] and a rebuild from
    /// the catalog are the way out.
    pub fn open(path: &Path, thresholds: Thresholds) -> Result<Self, IndexError> {
        std::fs::create_dir_all(path).map_err(|source| IndexError::Folder { folder: path.to_path_buf(), source })?;
        let db = DB::open(&options(), path)?;
        let (writer, saved) = crate::load::load(&db, &thresholds)?;
        Ok(Self::over(writer, Some(db), saved, thresholds))
    }

    /// An empty index in the folder, in place of what the storage engine has there, damaged or not.
    ///
    /// # Errors
    /// When the storage fails, or another process holds the folder.
    pub fn create(path: &Path, thresholds: Thresholds) -> Result<Self, IndexError> {
        DB::destroy(&options(), path)?;
        Self::open(path, thresholds)
    }

    fn over(writer: Writer, db: Option<DB>, saved: Meta, thresholds: Thresholds) -> Self {
        Self {
            published: ArcSwap::new(writer.edition()),
            checkpointed: AtomicU64::new(saved.sequence),
            writer: Mutex::new(writer),
            storage: Mutex::new(Storage { db, saved }),
            thresholds,
        }
    }

    /// Shows readers what the writer has done.
    fn publish(&self, writer: &mut Writer) {
        let before = self.published.swap(writer.edition());
        writer.retire_edition(before);
    }

    /// Empties the index, and its checkpoint, for a rebuild: a new generation at sequence 0.
    ///
    /// # Errors
    /// When the storage fails; the index is then as before.
    pub fn reset(&self) -> Result<(), IndexError> {
        self.swap(Writer::new(&self.thresholds, 0))
    }

    /// Takes over what another index holds, as a new generation, and checkpoints it. Readers see the old one until then
    /// and the new one from then on.
    ///
    /// # Errors
    /// When the storage fails. The index answers as one of the two; a checkpoint that is lacking is made up for by a replay
    /// from the catalog.
    pub fn replace(&self, fresh: Self) -> Result<u64, IndexError> {
        self.swap(fresh.writer.into_inner())?;
        self.checkpoint()
    }

    /// Puts other tables in the place of the present ones, as a new generation that no checkpoint has yet.
    fn swap(&self, mut fresh: Writer) -> Result<(), IndexError> {
        let mut writer = self.writer.lock();
        fresh.generation = writer.generation + 1;
        let mut storage = self.storage.lock();
        storage.saved = match &storage.db {
            Some(db) => erase(db, &storage.saved, fresh.generation)?,
            None => Meta::default(),
        };
        self.checkpointed.store(0, Ordering::Relaxed);
        self.start(&mut writer, fresh);
        Ok(())
    }

    /// Readers that are at it go on in the old tables, which live as long as they are read.
    fn start(&self, writer: &mut Writer, fresh: Writer) {
        *writer = fresh;
        self.published.store(writer.edition());
    }

    /// Applies changes in ascending order of their sequences; `packages` are those that their images have, and a package that
    /// many of them have is best there once. A change that is in already is skipped, so that a replay may
    /// begin anywhere before [`ImpactIndex::sequence`]. A reader sees all changes up to some sequence and none after it.
    ///
    /// # Errors
    /// [`IndexError::Full`]: the changes before the failing one are in, it and the later ones are not.
    pub fn apply(&self, packages: &[Component], changes: &[Change<'_>]) -> Result<(), IndexError> {
        let mut writer = self.writer.lock();
        let mut packages = writer.known(packages);
        for changes in changes.chunks(self.thresholds.changes_per_edition.max(1)) {
            let applied = writer.apply(&mut packages, changes);
            self.publish(&mut writer);
            applied?;
        }
        let edition = self.published.load_full();
        if edition.wants_compaction(&self.thresholds) {
            let compacted = edition.compacted(&self.thresholds)?;
            self.start(&mut writer, compacted);
        }
        Ok(())
    }

    /// The last catalog change that is in the index.
    pub fn sequence(&self) -> u64 {
        self.published.load().sequence
    }

    /// The timeline of that change, as it came with it; 0 when it is not known, or there is none yet. Two catalogs that have a
    /// change of this number and this timeline are the same up to it.
    pub fn timeline(&self) -> u64 {
        self.published.load().timeline
    }

    /// Stores what is new since the last checkpoint, with the sequence, in one atomic step, and returns that sequence.
    /// Readers and the writer go on meanwhile.
    ///
    /// # Errors
    /// When the storage fails; the last checkpoint is then still valid.
    pub fn checkpoint(&self) -> Result<u64, IndexError> {
        let mut storage = self.storage.lock();
        let edition = self.published.load_full();
        let unchanged = storage.saved.generation == edition.generation && storage.saved.sequence == edition.sequence;
        match &storage.db {
            Some(db) if !unchanged => storage.saved = save(db, &edition, &storage.saved, &self.thresholds)?,
            _ => {}
        }
        self.checkpointed.store(storage.saved.sequence, Ordering::Relaxed);
        Ok(edition.sequence)
    }

    /// Writes the index as of now into one compressed file with a checksum. Readers and the writer go on meanwhile.
    ///
    /// ```
    /// use scheduler_impact_index::{ImpactIndex, Thresholds};
    /// let index = ImpactIndex::in_memory(Thresholds::default());
    /// let mut file = Vec::new();
    /// let written = index.snapshot(&mut file)?;
    /// let (again, read) = ImpactIndex::from_snapshot(std::io::Cursor::new(&file), Thresholds::default())?;
    /// assert_eq!((written, again.verify_against(&index)), (read, Ok(())));
    /// # Ok::<(), scheduler_impact_index::SnapshotError>(())
    /// ```
    ///
    /// # Errors
    /// When `out` fails. What was written until then is no snapshot.
    pub fn snapshot(&self, out: impl Write) -> Result<SnapshotInfo, SnapshotError> {
        crate::snapshot::write(&self.published.load_full(), &self.thresholds, out)
    }

    /// The index of a snapshot, in memory. [`ImpactIndex::replace`] puts it in the place of another; the catalog's changes
    /// after [`SnapshotInfo::sequence`] are then for the caller to apply, and that it is of this catalog is for the caller to know.
    ///
    /// # Errors
    /// When the file is none, or not as it was written.
    pub fn from_snapshot(
        input: impl Read + Seek,
        thresholds: Thresholds,
    ) -> Result<(Self, SnapshotInfo), SnapshotError> {
        let (writer, info) = crate::snapshot::read(input, &thresholds)?;
        Ok((Self::over(writer, None, Meta::default(), thresholds), info))
    }

    /// The images that the query's keys touch. Waits for nobody and asks no disk.
    pub fn resolve(&self, query: &Query<'_>, want: Want) -> Resolution {
        self.published.load_full().resolve(query, want)
    }

    /// What [`Resolution::digests`] says of some images of a resolution: for a part of them, chosen by other means. None when the
    /// ordinals are of another generation.
    pub fn selected(&self, generation: u64, images: &RoaringBitmap) -> Vec<SelectedImage> {
        let edition = self.published.load_full();
        if edition.generation == generation { edition.digests(images) } else { Vec::new() }
    }

    /// The ordinals of live images, in the given order, and the generation that they are of.
    pub fn ordinals<'a>(
        &self,
        images: impl IntoIterator<Item = (&'a TenantId, &'a ImageDigest)>,
    ) -> (u64, Vec<Option<u32>>) {
        let edition = self.published.load_full();
        let known = &edition.state.images;
        let ordinal = |(tenant, digest): (&TenantId, &ImageDigest)| {
            known.find(&edition.live, known.tenant(tenant)?, &digest_bytes(digest))
        };
        (edition.generation, images.into_iter().map(ordinal).collect())
    }

    /// Hands the union of a query out for measuring; `None` when the tenant has nothing or the query no keys.
    pub fn probe_union<T>(&self, query: &Query<'_>, measure: impl FnOnce(&UnionProbe<'_>) -> T) -> Option<T> {
        self.published.load_full().probe_union(query).as_ref().map(measure)
    }

    /// How large the index is and how far it is.
    pub fn stats(&self) -> IndexStats {
        let edition = self.published.load_full();
        let marks = edition.marks;
        IndexStats {
            images: u64::from(marks.rows) - u64::from(marks.retired),
            retired: marks.retired.into(),
            components: marks.components.into(),
            postings: edition.postings,
            bytes: edition.bytes_used() as u64,
            generation: edition.generation,
            sequence: edition.sequence,
            checkpointed: self.checkpointed.load(Ordering::Relaxed),
        }
    }

    /// In which ways the sets of images are kept.
    pub fn shapes(&self) -> Shapes {
        let edition = self.published.load_full();
        let postings = &edition.state.postings;
        let mut shapes = Shapes::default();
        for view in (0..edition.marks.components).map(|component| postings.view(component)) {
            *match view {
                View::One(_) => &mut shapes.in_place,
                View::List(_) => &mut shapes.lists,
                View::Long(_) => &mut shapes.paged,
                View::Dense(_) => &mut shapes.bits,
            } += 1;
        }
        shapes
    }

    /// Compares what every image answers to with an index that was rebuilt from the catalog at the same sequence (P9).
    ///
    /// # Errors
    /// The first difference, in the order of tenants and digests.
    pub fn verify_against(&self, rebuilt: &Self) -> Result<(), Difference> {
        if std::ptr::eq(self, rebuilt) {
            return Ok(());
        }
        self.published.load_full().verify_against(&rebuilt.published.load_full())
    }
}

fn options() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_write_buffer_size(WRITE_BUFFER_BYTES);
    options.set_max_open_files(OPEN_FILES_MAX);
    // What is torn off at the end of the log is what a crash does; what is altered before it is damage, not to be passed over.
    options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    options.set_keep_log_file_num(2);
    options
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PutImage;
    use scheduler_model::{ImageDigest, ImagePlace, TenantId};

    fn restless() -> ImpactIndex {
        ImpactIndex::in_memory(Thresholds {
            dense_len_min: 4,
            dense_one_in: 20,
            piece_len: 16,
            page_words: 2,
            changes_per_edition: 2,
            ..Thresholds::default()
        })
    }

    /// Puts further images, each with some of 300 packages, of which the first are popular.
    fn put(index: &ImpactIndex, sequences: std::ops::Range<u64>) {
        let tenant = TenantId::try_from("acme".to_owned()).unwrap();
        let packages: Vec<_> =
            (0..300).map(|at| Component::parse(&format!("pkg:npm/lib-{at}@1"), None).unwrap()).collect();
        for sequence in sequences {
            let components: Vec<u32> = (0..300)
                .filter(|at| (sequence * 7919 + u64::from(*at) * 104_729) % (u64::from(*at) / 5 + 2) == 0)
                .collect();
            let (digest, place) = (ImageDigest::of(&sequence.to_le_bytes()), ImagePlace::default());
            let put = PutImage { place: &place, components: &components, used: Some(&[0]) };
            index
                .apply(&packages, &[Change { sequence, timeline: 0, tenant: &tenant, digest: &digest, put: Some(put) }])
                .unwrap();
        }
    }

    /// IDX-8: a reader that is slow looks at the same numbers all the time, however often the sets move meanwhile.
    #[test]
    fn what_a_reader_looks_at_stays_until_it_gives_its_edition_up() {
        let index = restless();
        put(&index, 1..300);
        let edition = index.published.load_full();
        let postings = &edition.state.postings;
        let all = |set| {
            let mut all = Vec::new();
            postings.view(set).each(0, u32::MAX, |ordinal, used| all.push((ordinal, used)));
            all
        };
        let held: Vec<_> = (0..postings.sets()).map(|set| (postings.view(set), all(set))).collect();
        put(&index, 300..1500);
        for (view, before) in &held {
            for &(ordinal, used) in before {
                assert_eq!(view.get(ordinal), Some(used), "posting {ordinal} of {} has changed", before.len());
            }
        }
    }

    #[test]
    fn blocks_are_used_again_when_nobody_reads() {
        let grown = |read: bool| {
            let index = restless();
            put(&index, 1..300);
            let _edition = read.then(|| index.published.load_full());
            put(&index, 300..1500);
            index.published.load().state.postings.bytes_used()
        };
        let (free, held) = (grown(false), grown(true));
        assert!(free * 3 < held * 2, "{free} bytes alone, {held} beside a reader");
    }
}
