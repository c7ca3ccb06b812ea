//! From the clock to runs. Any number of tickers may work on one store.
//!
//! - TIC-5: what a ticker keeps in memory only saves work: a decision counts when the store takes it, together with the run
//!   that it begins (P3).
//! - TIC-6: a schedule that cannot be read or decided holds up itself alone.
//! - TIC-7: a look costs what is due and what waits, not what there is; both in bounded portions.

use crate::admission::Admission;
use crate::services::Services;
use crate::traces;
use futures::stream::{self, StreamExt};
use scheduler_calendar::{Calendar, CronExpr, TZDB_VERSION, Zone};
use scheduler_core::launch;
use scheduler_core::ports::{Conductor, Store, StoreError, StoreResult, Tick, Ticked};
use scheduler_core::tick::{self, Dropped, Due, Instants, Meeting, Obstacle, TickState, Waiting};
use scheduler_model::{RunId, Schedule, ScheduleId, TenantId, Timestamp};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

/// Wall time may jump while a timer sleeps; so it is looked at so often. Only the head of the agenda is.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long what the store could not take is left alone.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How long a schedule that cannot be decided is left alone.
const BROKEN_AFTER: Duration = Duration::from_secs(60);

/// Schedules that one look decides: those that are due, and as many that wait.
const LOOK_LEN_MAX: usize = 512;

/// Schedules that are decided at the same time, so that their writes share a sync.
const AT_ONCE: usize = 64;

/// Changed schedules that are read at once.
const PAGE_LEN_MAX: usize = 500;

type Key = (TenantId, ScheduleId);

/// A calendar as the domain asks it.
struct ByCalendar(Calendar);

impl Instants for ByCalendar {
    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.0.next(after.utc()).map(Timestamp::from)
    }

    fn prev(&self, before: Timestamp) -> Option<Timestamp> {
        self.0.prev(before.utc()).map(Timestamp::from)
    }
}

/// What is known of a schedule that ticks.
#[derive(Clone)]
struct Entry {
    schedule: Arc<Schedule>,
    /// `None`: its expression or zone cannot be read by this program.
    instants: Option<Arc<ByCalendar>>,
    state: TickState,
    /// When it is to be looked at; its places on the agenda with other times are void.
    at: Option<Timestamp>,
}

/// What a decision came to.
enum Settled {
    /// The state that is durable now, and the run that began.
    Done(TickState, Option<RunId>),
    /// Somebody else moved it: it has to be read again.
    Stale,
}

/// The ticker's loop.
pub struct Ticker {
    services: Arc<Services>,
    conductor: Arc<dyn Conductor>,
    /// The last change of a schedule that is in `entries`.
    seen: u64,
    entries: HashMap<Key, Entry>,
    agenda: BinaryHeap<Reverse<(Timestamp, Key)>>,
    waiting: WaitingRow,
}

/// Schedules with an instant that waits. Tenants take turns, so that one with thousands holds up no other.
#[derive(Default)]
struct WaitingRow {
    turns: VecDeque<TenantId>,
    of_tenant: HashMap<TenantId, VecDeque<ScheduleId>>,
    members: HashSet<Key>,
}

impl WaitingRow {
    fn push(&mut self, key: &Key) {
        if self.members.insert(key.clone()) {
            let row = self.of_tenant.entry(key.0.clone()).or_default();
            if row.is_empty() {
                self.turns.push_back(key.0.clone());
            }
            row.push_back(key.1.clone());
        }
    }

    /// Takes the first that may have a run, of each tenant its share.
    async fn take(&mut self, admission: &mut Admission, store: &dyn Store) -> StoreResult<Vec<Key>> {
        let turns = self.turns.len().min(LOOK_LEN_MAX);
        let share = LOOK_LEN_MAX / turns.max(1);
        let mut taken = Vec::new();
        for _ in 0..turns {
            let Some(tenant) = self.turns.front().cloned() else { break };
            let room = usize::try_from(admission.room(store, &tenant).await?).unwrap_or(usize::MAX);
            self.turns.pop_front();
            let Some(row) = self.of_tenant.get_mut(&tenant) else { continue };
            let own = row.drain(..row.len().min(room).min(share)).map(|schedule| (tenant.clone(), schedule));
            taken.extend(own);
            if row.is_empty() {
                self.of_tenant.remove(&tenant);
            } else {
                self.turns.push_back(tenant);
            }
        }
        for key in &taken {
            self.members.remove(key);
        }
        Ok(taken)
    }
}

