//! Keeps the ImpactIndex of this process abreast of the catalog.
//!
//! The catalog is the truth; the index is a view that may be thrown away. It is loaded from its last checkpoint, the
//! changes after that are applied in the order of their numbers, and it follows the catalog from then on. A checkpoint that
//! cannot be trusted is dropped and the index rebuilt from the catalog.

use crate::changes::Prepared;
use crate::reports::Reports;
use parking_lot::RwLock;
use scheduler_core::ports::{Feed, Store, StoreError};
use scheduler_impact_index::{
    Difference, ImpactIndex, IndexError, ReportSets, SnapshotError, SnapshotInfo, Thresholds,
};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

/// Changes that are read and applied at once.
const BATCH_LEN_MAX: usize = 512;

/// A checkpoint is due after so many changes.
const CHECKPOINT_EVERY: u64 = 20_000;

/// How often the view of reports is brought up to date, so that who asks waits for little.
const REPORTS_EVERY: Duration = Duration::from_secs(5);

/// How long the tail rests when the store cannot be reached.
const STORE_RETRY: Duration = Duration::from_secs(1);

/// How long a verification waits for the index to reach the catalog.
const VERIFY_PATIENCE: Duration = Duration::from_secs(5);

/// How far the index is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexState {
    /// Nothing is applied yet.
    Cold,
    /// It has not reached what the catalog was at the start.
    Warming,
    /// It follows the catalog.
    Warm,
}

impl IndexState {
    /// The word of the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Warming => "warming",
            Self::Warm => "warm",
        }
    }
}

/// What the index can fail with here.
#[derive(Debug, thiserror::Error)]
pub enum IndexHostError {
    /// The index itself.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The catalog behind it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Somebody else has it rebuilt, restored or written out.
    #[error("the index is being worked on already")]
    Busy,
    /// A task of ours was ended from outside.
    #[error("the work on the index was broken off")]
    Broken,
}

/// Why a snapshot was not restored. The index is as before.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// It cannot be read.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// It is of another catalog, of one that has lost what the snapshot has, or does not say of which it is.
    #[error("the snapshot is not known to be of this catalog: {0}")]
    OtherCatalog(String),
    /// The index or the catalog.
    #[error(transparent)]
    Host(#[from] IndexHostError),
}

/// The index of this process and how far it is.
pub struct IndexHost {
    index: RwLock<Arc<ImpactIndex>>,
    store: Arc<dyn Store>,
    feed: Arc<dyn Feed>,
    folder: Option<PathBuf>,
    /// Held by whoever changes the index, or asks it together with what is known of reports.
    turn: Arc<Mutex<Reports>>,
    /// Held while the index is rebuilt, which takes memory for a second one.
    rebuilding: Mutex<()>,
    /// Held while a snapshot is written.
    snapshotting: Arc<Mutex<()>>,
    /// Held while a checkpoint is written.
    checkpointing: Arc<Mutex<()>>,
    checkpoint_every: u64,
    state: watch::Sender<(IndexState, u64)>,
}

impl IndexHost {
    /// Loads the last checkpoint from `folder`; without a folder the index lives in memory alone.
    pub fn open(store: Arc<dyn Store>, feed: Arc<dyn Feed>, folder: Option<PathBuf>) -> Result<Arc<Self>, IndexError> {
        Self::open_with(store, feed, folder, CHECKPOINT_EVERY)
    }

    /// The same with a checkpoint after so many changes.
    pub fn open_with(
        store: Arc<dyn Store>,
        feed: Arc<dyn Feed>,
        folder: Option<PathBuf>,
        checkpoint_every: u64,
    ) -> Result<Arc<Self>, IndexError> {
        let index = match &folder {
            None => ImpactIndex::in_memory(Thresholds::default()),
            Some(path) => match ImpactIndex::open(path, Thresholds::default()) {
                Ok(index) => index,
                Err(error @ IndexError::Damaged { .. }) => {
                    warn!(%error, "the index is damaged and will be rebuilt from the catalog");
                    ImpactIndex::create(path, Thresholds::default())?
                }
                Err(error) => return Err(error),
            },
        };
        let sequence = index.sequence();
        Ok(Arc::new(Self {
            index: RwLock::new(Arc::new(index)),
            store,
            feed,
            folder,
            turn: Arc::default(),
            rebuilding: Mutex::new(()),
            snapshotting: Arc::default(),
            checkpointing: Arc::default(),
            checkpoint_every,
            state: watch::Sender::new((IndexState::Cold, sequence)),
        }))
    }

