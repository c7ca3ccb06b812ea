//! One ticker under a clock that the test sets: jumps, sleep, downtime, and schedules that are broken.

use crate::store::SwitchedStore;
use crate::world::{SetClock, World};
use scheduler_calendar::TZDB_VERSION;
use scheduler_core::ports::{RunFilter, RunStore, ScheduleStore, Tick, TickStore, Ticked};
use scheduler_core::tick::{Obstacle, TickState};
use scheduler_model::{Misfire, Overlap, Reason, Run, Schedule, ScheduleId, Timestamp, Trigger};
use scheduler_testkit::store::build::*;
use scheduler_worker::{Planner, Services, Ticker};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// 2025-01-01T00:00:00Z.
const BEGIN: i64 = 1_735_689_600;
const MINUTE: i64 = 60;
const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

fn at_second(second: i64) -> Timestamp {
    Timestamp::from_millis((BEGIN + second) * 1000)
}

/// A schedule that ticks from the beginning.
pub fn cron(name: &str, expression: &str) -> Schedule {
    let mut made = schedule(&alpha(), name);
    made.spec.when_cron = Some(expression.to_owned());
    (made.ticks_from, made.created_at) = (Some(at_second(0)), at_second(0));
    made
}

fn skipping(name: &str, expression: &str) -> Schedule {
    let mut made = cron(name, expression);
    made.spec.misfire = Misfire::Skip;
    made
}

/// A process with a ticker and a planner. Times are seconds from the beginning.
struct Process {
    world: World,
    store: Arc<SwitchedStore>,
    clock: Arc<SetClock>,
    services: Arc<Services>,
    ticker: Ticker,
    planner: Planner,
}

impl Process {
    async fn with(schedules: impl IntoIterator<Item = Schedule>) -> Self {
        let world = World::new().await;
        for schedule in schedules {
            world.store.create_schedule(schedule).await.unwrap();
        }
        let store = Arc::new(SwitchedStore::new(world.store.clone()));
        let clock = Arc::new(SetClock::default());
        clock.set(BEGIN);
        let services = world.process_over(store.clone(), clock.clone(), 100);
        let ticker = Ticker::new(services.clone(), world.recorder.clone());
        let planner = Planner::new(services.clone());
        let mut process = Self { world, store, clock, services, ticker, planner };
        process.look().await;
        process
    }

    /// Another process over the same store.
    fn restart(&mut self) {
        self.services = self.world.process_over(self.store.clone(), self.clock.clone(), 100);
        self.ticker = Ticker::new(self.services.clone(), self.world.recorder.clone());
        self.planner = Planner::new(self.services.clone());
    }

    async fn look(&mut self) {
        while self.ticker.look().await.unwrap() <= self.services.clock.now() {}
        self.planner.look().await.unwrap();
    }

    async fn at(&mut self, second: i64) {
        self.clock.set(BEGIN + second);
        self.look().await;
    }

    /// The instants that got a run in the order of the instants, and whether the run makes up for others.
    async fn fired(&self, name: &str) -> Vec<(i64, bool)> {
        let mut fired: Vec<(i64, bool)> = self.runs(name).await.iter().map(instant).collect();
        fired.sort_unstable();
        fired
    }

    async fn runs(&self, name: &str) -> Vec<Run> {
        let filter = RunFilter { schedule: Some(id(name)), ..RunFilter::default() };
        self.world.store.runs(&alpha(), &filter, None, 1_000).await.unwrap().items
    }

    async fn state(&self, name: &str) -> TickState {
        let key = (alpha(), id::<ScheduleId>(name));
        self.world.store.ticks(&[key]).await.unwrap().pop().flatten().unwrap()
    }

    /// A run of the schedule that goes until it is ended by hand.
    async fn going(&self, schedule: &Schedule, name: &str, trigger: Trigger) {
        let defaults = self.services.settings.run_defaults;
        let now = self.services.clock.now();
        let new = scheduler_core::launch::of_schedule(id(name), schedule, trigger, Reason::default(), defaults, now);
        let made = new.run.clone();
        self.world.store.begin_run(new).await.unwrap();
        self.world.store.commit_plan(plan(&made, &[&[1]])).await.unwrap();
    }

    async fn end(&self, name: &str) {
        let now = self.services.clock.now();
        let reason = scheduler_model::SkipReason::Cancelled;
        self.world.store.skip_rest(&alpha(), &id(name), reason, now).await.unwrap();
    }
}

fn instant(run: &Run) -> (i64, bool) {
    (run.reason.scheduled_for.unwrap().seconds() - BEGIN, run.reason.catch_up)
}

