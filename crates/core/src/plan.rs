//! Planning: from what the index gave to an ordered, limited, sharded run. Pure: planning twice gives the same plan.

use crate::ports::{PlannedRun, Spill};
use scheduler_model::ids::content_id;
use scheduler_model::{
    ImageDigest, Lane, Run, RunState, RunStats, ScheduleId, Segment, SegmentId, SegmentImage, TenantId, Timestamp,
};
use std::collections::HashSet;

/// The most images of a segment: small, so that tenants take turns often and a crash repeats little.
pub const SEGMENT_LEN_MAX: usize = 64;

/// The images that a run may take, by urgency; an image may be in several groups and counts in the most urgent one.
#[derive(Debug, Clone, Default)]
pub struct Candidates {
    /// Under a key that carries a known exploited vulnerability.
    pub kev: Vec<SegmentImage>,
    /// Under a key that carries a critical one.
    pub critical: Vec<SegmentImage>,
    /// Left over by earlier runs of the schedule.
    pub left_over: Vec<SegmentImage>,
    /// All others that the index gave and `onlyIf` lets through; those above may be among them.
    pub all: Vec<SegmentImage>,
    /// How many images the index gave that are not in `all`, since `onlyIf` holds them back.
    pub held_back: u64,
    /// How many more it would have given without the ranges of affected versions.
    pub narrowed_away: u64,
}

/// How a run is cut.
#[derive(Debug, Clone)]
pub struct Shape {
    /// The most images.
    pub max_jobs: usize,
    /// Whose parallelism and rate the segments share.
    pub pace_group: String,
    /// Whether what is over the limit is kept for the schedule's next run.
    pub spill_to: Option<(TenantId, ScheduleId)>,
    /// The lane of images that are neither KEV nor critical.
    pub plain_lane: Lane,
}

/// Plans a run that is in state `planning`.
///
/// The order is KEV, critical, left over, the rest, each in the order given; an image is taken once. What is over the limit
/// spills, most urgent first.
pub fn plan(mut run: Run, candidates: &Candidates, shape: &Shape, now: Timestamp) -> PlannedRun {
    let mut seen = HashSet::with_capacity(candidates.all.len());
    let groups = [
        (Lane::Kev, &candidates.kev),
        (Lane::Critical, &candidates.critical),
        (shape.plain_lane, &candidates.left_over),
        (shape.plain_lane, &candidates.all),
    ];
    let mut ordered: Vec<(Lane, &SegmentImage)> = Vec::with_capacity(candidates.all.len());
    for (lane, images) in groups {
        ordered.extend(images.iter().filter(|image| seen.insert(&image.digest)).map(|image| (lane, image)));
    }
    let owed: HashSet<&ImageDigest> = candidates.left_over.iter().map(|image| &image.digest).collect();
    let deduped = ordered.len() as u64 + candidates.held_back;
    let over = ordered.split_off(ordered.len().min(shape.max_jobs));

    run.reason.left_over = owed.len() as u64;
    run.stats = RunStats {
        candidates: (candidates.all.len() + candidates.left_over.len()) as u64 + candidates.held_back,
        deduped,
        narrowed_away: candidates.narrowed_away,
        queued: ordered.len() as u64,
        spilled: over.len() as u64,
        ..RunStats::default()
    };
    if ordered.is_empty() {
        run.state = RunState::Completed;
        run.finished_at = Some(now);
    } else {
        run.state = RunState::Queued;
    }
    let left_over = shape.spill_to.as_ref().filter(|_| !over.is_empty()).map(|(tenant, schedule)| Spill {
        tenant: tenant.clone(),
        schedule: schedule.clone(),
        run: run.id.clone(),
        since: now,
        digests: over.iter().map(|(_, image)| image.digest.clone()).collect(),
    });
    PlannedRun { segments: segments(&run, &ordered, shape, now), run, left_over }
}

fn segments(run: &Run, ordered: &[(Lane, &SegmentImage)], shape: &Shape, now: Timestamp) -> Vec<Segment> {
    ordered
        .chunk_by(|(a, _), (b, _)| a == b)
        .flat_map(|of_lane| of_lane.chunks(SEGMENT_LEN_MAX))
        .zip(0u32..)
        .map(|(chunk, position)| Segment {
            id: segment_id(run, position),
            run: run.id.clone(),
            tenant: run.tenant.clone(),
            pace_group: shape.pace_group.clone(),
            pace: run.pace,
            lane: chunk.first().map_or(shape.plain_lane, |(lane, _)| *lane),
            position,
            queued_at: now,
            images: chunk.iter().map(|(_, image)| (*image).clone()).collect(),
        })
        .collect()
}

