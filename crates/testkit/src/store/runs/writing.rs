//! Beginning, planning and writing.

use super::*;
use scheduler_core::ports::{
    Allowance, BACKLOG_LIMIT, Claim, EventStore, NewRun, OutcomeWrite, PlanInput, RUNS_LIMIT, Spill, StoreError,
    StoreResult, Subscription,
};
use scheduler_model::{Finding, ReportRecord, Run, RunState, Severity, TagRecord, TenantId};
use std::time::Duration;

pub async fn p03_beginning_a_run_again_changes_nothing(store: &impl RunStore) {
    let made = run(&alpha(), "r");
    let ended = planned(store, &made, &[]).await;
    let again = store.begin_run(new_run(&Run { trigger: scheduler_model::Trigger::Cron, ..made.clone() })).await;
    assert_eq!(again.unwrap(), Begun::Existing(made.id.clone()));
    assert_eq!(get(store, &made).await, ended);
    assert!(store.planning().await.unwrap().is_empty());
}

pub async fn p03_of_simultaneous_begins_one_is_new(store: &impl RunStore) {
    let begin = || store.begin_run(new_run(&run(&alpha(), "r")));
    let (a, b, c) = tokio::join!(begin(), begin(), begin());
    let answers = [a, b, c].map(Result::unwrap);
    assert_eq!(answers.iter().filter(|answer| **answer == Begun::New).count(), 1);
    assert_eq!(store.planning().await.unwrap().len(), 1);
}

pub async fn p03_an_idempotency_key_starts_one_run_for_a_day(store: &impl RunStore) {
    let begin = async |tenant: TenantId, name: &str, millis: i64, hash: &str| {
        let run = Run { created_at: at(millis), ..run(&tenant, name) };
        let idempotency = Some(("key".to_owned(), hash.to_owned()));
        store.begin_run(NewRun { idempotency, ..new_run(&run) }).await.unwrap()
    };
    let day = i64::try_from(Duration::from_secs(86_400).as_millis()).unwrap();
    assert_eq!(begin(alpha(), "r1", 0, "h").await, Begun::New);
    assert_eq!(begin(alpha(), "r2", 1, "h").await, Begun::Existing(id("r1")));
    assert_eq!(begin(alpha(), "r3", 2, "other").await, Begun::OtherContent);
    assert_eq!(begin(beta(), "r4", 3, "other").await, Begun::New, "keys are the tenant's");
    assert_eq!(begin(alpha(), "r5", day - 1, "h").await, Begun::Existing(id("r1")));
    assert_eq!(begin(alpha(), "r6", day, "other").await, Begun::New);
    assert_eq!(store.planning().await.unwrap().len(), 3);
}

pub async fn p10_of_simultaneous_begins_no_more_than_allowed_are_new(store: &impl RunStore) {
    let begin = async |tenant: TenantId, name: &str, key: Option<&str>, runs_max: u64, backlog_max: u64| {
        let idempotency = key.map(|key| (key.to_owned(), "h".to_owned()));
        let new = NewRun { idempotency, ..new_run(&run(&tenant, name)) };
        store.begin_run_within(new, Allowance { runs_max, backlog_max }).await
    };
    let at_once = ["r1", "r2", "r3", "r4"].map(|name| begin(alpha(), name, Some(name), 2, 9));
    let [a, b, c, d] = at_once;
    let (a, b, c, d) = tokio::join!(a, b, c, d);
    let answers = [a, b, c, d];
    assert_eq!(answers.iter().filter(|answer| matches!(answer, Ok(Begun::New))).count(), 2);
    let full = |answer: &StoreResult<Begun>, limit: &str| matches!(answer, Err(StoreError::Full { what, .. }) if *what == limit);
    assert_eq!(answers.iter().filter(|answer| full(answer, RUNS_LIMIT)).count(), 2);
    assert_eq!(store.planning().await.unwrap().len(), 2, "what was refused left no trace");
    let begun = store.planning().await.unwrap()[0].0.id.clone();
    let again = begin(alpha(), "r5", Some(begun.as_str()), 2, 9).await.unwrap();
    assert_eq!(again, Begun::Existing(begun), "a repeated request finds its run at the limit");
    assert_eq!(begin(beta(), "r6", None, 1, 9).await.unwrap(), Begun::New, "another tenant notices nothing");
    let made = run(&beta(), "r6");
    store.commit_plan(plan(&made, &[&[1, 2]])).await.unwrap();
    assert!(full(&begin(beta(), "r7", None, 9, 2).await, BACKLOG_LIMIT));
    assert_eq!(begin(beta(), "r7", None, 9, 3).await.unwrap(), Begun::New);
}

