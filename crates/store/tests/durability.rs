//! What survives, and what a folder refuses.

#![expect(clippy::unwrap_used, reason = "a store that cannot be made has to stop the test")]

use scheduler_core::ports::{
    CatalogStore, EventStore, Housekeeping, RunStore, ScheduleStore, StoreError, Subscription,
};
use scheduler_store::{EmbeddedStore, OpenError};
use scheduler_testkit::store::build::*;
use std::path::Path;
use tempfile::TempDir;

fn open(folder: &Path) -> EmbeddedStore {
    EmbeddedStore::open(folder).unwrap()
}

/// One of everything.
async fn fill(store: &EmbeddedStore) {
    store.put_images(vec![image(&alpha(), 1), image(&alpha(), 2)]).await.unwrap();
    store.delete_image(&alpha(), &digest(2)).await.unwrap();
    store.create_schedule(schedule(&alpha(), "s")).await.unwrap();
    let (batched, waiting) = (export("a", "1"), export("b", "1"));
    store.accept(batched.clone(), None, 9).await.unwrap();
    store.accept(waiting, None, 9).await.unwrap();
    store.close_batch(batch("x", &[&batched])).await.unwrap();
    store
        .distribute(&id("x"), vec![Subscription { tenant: alpha(), schedule: id("s"), batch: id("x") }])
        .await
        .unwrap();
    let made = run(&alpha(), "r");
    store.begin_run(new_run(&made)).await.unwrap();
    store.commit_plan(plan(&made, &[&[1, 2]])).await.unwrap();
    let writes = vec![outcome(&made, 1, reported(1))];
    store.write_outcomes(&segment_id(&made.id, 0), 3, writes, at(5), false).await.unwrap();
}

async fn assert_filled(store: &EmbeddedStore) {
    assert_eq!(store.catalog_head().await.unwrap(), 3);
    assert!(store.image(&alpha(), &digest(1)).await.unwrap().is_some());
    let changes: Vec<u64> = store.catalog_changes(0, 9).await.unwrap().iter().map(|change| change.sequence).collect();
    assert_eq!(changes, [1, 3]);
    assert!(store.schedule(&alpha(), &id("s")).await.unwrap().is_some());
    assert_eq!(store.unbatched(scheduler_model::Source::Feedser).await.unwrap(), [export("b", "1").head()]);
    assert_eq!(store.waiting().await.unwrap().len(), 1);
    assert_eq!(store.batch_exports(&id("x")).await.unwrap(), [export("a", "1")]);
    assert_eq!(store.load(&alpha()).await.unwrap(), (1, 1));
    assert_eq!(store.outbox_range(&alpha()).await.unwrap(), (1, 3));
    let stale = store.claim(&segment_id(&id("r"), 0), 2).await;
    assert!(matches!(stale, Err(StoreError::Fenced { .. })), "P6: the token is remembered");
}

#[tokio::test]
async fn p09_a_change_that_comes_from_memory_is_the_one_on_disk() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    store.put_images(vec![image(&alpha(), 1), image(&alpha(), 2), image(&beta(), 1)]).await.unwrap();
    store.put_images(vec![image(&alpha(), 3), image(&alpha(), 1)]).await.unwrap();
    store.delete_image(&alpha(), &digest(3)).await.unwrap();
    let changes = async || {
        let changes = store.catalog_changes(0, 9).await.unwrap();
        changes
            .into_iter()
            .map(|change| (change.sequence, change.tenant, change.digest, change.image))
            .collect::<Vec<_>>()
    };
    // What was just put is given out of memory once.
    let (first, second) = (changes().await, changes().await);
    assert_eq!(first, second);
    assert_eq!(first.iter().map(|(sequence, ..)| *sequence).collect::<Vec<_>>(), [2, 3, 5, 6]);
    assert!(first.iter().all(|(sequence, _, _, image)| image.as_ref().is_none_or(|image| image.sequence == *sequence)));
}

#[tokio::test]
async fn p08_reopening_keeps_everything() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    fill(&store).await;
    drop(store);
    let store = open(folder.path());
    assert_filled(&store).await;
    let put = store.put_images(vec![image(&alpha(), 3)]).await.unwrap();
    assert_eq!(put.first().unwrap().sequence, 4, "numbers go on");
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// The files as they are in the moment of the answer are what a killed process leaves.
#[tokio::test]
async fn p08_what_was_answered_survives_a_kill() {
    let (folder, killed) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let store = open(folder.path());
    fill(&store).await;
    copy(folder.path(), killed.path());
    assert_filled(&open(killed.path())).await;
    drop(store);
}

#[tokio::test]
async fn a_checkpoint_is_a_store_of_its_own() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder.path().join("live"));
    fill(&store).await;
    let copy = folder.path().join("copy");
    store.checkpoint_to(&copy).await.unwrap();
    store.put_images(vec![image(&alpha(), 9)]).await.unwrap();
    assert_filled(&open(&copy)).await;
    assert!(matches!(store.checkpoint_to(&copy).await, Err(StoreError::Unavailable { .. })), "it is there already");
}

