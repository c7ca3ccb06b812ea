//! Several tickers over one store, at the same time: their clocks differ, answers are lost, and they die between their steps.
//!
//! The embedded engine belongs to one process, so these are instances of one process; all that they share is the store, and they
//! come to it concurrently, as processes would.

use crate::bench::Seeded;
use crate::store::{Fault, SwitchedStore};
use crate::ticker::cron;
use crate::world::{SetClock, World};
use scheduler_core::ports::{RunFilter, RunStore, ScheduleStore, TickStore};
use scheduler_model::{Overlap, Run, RunState, Schedule, Timestamp, Trigger};
use scheduler_testkit::store::build::*;
use scheduler_worker::{Planner, Services, Ticker};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

/// 2025-01-01T00:00:00Z.
const BEGIN: i64 = 1_735_689_600;
const SKEWS: [i64; 4] = [-60, -15, 20, 60];
const SCHEDULES: i64 = 25;

struct Racing {
    world: World,
    store: Arc<SwitchedStore>,
    clocks: [Arc<SetClock>; SKEWS.len()],
    processes: Vec<Arc<Services>>,
    tickers: Vec<Option<Ticker>>,
    planner: Planner,
    random: Arc<Seeded>,
}

impl Racing {
    async fn of(schedules: impl IntoIterator<Item = Schedule>, seed: u64) -> Self {
        let world = World::new().await;
        for schedule in schedules {
            world.store.create_schedule(schedule).await.unwrap();
        }
        let store = Arc::new(SwitchedStore::new(world.store.clone()));
        let clocks: [Arc<SetClock>; SKEWS.len()] = std::array::from_fn(|_| Arc::default());
        let processes: Vec<_> =
            clocks.iter().map(|clock| world.process_over(store.clone(), clock.clone(), 1_000)).collect();
        let planner = Planner::new(world.process(clocks[0].clone(), 1_000));
        let tickers = SKEWS.iter().map(|_| None).collect();
        let mut racing =
            Self { world, store, clocks, processes, tickers, planner, random: Arc::new(Seeded::new(seed)) };
        racing.set(0);
        racing
    }

    /// Sets every clock around the true time.
    fn set(&mut self, second: i64) {
        for (clock, skew) in self.clocks.iter().zip(SKEWS) {
            clock.set(BEGIN + second + skew);
        }
    }

    /// All tickers look at the same time; some die on the way, and others take their places.
    async fn look(&mut self, deaths_in_100: u64) {
        let mut looks = Vec::new();
        for (place, services) in self.processes.iter().enumerate() {
            let recorder = self.world.recorder.clone();
            let ticker = self.tickers[place].take().unwrap_or_else(|| Ticker::new(services.clone(), recorder));
            let dies = self.random.below(100) < deaths_in_100;
            let polls = if dies { self.random.below(40) } else { u64::MAX };
            looks.push(tokio::spawn(looked(ticker, polls)));
        }
        for (place, look) in looks.into_iter().enumerate() {
            self.tickers[place] = look.await.unwrap();
        }
        self.planner.look().await.unwrap();
    }

    async fn runs(&self, schedule: &Schedule) -> Vec<Run> {
        let filter = RunFilter { schedule: Some(schedule.id.clone()), ..RunFilter::default() };
        self.world.store.runs(&schedule.tenant, &filter, None, 1_000).await.unwrap().items
    }

    async fn instants(&self, schedule: &Schedule) -> Vec<i64> {
        let runs = self.runs(schedule).await;
        let instants = runs.iter().filter_map(|run| run.reason.scheduled_for);
        let mut instants: Vec<i64> = instants.map(|instant| instant.seconds() - BEGIN).collect();
        instants.sort_unstable();
        instants
    }
}

