//! One document that cannot be read holds up no other.

use crate::EmbeddedStore;
use crate::family::Cf;
use crate::schedules::schedule_key;
use scheduler_core::ports::{RunStore, ScheduleStore, StoreError, TickStore};
use scheduler_model::{Run, Source};
use scheduler_testkit::store::build::*;
use tempfile::TempDir;

async fn garble(store: &EmbeddedStore, cf: Cf, key: Vec<u8>) {
    store
        .submit(move |tx| {
            tx.put(cf, key, b"\x01{".to_vec());
            Ok(())
        })
        .await
        .unwrap();
}

#[tokio::test]
async fn cron_12_a_schedule_that_cannot_be_read_hides_no_other() {
    let folder = TempDir::new().unwrap();
    let store = EmbeddedStore::open(folder.path()).unwrap();
    for name in ["a", "b", "c"] {
        let mut made = schedule(&alpha(), name);
        made.spec.on_events = vec![Source::Feedser];
        store.create_schedule(made).await.unwrap();
    }
    garble(&store, Cf::Schedules, schedule_key(&alpha(), &id("b"))).await;
    let mut told = Vec::new();
    for (number, schedule) in store.schedule_changes(0, 9).await.unwrap() {
        told.push((number, schedule.map(|schedule| schedule.id.to_string()).map_err(|error| error.to_string())));
    }
    let unread = "the store holds a document that cannot be read: schedule b".to_owned();
    assert_eq!(told, [(1, Ok("a".to_owned())), (2, Err(unread)), (3, Ok("c".to_owned()))]);
    let hearing = store.subscribers(Source::Feedser).await.unwrap();
    assert_eq!(hearing.iter().map(|schedule| schedule.id.as_str()).collect::<Vec<_>>(), ["a", "c"]);
    assert!(matches!(store.schedule(&alpha(), &id("b")).await, Err(StoreError::Corrupt { .. })));
}

#[tokio::test]
async fn a_run_or_a_plan_that_cannot_be_read_hides_no_other() {
    let folder = TempDir::new().unwrap();
    let store = EmbeddedStore::open(folder.path()).unwrap();
    let runs: Vec<Run> = ["a", "b", "c"].map(|name| run(&alpha(), name)).into();
    for run in &runs {
        store.begin_run(new_run(run)).await.unwrap();
    }
    garble(&store, Cf::Planning, b"b".to_vec()).await;
    garble(&store, Cf::Runs, b"c".to_vec()).await;
    let planning = store.planning().await.unwrap();
    let found: Vec<_> = planning.iter().map(|(run, input)| (run.id.as_str(), input.is_ok())).collect();
    assert_eq!(found, [("a", true), ("b", false)]);
    store.fail_run(&alpha(), &id("b"), "its plan cannot be read", at(1)).await.unwrap();
    assert_eq!(store.planning().await.unwrap().len(), 1);
}
