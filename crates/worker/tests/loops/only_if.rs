//! `onlyIf`: which images a run leaves out since their report is fresh enough.

use crate::bench::{Bench, Options};
use scheduler_core::launch::{self, ManualRequest};
use scheduler_core::ports::{CatalogStore, RunStore};
use scheduler_model::{Delta, OnlyIf, Reason, Report, Run, RunLimits, Scope, Selection, Trigger};
use scheduler_testkit::scanner::{ScriptedScanner, report_of};
use scheduler_testkit::store::build::{alpha, digest, id, schedule};
use std::collections::BTreeSet;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);
const IMAGES: usize = 40;

/// A scanner that judges under the policy that it is asked under.
fn obedient() -> ScriptedScanner {
    ScriptedScanner::new(|request, _| {
        let policy_revision = request.policy_revision.clone();
        Ok(Report { policy_revision, ..report_of(Delta::default()) })
    })
}

fn some(numbers: impl IntoIterator<Item = usize>) -> Selection {
    Selection { scope: Scope::ByDigest, digests: numbers.into_iter().map(digest).collect(), ..Selection::default() }
}

/// Has some images reported under a policy.
async fn report(bench: &Bench, name: &str, images: impl IntoIterator<Item = usize>, revision: Option<&str>) {
    let request = ManualRequest { selection: some(images), ..ManualRequest::default() };
    let mut new = launch::manual(id(name), alpha(), request, bench.services.settings.run_defaults, bench.now());
    new.run.policy_revision = revision.map(str::to_owned);
    bench.store.begin_run(new).await.unwrap();
    bench.services.planner_bell.notify_one();
    bench.ended(name).await;
}

/// Carries out a run of a schedule with that `onlyIf`.
async fn nightly(bench: &Bench, name: &str, only_if: OnlyIf, limits: RunLimits) -> Run {
    let mut made = schedule(&alpha(), "nightly");
    (made.spec.only_if, made.spec.limits) = (only_if, limits);
    let defaults = bench.services.settings.run_defaults;
    let new = launch::of_schedule(id(name), &made, Trigger::Manual, Reason::default(), defaults, bench.now());
    bench.store.begin_run(new).await.unwrap();
    bench.services.planner_bell.notify_one();
    bench.ended(name).await
}

/// The images that qualify, by a look at every record.
async fn qualifying(bench: &Bench, only_if: &OnlyIf) -> BTreeSet<usize> {
    let digests: Vec<_> = (0..IMAGES).map(digest).collect();
    let records = bench.store.inner.reports(&alpha(), &digests).await.unwrap();
    let now = bench.now();
    let is_due = |record: &scheduler_model::ReportRecord| {
        let days = only_if.last_report_older_than_days.map(|days| DAY * days);
        let old = days.is_some_and(|days| now.since(record.reported_at) > days);
        let wanted = only_if.policy_revision.as_ref();
        old || wanted.is_some_and(|wanted| record.policy_revision.as_ref() != Some(wanted))
    };
    let narrows = only_if.last_report_older_than_days.is_some() || only_if.policy_revision.is_some();
    let due = (0..IMAGES).zip(records).filter(|(_, record)| !narrows || record.as_ref().is_none_or(is_due));
    due.map(|(number, _)| number).collect()
}

async fn check(bench: &Bench, name: &str, days: Option<u32>, revision: Option<&str>) -> Run {
    let only_if = OnlyIf { last_report_older_than_days: days, policy_revision: revision.map(str::to_owned) };
    let expected = qualifying(bench, &only_if).await;
    let run = nightly(bench, name, only_if, RunLimits::default()).await;
    let asked: BTreeSet<usize> = bench.images_of(&run).await.into_iter().collect();
    assert_eq!(asked, expected, "{name}: {days:?} {revision:?}");
    let counts = (run.stats.candidates, run.stats.deduped, run.stats.queued);
    assert_eq!(counts, (IMAGES as u64, IMAGES as u64, expected.len() as u64), "{name}");
    run
}

async fn with_reports(warm: bool) -> Bench {
    let bench = Bench::start(obedient(), Options { warm, ..Options::default() }).await;
    bench.put(0..IMAGES).await;
    report(&bench, "a", 0..20, Some("rev-1")).await;
    tokio::time::advance(DAY / 2).await;
    report(&bench, "b", 10..25, Some("rev-2")).await;
    tokio::time::advance(DAY).await;
    report(&bench, "c", 23..30, None).await;
    bench
}

