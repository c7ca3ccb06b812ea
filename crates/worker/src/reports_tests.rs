//! The view of reports against the store's records, whatever comes in whatever order.

use crate::index_host::IndexHost;
use proptest::prelude::*;
use roaring::RoaringBitmap;
use scheduler_core::ports::{CatalogStore, OutcomeWrite, ReportStore, RunStore};
use scheduler_impact_index::Stale;
use scheduler_model::{Image, ReportRecord, TenantId, Timestamp};
use scheduler_store::EmbeddedStore;
use scheduler_testkit::store::build::*;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const IMAGES: usize = 6;
const REVISIONS: [&str; 2] = ["rev-1", "rev-2"];
const DAY: i64 = 86_400_000;

#[derive(Debug, Clone)]
enum Op {
    /// An image, whose tag tells one content from another.
    Put(usize, u8),
    Delete(usize),
    /// An image's report: so many milliseconds after the epoch, under that policy.
    Report(usize, i64, Option<usize>),
    Rebuild,
    /// The process ends and another one begins.
    Restart,
    /// Somebody asks, with an edge of time and a policy.
    Ask(i64, Option<usize>),
}

fn millis() -> impl Strategy<Value = i64> {
    (0_i64..4, -1_i64..2).prop_map(|(day, off)| day * DAY + off)
}

fn op() -> impl Strategy<Value = Op> {
    let (image, revision) = (|| 0..IMAGES, || proptest::option::of(0..REVISIONS.len()));
    prop_oneof![
        6 => (image(), 0_u8..2).prop_map(|(image, tag)| Op::Put(image, tag)),
        3 => image().prop_map(Op::Delete),
        6 => (image(), millis(), revision()).prop_map(|(image, at, revision)| Op::Report(image, at, revision)),
        1 => Just(Op::Rebuild),
        1 => Just(Op::Restart),
        4 => (millis(), revision()).prop_map(|(edge, revision)| Op::Ask(edge, revision)),
    ]
}

/// The image of that number, of one of two tenants.
fn place(number: usize) -> (TenantId, usize) {
    (if number.is_multiple_of(3) { beta() } else { alpha() }, number / 2)
}

struct Process {
    store: Arc<EmbeddedStore>,
    host: Arc<IndexHost>,
    stop: CancellationToken,
    follows: JoinHandle<()>,
    runs: usize,
}

impl Process {
    fn start(folder: &Path, runs: usize) -> Self {
        let store = Arc::new(EmbeddedStore::open(&folder.join("store")).unwrap());
        let host = IndexHost::open(store.clone(), store.clone(), Some(folder.join("index"))).unwrap();
        let stop = CancellationToken::new();
        let follows = tokio::spawn(host.clone().follow(stop.clone()));
        Self { store, host, stop, follows, runs }
    }

    async fn end(self) -> usize {
        self.stop.cancel();
        self.follows.await.unwrap();
        self.runs
    }

    async fn report(&mut self, number: usize, at: i64, revision: Option<usize>) {
        let (tenant, image) = place(number);
        self.runs += 1;
        let made = run(&tenant, &format!("r-{}", self.runs));
        self.store.begin_run(new_run(&made)).await.unwrap();
        self.store.commit_plan(plan(&made, &[&[image]])).await.unwrap();
        let policy_revision = revision.map(|at| REVISIONS[at].to_owned());
        let record = ReportRecord {
            reported_at: Timestamp::from_millis(at),
            policy_revision,
            findings: None,
            revision: 0,
            asked_at: None,
        };
        let write = OutcomeWrite { report: Some(record), ..outcome(&made, image, reported(0)) };
        let writes = vec![write];
        self.store.write_outcomes(&segment_id(&made.id, 0), 1, writes, made.created_at, false).await.unwrap();
    }

    /// What the view says of every image that is there, and what a look at its record says.
    async fn ask(&self, edge: i64, revision: Option<usize>) -> [Vec<bool>; 2] {
        let mut images = Vec::new();
        for (tenant, image) in (0..IMAGES).map(place) {
            if self.store.image(&tenant, &digest(image)).await.unwrap().is_some() {
                images.push((tenant, digest(image)));
            }
        }
        let (before, revision) = (Some(Timestamp::from_millis(edge)), revision.map(|at| REVISIONS[at]));
        let heads = self.store.report_heads(&images).await.unwrap();
        let naive = heads.iter().map(|head| {
            head.as_ref().is_some_and(|head| {
                Some(head.reported_at) >= before
                    && revision.is_none_or(|wanted| head.policy_revision.as_deref() == Some(wanted))
            })
        });
        self.host.caught_up(Duration::from_secs(60)).await.unwrap();
        let seen = self.host.with_reports(move |index, reports| {
            let (_, ordinals) = index.ordinals(images.iter().map(|(tenant, digest)| (tenant, digest)));
            let all: RoaringBitmap = ordinals.iter().map(|ordinal| ordinal.unwrap()).collect();
            let fresh = reports.fresh(&all, &Stale { before, revision_other_than: revision });
            ordinals.into_iter().map(|ordinal| fresh.contains(ordinal.unwrap())).collect()
        });
        [seen.await.unwrap(), naive.collect()]
    }
}

async fn carry_out(ops: Vec<Op>) -> Result<(), TestCaseError> {
    let folder = TempDir::new().unwrap();
    let mut process = Process::start(folder.path(), 0);
    for op in ops.into_iter().chain([Op::Ask(DAY, None), Op::Ask(0, Some(0))]) {
        match op {
            Op::Put(number, tag) => {
                let (tenant, number) = place(number);
                let mut image: Image = image(&tenant, number);
                image.place.tags = vec![tag.to_string()];
                process.store.put_images(vec![image]).await.unwrap();
            }
            Op::Delete(number) => {
                let (tenant, number) = place(number);
                process.store.delete_image(&tenant, &digest(number)).await.unwrap();
            }
            Op::Report(number, at, revision) => process.report(number, at, revision).await,
            Op::Rebuild => process.host.rebuild().await.unwrap(),
            Op::Restart => {
                let runs = process.end().await;
                process = Process::start(folder.path(), runs);
            }
            Op::Ask(edge, revision) => {
                let [seen, naive] = process.ask(edge, revision).await;
                prop_assert_eq!(seen, naive);
            }
        }
    }
    process.end().await;
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn wrk_3_the_view_of_reports_says_what_the_records_say(ops in proptest::collection::vec(op(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(carry_out(ops))?;
    }
}
