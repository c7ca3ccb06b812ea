//! The contract of `TickStore`. The store has to be a `ScheduleStore` and a `RunStore` too.

#![expect(missing_docs, reason = "the name of a case is what it checks, and the macro is how to run it")]

use super::build::*;
use scheduler_core::ports::{NewRun, RunStore, ScheduleStore, Tick, TickStore, Ticked};
use scheduler_core::tick::{Obstacle, TickState, Waiting};
use scheduler_model::Schedule;

/// One test for each case of the contract of `TickStore`.
#[macro_export]
macro_rules! tick_store_contract {
    ($make:path) => {
        $crate::store_cases!($make, ticks:
            a_state_comes_back_to_its_schedule,
            p03_of_simultaneous_ticks_one_is_done,
            p03_a_tick_and_its_run_are_one_write,
            p03_a_run_that_exists_is_not_begun_again,
            que_14_no_run_begins_beside_one_that_goes,
            cron_29_a_tick_on_an_edited_schedule_is_stale,
            changes_of_schedules_are_followed_in_order,
            p09_a_reader_that_follows_misses_no_change_of_a_schedule,
        );
    };
}

async fn made(store: &impl ScheduleStore, name: &str) -> Schedule {
    let mut made = schedule(&alpha(), name);
    made.spec.when_cron = Some("@daily".to_owned());
    store.create_schedule(made.clone()).await.unwrap();
    made
}

fn tick(schedule: &Schedule, begins: Option<NewRun>) -> Tick {
    Tick { state: TickState::new(schedule), version: schedule.version, begins }
}

fn begins(schedule: &Schedule, run_name: &str) -> Option<NewRun> {
    Some(new_run(&of_schedule(run(&alpha(), run_name), schedule.id.as_str())))
}

async fn state(store: &impl TickStore, schedule: &Schedule) -> Option<TickState> {
    store.ticks(&[(schedule.tenant.clone(), schedule.id.clone())]).await.unwrap().pop().unwrap()
}

pub async fn a_state_comes_back_to_its_schedule(store: &(impl TickStore + ScheduleStore)) {
    let (a, b) = (made(store, "a").await, made(store, "b").await);
    let waiting = Some(Waiting { instant: at(5), catch_up: true, obstacle: Obstacle::Limits });
    let wanted = TickState { handled: at(5), waiting, ..TickState::new(&a) };
    let ticked = store.tick(Tick { state: wanted.clone(), version: 1, begins: None }).await.unwrap();
    let stored = TickState { revision: 1, ..wanted };
    assert_eq!(ticked, Ticked::Done(stored.clone()));
    let of = [&b, &a].map(|schedule| (schedule.tenant.clone(), schedule.id.clone()));
    assert_eq!(store.ticks(&of).await.unwrap(), [None, Some(stored)]);
    assert_eq!(store.ticks(&[(beta(), a.id.clone())]).await.unwrap(), [None]);
}

pub async fn p03_of_simultaneous_ticks_one_is_done(store: &(impl TickStore + ScheduleStore)) {
    let a = made(store, "a").await;
    for round in 0..5 {
        let from = state(store, &a).await.unwrap_or_else(|| TickState::new(&a));
        let tick = || store.tick(Tick { state: from.clone(), version: 1, begins: None });
        let (x, y, z) = tokio::join!(tick(), tick(), tick());
        let done = [x, y, z].into_iter().filter(|ticked| matches!(ticked, Ok(Ticked::Done(_)))).count();
        assert_eq!((done, state(store, &a).await.unwrap().revision), (1, round + 1));
    }
}

pub async fn p03_a_tick_and_its_run_are_one_write(store: &(impl TickStore + ScheduleStore + RunStore)) {
    let a = made(store, "a").await;
    assert!(matches!(store.tick(tick(&a, begins(&a, "r"))).await, Ok(Ticked::Done(_))));
    assert_eq!(store.live_runs(&alpha(), &a.id).await.unwrap().len(), 1);
    assert_eq!(store.tick(tick(&a, begins(&a, "other"))).await.unwrap(), Ticked::Stale);
    assert!(store.run(&alpha(), &id("other")).await.unwrap().is_none(), "no run without its state");
}

pub async fn p03_a_run_that_exists_is_not_begun_again(store: &(impl TickStore + ScheduleStore + RunStore)) {
    let a = made(store, "a").await;
    let Ticked::Done(state) = store.tick(tick(&a, begins(&a, "r"))).await.unwrap() else { panic!("it is new") };
    let again = Tick { state, version: 1, begins: begins(&a, "r") };
    assert!(matches!(store.tick(again).await, Ok(Ticked::Done(_))), "whether it goes or has ended");
    assert_eq!(store.live_runs(&alpha(), &a.id).await.unwrap().len(), 1);
}

