//! The contract of `EventStore`.

#![expect(missing_docs, reason = "the name of a case is what it checks, and the macro is how to run it")]

use super::build::*;
use scheduler_core::ports::{Accepted, EventStore, StoreError, Subscription};
use scheduler_model::{BatchId, Export, Source, TenantId, TenantScope};
use std::time::Duration;

/// One test for each case of the contract of `EventStore`.
#[macro_export]
macro_rules! event_store_contract {
    ($make:path) => {
        $crate::store_cases!($make, events:
            exports_wait_in_the_order_of_arrival_by_source,
            p03_of_simultaneous_equal_deliveries_one_is_new,
            p03_a_delivery_is_remembered_for_thirty_days,
            p03_a_delivery_is_remembered_after_it_was_batched,
            keys_and_sources_have_export_ids_of_their_own,
            other_content_takes_the_place_of_an_unbatched_export,
            other_content_for_a_batched_export_waits_anew,
            a_replayed_request_is_a_duplicate_whatever_came_since,
            a_refused_request_is_not_remembered,
            p10_a_full_inbox_takes_duplicates_and_replacements_only,
            p10_what_was_distributed_makes_room,
            p03_a_batch_takes_its_members_out_of_the_queue_once,
            p03_a_batch_that_lacks_a_member_takes_nothing,
            p03_of_overlapping_batches_one_closes,
            p03_distributing_again_changes_nothing,
            what_waits_is_in_the_order_of_schedules_and_batches,
            a_batch_nobody_hears_is_planned,
            p02_links_are_told_to_tenants_of_their_scope_only,
            vulnerabilities_with_odd_names_do_not_mix,
        );
    };
}

const LIMIT: u64 = 100;

async fn accept(store: &impl EventStore, export: &Export) -> Accepted {
    store.accept(export.clone(), None, LIMIT).await.unwrap()
}

async fn unbatched(store: &impl EventStore) -> Vec<String> {
    store.unbatched(Source::Feedser).await.unwrap().iter().map(|export| export.event_id.to_string()).collect()
}

fn subscription(tenant: &TenantId, schedule: &str, batch: &str) -> Subscription {
    Subscription { tenant: tenant.clone(), schedule: id(schedule), batch: id(batch) }
}

pub async fn exports_wait_in_the_order_of_arrival_by_source(store: &impl EventStore) {
    let other = Export { source: Source::Vexer, ..export("v", "1") };
    for export in [&export("b", "1"), &other, &export("a", "1"), &export("c", "1")] {
        assert_eq!(accept(store, export).await, Accepted::New);
    }
    assert_eq!(unbatched(store).await, ["b-1", "a-1", "c-1"]);
    assert_eq!(store.unbatched(Source::Vexer).await.unwrap(), [other.head()]);
}

pub async fn p03_of_simultaneous_equal_deliveries_one_is_new(store: &impl EventStore) {
    let deliver = |event: &str| store.accept(Export { event_id: id(event), ..export("e", "1") }, None, LIMIT);
    let (a, b, c) = tokio::join!(deliver("x"), deliver("y"), deliver("z"));
    let answers = [a, b, c].map(Result::unwrap);
    assert_eq!(answers.iter().filter(|answer| **answer == Accepted::New).count(), 1);
    let kept = unbatched(store).await;
    assert_eq!(kept.len(), 1);
    let duplicates = answers.iter().filter(|answer| **answer == Accepted::Duplicate(id(&kept[0])));
    assert_eq!(duplicates.count(), 2);
}

pub async fn p03_a_delivery_is_remembered_for_thirty_days(store: &impl EventStore) {
    let first = export("e", "1");
    accept(store, &first).await;
    store.close_batch(batch("b", &[&first])).await.unwrap();
    let days = |days: u64| at(0).plus(Duration::from_secs(days * 86_400));
    let again = |received_at| Export { event_id: id("again"), received_at, ..export("e", "1") };
    let almost = again(days(30).minus(Duration::from_millis(1)));
    assert_eq!(accept(store, &almost).await, Accepted::Duplicate(first.event_id));
    assert_eq!(accept(store, &again(days(30))).await, Accepted::New);
}

