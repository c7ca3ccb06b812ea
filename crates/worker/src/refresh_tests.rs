use crate::call::{Context, settle_image};
use crate::{IndexHost, Services, Settings};
use async_trait::async_trait;
use parking_lot::Mutex;
use scheduler_core::launch::RunDefaults;
use scheduler_core::ports::{
    Bucket, BucketKey, CatalogStore, Clock, Ids, OutcomeWrite, Pacer, Random, ScanState, Store,
};
use scheduler_model::{Delta, ErrorClass, ImageDigest, Mode, OutcomeResult, Run, Segment, TagRule, Timestamp};
use scheduler_queue::EmbeddedQueue;
use scheduler_scanner::{Breaker, BreakerLimits};
use scheduler_store::EmbeddedStore;
use scheduler_testkit::scanner::{ScriptedScanner, report_of};
use scheduler_testkit::store::build::{self, alpha, at, id};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> Timestamp {
        at(1)
    }
}

impl Random for Fixed {
    fn unit(&self) -> f64 {
        0.5
    }
}

impl Ids for Fixed {
    fn fresh(&self) -> String {
        "fresh".to_owned()
    }
}

/// Lets everything through, and writes down what it was told.
#[derive(Default)]
struct Recorder {
    reserved: Mutex<Vec<Vec<BucketKey>>>,
    slowed: Mutex<Vec<BucketKey>>,
}

#[async_trait]
impl Pacer for Recorder {
    async fn reserve(&self, buckets: &[Bucket]) -> Duration {
        self.reserved.lock().push(buckets.iter().map(|bucket| bucket.key.clone()).collect());
        Duration::ZERO
    }

    async fn slow(&self, bucket: &Bucket) {
        self.slowed.lock().push(bucket.key.clone());
    }
}

struct Bench {
    scanner: Arc<ScriptedScanner>,
    pacer: Arc<Recorder>,
    services: Services,
    stop: CancellationToken,
    _folder: tempfile::TempDir,
}

const HOST: &str = "registry.example.com";

fn reference(tag: &str) -> String {
    format!("{HOST}/shop/cart:{tag}")
}

fn pushed(name: &str) -> ImageDigest {
    ImageDigest::of(name.as_bytes())
}

/// The digest of the one image of the catalog.
fn own() -> ImageDigest {
    build::digest(1)
}

impl Bench {
    /// With one image in the catalog, which has these tags; the scanner finds one new critical flaw each time.
    async fn new(tags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(EmbeddedStore::open(folder.path()).unwrap());
        let mut image = build::image(&alpha(), 1);
        image.place.registry = HOST.to_owned();
        image.place.repository = "shop/cart".to_owned();
        image.place.tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
        store.put_images(vec![image]).await.unwrap();
        let delta = Delta { new_findings: 1, new_criticals: 1, ..Delta::default() };
        let scanner = Arc::new(ScriptedScanner::new(move |_, _| Ok(report_of(delta.clone()))));
        let pacer = Arc::new(Recorder::default());
        let as_port: Arc<dyn Store> = store.clone();
        let services = Services {
            index: IndexHost::open(as_port.clone(), store.clone(), None).unwrap(),
            store: as_port,
            feed: store,
            queue: Arc::new(EmbeddedQueue::new(1)),
            scanner: scanner.clone(),
            pacer: pacer.clone(),
            clock: Arc::new(Fixed),
            random: Arc::new(Fixed),
            ids: Arc::new(Fixed),
            worker: id("worker"),
            settings: settings(),
            planner_bell: Notify::new(),
            ticker_bell: Notify::new(),
        };
        Self { scanner, pacer, services, stop: CancellationToken::new(), _folder: folder }
    }

    fn point(&self, tag: &str, digest: &ImageDigest) {
        self.scanner.point(&reference(tag), Some(digest.clone()));
    }

    /// A run over the image, up to its outcome.
    async fn settle(&self, run: &Run) -> Option<OutcomeWrite> {
        let breaker = Mutex::new(Breaker::new(BreakerLimits::for_calls_of(Duration::from_secs(20))));
        let segment = segment(run);
        let context = Context {
            services: &self.services,
            breaker: &breaker,
            run,
            segment: &segment,
            slots: &Semaphore::new(1),
            stop: &self.stop,
        };
        settle_image(&context, &segment.images[0]).await.map(|settled| settled.write)
    }

    /// The same, and made durable.
    async fn carry_out(&self, name: &str, mode: Mode) -> OutcomeWrite {
        let run = refreshing(name, mode);
        let write = self.settle(&run).await.unwrap();
        let store = &self.services.store;
        store.begin_run(build::new_run(&run)).await.unwrap();
        store.commit_plan(build::plan(&run, &[&[1]])).await.unwrap();
        store.write_outcomes(&segment(&run).id, 1, vec![write.clone()], at(2), false).await.unwrap();
        write
    }

    async fn remembered(&self) -> BTreeMap<String, ImageDigest> {
        self.services.store.tags(&alpha(), &own()).await.unwrap().unwrap_or_default().tags
    }

