//! What went wrong in public in systems like this one, where no other test has it.

use crate::bench::{Bench, export_of, hears_feedser, packed};
use scheduler_core::launch;
use scheduler_core::ports::{CatalogStore, RunStore, ScannerError};
use scheduler_model::{
    ErrorClass, Finding, Found, ImageEventType, OutboundBody, Priority, Report, RunLimits, Severity, Trigger,
};
use scheduler_testkit::scanner::{ScriptedScanner, failing, report_of};
use scheduler_testkit::store::build::{all_events, alpha, beta, digest, id, schedule};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn findings(numbers: impl IntoIterator<Item = usize>) -> Result<Report, ScannerError> {
    let finding = |number| Finding {
        purl: "pkg:npm/shared@1.0.0".into(),
        vuln_id: format!("CVE-2026-{number}"),
        severity: Severity::High,
        kev: false,
    };
    Ok(Report { found: Found::Findings(numbers.into_iter().map(finding).collect()), ..report_of(Default::default()) })
}

/// A scanner whose every image has as many findings as the number says now.
fn growing() -> (Arc<AtomicUsize>, ScriptedScanner) {
    let count = Arc::new(AtomicUsize::new(1));
    let now = count.clone();
    (count, ScriptedScanner::new(move |_, _| findings(0..now.load(Ordering::SeqCst))))
}

/// The numbers of all deltas that the tenant's stream has, with run and digest.
async fn deltas(bench: &Bench, tenant: &scheduler_model::TenantId) -> Vec<(u64, String, usize)> {
    let events = all_events(&*bench.store, tenant).await;
    let numbers: Vec<u64> = events.iter().map(|event| event.sequence).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "no gap and no double");
    let delta = |event: &scheduler_model::OutboundEvent| match &event.body {
        OutboundBody::Image(ImageEventType::RescanDelta, image) => {
            let number = (0..1_000).find(|number| digest(*number) == image.image_digest).unwrap();
            Some((image.new_findings, image.run_id.to_string(), number))
        }
        _ => None,
    };
    events.iter().filter_map(delta).collect()
}

#[tokio::test(start_paused = true)]
async fn note_01_news_of_one_image_name_no_other_and_reach_no_other_tenant() {
    let scanner = ScriptedScanner::new(|request, nth| {
        let news = request.tenant == alpha() && request.digest == digest(1) && nth == 2;
        findings(0..if news { 2 } else { 1 })
    });
    let bench = Bench::with(scanner).await;
    bench.put(0..3).await;
    bench.store.put_images((0..3).map(|number| packed(&beta(), number)).collect()).await.unwrap();
    for tenant in [alpha(), beta()] {
        bench.schedule(hears_feedser(&tenant, &format!("s-{tenant}"))).await;
    }
    for (export, at_all) in [("e1", 3), ("e2", 3)] {
        bench.deliver(export_of(export, export, &[("pkg:npm/shared", Priority::Kev)])).await;
        let ended = async || {
            let mut done = 0;
            for tenant in [alpha(), beta()] {
                done += bench.runs_of(&tenant).await.iter().map(|run| run.stats.completed).sum::<u64>();
            }
            done % (2 * at_all) == 0 && done > 0
        };
        bench.until("both runs end", ended).await;
        bench.pass(Duration::from_secs(60)).await;
    }
    let second = |all: Vec<(u64, String, usize)>| all.into_iter().skip(3).collect::<Vec<_>>();
    let news = second(deltas(&bench, &alpha()).await);
    assert_eq!(news.iter().map(|(new, _, image)| (*new, *image)).collect::<Vec<_>>(), [(1, 1)]);
    assert!(second(deltas(&bench, &beta()).await).is_empty());
}

