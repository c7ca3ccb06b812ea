//! From the clock to runs. Any number of tickers may work on one store.
//!
//! - TIC-5: what a ticker keeps in memory only saves work: a decision counts when the store takes it, together with the run
//!   that it begins (P3).
//! - TIC-6: a schedule that cannot be read or decided holds up itself alone.
//! - TIC-7: a look costs what is due and what waits, not what there is; both in bounded portions.

mod round;
mod row;

use crate::admission::Admission;
use crate::services::Services;
use futures::FutureExt;
use futures::stream::{self, StreamExt};
use round::Round;
use row::WaitingRow;
use scheduler_calendar::{Calendar, CronExpr, TZDB_VERSION, Zone};
use scheduler_core::ports::{Conductor, StoreResult, Tick, Ticked};
use scheduler_core::tick::{self, Instants, TickState};
use scheduler_model::{RunId, Schedule, ScheduleId, TenantId, Timestamp};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet};
use std::fmt::Display;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

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
    /// The latest time that the clock has shown since it went back last.
    latest: Timestamp,
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
            latest: Timestamp::from_millis(i64::MIN),
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
        if self.latest.since(now) > tick::GRACE {
            self.reorder();
            self.latest = now;
        }
        self.latest = self.latest.max(now);
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
            Some(head) if self.waiting.is_empty() => head,
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
            let mut schedules = Vec::with_capacity(len);
            for (_, schedule) in changes {
                match schedule {
                    Ok(schedule) => schedules.push(schedule),
                    Err(error) => note_broken(&error.to_string(), "a schedule cannot be read, and does not tick"),
                }
            }
            self.enter(schedules).await?;
            self.seen = last;
            if len < PAGE_LEN_MAX {
                return Ok(());
            }
        }
    }

    /// Takes schedules as they stand in the store.
    async fn enter(&mut self, schedules: Vec<Schedule>) -> StoreResult<()> {
        let keys: Vec<Key> = schedules.iter().map(key).collect();
        let states = self.states(&keys).await?;
        let mut unsaved = Vec::new();
        for ((schedule, key), stored) in schedules.into_iter().zip(keys).zip(states) {
            let ticks = schedule.spec.enabled && schedule.deleted_at.is_none();
            let Some(expression) = schedule.spec.when_cron.as_ref().filter(|_| ticks) else {
                self.entries.remove(&key);
                continue;
            };
            let stored = match stored {
                Ok(stored) => stored,
                Err(error) => {
                    note_broken(&error.to_string(), format_args!("schedule {} does not tick", schedule.id));
                    self.entries.remove(&key);
                    continue;
                }
            };
            let instants = match calendar(expression, &schedule.spec.timezone) {
                Ok(calendar) => Some(Arc::new(ByCalendar(calendar))),
                Err(error) => {
                    // It was valid when it was saved, by another program or other time-zone data.
                    note_broken(&error, format_args!("schedule {} cannot tick", schedule.id));
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
            match ticked {
                Ok(Ticked::Done(state)) => {
                    if let Some(entry) = self.entries.get_mut(&(state.tenant.clone(), state.schedule.clone())) {
                        entry.state = state;
                    }
                }
                // It is found out when it is due.
                Ok(Ticked::Busy | Ticked::Stale) => {}
                Err(error) if error.is_retryable() => return Err(error),
                Err(error) => note_broken(&error.to_string(), "the state of a schedule cannot be written"),
            }
        }
        Ok(())
    }

    /// The states of schedules, in the order asked. One that cannot be read holds up no other.
    async fn states(&self, keys: &[Key]) -> StoreResult<Vec<StoreResult<Option<TickState>>>> {
        let store = &self.services.store;
        match store.ticks(keys).await {
            Ok(states) => return Ok(states.into_iter().map(Ok).collect()),
            Err(error) if error.is_retryable() => return Err(error),
            Err(_) => {}
        }
        let mut states = Vec::with_capacity(keys.len());
        for key in keys {
            match store.ticks(std::slice::from_ref(key)).await {
                Ok(mut state) => states.push(Ok(state.pop().flatten())),
                Err(error) if error.is_retryable() => return Err(error),
                Err(error) => states.push(Err(error)),
            }
        }
        Ok(states)
    }

    /// Puts a schedule on the agenda, and into the row of those that wait.
    fn remember(&mut self, key: Key, mut entry: Entry) {
        let (handled, now) = (entry.state.handled, self.services.clock.now());
        let at = entry.instants.as_ref().and_then(|instants| {
            // What the clock was wrong about is put right at once.
            let is_wrong = tick::counts_from(handled, now) != handled;
            if is_wrong {
                Some(now)
            } else {
                Some(tick::fires_at(&entry.schedule, instants.as_ref(), entry.state.next?))
            }
        });
        entry.at = at;
        if entry.state.waiting.is_some() {
            self.waiting.push(&key);
        }
        self.entries.insert(key.clone(), entry);
        if let Some(at) = at {
            self.agenda.push(Reverse((at, key)));
        }
    }

    /// Makes the agenda anew, by a clock that has gone back.
    fn reorder(&mut self) {
        warn!("the clock has gone back");
        self.agenda.clear();
        for (key, entry) in std::mem::take(&mut self.entries) {
            self.remember(key, entry);
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
                let settle = |(key, entry): (Key, Entry)| async move {
                    // A panic too is of that schedule alone; nothing of it is shared but the admission, which counts only.
                    (key, AssertUnwindSafe(round.settle(&entry)).catch_unwind().await)
                };
                stream::iter(entries).map(settle).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await
            }
            Err(error) => {
                entries.into_iter().for_each(|(key, _)| self.put_off(key, now.plus(RETRY_AFTER)));
                return Err(error);
            }
        };
        let (mut begun, mut stale, mut failed) = (0, Vec::new(), None);
        for (key, result) in settled {
            let Ok(result) = result else {
                note_broken("a panic", format_args!("schedule {} cannot be decided", key.1));
                self.put_off(key, now.plus(BROKEN_AFTER));
                continue;
            };
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
                    note_broken(&error.to_string(), format_args!("schedule {} cannot be decided", key.1));
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
            match self.services.store.schedule(&key.0, &key.1).await {
                Ok(Some(schedule)) => schedules.push(schedule),
                Ok(None) => drop(self.entries.remove(&key)),
                Err(error) if error.is_retryable() => return Err(error),
                Err(error) => {
                    note_broken(&error.to_string(), format_args!("schedule {} does not tick any more", key.1));
                    self.entries.remove(&key);
                }
            }
        }
        self.enter(schedules).await
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

/// One schedule is broken; the others go on.
fn note_broken(error: &str, what: impl Display) {
    error!(error, "{what}");
    metrics::counter!("scheduler_ticks_total", "result" => "broken").increment(1);
}