pub async fn p03_a_run_takes_its_batches_out_of_the_waiting_list_once<S: RunStore + EventStore>(store: &S) {
    let export = export("e", "1");
    store.accept(export.clone(), None, 9).await.unwrap();
    store.close_batch(batch("b", &[&export])).await.unwrap();
    let waits = |schedule: &str| Subscription { tenant: alpha(), schedule: id(schedule), batch: id("b") };
    store.distribute(&id("b"), vec![waits("s"), waits("t")]).await.unwrap();
    let begin = |name: &str, takes| store.begin_run(NewRun { takes, ..new_run(&run(&alpha(), name)) });
    let lacking = begin("r0", vec![waits("s"), waits("u")]).await;
    assert!(matches!(lacking, Err(StoreError::Conflict { .. })));
    assert_eq!(store.waiting().await.unwrap(), [waits("s"), waits("t")], "all or none");
    assert_eq!(store.run(&alpha(), &id("r0")).await.unwrap(), None);
    assert_eq!(begin("r1", vec![waits("s")]).await.unwrap(), Begun::New);
    assert_eq!(store.waiting().await.unwrap(), [waits("t")]);
    assert_eq!(begin("r1", vec![waits("s")]).await.unwrap(), Begun::Existing(id("r1")));
    assert!(matches!(begin("r2", vec![waits("s")]).await, Err(StoreError::Conflict { .. })));
    store.distribute(&id("b"), vec![waits("s")]).await.unwrap();
    assert_eq!(store.waiting().await.unwrap(), [waits("t")], "what was taken does not come back");
}

pub async fn a_run_that_is_planned_has_its_input_until_then(store: &impl RunStore) {
    let later = Run { created_at: at(5), ..run(&alpha(), "a") };
    let earlier = run(&beta(), "b");
    let input = PlanInput { keys: Some(vec!["pkg:npm/a".to_owned()]), ..plan_input() };
    store.begin_run(NewRun { input: input.clone(), ..new_run(&later) }).await.unwrap();
    store.begin_run(new_run(&earlier)).await.unwrap();
    let expected = [(earlier.clone(), plan_input()), (later, input)];
    let planning = async || -> Vec<_> {
        let all = store.planning().await.unwrap();
        all.into_iter().map(|(run, input)| (run, input.unwrap())).collect()
    };
    assert_eq!(planning().await, expected, "oldest first");
    store.commit_plan(plan(&earlier, &[&[1]])).await.unwrap();
    assert_eq!(planning().await, expected[1..]);
}

pub async fn p04_a_plan_is_made_durable_once(store: &impl RunStore) {
    let made = run(&alpha(), "r");
    let planned = planned(store, &made, &[&[1, 2], &[3]]).await;
    assert_eq!((planned.state, planned.stats.queued), (RunState::Queued, 3));
    let open = store.open_segments().await.unwrap();
    assert_eq!(open, plan(&made, &[&[1, 2], &[3]]).segments);
    let again = store.commit_plan(plan(&made, &[&[4]])).await;
    assert!(matches!(again, Err(StoreError::Conflict { .. })));
    assert_eq!(store.open_segments().await.unwrap(), open);
    let unknown = store.commit_plan(plan(&run(&alpha(), "unknown"), &[])).await;
    assert!(matches!(unknown, Err(StoreError::NotFound { .. })));
}

pub async fn p04_a_plan_whose_numbers_do_not_hold_is_refused(store: &impl RunStore) {
    let made = run(&alpha(), "r");
    store.begin_run(new_run(&made)).await.unwrap();
    let mut short = plan(&made, &[&[1, 2]]);
    short.run.stats.queued = 3;
    for wrong in [short, plan(&made, &[&[1, 2], &[2]])] {
        assert!(matches!(store.commit_plan(wrong).await, Err(StoreError::Conflict { .. })));
    }
    assert_eq!(get(store, &made).await.state, RunState::Planning);
}