/// The ticker after a look, unless it died at the given poll. What it had handed to the store goes on without it.
async fn looked(mut ticker: Ticker, polls: u64) -> Option<Ticker> {
    let mut left = polls;
    let alive = {
        let mut look = pin!(ticker.look());
        std::future::poll_fn(|context| {
            if left == 0 {
                return Poll::Ready(false);
            }
            left -= 1;
            // An error is the store's; it will look again.
            look.as_mut().poll(context).map(|_| true)
        })
        .await
    };
    alive.then_some(ticker)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn p03_tickers_that_race_die_and_lose_answers_begin_one_run_for_each_instant() {
    // Every five minutes, at another minute each.
    let schedules: Vec<Schedule> =
        (0..SCHEDULES).map(|number| cron(&format!("s-{number:02}"), &format!("{}-59/5 * * * *", number % 5))).collect();
    let mut racing = Racing::of(schedules.clone(), 0x5eed).await;
    let random = racing.random.clone();
    racing.store.set_faults(move |_| match random.below(100) {
        0..4 => Fault::Before,
        4..10 => Fault::After,
        _ => Fault::None,
    });
    let end = 3 * 3600;
    let mut now = 0;
    while now < end {
        now += 5 + i64::try_from(racing.random.below(20)).unwrap();
        racing.set(now);
        racing.look(20).await;
    }
    // What the faults have put off is done when they are over.
    racing.store.set_faults(|_| Fault::None);
    racing.tickers.iter_mut().for_each(|ticker| *ticker = None);
    for second in [now + 5, now + 10] {
        racing.set(second);
        racing.look(0).await;
    }
    for (schedule, number) in schedules.iter().zip(0..) {
        // The clock that is ahead most has seen instants up to a minute after the end.
        let last = now + 10 + 60;
        let expected: Vec<i64> = (1..=last / 60).filter(|m| m % 5 == number % 5).map(|m| m * 60).collect();
        assert_eq!(racing.instants(schedule).await, expected, "{}", schedule.id);
        assert!(racing.runs(schedule).await.iter().all(|run| run.state.is_ended()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn cron_29_schedules_that_are_edited_at_their_instants_lose_none_and_double_none() {
    let schedules: Vec<Schedule> = (0..10).map(|number| cron(&format!("s-{number}"), "*/5 * * * *")).collect();
    let mut racing = Racing::of(schedules.clone(), 0xed17).await;
    let mut versions: BTreeMap<usize, u64> = BTreeMap::new();
    for five in 1..=20 {
        racing.set(five * 300);
        // All are edited, some several times, while the tickers look.
        let store = racing.world.store.clone();
        let edits = schedules.iter().enumerate().map(|(place, schedule)| {
            let count = u64::try_from(five).unwrap() % 3 + 1;
            let from = *versions.entry(place).and_modify(|version| *version += count).or_insert(1 + count) - count;
            edit(store.clone(), schedule.clone(), from, count)
        });
        let edits = futures::future::join_all(edits.map(tokio::spawn).collect::<Vec<_>>());
        let ((), edited) = tokio::join!(racing.look(10), edits);
        edited.into_iter().for_each(|edited| edited.unwrap());
        // One that was edited in this moment is looked at again, as the loop does it.
        racing.set(five * 300 + 2);
        racing.look(0).await;
    }
    for schedule in &schedules {
        let expected: Vec<i64> = (1..=20).map(|five| five * 300).collect();
        let instants: BTreeSet<i64> = racing.instants(schedule).await.into_iter().collect();
        assert_eq!(racing.runs(schedule).await.len(), instants.len(), "none twice");
        assert_eq!(instants.into_iter().collect::<Vec<_>>(), expected, "{}", schedule.id);
    }
}

/// Edits what has nothing to do with when it ticks.
async fn edit(store: Arc<scheduler_store::EmbeddedStore>, schedule: Schedule, from: u64, count: u64) {
    for version in from..from + count {
        let mut edited = schedule.clone();
        edited.version = version + 1;
        edited.spec.limits.max_jobs = Some(u32::try_from(version).unwrap() + 10);
        store.update_schedule(edited, version).await.unwrap();
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn p03_a_ticker_that_dies_while_it_replaces_a_run_is_followed_by_one_that_does() {
    for polls in 0..30 {
        let mut made = cron("s", "0 * * * *");
        made.spec.overlap = Overlap::Replace;
        let mut racing = Racing::of([made.clone()], polls).await;
        let defaults = racing.processes[0].settings.run_defaults;
        let now = Timestamp::from_millis(BEGIN * 1000);
        let reason = scheduler_model::Reason::default();
        let new = scheduler_core::launch::of_schedule(id("going"), &made, Trigger::Manual, reason, defaults, now);
        let going = new.run.clone();
        racing.world.store.begin_run(new).await.unwrap();
        racing.world.store.commit_plan(plan(&going, &[&[1]])).await.unwrap();
        racing.set(3600 + 60);
        let first = Ticker::new(racing.processes[0].clone(), racing.world.recorder.clone());
        drop(looked(first, polls).await);
        // A cancelled run that nothing follows would be lost.
        let state = racing.world.store.ticks(&[(alpha(), made.id.clone())]).await.unwrap().pop().flatten();
        let run = racing.world.store.run(&alpha(), &id("going")).await.unwrap().unwrap();
        let waits = state.is_some_and(|state| state.waiting.is_some());
        assert!(waits || run.cancel_requested_at.is_none(), "after {polls} polls");
        racing.look(0).await;
        racing.set(3600 + 62);
        racing.look(0).await;
        let run = racing.world.store.run(&alpha(), &id("going")).await.unwrap().unwrap();
        assert!(run.cancel_requested_at.is_some(), "after {polls} polls");
        let reason = scheduler_model::SkipReason::Cancelled;
        racing.world.store.skip_rest(&alpha(), &going.id, reason, now).await.unwrap();
        racing.set(3600 + 64);
        racing.look(0).await;
        assert_eq!(racing.instants(&made).await, [3600], "after {polls} polls");
        let states: BTreeSet<_> = racing.runs(&made).await.iter().map(|run| format!("{:?}", run.state)).collect();
        assert_eq!(states, [RunState::Cancelled, RunState::Completed].map(|state| format!("{state:?}")).into());
    }
}
