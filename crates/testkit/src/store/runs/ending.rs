//! How runs end.

use super::*;
use scheduler_core::ports::StoreError;
use scheduler_model::{OutcomeResult, SkipReason};

pub async fn p04_the_last_outcome_ends_the_run(store: &impl RunStore) {
    let made = planned(store, &run(&alpha(), "r"), &[&[1], &[2]]).await;
    for (position, number) in [(1, 2), (0, 1)] {
        let segment = segment_id(&made.id, position);
        store.write_outcomes(&segment, 1, vec![outcome(&made, number, reported(0))], at(9), false).await.unwrap();
    }
    let run = get(store, &made).await;
    assert_eq!((run.state, run.finished_at), (RunState::Completed, Some(at(9))));
    assert!(store.open_segments().await.unwrap().is_empty());
    assert_sums(store, &run).await;
}

pub async fn p05_every_move_and_asked_progress_is_announced(store: &impl RunStore) {
    let made = planned(store, &run(&alpha(), "r"), &[&[1, 2, 3]]).await;
    let segment = segment_id(&made.id, 0);
    for (number, announce) in [(1, false), (2, true), (3, false)] {
        let writes = vec![outcome(&made, number, reported(0))];
        store.write_outcomes(&segment, 1, writes, at(4), announce).await.unwrap();
    }
    let expected = ["queued", "event", "running", "event", "running", "event", "completed"];
    assert_eq!(told(store, &alpha()).await, expected);
    let last = store.outbox(&alpha(), 6, 9).await.unwrap();
    let OutboundBody::RunUpdated(run) = &last[0].body else { panic!("{last:?}") };
    assert_eq!(**run, get(store, &made).await, "the run as it stood then");
}

pub async fn p11_a_cancel_waits_for_the_last_outcome(store: &impl RunStore) {
    let made = planned(store, &run(&alpha(), "r"), &[&[1, 2]]).await;
    let asked = store.request_cancel(&alpha(), &made.id, at(5)).await.unwrap();
    assert_eq!((asked.state, asked.cancel_requested_at), (RunState::Queued, Some(at(5))));
    assert_eq!(store.request_cancel(&alpha(), &made.id, at(6)).await.unwrap(), asked);
    assert!(matches!(store.request_cancel(&beta(), &made.id, at(6)).await, Err(StoreError::NotFound { .. })));
    let segment = segment_id(&made.id, 0);
    store.write_outcomes(&segment, 1, vec![outcome(&made, 1, reported(0))], at(7), false).await.unwrap();
    store.write_outcomes(&segment, 1, vec![outcome(&made, 2, skipped())], at(8), false).await.unwrap();
    let run = get(store, &made).await;
    assert_eq!((run.state, run.finished_at), (RunState::Cancelled, Some(at(8))));
    assert!(matches!(store.request_cancel(&alpha(), &made.id, at(9)).await, Err(StoreError::Conflict { .. })));
    assert_sums(store, &run).await;
}

pub async fn p11_a_run_in_planning_is_cancelled_at_once(store: &impl RunStore) {
    let made = run(&alpha(), "r");
    store.begin_run(new_run(&made)).await.unwrap();
    let run = store.request_cancel(&alpha(), &made.id, at(5)).await.unwrap();
    assert_eq!((run.state, run.finished_at, run.stats.queued), (RunState::Cancelled, Some(at(5)), 0));
    assert!(store.planning().await.unwrap().is_empty());
    assert!(matches!(store.commit_plan(plan(&made, &[&[1]])).await, Err(StoreError::Conflict { .. })));
    assert!(store.open_segments().await.unwrap().is_empty());
    assert_eq!(told(store, &alpha()).await, ["cancelled"]);
    assert_eq!(store.load(&alpha()).await.unwrap(), (0, 0));
}

pub async fn p04_skipping_the_rest_ends_the_run(store: &impl RunStore) {
    let states = [(SkipReason::Cancelled, RunState::Cancelled), (SkipReason::Expired, RunState::Completed)];
    for (name, (reason, state)) in ["r", "s"].into_iter().zip(states) {
        let made = planned(store, &run(&alpha(), name), &[&[1, 2], &[3]]).await;
        let segment = segment_id(&made.id, 0);
        store.claim(&segment, 8).await.unwrap();
        store.write_outcomes(&segment, 8, vec![outcome(&made, 1, reported(1))], at(4), false).await.unwrap();
        let ended = store.skip_rest(&alpha(), &made.id, reason, at(6)).await.unwrap();
        assert_eq!((ended.state, ended.stats.skipped, ended.finished_at), (state, 2, Some(at(6))));
        assert_eq!(store.skip_rest(&alpha(), &made.id, reason, at(7)).await.unwrap(), ended);
        let late = vec![outcome(&made, 2, reported(1))];
        let late = store.write_outcomes(&segment, 8, late, at(8), false).await.unwrap();
        assert_eq!((late.inserted, &late.run), (0, &ended), "an outcome that comes late finds one there");
        assert_eq!(store.claim(&segment, 9).await.unwrap(), None);
        let skips = store.outcomes(&made.id, Some("skipped"), None, 9).await.unwrap().items;
        assert!(skips.iter().all(|skip| skip.result == OutcomeResult::Skipped { reason } && skip.attempts == 0));
        assert_eq!(skips[0].repository, "repo-2");
        assert!(store.open_segments().await.unwrap().is_empty());
        assert_sums(store, &ended).await;
    }
}

pub async fn p04_a_failed_run_has_outcomes_for_every_image(store: &impl RunStore) {
    let made = planned(store, &run(&alpha(), "r"), &[&[1, 2]]).await;
    for millis in [5, 6] {
        store.fail_run(&alpha(), &made.id, "the policy is gone", at(millis)).await.unwrap();
    }
    let failed = get(store, &made).await;
    assert_eq!((failed.state, failed.finished_at, failed.stats.skipped), (RunState::Error, Some(at(5)), 2));
    assert_eq!(failed.error.as_deref(), Some("the policy is gone"));
    assert_sums(store, &failed).await;
    let unplanned = run(&alpha(), "u");
    store.begin_run(new_run(&unplanned)).await.unwrap();
    store.fail_run(&alpha(), &unplanned.id, "x", at(7)).await.unwrap();
    assert!(store.planning().await.unwrap().is_empty());
    let done = planned(store, &run(&alpha(), "d"), &[]).await;
    let late = store.fail_run(&alpha(), &done.id, "x", at(8)).await;
    assert!(matches!(late, Err(StoreError::Conflict { .. })));
    assert_eq!(told(store, &alpha()).await, ["queued", "error", "error", "completed"]);
}