#[tokio::test(start_paused = true)]
async fn only_if_takes_what_a_look_at_every_record_takes() {
    let all = [
        (None, None),
        (Some(0), None),
        (Some(1), None),
        (Some(2), None),
        (None, Some("rev-2")),
        (None, Some("rev-of-nobody")),
        (Some(1), Some("rev-1")),
        (Some(9), Some("rev-2")),
    ];
    // The last ones of a cold index too, which the catalog itself answers for.
    let warm = all.into_iter().map(|only_if| (true, only_if));
    for (number, (warm, (days, revision))) in warm.chain(all[6..].iter().map(|only_if| (false, *only_if))).enumerate() {
        let mut bench = with_reports(warm).await;
        if number.is_multiple_of(2) {
            // What was known of reports is made anew.
            bench = bench.crash().await;
        }
        check(&bench, "first", days, revision).await;
        // The first one was asked under the policy that it wanted, and reported just now.
        check(&bench, "second", days, revision).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_report_that_is_exactly_so_old_is_not_too_old() {
    let bench = Bench::with(obedient()).await;
    bench.put(0..IMAGES).await;
    report(&bench, "all", 0..IMAGES, None).await;
    let records = bench.store.reports(&alpha(), &(0..IMAGES).map(digest).collect::<Vec<_>>()).await.unwrap();
    let oldest = records.iter().flatten().map(|record| record.reported_at).min().unwrap();
    tokio::time::advance(oldest.plus(DAY * 3).since(bench.now())).await;
    assert_eq!(check(&bench, "at-the-edge", Some(3), None).await.stats.queued, 0);
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(check(&bench, "a-moment-later", Some(3), None).await.stats.queued > 0);
}

#[tokio::test(start_paused = true)]
async fn an_image_that_comes_back_or_is_put_again_keeps_its_report() {
    let bench = Bench::with(obedient()).await;
    bench.put(0..IMAGES).await;
    report(&bench, "all", 0..IMAGES - 1, Some("rev-1")).await;
    assert_eq!(check(&bench, "before", None, Some("rev-1")).await.stats.queued, 1);
    for number in 0..5 {
        bench.store.delete_image(&alpha(), &digest(number)).await.unwrap();
    }
    // Other contents, hence other ordinals.
    let again = (0..8).map(|number| {
        let image = crate::bench::packed(&alpha(), number);
        let mut place = image.place.clone();
        place.tags = vec!["again".to_owned()];
        scheduler_model::Image { place, ..image }
    });
    bench.store.put_images(again.collect()).await.unwrap();
    assert_eq!(check(&bench, "again", None, Some("rev-1")).await.stats.queued, 0);
    bench.services.index.rebuild().await.unwrap();
    assert_eq!(check(&bench, "rebuilt", None, Some("rev-1")).await.stats.queued, 0);
    assert_eq!(check(&bench, "other", None, Some("rev-2")).await.stats.queued, IMAGES as u64);
}

#[tokio::test(start_paused = true)]
async fn what_was_left_over_is_asked_about_however_fresh_its_report_is() {
    let bench = Bench::with(obedient()).await;
    bench.put(0..IMAGES).await;
    let only_if = || OnlyIf { last_report_older_than_days: Some(1), policy_revision: None };
    let limits = RunLimits { max_jobs: Some(30), ..RunLimits::default() };
    let first = nightly(&bench, "first", only_if(), limits.clone()).await;
    assert_eq!((first.stats.queued, first.stats.spilled), (30, 10));
    // Everything has a report now, what was left over too.
    report(&bench, "all", 0..IMAGES, None).await;
    let second = nightly(&bench, "second", only_if(), limits).await;
    let numbers = (second.stats.candidates, second.stats.deduped, second.stats.queued, second.reason.left_over);
    assert_eq!(numbers, (50, 40, 10, 10));
}

#[tokio::test(start_paused = true)]
async fn only_if_is_answered_without_a_look_at_any_image() {
    let bench = Bench::with(obedient()).await;
    bench.put(0..IMAGES).await;
    report(&bench, "all", 0..IMAGES / 2, Some("rev-1")).await;
    let looked = |bench: &Bench| ["reports", "report_heads", "images"].map(|name| bench.store.calls(name));
    let only_if = OnlyIf { last_report_older_than_days: Some(1), policy_revision: Some("rev-1".to_owned()) };
    let before = looked(&bench);
    // Planned and not begun: the scanner's baseline is looked up later.
    bench.drain.cancel();
    let mut made = schedule(&alpha(), "nightly");
    made.spec.only_if = only_if;
    let defaults = bench.services.settings.run_defaults;
    let new = launch::of_schedule(id("n"), &made, Trigger::Cron, Reason::default(), defaults, bench.now());
    bench.store.begin_run(new).await.unwrap();
    bench.services.planner_bell.notify_one();
    bench.until("it is planned", async || bench.run("n").await.stats.queued == IMAGES as u64 / 2).await;
    assert_eq!(looked(&bench), before);
}
