//! The database: opening it, reading a snapshot of it, one synced write, opening it again after a failure.

use crate::family::Cf;
use crate::queues::Queues;
use crate::read::{Read, ReadExt, Visit};
use crate::{OpenError, doc};
use parking_lot::RwLock;
use rocksdb::checkpoint::Checkpoint;
use rocksdb::statistics::{StatsLevel, Ticker};
use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamily, ColumnFamilyDescriptor, DB, DBCompressionType, Direction, ErrorKind,
    IteratorMode, Options, ReadOptions, Snapshot, WriteBatch, WriteOptions,
};
use scheduler_core::ports::{StoreError, StoreResult};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The version of the layout of keys and families. Raised when an older program would misread the folder, or write to it what a
/// newer one would not find. 2: reports have a log.
pub(crate) const FORMAT: u64 = 2;
pub(crate) const FORMAT_KEY: &[u8] = b"format";

const MIB: usize = 1 << 20;
const BLOCK_CACHE_BYTES: usize = 64 * MIB;
/// All memtables together. One family has many small values, most have few: a common budget fits both.
const MEMTABLES_BYTES: usize = 64 * MIB;
const WAL_BYTES_MAX: u64 = 256 << 20;
/// Thirty families, most of them small: the usual megabyte each would be wasted.
const ARENA_BYTES: usize = 64 << 10;
/// Room that must be there before a database that failed is opened again, since opening writes too.
const PROBE_BYTES: usize = 4 * MIB;

/// One open database. `None` while it could not be opened again after a failure.
pub(crate) struct Engine {
    folder: PathBuf,
    options: Options,
    cache: Cache,
    /// Taken before `queues` by whoever takes both.
    db: RwLock<Option<DB>>,
    queues: RwLock<Queues>,
}

impl Engine {
    /// Opens the folder, which it creates when it is not there, for this process alone.
    pub(crate) fn open(folder: &Path) -> Result<Self, OpenError> {
        std::fs::create_dir_all(folder).map_err(|source| OpenError::Folder { folder: folder.to_path_buf(), source })?;
        let (options, cache) = (options(), Cache::new_lru_cache(BLOCK_CACHE_BYTES));
        let db = open_db(&options, &cache, folder)?;
        let queues = RwLock::new(queues(&db, folder)?);
        Ok(Self { folder: folder.to_path_buf(), options, cache, db: RwLock::new(Some(db)), queues })
    }