pub async fn p04_a_run_without_images_is_completed_at_once(store: &impl RunStore) {
    let made = run(&alpha(), "r");
    store.begin_run(new_run(&made)).await.unwrap();
    let mut plan = plan(&made, &[]);
    plan.run.finished_at = Some(at(7));
    store.commit_plan(plan).await.unwrap();
    let run = get(store, &made).await;
    assert_eq!((run.state, run.finished_at), (RunState::Completed, Some(at(7))));
    assert_eq!(told(store, &alpha()).await, ["completed"]);
    assert_eq!(store.load(&alpha()).await.unwrap(), (0, 0));
    assert_sums(store, &run).await;
}

pub async fn what_is_left_over_is_replaced_by_the_next_plan(store: &impl RunStore) {
    let schedule = id("s");
    let spill = |name: &str, millis| Spill {
        tenant: alpha(),
        schedule: id("s"),
        run: id(name),
        since: at(millis),
        digests: vec![digest(9)],
    };
    let commit = async |name: &str, spills: bool, left_over| {
        let run = of_schedule(run(&alpha(), name), "s");
        let input = PlanInput { spills, ..plan_input() };
        store.begin_run(NewRun { input, ..new_run(&run) }).await.unwrap();
        store.commit_plan(scheduler_core::ports::PlannedRun { left_over, ..plan(&run, &[]) }).await.unwrap();
    };
    commit("r1", true, Some(spill("r1", 10))).await;
    assert_eq!(store.spill(&alpha(), &schedule).await.unwrap(), Some(spill("r1", 10)));
    commit("r2", true, Some(spill("r2", 20))).await;
    commit("r3", false, None).await;
    assert_eq!(store.spill(&alpha(), &schedule).await.unwrap(), Some(spill("r2", 20)), "a run that only counts");
    assert_eq!(store.spills_before(at(21)).await.unwrap(), [spill("r2", 20)]);
    assert!(store.spills_before(at(20)).await.unwrap().is_empty());
    assert_eq!(store.spill(&beta(), &schedule).await.unwrap(), None);
    commit("r4", true, None).await;
    assert_eq!(store.spill(&alpha(), &schedule).await.unwrap(), None);
}

pub async fn p06_a_lower_token_neither_claims_nor_writes(store: &impl RunStore) {
    let made = planned(store, &run(&alpha(), "r"), &[&[1, 2], &[3]]).await;
    let (first, second) = (segment_id(&made.id, 0), segment_id(&made.id, 1));
    assert!(store.claim(&first, 5).await.unwrap().is_some());
    assert!(store.claim(&first, 5).await.unwrap().is_some(), "the owner may claim again");
    assert!(store.claim(&first, 7).await.unwrap().is_some());
    let write = |fence| store.write_outcomes(&first, fence, vec![outcome(&made, 1, reported(1))], at(4), true);
    for stale in [5, 6] {
        assert!(matches!(store.claim(&first, stale).await, Err(StoreError::Fenced { .. })));
        assert!(matches!(write(stale).await, Err(StoreError::Fenced { .. })));
    }
    assert_eq!(get(store, &made).await, made, "nothing of it is there");
    assert_eq!(told(store, &alpha()).await, ["queued"]);
    assert_eq!(store.reports(&alpha(), &[digest(1)]).await.unwrap(), [None]);
    assert_eq!(write(7).await.unwrap().inserted, 1);
    assert!(store.claim(&second, 1).await.unwrap().is_some(), "tokens are of one segment");
}

