//! Random histories against a model that keeps a plain list and looks through all of it each time.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a broken history has to stop the test")]

use proptest::{collection::vec, prelude::*, sample::Index};
use scheduler_core::ports::{Lease, SegmentQueue};
use scheduler_model::{Lane, Segment};
use scheduler_queue::EmbeddedQueue;
use scheduler_testkit::queue::segment;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

#[derive(Debug, Clone)]
enum Step {
    Enqueue { tenant: u8, group: u8, run: u8, lane: usize, images: usize, parallelism: u32, at: i64 },
    Again(Index),
    Lease { slots_max: u32, ttl: u64 },
    Heartbeat { lease: Index, ttl: u64 },
    Shrink { lease: Index, slots: u32 },
    Complete(Index),
    Release { lease: Index, delay: u64 },
    RemoveRun(u8),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let enqueue = (0..3u8, 0..2u8, 0..4u8, 0..4usize, 0..6usize, 0..5u32, 0..4i64).prop_map(
        |(tenant, group, run, lane, images, parallelism, at)| Step::Enqueue {
            tenant,
            group,
            run,
            lane,
            images,
            parallelism,
            at,
        },
    );
    let time = 0..40u64;
    prop_oneof![
        8 => enqueue,
        1 => any::<Index>().prop_map(Step::Again),
        10 => (0..6u32, time.clone()).prop_map(|(slots_max, ttl)| Step::Lease { slots_max, ttl }),
        3 => (any::<Index>(), time.clone()).prop_map(|(lease, ttl)| Step::Heartbeat { lease, ttl }),
        3 => (any::<Index>(), 0..6u32).prop_map(|(lease, slots)| Step::Shrink { lease, slots }),
        4 => any::<Index>().prop_map(Step::Complete),
        4 => (any::<Index>(), time.clone()).prop_map(|(lease, delay)| Step::Release { lease, delay }),
        1 => (0..4u8).prop_map(Step::RemoveRun),
        4 => time.prop_map(Step::Pass),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Standing {
    Waiting { from: Instant },
    Leased { fence: u64, slots: u32, until: Instant },
    Gone,
}

struct Known {
    segment: Segment,
    standing: Standing,
    deliveries: u32,
    removed: bool,
}

#[derive(Default)]
struct Model {
    known: Vec<Known>,
    parallelism: HashMap<(String, String), (i64, u32)>,
    fence: u64,
}

fn group_of(segment: &Segment) -> (String, String) {
    (segment.tenant.to_string(), segment.pace_group.clone())
}

impl Model {
    fn advance(&mut self, now: Instant) {
        for known in &mut self.known {
            if let Standing::Leased { until, .. } = known.standing
                && until <= now
            {
                known.standing = if known.removed { Standing::Gone } else { Standing::Waiting { from: until } };
            }
        }
        let live: Vec<_> =
            self.known.iter().filter(|k| k.standing != Standing::Gone).map(|k| group_of(&k.segment)).collect();
        self.parallelism.retain(|group, _| live.contains(group));
    }

    fn enqueue(&mut self, segment: Segment, now: Instant) {
        let at = segment.queued_at.millis();
        let pace = self.parallelism.entry(group_of(&segment)).or_insert((at, 1));
        if at >= pace.0 {
            *pace = (at, segment.pace.parallelism.max(1));
        }
        self.known.push(Known { segment, standing: Standing::Waiting { from: now }, deliveries: 0, removed: false });
    }

    fn free(&self, group: &(String, String)) -> u32 {
        let held = self.known.iter().filter(|k| &group_of(&k.segment) == group).map(|k| match k.standing {
            Standing::Leased { slots, .. } => slots,
            Standing::Waiting { .. } | Standing::Gone => 0,
        });
        self.parallelism[group].1.saturating_sub(held.sum())
    }

    fn may_go(&self, known: &Known, now: Instant) -> bool {
        matches!(known.standing, Standing::Waiting { from } if from <= now) && self.free(&group_of(&known.segment)) > 0
    }

    fn leased(&mut self, lease: Option<&Lease>, slots_max: u32, ttl: Duration, now: Instant) {
        let Some(lease) = lease else {
            let stuck = self.known.iter().find(|k| self.may_go(k, now));
            assert!(slots_max == 0 || stuck.is_none(), "{:?} may go", stuck.map(|k| &k.segment.id));
            return;
        };
        assert!(lease.fence > self.fence, "fences grow");
        self.fence = lease.fence;
        let at = self.known.iter().position(|k| k.segment.id == lease.segment.id).unwrap();
        let known = &self.known[at];
        assert!(self.may_go(known, now), "{} may not go: {:?}", lease.segment.id, known.standing);
        assert_eq!((&lease.segment, lease.deliveries), (&known.segment, known.deliveries));
        let free = self.free(&group_of(&known.segment));
        let images = u32::try_from(known.segment.images.len()).unwrap();
        assert_eq!(lease.slots, slots_max.min(free).min(images).max(1));
        assert!(lease.slots <= free, "the group's parallelism holds");
        let order = |s: &Segment| (s.queued_at, s.position);
        let older = self.known.iter().find(|k| {
            group_of(&k.segment) == group_of(&known.segment)
                && k.segment.lane == known.segment.lane
                && order(&k.segment) < order(&known.segment)
                && self.may_go(k, now)
        });
        assert!(older.is_none(), "{:?} is older than {}", older.map(|k| &k.segment.id), lease.segment.id);
        let known = &mut self.known[at];
        known.deliveries += 1;
        known.standing = Standing::Leased { fence: lease.fence, slots: lease.slots, until: now + ttl };
    }

    /// The segment of a lease, where that is live.
    fn live(&mut self, lease: &Lease) -> Option<&mut Known> {
        self.known.iter_mut().find(|k| {
            k.segment.id == lease.segment.id
                && matches!(k.standing, Standing::Leased { fence, .. } if fence == lease.fence)
        })
    }

    fn remove_run(&mut self, run: &str) {
        for known in self.known.iter_mut().filter(|k| k.segment.run.as_str() == run) {
            match known.standing {
                Standing::Waiting { .. } => known.standing = Standing::Gone,
                Standing::Leased { .. } => known.removed = true,
                Standing::Gone => {}
            }
        }
    }

    fn counts(&self, lane: Lane) -> (u64, u64) {
        let count = |wanted: fn(&Standing) -> bool| {
            self.known.iter().filter(|k| k.segment.lane == lane && wanted(&k.standing)).count() as u64
        };
        (count(|s| matches!(s, Standing::Waiting { .. })), count(|s| matches!(s, Standing::Leased { .. })))
    }
}

/// Applies one step to both.
async fn apply(step: Step, queue: &EmbeddedQueue, model: &mut Model, leases: &mut Vec<Lease>) {
    let now = Instant::now();
    model.advance(now);
    let ms = Duration::from_millis;
    let pick = |index: Index, leases: &[Lease]| (!leases.is_empty()).then(|| index.get(leases).clone());
    match step {
        Step::Enqueue { tenant, group, run, lane, images, parallelism, at } => {
            let number = model.known.len();
            let made = segment(&format!("s-{number}"))
                .tenant(&format!("tenant-{tenant}"))
                .group(&format!("group-{group}"))
                .run(&format!("run-{run}"))
                .lane(Lane::BY_URGENCY[lane])
                .images(images)
                .parallelism(parallelism)
                .queued_at(at)
                .position(u32::try_from(number % 3).unwrap())
                .build();
            queue.enqueue(vec![made.clone()]).await.unwrap();
            model.enqueue(made, now);
        }
        Step::Again(index) => {
            let there: Vec<_> = model.known.iter().filter(|k| k.standing != Standing::Gone).collect();
            if !there.is_empty() {
                queue.enqueue(vec![index.get(&there).segment.clone()]).await.unwrap();
            }
        }
        Step::Lease { slots_max, ttl } => {
            let lease = queue.lease(&"worker".parse().unwrap(), slots_max, ms(ttl)).await.unwrap();
            model.leased(lease.as_ref(), slots_max, ms(ttl), now);
            leases.extend(lease);
        }
        Step::Heartbeat { lease, ttl } => {
            let Some(lease) = pick(lease, leases) else { return };
            let answer = queue.heartbeat(&lease.segment.id, lease.fence, ms(ttl)).await;
            let live = model.live(&lease);
            assert_eq!(answer.is_ok(), live.is_some());
            if let Some(Known { standing: Standing::Leased { until, .. }, .. }) = live {
                *until = now + ms(ttl);
            }
        }
        Step::Shrink { lease, slots: wanted } => {
            let Some(lease) = pick(lease, leases) else { return };
            let answer = queue.shrink(&lease.segment.id, lease.fence, wanted).await;
            let live = model.live(&lease);
            assert_eq!(answer.is_ok(), live.is_some());
            if let Some(Known { standing: Standing::Leased { slots, .. }, .. }) = live {
                *slots = (*slots).min(wanted.max(1));
            }
        }
        Step::Complete(lease) => {
            let Some(lease) = pick(lease, leases) else { return };
            let answer = queue.complete(&lease.segment.id, lease.fence).await;
            let live = model.live(&lease);
            assert_eq!(answer.is_ok(), live.is_some());
            if let Some(known) = live {
                known.standing = Standing::Gone;
            }
        }
        Step::Release { lease, delay } => {
            let Some(lease) = pick(lease, leases) else { return };
            let answer = queue.release(&lease.segment.id, lease.fence, ms(delay)).await;
            let live = model.live(&lease);
            assert_eq!(answer.is_ok(), live.is_some());
            if let Some(known) = live {
                let back = Standing::Waiting { from: now + ms(delay) };
                known.standing = if known.removed { Standing::Gone } else { back };
            }
        }
        Step::RemoveRun(run) => {
            let run = format!("run-{run}");
            queue.remove_run(&run.parse().unwrap()).await.unwrap();
            model.remove_run(&run);
        }
        Step::Pass(time) => tokio::time::advance(ms(time)).await,
    }
    model.advance(Instant::now());
    for depth in queue.depth().await.unwrap() {
        assert_eq!((depth.waiting, depth.leased), model.counts(depth.lane), "{:?}", depth.lane);
    }
}

/// Whatever is left comes, once the leases are over, and then nothing.
async fn nothing_is_lost(queue: &EmbeddedQueue, model: &mut Model) {
    tokio::time::advance(Duration::from_secs(60)).await;
    let now = Instant::now();
    model.advance(now);
    let mut left = model.known.iter().filter(|k| k.standing != Standing::Gone).count();
    while let Some(lease) = queue.lease(&"worker".parse().unwrap(), 3, Duration::from_secs(1)).await.unwrap() {
        model.leased(Some(&lease), 3, Duration::from_secs(1), now);
        queue.complete(&lease.segment.id, lease.fence).await.unwrap();
        model.live(&lease).unwrap().standing = Standing::Gone;
        left -= 1;
    }
    assert_eq!(left, 0, "segments that never came");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_history_is_that_of_the_model(steps in vec(step(), 1..120)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (queue, mut model, mut leases) = (EmbeddedQueue::new(1), Model::default(), Vec::new());
            for step in steps {
                apply(step, &queue, &mut model, &mut leases).await;
            }
            nothing_is_lost(&queue, &mut model).await;
        });
    }
}
