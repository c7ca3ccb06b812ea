use super::{NewRun, StoreResult};
use crate::tick::TickState;
use async_trait::async_trait;
use scheduler_model::{Schedule, ScheduleId, TenantId};

/// What a ticker has decided of a schedule.
#[derive(Debug, Clone)]
pub struct Tick {
    /// The new state, with the revision that it was made from.
    pub state: TickState,
    /// The version of the schedule that was looked at.
    pub version: u64,
    /// The run that begins with it.
    pub begins: Option<NewRun>,
}

/// What became of a [`Tick`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ticked {
    /// It is durable: the state as it is now.
    Done(TickState),
    /// A run of the schedule has not ended, so none begins beside it; nothing was changed.
    Busy,
    /// The state has moved on, or the schedule is another one; nothing was changed.
    Stale,
}

/// Where tickers stand. Any number of them may work on it.
#[async_trait]
pub trait TickStore: Send + Sync {
    /// The states of schedules, in the order asked; `None` where nothing is stored.
    async fn ticks(&self, of: &[(TenantId, ScheduleId)]) -> StoreResult<Vec<Option<TickState>>>;

    /// Makes a decision durable: the state, and the run that begins with it, in one write. Of simultaneous ones from the
    /// same revision one is `Done`. `Stale` too when the schedule is gone, disabled or of another version, so that an
    /// answered edit holds for every instant after it. A run that exists already is not begun again (P3).
    async fn tick(&self, tick: Tick) -> StoreResult<Ticked>;

    /// The schedules that changed after change number `after`, deleted ones too, each once with its last change, in the
    /// order of these; at most `limit`. A number is readable only when all lower ones are. A schedule that cannot be read is
    /// told as the error: it holds up no other.
    async fn schedule_changes(&self, after: u64, limit: usize) -> StoreResult<Vec<(u64, StoreResult<Schedule>)>>;
}
