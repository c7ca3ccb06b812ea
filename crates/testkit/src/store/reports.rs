//! The contract of `ReportStore`. The store has to be a `RunStore` too.

#![expect(missing_docs, reason = "the name of a case is what it checks, and the macro is how to run it")]

use super::build::*;
use scheduler_core::ports::{ReportChange, ReportStore, RunStore};
use scheduler_model::{ImageDigest, ReportHead, Run, TenantId};
use std::collections::BTreeMap;

/// One test for each case of the contract of `ReportStore`.
#[macro_export]
macro_rules! report_store_contract {
    ($make:path) => {
        $crate::store_cases!($make, reports:
            a_report_is_told_once_and_as_it_is_now,
            p08_a_report_and_its_number_come_with_its_outcome,
            p02_a_report_is_of_one_tenant,
            p09_a_reader_that_follows_misses_no_report,
        );
    };
}

/// A run over some images that waits for their outcomes.
async fn planned(store: &impl RunStore, tenant: &TenantId, name: &str, images: &[usize]) -> Run {
    let made = run(tenant, name);
    store.begin_run(new_run(&made)).await.unwrap();
    store.commit_plan(plan(&made, &[images])).await.unwrap();
    made
}

/// Reports of some images of a run; the policy revision is the run's id.
async fn report(store: &impl RunStore, run: &Run, fence: u64, images: &[usize]) -> bool {
    let writes = images.iter().map(|number| outcome(run, *number, reported(0))).collect();
    store.write_outcomes(&segment_id(&run.id, 0), fence, writes, at(4), false).await.is_ok()
}

fn head(revision: &str) -> ReportHead {
    ReportHead { reported_at: at(3), policy_revision: Some(revision.to_owned()) }
}

/// All that a reader has heard who reads from `after` on in pages of `limit`.
async fn follow(store: &impl ReportStore, mut after: u64, limit: usize) -> Vec<ReportChange> {
    let mut heard = Vec::new();
    loop {
        let changes = store.report_changes(after, limit).await.unwrap();
        assert!(changes.len() <= limit && changes.is_sorted_by_key(|change| change.number));
        let Some(last) = changes.last() else { return heard };
        assert!(changes[0].number > after);
        after = last.number;
        heard.extend(changes);
    }
}

fn told(changes: &[ReportChange]) -> Vec<(&ImageDigest, Option<&str>)> {
    changes.iter().map(|change| (&change.digest, change.report.policy_revision.as_deref())).collect()
}

pub async fn a_report_is_told_once_and_as_it_is_now(store: &(impl ReportStore + RunStore)) {
    assert_eq!((store.last_report().await.unwrap(), follow(store, 0, 9).await), (0, Vec::new()));
    let first = planned(store, &alpha(), "first", &[1, 2, 3]).await;
    assert!(report(store, &first, 1, &[1, 2]).await);
    let seen = store.last_report().await.unwrap();
    let second = planned(store, &alpha(), "second", &[2, 1]).await;
    assert!(report(store, &second, 1, &[2]).await && report(store, &first, 1, &[3]).await);
    let (one, two, three) = (digest(1), digest(2), digest(3));
    for limit in [1, 2, 9] {
        let expected = [(&one, Some("first")), (&two, Some("second")), (&three, Some("first"))];
        assert_eq!(told(&follow(store, 0, limit).await), expected, "limit {limit}");
        assert_eq!(told(&follow(store, seen, limit).await), expected[1..], "limit {limit}");
    }
    let last = follow(store, 0, 9).await.pop().unwrap().number;
    assert_eq!(store.last_report().await.unwrap(), last);
    let of = [4, 2, 1].map(|number| (alpha(), digest(number)));
    assert_eq!(store.report_heads(&of).await.unwrap(), [None, Some(head("second")), Some(head("first"))]);
}

pub async fn p08_a_report_and_its_number_come_with_its_outcome(store: &(impl ReportStore + RunStore)) {
    let made = planned(store, &alpha(), "r", &[1, 2]).await;
    assert!(report(store, &made, 2, &[1]).await);
    let before = (store.last_report().await.unwrap(), follow(store, 0, 9).await);
    assert!(!report(store, &made, 1, &[2]).await, "fenced");
    assert!(!report(store, &made, 2, &[2, 7]).await, "of another segment, with all");
    assert!(report(store, &made, 2, &[1]).await, "it has an outcome");
    let silent = vec![outcome(&made, 2, skipped())];
    store.write_outcomes(&segment_id(&made.id, 0), 2, silent, at(4), false).await.unwrap();
    assert_eq!((store.last_report().await.unwrap(), follow(store, 0, 9).await), before);
}

pub async fn p02_a_report_is_of_one_tenant(store: &(impl ReportStore + RunStore)) {
    for (tenant, name) in [(alpha(), "of-alpha"), (beta(), "of-beta")] {
        let made = planned(store, &tenant, name, &[1]).await;
        assert!(report(store, &made, 1, &[1]).await);
    }
    let of: BTreeMap<_, _> =
        follow(store, 0, 1).await.into_iter().map(|c| (c.tenant, c.report.policy_revision)).collect();
    assert_eq!(of, [(alpha(), Some("of-alpha".to_owned())), (beta(), Some("of-beta".to_owned()))].into());
    let heads = store.report_heads(&[(beta(), digest(1)), (beta(), digest(2))]).await.unwrap();
    assert_eq!(heads, [Some(head("of-beta")), None]);
}

pub async fn p09_a_reader_that_follows_misses_no_report(store: &(impl ReportStore + RunStore)) {
    const IMAGES: usize = 40;
    let made = planned(store, &alpha(), "r", &(0..IMAGES).collect::<Vec<_>>()).await;
    let reader = async {
        let (mut after, mut seen) = (0, std::collections::BTreeSet::new());
        while seen.len() < IMAGES {
            for change in store.report_changes(after, 3).await.unwrap() {
                assert!(change.number > after, "in order");
                after = change.number;
                assert!(seen.insert(change.digest));
            }
            tokio::task::yield_now().await;
        }
    };
    let lists: Vec<[usize; 1]> = (0..IMAGES).map(|number| [number]).collect();
    let writers = futures::future::join_all(lists.iter().map(|images| report(store, &made, 1, images)));
    let (written, ()) = tokio::join!(writers, reader);
    assert!(written.into_iter().all(|written| written));
}