#[tokio::test]
async fn p03_a_clock_that_jumps_forward_costs_one_run_and_back_again_nothing_twice() {
    let mut process = Process::with([cron("once", "0 * * * *"), skipping("skip", "0 * * * *")]).await;
    process.at(HOUR).await;
    process.at(6 * HOUR + 2 * MINUTE).await;
    assert_eq!(process.fired("once").await, [(HOUR, false), (6 * HOUR, true)]);
    assert_eq!(process.fired("skip").await, [(HOUR, false)]);
    // Back: the hours that were passed over come when they are.
    process.at(HOUR + MINUTE).await;
    for minute in 62..8 * 60 {
        process.at(minute * MINUTE).await;
    }
    let each = |catches_up: i64| (1..8).map(move |hour| (hour * HOUR, hour == catches_up)).collect::<Vec<_>>();
    assert_eq!(process.fired("once").await, each(6));
    assert_eq!(process.fired("skip").await, each(0));
}

#[tokio::test]
async fn p03_a_clock_that_was_years_ahead_silences_nothing_after_a_restart() {
    let mut process = Process::with([cron("s", "0 * * * *")]).await;
    process.at(5 * 365 * DAY).await;
    process.clock.set(BEGIN + HOUR / 2);
    process.restart();
    process.look().await;
    process.at(HOUR).await;
    process.at(2 * HOUR).await;
    assert_eq!(process.fired("s").await, [(HOUR, false), (2 * HOUR, false), (5 * 365 * DAY, true)]);
}

