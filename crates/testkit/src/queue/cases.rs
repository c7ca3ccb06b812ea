//! The cases, each named as the fact that it checks.

#![expect(missing_docs, reason = "the name of a case is what it checks, and the macro is how to run it")]

use super::*;

pub async fn an_empty_queue_gives_nothing(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    queue.nothing_to_lease("it is empty").await;
    assert_eq!(queue.depth().await, (0, 0));
    let lanes: BTreeSet<Lane> = queue.0.depth().await.unwrap().iter().map(|d| d.lane).collect();
    assert_eq!(lanes, Lane::BY_URGENCY.into(), "every lane has a depth");
    queue.put([]).await;
    queue.nothing_to_lease("still").await;
    queue.0.remove_run(&"run".parse().unwrap()).await.unwrap();
    let unknown: SegmentId = "a".parse().unwrap();
    assert!(matches!(queue.0.complete(&unknown, 1).await, Err(QueueError::LeaseLost(_))));
}

pub async fn a_lease_carries_the_segment_as_it_was_queued(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    let made = segment("a").run("r").tenant("beta").lane(Lane::Critical).position(3).queued_at(1_234).images(5);
    queue.put([made.clone()]).await;
    let lease = queue.lease(2).await;
    assert_eq!(lease.segment, made.build());
    assert_eq!((lease.slots, lease.deliveries), (2, 0));
    queue.nothing_to_lease("a segment has one lease at most").await;
}

pub async fn a_segment_is_queued_once_however_often_it_comes(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    queue.put([segment("a"), segment("a").lane(Lane::Kev)]).await;
    queue.put([segment("a").parallelism(9).queued_at(9)]).await;
    assert_eq!(queue.depth().await, (1, 0), "while it waits");
    let lease = queue.lease(8).await;
    assert_eq!(lease.segment, segment("a").build(), "the first one is left as it is");
    assert_eq!(lease.slots, 4);
    queue.put([segment("a")]).await;
    queue.nothing_to_lease("while it is leased").await;
    queue.release(&lease, LONG).await;
    queue.put([segment("a")]).await;
    queue.nothing_to_lease("while it is delayed").await;
}

pub async fn a_completed_segment_never_comes_again(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    queue.put([segment("a"), segment("b").position(1)]).await;
    assert_eq!(queue.drain().await, ids(&["a", "b"]));
    queue.nothing_to_lease("all are done").await;
    assert_eq!(queue.depth().await, (0, 0));
}

pub async fn urgent_lanes_go_first(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    let lanes = [("n", Lane::Normal), ("b", Lane::Backlog), ("k", Lane::Kev), ("c", Lane::Critical)];
    queue.put(lanes.map(|(id, lane)| segment(id).lane(lane).group(id))).await;
    queue.put(lanes.map(|(id, lane)| segment(&format!("{id}-beta")).lane(lane).tenant("beta"))).await;
    let order: Vec<String> = queue.drain().await.iter().map(|id| id.chars().take(1).collect()).collect();
    assert_eq!(order, ids(&["k", "k", "c", "c", "n", "n", "b", "b"]));
}

pub async fn que_15_no_lane_starves(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    let slow = [Lane::Critical, Lane::Normal, Lane::Backlog];
    queue.put(slow.map(|lane| segment(lane.as_str()).lane(lane))).await;
    let mut waiting: BTreeSet<&str> = slow.iter().map(|lane| lane.as_str()).collect();
    for number in 0..100 {
        queue.put([segment(&format!("kev-{number}")).lane(Lane::Kev).queued_at(number)]).await;
        let lease = queue.lease(4).await;
        waiting.remove(lease.segment.id.as_str());
        queue.complete(&lease).await;
    }
    assert!(waiting.is_empty(), "{waiting:?} still waits after a hundred leases while KEV kept coming");
}

pub async fn que_15_a_manual_run_starts_beside_a_nightly_one(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    queue.put((0..500).map(|n| segment(&format!("nightly-{n}")).group("nightly").position(n))).await;
    let first = queue.lease(4).await;
    queue.put([segment("manual").group("manual").queued_at(99)]).await;
    assert_eq!(id_of(&queue.lease(4).await), "manual");
    queue.complete(&first).await;
    assert_eq!(id_of(&queue.lease(4).await), "nightly-1");
}

