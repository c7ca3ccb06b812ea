use crate::state::State;
use async_trait::async_trait;
use parking_lot::Mutex;
use scheduler_core::ports::{Lease, QueueDepth, QueueError, SegmentQueue};
use scheduler_model::{RunId, Segment, SegmentId, WorkerId};
use std::time::Duration;
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

/// The queue of a single process: in memory, gone when it stops.
///
/// Leases and delays follow tokio's clock and end exactly at their instant, at the latest when somebody next asks.
/// A lease with no slots asked for is `None`. Parallelism 0 counts as 1. A group's parallelism is that of its segment
/// queued last.
///
/// ```
/// # use scheduler_core::ports::SegmentQueue;
/// # use scheduler_queue::EmbeddedQueue;
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let queue = EmbeddedQueue::new(1);
/// let worker = "worker-1".parse().unwrap();
/// assert!(queue.lease(&worker, 8, Duration::from_secs(30)).await.unwrap().is_none());
/// # }
/// ```
#[derive(Debug)]
pub struct EmbeddedQueue {
    state: Mutex<State>,
    wake: Notify,
}

impl EmbeddedQueue {
    /// An empty queue. `epoch` must be higher than at every earlier start on the same store: a fence is the epoch in the upper
    /// 32 bits and the number of the lease in the lower ones. After 2³² leases `lease` is `Unavailable` until the next start.
    pub fn new(epoch: u32) -> Self {
        Self { state: Mutex::new(State::new(epoch)), wake: Notify::new() }
    }

    fn act<R>(&self, act: impl FnOnce(&mut State, Instant) -> R) -> R {
        let result = {
            let mut state = self.state.lock();
            let now = Instant::now();
            state.advance(now);
            act(&mut state, now)
        };
        // Whoever waits looks again: at what may go, and at when the next lease ends.
        self.wake.notify_waiters();
        result
    }
}

#[async_trait]
impl SegmentQueue for EmbeddedQueue {
    async fn enqueue(&self, segments: Vec<Segment>) -> Result<(), QueueError> {
        self.act(|state, _| state.enqueue(segments));
        Ok(())
    }

    async fn lease(&self, worker: &WorkerId, slots_max: u32, ttl: Duration) -> Result<Option<Lease>, QueueError> {
        self.act(|state, now| state.lease(worker, slots_max, ttl, now))
    }

    async fn heartbeat(&self, segment: &SegmentId, fence: u64, ttl: Duration) -> Result<(), QueueError> {
        self.act(|state, now| state.heartbeat(segment, fence, ttl, now))
    }

    async fn shrink(&self, segment: &SegmentId, fence: u64, slots: u32) -> Result<(), QueueError> {
        self.act(|state, _| state.shrink(segment, fence, slots))
    }

    async fn complete(&self, segment: &SegmentId, fence: u64) -> Result<(), QueueError> {
        self.act(|state, _| state.complete(segment, fence))
    }

    async fn release(&self, segment: &SegmentId, fence: u64, delay: Duration) -> Result<(), QueueError> {
        self.act(|state, now| state.release(segment, fence, delay, now))
    }

    async fn remove_run(&self, run: &RunId) -> Result<(), QueueError> {
        self.act(|state, _| state.remove_run(run));
        Ok(())
    }

    async fn depth(&self) -> Result<Vec<QueueDepth>, QueueError> {
        Ok(self.act(|state, _| state.depth()))
    }

    /// All callers that wait are told of a change. One that comes while a caller is busy is told at its next call, unless
    /// another caller was told meanwhile: then it is told of the next lease, completion or other change after which
    /// something may still go. A future that is dropped before it returns loses nothing.
    async fn changed(&self) {
        let mut told = None;
        loop {
            // Made before looking, so that what changes between the look and the wait still wakes.
            let woken = self.wake.notified();
            let timer = {
                let mut state = self.state.lock();
                state.advance(Instant::now());
                let told = *told.get_or_insert(state.told);
                if state.changes != told && state.any_ready() {
                    state.told = state.changes;
                    return;
                }
                state.next_timer()
            };
            match timer {
                // Either way the next thing is to look again.
                Some(at) => drop(timeout_at(at, woken).await),
                None => woken.await,
            }
        }
    }
}
