//! The contract of `SegmentQueue`: what every queue does, by the port alone.
//!
//! An adapter's test file says `scheduler_testkit::segment_queue_contract!(make)`, where `make` is an async function that
//! returns an empty queue of its own. Where the queue follows tokio's clock, `make` may pause it.

#![expect(clippy::unwrap_used, reason = "a case that fails has to stop its test")]

use scheduler_core::ports::{Lease, QueueError, SegmentQueue};
use scheduler_model::{ImageDigest, Lane, Pace, Segment, SegmentId, SegmentImage, Timestamp};
use std::{collections::BTreeSet, time::Duration};
use tokio::time::timeout;

mod cases;

pub use cases::*;

/// Long enough not to end within a case.
pub const LONG: Duration = Duration::from_secs(600);
/// A lease or delay whose end a case waits for.
pub const SHORT: Duration = Duration::from_millis(400);
/// How long a case waits for what has to happen.
const PATIENCE: Duration = Duration::from_secs(20);

/// A segment in the making; see [`segment`].
#[derive(Debug, Clone)]
pub struct SegmentBuilder {
    id: String,
    run: String,
    tenant: String,
    group: String,
    parallelism: u32,
    lane: Lane,
    position: u32,
    queued_at: i64,
    images: usize,
}

/// A segment of that id: tenant `alpha`, run `run`, group `group` with parallelism 4, lane normal, position 0, queued at the
/// epoch, eight images.
pub fn segment(id: &str) -> SegmentBuilder {
    SegmentBuilder {
        id: id.to_owned(),
        run: "run".to_owned(),
        tenant: "alpha".to_owned(),
        group: "group".to_owned(),
        parallelism: 4,
        lane: Lane::Normal,
        position: 0,
        queued_at: 0,
        images: 8,
    }
}

impl SegmentBuilder {
    /// The run that it belongs to.
    pub fn run(self, run: &str) -> Self {
        Self { run: run.to_owned(), ..self }
    }

    /// Whose it is.
    pub fn tenant(self, tenant: &str) -> Self {
        Self { tenant: tenant.to_owned(), ..self }
    }

    /// Its pace group.
    pub fn group(self, group: &str) -> Self {
        Self { group: group.to_owned(), ..self }
    }

    /// Calls in flight that its pace group may have.
    pub fn parallelism(self, parallelism: u32) -> Self {
        Self { parallelism, ..self }
    }

    /// How urgent it is.
    pub fn lane(self, lane: Lane) -> Self {
        Self { lane, ..self }
    }

    /// Its place in the run.
    pub fn position(self, position: u32) -> Self {
        Self { position, ..self }
    }

    /// When it was queued, in milliseconds since 1970.
    pub fn queued_at(self, queued_at: i64) -> Self {
        Self { queued_at, ..self }
    }

    /// How many images it has.
    pub fn images(self, images: usize) -> Self {
        Self { images, ..self }
    }

    /// The segment.
    ///
    /// # Panics
    /// When a name that was given is none.
    pub fn build(self) -> Segment {
        let image = |number| SegmentImage {
            digest: ImageDigest::of(format!("{}-{number}", self.id).as_bytes()),
            repository: "shop/cart".to_owned(),
        };
        Segment {
            images: (0..self.images).map(image).collect(),
            id: self.id.parse().unwrap(),
            run: self.run.parse().unwrap(),
            tenant: self.tenant.parse().unwrap(),
            pace_group: self.group,
            pace: Pace { rate_per_second: 50, parallelism: self.parallelism },
            lane: self.lane,
            position: self.position,
            queued_at: Timestamp::from_millis(self.queued_at),
        }
    }
}

/// What the cases say of a queue, in fewer words.
struct Driver<Q>(Q);

impl<Q: SegmentQueue> Driver<Q> {
    async fn put(&self, segments: impl IntoIterator<Item = SegmentBuilder>) {
        self.0.enqueue(segments.into_iter().map(SegmentBuilder::build).collect()).await.unwrap();
    }

    async fn try_lease(&self, slots_max: u32, ttl: Duration) -> Option<Lease> {
        self.0.lease(&"worker".parse().unwrap(), slots_max, ttl).await.unwrap()
    }

    async fn lease(&self, slots_max: u32) -> Lease {
        self.lease_for(slots_max, LONG).await
    }

    async fn lease_for(&self, slots_max: u32, ttl: Duration) -> Lease {
        match self.try_lease(slots_max, ttl).await {
            Some(lease) => lease,
            None => panic!("nothing to lease"),
        }
    }

    async fn nothing_to_lease(&self, why: &str) {
        if let Some(lease) = self.try_lease(1, LONG).await {
            panic!("leased {}: {why}", lease.segment.id);
        }
    }