pub async fn p04_a_claim_gives_what_has_no_outcome(store: &impl RunStore) {
    let made = planned(store, &run(&alpha(), "r"), &[&[3, 1, 2], &[4]]).await;
    let segment = segment_id(&made.id, 0);
    store.write_outcomes(&segment, 1, vec![outcome(&made, 1, reported(0))], at(4), false).await.unwrap();
    let Claim { run: claimed, segment: rest, .. } = store.claim(&segment, 2).await.unwrap().unwrap();
    assert_eq!(claimed, get(store, &made).await);
    assert_eq!(rest.images.iter().map(|image| image.digest.clone()).collect::<Vec<_>>(), [digest(3), digest(2)]);
    let others = vec![outcome(&made, 2, reported(0)), outcome(&made, 3, reported(0))];
    store.write_outcomes(&segment, 2, others, at(5), false).await.unwrap();
    assert_eq!(store.claim(&segment, 3).await.unwrap(), None);
    assert_eq!(store.claim(&id("unknown"), 3).await.unwrap(), None);
    let open: Vec<_> = store.open_segments().await.unwrap().into_iter().map(|segment| segment.id).collect();
    assert_eq!(open, [segment_id(&made.id, 1)]);
}

pub async fn claims_that_came_to_nothing_are_counted_until_something_is_written(store: &impl RunStore) {
    let made = planned(store, &run(&alpha(), "r"), &[&[1, 2], &[3]]).await;
    let segment = segment_id(&made.id, 0);
    let futile = async |fence| store.claim(&segment, fence).await.unwrap().unwrap().futile;
    assert_eq!(futile(1).await, 0);
    assert_eq!(futile(1).await, 0, "the same claim");
    assert_eq!(futile(2).await, 1);
    assert_eq!(futile(5).await, 2);
    assert!(store.claim(&segment, 4).await.is_err());
    assert_eq!(store.claim(&segment_id(&made.id, 1), 9).await.unwrap().unwrap().futile, 0, "of one segment");
    store.write_outcomes(&segment, 5, Vec::new(), at(4), false).await.unwrap();
    assert_eq!(futile(6).await, 0, "the last claim ended in peace");
    assert_eq!(futile(7).await, 1);
    store.write_outcomes(&segment, 7, vec![outcome(&made, 1, reported(0))], at(4), false).await.unwrap();
    assert_eq!(futile(8).await, 0);
}

pub async fn p04_outcome_is_unique_under_redelivery(store: &impl RunStore) {
    let made = planned(store, &run(&alpha(), "r"), &[&[1, 2]]).await;
    let segment = segment_id(&made.id, 0);
    let first = vec![outcome(&made, 1, reported(2)), outcome(&made, 1, reported(3))];
    let written = store.write_outcomes(&segment, 1, first, at(4), false).await.unwrap();
    assert_eq!((written.inserted, written.run.stats.completed, written.run.stats.new_criticals), (1, 1, 2));
    let told_once = told(store, &alpha()).await;
    let again = store.write_outcomes(&segment, 2, vec![outcome(&made, 1, reported(5))], at(5), false).await.unwrap();
    assert_eq!((again.inserted, again.run), (0, written.run));
    assert_eq!(told(store, &alpha()).await, told_once);
    assert_sums(store, &get(store, &made).await).await;
}

pub async fn p04_an_image_of_another_segment_is_refused_with_all(store: &impl RunStore) {
    let made = planned(store, &run(&alpha(), "r"), &[&[1], &[2]]).await;
    let segment = segment_id(&made.id, 0);
    let mut of_other_run = outcome(&made, 1, reported(0));
    of_other_run.outcome.run = id("other");
    for wrong in [outcome(&made, 2, reported(0)), of_other_run] {
        let writes = vec![outcome(&made, 1, reported(0)), wrong];
        let answer = store.write_outcomes(&segment, 1, writes, at(4), true).await;
        assert!(matches!(answer, Err(StoreError::NotFound { .. })));
    }
    assert_eq!(get(store, &made).await, made);
}

