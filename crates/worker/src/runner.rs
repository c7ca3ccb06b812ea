//! Leases segments and sets them to work, as many as the process has slots for.

use crate::fleet::Fleet;
use crate::segment;
use crate::services::Services;
use parking_lot::Mutex;
use scheduler_core::ports::StoreError;
use scheduler_scanner::{Breaker, BreakerLimits};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// How long the runner rests when the queue cannot be reached, and how often it looks at a breaker that is open.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Segments that are leased while the breaker is open, beside those that were there when it opened: of so many tenants more
/// there are images to probe with.
const PROBING_LEN_MAX: usize = 4;

/// Puts what a former process left undone back into the queue.
pub async fn recover(services: &Services) -> Result<(), StoreError> {
    let segments = services.store.open_segments().await?;
    if !segments.is_empty() {
        info!(segments = segments.len(), "going on with what was left undone");
    }
    services.queue.enqueue(segments).await.map_err(|error| StoreError::Unavailable {
        what: "putting segments back into the queue".into(),
        source: Box::new(error),
    })
}

/// Runs until `drain`; then lets the calls in flight end. Segments that still run when the future is dropped are aborted.
pub async fn run(services: Arc<Services>, fleet: Arc<Fleet>, drain: CancellationToken) {
    let breaker = Arc::new(Mutex::new(Breaker::new(BreakerLimits::for_calls_of(services.settings.call_timeout))));
    let slots = Arc::new(Semaphore::new(usize::try_from(services.settings.slots).unwrap_or(Semaphore::MAX_PERMITS)));
    let mut segments = JoinSet::new();
    // How many segments there were when the breaker opened.
    let mut opened_with = None;
    while !drain.is_cancelled() {
        // Ended tasks go, so that the set holds live ones only.
        while let Some(ended) = segments.try_join_next() {
            note(ended);
        }
        // While the scanner is away, nothing more is leased than its probes need. The queue gives tenants their turn.
        if breaker.lock().is_open() {
            let before = *opened_with.get_or_insert(segments.len());
            if segments.len() >= before + PROBING_LEN_MAX {
                rest(&drain, LOOK_AGAIN).await;
                continue;
            }
        } else {
            opened_with = None;
        }
        let first = tokio::select! {
            () = drain.cancelled() => break,
            permit = slots.clone().acquire_owned() => match permit {
                Ok(permit) => permit,
                Err(_) => break,
            },
        };
        let free = u32::try_from(slots.available_permits()).unwrap_or(u32::MAX).saturating_add(1);
        match services.queue.lease(&services.worker, free, services.settings.lease).await {
            Ok(Some(lease)) => {
                let more = slots.clone().try_acquire_many_owned(lease.slots.saturating_sub(1)).ok();
                let work = segment::work(services.clone(), fleet.clone(), breaker.clone(), lease, drain.clone());
                segments.spawn(async move {
                    work.await;
                    drop((first, more));
                });
            }
            Ok(None) => {
                drop(first);
                tokio::select! {
                    () = drain.cancelled() => {}
                    () = services.queue.changed() => {}
                    ended = segments.join_next(), if !segments.is_empty() => ended.into_iter().for_each(note),
                }
            }
            Err(error) => {
                drop(first);
                warn!(%error, "no segment can be leased");
                rest(&drain, LOOK_AGAIN).await;
            }
        }
    }
    while let Some(ended) = segments.join_next().await {
        note(ended);
    }
}

/// A task that panicked has lost nothing: its lease runs out and another one goes on.
fn note(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a segment ended in a panic");
    }
}

async fn rest(drain: &CancellationToken, time: Duration) {
    tokio::select! {
        () = drain.cancelled() => {}
        () = tokio::time::sleep(time) => {}
    }
}
