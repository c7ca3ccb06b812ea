//! Reading runs, outcomes and the outbox.

use super::*;
use scheduler_core::ports::{RunFilter, StoreError};
use scheduler_model::{ErrorClass, OutcomeResult, Trigger};

pub async fn p02_runs_of_another_tenant_are_not_there(store: &impl RunStore) {
    let made = planned(store, &of_schedule(run(&alpha(), "r"), "s"), &[&[1]]).await;
    let filter = RunFilter { schedule: made.schedule.clone(), ..RunFilter::default() };
    assert_eq!(store.run(&beta(), &made.id).await.unwrap(), None);
    for filter in [RunFilter::default(), filter] {
        assert!(store.runs(&beta(), &filter, None, 9).await.unwrap().items.is_empty());
    }
    assert_eq!(store.last_run(&beta(), &id("s")).await.unwrap(), None);
    assert!(store.live_runs(&beta(), &id("s")).await.unwrap().is_empty());
    assert_eq!(store.load(&beta()).await.unwrap(), (0, 0));
    assert!(store.outbox(&beta(), 0, 9).await.unwrap().is_empty());
}

async fn names(store: &impl RunStore, filter: &RunFilter, limit: usize) -> Vec<String> {
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let page = store.runs(&alpha(), filter, after.as_deref(), limit).await.unwrap();
        assert!(page.items.len() <= limit);
        names.extend(page.items.iter().map(|run| run.id.to_string()));
        after = page.next;
        if after.is_none() {
            return names;
        }
    }
}

pub async fn runs_are_listed_newest_first_and_filtered(store: &impl RunStore) {
    for (name, millis, schedule, trigger) in [
        ("a", -5, Some("s"), Trigger::Cron),
        ("b", 10, None, Trigger::Manual),
        ("c", 10, Some("s"), Trigger::Manual),
        ("d", 20, Some("t"), Trigger::Cron),
    ] {
        let made = Run { created_at: at(millis), trigger, ..run(&alpha(), name) };
        let made = Run { schedule: schedule.map(id), ..made };
        store.begin_run(new_run(&made)).await.unwrap();
        if name == "c" {
            store.commit_plan(plan(&made, &[&[1]])).await.unwrap();
        }
    }
    store.begin_run(new_run(&run(&beta(), "other"))).await.unwrap();
    let all = RunFilter::default();
    let cases: [(RunFilter, &[&str]); 8] = [
        (all.clone(), &["d", "b", "c", "a"]),
        (RunFilter { schedule: Some(id("s")), ..all.clone() }, &["c", "a"]),
        (RunFilter { state: Some(RunState::Queued), ..all.clone() }, &["c"]),
        (RunFilter { trigger: Some(Trigger::Cron), ..all.clone() }, &["d", "a"]),
        (RunFilter { since: Some(at(10)), ..all.clone() }, &["d", "b", "c"]),
        (RunFilter { until: Some(at(10)), ..all.clone() }, &["a"]),
        (RunFilter { since: Some(at(-5)), until: Some(at(20)), ..all.clone() }, &["b", "c", "a"]),
        (RunFilter { schedule: Some(id("s")), until: Some(at(11)), trigger: Some(Trigger::Cron), ..all }, &["a"]),
    ];
    for (filter, expected) in &cases {
        for limit in [1, 2, 9] {
            assert_eq!(names(store, filter, limit).await, *expected, "{filter:?} by {limit}");
        }
    }
}

pub async fn p02_cursors_of_nowhere_are_refused(store: &impl RunStore) {
    for cursor in ["", "x", "00", "é"] {
        let runs = store.runs(&alpha(), &RunFilter::default(), Some(cursor), 5).await;
        assert!(matches!(runs, Err(StoreError::BadCursor)), "{cursor}");
        let outcomes = store.outcomes(&id("r"), None, Some(cursor), 5).await;
        assert!(matches!(outcomes, Err(StoreError::BadCursor)), "{cursor}");
    }
}

pub async fn outcomes_are_listed_by_digest_and_kind(store: &impl RunStore) {
    let made = planned(store, &run(&alpha(), "r"), &[&[5, 4, 3, 2, 1]]).await;
    // Its id begins like the other's: its outcomes must not be among them.
    let next = planned(store, &run(&alpha(), "r2"), &[&[1]]).await;
    let failed = OutcomeResult::Failed { class: ErrorClass::Timeout, message: "too late".to_owned() };
    let results = [(1, reported(1)), (2, reported(0)), (3, failed), (4, skipped()), (5, reported(2))];
    let writes = results.map(|(number, result)| outcome(&made, number, result)).to_vec();
    store.write_outcomes(&segment_id(&made.id, 0), 1, writes, at(4), false).await.unwrap();
    let writes = vec![outcome(&next, 1, reported(1))];
    store.write_outcomes(&segment_id(&next.id, 0), 1, writes, at(4), false).await.unwrap();
    let cases: [(Option<&str>, &[usize]); 5] = [
        (None, &[1, 2, 3, 4, 5]),
        (Some("delta"), &[1, 5]),
        (Some("unchanged"), &[2]),
        (Some("failed"), &[3]),
        (Some("skipped"), &[4]),
    ];
    for (kind, expected) in cases {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = store.outcomes(&made.id, kind, after.as_deref(), 2).await.unwrap();
            seen.extend(page.items.into_iter().map(|outcome| outcome.digest));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, expected.iter().copied().map(digest).collect::<Vec<_>>(), "{kind:?}");
    }
    for (run, number, kind) in [(&made, 3, Some("failed")), (&next, 1, Some("delta")), (&next, 3, None)] {
        let found = store.outcome(&run.id, &digest(number)).await.unwrap();
        assert_eq!(found.as_ref().map(|outcome| outcome.result.as_str()), kind);
        assert!(found.is_none_or(|outcome| outcome.run == run.id && outcome.digest == digest(number)));
    }
}

