use super::*;
use crate::plan::tests::some_run;
use proptest::prelude::*;
use scheduler_model::{Mode, NotifyRule, OnlyIf, RunLimits, ScheduleSpec, Selection};
use std::collections::BTreeSet;

/// Instants at these seconds.
struct At(BTreeSet<i64>);

impl Instants for At {
    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.0.iter().map(|s| at(*s)).find(|instant| *instant > after)
    }

    fn prev(&self, before: Timestamp) -> Option<Timestamp> {
        self.0.iter().rev().map(|s| at(*s)).find(|instant| *instant < before)
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_millis(second * 1000)
}

fn schedule(misfire: Misfire, jitter_seconds: u32) -> Schedule {
    Schedule {
        id: "s".parse().unwrap(),
        tenant: "t".parse().unwrap(),
        spec: ScheduleSpec {
            name: "s".to_owned(),
            enabled: true,
            when_cron: Some("* * * * *".to_owned()),
            timezone: "UTC".to_owned(),
            on_events: Vec::new(),
            mode: Mode::AnalysisOnly,
            selection: Selection::default(),
            usage_only: None,
            only_if: OnlyIf::default(),
            misfire,
            overlap: Overlap::Queue,
            jitter_seconds,
            notify: NotifyRule::default(),
            limits: RunLimits::default(),
        },
        ticks_from: Some(at(0)),
        version: 1,
        created_at: at(0),
        updated_at: at(0),
        created_by: "ada".to_owned(),
        updated_by: "ada".to_owned(),
        deleted_at: None,
    }
}

#[test]
fn missed_instants_cost_one_run_or_none() {
    let every_minute = At((1..100).map(|minute| minute * 60).collect());
    let check = |misfire, handled, now, expected| {
        assert_eq!(due(&schedule(misfire, 0), &every_minute, at(handled), at(now)), expected, "{handled} {now}");
    };
    let run = |second, catch_up| Due::Run { instant: at(second), catch_up };
    for misfire in [Misfire::Once, Misfire::Skip] {
        check(misfire, 0, 59, Due::Nothing(Some(at(60))));
        check(misfire, 0, 60, run(60, false));
        check(misfire, 0, 119, run(60, false));
        check(misfire, 6000, 9000, Due::Nothing(None));
    }
    check(Misfire::Once, 0, 130, run(120, true));
    check(Misfire::Once, 60, 600, run(600, true));
    check(Misfire::Once, 5820, 9000, run(5940, true));
    check(Misfire::Skip, 60, 600, run(600, false));
    check(Misfire::Skip, 5820, 9000, Due::Skip(at(5940)));
    check(Misfire::Skip, 5820, 6000, run(5940, false));
    check(Misfire::Skip, 5820, 6001, Due::Skip(at(5940)));
}

#[test]
fn cron_22_a_clock_that_jumps_over_an_hour_of_minutes_costs_one_run() {
    let every_minute = At((1..200).map(|minute| minute * 60).collect());
    let made = schedule(Misfire::Once, 0);
    assert_eq!(due(&made, &every_minute, at(60), at(3665)), Due::Run { instant: at(3660), catch_up: true });
    // And back again by less than the grace: nothing comes twice.
    assert_eq!(due(&made, &every_minute, at(3660), at(3610)), Due::Nothing(Some(at(3720))));
    // A clock that was an hour ahead silences nothing; two that are right to a minute go on from each other.
    for (ahead, from) in [(3600, 0), (181, 0), (180, 180), (0, 0)] {
        assert_eq!(counts_from(at(3610 + ahead), at(3610)), at(3610 + from));
    }
}

fn run(trigger: Trigger, left_over: u64) -> Run {
    let mut run = some_run();
    run.trigger = trigger;
    run.reason.left_over = left_over;
    run
}

