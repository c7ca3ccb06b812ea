//! Everything at once: planner and runner over a catalog, with exports, runs by hand, duplicates, failures of the scanner, a
//! store that goes away, and crashes, all drawn from a seed. After every step the promises that must always hold are checked, and
//! at the end those of the end. A failure names its seed; `SIMULATION_SEED` repeats it, `SOAK=1` runs many.

use crate::bench::{Bench, Options, Seeded, export_of, hears_feedser};
use scheduler_core::ports::{Accepted, RunStore};
use scheduler_model::{ErrorClass, OutboundBody, Priority, Run, RunLimits};
use scheduler_testkit::scanner::{ScriptedScanner, failing, refused, report_of};
use scheduler_testkit::store::build::{all_events, alpha};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const IMAGES: usize = 40;
const STEPS: usize = 25;
const SEEDS: u64 = 6;
const SOAK_SEEDS: u64 = 400;

struct Simulation {
    bench: Bench,
    random: Arc<Seeded>,
    calm: Arc<AtomicBool>,
    exports: u64,
    manual: u64,
    /// The images that some accepted export selects.
    selected: BTreeSet<usize>,
    /// The outcomes that were seen, by run and image.
    seen: BTreeMap<(String, String), String>,
}

#[tokio::test(start_paused = true)]
async fn every_promise_holds_whatever_happens() {
    let given = std::env::var("SIMULATION_SEED").ok().and_then(|seed| seed.parse().ok());
    let soak = std::env::var("SOAK").is_ok();
    let seeds = match given {
        Some(seed) => seed..seed + 1,
        None => 0..if soak { SOAK_SEEDS } else { SEEDS },
    };
    for seed in seeds {
        // Shown only when the test fails.
        println!("SIMULATION_SEED={seed}");
        Simulation::start(seed).await.carry_out().await;
    }
}

impl Simulation {
    async fn start(seed: u64) -> Self {
        let random = Arc::new(Seeded::new(seed));
        let calm = Arc::new(AtomicBool::new(false));
        let (dice, quiet) = (random.clone(), calm.clone());
        let scanner = ScriptedScanner::new(move |_, _| {
            let drawn = if quiet.load(Ordering::SeqCst) { 99 } else { dice.below(100) };
            Err(match drawn {
                0..6 => failing(ErrorClass::Throttled, Some(Duration::from_secs(drawn))),
                6..12 => failing(ErrorClass::ServerError, None),
                12..15 => failing(ErrorClass::Timeout, None),
                15..17 => failing(ErrorClass::BadResponse, None),
                17 => refused(),
                18 => failing(ErrorClass::Rejected, None),
                _ => return Ok(report_of(Default::default())),
            })
        });
        let mut options = Options::default();
        options.settings.run_defaults.parallelism = 3;
        options.settings.debounce = Duration::from_secs(5);
        let bench = Bench::start(scanner.delayed(Duration::from_millis(150)), options).await;
        bench.put(0..IMAGES).await;
        bench.schedule(hears_feedser(&alpha(), "s")).await;
        let mut limited = hears_feedser(&alpha(), "limited");
        limited.spec.limits.max_jobs = Some(3);
        bench.schedule(limited).await;
        let (selected, seen) = (BTreeSet::new(), BTreeMap::new());
        Self { bench, random, calm, exports: 0, manual: 0, selected, seen }
    }

    async fn carry_out(mut self) {
        for _ in 0..STEPS {
            self = self.step().await;
            self.check().await;
        }
        self.calm.store(true, Ordering::SeqCst);
        let bench = &self.bench;
        let all_ended = async || {
            let runs = bench.runs().await;
            let waits = bench.services.store.waiting().await.unwrap();
            let spills = bench.store.spills_before(bench.now().plus(Duration::from_secs(1))).await.unwrap();
            let nothing_left = spills.iter().all(|spill| spill.digests.is_empty());
            runs.iter().all(|run| run.state.is_ended()) && waits.is_empty() && nothing_left
        };
        // What was accepted last may not have become a run yet.
        tokio::time::sleep(Duration::from_secs(30)).await;
        bench.until("every run ends", all_ended).await;
        self.check().await;
        self.check_end().await;
    }