    /// The index as it is now.
    pub fn index(&self) -> Arc<ImpactIndex> {
        self.index.read().clone()
    }

    /// How far the index is.
    pub fn state(&self) -> IndexState {
        self.state.borrow().0
    }

    /// Waits until the index has everything that the catalog has now, at most so long.
    pub async fn caught_up(&self, patience: Duration) -> Result<IndexState, StoreError> {
        let head = self.store.catalog_head().await?;
        let mut state = self.state.subscribe();
        let reached = state.wait_for(|(state, sequence)| *state == IndexState::Warm && *sequence >= head);
        // Late is no error: the answer says how far the index is.
        let _ = tokio::time::timeout(patience, reached).await;
        let (state, sequence) = *self.state.borrow();
        Ok(if state == IndexState::Warm && sequence < head { IndexState::Warming } else { state })
    }

    /// Waits until the index is warm.
    pub async fn warm(&self) {
        let mut state = self.state.subscribe();
        // The sender lives as long as this host.
        let _ = state.wait_for(|(state, _)| *state == IndexState::Warm).await;
    }

    /// Follows the catalog until `stop`, then writes a last checkpoint.
    pub async fn follow(self: Arc<Self>, stop: CancellationToken) {
        let mut since_checkpoint = 0;
        let mut ahead = Ahead::default();
        self.drop_what_the_catalog_has_not(&stop).await;
        while !stop.is_cancelled() {
            match self.step(&mut ahead).await {
                Ok(0) => {
                    let applied = self.index().sequence();
                    self.state.send_replace((IndexState::Warm, applied));
                    if let Err(error) = self.turn.lock().await.keep_up(&self.index(), self.store.as_ref()).await {
                        warn!(%error, "the view of reports stays behind for now");
                    }
                    tokio::select! {
                        () = stop.cancelled() => {}
                        () = self.feed.catalog_beyond(applied) => {}
                        () = tokio::time::sleep(REPORTS_EVERY) => {}
                    }
                }
                Ok(applied) => {
                    since_checkpoint += applied;
                    self.state.send_modify(|(state, sequence)| {
                        *sequence = self.index().sequence();
                        if *state == IndexState::Cold {
                            *state = IndexState::Warming;
                        }
                    });
                    if since_checkpoint >= self.checkpoint_every && self.begin_checkpoint() {
                        since_checkpoint = 0;
                    }
                }
                Err(error) => {
                    error!(%error, "the index cannot follow the catalog");
                    tokio::select! {
                        () = stop.cancelled() => {}
                        () = tokio::time::sleep(STORE_RETRY) => {}
                    }
                }
            }
        }
        self.checkpoint().await;
    }

    /// Applies the next changes, and prepares those after them meanwhile; gives the number of those applied.
    async fn step(&self, ahead: &mut Ahead) -> Result<u64, IndexHostError> {
        let mut turn = self.turn.lock().await;
        let index = self.index();
        let after = index.sequence();
        // What was read ahead is of no use to an index that was rebuilt since.
        let prepared = match std::mem::take(ahead) {
            Ahead { after: read_after, prepared: Some(prepared) } if read_after == after => prepared,
            _ => self.prepared(after).await?,
        };
        let Some(last) = prepared.last_sequence() else { return Ok(0) };
        let count = prepared.len() as u64;
        let placed = if turn.is_kept() { prepared.placed() } else { Vec::new() };
        let applied = index.clone();
        let applying = tokio::task::spawn_blocking(move || prepared.apply(&applied));
        if count >= BATCH_LEN_MAX as u64 {
            // An error here will be met again by the next step.
            *ahead = Ahead { after: last, prepared: self.prepared(last).await.ok() };
        }
        applying.await.map_err(|_| IndexHostError::Broken)??;
        turn.placed(&index, self.store.as_ref(), &placed).await?;
        Ok(count)
    }

