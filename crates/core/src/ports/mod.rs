//! The ports: what the domain needs of the outside, by role. Adapters implement them; each has one contract suite
//! in `scheduler-testkit` that all its adapters run.

mod catalog;
mod conductor;
mod events;
mod feed;
mod housekeeping;
mod pacing;
mod queue;
mod reports;
mod runs;
mod scanner;
mod schedules;
mod source;
mod ticks;
mod writable;

pub use catalog::{CatalogChange, CatalogStore, PutImage};
pub use conductor::Conductor;
pub use events::{Accepted, EventStore, Subscription};
pub use feed::Feed;
pub use housekeeping::{Housekeeping, Pruned, TrimmedImages};
pub use pacing::{Bucket, BucketKey, Pacer};
pub use queue::{Lease, QueueDepth, QueueError, SegmentQueue};
pub use reports::{ReportChange, ReportStore};
pub use runs::{
    Allowance, BACKLOG_LIMIT, Begun, Claim, NewRun, OutcomeWrite, PlanInput, PlannedRun, RUNS_LIMIT, RunFilter,
    RunStore, Spill, Written,
};
pub use scanner::{ImageScan, ReportRequest, ScanProgress, ScanState, Scanner, ScannerError};
pub use schedules::{ScheduleFilter, ScheduleStore};
pub use source::{Clock, Ids, Random};
pub use ticks::{Tick, TickStore, Ticked};
pub use writable::Writable;

/// What a store can fail with.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached or written just now (also: a full disk). Nothing was acknowledged; try again later.
    #[error("the store is unavailable: {what}")]
    Unavailable {
        /// What was being done.
        what: String,
        /// The engine's own error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A document that cannot be read.
    #[error("the store holds a document that cannot be read: {what}")]
    Corrupt {
        /// Which one.
        what: String,
        /// What is wrong with it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// There is no such thing, for this tenant.
    #[error("there is no {what}")]
    NotFound {
        /// The kind and id.
        what: String,
    },
    /// Somebody else changed it in between, or it is not in a state for this.
    #[error("{what} has changed meanwhile")]
    Conflict {
        /// The kind and id.
        what: String,
    },
    /// A name within the tenant that is in use.
    #[error("the name `{name}` is taken")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The writer's lease is over; another worker owns the segment now.
    #[error("the lease of segment {segment} is over")]
    Fenced {
        /// The segment.
        segment: String,
    },
    /// A list position that no page of this list gave.
    #[error("the list position cannot be read")]
    BadCursor,
    /// A limit of the service is reached.
    #[error("{what} is full ({limit})")]
    Full {
        /// What is full.
        what: &'static str,
        /// Its limit.
        limit: u64,
    },
}

impl StoreError {
    /// Whether the same call may succeed later without anybody changing anything.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unavailable { .. } | Self::Full { .. } => true,
            Self::Corrupt { .. }
            | Self::NotFound { .. }
            | Self::Conflict { .. }
            | Self::NameTaken { .. }
            | Self::Fenced { .. }
            | Self::BadCursor => false,
        }
    }
}

/// The answer of a store.
pub type StoreResult<T> = Result<T, StoreError>;

/// One page of a list: the items, and where to go on, if anywhere.
#[derive(Debug, Clone)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// The position after the last item; `None` at the end.
    pub next: Option<String>,
}

/// All that is stored, behind one handle.
pub trait Store:
    CatalogStore + ScheduleStore + EventStore + RunStore + ReportStore + TickStore + Housekeeping + Writable
{
}

impl<T: CatalogStore + ScheduleStore + EventStore + RunStore + ReportStore + TickStore + Housekeeping + Writable> Store
    for T
{
}