    /// The digests that reports were asked for.
    fn asked(&self) -> Vec<ImageDigest> {
        self.scanner.reports().into_iter().map(|call| call.request.digest).collect()
    }
}

fn settings() -> Settings {
    Settings {
        run_defaults: RunDefaults { rate_per_second: 50, parallelism: 8, max_jobs: 50_000, usage_only: true },
        debounce: Duration::ZERO,
        deadline: Duration::from_secs(86_400),
        tenant_rate_per_second: 200,
        host_rate_per_second: 20,
        host_rates: BTreeMap::new(),
        max_attempts: 4,
        backoff_base: Duration::from_millis(200),
        backoff_cap: Duration::from_secs(60),
        call_timeout: Duration::from_secs(20),
        lease: Duration::from_secs(30),
        slots: 8,
        emit: true,
        narrow_by_range: false,
        outbound_events: Duration::from_secs(86_400),
        completed_runs: Duration::from_secs(86_400),
        image_age: None,
        active_runs_per_tenant: 100,
        backlog_per_tenant: 1_000_000,
    }
}

fn refreshing(name: &str, mode: Mode) -> Run {
    Run { mode, tags: TagRule { resolve: true, include: Vec::new() }, ..build::run(&alpha(), name) }
}

fn segment(run: &Run) -> Segment {
    build::plan(run, &[&[1]]).segments.remove(0)
}

fn reported(write: &OutcomeWrite) -> Vec<(String, ImageDigest)> {
    write.outcome.reported.iter().map(|reported| (reported.tag.clone(), reported.digest.clone())).collect()
}