fn segment_id(run: &Run, position: u32) -> SegmentId {
    let text = content_id("segment", &[run.id.as_str(), &position.to_string()]);
    #[expect(clippy::expect_used, reason = "a content id is 32 hexadecimal digits")]
    SegmentId::try_from(text).expect("a content id is an id")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use scheduler_model::{Mode, NotifyRule, Pace, Priority, Reason, RunId, TagRule, Trigger};

    pub(crate) fn some_run() -> Run {
        Run {
            id: RunId::try_from("run-1".to_owned()).unwrap(),
            tenant: TenantId::try_from("t".to_owned()).unwrap(),
            schedule: None,
            trigger: Trigger::Manual,
            reason: Reason::default(),
            state: RunState::Planning,
            mode: Mode::AnalysisOnly,
            tags: TagRule::default(),
            priority: Priority::Normal,
            stats: RunStats::default(),
            notify: NotifyRule::default(),
            policy_revision: None,
            pace: Pace { rate_per_second: 50, parallelism: 8 },
            caused_at: None,
            created_at: Timestamp::from_millis(0),
            started_at: None,
            first_verdict_at: None,
            finished_at: None,
            error: None,
            cancel_requested_at: None,
            traceparent: None,
        }
    }

    fn image(n: u16) -> SegmentImage {
        SegmentImage { digest: ImageDigest::of(&n.to_be_bytes()), repository: "shop/cart".into() }
    }

    fn images(numbers: &[u16]) -> Vec<SegmentImage> {
        numbers.iter().map(|&n| image(n)).collect()
    }

    fn shape(max_jobs: usize) -> Shape {
        Shape {
            max_jobs,
            pace_group: "g".into(),
            spill_to: Some((
                TenantId::try_from("t".to_owned()).unwrap(),
                ScheduleId::try_from("s".to_owned()).unwrap(),
            )),
            plain_lane: Lane::Normal,
        }
    }

    #[test]
    fn kev_then_critical_then_left_over_then_the_rest_up_to_the_limit() {
        let candidates = Candidates {
            kev: images(&[5]),
            critical: images(&[4, 5]),
            left_over: images(&[9]),
            all: images(&[1, 2, 3, 4, 5]),
            held_back: 3,
            ..Candidates::default()
        };
        let plan = plan(some_run(), &candidates, &shape(4), Timestamp::from_millis(7));
        let taken: Vec<_> =
            plan.segments.iter().flat_map(|s| s.images.iter().map(move |i| (s.lane, i.clone()))).collect();
        assert_eq!(
            taken,
            [(Lane::Kev, image(5)), (Lane::Critical, image(4)), (Lane::Normal, image(9)), (Lane::Normal, image(1))]
        );
        let stats = &plan.run.stats;
        assert_eq!((stats.candidates, stats.deduped, stats.queued, stats.spilled), (9, 9, 4, 2));
        assert_eq!(plan.left_over.unwrap().digests, [image(2).digest, image(3).digest]);
        assert_eq!(plan.run.state, RunState::Queued);
    }

    #[test]
    fn what_was_left_over_is_told_of_and_counted_once() {
        let candidates = Candidates { left_over: images(&[2]), all: images(&[1, 2, 3]), ..Candidates::default() };
        let plan = plan(some_run(), &candidates, &shape(4), Timestamp::from_millis(7));
        let taken: Vec<_> = plan.segments.iter().flat_map(|s| s.images.clone()).collect();
        assert_eq!((taken, plan.run.reason.left_over), (images(&[2, 1, 3]), 1));
        assert_eq!((plan.run.stats.candidates, plan.run.stats.deduped), (4, 3));
    }

    #[test]
    fn a_run_over_nothing_is_completed_at_once() {
        let plan = plan(some_run(), &Candidates::default(), &shape(4), Timestamp::from_millis(7));
        assert_eq!((plan.run.state, plan.run.finished_at), (RunState::Completed, Some(Timestamp::from_millis(7))));
        assert!(plan.segments.is_empty());
    }

    proptest! {
        #[test]
        fn segments_partition_what_is_queued_and_nothing_is_lost(
            all in proptest::collection::vec(0..400u16, 0..400),
            kev in 0..50u16, critical in 0..80u16, max_jobs in 0..500usize, held_back in 0..9u64,
        ) {
            let candidates = Candidates {
                kev: all.iter().filter(|n| **n < kev).map(|&n| image(n)).collect(),
                critical: all.iter().filter(|n| **n < critical).map(|&n| image(n)).collect(),
                left_over: images(&[500, 501]),
                all: images(&all),
                held_back,
                ..Candidates::default()
            };
            let given: HashSet<ImageDigest> = all.iter().chain(&[500, 501]).map(|&n| image(n).digest).collect();
            let once = plan(some_run(), &candidates, &shape(max_jobs), Timestamp::from_millis(7));
            let again = plan(some_run(), &candidates, &shape(max_jobs), Timestamp::from_millis(7));
            prop_assert_eq!(&once.segments, &again.segments);

            let taken: Vec<_> = once.segments.iter().flat_map(|s| s.images.iter().map(|i| i.digest.clone())).collect();
            let spilled = once.left_over.map(|spill| spill.digests).unwrap_or_default();
            let union: HashSet<_> = taken.iter().chain(&spilled).cloned().collect();
            prop_assert_eq!(union.len(), taken.len() + spilled.len());
            prop_assert_eq!(once.run.stats.deduped, given.len() as u64 + held_back);
            prop_assert_eq!(union, given);
            prop_assert_eq!(taken.len() as u64, once.run.stats.queued);
            prop_assert!(taken.len() <= max_jobs);
            let lanes: Vec<_> = once.segments.iter().map(|s| s.lane).collect();
            prop_assert!(lanes.is_sorted_by(|a, b| a >= b), "urgent lanes first: {:?}", lanes);
            prop_assert!(once.segments.iter().all(|s| (1..=SEGMENT_LEN_MAX).contains(&s.images.len())));
            let ids: HashSet<_> = once.segments.iter().map(|s| s.id.clone()).collect();
            prop_assert_eq!(ids.len(), once.segments.len());
        }
    }
}
