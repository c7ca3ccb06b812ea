//! The contract of `Housekeeping`, and of the cursors that runs move.

#![expect(missing_docs, reason = "the name of a case is what it checks, and the macro is how to run it")]

use super::build::*;
use scheduler_core::cursor::Passed;
use scheduler_core::ports::{
    CatalogStore, EventStore, Housekeeping, NewRun, Pruned, RunStore, StoreError, Subscription, TrimmedImages,
};
use scheduler_model::{Image, Run, SkipReason, Source, TenantId, Trigger, Window};
use std::time::Duration;

/// One test for each case of the contract of `Housekeeping`.
#[macro_export]
macro_rules! housekeeping_contract {
    ($make:path) => {
        $crate::store_cases!($make, keeping:
            exports_are_kept_as_long_as_somebody_needs_them,
            identities_and_idempotency_keys_are_forgotten_in_time,
            ended_runs_go_but_for_the_newest_of_a_schedule,
            images_without_a_new_document_go_in_time,
            note_18_a_cursor_moves_with_the_run_that_takes_the_export,
            p02_idx_03_cursors_are_per_tenant_and_source,
        );
    };
}

pub async fn exports_are_kept_as_long_as_somebody_needs_them(store: &(impl Housekeeping + EventStore + RunStore)) {
    let export = export("e", "1");
    let waits = Subscription { tenant: alpha(), schedule: id("s"), batch: id("b") };
    store.accept(export.clone(), None, 9).await.unwrap();
    let prune = async || store.prune(at(1)).await.unwrap();
    assert_eq!(prune().await, Pruned::default(), "it is not in a batch");
    store.close_batch(batch("b", &[&export])).await.unwrap();
    assert_eq!(prune().await, Pruned::default(), "the batch is not distributed");
    store.distribute(&id("b"), vec![waits.clone()]).await.unwrap();
    assert_eq!(prune().await, Pruned::default(), "a schedule waits for it");
    let made = run(&alpha(), "r");
    let mut new = NewRun { takes: vec![waits], ..new_run(&made) };
    new.input.batches = vec![id("b")];
    store.begin_run(new).await.unwrap();
    assert_eq!(prune().await, Pruned::default(), "a run is planned from it");
    assert_eq!(store.batch_exports(&id("b")).await.unwrap(), [export]);
    store.commit_plan(plan(&made, &[])).await.unwrap();
    assert_eq!(prune().await, Pruned { batches: 1, ..Pruned::default() });
    assert!(matches!(store.batch_exports(&id("b")).await, Err(StoreError::NotFound { .. })));
}

pub async fn identities_and_idempotency_keys_are_forgotten_in_time(
    store: &(impl Housekeeping + EventStore + RunStore),
) {
    store.accept(export("e", "1"), None, 9).await.unwrap();
    let idempotency = Some(("key".to_owned(), "hash".to_owned()));
    store.begin_run(NewRun { idempotency, ..new_run(&run(&alpha(), "r")) }).await.unwrap();
    let hours = |hours: u64| at(0).plus(Duration::from_secs(hours * 3600));
    for (now, identities, idempotency_keys) in [(23, 0, 0), (24, 0, 1), (719, 0, 0), (720, 1, 0)] {
        let expected = Pruned { identities, idempotency_keys, ..Pruned::default() };
        assert_eq!(store.prune(hours(now)).await.unwrap(), expected, "after {now} hours");
    }
}

pub async fn ended_runs_go_but_for_the_newest_of_a_schedule(store: &(impl Housekeeping + RunStore)) {
    for (name, millis, schedule) in [("a", 1, Some("s")), ("b", 2, Some("s")), ("c", 3, None), ("d", 4, None)] {
        let made = Run { created_at: at(millis), schedule: schedule.map(id), ..run(&alpha(), name) };
        store.begin_run(new_run(&made)).await.unwrap();
        store.commit_plan(plan(&made, &[&[1, 2]])).await.unwrap();
        if name != "d" {
            store.skip_rest(&alpha(), &made.id, SkipReason::Expired, at(millis + 10)).await.unwrap();
        }
    }
    assert_eq!(store.trim_runs(at(11)).await.unwrap(), 0, "it ended then, not before");
    assert_eq!(store.trim_runs(at(100)).await.unwrap(), 2);
    assert_eq!(store.trim_runs(at(100)).await.unwrap(), 0);
    let left = store.runs(&alpha(), &Default::default(), None, 9).await.unwrap().items;
    assert_eq!(left.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(), ["d", "b"]);
    assert!(store.outcomes(&id("a"), None, None, 9).await.unwrap().items.is_empty());
    assert_eq!(store.outcomes(&id("b"), None, None, 9).await.unwrap().items.len(), 2);
    assert_eq!(store.claim(&segment_id(&id("a"), 0), 9).await.unwrap(), None);
}