#[tokio::test(start_paused = true)]
async fn tag_01_a_second_push_is_scanned_too_and_digest_and_freshness_move_together() {
    let bench = Bench::new(&["latest"]).await;
    for (name, push, scans) in [("r1", "one", 1), ("r2", "two", 2), ("r3", "two", 2)] {
        bench.point("latest", &pushed(push));
        let write = bench.carry_out(name, Mode::ContentRefresh).await;
        assert_eq!(bench.scanner.scans_started(), scans, "{name}");
        assert_eq!(reported(&write), [("latest".to_owned(), pushed(push))], "{name}");
        assert_eq!(bench.asked().last(), Some(&pushed(push)), "{name}");
        assert!(write.report.is_some() && write.tags.is_some(), "{name}: one write");
        assert_eq!(bench.remembered().await.get("latest"), Some(&pushed(push)), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn tag_02_a_stale_answer_of_the_registry_is_put_right_by_the_next_run() {
    let bench = Bench::new(&["latest"]).await;
    bench.point("latest", &own());
    bench.carry_out("r1", Mode::ContentRefresh).await;
    assert_eq!((bench.scanner.scans_started(), bench.asked()), (0, vec![own()]));
    bench.point("latest", &pushed("late"));
    bench.carry_out("r2", Mode::ContentRefresh).await;
    assert_eq!(bench.scanner.resolved().len(), 2, "no answer is kept");
    assert_eq!((bench.scanner.scans_started(), bench.asked()), (1, vec![own(), pushed("late")]));
}

#[tokio::test(start_paused = true)]
async fn pace_05_a_refused_resolve_slows_its_host_alone_and_asks_nothing_bigger() {
    let bench = Bench::new(&["v1"]).await;
    bench.point("v1", &own());
    bench.scanner.throttle(&reference("v1"), 2);
    let write = bench.carry_out("r", Mode::ContentRefresh).await;
    assert_eq!((bench.scanner.resolved().len(), bench.scanner.scans_started(), bench.asked().len()), (3, 0, 1));
    let host = BucketKey::Host(HOST.to_owned());
    assert_eq!(*bench.pacer.slowed.lock(), [host.clone(), host.clone()]);
    let paced_by_host: Vec<bool> = bench.pacer.reserved.lock().iter().map(|keys| keys.contains(&host)).collect();
    assert_eq!(paced_by_host, [true, true, true, false], "three times resolve, then the report");
    assert_eq!(write.outcome.attempts, 4);

    // To the end: the image fails, and still nothing else is asked.
    bench.scanner.throttle(&reference("v1"), u32::MAX);
    let write = bench.settle(&refreshing("r2", Mode::ContentRefresh)).await.unwrap();
    let OutcomeResult::Failed { class, .. } = write.outcome.result else { panic!("{:?}", write.outcome) };
    assert_eq!((class, write.outcome.attempts), (ErrorClass::Throttled, 4));
    assert_eq!((bench.scanner.scans_started(), bench.asked().len()), (0, 1));
}

/// Goes on with `settling` until a scan has begun, and no further.
async fn until_scanning<T>(bench: &Bench, mut settling: Pin<&mut impl Future<Output = T>>) {
    std::future::poll_fn(|context| {
        assert!(settling.as_mut().poll(context).is_pending(), "it ended before a scan");
        if bench.scanner.scans_started() > 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p04_a_kill_between_scan_and_report_remembers_nothing_and_ends_in_one_outcome() {
    let bench = Bench::new(&["v1"]).await;
    bench.point("v1", &pushed("new"));
    bench.scanner.scans_end(5, ScanState::Done);
    let run = refreshing("r", Mode::ContentRefresh);
    {
        let killed = bench.settle(&run);
        tokio::pin!(killed);
        until_scanning(&bench, killed.as_mut()).await;
    }
    assert!(bench.remembered().await.is_empty() && bench.asked().is_empty());
    let write = bench.carry_out("r", Mode::ContentRefresh).await;
    assert_eq!(bench.scanner.scans_started(), 2, "what was not remembered is scanned again");
    assert_eq!(bench.asked(), [pushed("new")]);
    assert_eq!(reported(&write), [("v1".to_owned(), pushed("new"))]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_scan_rejects_the_image_and_one_without_end_times_out() {
    let bench = Bench::new(&["v1"]).await;
    bench.point("v1", &pushed("new"));
    for (polls, end, expected) in
        [(2, ScanState::Failed, ErrorClass::Rejected), (u32::MAX, ScanState::Done, ErrorClass::Timeout)]
    {
        bench.scanner.scans_end(polls, end);
        let write = bench.settle(&refreshing("r", Mode::ContentRefresh)).await.unwrap();
        let OutcomeResult::Failed { class, message } = &write.outcome.result else { panic!("{:?}", write.outcome) };
        assert_eq!(*class, expected, "{message}");
        assert!(message.contains(&reference("v1")), "{message}");
        assert!(write.tags.is_none() && write.report.is_none());
    }
    assert!(bench.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn p11_a_stop_during_a_scan_asks_nothing_more() {
    let bench = Bench::new(&["v1"]).await;
    bench.point("v1", &pushed("new"));
    bench.scanner.scans_end(u32::MAX, ScanState::Done);
    let run = refreshing("r", Mode::ContentRefresh);
    let stopped = bench.settle(&run);
    tokio::pin!(stopped);
    until_scanning(&bench, stopped.as_mut()).await;
    bench.stop.cancel();
    let write = stopped.await;
    assert!(write.is_none() && bench.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn several_tags_give_one_outcome_with_all_that_is_new() {
    let bench = Bench::new(&["a", "b", "c", "d"]).await;
    bench.point("a", &own());
    bench.point("b", &pushed("new"));
    bench.point("c", &pushed("new"));
    let mut run = refreshing("r", Mode::ContentRefresh);
    run.tags.include = ["a", "b", "c"].map(str::to_owned).to_vec();
    let write = bench.settle(&run).await.unwrap();
    assert_eq!(bench.scanner.resolved(), ["a", "b", "c"].map(reference), "the tags that the selection lets through");
    assert_eq!(bench.scanner.scans_started(), 1, "one digest is scanned once");
    assert_eq!(bench.asked(), [own(), pushed("new")], "and reported on once");
    let expected = [("a", own()), ("b", pushed("new")), ("c", pushed("new"))];
    assert_eq!(reported(&write), expected.map(|(tag, digest)| (tag.to_owned(), digest)));
    let OutcomeResult::Reported { delta, .. } = &write.outcome.result else { panic!("{:?}", write.outcome) };
    assert_eq!(delta.new_criticals, 2);
    assert_eq!(write.outcome.digest, own());
}

#[tokio::test(start_paused = true)]
async fn analysis_alone_reports_on_what_tags_point_to_and_scans_nothing() {
    let bench = Bench::new(&["v1"]).await;
    bench.point("v1", &pushed("new"));
    let write = bench.carry_out("r", Mode::AnalysisOnly).await;
    assert_eq!((bench.scanner.scans_started(), bench.asked()), (0, vec![pushed("new")]));
    assert_eq!(reported(&write), [("v1".to_owned(), pushed("new"))]);
}

#[tokio::test(start_paused = true)]
async fn an_image_without_a_tag_is_only_analysed() {
    let bench = Bench::new(&[]).await;
    let write = bench.carry_out("r", Mode::ContentRefresh).await;
    assert!(bench.scanner.resolved().is_empty() && reported(&write).is_empty() && write.tags.is_none());
    assert_eq!(bench.asked(), [own()]);
    // And so is one that the catalog has lost meanwhile.
    bench.services.store.delete_image(&alpha(), &own()).await.unwrap();
    assert!(bench.settle(&refreshing("r2", Mode::ContentRefresh)).await.unwrap().report.is_some());
}

#[tokio::test(start_paused = true)]
async fn tags_that_a_run_does_not_follow_stay_remembered() {
    let bench = Bench::new(&["a", "b"]).await;
    bench.point("a", &pushed("a1"));
    bench.point("b", &pushed("b1"));
    bench.carry_out("r1", Mode::ContentRefresh).await;
    let mut run = refreshing("r2", Mode::ContentRefresh);
    run.tags.include = vec!["a".to_owned()];
    bench.point("a", &pushed("a2"));
    let tags = bench.settle(&run).await.unwrap().tags.unwrap().tags;
    assert_eq!((tags.get("a"), tags.get("b")), (Some(&pushed("a2")), Some(&pushed("b1"))));
}
