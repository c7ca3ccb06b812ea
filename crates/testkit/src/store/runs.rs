//! The contract of `RunStore`. Some cases need an inbox beside it.

#![expect(missing_docs, reason = "the name of a case is what it checks, and the macro is how to run it")]

mod ending;
mod listing;
mod model;
mod writing;

pub use ending::*;
pub use listing::*;
pub use model::*;
pub use writing::*;

use super::build::*;
use scheduler_core::ports::{Begun, RunStore};
use scheduler_model::{OutboundBody, Run, RunState, TenantId};

/// One test for each case of the contract of `RunStore`; the store has to be an `EventStore` too.
#[macro_export]
macro_rules! run_store_contract {
    ($make:path) => {
        $crate::store_cases!($make, runs:
            p03_beginning_a_run_again_changes_nothing,
            p03_of_simultaneous_begins_one_is_new,
            p03_an_idempotency_key_starts_one_run_for_a_day,
            p03_a_run_takes_its_batches_out_of_the_waiting_list_once,
            a_run_that_is_planned_has_its_input_until_then,
            p04_a_plan_is_made_durable_once,
            p04_a_plan_whose_numbers_do_not_hold_is_refused,
            p04_a_run_without_images_is_completed_at_once,
            what_is_left_over_is_replaced_by_the_next_plan,
            p06_a_lower_token_neither_claims_nor_writes,
            p04_a_claim_gives_what_has_no_outcome,
            claims_that_came_to_nothing_are_counted_until_something_is_written,
            p04_outcome_is_unique_under_redelivery,
            p04_an_image_of_another_segment_is_refused_with_all,
            p05_outcome_event_and_baseline_are_one_write,
            p05_of_two_runs_at_once_one_counts_a_finding_as_new,
            p04_the_last_outcome_ends_the_run,
            p05_every_move_and_asked_progress_is_announced,
            a_run_starts_once,
            p11_a_cancel_waits_for_the_last_outcome,
            p11_a_run_in_planning_is_cancelled_at_once,
            p04_skipping_the_rest_ends_the_run,
            p04_a_failed_run_has_outcomes_for_every_image,
            p02_runs_of_another_tenant_are_not_there,
            runs_are_listed_newest_first_and_filtered,
            p02_cursors_of_nowhere_are_refused,
            outcomes_are_listed_by_digest_and_kind,
            the_newest_run_and_the_live_ones_of_a_schedule_are_known,
            p10_the_load_counts_what_is_open,
            p10_of_simultaneous_begins_no_more_than_allowed_are_new,
            p02_outbox_numbers_begin_with_one_for_every_tenant,
            p10_large_events_are_read_a_few_at_a_time,
            p05_the_outbox_is_read_in_order_and_trimmed_by_time,
            p04_stats_are_the_sums_of_the_outcomes_whatever_happens,
        );
    };
}

/// Begins a run and plans the given segments.
async fn planned(store: &impl RunStore, run: &Run, segments: &[&[usize]]) -> Run {
    assert_eq!(store.begin_run(new_run(run)).await.unwrap(), Begun::New);
    store.commit_plan(plan(run, segments)).await.unwrap();
    get(store, run).await
}

async fn get(store: &impl RunStore, run: &Run) -> Run {
    store.run(&run.tenant, &run.id).await.unwrap().unwrap()
}

/// The states that a tenant's outbox tells, and `event` for each event of an image.
async fn told(store: &impl RunStore, tenant: &TenantId) -> Vec<&'static str> {
    let events = all_events(store, tenant).await;
    let words = events.iter().map(|event| match &event.body {
        OutboundBody::Image(..) => "event",
        OutboundBody::RunUpdated(run) => run.state.as_str(),
    });
    words.collect()
}

/// Every outcome of a run adds up to its numbers, and all images have one exactly when it has ended (P4).
async fn assert_sums(store: &impl RunStore, run: &Run) {
    let outcomes = store.outcomes(&run.id, None, None, 10_000).await.unwrap().items;
    let mut sums = run.stats.clone();
    for count in [
        &mut sums.completed,
        &mut sums.failed,
        &mut sums.skipped,
        &mut sums.deltas,
        &mut sums.new_criticals,
        &mut sums.new_high,
        &mut sums.kev_hits,
    ] {
        *count = 0;
    }
    outcomes.iter().for_each(|outcome| sums.count(outcome));
    assert_eq!(run.stats, sums, "{}", run.id);
    assert_eq!(outcomes.len() as u64, run.stats.ended());
    if run.state != RunState::Planning {
        assert_eq!(run.state.is_ended(), run.stats.ended() == run.stats.queued, "{run:?}");
    }
    assert_eq!(run.state.is_ended(), run.finished_at.is_some());
}
