//! The contract of `CatalogStore`.

#![expect(missing_docs, reason = "the name of a case is what it checks, and the macro is how to run it")]

use super::build::*;
use scheduler_core::ports::{CatalogChange, CatalogStore, StoreError};
use scheduler_model::{Image, ImageDigest};
use std::collections::BTreeMap;

/// One test for each case of the contract of `CatalogStore`.
#[macro_export]
macro_rules! catalog_store_contract {
    ($make:path) => {
        $crate::store_cases!($make, catalog:
            an_image_comes_back_with_its_sequence,
            p02_images_of_another_tenant_are_not_there,
            putting_again_replaces_and_makes_a_new_change,
            the_same_digest_twice_in_one_put_leaves_the_last,
            deleting_what_is_not_there_changes_nothing,
            a_deletion_is_a_change_and_a_new_put_takes_its_place,
            pages_walk_every_image_once_in_order,
            a_cursor_of_nowhere_is_refused,
            p09_changes_from_zero_rebuild_the_catalog,
            p09_every_change_is_in_the_timeline_of_its_number,
            p09_a_reader_that_follows_misses_no_change,
            p08_the_head_covers_what_was_acknowledged,
            p09_simultaneous_puts_get_distinct_ascending_numbers,
        );
    };
}

pub async fn an_image_comes_back_with_its_sequence(store: &impl CatalogStore) {
    let put = store.put_images(vec![image(&alpha(), 1), image(&alpha(), 2)]).await.unwrap();
    assert!(put.iter().all(|put| put.created));
    assert!(put[0].sequence < put[1].sequence);
    let found = store.image(&alpha(), &digest(2)).await.unwrap().unwrap();
    assert_eq!(found, Image { sequence: put[1].sequence, ..image(&alpha(), 2) });
    assert_eq!(store.image(&alpha(), &digest(3)).await.unwrap(), None);
}

pub async fn p02_images_of_another_tenant_are_not_there(store: &impl CatalogStore) {
    store.put_images(vec![image(&alpha(), 1), image(&id("alph"), 2), image(&id("alphab"), 3)]).await.unwrap();
    assert_eq!(store.image(&beta(), &digest(1)).await.unwrap(), None);
    assert!(store.images(&beta(), None, 10).await.unwrap().items.is_empty());
    assert_eq!(store.images(&alpha(), None, 10).await.unwrap().items.len(), 1);
    assert_eq!(store.delete_image(&beta(), &digest(1)).await.unwrap(), None);
    assert!(store.image(&alpha(), &digest(1)).await.unwrap().is_some());
}

pub async fn putting_again_replaces_and_makes_a_new_change(store: &impl CatalogStore) {
    let first = store.put_images(vec![image(&alpha(), 1)]).await.unwrap();
    let again = store.put_images(vec![Image { no_purl: 7, ..image(&alpha(), 1) }]).await.unwrap();
    assert!(!again[0].created && again[0].sequence > first[0].sequence);
    let changes = store.catalog_changes(0, 10).await.unwrap();
    let last = changes.last().unwrap();
    assert_eq!((last.sequence, last.image.as_ref().unwrap().no_purl), (again[0].sequence, 7));
}

pub async fn the_same_digest_twice_in_one_put_leaves_the_last(store: &impl CatalogStore) {
    let images = vec![image(&alpha(), 1), Image { no_purl: 7, ..image(&alpha(), 1) }];
    let put = store.put_images(images).await.unwrap();
    assert_eq!((put[0].created, put[1].created), (true, false));
    assert_eq!(store.image(&alpha(), &digest(1)).await.unwrap().unwrap().no_purl, 7);
}

pub async fn deleting_what_is_not_there_changes_nothing(store: &impl CatalogStore) {
    store.put_images(vec![image(&alpha(), 1)]).await.unwrap();
    let head = store.catalog_head().await.unwrap();
    assert_eq!(store.delete_image(&alpha(), &digest(2)).await.unwrap(), None);
    assert_eq!(store.catalog_head().await.unwrap(), head);
}

pub async fn a_deletion_is_a_change_and_a_new_put_takes_its_place(store: &impl CatalogStore) {
    let put = store.put_images(vec![image(&alpha(), 1)]).await.unwrap();
    let deleted = store.delete_image(&alpha(), &digest(1)).await.unwrap().unwrap();
    assert!(deleted > put[0].sequence);
    assert_eq!(store.image(&alpha(), &digest(1)).await.unwrap(), None);
    assert_eq!(store.delete_image(&alpha(), &digest(1)).await.unwrap(), None);
    let changes = store.catalog_changes(put[0].sequence, 10).await.unwrap();
    assert_eq!((changes.len(), changes[0].sequence, changes[0].image.is_none()), (1, deleted, true));
    let again = store.put_images(vec![image(&alpha(), 1)]).await.unwrap();
    assert!(again[0].created && again[0].sequence > deleted);
    assert!(store.catalog_changes(0, 10).await.unwrap().last().unwrap().image.is_some());
}