pub async fn que_14_no_run_begins_beside_one_that_goes(store: &(impl TickStore + ScheduleStore + RunStore)) {
    let (a, b) = (made(store, "a").await, made(store, "b").await);
    let going = of_schedule(run(&alpha(), "going"), "a");
    store.begin_run(new_run(&going)).await.unwrap();
    assert_eq!(store.tick(tick(&a, begins(&a, "r"))).await.unwrap(), Ticked::Busy);
    assert_eq!(state(store, &a).await, None);
    assert!(matches!(store.tick(tick(&b, begins(&b, "of-b"))).await, Ok(Ticked::Done(_))));
    store.commit_plan(plan(&going, &[])).await.unwrap();
    assert!(matches!(store.tick(tick(&a, begins(&a, "r"))).await, Ok(Ticked::Done(_))));
}

pub async fn cron_29_a_tick_on_an_edited_schedule_is_stale(store: &(impl TickStore + ScheduleStore + RunStore)) {
    let mut a = made(store, "a").await;
    let before = tick(&a, begins(&a, "r"));
    a.version = 2;
    store.update_schedule(a.clone(), 1).await.unwrap();
    assert_eq!(store.tick(before).await.unwrap(), Ticked::Stale);
    assert!(matches!(store.tick(tick(&a, None)).await, Ok(Ticked::Done(_))));
    let current = state(store, &a).await.unwrap();
    for (enabled, deleted_at, version) in [(false, None, 3), (true, Some(at(9)), 4)] {
        let edited = Schedule { version, deleted_at, ..a.clone() };
        let mut edited = edited;
        edited.spec.enabled = enabled;
        store.update_schedule(edited, version - 1).await.unwrap();
        let tick = Tick { state: current.clone(), version, begins: begins(&a, "r") };
        assert_eq!(store.tick(tick).await.unwrap(), Ticked::Stale);
    }
    assert!(store.run(&alpha(), &id("r")).await.unwrap().is_none());
}

pub async fn changes_of_schedules_are_followed_in_order(store: &(impl TickStore + ScheduleStore)) {
    for name in ["a", "b", "c"] {
        made(store, name).await;
    }
    let mut b = schedule(&alpha(), "b");
    b.version = 2;
    store.update_schedule(b.clone(), 1).await.unwrap();
    let follow = async |mut after: u64, limit| {
        let mut seen = Vec::new();
        loop {
            let changes = store.schedule_changes(after, limit).await.unwrap();
            let Some((last, _)) = changes.last() else { return (after, seen) };
            assert!(changes.len() <= limit && changes.is_sorted_by_key(|(number, _)| *number));
            after = *last;
            let changed = changes.into_iter().map(|(_, schedule)| schedule.unwrap());
            seen.extend(changed.map(|schedule| (schedule.spec.name, schedule.version)));
        }
    };
    let all = [("a", 1), ("c", 1), ("b", 2)].map(|(name, version)| (name.to_owned(), version));
    for limit in [1, 2, 3, 9] {
        assert_eq!(follow(0, limit).await.1, all, "limit {limit}");
    }
    let (head, _) = follow(0, 9).await;
    let mut a = schedule(&alpha(), "a");
    (a.version, a.deleted_at) = (2, Some(at(3)));
    store.update_schedule(a, 1).await.unwrap();
    assert!(store.update_schedule(b, 7).await.is_err(), "a refused one is no change");
    assert_eq!(follow(head, 9).await.1, [("a".to_owned(), 2)], "a deletion is told too");
}

pub async fn p09_a_reader_that_follows_misses_no_change_of_a_schedule(store: &(impl TickStore + ScheduleStore)) {
    let create = |number: usize| store.create_schedule(schedule(&alpha(), &format!("s-{number:02}")));
    let reader = async {
        let (mut after, mut seen) = (0, std::collections::BTreeSet::new());
        while seen.len() < 40 {
            for (number, schedule) in store.schedule_changes(after, 3).await.unwrap() {
                assert!(number > after);
                after = number;
                assert!(seen.insert(schedule.unwrap().id));
            }
            tokio::task::yield_now().await;
        }
    };
    let writers = futures::future::join_all((0..40).map(create));
    let (created, ()) = tokio::join!(writers, reader);
    assert!(created.into_iter().all(|created| created.is_ok()));
}