pub async fn p03_a_delivery_is_remembered_after_it_was_batched(store: &impl EventStore) {
    let first = export("e", "1");
    accept(store, &first).await;
    store.close_batch(batch("b", &[&first])).await.unwrap();
    store.distribute(&id("b"), Vec::new()).await.unwrap();
    assert_eq!(accept(store, &first).await, Accepted::Duplicate(first.event_id.clone()));
    assert!(unbatched(store).await.is_empty());
}

pub async fn keys_and_sources_have_export_ids_of_their_own(store: &impl EventStore) {
    let by_other_key = Export { key_id: id("other"), event_id: id("k"), ..export("e", "1") };
    let of_other_source = Export { source: Source::Vexer, event_id: id("s"), ..export("e", "1") };
    for export in [export("e", "1"), by_other_key, of_other_source] {
        assert_eq!(accept(store, &export).await, Accepted::New, "{}", export.event_id);
    }
}

pub async fn other_content_takes_the_place_of_an_unbatched_export(store: &impl EventStore) {
    accept(store, &export("a", "1")).await;
    accept(store, &export("b", "1")).await;
    assert_eq!(accept(store, &export("a", "2")).await, Accepted::Superseded);
    assert_eq!(unbatched(store).await, ["a-2", "b-1"]);
    let replaced = store.close_batch(batch("x", &[&export("a", "1")])).await;
    assert!(matches!(replaced, Err(StoreError::Conflict { .. })));
}

pub async fn other_content_for_a_batched_export_waits_anew(store: &impl EventStore) {
    let first = export("a", "1");
    accept(store, &first).await;
    store.close_batch(batch("x", &[&first])).await.unwrap();
    accept(store, &export("b", "1")).await;
    assert_eq!(accept(store, &export("a", "2")).await, Accepted::Superseded);
    assert_eq!(unbatched(store).await, ["b-1", "a-2"]);
    assert_eq!(store.batch_exports(&id("x")).await.unwrap(), [first], "a closed batch keeps its members");
}

pub async fn a_replayed_request_is_a_duplicate_whatever_came_since(store: &impl EventStore) {
    let send = async |event: &str, content: &str, fingerprint: &str| {
        let export = Export { event_id: id(event), ..export("a", content) };
        store.accept(export, Some(fingerprint.to_owned()), LIMIT).await.unwrap()
    };
    assert_eq!(send("e1", "1", "first").await, Accepted::New);
    assert_eq!(send("e2", "2", "second").await, Accepted::Superseded);
    for fingerprint in ["first", "second"] {
        for content in ["1", "2"] {
            let known = if fingerprint == "first" { "e1" } else { "e2" };
            assert_eq!(
                send("e3", content, fingerprint).await,
                Accepted::Duplicate(id(known)),
                "{fingerprint} {content}"
            );
        }
    }
    assert_eq!(send("e4", "2", "signed anew").await, Accepted::Duplicate(id("e2")), "the last content is known");
    assert_eq!(unbatched(store).await, ["e2"]);
    assert_eq!(send("e5", "1", "on purpose").await, Accepted::Superseded, "the sender goes back to its first content");
    assert_eq!(send("e6", "2", "signed anew").await, Accepted::Duplicate(id("e2")));
    assert_eq!(unbatched(store).await, ["e5"]);
    let other = Export { source: Source::Vexer, event_id: id("e7"), ..export("a", "1") };
    assert_eq!(store.accept(other, Some("first".to_owned()), LIMIT).await.unwrap(), Accepted::New, "of another source");
    // Two keys may speak for other tenants, and sign the same bytes in the same second.
    let other = Export { key_id: id("another"), event_id: id("e-of-another-key"), ..export("e", "1") };
    assert_eq!(store.accept(other, Some("first".to_owned()), LIMIT).await.unwrap(), Accepted::New, "of another key");
}