pub async fn pages_walk_every_image_once_in_order(store: &impl CatalogStore) {
    store.put_images((0..7).rev().map(|number| image(&alpha(), number)).collect()).await.unwrap();
    for limit in [1, 2, 7, 8] {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = store.images(&alpha(), after.as_deref(), limit).await.unwrap();
            assert!(page.items.len() <= limit);
            seen.extend(page.items.into_iter().map(|image| image.digest));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, (0..7).map(digest).collect::<Vec<_>>(), "limit {limit}");
    }
}

pub async fn a_cursor_of_nowhere_is_refused(store: &impl CatalogStore) {
    for cursor in ["", "x", "sha256:12"] {
        let answer = store.images(&alpha(), Some(cursor), 5).await;
        assert!(matches!(answer, Err(StoreError::BadCursor)), "{cursor}");
    }
}

/// Puts and deletes in a fixed disorder.
async fn churn(store: &impl CatalogStore) {
    for round in 0_usize..40 {
        let number = round * 7 % 11;
        if round % 3 == 2 {
            store.delete_image(&alpha(), &digest(number)).await.unwrap();
        } else {
            let tenant = if round % 5 == 0 { beta() } else { alpha() };
            let images = vec![Image { no_purl: round as u64, ..image(&tenant, number) }, image(&tenant, number + 1)];
            store.put_images(images).await.unwrap();
        }
    }
}

type Model = BTreeMap<(String, ImageDigest), u64>;

fn apply(model: &mut Model, changes: &[CatalogChange]) {
    for change in changes {
        let key = (change.tenant.to_string(), change.digest.clone());
        match &change.image {
            Some(image) => model.insert(key, image.no_purl),
            None => model.remove(&key),
        };
    }
}

async fn listed(store: &impl CatalogStore) -> Model {
    let mut model = Model::new();
    for tenant in [alpha(), beta()] {
        for image in store.images(&tenant, None, 1000).await.unwrap().items {
            model.insert((tenant.to_string(), image.digest), image.no_purl);
        }
    }
    model
}

pub async fn p09_changes_from_zero_rebuild_the_catalog(store: &impl CatalogStore) {
    churn(store).await;
    let (mut model, mut after) = (Model::new(), 0);
    loop {
        let changes = store.catalog_changes(after, 3).await.unwrap();
        let Some(last) = changes.last() else { break };
        assert!(changes.is_sorted_by(|a, b| a.sequence < b.sequence) && changes[0].sequence > after);
        after = last.sequence;
        apply(&mut model, &changes);
    }
    assert_eq!(after, store.catalog_head().await.unwrap());
    assert_eq!(model, listed(store).await);
}

pub async fn p09_every_change_is_in_the_timeline_of_its_number(store: &impl CatalogStore) {
    assert_eq!(store.timeline_at(0).await.unwrap(), 0);
    churn(store).await;
    let head = store.catalog_head().await.unwrap();
    let changes = store.catalog_changes(0, 1000).await.unwrap();
    for change in &changes {
        assert_ne!(change.timeline, 0);
        assert_eq!(store.timeline_at(change.sequence).await.unwrap(), change.timeline);
    }
    // Changes that later ones took the place of have one too; those that are still to come have none.
    assert!((changes.len() as u64) < head);
    let mut all = Vec::new();
    for sequence in 1..=head {
        all.push(store.timeline_at(sequence).await.unwrap());
    }
    all.dedup();
    assert!(all.len() == 1 && all[0] != 0, "{all:?}");
    assert_eq!(store.timeline_at(head + 1).await.unwrap(), 0);
}

pub async fn p09_a_reader_that_follows_misses_no_change(store: &impl CatalogStore) {
    let follow = async {
        let (mut model, mut after) = (Model::new(), 0);
        // The last change of the disorder is known by its number only when all is done; until then the reader just follows.
        for _ in 0..200 {
            let changes = store.catalog_changes(after, 2).await.unwrap();
            after = changes.last().map_or(after, |last| last.sequence);
            apply(&mut model, &changes);
            tokio::task::yield_now().await;
        }
        (model, after)
    };
    let ((), (mut model, after)) = tokio::join!(churn(store), follow);
    apply(&mut model, &store.catalog_changes(after, 1000).await.unwrap());
    assert_eq!(model, listed(store).await);
}

pub async fn p08_the_head_covers_what_was_acknowledged(store: &impl CatalogStore) {
    for number in 0..5 {
        let put = store.put_images(vec![image(&alpha(), number)]).await.unwrap();
        assert!(store.catalog_head().await.unwrap() >= put[0].sequence);
    }
}

pub async fn p09_simultaneous_puts_get_distinct_ascending_numbers(store: &impl CatalogStore) {
    let put = |number: usize| store.put_images(vec![image(&alpha(), number), image(&alpha(), number + 100)]);
    let (a, b, c, d) = tokio::join!(put(1), put(2), put(3), put(4));
    let mut numbers: Vec<u64> = [a, b, c, d].into_iter().flat_map(Result::unwrap).map(|put| put.sequence).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 8);
    let changes = store.catalog_changes(0, 100).await.unwrap();
    assert_eq!(changes.iter().map(|change| change.sequence).collect::<Vec<_>>(), numbers);
}