#[test]
fn que_14_an_instant_that_meets_a_run_follows_the_overlap_rule() {
    let going = [run(Trigger::Cron, 0)];
    assert_eq!(meet(Overlap::Queue, &going), Meeting::Wait);
    assert_eq!(meet(Overlap::Skip, &going), Meeting::Drop);
    assert_eq!(meet(Overlap::Replace, &going), Meeting::Replace(vec![going[0].id.clone()]));
    for overlap in [Overlap::Queue, Overlap::Skip, Overlap::Replace] {
        assert_eq!(meet(overlap, &[]), Meeting::Begin);
    }
}

#[test]
fn que_16_a_replaced_run_is_waited_for_and_one_that_carries_changes_is_not_replaced() {
    let mut cancelled = run(Trigger::Cron, 0);
    cancelled.cancel_requested_at = Some(at(1));
    assert_eq!(meet(Overlap::Replace, &[cancelled]), Meeting::Wait);
    for carries in [run(Trigger::Feedser, 0), run(Trigger::Vexer, 0), run(Trigger::Cron, 3)] {
        assert_eq!(meet(Overlap::Replace, &[carries]), Meeting::Wait);
    }
}

#[test]
fn an_edit_drops_what_came_before_it() {
    let mut made = schedule(Misfire::Once, 0);
    let mut state = TickState::new(&made);
    state.waiting = Some(Waiting { instant: at(60), catch_up: false, obstacle: Obstacle::Limits });
    assert_eq!(state.clone().under(&made), state);
    assert!(state.waits(&made).is_some());
    made.ticks_from = Some(at(60));
    assert_eq!(state.waits(&made), None);
    let state = state.under(&made);
    assert_eq!((state.handled, state.waiting), (at(60), None));
}

proptest! {
    /// A ticker that looks at arbitrary times, against a walk over all instants.
    #[test]
    fn p03_every_instant_is_run_for_or_made_up_for_once(
        instants in proptest::collection::btree_set(1i64..4000, 0..60),
        mut looks in proptest::collection::vec(0i64..4200, 1..80),
        jitter in prop_oneof![Just(0u32), 1u32..200],
        skips in any::<bool>(),
    ) {
        looks.sort_unstable();
        let made = schedule(if skips { Misfire::Skip } else { Misfire::Once }, jitter);
        let at_ = At(instants.clone());
        let fires: Vec<(i64, Timestamp)> =
            instants.iter().map(|&second| (second, fires_at(&made, &at_, at(second)))).collect();
        for ((second, fires), next) in fires.iter().zip(instants.iter().skip(1).map(Some).chain([None])) {
            prop_assert!(*fires >= at(*second) && fires.since(at(*second)) <= Duration::from_secs(jitter.into()));
            prop_assert!(next.is_none_or(|next| *fires < at(*next)), "each fires before the next one comes");
        }
        let mut handled = at(0);
        let mut before = Timestamp::from_millis(i64::MIN);
        for look in looks {
            let now = at(look);
            let came: Vec<_> = fires.iter().filter(|(_, fires)| *fires > before && *fires <= now).collect();
            let expected = match came.last() {
                None => None,
                Some((second, fires)) => {
                    let late = now.since(*fires) > GRACE;
                    Some(if skips && late {
                        Due::Skip(at(*second))
                    } else {
                        Due::Run { instant: at(*second), catch_up: !skips && (late || came.len() > 1) }
                    })
                }
            };
            match due(&made, &at_, handled, now) {
                Due::Nothing(again) => {
                    prop_assert_eq!(expected, None);
                    let next = fires.iter().map(|(_, fires)| *fires).find(|fires| *fires > now);
                    prop_assert_eq!(again, next);
                }
                found => {
                    prop_assert_eq!(Some(found), expected);
                    handled = match found { Due::Run { instant, .. } | Due::Skip(instant) => instant, Due::Nothing(_) => handled };
                    prop_assert!(matches!(due(&made, &at_, handled, now), Due::Nothing(_)), "it does not come again");
                }
            }
            before = now;
        }
    }
}
