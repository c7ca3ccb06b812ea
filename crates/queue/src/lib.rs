//! Adapters of the `SegmentQueue` port.
//!
//! A queue only delivers. What remains to be done is known to the `RunStore`; what a worker did is written there, under
//! the fence of its lease. So a queue may forget everything at a stop, and must never hand out a fence twice.
//!
//! [`EmbeddedQueue`] is for one process: in memory, nothing on disk. The caller enqueues the store's open segments again
//! after a start. It must never know what a segment's images mean, how fast the scanner may be asked, or whether a run
//! was cancelled other than by `remove_run`.
//!
//! - QUEUE-1: a segment has at most one live lease, and a later lease has a higher fence, over restarts too.
//! - QUEUE-2: the slots of a pace group's live leases never exceed its parallelism, unless that was lowered meanwhile.
//! - QUEUE-3: a segment leaves by `complete` or `remove_run` only.
//! - QUEUE-4: a lane that waits is passed over a fixed number of times at most; within a lane tenants, and within a tenant
//!   pace groups, take turns; within a group the oldest goes first.
//! - QUEUE-5: memory grows with what is enqueued and shrinks with it: no tenant, group or run is remembered after its last
//!   segment.

mod embedded;
mod lanes;
mod state;
mod turns;

pub use embedded::EmbeddedQueue;