pub async fn in_a_group_the_oldest_goes_first(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    let order = [("a", 1, 5), ("b", 2, 0), ("c", 2, 1), ("d", 3, 0)];
    queue.put(order.iter().rev().map(|(id, at, position)| segment(id).queued_at(*at).position(*position))).await;
    let first = queue.lease(1).await;
    assert_eq!(id_of(&first), "a");
    assert_eq!(id_of(&queue.lease(1).await), "b");
    queue.release(&first, Duration::ZERO).await;
    assert_eq!(queue.drain().await, ids(&["a", "c", "d"]), "what comes back keeps its place");
}

pub async fn tenants_take_turns(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    queue.put((0..50).map(|n| segment(&format!("large-{n}")).tenant("large").position(n))).await;
    queue.put((0..3).map(|n| segment(&format!("small-{n}")).tenant("small").position(n).queued_at(1_000))).await;
    let order = queue.drain().await;
    let last_small = order.iter().rposition(|id| id.starts_with("small"));
    assert!(last_small <= Some(6), "three segments beside fifty were served as {last_small:?}");
    assert_eq!(order.len(), 53);
}

pub async fn pace_07_a_single_segment_starts_within_one_round(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    queue.put((0..1_000).map(|n| segment(&format!("a-{n}")).tenant("a").parallelism(1_000).position(n))).await;
    let workers = [queue.lease(1).await, queue.lease(1).await];
    queue.put([segment("b").tenant("b").queued_at(1)]).await;
    let mut next = Vec::new();
    for lease in workers {
        queue.complete(&lease).await;
        next.push(id_of(&queue.lease(1).await));
    }
    assert!(next.contains(&"b".to_owned()), "the two workers took {next:?}");
}

pub async fn who_always_comes_anew_passes_nobody_over(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    queue.put((0..5).map(|n| segment(&format!("patient-{n}")).tenant("patient").position(n))).await;
    let mut served = 0;
    for number in 0..12 {
        queue.put([segment(&format!("eager-{number}")).tenant("eager").queued_at(number)]).await;
        let lease = queue.lease(1).await;
        served += u32::from(lease.segment.tenant.as_str() == "patient");
        queue.complete(&lease).await;
    }
    assert_eq!(served, 5, "of the patient tenant's segments while the other always had one more");
}

pub async fn the_tenant_with_the_fewest_slots_goes_first(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    queue.put((0..3).map(|n| segment(&format!("a-{n}")).tenant("a").parallelism(8).position(n))).await;
    queue.put((0..9).map(|n| segment(&format!("b-{n}")).tenant("b").parallelism(8).position(n))).await;
    let mut held = [0, 0];
    for _ in 0..4 {
        let lease = queue.lease(if held == [0, 0] { 3 } else { 1 }).await;
        let [a, b] = &mut held;
        *(if lease.segment.tenant.as_str() == "a" { a } else { b }) += lease.slots;
    }
    assert_eq!(held.iter().sum::<u32>(), 6);
    assert_eq!(held, [3, 3], "one tenant's three slots at once are worth the other's three in turn");
}

pub async fn pace_groups_of_a_tenant_take_turns(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    queue.put((0..20).map(|n| segment(&format!("x-{n}")).group("x").position(n))).await;
    queue.put((0..2).map(|n| segment(&format!("y-{n}")).group("y").position(n).queued_at(1))).await;
    let order: Vec<String> = queue.drain().await.into_iter().take(4).collect();
    assert_eq!(order, ids(&["x-0", "y-0", "x-1", "y-1"]));
}

pub async fn slots_are_bounded_by_worker_group_and_images(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    // (slots_max, parallelism, images, what the lease gets)
    for (number, (slots_max, parallelism, images, expected)) in
        [(3, 8, 50, 3), (9, 8, 50, 8), (9, 8, 5, 5), (8, 8, 8, 8), (1, 1, 1, 1), (u32::MAX, 8, 50, 8), (4, 8, 0, 1)]
            .into_iter()
            .enumerate()
    {
        let id = format!("s-{number}");
        queue.put([segment(&id).group(&id).parallelism(parallelism).images(images)]).await;
        let lease = queue.lease(slots_max).await;
        assert_eq!(lease.slots, expected, "of {slots_max}, {parallelism} and {images}");
        queue.complete(&lease).await;
    }
    queue.put([segment("last")]).await;
    assert!(queue.try_lease(0, LONG).await.is_none(), "a worker without slots gets nothing");
}

