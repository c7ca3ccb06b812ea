//! The embedded store: every port of the catalog, the schedules, the inbox and the runs over one RocksDB folder.
//!
//! Failure behaviour: a write that cannot be made durable (a full disk, an I/O error) answers `Unavailable` and counts as
//! not done, though a later look may find it done, as with any lost answer; every operation may be repeated. The database is
//! opened again when there is room, and goes on. Reads see only what is durable.
//!
//! Invariants: see `commit` (STO-1 to STO-3). It knows nothing of queues, scanners or HTTP, and has no clock: housekeeping
//! is told the time.

#[cfg(test)]
mod broken_tests;
mod catalog;
mod commit;
mod doc;
mod engine;
mod events;
mod family;
mod feed;
mod housekeeping;
mod key;
mod queues;
mod read;
mod recent;
mod reports;
mod runs;
mod schedules;
mod ticks;
mod timelines;
mod upgrade;
mod writable;

use commit::{CATALOG_HEAD, Committer, REPORTS_HEAD, SCHEDULES_HEAD, Signals, Tx};
use engine::{Engine, View};
use family::Cf;
use read::ReadExt;
use recent::Recent;
use scheduler_core::ports::{StoreError, StoreResult};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::watch;
use writable::Trials;

/// Why the store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder is not there and cannot be made.
    #[error("the data folder {} cannot be made", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Another process, or this one, has it open.
    #[error("the data folder {} is in use by another process; stop that, or name another folder (--data-dir)", folder.display())]
    InUse {
        /// The folder.
        folder: PathBuf,
    },
    /// A newer program wrote it.
    #[error("the data folder {} has format {found}, this program knows up to {known}", folder.display())]
    Newer {
        /// The folder.
        folder: PathBuf,
        /// Its format.
        found: u64,
        /// The highest that this program reads.
        known: u64,
    },
    /// Its first page cannot be read.
    #[error("the data folder {} cannot be read", folder.display())]
    Meta {
        /// The folder.
        folder: PathBuf,
        /// Why.
        #[source]
        source: StoreError,
    },
    /// The engine refuses it.
    #[error("the data folder {} cannot be opened", folder.display())]
    Engine {
        /// The folder.
        folder: PathBuf,
        /// The engine's words.
        #[source]
        source: rocksdb::Error,
    },
    /// The writing thread could not be started.
    #[error("the store's thread cannot be started")]
    Thread(#[source] std::io::Error),
}

/// The store in a folder of this process. Dropping it carries out what was handed over and gives the folder free.
pub struct EmbeddedStore {
    // Before the engine: its end is waited for while the engine is there.
    committer: Committer,
    engine: Arc<Engine>,
    signals: Arc<Signals>,
    recent: Arc<Recent>,
    trials: Trials,
}

impl EmbeddedStore {
    /// Opens a folder, which is created when it is not there. One process may have it open.
    pub fn open(folder: &Path) -> Result<Self, OpenError> {
        let engine = Arc::new(Engine::open(folder)?);
        let unread = |source| OpenError::Meta { folder: folder.to_path_buf(), source };
        upgrade::upgrade(&engine).map_err(unread)?;
        let head = |key| engine.read(|view| view.number(Cf::Meta, key)).map_err(unread);
        let signals = Arc::new(Signals {
            catalog: watch::Sender::new(head(CATALOG_HEAD)?),
            outbox: watch::Sender::new(0),
            schedules: watch::Sender::new(head(SCHEDULES_HEAD)?),
            reports: watch::Sender::new(head(REPORTS_HEAD)?),
            failing: watch::Sender::new(false),
        });
        let committer = Committer::start(Arc::clone(&engine), Arc::clone(&signals)).map_err(OpenError::Thread)?;
        Ok(Self { committer, engine, signals, recent: Arc::default(), trials: Trials::default() })
    }

    /// The number of the last durable catalog change; moves when a change has become durable.
    pub fn subscribe_catalog(&self) -> watch::Receiver<u64> {
        self.signals.catalog.subscribe()
    }

    /// Moves when an event of any tenant has become durable. The value itself means nothing.
    pub fn subscribe_outbox(&self) -> watch::Receiver<u64> {
        self.signals.outbox.subscribe()
    }

    /// The number of the last durable change of a schedule.
    pub fn subscribe_schedules(&self) -> watch::Receiver<u64> {
        self.signals.schedules.subscribe()
    }

    /// A number that no call, of this or an earlier process, was given before; later ones are higher.
    pub async fn next_epoch(&self) -> StoreResult<u64> {
        self.submit(|tx| tx.next_number(Cf::Meta, b"epoch")).await
    }

    /// A consistent copy of everything durable at `path`, which must not exist. Goes on beside reads and writes.
    pub async fn checkpoint_to(&self, path: &Path) -> StoreResult<()> {
        let (engine, path) = (Arc::clone(&self.engine), path.to_path_buf());
        blocking(move || engine.checkpoint(&path)).await
    }

    /// How often the write-ahead log was synced since the folder was opened.
    pub fn wal_syncs(&self) -> u64 {
        self.engine.wal_syncs()
    }

    async fn submit<T: Send + 'static>(
        &self,
        transaction: impl FnOnce(&mut Tx<'_>) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        self.committer.submit(transaction).await
    }

    /// Reads off the runtime's threads, so that a long scan holds up nobody.
    async fn read<T: Send + 'static>(
        &self,
        reader: impl FnOnce(&View<'_>) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let engine = Arc::clone(&self.engine);
        blocking(move || engine.read(reader)).await
    }

    /// Reads what a queue has under a prefix; most have nothing, which costs nothing.
    async fn read_queue<T: Send + 'static>(
        &self,
        queue: Cf,
        prefix: &[u8],
        reader: impl FnOnce(&View<'_>) -> StoreResult<Vec<T>> + Send + 'static,
    ) -> StoreResult<Vec<T>> {
        if self.engine.is_empty(queue, prefix) { Ok(Vec::new()) } else { self.read(reader).await }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> StoreResult<T> + Send + 'static) -> StoreResult<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => {
            Err(StoreError::Unavailable { what: "reading in the background".to_owned(), source: Box::new(error) })
        }
    }
}

fn not_found(kind: &str, id: &str) -> StoreError {
    StoreError::NotFound { what: format!("{kind} {id}") }
}

fn conflict(kind: &str, id: &str) -> StoreError {
    StoreError::Conflict { what: format!("{kind} {id}") }
}