pub async fn a_refused_request_is_not_remembered(store: &impl EventStore) {
    store.accept(export("a", "1"), None, 1).await.unwrap();
    let send = async |limit| store.accept(export("b", "1"), Some("f".to_owned()), limit).await;
    assert!(matches!(send(1).await, Err(StoreError::Full { .. })));
    assert_eq!(send(2).await.unwrap(), Accepted::New);
}

pub async fn p10_a_full_inbox_takes_duplicates_and_replacements_only(store: &impl EventStore) {
    store.accept(export("a", "1"), None, 2).await.unwrap();
    store.accept(export("b", "1"), None, 2).await.unwrap();
    let refused = store.accept(export("c", "1"), None, 2).await;
    assert!(matches!(refused, Err(StoreError::Full { limit: 2, .. })));
    assert_eq!(store.accept(export("a", "1"), None, 2).await.unwrap(), Accepted::Duplicate(id("a-1")));
    assert_eq!(store.accept(export("a", "2"), None, 2).await.unwrap(), Accepted::Superseded);
    assert_eq!(
        store.accept(export("c", "1"), None, 3).await.unwrap(),
        Accepted::New,
        "a refused one is not remembered"
    );
}

pub async fn p10_what_was_distributed_makes_room(store: &impl EventStore) {
    let first = export("a", "1");
    store.accept(first.clone(), None, 1).await.unwrap();
    store.close_batch(batch("x", &[&first])).await.unwrap();
    assert!(store.accept(export("b", "1"), None, 1).await.is_err(), "closed is not planned");
    store.distribute(&id("x"), Vec::new()).await.unwrap();
    store.distribute(&id("x"), Vec::new()).await.unwrap();
    assert_eq!(store.accept(export("b", "1"), None, 1).await.unwrap(), Accepted::New);
    assert!(store.accept(export("c", "1"), None, 1).await.is_err());
}

pub async fn p03_a_batch_takes_its_members_out_of_the_queue_once(store: &impl EventStore) {
    let (a, b, c) = (export("a", "1"), export("b", "1"), export("c", "1"));
    for export in [&a, &b, &c] {
        accept(store, export).await;
    }
    let closed = batch("x", &[&a, &c]);
    for _ in 0..2 {
        store.close_batch(closed.clone()).await.unwrap();
        assert_eq!(unbatched(store).await, ["b-1"]);
        assert_eq!(store.unplanned_batches().await.unwrap(), std::slice::from_ref(&closed));
    }
    assert_eq!(store.batch_heads(&closed.id).await.unwrap(), [a.head(), c.head()]);
    assert_eq!(store.batch_exports(&closed.id).await.unwrap(), [a, c]);
    let unknown: BatchId = id("unknown");
    assert!(matches!(store.batch_heads(&unknown).await, Err(StoreError::NotFound { .. })));
    assert!(matches!(store.batch_exports(&unknown).await, Err(StoreError::NotFound { .. })));
}

pub async fn p03_a_batch_that_lacks_a_member_takes_nothing(store: &impl EventStore) {
    let (a, b) = (export("a", "1"), export("b", "1"));
    accept(store, &a).await;
    let answer = store.close_batch(batch("x", &[&a, &b])).await;
    assert!(matches!(answer, Err(StoreError::Conflict { .. })));
    assert_eq!(unbatched(store).await, ["a-1"]);
    assert!(store.unplanned_batches().await.unwrap().is_empty());
    store.close_batch(batch("y", &[&a])).await.unwrap();
}

pub async fn p03_of_overlapping_batches_one_closes(store: &impl EventStore) {
    let (a, b) = (export("a", "1"), export("b", "1"));
    accept(store, &a).await;
    accept(store, &b).await;
    let close = |name: &str, member| store.close_batch(batch(name, &[&a, member]));
    let (x, y) = tokio::join!(close("x", &b), store.close_batch(batch("y", &[&a])));
    assert_eq!([x, y].into_iter().filter(Result::is_ok).count(), 1);
    assert_eq!(store.unplanned_batches().await.unwrap().len(), 1);
}

