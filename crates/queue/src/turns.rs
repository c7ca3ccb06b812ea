//! Whose turn it is, and how many slots everybody holds.
//!
//! Four orders inside each other, each a sorted map that only ever holds what may go now, so that a turn costs a few
//! look-ups however much waits:
//!
//! 1. lanes by urgency, unless one was passed over [`PASSED_OVER_MAX`] times;
//! 2. in a lane the tenant that holds the fewest slots, then the one served longest ago;
//! 3. in a tenant the pace group served longest ago;
//! 4. in a group the segment queued first, then the lower position.
//!
//! Who comes anew stands behind those who wait. Were it otherwise, a tenant that always adds one more segment when its last
//! one is done would always go first.

use crate::lanes::PerLane;
use scheduler_model::{Lane, Segment, SegmentId, TenantId, Timestamp};
use std::collections::{BTreeMap, HashMap};

/// How many leases may go to more urgent lanes while a lane waits; the next one is its own.
pub(crate) const PASSED_OVER_MAX: u32 = 16;

/// Grows with every service; what has a lower one was served earlier. No two of the same kind are equal.
type Tick = u64;

/// The place in a group: FIFO, and the id so that no two are equal.
type Place = (Timestamp, u32, SegmentId);

#[derive(Debug, Default)]
pub(crate) struct Turns {
    tick: Tick,
    tenants: HashMap<TenantId, Tenant>,
    /// Tenants that have a ready group, by slots held and last service.
    lanes: PerLane<BTreeMap<(u64, Tick), TenantId>>,
    passed_over: PerLane<u32>,
}

#[derive(Debug)]
struct Tenant {
    /// Slots of its live leases, over all groups.
    held: u64,
    groups: HashMap<String, Group>,
    lanes: PerLane<TenantLane>,
}

#[derive(Debug)]
struct TenantLane {
    served: Tick,
    /// Groups with something waiting in this lane and a free slot, by last service.
    ready: BTreeMap<Tick, String>,
}

#[derive(Debug)]
struct Group {
    parallelism: u32,
    /// When the segment was queued that brought the parallelism.
    parallelism_of: Timestamp,
    /// Slots of its live leases.
    held: u32,
    /// Segments of the group in the queue, whether waiting, delayed or leased.
    members: usize,
    lanes: PerLane<GroupLane>,
}

#[derive(Debug)]
struct GroupLane {
    served: Tick,
    /// What waits, with its number of images.
    waiting: BTreeMap<Place, u32>,
}

impl Group {
    fn free(&self) -> u32 {
        self.parallelism.saturating_sub(self.held)
    }

    fn wait(&mut self, segment: &Segment) {
        let images = u32::try_from(segment.images.len()).unwrap_or(u32::MAX);
        self.lanes.get_mut(segment.lane).waiting.insert(place(segment), images);
    }
}

/// Who goes now.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) segment: SegmentId,
    /// What it got, at least one; already counted as held.
    pub(crate) slots: u32,
}

impl Turns {
    /// A new segment, which waits.
    pub(crate) fn join(&mut self, segment: &Segment) {
        let tick = self.next_tick();
        let tenant = self.tenants.entry(segment.tenant.clone()).or_insert_with(|| Tenant {
            held: 0,
            groups: HashMap::new(),
            lanes: PerLane::of(|| TenantLane { served: tick, ready: BTreeMap::new() }),
        });
        tenant.groups.entry(segment.pace_group.clone()).or_insert_with(|| Group {
            parallelism: 1,
            parallelism_of: segment.queued_at,
            held: 0,
            members: 0,
            lanes: PerLane::of(|| GroupLane { served: tick, waiting: BTreeMap::new() }),
        });
        self.change(&segment.tenant, &segment.pace_group, |_, group| {
            group.members += 1;
            // After a restart segments come in any order, hence by age and not by arrival.
            if segment.queued_at >= group.parallelism_of {
                group.parallelism_of = segment.queued_at;
                // A group without a slot could never end its segments.
                group.parallelism = segment.pace.parallelism.max(1);
            }
            group.wait(segment);
        });
    }

    /// A member that waits again.
    pub(crate) fn wait(&mut self, segment: &Segment) {
        self.change(&segment.tenant, &segment.pace_group, |_, group| group.wait(segment));
    }

    /// A member that did not wait leaves for good.
    pub(crate) fn leave(&mut self, segment: &Segment) {
        self.change(&segment.tenant, &segment.pace_group, |_, group| group.members = group.members.saturating_sub(1));
    }

    /// A member that waited leaves for good.
    pub(crate) fn leave_waiting(&mut self, segment: &Segment) {
        self.change(&segment.tenant, &segment.pace_group, |_, group| {
            group.lanes.get_mut(segment.lane).waiting.remove(&place(segment));
            group.members = group.members.saturating_sub(1);
        });
    }

    /// Frees slots that were held.
    pub(crate) fn give_back(&mut self, segment: &Segment, slots: u32) {
        self.change(&segment.tenant, &segment.pace_group, |_, group| group.held = group.held.saturating_sub(slots));
    }