    async fn step(mut self) -> Self {
        match self.random.below(10) {
            0..3 => self.deliver().await,
            3 => {
                self.manual += 1;
                self.bench.begin(&format!("manual-{}", self.manual), RunLimits::default()).await;
            }
            4 => self.bench = self.bench.crash().await,
            5 => {
                self.bench.store.set_away(true);
                self.pass(4_000).await;
                self.bench.store.set_away(false);
            }
            _ => self.pass(8_000).await,
        }
        self.pass(300).await;
        self
    }

    async fn pass(&self, millis_max: u64) {
        tokio::time::sleep(Duration::from_millis(self.random.below(millis_max))).await;
    }

    /// An export of some keys, sometimes sent twice.
    async fn deliver(&mut self) {
        self.exports += 1;
        let urgency = [Priority::Normal, Priority::Normal, Priority::Critical, Priority::Kev];
        let images: Vec<usize> =
            (0..=self.random.below(4)).map(|_| usize::try_from(self.random.below(IMAGES as u64)).unwrap()).collect();
        let keys: Vec<(String, Priority)> = images
            .iter()
            .map(|image| (format!("pkg:npm/p{image}"), urgency[usize::try_from(self.random.below(4)).unwrap()]))
            .collect();
        let keys: Vec<(&str, Priority)> = keys.iter().map(|(key, urgency)| (key.as_str(), *urgency)).collect();
        let export = export_of(&format!("e{}", self.exports), "1", &keys);
        assert_eq!(self.bench.deliver(export.clone()).await, Accepted::New);
        self.selected.extend(images);
        if self.random.below(3) == 0 {
            self.pass(2_000).await;
            assert!(matches!(self.bench.deliver(export).await, Accepted::Duplicate(_)));
        }
    }

    /// P4 and P5 as far as they hold at any time: one outcome for an image that never changes, sums, one id for an event.
    async fn check(&mut self) {
        for run in self.bench.runs().await {
            self.bench.check_sums(&run).await;
            for outcome in self.bench.outcomes(&run).await {
                let key = (run.id.to_string(), outcome.digest.to_string());
                let text = format!("{outcome:?}");
                let before = self.seen.entry(key).or_insert_with(|| text.clone());
                assert_eq!(*before, text, "an outcome changed");
            }
        }
        let mut told = HashSet::new();
        for event in all_events(&*self.bench.store, &alpha()).await {
            if let OutboundBody::Image(_, image) = event.body {
                assert!(told.insert((image.run_id.clone(), image.image_digest.clone())), "told twice: {image:?}");
            }
        }
    }

    /// No key is lost, for either schedule; every verdict was told.
    async fn check_end(&self) {
        let runs = self.bench.runs().await;
        for schedule in ["s", "limited"] {
            let mut asked = BTreeSet::new();
            for run in runs.iter().filter(|run| is_of(run, schedule)) {
                asked.extend(self.bench.images_of(run).await);
            }
            assert_eq!(asked, self.selected, "the images that {schedule} asked about");
        }
        let exports: Vec<_> =
            runs.iter().filter(|run| is_of(run, "s")).flat_map(|run| &run.reason.export_ids).collect();
        assert_eq!(exports.len() as u64, self.exports, "each export in one run (P3)");
        let manual = runs.iter().filter(|run| run.schedule.is_none());
        assert!(manual.clone().all(|run| run.stats.queued == IMAGES as u64));
        assert_eq!(manual.count() as u64, self.manual);
        let verdicts: u64 = runs.iter().map(|run| run.stats.completed).sum();
        let events = all_events(&*self.bench.store, &alpha()).await;
        let told = events.iter().filter(|event| matches!(event.body, OutboundBody::Image(..))).count();
        assert_eq!(told as u64, verdicts, "every verdict is told (P5)");
    }
}

fn is_of(run: &Run, schedule: &str) -> bool {
    run.schedule.as_ref().is_some_and(|id| id.as_str() == schedule)
}