pub async fn p05_outcome_event_and_baseline_are_one_write(store: &impl RunStore) {
    let made = planned(store, &run(&alpha(), "r"), &[&[1, 2, 3]]).await;
    let segment = segment_id(&made.id, 0);
    let mut writes = vec![outcome(&made, 1, reported(1)), outcome(&made, 2, skipped())];
    let tags = TagRecord { tags: [("v1".to_owned(), digest(7))].into() };
    writes[0].tags = Some(tags.clone());
    let written = store.write_outcomes(&segment, 1, writes.clone(), at(4), false).await.unwrap();
    assert_eq!((written.run.state, written.run.started_at), (RunState::Running, Some(at(2))));
    assert_eq!(written.run.first_verdict_at, Some(at(3)));
    assert_eq!(get(store, &made).await, written.run);
    assert_eq!(told(store, &alpha()).await, ["queued", "event", "running"]);
    let reports = store.reports(&alpha(), &[digest(2), digest(1)]).await.unwrap();
    assert_eq!(reports, [None, writes[0].report.clone()], "in the order asked");
    assert_eq!(store.reports(&beta(), &[digest(1)]).await.unwrap(), [None]);
    assert_eq!(store.tags(&beta(), &digest(1)).await.unwrap(), None);
    assert_eq!(store.tags(&alpha(), &digest(2)).await.unwrap(), None);
    assert_eq!(store.tags(&alpha(), &digest(1)).await.unwrap(), Some(tags.clone()));
    // An outcome without tags leaves them as they are.
    let again = planned(store, &run(&alpha(), "again"), &[&[1]]).await;
    let without = vec![outcome(&again, 1, reported(0))];
    store.write_outcomes(&segment_id(&again.id, 0), 1, without, at(5), false).await.unwrap();
    assert_eq!(store.tags(&alpha(), &digest(1)).await.unwrap(), Some(tags));
}

fn finding(vuln: &str) -> Finding {
    Finding { purl: "pkg:npm/a".into(), vuln_id: vuln.into(), severity: Severity::High, kev: false }
}

pub async fn p05_of_two_runs_at_once_one_counts_a_finding_as_new(store: &impl RunStore) {
    let found = |vulns: &[&str], revision| ReportRecord {
        reported_at: at(3),
        policy_revision: None,
        findings: Some(vulns.iter().map(|vuln| finding(vuln)).collect()),
        revision,
        asked_at: Some(at(3)),
    };
    let write = |run: &Run, report| OutcomeWrite { report: Some(report), ..outcome(run, 1, reported(1)) };
    let (one, other) = (run(&alpha(), "one"), run(&alpha(), "other"));
    let (one, other) = (planned(store, &one, &[&[1]]).await, planned(store, &other, &[&[1]]).await);
    let wrote = async |run: &Run, report| {
        let writes = vec![write(run, report)];
        let written = store.write_outcomes(&segment_id(&run.id, 0), 1, writes, at(4), false).await.unwrap();
        (written.inserted, written.moved)
    };
    let known = async || store.reports(&alpha(), &[digest(1)]).await.unwrap().remove(0);
    // Both have compared with nothing; who comes second compares again.
    assert_eq!(wrote(&one, found(&["CVE-1"], 0)).await, (1, vec![]));
    assert_eq!(wrote(&other, found(&["CVE-1", "CVE-2"], 0)).await, (0, vec![digest(1)]));
    assert_eq!(get(store, &other).await.stats.completed, 0, "it has no outcome");
    assert_eq!(known().await, Some(found(&["CVE-1"], 0)));
    assert_eq!(wrote(&other, found(&["CVE-1", "CVE-2"], 1)).await, (1, vec![]));
    assert_eq!(known().await, Some(found(&["CVE-1", "CVE-2"], 1)));
    // A delta that the scanner took is compared with nothing, and leaves the findings as they were.
    let third = planned(store, &run(&alpha(), "third"), &[&[1]]).await;
    assert_eq!(wrote(&third, ReportRecord { findings: None, ..found(&[], 0) }).await, (1, vec![]));
    assert_eq!(known().await, Some(found(&["CVE-1", "CVE-2"], 2)));
}

pub async fn a_run_starts_once(store: &impl RunStore) {
    let made = planned(store, &run(&alpha(), "r"), &[&[1]]).await;
    for millis in [6, 7] {
        store.mark_started(&alpha(), &made.id, at(millis)).await.unwrap();
    }
    let started = get(store, &made).await;
    assert_eq!((started.state, started.started_at), (RunState::Running, Some(at(6))));
    assert_eq!(told(store, &alpha()).await, ["queued", "running"]);
    let foreign = store.mark_started(&beta(), &made.id, at(8)).await;
    assert!(matches!(foreign, Err(StoreError::NotFound { .. })));
}