    /// Runs a reader on the present durable state.
    pub(crate) fn read<T>(&self, reader: impl FnOnce(&View<'_>) -> StoreResult<T>) -> StoreResult<T> {
        let guard = self.db.read();
        let db = guard.as_ref().ok_or_else(closed)?;
        reader(&View { db, snapshot: db.snapshot(), queues: &self.queues })
    }

    /// Whether nothing in a queue begins with `prefix`. It is known without reading.
    pub(crate) fn is_empty(&self, queue: Cf, prefix: &[u8]) -> bool {
        let db = self.db.read();
        let queues = self.queues.read();
        db.is_some() && queues.range(queue, prefix, prefix, true).is_some_and(|mut keys| keys.next().is_none())
    }

    /// Writes a batch and syncs the log: when it returns `Ok`, all of it survives a power loss; on an error it may or may not
    /// be there after the database was opened again.
    pub(crate) fn write(&self, writes: impl IntoIterator<Item = KeyWrite>) -> StoreResult<()> {
        let guard = self.db.read();
        let db = guard.as_ref().ok_or_else(closed)?;
        let mut batch = WriteBatch::default();
        let mut queued = Vec::new();
        for KeyWrite { cf, key, value } in writes {
            let handle = handle(db, cf)?;
            if Queues::has(cf) {
                queued.push((cf, key.clone(), value.is_some()));
            }
            match value {
                Some(value) => batch.put_cf(handle, key, value),
                None => batch.delete_cf(handle, key),
            }
        }
        let mut synced = WriteOptions::default();
        synced.set_sync(true);
        db.write_opt(batch, &synced).map_err(|error| failed("writing", error))?;
        let mut queues = self.queues.write();
        queued.into_iter().for_each(|(cf, key, is_there)| queues.set(cf, &key, is_there));
        Ok(())
    }

    /// Opens the database again after a write failed, which leaves RocksDB refusing writes; first makes sure that there is
    /// room, because a database that cannot be opened serves no reads either.
    pub(crate) fn reopen(&self) -> StoreResult<()> {
        self.probe().map_err(|source| StoreError::Unavailable {
            what: "looking for room in the data folder".to_owned(),
            source: Box::new(source),
        })?;
        let mut guard = self.db.write();
        // The lock of the folder is free only when the old one is gone.
        drop(guard.take());
        let opened = open_db(&self.options, &self.cache, &self.folder)
            .and_then(|db| Ok((queues(&db, &self.folder)?, db)))
            .map_err(|error| StoreError::Unavailable {
                what: "opening the store again".to_owned(),
                source: Box::new(error),
            })?;
        *self.queues.write() = opened.0;
        *guard = Some(opened.1);
        Ok(())
    }

    fn probe(&self) -> std::io::Result<()> {
        let path = self.folder.join("room.probe");
        let written = std::fs::File::create(&path).and_then(|mut file| {
            file.write_all(&vec![0; PROBE_BYTES])?;
            file.sync_all()
        });
        std::fs::remove_file(&path)?;
        written
    }

    /// How often the log was synced since the process started.
    pub(crate) fn wal_syncs(&self) -> u64 {
        self.options.get_ticker_count(Ticker::WalFileSynced)
    }

    /// A consistent copy at `path`, which must not exist; hard links where the file system is the same.
    pub(crate) fn checkpoint(&self, path: &Path) -> StoreResult<()> {
        let guard = self.db.read();
        let db = guard.as_ref().ok_or_else(closed)?;
        Checkpoint::new(db)
            .and_then(|checkpoint| checkpoint.create_checkpoint(path))
            .map_err(|error| failed("making a checkpoint", error))
    }
}

/// A put, or a deletion where there is no value.
pub(crate) struct KeyWrite {
    pub(crate) cf: Cf,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Option<Vec<u8>>,
}

/// A snapshot of what is durable.
pub(crate) struct View<'a> {
    db: &'a DB,
    snapshot: Snapshot<'a>,
    queues: &'a RwLock<Queues>,
}

impl View<'_> {
    /// Visits the keys of a family as they are on disk, and everything that was deleted between them.
    pub(crate) fn walk(
        &self,
        cf: Cf,
        prefix: &[u8],
        from: &[u8],
        inclusive: bool,
        visit: Visit<'_>,
    ) -> StoreResult<()> {
        let mode = IteratorMode::From(from, Direction::Forward);
        for entry in self.snapshot.iterator_cf_opt(handle(self.db, cf)?, bounded(prefix), mode) {
            let (key, value) = entry.map_err(|error| failed("reading", error))?;
            if !inclusive && &*key == from {
                continue;
            }
            if !key.starts_with(prefix) || !visit(&key, &value)? {
                break;
            }
        }
        Ok(())
    }
}

impl Read for View<'_> {
    fn get(&self, cf: Cf, key: &[u8]) -> StoreResult<Option<Vec<u8>>> {
        self.snapshot.get_cf(handle(self.db, cf)?, key).map_err(|error| failed("reading", error))
    }

    fn visit_from(&self, cf: Cf, prefix: &[u8], from: &[u8], inclusive: bool, visit: Visit<'_>) -> StoreResult<()> {
        // Copied, so that no writer waits for a visitor.
        let keys: Option<Vec<Box<[u8]>>> =
            self.queues.read().range(cf, prefix, from, inclusive).map(|keys| keys.map(Box::from).collect());
        let Some(keys) = keys else { return self.walk(cf, prefix, from, inclusive, visit) };
        for key in keys {
            if let Some(value) = self.get(cf, &key)?
                && !visit(&key, &value)?
            {
                break;
            }
        }
        Ok(())
    }
}

