//! The segments of an embedded queue and the leases on them. Time is an argument; nothing here waits.

use crate::{
    lanes::PerLane,
    turns::{Turn, Turns},
};
use scheduler_core::ports::{Lease, QueueDepth, QueueError};
use scheduler_model::{Lane, RunId, Segment, SegmentId, WorkerId};
use std::collections::{BTreeSet, HashMap, HashSet, hash_map};
use std::time::Duration;
use tokio::time::Instant;

/// Longer leases and delays are cut to this, so that no instant overflows.
const DURATION_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// Why the queue hands out nothing any more.
#[derive(Debug, thiserror::Error)]
enum ExhaustedError {
    /// One more and a fence could be that of another epoch.
    #[error("the fences of epoch {0} are used up: start the process again")]
    Fences(u32),
}

#[derive(Debug, Default)]
pub(crate) struct State {
    epoch: u32,
    /// Leases given in this epoch.
    leases: u32,
    entries: HashMap<SegmentId, Entry>,
    runs: HashMap<RunId, HashSet<SegmentId>>,
    turns: Turns,
    /// When leases and delays end. An entry has one at most.
    timers: BTreeSet<(Instant, SegmentId)>,
    depth: PerLane<Depth>,
    /// Counts what may have made a segment leasable.
    pub(crate) changes: u64,
    /// The count that a caller of `changed` was told last.
    pub(crate) told: u64,
}

#[derive(Debug, Default)]
struct Depth {
    waiting: u64,
    leased: u64,
}

#[derive(Debug)]
struct Entry {
    segment: Segment,
    standing: Standing,
    deliveries: u32,
    /// Its run was removed while it was leased: it goes when the lease ends.
    removed: bool,
}

#[derive(Debug)]
enum Standing {
    Waiting,
    Delayed { until: Instant },
    Leased(Holding),
}

#[derive(Debug)]
struct Holding {
    fence: u64,
    slots: u32,
    until: Instant,
    worker: WorkerId,
}

impl State {
    /// Fences begin above those of every lower epoch.
    pub(crate) fn new(epoch: u32) -> Self {
        Self { epoch, ..Self::default() }
    }

