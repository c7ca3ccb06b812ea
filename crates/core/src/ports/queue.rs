use async_trait::async_trait;
use scheduler_model::{Lane, RunId, Segment, SegmentId, WorkerId};
use std::time::Duration;

/// What a queue can fail with.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// The lease is over: it ran out, or another worker holds the segment.
    #[error("the lease of segment {0} is over")]
    LeaseLost(SegmentId),
    /// The queue cannot be reached.
    #[error("the queue is unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The right to work on a segment for a while.
#[derive(Debug, Clone)]
pub struct Lease {
    /// The work.
    pub segment: Segment,
    /// Grows with every lease of the queue: the higher one is the owner.
    pub fence: u64,
    /// Calls that may be in flight under this lease, at least one.
    pub slots: u32,
    /// How often the segment was leased before.
    pub deliveries: u32,
}

/// How much waits, by lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueDepth {
    /// The lane.
    pub lane: Lane,
    /// Segments that nobody holds.
    pub waiting: u64,
    /// Segments under a live lease.
    pub leased: u64,
}

/// Hands segments to workers: urgent lanes first, tenants in turn, and never more calls of one pace group in flight than
/// its parallelism. It is delivery only; what remains to be done is known to the `RunStore`.
#[async_trait]
pub trait SegmentQueue: Send + Sync {
    /// Adds segments; one whose id is there already is left as it is.
    async fn enqueue(&self, segments: Vec<Segment>) -> Result<(), QueueError>;

    /// Leases the segment whose turn it is, with up to `slots_max` slots, for `ttl`. `None` when there is none that may go.
    async fn lease(&self, worker: &WorkerId, slots_max: u32, ttl: Duration) -> Result<Option<Lease>, QueueError>;

    /// Prolongs a lease to `ttl` from now.
    async fn heartbeat(&self, segment: &SegmentId, fence: u64, ttl: Duration) -> Result<(), QueueError>;

    /// Gives slots back that the rest of the segment does not need; the lease goes on with `slots`, at least one.
    async fn shrink(&self, segment: &SegmentId, fence: u64, slots: u32) -> Result<(), QueueError>;

    /// Ends a lease: the segment is done and leaves the queue.
    async fn complete(&self, segment: &SegmentId, fence: u64) -> Result<(), QueueError>;

    /// Ends a lease: the segment goes back and may be leased after `delay`.
    async fn release(&self, segment: &SegmentId, fence: u64, delay: Duration) -> Result<(), QueueError>;

    /// Removes every waiting segment of a run; leased ones go when their lease ends.
    async fn remove_run(&self, run: &RunId) -> Result<(), QueueError>;

    /// How much waits.
    async fn depth(&self) -> Result<Vec<QueueDepth>, QueueError>;

    /// Returns when a segment may have become leasable since the last call.
    async fn changed(&self);
}