impl Ticker {
    /// A ticker that knows no schedule yet.
    pub fn new(services: Arc<Services>, conductor: Arc<dyn Conductor>) -> Self {
        Self {
            services,
            conductor,
            seen: 0,
            entries: HashMap::new(),
            agenda: BinaryHeap::new(),
            waiting: WaitingRow::default(),
        }
    }

    /// Runs until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        let services = self.services.clone();
        while !stop.is_cancelled() {
            // Rung while it works, it looks once more.
            let bell = services.ticker_bell.notified();
            let wait = match self.look().await {
                Ok(until) => until.since(services.clock.now()).min(LOOK_EVERY),
                Err(error) => {
                    warn!(%error, "the ticker waits for the store");
                    RETRY_AFTER
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = bell => {}
                () = services.feed.schedules_beyond(self.seen) => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Does what is due by now, and says when to look again: at the latest then, or when something changes.
    pub async fn look(&mut self) -> StoreResult<Timestamp> {
        self.refresh().await?;
        let now = self.services.clock.now();
        let mut admission = Admission::new(&self.services.settings);
        let waiting = self.waiting.take(&mut admission, self.services.store.as_ref()).await?;
        let due = self.take_due(now);
        let full = due.len() == LOOK_LEN_MAX || waiting.len() == LOOK_LEN_MAX;
        let keys: BTreeSet<Key> = due.into_iter().chain(waiting).collect();
        let begun = self.settle_all(keys, admission, now).await?;
        if begun > 0 {
            self.services.planner_bell.notify_one();
        }
        let head = self.agenda.peek().map(|Reverse((at, _))| *at);
        Ok(match head {
            // There was more than one look decides, and it got on.
            _ if full && begun > 0 => now,
            Some(head) if self.waiting.members.is_empty() => head,
            Some(head) => head.min(now.plus(LOOK_EVERY)),
            None => now.plus(LOOK_EVERY),
        })
    }

    /// Reads the schedules that have changed.
    async fn refresh(&mut self) -> StoreResult<()> {
        loop {
            let changes = self.services.store.schedule_changes(self.seen, PAGE_LEN_MAX).await?;
            let Some((last, _)) = changes.last() else { return Ok(()) };
            let (last, len) = (*last, changes.len());
            self.enter(changes.into_iter().map(|(_, schedule)| schedule).collect()).await?;
            self.seen = last;
            if len < PAGE_LEN_MAX {
                return Ok(());
            }
        }
    }

    /// Takes schedules as they stand in the store.
    async fn enter(&mut self, schedules: Vec<Schedule>) -> StoreResult<()> {
        let keys: Vec<Key> = schedules.iter().map(key).collect();
        let states = self.services.store.ticks(&keys).await?;
        let mut unsaved = Vec::new();
        for ((schedule, key), stored) in schedules.into_iter().zip(keys).zip(states) {
            let ticks = schedule.spec.enabled && schedule.deleted_at.is_none();
            let Some(expression) = schedule.spec.when_cron.as_ref().filter(|_| ticks) else {
                self.entries.remove(&key);
                continue;
            };
            let instants = match calendar(expression, &schedule.spec.timezone) {
                Ok(calendar) => Some(Arc::new(ByCalendar(calendar))),
                Err(error) => {
                    // It was valid when it was saved, by another program or other time-zone data.
                    error!(schedule = %schedule.id, tenant = %schedule.tenant, error, "a schedule cannot tick");
                    metrics::counter!("scheduler_ticks_total", "result" => "broken").increment(1);
                    None
                }
            };
            let mut state = stored.unwrap_or_else(|| TickState::new(&schedule)).under(&schedule);
            let next = instants.as_ref().and_then(|instants| instants.next(state.handled));
            if state.revision == 0 || state.next != next || state.time_zone_data != TZDB_VERSION {
                state.next = next;
                state.time_zone_data = TZDB_VERSION.to_owned();
                unsaved.push(Tick { state: state.clone(), version: schedule.version, begins: None });
            }
            self.remember(key, Entry { schedule: Arc::new(schedule), instants, state, at: None });
        }
        let store = &self.services.store;
        let saved: Vec<StoreResult<Ticked>> =
            stream::iter(unsaved).map(|tick| store.tick(tick)).buffer_unordered(AT_ONCE).collect().await;
        for ticked in saved {
            // A stale one is found out when it is due.
            if let Ticked::Done(state) = ticked?
                && let Some(entry) = self.entries.get_mut(&(state.tenant.clone(), state.schedule.clone()))
            {
                entry.state = state;
            }
        }
        Ok(())
    }

    /// Puts a schedule on the agenda, and into the row of those that wait.
    fn remember(&mut self, key: Key, mut entry: Entry) {
        let next = entry.state.next.zip(entry.instants.as_ref());
        let at = next.map(|(next, instants)| tick::fires_at(&entry.schedule, instants.as_ref(), next));
        entry.at = at;
        if entry.state.waiting.is_some() {
            self.waiting.push(&key);
        }
        self.entries.insert(key.clone(), entry);
        if let Some(at) = at {
            self.agenda.push(Reverse((at, key)));
        }
    }

    /// Puts a schedule off.
    fn put_off(&mut self, key: Key, until: Timestamp) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.at = Some(until);
            self.agenda.push(Reverse((until, key)));
        }
    }

    fn take_due(&mut self, now: Timestamp) -> Vec<Key> {
        let mut due = Vec::new();
        while due.len() < LOOK_LEN_MAX
            && let Some(Reverse((at, _))) = self.agenda.peek()
            && *at <= now
            && let Some(Reverse((at, key))) = self.agenda.pop()
        {
            if self.entries.get(&key).is_some_and(|entry| entry.at == Some(at)) {
                due.push(key);
            }
        }
        due
    }

    /// Decides some schedules. Gives the number of runs that began.
    async fn settle_all(&mut self, keys: BTreeSet<Key>, admission: Admission, now: Timestamp) -> StoreResult<usize> {
        let entries: Vec<(Key, Entry)> =
            keys.into_iter().filter_map(|key| Some((key.clone(), self.entries.get(&key)?.clone()))).collect();
        if entries.is_empty() {
            return Ok(0);
        }
        let store = &self.services.store;
        let waiting = store.waiting().await;
        let exports: StoreResult<HashSet<Key>> =
            waiting.map(|all| all.into_iter().map(|waiting| (waiting.tenant, waiting.schedule)).collect());
        let settled = match exports {
            Ok(exports) => {
                let round = Round {
                    services: &self.services,
                    conductor: self.conductor.as_ref(),
                    exports,
                    admission: tokio::sync::Mutex::new(admission),
                    now,
                };
                let round = &round;
                let settle = |(key, entry): (Key, Entry)| async move { (key, round.settle(&entry).await) };
                stream::iter(entries).map(settle).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await
            }
            Err(error) => {
                entries.into_iter().for_each(|(key, _)| self.put_off(key, now.plus(RETRY_AFTER)));
                return Err(error);
            }
        };
        let (mut begun, mut stale, mut failed) = (0, Vec::new(), None);
        for (key, result) in settled {
            match result {
                Ok(Settled::Done(state, run)) => {
                    begun += usize::from(run.is_some());
                    if let Some(entry) = self.entries.remove(&key) {
                        self.remember(key, Entry { state, ..entry });
                    }
                }
                Ok(Settled::Stale) => stale.push(key),
                Err(error) if error.is_retryable() => {
                    self.put_off(key, now.plus(RETRY_AFTER));
                    failed = Some(error);
                }
                Err(error) => {
                    error!(%error, schedule = %key.1, tenant = %key.0, "a schedule cannot be decided");
                    metrics::counter!("scheduler_ticks_total", "result" => "broken").increment(1);
                    self.put_off(key, now.plus(BROKEN_AFTER));
                }
            }
        }
        self.read_again(stale).await?;
        failed.map_or(Ok(begun), Err)
    }

    /// Takes what somebody else has moved as it is now.
    async fn read_again(&mut self, keys: Vec<Key>) -> StoreResult<()> {
        let mut schedules = Vec::with_capacity(keys.len());
        let later = self.services.clock.now().plus(RETRY_AFTER);
        for key in &keys {
            self.put_off(key.clone(), later);
        }
        for key in keys {
            match self.services.store.schedule(&key.0, &key.1).await? {
                Some(schedule) => schedules.push(schedule),
                None => drop(self.entries.remove(&key)),
            }
        }
        self.enter(schedules).await
    }
}

/// What the decisions of one look share.
struct Round<'a> {
    services: &'a Services,
    conductor: &'a dyn Conductor,
    /// Schedules that exports wait for.
    exports: HashSet<Key>,
    admission: tokio::sync::Mutex<Admission>,
    now: Timestamp,
}