pub async fn a_group_without_free_slots_is_passed_over(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    queue.put((0..4).map(|n| segment(&format!("x-{n}")).group("x").parallelism(5).lane(Lane::Kev).position(n))).await;
    let first = queue.lease(3).await;
    let second = queue.lease(3).await;
    assert_eq!((first.slots, second.slots), (3, 2), "together they hold the group's five");
    queue.put([segment("y").group("y").lane(Lane::Backlog)]).await;
    assert_eq!(id_of(&queue.lease(3).await), "y", "another group may go, however little urgent");
    queue.nothing_to_lease("the group has no slot").await;
    queue.complete(&second).await;
    let third = queue.lease(3).await;
    assert_eq!((id_of(&third).as_str(), third.slots), ("x-2", 2));
}

pub async fn groups_of_the_same_name_are_apart_by_tenant(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    queue.put(["a", "b"].map(|tenant| segment(tenant).tenant(tenant).parallelism(1))).await;
    queue.lease(1).await;
    queue.lease(1).await;
}

pub async fn the_parallelism_is_that_of_the_segment_queued_last(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    queue.put([segment("c").parallelism(6).queued_at(3), segment("b").parallelism(2).queued_at(2)]).await;
    let b = queue.lease(9).await;
    assert_eq!((id_of(&b).as_str(), b.slots), ("b", 6), "raised, although the older one arrived later");
    queue.put([segment("d").parallelism(4).queued_at(4)]).await;
    queue.shrink(&b, 4).await;
    queue.nothing_to_lease("lowered to four, and four are held").await;
    queue.shrink(&b, 1).await;
    let c = queue.lease(9).await;
    assert_eq!((id_of(&c).as_str(), c.slots), ("c", 3));
}

pub async fn shrinking_gives_slots_back_and_never_takes_any(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    queue.put((0..6).map(|n| segment(&format!("s-{n}")).parallelism(8).images(6).position(n))).await;
    let first = queue.lease(6).await;
    queue.shrink(&first, 60).await;
    let second = queue.lease(8).await;
    assert_eq!((first.slots, second.slots), (6, 2), "asking for more changes nothing");
    queue.shrink(&first, 4).await;
    queue.shrink(&first, 5).await;
    let third = queue.lease(8).await;
    assert_eq!(third.slots, 2, "given back is given back");
    queue.shrink(&first, 0).await;
    let fourth = queue.lease(8).await;
    assert_eq!(fourth.slots, 3, "a lease keeps one slot");
    for lease in [&first, &second, &third, &fourth] {
        queue.complete(lease).await;
    }
    queue.lease(6).await;
    assert_eq!(queue.lease(8).await.slots, 2, "nothing was counted twice");
}

pub async fn que_02_a_lease_ends_by_lost_heartbeats_and_not_by_age(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    // The other segment's delays are the clock here: each is over well before the lease would end without a heartbeat.
    queue.put([segment("a"), segment("tick").group("tick")]).await;
    let (a, mut tick) = (queue.lease_for(1, SHORT * 2).await, queue.lease(1).await);
    for _ in 0..5 {
        queue.release(&tick, SHORT).await;
        tick = queue.lease_when_changed().await;
        assert_eq!(id_of(&tick), "tick", "a lease with heartbeats goes on");
        queue.heartbeat(&a, SHORT * 2).await;
    }
    let again = queue.lease_when_changed().await;
    assert_eq!((id_of(&again).as_str(), again.deliveries), ("a", 1));
    assert!(again.fence > a.fence);
}

pub async fn que_13_only_live_leases_hold_slots(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    queue.put([segment("a").parallelism(1), segment("b").parallelism(1).position(1)]).await;
    queue.lease_for(1, SHORT).await;
    queue.nothing_to_lease("the one slot is held").await;
    let again = queue.lease_when_changed().await;
    queue.complete(&again).await;
    assert_eq!(id_of(&queue.lease(1).await), "b", "neither the lost lease nor the ended one holds the slot");
}

pub async fn que_05_p06_a_lease_that_ran_out_can_do_nothing(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    queue.put([segment("a")]).await;
    let old = queue.lease_for(4, SHORT).await;
    queue.told("what may go").await;
    queue.can_do_nothing(&old).await;
    let new = queue.lease(4).await;
    assert_eq!((new.slots, new.deliveries), (4, 1));
    queue.can_do_nothing(&old).await;
    queue.can_do_nothing(&Lease { fence: new.fence + 1, ..new.clone() }).await;
    queue.complete(&new).await;
}

