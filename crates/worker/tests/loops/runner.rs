//! Calls, retries, outages, leases and ends.

use crate::bench::{Bench, Options};
use scheduler_core::ports::{Conductor, ReportRequest, RunStore, ScannerError};
use scheduler_model::{
    ErrorClass, Finding, Found, ImageDigest, OutcomeResult, Report, RunLimits, RunState, Severity, SkipReason,
};
use scheduler_testkit::pacer::check_windows;
use scheduler_testkit::scanner::{ScriptedScanner, failing, refused, report_of};
use scheduler_testkit::store::build::{alpha, digest, id};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

fn good() -> Result<Report, ScannerError> {
    Ok(report_of(Default::default()))
}

fn is(request: &ReportRequest, numbers: &[usize]) -> bool {
    numbers.iter().any(|number| request.digest == digest(*number))
}

fn limits(parallelism: u32, rate_per_second: u32) -> RunLimits {
    RunLimits { parallelism: Some(parallelism), rate_per_second: Some(rate_per_second), ..RunLimits::default() }
}

async fn secs(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// The calls about an image, with how long after the end of the one before it each began.
fn gaps(bench: &Bench, number: usize) -> Vec<Duration> {
    let calls: Vec<_> = bench.scanner.reports().into_iter().filter(|call| is(&call.request, &[number])).collect();
    calls.windows(2).map(|pair| pair[1].began - pair[0].ended.unwrap()).collect()
}

/// PACE-08: the rate is measured where calls begin.
#[tokio::test(start_paused = true)]
async fn p07_parallelism_and_rate_of_a_run_hold() {
    let bench = Bench::with(ScriptedScanner::content().delayed(Duration::from_millis(900))).await;
    bench.put(0..100).await;
    bench.begin("r", limits(3, 1_000)).await;
    assert_eq!(bench.ended("r").await.stats.completed, 100);
    assert_eq!(bench.scanner.in_flight_max(), 3);
    let before = bench.scanner.reports().len();
    bench.begin("slow", limits(50, 10)).await;
    assert_eq!(bench.ended("slow").await.stats.completed, 100);
    let begins: Vec<Instant> = bench.scanner.reports().into_iter().skip(before).map(|call| call.began).collect();
    check_windows(&begins, 10);
    assert!(begins[99] - begins[0] < Duration::from_secs(14), "slower than the rate: {:?}", begins[99] - begins[0]);
}

/// NOTE-17.
#[tokio::test(start_paused = true)]
async fn attempts_are_bounded_and_others_go_on() {
    let bench = Bench::with(ScriptedScanner::new(|request, _| match request {
        r if is(r, &[1]) => Err(failing(ErrorClass::ServerError, None)),
        r if is(r, &[2]) => Err(failing(ErrorClass::Rejected, None)),
        r if is(r, &[3]) => Err(failing(ErrorClass::BadResponse, None)),
        _ => good(),
    }))
    .await;
    bench.put(0..20).await;
    bench.begin("r", RunLimits::default()).await;
    let run = bench.ended("r").await;
    assert_eq!((run.stats.completed, run.stats.failed), (17, 3));
    let attempts: Vec<u32> = bench.outcomes(&run).await.iter().take(4).map(|outcome| outcome.attempts).collect();
    assert_eq!(attempts, [1, 6, 1, 6]);
}

#[tokio::test(start_paused = true)]
async fn pace_02_retry_after_is_waited_for_and_429_halves_the_rate_once_a_burst() {
    let bench = Bench::with(ScriptedScanner::new(|request, nth| {
        if nth == 1 && is(request, &[0]) {
            return Err(failing(ErrorClass::Throttled, Some(Duration::from_secs(77))));
        }
        good()
    }))
    .await;
    bench.put(0..4).await;
    bench.begin("r", RunLimits::default()).await;
    bench.ended("r").await;
    let gaps = gaps(&bench, 0);
    assert!(gaps[0] >= Duration::from_secs(77) && gaps[0] < Duration::from_secs(80), "{gaps:?}");

    let burst =
        ScriptedScanner::new(|_, nth| if nth == 1 { Err(failing(ErrorClass::Throttled, None)) } else { good() });
    let mut options = Options::default();
    options.settings.tenant_rate_per_second = 20;
    let bench = Bench::start(burst.delayed(Duration::from_millis(100)), options).await;
    bench.put(0..8).await;
    let began = Instant::now();
    bench.begin("r", RunLimits::default()).await;
    bench.ended("r").await;
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}: half of the rate, not a sixteenth", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_outage_fails_no_image_and_burns_no_reservations() {
    for class in [None, Some(ErrorClass::ServerError)] {
        let down = Arc::new(AtomicBool::new(false));
        let is_down = down.clone();
        let scanner = ScriptedScanner::new(move |_, _| match (is_down.load(Ordering::SeqCst), class) {
            (false, _) => good(),
            (true, None) => Err(refused()),
            (true, Some(class)) => Err(failing(class, None)),
        });
        let bench = Bench::with(scanner.delayed(Duration::from_millis(20))).await;
        bench.put(0..200).await;
        bench.begin("r", limits(8, 50)).await;
        secs(1).await;
        down.store(true, Ordering::SeqCst);
        secs(100).await;
        down.store(false, Ordering::SeqCst);
        let again = Instant::now();
        let run = bench.ended("r").await;
        assert_eq!((run.stats.completed, run.stats.failed), (200, 0), "{class:?}");
        assert!(again.elapsed() < Duration::from_secs(20), "{:?} after the outage", again.elapsed());
        assert!(bench.scanner.reports().len() < 260, "{} calls", bench.scanner.reports().len());
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_last_images_always_fail_ends() {
    let bench = Bench::with(ScriptedScanner::new(|request, _| {
        if is(request, &[3, 4]) { Err(failing(ErrorClass::ServerError, None)) } else { good() }
    }))
    .await;
    bench.put(0..6).await;
    let began = Instant::now();
    bench.begin("r", RunLimits::default()).await;
    let run = bench.ended("r").await;
    assert_eq!((run.state, run.stats.completed, run.stats.failed), (RunState::Completed, 4, 2));
    assert!(began.elapsed() < Duration::from_secs(600), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn images_that_wait_too_long_are_skipped_as_expired() {
    let mut options = Options::default();
    options.settings.deadline = Duration::from_secs(600);
    let bench = Bench::start(ScriptedScanner::new(|_, _| Err(refused())), options).await;
    bench.put(0..100).await;
    bench.begin("r", limits(4, 100)).await;
    let run = bench.ended("r").await;
    assert_eq!((run.state, run.stats.skipped), (RunState::Completed, 100));
    let expired = |result: &OutcomeResult| matches!(result, OutcomeResult::Skipped { reason: SkipReason::Expired });
    assert!(bench.outcomes(&run).await.iter().all(|outcome| expired(&outcome.result)));
}

/// QUE-09, QUE-10: a slot is free when the call that it has begun ends, after `timeoutSeconds` at the latest.
#[tokio::test(start_paused = true)]
async fn p11_a_cancelled_run_begins_no_call_after_the_answer() {
    let bench = Bench::with(ScriptedScanner::content().delayed(Duration::from_millis(300))).await;
    bench.put(0..200).await;
    bench.begin("r", limits(5, 20)).await;
    secs(3).await;
    bench.store.request_cancel(&alpha(), &id("r"), bench.now()).await.unwrap();
    bench.fleet.run_cancelled(&alpha(), &id("r")).await;
    let answered = bench.scanner.reports().len();
    let run = bench.ended("r").await;
    assert_eq!(bench.scanner.reports().len(), answered);
    assert_eq!(run.state, RunState::Cancelled);
    assert_eq!(run.stats.completed, answered as u64, "what was begun is recorded");
    assert_eq!(run.stats.skipped, 200 - answered as u64);
}

#[tokio::test(start_paused = true)]
async fn p11_a_drained_process_loses_nothing() {
    let mut bench = Bench::with(ScriptedScanner::content().delayed(Duration::from_millis(300))).await;
    bench.put(0..100).await;
    bench.begin("r", limits(5, 1_000)).await;
    secs(2).await;
    bench.drained().await;
    let calls = bench.scanner.reports();
    assert!(calls.iter().all(|call| call.ended.is_some()));
    assert_eq!(bench.run("r").await.stats.completed, calls.len() as u64);
    let bench = bench.crash().await;
    assert_eq!(bench.ended("r").await.stats.completed, 100);
    assert_eq!(bench.scanner.reports().len(), 100, "each once");
}

/// QUE-07, QUE-05.
#[tokio::test(start_paused = true)]
async fn p06_a_worker_whose_lease_is_over_writes_nothing() {
    let bench = Bench::with(ScriptedScanner::content().delayed(Duration::from_secs(5))).await;
    bench.put(0..3).await;
    bench.begin("r", RunLimits::default()).await;
    bench.until("calls are in flight", async || bench.scanner.reports().len() == 3).await;
    let segment = bench.store.open_segments().await.unwrap().remove(0);
    let claim = bench.store.claim(&segment.id, u64::MAX).await.unwrap().unwrap();
    assert_eq!(claim.segment.images.len(), 3);
    secs(60).await;
    assert_eq!(bench.run("r").await.stats.ended(), 0);
    assert!(
        bench
            .store
            .outbox(&alpha(), 0, 100)
            .await
            .unwrap()
            .iter()
            .all(|event| { matches!(event.body, scheduler_model::OutboundBody::RunUpdated(_)) })
    );
}

#[tokio::test(start_paused = true)]
async fn outcomes_wait_for_a_store_that_is_away() {
    let bench = Bench::with(ScriptedScanner::content().delayed(Duration::from_millis(200))).await;
    bench.put(0..200).await;
    bench.begin("r", limits(8, 1_000)).await;
    for _ in 0..3 {
        secs(1).await;
        bench.store.set_away(true);
        secs(100).await;
        bench.store.set_away(false);
    }
    let run = bench.ended("r").await;
    assert_eq!((run.stats.completed, run.stats.failed), (200, 0));
    assert_eq!(bench.scanner.reports().len(), 200, "no verdict was thrown away");
}

#[tokio::test(start_paused = true)]
async fn p04_a_segment_that_panics_for_ever_is_given_up_and_its_run_ends() {
    let bench = Bench::with(ScriptedScanner::new(|request, _| {
        assert!(!is(request, &[5]), "this image ends its task");
        good()
    }))
    .await;
    bench.put(0..8).await;
    bench.begin("r", limits(1, 1_000)).await;
    let run = bench.ended("r").await;
    assert_eq!((run.state, run.stats.completed + run.stats.failed), (RunState::Completed, 8));
    let outcomes = bench.outcomes(&run).await;
    let internal = |result: &OutcomeResult| matches!(result, OutcomeResult::Failed { class: ErrorClass::Internal, .. });
    assert!(internal(&outcomes[5].result));
    assert!(bench.services.queue.depth().await.unwrap().iter().all(|lane| lane.waiting + lane.leased == 0));
}

#[tokio::test(start_paused = true)]
async fn polite_ends_of_leases_give_no_segment_up() {
    let mut bench = Bench::with(ScriptedScanner::new(|_, _| Err(refused()))).await;
    bench.put(0..3).await;
    bench.begin("r", RunLimits::default()).await;
    for _ in 0..40 {
        secs(20).await;
        bench.drained().await;
        bench = bench.crash().await;
    }
    assert_eq!(bench.run("r").await.stats.ended(), 0);
}

#[tokio::test(start_paused = true)]
async fn two_runs_over_one_image_have_an_outcome_each_and_a_finding_is_new_once() {
    let finding = |vuln: &str| Finding {
        purl: "pkg:npm/shared".to_owned(),
        vuln_id: vuln.to_owned(),
        severity: Severity::Critical,
        kev: false,
    };
    let bench = Bench::with(ScriptedScanner::new(move |_, nth| {
        let vulns = if nth < 3 { &["CVE-1"][..] } else { &["CVE-1", "CVE-2"] };
        let found = Found::Findings(vulns.iter().map(|vuln| finding(vuln)).collect());
        Ok(Report { found, ..report_of(Default::default()) })
    }))
    .await;
    bench.put([0]).await;
    let mut new = Vec::new();
    for name in ["r1", "r2", "r3"] {
        bench.begin(name, RunLimits::default()).await;
        let run = bench.ended(name).await;
        new.push((run.stats.completed, run.stats.deltas, run.stats.new_criticals));
    }
    assert_eq!(new, [(1, 1, 1), (1, 0, 0), (1, 1, 1)]);
    bench.begin("r4", RunLimits::default()).await;
    bench.begin("r5", RunLimits::default()).await;
    bench.ended("r4").await;
    bench.ended("r5").await;
    assert_eq!(bench.scanner.reports().len(), 5);
    let keys: std::collections::BTreeSet<(String, ImageDigest)> = bench
        .scanner
        .reports()
        .into_iter()
        .map(|call| (call.request.run.to_string(), call.request.catalog_digest))
        .collect();
    assert_eq!(keys.len(), 5, "a key for each run and image");
}

#[tokio::test(start_paused = true)]
async fn p05_a_finding_is_new_in_one_of_the_runs_that_ask_at_the_same_time() {
    let seen = Found::Findings(vec![Finding {
        purl: "pkg:npm/shared@1.0.0".into(),
        vuln_id: "CVE-1".into(),
        severity: Severity::High,
        kev: false,
    }]);
    let scanner = ScriptedScanner::new(move |_, _| Ok(Report { found: seen.clone(), ..report_of(Default::default()) }));
    let bench = Bench::with(scanner.delayed(Duration::from_millis(100))).await;
    bench.put(0..30).await;
    let names = ["a", "b", "c", "d"];
    for name in names {
        bench.begin(name, RunLimits::default()).await;
    }
    let mut news = vec![0; 30];
    for name in names {
        let run = bench.ended(name).await;
        assert_eq!(run.stats.completed, 30);
        for outcome in bench.outcomes(&run).await.iter().filter(|outcome| outcome.result.as_str() == "delta") {
            news[(0..30).find(|number| digest(*number) == outcome.digest).unwrap()] += 1;
        }
    }
    assert_eq!(news, [1; 30], "each image has one thing that is new, in one run");
    assert_eq!(bench.scanner.reports().len(), 120, "to compare again asks nobody");
}
