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
use std::collections::{HashSet, VecDeque};
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

/// Names of changes that are read at once.
const NAMES_LEN_MAX: usize = 4096;

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
    /// It is of another catalog, or of one that has lost what the snapshot has.
    #[error("the snapshot is not of this catalog: {0}")]
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
        let (sequence, images) = (index.sequence(), index.stats().images);
        if sequence == 0 {
            return;
        }
        let other = loop {
            match self.check_names(&index, sequence, images).await {
                Ok(()) => return,
                Err(RestoreError::OtherCatalog(other)) => break other,
                Err(RestoreError::Host(IndexHostError::Store(error @ StoreError::Unavailable { .. }))) => {
                    warn!(%error, "the catalog cannot be read yet");
                }
                Err(error) => {
                    // An entry that cannot be read is no reason to answer nothing.
                    warn!(%error, "the index cannot be compared with the catalog");
                    return;
                }
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

    /// The index of a snapshot, after it was checked that this catalog has what it says, and nothing before that it does not
    /// say. Then it is brought up to the catalog and put in the place of the present one.
    pub async fn restore(&self, path: PathBuf) -> Result<SnapshotInfo, RestoreError> {
        let _rebuilding = self.rebuilding.try_lock().map_err(|_| IndexHostError::Busy)?;
        let read = move || {
            let file = std::fs::File::open(path).map_err(SnapshotError::from)?;
            ImpactIndex::from_snapshot(file, Thresholds::default())
        };
        let (fresh, info) = tokio::task::spawn_blocking(read).await.map_err(|_| IndexHostError::Broken)??;
        self.check_names(&fresh, info.sequence, info.images).await?;
        self.put_in_place(fresh).await?;
        Ok(info)
    }

    /// Compares the images of an index as of a change, by their names, with what the catalog had then, and the last of them whole.
    async fn check_names(&self, index: &ImpactIndex, sequence: u64, images: u64) -> Result<(), RestoreError> {
        let head = self.store.catalog_head().await.map_err(IndexHostError::from)?;
        if sequence > head {
            let other = format!("it is as of change {sequence}, the catalog is at {head}");
            return Err(RestoreError::OtherCatalog(other));
        }
        let (mut after, mut known, mut compared) = (0, HashSet::new(), VecDeque::new());
        loop {
            let names = self.store.catalog_names(after, NAMES_LEN_MAX).await.map_err(IndexHostError::from)?;
            let Some(last) = names.last() else { break };
            after = last.sequence;
            let (_, ordinals) = index.ordinals(names.iter().map(|name| (&name.tenant, &name.digest)));
            for (name, ordinal) in names.iter().zip(ordinals) {
                known.extend(ordinal);
                // Of what has changed since, nothing is known.
                if name.sequence > sequence {
                    continue;
                }
                compared.push_back(name.sequence);
                if compared.len() > BATCH_LEN_MAX {
                    compared.pop_front();
                }
                if name.is_there != ordinal.is_some() {
                    let lacks = if name.is_there { "lacks" } else { "has" };
                    let other = format!("it {lacks} image {} of tenant {}", name.digest, name.tenant);
                    return Err(RestoreError::OtherCatalog(other));
                }
            }
        }
        match (images.saturating_sub(known.len() as u64), compared.front()) {
            (0, Some(first)) => self.check_contents(index, *first, sequence).await,
            (0, None) => Ok(()),
            (others, _) => {
                Err(RestoreError::OtherCatalog(format!("it has {others} images that the catalog never had")))
            }
        }
    }

    /// Compares the images that were put from `first` to `last`, whole: where a catalog has gone another way, it is there.
    async fn check_contents(&self, index: &ImpactIndex, first: u64, last: u64) -> Result<(), RestoreError> {
        let read = self.store.catalog_changes(first.saturating_sub(1), BATCH_LEN_MAX).await;
        let mut changes = read.map_err(IndexHostError::from)?;
        changes.retain(|change| change.sequence <= last);
        let part = ImpactIndex::in_memory(Thresholds::default());
        Prepared::of(changes).apply(&part).map_err(IndexHostError::from)?;
        match index.first_unlike(&part) {
            None => Ok(()),
            Some((tenant, digest)) => {
                Err(RestoreError::OtherCatalog(format!("its image {digest} of tenant {tenant} has other contents")))
            }
        }
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