    /// Takes the segment whose turn it is out of the waiting ones and holds slots for it.
    pub(crate) fn take(&mut self, slots_max: u32) -> Option<Turn> {
        let lane = self.choose_lane()?;
        let tenant_id = self.lanes.get(lane).values().next()?.clone();
        let group_name = self.tenants.get(&tenant_id)?.lanes.get(lane).ready.values().next()?.clone();
        let tick = self.next_tick();
        let mut turn = None;
        self.change(&tenant_id, &group_name, |tenant_lanes, group| {
            let free = group.free();
            let in_lane = group.lanes.get_mut(lane);
            if let Some(((_, _, segment), images)) = in_lane.waiting.pop_first() {
                let slots = slots_max.min(free).min(images).max(1);
                in_lane.served = tick;
                tenant_lanes.get_mut(lane).served = tick;
                group.held += slots;
                turn = Some(Turn { segment, slots });
            }
        });
        debug_assert!(turn.is_some(), "a ready group has something that waits");
        turn
    }

    /// Whether there is a segment whose turn it could be.
    pub(crate) fn any_ready(&self) -> bool {
        Lane::BY_URGENCY.into_iter().any(|lane| self.is_ready(lane))
    }

    fn is_ready(&self, lane: Lane) -> bool {
        !self.lanes.get(lane).is_empty()
    }

    fn choose_lane(&mut self) -> Option<Lane> {
        let ready = || Lane::BY_URGENCY.into_iter().filter(|&lane| self.is_ready(lane));
        let overdue = ready()
            .filter(|&lane| *self.passed_over.get(lane) >= PASSED_OVER_MAX)
            .max_by_key(|&lane| *self.passed_over.get(lane));
        let chosen = overdue.or_else(|| ready().next())?;
        for lane in Lane::BY_URGENCY {
            if lane < chosen && self.is_ready(lane) {
                *self.passed_over.get_mut(lane) += 1;
            }
        }
        *self.passed_over.get_mut(chosen) = 0;
        Some(chosen)
    }

    fn next_tick(&mut self) -> Tick {
        self.tick += 1;
        self.tick
    }

    /// The one way to change a group: takes it and its tenant out of the orders, changes it and puts them back where they
    /// belong now; or forgets them when nothing of theirs is left.
    fn change(
        &mut self,
        tenant_id: &TenantId,
        group_name: &str,
        change: impl FnOnce(&mut PerLane<TenantLane>, &mut Group),
    ) {
        let Some(tenant) = self.tenants.get_mut(tenant_id) else {
            debug_assert!(false, "the tenant of a segment in the queue is known");
            return;
        };
        let Some(group) = tenant.groups.get_mut(group_name) else {
            debug_assert!(false, "the group of a segment in the queue is known");
            return;
        };
        for lane in Lane::BY_URGENCY {
            let turn = tenant.lanes.get_mut(lane);
            self.lanes.get_mut(lane).remove(&(tenant.held, turn.served));
            turn.ready.remove(&group.lanes.get(lane).served);
        }
        let others_hold = tenant.held - u64::from(group.held);
        change(&mut tenant.lanes, group);
        tenant.held = others_hold + u64::from(group.held);
        for lane in Lane::BY_URGENCY {
            let turn = tenant.lanes.get_mut(lane);
            let in_group = group.lanes.get(lane);
            if group.free() > 0 && !in_group.waiting.is_empty() {
                turn.ready.insert(in_group.served, group_name.to_owned());
            }
            if !turn.ready.is_empty() {
                self.lanes.get_mut(lane).insert((tenant.held, turn.served), tenant_id.clone());
            }
        }
        if group.members == 0 {
            tenant.groups.remove(group_name);
            if tenant.groups.is_empty() {
                self.tenants.remove(tenant_id);
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.tenants.is_empty() && !self.any_ready()
    }
}

fn place(segment: &Segment) -> Place {
    (segment.queued_at, segment.position, segment.id.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use scheduler_testkit::queue::segment;

    /// The lanes of so many leases in a row, with something waiting in each of `lanes` all the time.
    fn served(lanes: &[Lane], leases: u32) -> Vec<Lane> {
        let mut turns = Turns::default();
        for lane in lanes {
            for number in 0..leases {
                let id = format!("{}-{number}", lane.as_str());
                turns.join(&segment(&id).group(&id).lane(*lane).build());
            }
        }
        let lane_of = |turn: Turn| lanes.iter().find(|lane| turn.segment.as_str().starts_with(lane.as_str())).copied();
        (0..leases).filter_map(|_| turns.take(1).and_then(lane_of)).collect()
    }

    #[test]
    fn a_lane_is_passed_over_so_often_and_no_more() {
        let order = served(&[Lane::Kev, Lane::Backlog], 40);
        let backlog: Vec<usize> =
            order.iter().enumerate().filter(|(_, lane)| **lane == Lane::Backlog).map(|(at, _)| at).collect();
        assert_eq!(backlog, [16, 33], "each time after sixteen others");
    }

    #[test]
    fn lanes_that_are_due_together_go_one_after_the_other() {
        let letters = served(&Lane::BY_URGENCY, 38).into_iter().filter_map(|lane| lane.as_str().chars().next());
        let kevs = |count| "k".repeat(count);
        let expected = format!("{}bnc{}bknkc", kevs(16), kevs(14));
        assert_eq!(letters.collect::<String>(), expected, "who waited longest goes first, then the less urgent one");
    }
}