#[tokio::test]
async fn p03_jumps_of_a_minute_are_no_downtime() {
    let mut process = Process::with([cron("once", "*/5 * * * *"), skipping("skip", "*/5 * * * *")]).await;
    let mut late = BTreeSet::new();
    for (step, off) in (0..400).zip([-60, 25, 0, 60, -10, 40, -45].into_iter().cycle()) {
        // Forward and back, by up to a minute around the true time.
        process.at(step * 20 + off).await;
        late.insert(off);
    }
    assert!(late.contains(&60) && late.contains(&-60), "it did jump");
    for name in ["once", "skip"] {
        let fired = process.fired(name).await;
        let expected: Vec<_> = (1..=26).map(|five| (five * 5 * MINUTE, false)).collect();
        assert_eq!(fired, expected, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_slept_makes_up_within_a_second_of_its_waking() {
    let process = Process::with([cron("once", "0 * * * *"), skipping("skip", "0 * * * *")]).await;
    let stop = CancellationToken::new();
    let Process { world, store, clock, services, ticker, .. } = process;
    let looping = tokio::spawn(ticker.run(stop.clone()));
    tokio::time::sleep(Duration::from_secs(3)).await;
    // The machine sleeps: no timer of the process goes on, the clock on the wall does.
    clock.set(BEGIN + 8 * HOUR + HOUR / 2);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    stop.cancel();
    looping.await.unwrap();
    let runs = world.store.runs(&alpha(), &RunFilter::default(), None, 9).await.unwrap().items;
    let begun: Vec<_> = runs.iter().map(|run| (run.schedule.clone().unwrap(), instant(run))).collect();
    assert_eq!(begun, [(id("once"), (8 * HOUR, true))]);
    drop((store, services));
}

#[tokio::test]
async fn p03_a_process_that_was_down_over_many_instants_makes_up_by_its_rule() {
    let schedules = ["*/5 * * * *", "0 * * * *", "0 2 * * *"];
    let once = schedules.iter().zip(0..).map(|(expression, number)| cron(&format!("once-{number}"), expression));
    let skip = schedules.iter().zip(0..).map(|(expression, number)| skipping(&format!("skip-{number}"), expression));
    let mut process = Process::with(once.chain(skip).collect::<Vec<_>>()).await;
    // Down for two years and a bit; back at 12:02.
    process.clock.set(BEGIN + 800 * DAY + 12 * HOUR + 2 * MINUTE);
    process.restart();
    process.look().await;
    let last = [12 * HOUR, 12 * HOUR, 2 * HOUR].map(|second| 800 * DAY + second);
    for (number, last) in last.into_iter().enumerate() {
        assert_eq!(process.fired(&format!("once-{number}")).await, [(last, true)]);
        assert_eq!(process.fired(&format!("skip-{number}")).await, []);
        let dropped = process.state(&format!("skip-{number}")).await.dropped.unwrap();
        assert_eq!((dropped.instant, dropped.obstacle), (at_second(last), Obstacle::Misfire), "it is told");
    }
    // And so on from there.
    process.at(800 * DAY + 12 * HOUR + 5 * MINUTE).await;
    for name in ["once-0", "skip-0"] {
        let next = (800 * DAY + 12 * HOUR + 5 * MINUTE, false);
        assert_eq!(process.fired(name).await.last(), Some(&next), "{name}");
    }
}

#[tokio::test]
async fn cron_22_a_clock_that_jumps_over_an_hour_of_minutes_begins_one_run() {
    let mut process = Process::with([cron("s", "* * * * *")]).await;
    process.at(119 * MINUTE).await;
    let before = process.fired("s").await.len();
    process.at(180 * MINUTE).await;
    assert_eq!(process.fired("s").await[before..], [(180 * MINUTE, true)]);
    for second in 1..60 {
        process.at(180 * MINUTE + second).await;
    }
    assert_eq!(process.fired("s").await.len(), before + 1, "at most one in a minute");
}

#[tokio::test]
async fn cron_12_a_broken_schedule_stops_no_other() {
    let mut of_a_later_program = cron("of-a-later-program", "0 * * * *");
    of_a_later_program.spec.when_cron = Some("every full hour".to_owned());
    let mut elsewhere = cron("elsewhere", "0 * * * *");
    elsewhere.spec.timezone = "Atlantis/Capital".to_owned();
    let broken = ["of-a-later-program", "elsewhere", "unreadable", "without-state", "panics"];
    let names = ["a", "unreadable", "m", "without-state", "panics", "z"];
    let readable = names.map(|name| cron(name, "0 * * * *"));
    let mut process = Process::with(readable.into_iter().chain([of_a_later_program, elsewhere])).await;
    *process.store.unreadable.lock() = [[id("unreadable")].into(), [id("without-state")].into()];
    process.store.panicking.lock().insert(id("panics"));
    // To a ticker that knew them while they could be read, and to one that begins anew.
    for hour in 1..=3 {
        process.at(hour * HOUR).await;
        if hour == 1 {
            process.restart();
            process.look().await;
        }
        for name in ["a", "m", "z"] {
            assert_eq!(process.fired(name).await.len() as i64, hour, "{name} at {hour}");
        }
        for name in broken {
            assert_eq!(process.fired(name).await, [], "{name} at {hour}");
        }
    }
    // Mended by an edit, it goes on: of what it missed since, one run.
    let mut mended = cron("of-a-later-program", "30 * * * *");
    (mended.version, mended.ticks_from) = (2, Some(at_second(3 * HOUR)));
    process.world.store.update_schedule(mended, 1).await.unwrap();
    process.at(3 * HOUR + 30 * MINUTE).await;
    assert_eq!(process.fired("of-a-later-program").await, [(3 * HOUR + 30 * MINUTE, false)]);
}

#[tokio::test]
async fn cron_28_a_state_that_other_time_zone_data_computed_is_computed_anew() {
    let mut process = Process::with([cron("s", "0 * * * *")]).await;
    let state = process.state("s").await;
    assert_eq!((state.next, state.time_zone_data.as_str()), (Some(at_second(HOUR)), TZDB_VERSION));
    // As a program with data of another release would have left it.
    let older = TickState { next: Some(at_second(5 * HOUR)), time_zone_data: "1999a".to_owned(), ..state };
    let tick = Tick { state: older, version: 1, begins: None };
    assert!(matches!(process.world.store.tick(tick).await.unwrap(), Ticked::Done(_)));
    process.restart();
    process.look().await;
    let state = process.state("s").await;
    assert_eq!((state.next, state.time_zone_data.as_str()), (Some(at_second(HOUR)), TZDB_VERSION));
    process.at(HOUR).await;
    assert_eq!(process.fired("s").await, [(HOUR, false)]);
}

#[tokio::test]
async fn que_14_an_instant_that_meets_a_run_says_what_becomes_of_it() {
    for overlap in [Overlap::Queue, Overlap::Skip, Overlap::Replace] {
        let mut made = cron("s", "0 * * * *");
        made.spec.overlap = overlap;
        let mut process = Process::with([made.clone()]).await;
        process.going(&made, "going", Trigger::Manual).await;
        process.at(HOUR).await;
        process.at(2 * HOUR).await;
        let state = process.state("s").await;
        let waits = state.waiting.map(|waiting| (waiting.instant, waiting.obstacle));
        let dropped = state.dropped.map(|dropped| (dropped.instant, dropped.obstacle));
        let [first, last] = [1, 2].map(|hour| Some((at_second(hour * HOUR), Obstacle::Overlap)));
        assert_eq!((waits, dropped), if overlap == Overlap::Skip { (None, last) } else { (last, first) });
        assert!(state.waiting.is_none_or(|waiting| !waiting.catch_up), "nothing was missed while a process was down");
        let told: Vec<_> = process.world.recorder.0.lock().iter().map(|(_, run)| run.clone()).collect();
        assert_eq!(told, if overlap == Overlap::Replace { vec![id("going")] } else { vec![] });
        assert_eq!(process.runs("s").await.len(), 1, "nothing beside it");
        process.end("going").await;
        process.at(2 * HOUR + 10 * MINUTE).await;
        let instants: Vec<_> = process.runs("s").await.iter().filter_map(|run| run.reason.scheduled_for).collect();
        assert_eq!(instants, if overlap == Overlap::Skip { vec![] } else { vec![at_second(2 * HOUR)] });
    }
}