pub async fn images_without_a_new_document_go_in_time(store: &(impl Housekeeping + CatalogStore)) {
    let aged =
        |tenant: &TenantId, number: usize, millis: i64| Image { updated_at: at(millis), ..image(tenant, number) };
    let images = [aged(&alpha(), 1, 1), aged(&beta(), 1, 2), aged(&alpha(), 2, 3), aged(&alpha(), 3, 10)];
    store.put_images(images.to_vec()).await.unwrap();
    store.delete_image(&alpha(), &digest(2)).await.unwrap();
    store.put_images(vec![aged(&alpha(), 1, 11)]).await.unwrap();
    let left = async || {
        let mut left = Vec::new();
        for tenant in [alpha(), beta()] {
            let page = store.images(&tenant, None, 9).await.unwrap().items;
            left.extend(page.into_iter().map(|image| (image.tenant, image.digest)));
        }
        left
    };
    let trim = async |millis: i64, after: u64| store.trim_images(at(millis), after, 2).await.unwrap();
    assert_eq!(trim(2, 0).await, TrimmedImages::default(), "it came then, not before");
    let first = trim(11, 0).await;
    assert_eq!((first.images, first.more), (2, true));
    assert_eq!(left().await, [(alpha(), digest(1))], "a new document makes it young");
    let head = store.catalog_head().await.unwrap();
    let mut looked_at = first.looked_at;
    loop {
        let next = trim(11, looked_at).await;
        assert_eq!(next.images, 0);
        looked_at = next.looked_at;
        if !next.more {
            break;
        }
    }
    assert!(looked_at <= head);
    assert_eq!(trim(12, looked_at).await.images, 1);
    assert_eq!(left().await, []);
    let changes = store.catalog_changes(0, 99).await.unwrap();
    assert!(changes.iter().all(|change| change.image.is_none()), "an index hears of it");
}

/// A run of a source that takes an export whose window is between these times.
fn taking(trigger: Trigger, run_name: &str, export: &str, (from, to): (i64, i64)) -> NewRun {
    let window = Some(Window { from: Some(at(from)), to: Some(at(to)) });
    let passed = vec![Passed { export_id: id(export), window }];
    NewRun { passed, ..new_run(&Run { trigger, ..run(&alpha(), run_name) }) }
}

pub async fn note_18_a_cursor_moves_with_the_run_that_takes_the_export(store: &impl RunStore) {
    assert_eq!(store.cursors(&alpha()).await.unwrap(), []);
    let cursor = async || store.cursors(&alpha()).await.unwrap().pop().unwrap();
    store.begin_run(taking(Trigger::Feedser, "r1", "e1", (0, 10))).await.unwrap();
    let first = cursor().await;
    assert_eq!((first.export_id.as_str(), first.window_end, first.holes.len()), ("e1", Some(at(10)), 0));
    store.begin_run(taking(Trigger::Feedser, "r1", "e9", (50, 60))).await.unwrap();
    assert_eq!(cursor().await, first, "a run that existed moves nothing");
    let waits = Subscription { tenant: alpha(), schedule: id("s"), batch: id("b") };
    let refused = NewRun { takes: vec![waits], ..taking(Trigger::Feedser, "r2", "e9", (50, 60)) };
    assert!(store.begin_run(refused).await.is_err());
    assert_eq!(cursor().await, first, "a run that did not begin moves nothing");
    store.begin_run(taking(Trigger::Feedser, "r3", "e2", (30, 40))).await.unwrap();
    let third = cursor().await;
    assert_eq!((third.window_end, third.holes_found), (Some(at(40)), 1));
    assert_eq!((third.holes[0].from, third.holes[0].to, third.holes[0].found_by.as_str()), (at(10), at(30), "r3"));
}

pub async fn p02_idx_03_cursors_are_per_tenant_and_source(store: &impl RunStore) {
    store.begin_run(taking(Trigger::Vexer, "v", "claims", (0, 5))).await.unwrap();
    store.begin_run(taking(Trigger::Feedser, "f", "export", (0, 9))).await.unwrap();
    store.begin_run(taking(Trigger::Cron, "c", "none", (0, 99))).await.unwrap();
    let cursors = store.cursors(&alpha()).await.unwrap();
    let found: Vec<_> = cursors.iter().map(|cursor| (cursor.source, cursor.window_end)).collect();
    assert_eq!(found, [(Source::Feedser, Some(at(9))), (Source::Vexer, Some(at(5)))]);
    assert_eq!(store.cursors(&id("alph")).await.unwrap(), []);
}