pub async fn que_05_p06_a_superseded_lease_can_do_nothing_even_after_completion(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    queue.put([segment("a"), segment("b").position(1)]).await;
    let old = queue.lease(1).await;
    queue.release(&old, Duration::ZERO).await;
    queue.can_do_nothing(&old).await;
    let new = queue.lease(1).await;
    queue.can_do_nothing(&old).await;
    queue.complete(&new).await;
    queue.can_do_nothing(&old).await;
    queue.can_do_nothing(&new).await;
    assert_eq!(queue.drain().await, ids(&["b"]));
}

pub async fn que_01_what_was_completed_in_time_is_not_rescued_later(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    queue.put([segment("a"), segment("b").position(1)]).await;
    let a = queue.lease_for(1, SHORT).await;
    let b = queue.lease_for(1, SHORT).await;
    queue.complete(&a).await;
    assert_eq!(queue.lease_when_changed().await.segment.id, b.segment.id);
    queue.nothing_to_lease("the end of its lease came after its completion").await;
}

pub async fn que_04_what_is_leased_has_a_live_lease(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    queue.put([segment("a"), segment("b").position(1), segment("k").lane(Lane::Kev).group("k")]).await;
    assert_eq!(queue.depth().await, (3, 0));
    let k = queue.lease(1).await;
    queue.lease_for(1, SHORT).await;
    assert_eq!(queue.depth().await, (1, 2));
    let kev = queue.0.depth().await.unwrap().into_iter().find(|d| d.lane == Lane::Kev).unwrap();
    assert_eq!((kev.waiting, kev.leased), (0, 1));
    queue.release(&k, LONG).await;
    assert_eq!(queue.depth().await, (2, 1), "what is delayed waits");
    queue.lease(1).await;
    queue.told("what may go").await;
    assert_eq!(queue.depth().await, (2, 1), "a lease that ran out is none");
}

pub async fn que_16_a_second_attempt_starts_only_after_the_first_is_fenced(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    queue.put([segment("a")]).await;
    let first = queue.lease_for(1, SHORT).await;
    queue.nothing_to_lease("the first attempt lives").await;
    let second = queue.lease_when_changed().await;
    queue.can_do_nothing(&first).await;
    queue.heartbeat(&second, LONG).await;
}

pub async fn a_released_segment_comes_again_after_its_delay(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    queue.put([segment("a").parallelism(1), segment("b").parallelism(1).position(1)]).await;
    let a = queue.lease(1).await;
    queue.release(&a, SHORT).await;
    let b = queue.lease(1).await;
    assert_eq!(id_of(&b), "b", "what is delayed holds neither slot nor place");
    queue.complete(&b).await;
    queue.nothing_to_lease("the delay is not over").await;
    let again = queue.lease_when_changed().await;
    assert_eq!((id_of(&again).as_str(), again.deliveries), ("a", 1));
    queue.release(&again, Duration::ZERO).await;
    assert_eq!(queue.lease(1).await.deliveries, 2);
}

pub async fn fences_grow_with_every_lease(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    queue.put((0..10).map(|n| segment(&format!("s-{n}")).position(n))).await;
    let mut last = 0;
    for number in 0..25 {
        let lease = queue.lease(1).await;
        assert!(lease.fence > last, "{} after {last}", lease.fence);
        last = lease.fence;
        if number % 3 == 0 {
            queue.complete(&lease).await;
        } else {
            queue.release(&lease, Duration::ZERO).await;
        }
    }
}

pub async fn que_09_what_waits_of_a_removed_run_never_comes(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    let of = |run: &str, n| segment(&format!("{run}-{n}")).run(run).position(n);
    queue.put((0..300).map(|n| of("gone", n).lane(if n % 2 == 0 { Lane::Kev } else { Lane::Normal }))).await;
    queue.put((0..2).map(|n| of("stays", n).queued_at(1))).await;
    let delayed = queue.lease(1).await;
    queue.release(&delayed, SHORT).await;
    queue.0.remove_run(&"gone".parse().unwrap()).await.unwrap();
    queue.0.remove_run(&"gone".parse().unwrap()).await.unwrap();
    assert_eq!(queue.depth().await, (2, 0));
    let held = queue.lease_for(1, SHORT * 2).await;
    assert_eq!(id_of(&held), "stays-0");
    assert_eq!(queue.drain().await, ids(&["stays-1"]));
    assert_eq!(
        queue.lease_when_changed().await.segment.id,
        held.segment.id,
        "the delay of the gone one is over by now"
    );
}