    /// Ends the leases and delays that are over. To be called before anything else is asked.
    pub(crate) fn advance(&mut self, now: Instant) {
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, id)) = self.timers.pop_first() else { return };
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            match &entry.standing {
                Standing::Waiting => {}
                Standing::Delayed { .. } => {
                    entry.standing = Standing::Waiting;
                    self.turns.wait(&entry.segment);
                    self.changes += 1;
                }
                Standing::Leased(holding) => {
                    tracing::warn!(segment.id = %id, worker.id = %holding.worker, "a lease ran out");
                    self.put_back(&id, None);
                }
            }
        }
    }

    /// When the next lease or delay ends.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    pub(crate) fn any_ready(&self) -> bool {
        self.turns.any_ready()
    }

    pub(crate) fn enqueue(&mut self, segments: Vec<Segment>) {
        for segment in segments {
            let hash_map::Entry::Vacant(free) = self.entries.entry(segment.id.clone()) else { continue };
            self.turns.join(&segment);
            self.runs.entry(segment.run.clone()).or_default().insert(segment.id.clone());
            self.depth.get_mut(segment.lane).waiting += 1;
            free.insert(Entry { segment, standing: Standing::Waiting, deliveries: 0, removed: false });
            self.changes += 1;
        }
    }

    pub(crate) fn lease(
        &mut self,
        worker: &WorkerId,
        slots_max: u32,
        ttl: Duration,
        now: Instant,
    ) -> Result<Option<Lease>, QueueError> {
        if slots_max == 0 || !self.turns.any_ready() {
            return Ok(None);
        }
        let fence = self.next_fence()?;
        let Some(Turn { segment: id, slots }) = self.turns.take(slots_max) else { return Ok(None) };
        let Some(entry) = self.entries.get_mut(&id) else {
            debug_assert!(false, "what waits is an entry");
            return Ok(None);
        };
        let until = later(now, ttl);
        let lease = Lease { segment: entry.segment.clone(), fence, slots, deliveries: entry.deliveries };
        entry.deliveries = entry.deliveries.saturating_add(1);
        entry.standing = Standing::Leased(Holding { fence, slots, until, worker: worker.clone() });
        self.timers.insert((until, id));
        let depth = self.depth.get_mut(lease.segment.lane);
        depth.waiting -= 1;
        depth.leased += 1;
        // For whoever else shares the queue and has not heard of what is left.
        self.changes += 1;
        Ok(Some(lease))
    }

    pub(crate) fn heartbeat(
        &mut self,
        id: &SegmentId,
        fence: u64,
        ttl: Duration,
        now: Instant,
    ) -> Result<(), QueueError> {
        let (_, holding) = held(&mut self.entries, id, fence)?;
        let before = std::mem::replace(&mut holding.until, later(now, ttl));
        let until = holding.until;
        self.timers.remove(&(before, id.clone()));
        self.timers.insert((until, id.clone()));
        Ok(())
    }

    pub(crate) fn shrink(&mut self, id: &SegmentId, fence: u64, slots: u32) -> Result<(), QueueError> {
        let (segment, holding) = held(&mut self.entries, id, fence)?;
        let kept = slots.clamp(1, holding.slots);
        self.turns.give_back(segment, holding.slots - kept);
        holding.slots = kept;
        self.changes += 1;
        Ok(())
    }

    pub(crate) fn complete(&mut self, id: &SegmentId, fence: u64) -> Result<(), QueueError> {
        held(&mut self.entries, id, fence)?;
        self.remove(id);
        Ok(())
    }

    pub(crate) fn release(
        &mut self,
        id: &SegmentId,
        fence: u64,
        delay: Duration,
        now: Instant,
    ) -> Result<(), QueueError> {
        held(&mut self.entries, id, fence)?;
        self.put_back(id, (!delay.is_zero()).then(|| later(now, delay)));
        Ok(())
    }

    pub(crate) fn remove_run(&mut self, run: &RunId) {
        let ids: Vec<SegmentId> = self.runs.get(run).into_iter().flatten().cloned().collect();
        for id in ids {
            match self.entries.get_mut(&id) {
                Some(entry @ Entry { standing: Standing::Leased(_), .. }) => entry.removed = true,
                Some(_) => self.remove(&id),
                None => {}
            }
        }
    }

    pub(crate) fn depth(&self) -> Vec<QueueDepth> {
        let of = |lane| {
            let &Depth { waiting, leased } = self.depth.get(lane);
            QueueDepth { lane, waiting, leased }
        };
        Lane::BY_URGENCY.map(of).into()
    }

    fn next_fence(&mut self) -> Result<u64, QueueError> {
        let exhausted = || QueueError::Unavailable(Box::new(ExhaustedError::Fences(self.epoch)));
        self.leases = self.leases.checked_add(1).ok_or_else(exhausted)?;
        Ok(u64::from(self.epoch) << 32 | u64::from(self.leases))
    }

    /// Ends a lease without the work being done: the segment waits again, from `until` on.
    fn put_back(&mut self, id: &SegmentId, until: Option<Instant>) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        if entry.removed {
            return self.remove(id);
        }
        let Standing::Leased(holding) = &entry.standing else { return };
        self.timers.remove(&(holding.until, id.clone()));
        self.turns.give_back(&entry.segment, holding.slots);
        match until {
            Some(until) => {
                entry.standing = Standing::Delayed { until };
                self.timers.insert((until, id.clone()));
            }
            None => {
                entry.standing = Standing::Waiting;
                self.turns.wait(&entry.segment);
            }
        }
        let depth = self.depth.get_mut(entry.segment.lane);
        depth.leased -= 1;
        depth.waiting += 1;
        self.changes += 1;
    }

    /// Takes a segment out of everything.
    fn remove(&mut self, id: &SegmentId) {
        let Some(Entry { segment, standing, .. }) = self.entries.remove(id) else { return };
        let depth = self.depth.get_mut(segment.lane);
        match standing {
            Standing::Waiting => {
                depth.waiting -= 1;
                self.turns.leave_waiting(&segment);
            }
            Standing::Delayed { until } => {
                depth.waiting -= 1;
                self.timers.remove(&(until, id.clone()));
                self.turns.leave(&segment);
            }
            Standing::Leased(holding) => {
                depth.leased -= 1;
                self.timers.remove(&(holding.until, id.clone()));
                self.turns.give_back(&segment, holding.slots);
                self.turns.leave(&segment);
            }
        }
        if let Some(ids) = self.runs.get_mut(&segment.run) {
            ids.remove(id);
            if ids.is_empty() {
                self.runs.remove(&segment.run);
            }
        }
        self.changes += 1;
    }
}

