//! Waiting for what others write.

use scheduler_core::ports::{CatalogStore, Feed, RunStore, ScheduleStore};
use scheduler_store::EmbeddedStore;
use scheduler_testkit::store::build::*;
use tempfile::TempDir;

#[tokio::test]
async fn a_wait_ends_when_there_is_something_and_not_before() {
    let folder = TempDir::new().unwrap();
    let store = EmbeddedStore::open(folder.path()).unwrap();
    let tenant = alpha();
    let (mut images, mut events) = (store.catalog_beyond(0), store.outbox_beyond(&tenant, 0));
    let made = run(&beta(), "other");
    store.begin_run(new_run(&made)).await.unwrap();
    store.commit_plan(plan(&made, &[])).await.unwrap();
    let early = tokio::select! {
        biased;
        () = &mut images => "the catalog",
        () = &mut events => "the outbox",
        () = tokio::task::yield_now() => "nothing",
    };
    assert_eq!(early, "nothing");
    store.put_images(vec![image(&alpha(), 1)]).await.unwrap();
    images.await;
    let made = run(&alpha(), "r");
    store.begin_run(new_run(&made)).await.unwrap();
    store.commit_plan(plan(&made, &[])).await.unwrap();
    events.await;
    let mut schedules = store.schedules_beyond(0);
    let early = tokio::select! {
        biased;
        () = &mut schedules => true,
        () = tokio::task::yield_now() => false,
    };
    assert!(!early);
    store.create_schedule(schedule(&alpha(), "s")).await.unwrap();
    schedules.await;
    store.catalog_beyond(0).await;
    store.outbox_beyond(&alpha(), 0).await;
}
