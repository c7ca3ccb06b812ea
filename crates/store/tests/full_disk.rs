//! A disk without room, on a small file system of its own. Where none can be mounted (that takes root), the test says so.

#![expect(clippy::unwrap_used, reason = "a store that cannot be made has to stop the test")]

use scheduler_core::ports::{CatalogStore, StoreError};
use scheduler_model::Image;
use scheduler_store::EmbeddedStore;
use scheduler_testkit::disk::Disk;
use scheduler_testkit::store::build::*;
use std::path::Path;

fn large(number: usize) -> Image {
    let mut image = image(&alpha(), number);
    image.place.tags = vec!["x".repeat(200_000)];
    image
}

async fn has(store: &EmbeddedStore, number: usize) -> bool {
    store.image(&alpha(), &digest(number)).await.unwrap().is_some()
}

#[tokio::test]
async fn p08_a_full_disk_acknowledges_nothing_and_heals_when_there_is_room() {
    let Some(disk) = Disk::mount(48) else {
        println!("skipped: no file system can be mounted");
        return;
    };
    let folder = disk.path().join("store");
    let mut acknowledged = heal(&disk, &folder).await;
    let store = EmbeddedStore::open(&folder).unwrap();
    acknowledged.push(1000);
    store.put_images(vec![large(1000)]).await.unwrap();
    for number in acknowledged {
        assert!(has(&store, number).await, "{number} after a restart");
    }
}

/// Fills the disk twice under a store; gives the numbers of the images that were acknowledged.
async fn heal(disk: &Disk, folder: &Path) -> Vec<usize> {
    let store = EmbeddedStore::open(folder).unwrap();
    let mut acknowledged = Vec::new();
    for round in 0..2 {
        let filler = disk.fill();
        // The log has some room of its own; sooner or later it is full.
        let (mut number, mut refused) = (round * 500, Vec::new());
        while refused.len() < 3 {
            match store.put_images(vec![large(number)]).await {
                Ok(_) => acknowledged.push(number),
                Err(StoreError::Unavailable { .. }) => refused.push(number),
                Err(other) => panic!("{other:?}"),
            }
            number += 1;
        }
        for &number in &acknowledged {
            assert!(has(&store, number).await, "{number} while the disk is full");
        }
        for &number in &refused {
            assert!(!has(&store, number).await, "{number} was refused");
        }
        let head = store.catalog_head().await.unwrap();
        std::fs::remove_file(filler).unwrap();
        let put = store.put_images(vec![large(number)]).await.unwrap();
        assert!(put.first().unwrap().sequence > head);
        acknowledged.push(number);
    }
    acknowledged
}