/// The keys of the queues as they are on disk.
fn queues(db: &DB, folder: &Path) -> Result<Queues, OpenError> {
    let (none, mut queues) = (RwLock::default(), Queues::default());
    let view = View { db, snapshot: db.snapshot(), queues: &none };
    for cf in Queues::families() {
        let taken = view.walk(cf, &[], &[], true, &mut |key, _| {
            queues.set(cf, key, true);
            Ok(true)
        });
        taken.map_err(|source| OpenError::Meta { folder: folder.to_path_buf(), source })?;
    }
    Ok(queues)
}

/// Keeps an iterator from walking over the graves beyond the prefix.
fn bounded(prefix: &[u8]) -> ReadOptions {
    let mut options = ReadOptions::default();
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(next) = last.checked_add(1) {
            end.push(next);
            options.set_iterate_upper_bound(end);
            break;
        }
    }
    options
}

fn handle(db: &DB, cf: Cf) -> StoreResult<&ColumnFamily> {
    db.cf_handle(cf.name()).ok_or_else(closed)
}

fn options() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_db_write_buffer_size(MEMTABLES_BYTES);
    options.set_max_total_wal_size(WAL_BYTES_MAX);
    options.set_max_background_jobs(2);
    options.set_max_open_files(512);
    options.set_keep_log_file_num(3);
    options.enable_statistics();
    options.set_statistics_level(StatsLevel::ExceptHistogramOrTimers);
    options
}

fn family_options(cache: &Cache) -> Options {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(cache);
    blocks.set_bloom_filter(10.0, false);
    let mut options = Options::default();
    options.set_block_based_table_factory(&blocks);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_arena_block_size(ARENA_BYTES);
    options
}

fn open_db(options: &Options, cache: &Cache, folder: &Path) -> Result<DB, OpenError> {
    let engine = |source| OpenError::Engine { folder: folder.to_path_buf(), source };
    // Families of a newer program have to be opened too, so that its format can be read and refused by number.
    let found =
        if folder.join("CURRENT").exists() { DB::list_cf(options, folder).map_err(engine)? } else { Vec::new() };
    let unknown = found.into_iter().filter(|name| Cf::ALL.iter().all(|cf| cf.name() != name));
    let names = Cf::ALL.iter().map(|cf| cf.name().to_owned()).chain(unknown);
    let families = names.map(|name| ColumnFamilyDescriptor::new(name, family_options(cache)));
    let db = DB::open_cf_descriptors(options, folder, families).map_err(|source| {
        // Of another process, or of this one; a lock file that may not be opened is another matter.
        let held = ["While lock file", "lock hold by current process"];
        if source.kind() == ErrorKind::IOError && held.iter().any(|words| source.as_ref().contains(words)) {
            OpenError::InUse { folder: folder.to_path_buf() }
        } else {
            engine(source)
        }
    })?;
    check_format(&db, folder)?;
    Ok(db)
}

fn check_format(db: &DB, folder: &Path) -> Result<(), OpenError> {
    let meta = |error| OpenError::Meta { folder: folder.to_path_buf(), source: error };
    let view = View { db, snapshot: db.snapshot(), queues: &RwLock::default() };
    let found = view.number(Cf::Meta, FORMAT_KEY).map_err(meta)?;
    if found > FORMAT {
        return Err(OpenError::Newer { folder: folder.to_path_buf(), found, known: FORMAT });
    }
    if found == 0 {
        let mut synced = WriteOptions::default();
        synced.set_sync(true);
        let cf = handle(db, Cf::Meta).map_err(meta)?;
        db.put_cf_opt(cf, FORMAT_KEY, FORMAT.to_be_bytes(), &synced)
            .map_err(|source| OpenError::Engine { folder: folder.to_path_buf(), source })?;
    }
    Ok(())
}

fn failed(what: &str, error: rocksdb::Error) -> StoreError {
    if error.kind() == ErrorKind::Corruption {
        doc::corrupt("the database", error)
    } else {
        StoreError::Unavailable { what: what.to_owned(), source: Box::new(error) }
    }
}

/// The database is not open: it failed and could not be opened again yet, or it is being closed.
#[derive(Debug, thiserror::Error)]
#[error("the database is closed")]
pub(crate) struct Closed;

pub(crate) fn closed() -> StoreError {
    StoreError::Unavailable { what: "using the store".to_owned(), source: Box::new(Closed) }
}