pub async fn que_09_what_is_leased_of_a_removed_run_goes_with_its_lease(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    let one = |id: &str, n| segment(id).run("gone").parallelism(4).position(n);
    queue.put([one("done", 0), one("released", 1), one("lost", 2), one("never", 3)]).await;
    let (done, released, lost) = (queue.lease(1).await, queue.lease(1).await, queue.lease_for(1, SHORT).await);
    queue.0.remove_run(&"gone".parse().unwrap()).await.unwrap();
    assert_eq!(queue.depth().await, (0, 3));
    queue.heartbeat(&done, LONG).await;
    queue.complete(&done).await;
    queue.release(&released, Duration::ZERO).await;
    queue.nothing_to_lease("what is given back of a removed run is gone").await;
    queue.put([segment("other").run("other").parallelism(1).queued_at(1)]).await;
    let other = queue.lease_when_changed().await;
    assert_eq!(id_of(&other), "other", "its slot comes free with the last lease of the removed run");
    queue.can_do_nothing(&lost).await;
    assert_eq!(queue.depth().await, (0, 1));
}

pub async fn changed_tells_of_new_segments(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    queue.nothing_to_lease("it is empty").await;
    let (lease, ()) = tokio::join!(queue.lease_when_changed(), queue.put([segment("a")]));
    assert_eq!(id_of(&lease), "a");
}

pub async fn changed_tells_of_what_came_before_the_call(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    queue.nothing_to_lease("it is empty").await;
    let mut gives_up = queue.0.changed();
    assert!(timeout(Duration::ZERO, &mut gives_up).await.is_err(), "nothing has changed");
    queue.put([segment("a")]).await;
    // A caller that gives up when it is woken must not take the news with it.
    drop(gives_up);
    queue.told("what may go").await;
    queue.lease(1).await;
}

pub async fn changed_tells_of_free_slots(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    queue.put((0..5).map(|n| segment(&format!("s-{n}")).parallelism(3).position(n))).await;
    let wide = queue.lease(3).await;
    let (next, ()) = tokio::join!(queue.lease_when_changed(), queue.shrink(&wide, 2));
    let (again, ()) = tokio::join!(queue.lease_when_changed(), queue.complete(&next));
    let (last, ()) = tokio::join!(queue.lease_when_changed(), queue.release(&again, Duration::ZERO));
    assert_eq!(again.segment.id, last.segment.id);
}

pub async fn changed_tells_of_the_end_of_delays_and_leases(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    queue.put([segment("a"), segment("b").position(1)]).await;
    let a = queue.lease(1).await;
    // The waiter sleeps until the later end first; the earlier one must still wake it.
    queue.lease_for(1, SHORT * 3).await;
    let (first, ()) = tokio::join!(queue.lease_when_changed(), queue.release(&a, SHORT));
    assert_eq!(id_of(&first), "a");
    assert_eq!(id_of(&queue.lease_when_changed().await), "b");
}

pub async fn changed_tells_of_more_while_something_waits(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    // A worker that has no slot left hears of each of these, without a lease in between.
    queue.put((0..5).map(|n| segment(&format!("x-{n}")).group("x").position(n))).await;
    let (wide, b, c) = (queue.lease(2).await, queue.lease(1).await, queue.lease(1).await);
    queue.put([segment("y").group("y")]).await;
    queue.told("a new segment").await;
    queue.put([segment("z").group("z")]).await;
    queue.told("one more beside it").await;
    queue.shrink(&wide, 1).await;
    queue.told("fewer slots").await;
    queue.complete(&b).await;
    queue.told("a completion").await;
    queue.release(&c, Duration::ZERO).await;
    queue.told("a release").await;
    let delayed = queue.lease(1).await;
    queue.release(&delayed, SHORT).await;
    queue.told("the free slot").await;
    queue.told("the end of the delay").await;
    let lost = queue.lease_for(1, SHORT).await;
    queue.told("what is left").await;
    queue.told("the end of the lease").await;
    queue.can_do_nothing(&lost).await;
}

pub async fn changed_tells_everybody_who_waits(queue: impl SegmentQueue) {
    let queue = Driver(queue);
    let both = async { tokio::join!(queue.0.changed(), queue.0.changed(), queue.put([segment("a")])) };
    timeout(PATIENCE, both).await.unwrap();
    assert_eq!(queue.drain().await, ids(&["a"]));
    let three = (0..3).map(|n| segment(&format!("s-{n}")).position(n));
    let (a, b, c, ()) = tokio::join!(
        queue.lease_when_changed(),
        queue.lease_when_changed(),
        queue.lease_when_changed(),
        queue.put(three)
    );
    let got: BTreeSet<String> = [a, b, c].iter().map(id_of).collect();
    assert_eq!(got.len(), 3);
}