/// The live lease with that fence, and its segment.
fn held<'a>(
    entries: &'a mut HashMap<SegmentId, Entry>,
    id: &SegmentId,
    fence: u64,
) -> Result<(&'a Segment, &'a mut Holding), QueueError> {
    match entries.get_mut(id) {
        Some(Entry { segment, standing: Standing::Leased(holding), .. }) if holding.fence == fence => {
            Ok((segment, holding))
        }
        Some(_) | None => Err(QueueError::LeaseLost(id.clone())),
    }
}

fn later(now: Instant, by: Duration) -> Instant {
    now + by.min(DURATION_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use scheduler_testkit::queue::segment;

    const TTL: Duration = Duration::from_secs(30);

    fn worker() -> WorkerId {
        "worker".parse().unwrap()
    }

    #[tokio::test]
    async fn fences_of_an_epoch_run_out_rather_than_over() {
        let now = Instant::now();
        let mut state = State { leases: u32::MAX - 1, ..State::new(7) };
        state.enqueue(vec![segment("a").build(), segment("b").build()]);
        let last = state.lease(&worker(), 1, TTL, now).unwrap().unwrap();
        assert_eq!(last.fence, (7 << 32) | u64::from(u32::MAX));
        assert!(matches!(state.lease(&worker(), 1, TTL, now), Err(QueueError::Unavailable(_))));
        assert_eq!(state.depth().iter().map(|d| d.waiting).sum::<u64>(), 1, "what is not leased waits");
        state.complete(&last.segment.id, last.fence).unwrap();
    }

    #[tokio::test]
    async fn fences_grow_over_a_restart_and_a_lease_of_before_is_over() {
        let now = Instant::now();
        let mut fences = Vec::new();
        for epoch in 1..4 {
            let mut state = State::new(epoch);
            state.enqueue(vec![segment("a").build()]);
            fences.push(state.lease(&worker(), 1, TTL, now).unwrap().unwrap().fence);
            for (at, fence) in fences.iter().enumerate() {
                let old = at + 1 < fences.len();
                assert_eq!(state.heartbeat(&"a".parse().unwrap(), *fence, TTL, now).is_err(), old);
            }
        }
        assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
    }

    #[tokio::test]
    async fn the_longest_lease_and_delay_overflow_nothing() {
        let now = Instant::now();
        let mut state = State::new(1);
        state.enqueue(vec![segment("a").build()]);
        let lease = state.lease(&worker(), u32::MAX, Duration::MAX, now).unwrap().unwrap();
        state.heartbeat(&lease.segment.id, lease.fence, Duration::MAX, now).unwrap();
        state.release(&lease.segment.id, lease.fence, Duration::MAX, now).unwrap();
        state.advance(now + DURATION_MAX - TTL);
        assert!(!state.any_ready());
        state.advance(now + DURATION_MAX);
        assert!(state.any_ready());
    }

    #[tokio::test]
    async fn nothing_is_remembered_of_what_has_left() {
        const TENANTS: u32 = 1_000;
        const SEGMENTS: u32 = 100_000;
        let now = Instant::now();
        let mut state = State::new(1);
        for number in 0..SEGMENTS {
            let tenant = format!("tenant-{}", number % TENANTS);
            let group = format!("group-{}", number % (2 * TENANTS));
            let run = format!("run-{}", number % 50);
            let lane = if number % 3 == 0 { Lane::Backlog } else { Lane::Normal };
            let made = segment(&format!("s-{number}")).tenant(&tenant).group(&group).run(&run).lane(lane);
            state.enqueue(vec![made.position(number).build()]);
        }
        state.remove_run(&"run-7".parse().unwrap());
        let mut left = 0;
        while let Some(lease) = state.lease(&worker(), 4, TTL, now).unwrap() {
            left += 1;
            if left % 10 == 0 {
                state.release(&lease.segment.id, lease.fence, Duration::ZERO, now).unwrap();
                continue;
            }
            state.complete(&lease.segment.id, lease.fence).unwrap();
        }
        assert!(left >= SEGMENTS - SEGMENTS / 50);
        assert!(state.entries.is_empty() && state.runs.is_empty() && state.timers.is_empty());
        assert!(state.turns.is_empty());
        assert!(state.depth().iter().all(|d| d.waiting == 0 && d.leased == 0));
    }
}
