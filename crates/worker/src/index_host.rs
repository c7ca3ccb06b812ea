//! Keeps the ImpactIndex of this process abreast of the catalog.
//!
//! The catalog is the truth; the index is a view that may be thrown away. It is loaded from its last checkpoint, the
//! changes after that are applied in the order of their numbers, and it follows the catalog from then on. A checkpoint that
//! cannot be trusted is dropped and the index rebuilt from the catalog.

use crate::reports::Reports;
use parking_lot::RwLock;
use scheduler_core::ports::{CatalogChange, Feed, Store, StoreError};
use scheduler_impact_index::{Change, Difference, ImpactIndex, IndexError, PutImage, ReportSets, Thresholds};
use scheduler_model::purl::Component;
use scheduler_model::{CatalogComponent, Image, ImageDigest, TenantId};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, watch};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

/// Changes that are read and applied at once.
const BATCH_LEN_MAX: usize = 512;

/// A position that no package has.
const NO_PACKAGE: u32 = u32::MAX;

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
    /// It is being rebuilt already.
    #[error("the index is being rebuilt already")]
    Busy,
    /// A task of ours was ended from outside.
    #[error("the work on the index was broken off")]
    Broken,
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
    state: watch::Sender<(IndexState, u64)>,
}

impl IndexHost {
    /// Loads the last checkpoint from `folder`; without a folder the index lives in memory alone.
    pub fn open(store: Arc<dyn Store>, feed: Arc<dyn Feed>, folder: Option<PathBuf>) -> Result<Arc<Self>, IndexError> {
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
                    if since_checkpoint >= CHECKPOINT_EVERY {
                        self.checkpoint().await;
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

    /// Applies the next changes, and reads those after them meanwhile; gives the number of those applied.
    async fn step(&self, ahead: &mut Ahead) -> Result<u64, IndexHostError> {
        let mut turn = self.turn.lock().await;
        let index = self.index();
        let after = index.sequence();
        // What was read ahead is of no use to an index that was rebuilt since.
        let changes = match std::mem::take(ahead) {
            Ahead { after: read_after, changes } if read_after == after && !changes.is_empty() => changes,
            _ => self.store.catalog_changes(after, BATCH_LEN_MAX).await?,
        };
        let Some(last) = changes.last().map(|change| change.sequence) else { return Ok(0) };
        let count = changes.len() as u64;
        let placed = if turn.is_kept() { placed(&changes) } else { Vec::new() };
        let applied = index.clone();
        let applying = tokio::task::spawn_blocking(move || apply(&applied, &changes));
        if count >= BATCH_LEN_MAX as u64 {
            // An error here will be met again by the next step.
            let changes = self.store.catalog_changes(last, BATCH_LEN_MAX).await.unwrap_or_default();
            *ahead = Ahead { after: last, changes };
        }
        applying.await.map_err(|_| IndexHostError::Broken)??;
        turn.placed(&index, self.store.as_ref(), &placed).await?;
        Ok(count)
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

    async fn checkpoint(&self) {
        let index = self.index();
        match tokio::task::spawn_blocking(move || index.checkpoint()).await {
            Ok(Ok(sequence)) => info!(sequence, "the index is checkpointed"),
            Ok(Err(error)) => {
                warn!(%error, "the index could not be checkpointed; the catalog will be replayed further")
            }
            Err(error) => warn!(%error, "the checkpoint was broken off"),
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
            let changes = self.store.catalog_changes(index.sequence(), BATCH_LEN_MAX).await?;
            if changes.is_empty() {
                return Ok(());
            }
            let index = index.clone();
            tokio::task::spawn_blocking(move || apply(&index, &changes))
                .await
                .map_err(|_| IndexHostError::Broken)??;
        }
    }

    /// Builds the index anew from the catalog and puts it, with a checkpoint, in the place of the present one, which answers
    /// until then. Nothing that was acknowledged is missing from any answer.
    pub async fn rebuild(&self) -> Result<(), IndexHostError> {
        let _rebuilding = self.rebuilding.try_lock().map_err(|_| IndexHostError::Busy)?;
        let fresh = Arc::new(self.rebuilt().await?);
        // From here on the present index goes no further, so that the fresh one can reach it.
        let turn = self.turn.lock().await;
        self.catch_up(&fresh).await?;
        let fresh = Arc::try_unwrap(fresh).map_err(|_| IndexHostError::Broken)?;
        let index = self.index();
        let sequence =
            tokio::task::spawn_blocking(move || index.replace(fresh)).await.map_err(|_| IndexHostError::Broken)??;
        self.state.send_replace((IndexState::Warm, sequence));
        drop(turn);
        info!(sequence, "the index was rebuilt from the catalog");
        Ok(())
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

/// The images that some changes put.
fn placed(changes: &[CatalogChange]) -> Vec<(TenantId, ImageDigest)> {
    let put = changes.iter().filter(|change| change.image.is_some());
    put.map(|change| (change.tenant.clone(), change.digest.clone())).collect()
}

/// A small index of these images and nothing else, to ask them what the whole index cannot answer yet.
pub(crate) fn index_of(images: Vec<Image>) -> Result<ImpactIndex, IndexError> {
    let changes: Vec<CatalogChange> = (1..)
        .zip(images)
        .map(|(sequence, image)| CatalogChange {
            sequence,
            tenant: image.tenant.clone(),
            digest: image.digest.clone(),
            image: Some(image),
        })
        .collect();
    let index = ImpactIndex::in_memory(Thresholds::default());
    apply(&index, &changes)?;
    Ok(index)
}

/// Changes that were read while those before them were applied.
#[derive(Default)]
struct Ahead {
    /// The sequence that they come after.
    after: u64,
    changes: Vec<CatalogChange>,
}

fn apply(index: &ImpactIndex, changes: &[CatalogChange]) -> Result<(), IndexError> {
    let mut packages = Packages::default();
    let positions: Vec<Vec<u32>> = changes
        .iter()
        .map(|change| {
            change.image.iter().flat_map(|image| &image.components).map(|stored| packages.of(stored)).collect()
        })
        .collect();
    let changes: Vec<Change<'_>> = changes
        .iter()
        .zip(&positions)
        .map(|(change, components)| Change {
            sequence: change.sequence,
            tenant: &change.tenant,
            digest: &change.digest,
            put: change.image.as_ref().map(|image| PutImage {
                place: &image.place,
                components,
                used: image.used.as_deref(),
            }),
        })
        .collect();
    index.apply(&packages.parsed, &changes)
}

/// The packages of some images, each read once: most images have mostly the same.
#[derive(Default)]
struct Packages<'a> {
    parsed: Vec<Component>,
    positions: HashMap<&'a CatalogComponent, u32>,
}

impl<'a> Packages<'a> {
    /// Where the package is among those that were read.
    fn of(&mut self, stored: &'a CatalogComponent) -> u32 {
        if let Some(&position) = self.positions.get(stored) {
            return position;
        }
        let source = stored.source.as_ref().map(|(name, version)| (name.as_str(), version.as_deref()));
        // The catalog takes purls that parse and nothing else; a position of none is no package.
        let position = match Component::parse(&stored.purl, source) {
            Ok(component) => {
                self.parsed.push(component);
                u32::try_from(self.parsed.len() - 1).unwrap_or(NO_PACKAGE)
            }
            Err(_) => NO_PACKAGE,
        };
        self.positions.insert(stored, position);
        position
    }
}