    /// The next changes with their packages.
    async fn prepared(&self, after: u64) -> Result<Prepared, IndexHostError> {
        let changes = self.store.catalog_changes(after, BATCH_LEN_MAX).await?;
        let prepared = tokio::task::spawn_blocking(move || Prepared::of(changes));
        prepared.await.map_err(|_| IndexHostError::Broken)
    }

    /// Asks the index together with every report that is durable by now. Both stand still meanwhile.
    pub(crate) async fn with_reports<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&ImpactIndex, &ReportSets) -> T + Send + 'static,
    ) -> Result<T, IndexHostError> {
        let mut turn = self.turn.clone().lock_owned().await;
        let index = self.index();
        turn.catch_up(&index, self.store.as_ref()).await?;
        let answer = tokio::task::spawn_blocking(move || ask(&index, &turn.sets));
        answer.await.map_err(|_| IndexHostError::Broken)
    }

    /// Empties an index that is not of this catalog: it was put there, or the catalog was restored from a backup and has gone another
    /// way since.
    async fn drop_what_the_catalog_has_not(&self, stop: &CancellationToken) {
        let index = self.index();
        let other = loop {
            match self.check_timeline(&index).await {
                Ok(()) => return,
                Err(RestoreError::OtherCatalog(other)) => break other,
                Err(error) => warn!(%error, "the catalog cannot be read yet"),
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(STORE_RETRY) => {}
            }
        };
        warn!(other, "the index is of another catalog, or of one that was restored since; it will be rebuilt");
        match tokio::task::spawn_blocking(move || index.reset()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => error!(%error, "the index cannot be emptied"),
            Err(error) => error!(%error, "emptying the index was broken off"),
        }
    }

    /// Has a checkpoint written while changes are applied further; false while the last one is still being written.
    fn begin_checkpoint(&self) -> bool {
        let Ok(turn) = self.checkpointing.clone().try_lock_owned() else { return false };
        let index = self.index();
        tokio::task::spawn_blocking(move || {
            report(index.checkpoint());
            drop(turn);
        });
        true
    }

    /// The last checkpoint, after one that may still be being written.
    async fn checkpoint(&self) {
        let _turn = self.checkpointing.lock().await;
        let index = self.index();
        if let Err(error) = tokio::task::spawn_blocking(move || report(index.checkpoint())).await {
            warn!(%error, "the checkpoint was broken off");
        }
    }

    /// An index built from the catalog alone, in memory, at the catalog's head.
    pub async fn rebuilt(&self) -> Result<ImpactIndex, IndexHostError> {
        let fresh = Arc::new(ImpactIndex::in_memory(Thresholds::default()));
        self.catch_up(&fresh).await?;
        Arc::try_unwrap(fresh).map_err(|_| IndexHostError::Broken)
    }

    /// Applies what the catalog has beyond an index.
    async fn catch_up(&self, index: &Arc<ImpactIndex>) -> Result<(), IndexHostError> {
        loop {
            let prepared = self.prepared(index.sequence()).await?;
            if prepared.len() == 0 {
                return Ok(());
            }
            let index = index.clone();
            let applied = tokio::task::spawn_blocking(move || prepared.apply(&index));
            applied.await.map_err(|_| IndexHostError::Broken)??;
        }
    }

    /// Builds the index anew from the catalog and puts it, with a checkpoint, in the place of the present one, which answers
    /// until then. Nothing that was acknowledged is missing from any answer.
    pub async fn rebuild(&self) -> Result<(), IndexHostError> {
        let _rebuilding = self.rebuilding.try_lock().map_err(|_| IndexHostError::Busy)?;
        let fresh = self.rebuilt().await?;
        let sequence = self.put_in_place(fresh).await?;
        info!(sequence, "the index was rebuilt from the catalog");
        Ok(())
    }

    /// Brings an index up to the catalog and puts it, with a checkpoint, in the place of the present one; gives its sequence.
    async fn put_in_place(&self, fresh: ImpactIndex) -> Result<u64, IndexHostError> {
        let fresh = Arc::new(fresh);
        self.catch_up(&fresh).await?;
        // From here on the present index goes no further, so that the fresh one can reach it.
        let turn = self.turn.lock().await;
        self.catch_up(&fresh).await?;
        let fresh = Arc::try_unwrap(fresh).map_err(|_| IndexHostError::Broken)?;
        let index = self.index();
        let sequence =
            tokio::task::spawn_blocking(move || index.replace(fresh)).await.map_err(|_| IndexHostError::Broken)??;
        self.state.send_replace((IndexState::Warm, sequence));
        drop(turn);
        Ok(sequence)
    }

    /// Has a snapshot written to `out`, on a thread that may wait for it.
    pub fn snapshot(
        &self,
        out: impl Write + Send + 'static,
    ) -> Result<JoinHandle<Result<SnapshotInfo, SnapshotError>>, IndexHostError> {
        let turn = self.snapshotting.clone().try_lock_owned().map_err(|_| IndexHostError::Busy)?;
        let index = self.index();
        Ok(tokio::task::spawn_blocking(move || {
            let written = index.snapshot(out);
            drop(turn);
            written
        }))
    }

    /// The index of a snapshot, after it was checked that it is of this catalog. Then it is brought up to the catalog and put in the place of the present one.
    pub async fn restore(&self, path: PathBuf) -> Result<SnapshotInfo, RestoreError> {
        let _rebuilding = self.rebuilding.try_lock().map_err(|_| IndexHostError::Busy)?;
        let read = move || {
            let file = std::fs::File::open(path).map_err(SnapshotError::from)?;
            ImpactIndex::from_snapshot(file, Thresholds::default())
        };
        let (fresh, info) = tokio::task::spawn_blocking(read).await.map_err(|_| IndexHostError::Broken)??;
        self.check_timeline(&fresh).await?;
        self.put_in_place(fresh).await?;
        Ok(info)
    }

    /// Whether an index is of this catalog: whether its last change is in the timeline that the catalog has for it.
    async fn check_timeline(&self, index: &ImpactIndex) -> Result<(), RestoreError> {
        let (sequence, timeline) = (index.sequence(), index.timeline());
        let head = self.store.catalog_head().await.map_err(IndexHostError::from)?;
        let known = self.store.timeline_at(sequence).await.map_err(IndexHostError::from)?;
        let other = if sequence > head {
            format!("it is as of change {sequence}, the catalog is at {head}")
        } else if sequence > 0 && timeline == 0 {
            "it does not say of which catalog it is, as those of format 1 do not".to_owned()
        } else if timeline != known {
            format!("its change {sequence} is another one than the catalog's")
        } else {
            return Ok(());
        };
        Err(RestoreError::OtherCatalog(other))
    }

    /// Compares the index with one that is built from the catalog; gives the first difference.
    ///
    /// Changes that come meanwhile are waited for, so that both are as of the same sequence.
    pub async fn verify(&self) -> Result<Option<Difference>, IndexHostError> {
        loop {
            let fresh = self.rebuilt().await?;
            self.caught_up(VERIFY_PATIENCE).await?;
            let index = self.index();
            if index.sequence() != fresh.sequence() {
                continue;
            }
            let compare = move || (index.verify_against(&fresh).err(), index.sequence() == fresh.sequence());
            let (difference, same) = tokio::task::spawn_blocking(compare).await.map_err(|_| IndexHostError::Broken)?;
            // A change in between may show as a difference that is none.
            if difference.is_none() || same {
                return Ok(difference);
            }
        }
    }

    /// Whether the index keeps checkpoints on disk.
    pub fn is_persistent(&self) -> bool {
        self.folder.is_some()
    }
}

fn report(checkpointed: Result<u64, IndexError>) {
    match checkpointed {
        Ok(sequence) => info!(sequence, "the index is checkpointed"),
        Err(error) => warn!(%error, "the index could not be checkpointed; the catalog will be replayed further"),
    }
}

/// Changes that were read and prepared while those before them were applied.
#[derive(Default)]
struct Ahead {
    /// The sequence that they come after.
    after: u64,
    prepared: Option<Prepared>,
}