#[tokio::test(start_paused = true)]
async fn note_03_a_finding_is_news_whatever_started_the_run() {
    let (count, scanner) = growing();
    let bench = Bench::with(scanner).await;
    bench.put([0]).await;
    let hearing = hears_feedser(&alpha(), "s");
    bench.schedule(hearing.clone()).await;
    bench.deliver(export_of("e1", "1", &[("pkg:npm/p0", Priority::Normal)])).await;
    bench.ended_runs(1).await;
    for trigger in [Trigger::Cron, Trigger::Policy, Trigger::Backfill, Trigger::Manual] {
        count.fetch_add(1, Ordering::SeqCst);
        let name = format!("{trigger:?}").to_lowercase();
        let defaults = bench.services.settings.run_defaults;
        let new = launch::of_schedule(id(&name), &hearing, trigger, Default::default(), defaults, bench.now());
        bench.store.begin_run(new).await.unwrap();
        bench.services.planner_bell.notify_one();
        assert_eq!(bench.ended(&name).await.stats.deltas, 1, "{name}");
    }
    assert_eq!(deltas(&bench, &alpha()).await.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn note_07_a_long_series_of_deltas_is_told_once_over_restarts() {
    let (count, scanner) = growing();
    let mut options = crate::bench::Options::default();
    options.settings.outbound_events = Duration::from_secs(30 * 86_400);
    options.settings.completed_runs = Duration::from_secs(30 * 86_400);
    let mut bench = Bench::start(scanner, options).await;
    bench.put(0..2).await;
    bench.schedule(hears_feedser(&alpha(), "s")).await;
    for turn in 1..=72 {
        count.fetch_add(1, Ordering::SeqCst);
        bench.deliver(export_of(&format!("e{turn}"), "1", &[("pkg:npm/shared", Priority::Normal)])).await;
        bench.ended_runs(turn).await;
        bench.pass(Duration::from_secs(300)).await;
        if turn.is_multiple_of(20) {
            bench = bench.crash().await;
        }
    }
    let told = deltas(&bench, &alpha()).await;
    assert_eq!(told.len(), 144, "one for each image and turn");
    let distinct: BTreeSet<(&str, usize)> = told.iter().map(|(_, run, image)| (run.as_str(), *image)).collect();
    assert_eq!(distinct.len(), 144, "NOTE-05: one for each image and run");
    // The first report's findings are all new: two of them; from then on one a turn.
    assert_eq!(told.iter().map(|(new, ..)| new).sum::<u64>(), 2 * (2 + 71));
}

#[tokio::test(start_paused = true)]
async fn note_19_a_finding_that_goes_is_no_news_and_one_that_comes_back_is() {
    let (count, scanner) = growing();
    let bench = Bench::with(scanner).await;
    bench.put([0]).await;
    for (name, findings, new) in [("first", 2, 2), ("withdrawn", 1, 0), ("the same", 1, 0), ("back", 2, 1)] {
        count.store(findings, Ordering::SeqCst);
        let name = name.replace(' ', "-");
        bench.begin(&name, RunLimits::default()).await;
        let run = bench.ended(&name).await;
        assert_eq!((run.stats.new_high, run.stats.deltas), (new, u64::from(new > 0)), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn pace_01_what_was_refused_for_now_is_asked_again_and_the_run_waits_for_it() {
    let refused = |nth| if nth < 4 { Err(failing(ErrorClass::Throttled, None)) } else { findings([]) };
    let bench = Bench::with(ScriptedScanner::new(move |_, nth| refused(nth))).await;
    bench.put(0..40).await;
    bench.begin("r", RunLimits::default()).await;
    let run = bench.ended("r").await;
    assert_eq!((run.stats.completed, run.stats.failed), (40, 0));
    let mut asked = bench.scanner.reports();
    assert_eq!(asked.len(), 160, "each until it had its answer, and no longer");
    asked.dedup_by_key(|call| call.request.run.clone());
    assert_eq!(asked.len(), 1, "in the same run");
}

#[tokio::test(start_paused = true)]
async fn pace_10_the_last_report_stays_what_is_known_until_there_is_another() {
    let bench = Bench::with(ScriptedScanner::new(|_, nth| match nth {
        2 => Err(failing(ErrorClass::Rejected, None)),
        _ => findings(0..1),
    }))
    .await;
    bench.put([0]).await;
    let known = async || bench.store.reports(&alpha(), &[digest(0)]).await.unwrap().remove(0);
    bench.begin("good", RunLimits::default()).await;
    bench.ended("good").await;
    let report = known().await;
    assert!(report.is_some());
    bench.begin("bad", RunLimits::default()).await;
    assert_eq!(bench.ended("bad").await.stats.failed, 1);
    assert_eq!(known().await, report, "a failure forgets nothing");
    bench.begin("again", RunLimits::default()).await;
    assert_eq!(bench.ended("again").await.stats.deltas, 0, "and makes nothing new");
}

#[tokio::test(start_paused = true)]
async fn note_04_a_schedule_that_comes_later_tells_only_what_is_new_since() {
    let (count, scanner) = growing();
    let bench = Bench::with(scanner).await;
    bench.put([0]).await;
    bench.begin("before", RunLimits::default()).await;
    bench.ended("before").await;
    bench.schedule(schedule(&alpha(), "late")).await;
    let mut late = schedule(&alpha(), "late");
    late.spec.notify.on_new_findings = true;
    for (name, news) in [("r1", 0), ("r2", 1)] {
        let defaults = bench.services.settings.run_defaults;
        let new = launch::of_schedule(id(name), &late, Trigger::Manual, Default::default(), defaults, bench.now());
        bench.store.begin_run(new).await.unwrap();
        bench.services.planner_bell.notify_one();
        assert_eq!(bench.ended(name).await.stats.deltas, news, "{name}");
        count.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn pace_07_a_tenant_whose_images_all_fail_holds_up_no_other() {
    for images in [2, 30, 700] {
        let bench = Bench::with(ScriptedScanner::new(|request, _| {
            if request.tenant == alpha() { Err(failing(ErrorClass::ServerError, None)) } else { findings([]) }
        }))
        .await;
        bench.put(0..images).await;
        bench.store.put_images((0..3).map(|number| packed(&beta(), number)).collect()).await.unwrap();
        bench.begin("failing", RunLimits::default()).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let began = tokio::time::Instant::now();
        let request = launch::ManualRequest::default();
        let defaults = bench.services.settings.run_defaults;
        bench.store.begin_run(launch::manual(id("healthy"), beta(), request, defaults, bench.now())).await.unwrap();
        bench.services.planner_bell.notify_one();
        let ended = async || bench.store.run(&beta(), &id("healthy")).await.unwrap().unwrap().state.is_ended();
        bench.until("the healthy tenant's run ends", ended).await;
        assert!(began.elapsed() < Duration::from_secs(10), "{images}: {:?}", began.elapsed());
        assert_eq!(bench.run("failing").await.stats.completed, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_the_scanner_asks_for_ends_at_the_deadline() {
    let mut options = crate::bench::Options::default();
    options.settings.deadline = Duration::from_secs(4);
    let scanner = ScriptedScanner::new(|_, _| Err(failing(ErrorClass::Throttled, Some(Duration::from_secs(3_000)))));
    let bench = Bench::start(scanner, options).await;
    bench.put(0..3).await;
    let began = tokio::time::Instant::now();
    bench.begin("r", RunLimits::default()).await;
    let run = bench.ended("r").await;
    assert_eq!((run.stats.skipped, bench.scanner.reports().len()), (3, 3), "expired, and not asked again");
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn p05_an_answer_that_is_stored_late_makes_nothing_new_again() {
    let slow = ScriptedScanner::new(|_, nth| findings(0..if nth == 1 { 1 } else { 2 }));
    let bench = Bench::with(slow.delayed_at(1, Duration::from_secs(15))).await;
    bench.put([0]).await;
    let mut news = Vec::new();
    bench.begin("slow", RunLimits::default()).await;
    bench.until("the slow call goes", async || bench.scanner.reports().len() == 1).await;
    bench.begin("fast", RunLimits::default()).await;
    for name in ["fast", "slow"] {
        news.push(bench.ended(name).await.stats.new_high);
    }
    bench.begin("last", RunLimits::default()).await;
    news.push(bench.ended("last").await.stats.new_high);
    assert_eq!(news, [2, 0, 0]);
}