pub async fn p03_distributing_again_changes_nothing(store: &impl EventStore) {
    let a = export("a", "1");
    accept(store, &a).await;
    store.close_batch(batch("x", &[&a])).await.unwrap();
    let to = vec![subscription(&alpha(), "s", "x")];
    store.distribute(&id("x"), to.clone()).await.unwrap();
    assert!(store.unplanned_batches().await.unwrap().is_empty());
    store.distribute(&id("x"), vec![subscription(&beta(), "t", "x")]).await.unwrap();
    store.close_batch(batch("x", &[&a])).await.unwrap();
    assert!(store.unplanned_batches().await.unwrap().is_empty(), "a planned batch stays planned");
    assert_eq!(store.waiting().await.unwrap(), to);
}

pub async fn what_waits_is_in_the_order_of_schedules_and_batches(store: &impl EventStore) {
    for name in ["z", "y"] {
        let export = export(name, "1");
        accept(store, &export).await;
        store.close_batch(batch(name, &[&export])).await.unwrap();
    }
    let order: Vec<String> =
        store.unplanned_batches().await.unwrap().iter().map(|batch| batch.id.to_string()).collect();
    assert_eq!(order, ["z", "y"], "oldest first");
    for name in ["y", "z"] {
        let to = [(beta(), "a"), (alpha(), "t"), (alpha(), "s")];
        let to = to.iter().map(|(tenant, schedule)| subscription(tenant, schedule, name)).collect();
        store.distribute(&id(name), to).await.unwrap();
    }
    let expected = [(alpha(), "s"), (alpha(), "t"), (beta(), "a")];
    let expected: Vec<_> =
        expected.iter().flat_map(|(tenant, s)| ["z", "y"].map(|batch| subscription(tenant, s, batch))).collect();
    assert_eq!(store.waiting().await.unwrap(), expected);
}

pub async fn a_batch_nobody_hears_is_planned(store: &impl EventStore) {
    let a = export("a", "1");
    accept(store, &a).await;
    store.close_batch(batch("x", &[&a])).await.unwrap();
    store.distribute(&id("x"), Vec::new()).await.unwrap();
    assert!(store.unplanned_batches().await.unwrap().is_empty());
    assert!(store.waiting().await.unwrap().is_empty());
}

pub async fn p02_links_are_told_to_tenants_of_their_scope_only(store: &impl EventStore) {
    let openly = Export { links: vec![link("CVE-1", "pkg:npm/a"), link("CVE-1", "pkg:npm/b")], ..export("a", "1") };
    let to_beta = Export {
        links: vec![link("CVE-1", "pkg:npm/b"), link("CVE-1", "pkg:npm/c"), link("CVE-2", "pkg:npm/d")],
        tenants: TenantScope::Only(vec![beta()]),
        ..export("b", "1")
    };
    accept(store, &openly).await;
    accept(store, &to_beta).await;
    let keys = async |tenant, vuln: &str| store.keys_of_vuln(&tenant, vuln).await.unwrap();
    assert_eq!(keys(alpha(), "CVE-1").await, ["pkg:npm/a", "pkg:npm/b"]);
    assert_eq!(keys(beta(), "CVE-1").await, ["pkg:npm/a", "pkg:npm/b", "pkg:npm/c"]);
    assert!(keys(alpha(), "CVE-2").await.is_empty());
    assert_eq!(keys(beta(), "CVE-2").await, ["pkg:npm/d"]);
}

pub async fn vulnerabilities_with_odd_names_do_not_mix(store: &impl EventStore) {
    let names = ["CVE-1", "CVE-10", "CVE-1\0", "", "\u{10ffff}"];
    let links = names.iter().enumerate().map(|(n, vuln)| link(vuln, &format!("pkg:npm/{n}"))).collect();
    accept(store, &Export { links, ..export("a", "1") }).await;
    for (n, vuln) in names.iter().enumerate() {
        assert_eq!(store.keys_of_vuln(&alpha(), vuln).await.unwrap(), [format!("pkg:npm/{n}")], "{vuln:?}");
    }
}