pub async fn the_newest_run_and_the_live_ones_of_a_schedule_are_known(store: &impl RunStore) {
    assert_eq!(store.last_run(&alpha(), &id("s")).await.unwrap(), None);
    for (name, millis) in [("b", 20), ("a", 10)] {
        let made = Run { created_at: at(millis), ..of_schedule(run(&alpha(), name), "s") };
        planned(store, &made, &[&[1]]).await;
    }
    store.begin_run(new_run(&of_schedule(run(&alpha(), "x"), "s2"))).await.unwrap();
    assert_eq!(store.last_run(&alpha(), &id("s")).await.unwrap().unwrap().id, id("b"));
    let live = async || -> Vec<String> {
        store.live_runs(&alpha(), &id("s")).await.unwrap().iter().map(|run| run.id.to_string()).collect()
    };
    assert_eq!(live().await, ["a", "b"]);
    store.skip_rest(&alpha(), &id("b"), scheduler_model::SkipReason::Expired, at(30)).await.unwrap();
    assert_eq!(live().await, ["a"]);
    assert_eq!(store.last_run(&alpha(), &id("s")).await.unwrap().unwrap().state, RunState::Completed);
}

pub async fn p10_the_load_counts_what_is_open(store: &impl RunStore) {
    let made = planned(store, &run(&alpha(), "r"), &[&[1, 2], &[3]]).await;
    planned(store, &run(&beta(), "other"), &[&[1]]).await;
    store.begin_run(new_run(&run(&alpha(), "p"))).await.unwrap();
    assert_eq!(store.load(&alpha()).await.unwrap(), (2, 3));
    let segment = segment_id(&made.id, 0);
    store.write_outcomes(&segment, 1, vec![outcome(&made, 1, reported(0))], at(4), false).await.unwrap();
    assert_eq!(store.load(&alpha()).await.unwrap(), (2, 2));
    store.skip_rest(&alpha(), &made.id, scheduler_model::SkipReason::Cancelled, at(5)).await.unwrap();
    assert_eq!(store.load(&alpha()).await.unwrap(), (1, 0));
}

pub async fn p02_outbox_numbers_begin_with_one_for_every_tenant(store: &impl RunStore) {
    for tenant in [alpha(), beta()] {
        assert_eq!(store.outbox_range(&tenant).await.unwrap(), (1, 0));
        for name in ["x", "y"] {
            planned(store, &run(&tenant, &format!("{tenant}-{name}")), &[]).await;
        }
        let events = store.outbox(&tenant, 0, 9).await.unwrap();
        assert_eq!(events.iter().map(|event| event.sequence).collect::<Vec<_>>(), [1, 2]);
        assert!(events.iter().all(|event| event.tenant == tenant));
    }
}

pub async fn p10_large_events_are_read_a_few_at_a_time(store: &impl RunStore) {
    let made = planned(store, &run(&alpha(), "r"), &[&[1, 2, 3, 4]]).await;
    let mut writes: Vec<_> = (1..=4).map(|number| outcome(&made, number, reported(1))).collect();
    for write in &mut writes {
        if let Some((_, event)) = &mut write.event {
            event.repository = "x".repeat(1 << 20);
        }
    }
    store.write_outcomes(&segment_id(&made.id, 0), 1, writes, at(4), false).await.unwrap();
    let first = store.outbox(&alpha(), 1, 100).await.unwrap();
    assert!((1..4).contains(&first.len()), "{} events of 1 MiB at once", first.len());
    assert_eq!(all_events(store, &alpha()).await.len(), 6, "and none is passed over");
}

pub async fn p05_the_outbox_is_read_in_order_and_trimmed_by_time(store: &impl RunStore) {
    let made = planned(store, &run(&alpha(), "r"), &[&[1, 2, 3, 4]]).await;
    let segment = segment_id(&made.id, 0);
    for number in 1..=3_u32 {
        let writes = vec![outcome(&made, number as usize, reported(0))];
        store.write_outcomes(&segment, 1, writes, at(10 * i64::from(number)), false).await.unwrap();
    }
    // queued at 1; event and running at 10; events at 20 and 30.
    let numbers = async |after, limit| -> Vec<u64> {
        store.outbox(&alpha(), after, limit).await.unwrap().iter().map(|event| event.sequence).collect()
    };
    assert_eq!(numbers(0, 2).await, [1, 2]);
    assert_eq!(numbers(2, 9).await, [3, 4, 5]);
    assert!(numbers(5, 9).await.is_empty() && numbers(u64::MAX, 9).await.is_empty());
    assert_eq!(store.outbox_range(&alpha()).await.unwrap(), (1, 5));
    assert_eq!(store.trim_outbox(at(20)).await.unwrap(), 3);
    assert_eq!(store.trim_outbox(at(20)).await.unwrap(), 0);
    assert_eq!((numbers(0, 9).await, store.outbox_range(&alpha()).await.unwrap()), (vec![4, 5], (4, 5)));
    assert_eq!(store.trim_outbox(at(1000)).await.unwrap(), 2);
    assert_eq!(store.outbox_range(&alpha()).await.unwrap(), (6, 5));
    store.write_outcomes(&segment, 1, vec![outcome(&made, 4, skipped())], at(40), false).await.unwrap();
    assert_eq!(numbers(0, 9).await, [6], "a number is given once");
}
