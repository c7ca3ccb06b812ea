//! Windows, subscriptions, limits and a cold index.

use crate::bench::{Bench, Options, export_of, hears_feedser, packed};
use scheduler_core::launch::ManualRequest;
use scheduler_core::ports::{CatalogStore, RunStore};
use scheduler_model::Priority::{Critical, Kev, Normal};
use scheduler_model::{Export, Priority, RunState, TenantScope, Trigger};
use scheduler_testkit::scanner::ScriptedScanner;
use scheduler_testkit::store::build::{alpha, beta};
use std::time::Duration;

fn one(name: &str, key: &str, urgency: Priority) -> Export {
    export_of(name, "1", &[(key, urgency)])
}

async fn secs(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn exports(run: &scheduler_model::Run) -> Vec<&str> {
    run.reason.export_ids.iter().map(|id| id.as_str()).collect()
}

async fn hearing(scanner: ScriptedScanner) -> Bench {
    let bench = Bench::with(scanner).await;
    bench.put(0..10).await;
    bench.schedule(hears_feedser(&alpha(), "s")).await;
    bench
}

/// NOTE-15: what was gathered is a union.
#[tokio::test(start_paused = true)]
async fn the_first_export_is_planned_at_once_and_a_storm_in_one_run_that_loses_no_key() {
    let bench = hearing(ScriptedScanner::content()).await;
    bench.deliver(one("first", "pkg:npm/p0", Normal)).await;
    secs(2).await;
    assert_eq!(bench.ended_runs(1).await[0].stats.completed, 1);
    for number in 1..8 {
        bench.deliver(one(&format!("e{number}"), &format!("pkg:npm/p{number}"), Normal)).await;
        secs(1).await;
    }
    assert_eq!(bench.runs().await.len(), 1, "the window is open");
    let runs = bench.ended_runs(2).await;
    assert_eq!(bench.images_of(&runs[1]).await, [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(exports(&runs[1]).len(), 7);
    assert!(runs[1].created_at.since(runs[0].created_at) >= Duration::from_secs(29));
}

#[tokio::test(start_paused = true)]
async fn an_export_with_kev_closes_the_window_with_all_that_waits() {
    let bench = Bench::with(ScriptedScanner::content()).await;
    bench.put(0..10).await;
    let mut schedule = hears_feedser(&alpha(), "s");
    // One call after the other: of calls at the same time, none is the first.
    schedule.spec.limits.parallelism = Some(1);
    bench.schedule(schedule).await;
    bench.deliver(one("first", "pkg:npm/p0", Normal)).await;
    secs(1).await;
    bench.deliver(one("plain", "pkg:npm/p1", Normal)).await;
    secs(1).await;
    bench.deliver(export_of("urgent", "1", &[("pkg:npm/p2", Kev), ("pkg:npm/p3", Normal)])).await;
    let runs = bench.ended_runs(2).await;
    assert!(runs[1].created_at.since(runs[0].created_at) < Duration::from_secs(5));
    assert_eq!((exports(&runs[1]), runs[1].priority), (vec!["plain", "urgent"], Kev));
    let order: Vec<_> = bench.scanner.reports().into_iter().map(|call| call.request.digest).collect();
    assert_eq!(order[1], packed(&alpha(), 2).digest, "KEV first");
}

#[tokio::test(start_paused = true)]
async fn exports_wait_for_the_run_that_goes_but_kev_does_not() {
    let bench = hearing(ScriptedScanner::content().delayed(Duration::from_secs(200))).await;
    bench.deliver(one("e0", "pkg:npm/p0", Normal)).await;
    for number in 1..4 {
        secs(35).await;
        bench.deliver(one(&format!("e{number}"), &format!("pkg:npm/p{number}"), Critical)).await;
    }
    secs(2).await;
    assert_eq!(bench.runs().await.len(), 1, "three batches wait");
    let runs = bench.ended_runs(2).await;
    assert_eq!(exports(&runs[1]), ["e1", "e2", "e3"]);
    bench.deliver(one("e4", "pkg:npm/p4", Normal)).await;
    secs(40).await;
    bench.deliver(one("e5", "pkg:npm/p5", Kev)).await;
    secs(5).await;
    assert_eq!(bench.runs().await.len(), 4, "KEV goes beside the run that goes");
    bench.ended_runs(4).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_over_the_limit_is_continued_after_five_minutes() {
    let bench = Bench::with(ScriptedScanner::content()).await;
    bench.put(0..10).await;
    let mut schedule = hears_feedser(&alpha(), "s");
    schedule.spec.limits.max_jobs = Some(4);
    bench.schedule(schedule).await;
    bench.deliver(one("e", "pkg:npm/shared", Normal)).await;
    let first = bench.ended_runs(1).await.remove(0);
    assert_eq!((first.stats.queued, first.stats.spilled), (4, 6));
    secs(290).await;
    assert_eq!(bench.runs().await.len(), 1);
    let runs = bench.ended_runs(3).await;
    assert_eq!((runs[1].stats.queued, runs[1].stats.spilled, runs[2].stats.queued), (4, 2, 2));
    assert_eq!(runs[1].reason.continues.as_ref(), Some(&first.id));
    assert_eq!(runs[2].reason.continues.as_ref(), Some(&runs[1].id));
    let mut all = Vec::new();
    for run in &runs {
        all.extend(bench.images_of(run).await);
    }
    all.sort_unstable();
    assert_eq!(all, (0..10).collect::<Vec<_>>(), "each once");
    secs(1_000).await;
    bench.ended_runs(3).await;
}

#[tokio::test(start_paused = true)]
async fn of_a_superseded_export_the_last_content_is_planned() {
    let bench = hearing(ScriptedScanner::content()).await;
    bench.deliver(one("first", "pkg:npm/p0", Normal)).await;
    secs(2).await;
    bench.deliver(export_of("e", "1", &[("pkg:npm/p1", Normal)])).await;
    secs(2).await;
    bench.deliver(export_of("e", "2", &[("pkg:npm/p2", Normal)])).await;
    let runs = bench.ended_runs(2).await;
    assert_eq!(bench.images_of(&runs[1]).await, [2]);
}

#[tokio::test(start_paused = true)]
async fn p02_an_export_reaches_the_schedules_of_its_tenants_only() {
    let bench = hearing(ScriptedScanner::content()).await;
    bench.schedule(hears_feedser(&alpha(), "other")).await;
    bench.schedule(hears_feedser(&beta(), "b")).await;
    bench.store.put_images(vec![packed(&beta(), 0)]).await.unwrap();
    let to_beta = TenantScope::Only(vec![beta()]);
    bench.deliver(one("for-all", "pkg:npm/p0", Normal)).await;
    secs(2).await;
    bench.deliver(Export { tenants: to_beta, ..one("for-beta", "pkg:npm/shared", Normal) }).await;
    bench.until("beta has two runs", async || bench.runs_of(&beta()).await.len() == 2).await;
    let runs = bench.ended_runs(2).await;
    assert!(runs.iter().all(|run| exports(run) == ["for-all"]));
    let of_beta = bench.runs_of(&beta()).await;
    assert_eq!(exports(&of_beta[1]), ["for-beta"]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_cannot_be_planned_ends_in_error_and_holds_up_nobody() {
    let bench = Bench::with(ScriptedScanner::content()).await;
    bench.put(0..2).await;
    let keys = Some(vec!["no purl at all".to_owned()]);
    bench.begin_of("broken", ManualRequest { keys, ..ManualRequest::default() }).await;
    bench.begin("good", Default::default()).await;
    assert_eq!(bench.ended("good").await.stats.completed, 2);
    let broken = bench.ended("broken").await;
    assert_eq!(broken.state, RunState::Error);
    assert!(broken.error.unwrap().contains("no purl at all"));
    bench.store.unplannable.lock().insert(scheduler_testkit::store::build::id("unreadable"));
    for name in ["unreadable", "readable"] {
        bench.begin(name, Default::default()).await;
    }
    assert_eq!(bench.ended("readable").await.stats.completed, 2);
    assert_eq!(bench.ended("unreadable").await.state, RunState::Error);
}

#[tokio::test(start_paused = true)]
async fn p03_planning_survives_a_store_that_is_away() {
    let bench = hearing(ScriptedScanner::content()).await;
    for round in 0..5 {
        bench.deliver(one(&format!("e{round}"), &format!("pkg:npm/p{round}"), Kev)).await;
        bench.store.set_away(true);
        secs(3).await;
        bench.store.set_away(false);
    }
    let all_seen = async || bench.scanner.reports().len() == 5;
    bench.until("every image is asked about", all_seen).await;
    bench.until("all end", async || bench.runs().await.iter().all(|run| run.state.is_ended())).await;
    assert_eq!(bench.scanner.reports().len(), 5, "each once");
}

#[tokio::test(start_paused = true)]
async fn a_window_is_closed_without_reading_whole_exports() {
    let bench = hearing(ScriptedScanner::content()).await;
    for number in 0..5 {
        bench.deliver(one(&format!("e{number}"), "pkg:npm/p1", Normal)).await;
        secs(7).await;
    }
    bench.ended_runs(2).await;
    assert_eq!(bench.store.calls("batch_exports"), 2, "once for each run's plan");
}

#[tokio::test(start_paused = true)]
async fn a_cold_index_takes_urgent_keys_now_and_the_rest_once_when_warm() {
    let mut bench = Bench::start(ScriptedScanner::content(), Options { warm: false, ..Options::default() }).await;
    bench.put(0..300).await;
    bench.schedule(hears_feedser(&alpha(), "s")).await;
    let keys = [("pkg:npm/p1", Kev), ("pkg:npm/p299", Critical), ("pkg:npm/p2", Normal), ("pkg:npm/p1", Normal)];
    bench.deliver(export_of("mixed", "1", &keys)).await;
    secs(10).await;
    let runs = bench.runs().await;
    assert_eq!(runs.len(), 2);
    let urgent = runs.iter().find(|run| run.state.is_ended()).unwrap().clone();
    assert_eq!((bench.images_of(&urgent).await, urgent.priority), (vec![1, 299], Kev));
    secs(100).await;
    bench.deliver(one("plain", "pkg:npm/p3", Normal)).await;
    secs(100).await;
    assert_eq!(bench.scanner.reports().len(), 2, "plain keys wait");
    bench.warm();
    bench.until("the rest is asked", async || bench.scanner.reports().len() >= 4).await;
    let runs = bench.ended_runs(3).await;
    let rest = runs.iter().find(|run| run.reason.continues.as_ref() == Some(&urgent.id)).unwrap();
    assert_eq!(bench.images_of(rest).await, [2]);
    assert_eq!(exports(rest), ["mixed"]);
    secs(1_000).await;
    assert_eq!(bench.scanner.reports().len(), 4, "each image once");
}

#[tokio::test(start_paused = true)]
async fn p03_the_rest_of_a_cold_run_survives_a_crash_and_is_taken_once() {
    let mut bench = Bench::start(ScriptedScanner::content(), Options { warm: false, ..Options::default() }).await;
    bench.put(0..10).await;
    bench.schedule(hears_feedser(&alpha(), "s")).await;
    bench.deliver(export_of("mixed", "1", &[("pkg:npm/p1", Kev), ("pkg:npm/shared", Normal)])).await;
    for _ in 0..3 {
        secs(10).await;
        bench = bench.crash().await;
    }
    bench.warm();
    bench.until("all are asked", async || bench.scanner.reports().len() >= 10).await;
    let runs = bench.ended_runs(2).await;
    assert_eq!(runs.iter().map(|run| run.stats.completed).sum::<u64>(), 10);
    assert_eq!(bench.scanner.reports().len(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_cold_index_lets_runs_by_hand_take_what_the_catalog_has() {
    let bench = Bench::start(ScriptedScanner::content(), Options { warm: false, ..Options::default() }).await;
    bench.put(0..600).await;
    bench.begin("all", Default::default()).await;
    let keys = Some(vec!["pkg:npm/p7".to_owned(), "pkg:npm/p599".to_owned()]);
    bench.begin_of("keys", ManualRequest { keys, ..ManualRequest::default() }).await;
    assert_eq!(bench.ended("all").await.stats.completed, 600);
    let by_keys = bench.ended("keys").await;
    assert_eq!(bench.images_of(&by_keys).await, [7, 599]);
    assert_eq!(by_keys.trigger, Trigger::Manual);
    assert!(bench.store.live_runs(&alpha(), &scheduler_testkit::store::build::id("s")).await.unwrap().is_empty());
}