#[tokio::test]
async fn a_second_opener_is_told_which_folder_is_in_use() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    let Err(error) = EmbeddedStore::open(folder.path()) else { panic!("it opened") };
    assert!(matches!(error, OpenError::InUse { .. }), "{error:?}");
    assert!(error.to_string().contains(&folder.path().display().to_string()));
    drop(store);
    open(folder.path());
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let Err(error) = EmbeddedStore::open(&file.join("data")) else { panic!("it opened") };
    assert!(matches!(error, OpenError::Folder { .. }) && error.to_string().contains("file/data"));
}

#[test]
fn a_newer_format_is_refused_by_number() {
    let folder = TempDir::new().unwrap();
    drop(open(folder.path()));
    let names = rocksdb::DB::list_cf(&rocksdb::Options::default(), folder.path()).unwrap();
    let mut db = rocksdb::DB::open_cf(&rocksdb::Options::default(), folder.path(), names).unwrap();
    db.create_cf("of-the-future", &rocksdb::Options::default()).unwrap();
    db.put_cf(db.cf_handle("meta").unwrap(), b"format", 7_u64.to_be_bytes()).unwrap();
    drop(db);
    let Err(error) = EmbeddedStore::open(folder.path()) else { panic!("it opened") };
    assert!(matches!(error, OpenError::Newer { found: 7, known: 2, .. }), "{error:?}");
}

#[tokio::test]
async fn p06_epochs_grow_over_restarts() {
    let folder = TempDir::new().unwrap();
    let mut epochs = Vec::new();
    for _ in 0..3 {
        epochs.push(open(folder.path()).next_epoch().await.unwrap());
    }
    assert_eq!(epochs, [1, 2, 3]);
}

#[tokio::test]
async fn who_waits_hears_of_what_is_durable() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    let (mut catalog, mut outbox) = (store.subscribe_catalog(), store.subscribe_outbox());
    store.put_images(vec![image(&alpha(), 1)]).await.unwrap();
    assert!(catalog.has_changed().unwrap() && !outbox.has_changed().unwrap());
    assert_eq!(*catalog.borrow_and_update(), 1);
    let made = run(&alpha(), "r");
    store.begin_run(new_run(&made)).await.unwrap();
    store.commit_plan(plan(&made, &[])).await.unwrap();
    assert!(outbox.has_changed().unwrap() && !catalog.has_changed().unwrap());
    outbox.borrow_and_update();
    assert!(store.commit_plan(plan(&made, &[])).await.is_err());
    assert!(!outbox.has_changed().unwrap(), "a refused write says nothing");
}

#[tokio::test]
async fn p10_links_of_one_vulnerability_are_bounded() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    let links = (0..10_003).map(|number| link("CVE-1", &format!("pkg:npm/{number:05}"))).collect();
    store.accept(scheduler_model::Export { links, ..export("e", "1") }, None, 9).await.unwrap();
    assert_eq!(store.keys_of_vuln(&alpha(), "CVE-1").await.unwrap().len(), 10_000);
    assert_eq!(store.prune(at(1)).await.unwrap().links, 3);
    assert_eq!(store.prune(at(1)).await.unwrap().links, 0);
}

/// TIM-1: a copy, an original and each start of either change the catalog in timelines of their own, from their first change on.
#[tokio::test]
async fn p09_every_start_changes_the_catalog_in_a_timeline_of_its_own() {
    let (folder, copy) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut of_original = Vec::new();
    for _ in 0..3 {
        let store = open(folder.path());
        // A start that changes nothing begins none.
        drop(store);
        let store = open(folder.path());
        store.put_images(vec![image(&alpha(), 1)]).await.unwrap();
        store.put_images(vec![image(&alpha(), 2)]).await.unwrap();
        if copy.path().read_dir().unwrap().next().is_none() {
            store.checkpoint_to(&copy.path().join("store")).await.unwrap();
        }
        of_original = timelines(&store).await;
    }
    let [a, b, c, d, e, f] = of_original[..] else { panic!("{of_original:?}") };
    assert!(a == b && c == d && e == f && a != c && c != e && a != e, "{of_original:?}");
    let store = open(&copy.path().join("store"));
    assert_eq!(timelines(&store).await, [a, b]);
    store.put_images(vec![image(&alpha(), 3)]).await.unwrap();
    let of_copy = timelines(&store).await;
    assert!(of_copy[..2] == [a, b] && !of_original.contains(&of_copy[2]), "{of_copy:?}");
}

async fn timelines(store: &EmbeddedStore) -> Vec<u64> {
    let mut found = Vec::new();
    for sequence in 1..=store.catalog_head().await.unwrap() {
        found.push(store.timeline_at(sequence).await.unwrap());
    }
    found
}
