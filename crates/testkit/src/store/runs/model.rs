//! Random operations against a naive model.

use super::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use scheduler_core::ports::StoreError;
use scheduler_model::{OutcomeResult, SkipReason};
use std::collections::BTreeMap;

/// Images of each of the two segments of a model run.
const SEGMENTS: [&[usize]; 2] = [&[0, 1, 2, 3], &[4, 5, 6]];
const CASES: usize = 40;

/// Something that may happen to a run.
#[derive(Debug, Clone)]
enum Step {
    Claim { segment: u32, fence: u64 },
    Write { segment: u32, fence: u64, outcomes: Vec<(usize, u64)>, announce: bool },
    Start,
    Cancel,
    Skip,
    Fail,
}

fn step() -> impl Strategy<Value = Step> {
    let write = (0..2_u32, 0..4_u64, proptest::collection::vec((0..4_usize, 0..4_u64), 0..4), any::<bool>());
    prop_oneof![
        3 => (0..2_u32, 0..4_u64).prop_map(|(segment, fence)| Step::Claim { segment, fence }),
        9 => write.prop_map(|(segment, fence, outcomes, announce)| Step::Write { segment, fence, outcomes, announce }),
        1 => Just(Step::Start),
        1 => Just(Step::Cancel),
        1 => prop::bool::weighted(0.3).prop_map(|skip| if skip { Step::Skip } else { Step::Start }),
        1 => prop::bool::weighted(0.3).prop_map(|fail| if fail { Step::Fail } else { Step::Cancel }),
    ]
}

/// What an image got: the number of new findings, 3 for a failure; `None` for skipped.
type Given = BTreeMap<usize, Option<u64>>;

/// What the store should hold, in the plainest form.
#[derive(Debug, Default)]
struct Model {
    fences: [u64; 2],
    given: Given,
    cancel: bool,
    error: bool,
    skipped: bool,
}

impl Model {
    fn ended(&self) -> bool {
        self.given.len() == SEGMENTS.iter().map(|images| images.len()).sum::<usize>()
    }

    fn skip_all(&mut self) {
        for &number in SEGMENTS.into_iter().flatten() {
            self.given.entry(number).or_insert(None);
        }
    }

    fn state_is(&self, state: RunState) -> bool {
        match state {
            RunState::Error => self.error,
            RunState::Cancelled => self.ended() && !self.error && (self.cancel || self.skipped),
            RunState::Completed => self.ended() && !self.error && !self.cancel && !self.skipped,
            RunState::Queued | RunState::Running => !self.ended(),
            RunState::Planning => false,
        }
    }
}

fn result(kind: u64) -> OutcomeResult {
    match kind {
        3 => OutcomeResult::Failed { class: scheduler_model::ErrorClass::Internal, message: String::new() },
        new => reported(new),
    }
}

async fn apply(store: &impl RunStore, made: &Run, model: &mut Model, step: &Step) {
    match step {
        &Step::Claim { segment, fence } => {
            let index = segment as usize;
            let answer = store.claim(&segment_id(&made.id, segment), fence).await;
            if fence < model.fences[index] {
                assert!(matches!(answer, Err(StoreError::Fenced { .. })));
                return;
            }
            model.fences[index] = fence;
            let open = SEGMENTS[index].iter().filter(|number| !model.given.contains_key(number));
            let open: Vec<_> = open.map(|&number| digest(number)).collect();
            let claimed = answer.unwrap().map(|claim| claim.segment.images).unwrap_or_default();
            assert_eq!(claimed.into_iter().map(|image| image.digest).collect::<Vec<_>>(), open);
        }
        Step::Write { segment, fence, outcomes, announce } => {
            let (index, before) = (*segment as usize, model.given.len());
            let outcomes: Vec<_> =
                outcomes.iter().map(|(n, kind)| (SEGMENTS[index][n % SEGMENTS[index].len()], *kind)).collect();
            let writes = outcomes.iter().map(|&(number, kind)| outcome(made, number, result(kind))).collect();
            let answer = store.write_outcomes(&segment_id(&made.id, *segment), *fence, writes, at(50), *announce).await;
            if *fence < model.fences[index] {
                assert!(matches!(answer, Err(StoreError::Fenced { .. })));
                return;
            }
            model.fences[index] = *fence;
            for (number, kind) in outcomes {
                model.given.entry(number).or_insert(Some(kind));
            }
            assert_eq!(answer.unwrap().inserted, model.given.len() - before);
        }
        Step::Start => store.mark_started(&made.tenant, &made.id, at(40)).await.unwrap(),
        Step::Cancel => {
            let answer = store.request_cancel(&made.tenant, &made.id, at(60)).await;
            assert_eq!(answer.is_ok(), !model.ended());
            model.cancel |= answer.is_ok();
        }
        Step::Skip => {
            store.skip_rest(&made.tenant, &made.id, SkipReason::Cancelled, at(70)).await.unwrap();
            model.skipped |= !model.ended();
            model.skip_all();
        }
        Step::Fail => {
            let answer = store.fail_run(&made.tenant, &made.id, "broken", at(80)).await;
            assert_eq!(answer.is_ok(), !model.ended() || model.error);
            model.error |= answer.is_ok();
            model.skip_all();
        }
    }
}

async fn check(store: &impl RunStore, made: &Run, model: &Model) {
    let run = get(store, made).await;
    assert_sums(store, &run).await;
    let listed = store.outcomes(&made.id, None, None, 100).await.unwrap().items;
    let listed: Vec<_> = listed.into_iter().map(|outcome| (outcome.digest, outcome.result)).collect();
    let expected = model.given.iter().map(|(&number, kind)| (digest(number), kind.map_or_else(skipped, result)));
    assert_eq!(listed, expected.collect::<Vec<_>>());
    assert!(model.state_is(run.state), "{:?} {model:?}", run.state);
    let live = u64::from(!run.state.is_ended());
    assert_eq!(store.load(&made.tenant).await.unwrap(), (live, 7 - model.given.len() as u64));
    let verdicts = model.given.values().filter(|kind| matches!(kind, Some(0..=2))).count();
    let events = told(store, &made.tenant).await;
    assert_eq!(events.iter().filter(|word| **word == "event").count(), verdicts);
    if run.state.is_ended() {
        assert_eq!(events.last(), Some(&run.state.as_str()));
    }
}

pub async fn p04_stats_are_the_sums_of_the_outcomes_whatever_happens(store: &impl RunStore) {
    let mut runner = TestRunner::deterministic();
    let steps = proptest::collection::vec(step(), 1..25);
    for case in 0..CASES {
        let steps = steps.new_tree(&mut runner).unwrap().current();
        let made = planned(store, &run(&id(&format!("tenant-{case}")), &format!("run-{case}")), &SEGMENTS).await;
        let mut model = Model::default();
        for step in &steps {
            apply(store, &made, &mut model, step).await;
            check(store, &made, &model).await;
        }
    }
}
