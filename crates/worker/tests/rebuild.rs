//! Rebuilding the index of a service that goes on working.
#![expect(clippy::unwrap_used, reason = "the helpers of a test may panic")]

use scheduler_core::ports::{CatalogStore, Feed, Store};
use scheduler_impact_index::{Query, Want};
use scheduler_model::{CatalogComponent, Image, ImageDigest, ImagePlace, Selection, TenantId, Timestamp};
use scheduler_store::EmbeddedStore;
use scheduler_worker::{IndexHost, IndexState};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(30);

fn tenant() -> TenantId {
    TenantId::try_from("acme".to_owned()).unwrap()
}

fn image(number: usize) -> Image {
    Image {
        tenant: tenant(),
        digest: ImageDigest::of(&number.to_be_bytes()),
        place: ImagePlace::default(),
        components: vec![CatalogComponent { purl: format!("pkg:npm/a@{number}"), source: None }],
        used: None,
        no_purl: 0,
        generated_at: None,
        updated_at: Timestamp::from_millis(0),
        sequence: 0,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p01_no_acknowledged_image_is_missing_while_the_index_is_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(EmbeddedStore::open(&folder.path().join("store")).unwrap());
    let (catalog, feed): (Arc<dyn Store>, Arc<dyn Feed>) = (store.clone(), store.clone());
    let host = IndexHost::open(catalog, feed, Some(folder.path().join("index"))).unwrap();
    let stop = CancellationToken::new();
    let follow = tokio::spawn(host.clone().follow(stop.clone()));
    host.warm().await;
    let before = host.index().stats().generation;

    let rebuilding = tokio::spawn({
        let host = host.clone();
        async move {
            for _ in 0..5 {
                host.rebuild().await.unwrap();
            }
        }
    });
    let mut put = 0;
    while !rebuilding.is_finished() || put < 20 {
        store.put_images(vec![image(put)]).await.unwrap();
        put += 1;
        assert_eq!(host.caught_up(PATIENCE).await.unwrap(), IndexState::Warm);
        let (tenant, selection) = (tenant(), Selection::default());
        let query = Query { tenant: &tenant, selection: &selection, keys: None, usage_only: false };
        assert_eq!(host.index().resolve(&query, Want::default()).candidates, put as u64);
    }
    rebuilding.await.unwrap();
    assert_eq!(host.verify().await.unwrap(), None);
    assert_eq!(host.index().stats().generation, before + 5);
    stop.cancel();
    follow.await.unwrap();
}