    /// Waits, by `changed` alone, until something can be leased.
    async fn lease_when_changed(&self) -> Lease {
        let wait = async {
            loop {
                if let Some(lease) = self.try_lease(1, LONG).await {
                    return lease;
                }
                self.0.changed().await;
            }
        };
        match timeout(PATIENCE, wait).await {
            Ok(lease) => lease,
            Err(_) => panic!("`changed` told nothing although a segment may go"),
        }
    }

    async fn told(&self, of: &str) {
        assert!(timeout(PATIENCE, self.0.changed()).await.is_ok(), "`changed` did not tell of {of}");
    }

    async fn complete(&self, lease: &Lease) {
        self.0.complete(&lease.segment.id, lease.fence).await.unwrap();
    }

    async fn release(&self, lease: &Lease, delay: Duration) {
        self.0.release(&lease.segment.id, lease.fence, delay).await.unwrap();
    }

    async fn heartbeat(&self, lease: &Lease, ttl: Duration) {
        self.0.heartbeat(&lease.segment.id, lease.fence, ttl).await.unwrap();
    }

    async fn shrink(&self, lease: &Lease, slots: u32) {
        self.0.shrink(&lease.segment.id, lease.fence, slots).await.unwrap();
    }

    /// Leases and completes until nothing may go; the ids in order.
    async fn drain(&self) -> Vec<String> {
        let mut ids = Vec::new();
        while let Some(lease) = self.try_lease(1, LONG).await {
            self.complete(&lease).await;
            ids.push(id_of(&lease));
        }
        ids
    }

    /// Waiting and leased segments, over all lanes.
    async fn depth(&self) -> (u64, u64) {
        let depth = self.0.depth().await.unwrap();
        (depth.iter().map(|d| d.waiting).sum(), depth.iter().map(|d| d.leased).sum())
    }

    async fn can_do_nothing(&self, lease: &Lease) {
        let (id, fence) = (&lease.segment.id, lease.fence);
        let answers = [
            ("heartbeat", self.0.heartbeat(id, fence, LONG).await),
            ("shrink", self.0.shrink(id, fence, 1).await),
            ("release", self.0.release(id, fence, Duration::ZERO).await),
            ("complete", self.0.complete(id, fence).await),
        ];
        for (verb, answer) in answers {
            match answer {
                Err(QueueError::LeaseLost(lost)) => assert_eq!(&lost, id, "{verb}"),
                other => panic!("{verb} under a lease that is over: {other:?}"),
            }
        }
    }
}

fn id_of(lease: &Lease) -> String {
    lease.segment.id.as_str().to_owned()
}

fn ids(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Runs every case of the contract against the queues that `$make` gives: `async fn make() -> impl SegmentQueue`.
#[macro_export]
macro_rules! segment_queue_contract {
    ($make:path) => {
        $crate::segment_queue_contract! { @each $make;
            an_empty_queue_gives_nothing
            a_lease_carries_the_segment_as_it_was_queued
            a_segment_is_queued_once_however_often_it_comes
            a_completed_segment_never_comes_again
            urgent_lanes_go_first
            que_15_no_lane_starves
            que_15_a_manual_run_starts_beside_a_nightly_one
            in_a_group_the_oldest_goes_first
            tenants_take_turns
            pace_07_a_single_segment_starts_within_one_round
            who_always_comes_anew_passes_nobody_over
            the_tenant_with_the_fewest_slots_goes_first
            pace_groups_of_a_tenant_take_turns
            slots_are_bounded_by_worker_group_and_images
            a_group_without_free_slots_is_passed_over
            groups_of_the_same_name_are_apart_by_tenant
            the_parallelism_is_that_of_the_segment_queued_last
            shrinking_gives_slots_back_and_never_takes_any
            que_02_a_lease_ends_by_lost_heartbeats_and_not_by_age
            que_13_only_live_leases_hold_slots
            que_05_p06_a_lease_that_ran_out_can_do_nothing
            que_05_p06_a_superseded_lease_can_do_nothing_even_after_completion
            que_01_what_was_completed_in_time_is_not_rescued_later
            que_04_what_is_leased_has_a_live_lease
            que_16_a_second_attempt_starts_only_after_the_first_is_fenced
            a_released_segment_comes_again_after_its_delay
            fences_grow_with_every_lease
            que_09_what_waits_of_a_removed_run_never_comes
            que_09_what_is_leased_of_a_removed_run_goes_with_its_lease
            changed_tells_of_new_segments
            changed_tells_of_what_came_before_the_call
            changed_tells_of_free_slots
            changed_tells_of_the_end_of_delays_and_leases
            changed_tells_of_more_while_something_waits
            changed_tells_everybody_who_waits
        }
    };
    (@each $make:path; $($case:ident)*) => {
        $(
            #[tokio::test]
            async fn $case() {
                $crate::queue::$case($make().await).await;
            }
        )*
    };
}