impl Round<'_> {
    /// Decides one schedule and makes that durable.
    async fn settle(&self, entry: &Entry) -> StoreResult<Settled> {
        let schedule = &entry.schedule;
        let mut state = entry.state.clone();
        let earlier = state.waiting;
        let mut fresh = None;
        if let Some(instants) = &entry.instants {
            match tick::due(schedule, instants.as_ref(), state.handled, self.now) {
                Due::Nothing(_) => {}
                Due::Run { instant, catch_up } => {
                    state.handled = instant;
                    let catch_up = catch_up || earlier.is_some();
                    state.waiting = Some(Waiting { instant, catch_up, obstacle: Obstacle::Overlap });
                    fresh = Some(instant);
                }
                Due::Skip(instant) => {
                    state.handled = instant;
                    state.dropped = Some(Dropped { instant, obstacle: Obstacle::Misfire });
                    note(schedule, instant, "dropped", Obstacle::Misfire);
                }
            }
            state.next = instants.next(state.handled);
            state.time_zone_data = TZDB_VERSION.to_owned();
        }
        let Some(waiting) = state.waiting else { return self.save(entry, state).await };
        let live = self.services.store.live_runs(&schedule.tenant, &schedule.id).await?;
        match tick::meet(schedule.spec.overlap, &live) {
            Meeting::Begin if self.exports_first(schedule).await? => self.wait(entry, state, Obstacle::Overlap).await,
            Meeting::Begin if !self.admits(schedule).await? => self.wait(entry, state, Obstacle::Limits).await,
            Meeting::Begin => self.begin(entry, state, waiting).await,
            Meeting::Drop if let Some(instant) = fresh => {
                state.waiting = earlier;
                state.dropped = Some(Dropped { instant, obstacle: Obstacle::Overlap });
                note(schedule, instant, "dropped", Obstacle::Overlap);
                self.save(entry, state).await
            }
            Meeting::Drop | Meeting::Wait => self.wait(entry, state, Obstacle::Overlap).await,
            Meeting::Replace(runs) => {
                // The instant first: a crash in between must not leave a cancelled run that nothing follows.
                let settled = self.wait(entry, state, Obstacle::Overlap).await?;
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

    async fn wait(&self, entry: &Entry, mut state: TickState, obstacle: Obstacle) -> StoreResult<Settled> {
        if let Some(waiting) = &mut state.waiting {
            waiting.obstacle = obstacle;
            if entry.state.waiting != Some(*waiting) {
                note(&entry.schedule, waiting.instant, "waits", obstacle);
            }
        }
        self.save(entry, state).await
    }

    /// Makes a state durable, if it is another one.
    async fn save(&self, entry: &Entry, state: TickState) -> StoreResult<Settled> {
        if state == entry.state {
            return Ok(Settled::Done(state, None));
        }
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

fn key(schedule: &Schedule) -> Key {
    (schedule.tenant.clone(), schedule.id.clone())
}

fn calendar(expression: &str, zone: &str) -> Result<Calendar, String> {
    let expr = CronExpr::parse(expression).map_err(|error| error.to_string())?;
    let zone = Zone::parse(zone).map_err(|error| error.to_string())?;
    Ok(Calendar { expr, zone })
}

fn note(schedule: &Schedule, instant: Timestamp, result: &'static str, obstacle: Obstacle) {
    info!(schedule = %schedule.id, tenant = %schedule.tenant, instant = %instant, result, obstacle = obstacle.as_str(), "an instant gets no run now");
    metrics::counter!("scheduler_ticks_total", "result" => result).increment(1);
}
