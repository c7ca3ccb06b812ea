use super::{Entry, Key, Settled, key};
use crate::admission::Admission;
use crate::services::Services;
use crate::traces;
use scheduler_calendar::TZDB_VERSION;
use scheduler_core::launch;
use scheduler_core::ports::{Conductor, StoreError, StoreResult, Tick, Ticked};
use scheduler_core::tick::{self, Dropped, Due, Instants, Meeting, Obstacle, TickState, Waiting};
use scheduler_model::{RunId, Schedule, Timestamp};
use std::collections::HashSet;
use tracing::info;

/// What the decisions of one look share.
pub(super) struct Round<'a> {
    pub(super) services: &'a Services,
    pub(super) conductor: &'a dyn Conductor,
    /// Schedules that exports wait for.
    pub(super) exports: HashSet<Key>,
    pub(super) admission: tokio::sync::Mutex<Admission>,
    pub(super) now: Timestamp,
}

impl Round<'_> {
    /// Decides one schedule and makes that durable.
    pub(super) async fn settle(&self, entry: &Entry) -> StoreResult<Settled> {
        let schedule = &entry.schedule;
        let mut state = entry.state.clone();
        let earlier = state.waiting;
        let mut fresh = None;
        if let Some(instants) = &entry.instants {
            state.handled = tick::counts_from(state.handled, self.now);
            match tick::due(schedule, instants.as_ref(), state.handled, self.now) {
                Due::Nothing(_) => {}
                Due::Run { instant, catch_up } => {
                    state.handled = instant;
                    let catch_up = catch_up || earlier.is_some_and(|earlier| earlier.catch_up);
                    state.waiting = Some(Waiting { instant, catch_up, obstacle: Obstacle::Overlap });
                    fresh = Some(instant);
                }
                Due::Skip(instant) => {
                    state.handled = instant;
                    drop_instant(&mut state, schedule, instant, Obstacle::Misfire);
                }
            }
            state.next = instants.next(state.handled);
            state.time_zone_data = TZDB_VERSION.to_owned();
        }
        let Some(waiting) = state.waiting else { return self.save(entry, state).await };
        let live = self.services.store.live_runs(&schedule.tenant, &schedule.id).await?;
        let meeting = tick::meet(schedule.spec.overlap, &live);
        if let Some(instant) = fresh {
            if meeting == Meeting::Drop {
                state.waiting = earlier;
                drop_instant(&mut state, schedule, instant, Obstacle::Overlap);
                return self.save(entry, state).await;
            }
            if let Some(earlier) = earlier {
                // Of several that wait, the latest gets the run.
                drop_instant(&mut state, schedule, earlier.instant, earlier.obstacle);
            }
        }
        match meeting {
            Meeting::Begin if self.exports_first(schedule).await? => self.wait(entry, state, Obstacle::Overlap).await,
            Meeting::Begin if !self.admits(schedule).await? => self.wait(entry, state, Obstacle::Limits).await,
            Meeting::Begin => self.begin(entry, state, waiting).await,
            Meeting::Drop | Meeting::Wait => self.wait(entry, state, Obstacle::Overlap).await,
            Meeting::Replace(runs) => {
                // The instant first: a crash in between must not leave a cancelled run that nothing follows. Written even where it
                // waits already: only then is it sure that none of these runs is what another ticker has begun for it.
                let settled = self.write(entry, self.waits(entry, state, Obstacle::Overlap)).await?;
                if matches!(settled, Settled::Done(..)) {
                    self.cancel(schedule, runs).await?;
                }
                Ok(settled)
            }
        }
    }

    async fn begin(&self, entry: &Entry, state: TickState, waiting: Waiting) -> StoreResult<Settled> {
        let (schedule, defaults) = (&entry.schedule, self.services.settings.run_defaults);
        let mut new = launch::of_instant(schedule, waiting.instant, waiting.catch_up, defaults, self.now);
        traces::begin(&mut new);
        let run = new.run.id.clone();
        let begun = TickState { waiting: None, ..state.clone() };
        let tick = Tick { state: begun, version: schedule.version, begins: Some(new) };
        match self.services.store.tick(tick).await? {
            Ticked::Done(state) => {
                info!(run = %run, schedule = %schedule.id, instant = %waiting.instant, catch_up = waiting.catch_up, "a run begins by the clock");
                metrics::counter!("scheduler_ticks_total", "result" => "begun").increment(1);
                Ok(Settled::Done(state, Some(run)))
            }
            Ticked::Busy => self.wait(entry, state, Obstacle::Overlap).await,
            Ticked::Stale => Ok(Settled::Stale),
        }
    }

    async fn wait(&self, entry: &Entry, state: TickState, obstacle: Obstacle) -> StoreResult<Settled> {
        self.save(entry, self.waits(entry, state, obstacle)).await
    }

    /// The state with what its instant waits for.
    fn waits(&self, entry: &Entry, mut state: TickState, obstacle: Obstacle) -> TickState {
        if let Some(waiting) = &mut state.waiting {
            waiting.obstacle = obstacle;
            if entry.state.waiting != Some(*waiting) {
                note(&entry.schedule, waiting.instant, "waits", obstacle);
            }
        }
        state
    }

    /// Makes a state durable, if it is another one.
    async fn save(&self, entry: &Entry, state: TickState) -> StoreResult<Settled> {
        if state == entry.state { Ok(Settled::Done(state, None)) } else { self.write(entry, state).await }
    }

    /// Makes a state durable, if nobody else has moved it.
    async fn write(&self, entry: &Entry, state: TickState) -> StoreResult<Settled> {
        let tick = Tick { state, version: entry.schedule.version, begins: None };
        match self.services.store.tick(tick).await? {
            Ticked::Done(state) => Ok(Settled::Done(state, None)),
            Ticked::Busy | Ticked::Stale => Ok(Settled::Stale),
        }
    }

    async fn exports_first(&self, schedule: &Schedule) -> StoreResult<bool> {
        if !self.exports.contains(&key(schedule)) {
            return Ok(false);
        }
        let last = self.services.store.last_run(&schedule.tenant, &schedule.id).await?;
        Ok(tick::exports_go_first(last.map(|run| run.trigger)))
    }

    async fn admits(&self, schedule: &Schedule) -> StoreResult<bool> {
        self.admission.lock().await.admits(self.services.store.as_ref(), &schedule.tenant).await
    }

    /// Cancels runs for an instant. It begins when they have ended, that is when nobody can write for them any more.
    async fn cancel(&self, schedule: &Schedule, runs: Vec<RunId>) -> StoreResult<()> {
        for run in runs {
            match self.services.store.request_cancel(&schedule.tenant, &run, self.now).await {
                Ok(_) => {
                    info!(run = %run, schedule = %schedule.id, "a run is replaced by the next one");
                    self.conductor.run_cancelled(&schedule.tenant, &run).await;
                }
                // It has ended by itself.
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Notes that an instant gets no run, ever.
fn drop_instant(state: &mut TickState, schedule: &Schedule, instant: Timestamp, obstacle: Obstacle) {
    state.dropped = Some(Dropped { instant, obstacle });
    note(schedule, instant, "dropped", obstacle);
}

fn note(schedule: &Schedule, instant: Timestamp, result: &'static str, obstacle: Obstacle) {
    info!(schedule = %schedule.id, tenant = %schedule.tenant, instant = %instant, result, obstacle = obstacle.as_str(), "an instant gets no run now");
    metrics::counter!("scheduler_ticks_total", "result" => result).increment(1);
}
