//! Which images have a report that is fresh enough: sets of ordinals by the day of the last report and by its policy revision,
//! so that "older than so many days, or under another revision" is an operation on sets and no walk over images.
//!
//! A view like the index itself, of ordinals of one generation. What it says of an ordinal that was retired is of no meaning,
//! and does no harm as long as it is asked about live images alone.
//!
//! - IDX-7: an ordinal with a report is in the set of one day, and in that of one revision if the report names one.

use roaring::RoaringBitmap;
use scheduler_model::Timestamp;
use std::collections::{BTreeMap, HashMap};

/// Milliseconds of a bucket.
const DAY: i64 = 86_400_000;

/// The time of an ordinal without a report; earlier than any time there is.
const NEVER: i64 = i64::MIN;

/// The revision of a report that names none.
const NO_REVISION: u32 = u32::MAX;

/// What makes a report too old, or one that does not count. Both may be given: then either is enough.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stale<'a> {
    /// A report before this instant is too old; one of this very instant is not.
    pub before: Option<Timestamp>,
    /// A report under another revision, or under none, does not count.
    pub revision_other_than: Option<&'a str>,
}

/// The last reports of images, by ordinal.
///
/// ```
/// use roaring::RoaringBitmap;
/// use scheduler_impact_index::{ReportSets, Stale};
/// use scheduler_model::Timestamp;
/// let mut reports = ReportSets::default();
/// reports.set(3, Timestamp::from_millis(1_000), Some("rev-1"));
/// let images: RoaringBitmap = [2, 3].into_iter().collect();
/// let stale = Stale { before: Some(Timestamp::from_millis(1_000)), revision_other_than: Some("rev-1") };
/// assert_eq!(reports.fresh(&images, &stale).iter().collect::<Vec<_>>(), [3]);
/// ```
#[derive(Debug, Default)]
pub struct ReportSets {
    /// By ordinal, as far as there are reports.
    at_millis: Vec<i64>,
    revisions: Vec<u32>,
    by_day: BTreeMap<i64, RoaringBitmap>,
    by_revision: Revisions,
}

impl ReportSets {
    /// Takes note of an image's last report, in the place of the one before.
    pub fn set(&mut self, ordinal: u32, reported_at: Timestamp, policy_revision: Option<&str>) {
        let at = ordinal as usize;
        if self.at_millis.len() <= at {
            self.at_millis.resize(at + 1, NEVER);
            self.revisions.resize(at + 1, NO_REVISION);
        }
        let (Some(millis), Some(revision)) = (self.at_millis.get_mut(at), self.revisions.get_mut(at)) else { return };
        let before = std::mem::replace(millis, reported_at.millis());
        if before != NEVER
            && let Some(day) = self.by_day.get_mut(&before.div_euclid(DAY))
        {
            day.remove(ordinal);
            if day.is_empty() {
                self.by_day.remove(&before.div_euclid(DAY));
            }
        }
        self.by_day.entry(reported_at.millis().div_euclid(DAY)).or_default().insert(ordinal);
        self.by_revision.remove(*revision, ordinal);
        *revision = policy_revision.map_or(NO_REVISION, |text| self.by_revision.insert(text, ordinal));
    }

    /// Those of the images that have a report which is not stale. With nothing that makes one stale, all that have one.
    pub fn fresh(&self, images: &RoaringBitmap, stale: &Stale<'_>) -> RoaringBitmap {
        let edge = stale.before.map_or(NEVER, Timestamp::millis);
        let mut fresh = self.since(edge, images);
        if let Some(revision) = stale.revision_other_than {
            match self.by_revision.get(revision) {
                Some(images) => fresh &= images,
                None => fresh.clear(),
            }
        }
        fresh
    }

    /// Those of the images that have a report of that time or later. The days after it count as a whole; of its own day each
    /// image is looked at.
    fn since(&self, edge: i64, images: &RoaringBitmap) -> RoaringBitmap {
        let day = edge.div_euclid(DAY);
        let mut since = RoaringBitmap::new();
        for (_, later) in self.by_day.range(day + 1..) {
            since |= later;
        }
        since &= images;
        if let Some(of_day) = self.by_day.get(&day) {
            let at = |ordinal: u32| self.at_millis.get(ordinal as usize).copied().unwrap_or(NEVER);
            since.extend((of_day & images).iter().filter(|&ordinal| at(ordinal) >= edge));
        }
        since
    }

    /// How many ordinals have a report, retired ones included.
    pub fn len(&self) -> u64 {
        self.by_day.values().map(RoaringBitmap::len).sum()
    }

    /// Whether there is no report at all.
    pub fn is_empty(&self) -> bool {
        self.by_day.is_empty()
    }

    /// Memory that the sets take, estimated.
    pub fn bytes_used(&self) -> usize {
        let of_days: usize = self.by_day.values().map(RoaringBitmap::serialized_size).sum();
        self.at_millis.capacity() * 8 + self.revisions.capacity() * 4 + of_days + self.by_revision.bytes_used()
    }
}

/// The sets of each revision. One that nothing is under any more is forgotten, and its number given again: a scanner that
/// invents a revision for every answer fills nothing.
#[derive(Debug, Default)]
struct Revisions {
    numbers: HashMap<Box<str>, u32>,
    sets: Vec<(Box<str>, RoaringBitmap)>,
    free: Vec<u32>,
}

impl Revisions {
    fn get(&self, text: &str) -> Option<&RoaringBitmap> {
        self.numbers.get(text).and_then(|number| self.sets.get(*number as usize)).map(|(_, images)| images)
    }

    fn insert(&mut self, text: &str, ordinal: u32) -> u32 {
        let number = match self.numbers.get(text) {
            Some(number) => *number,
            None => {
                // There are never more revisions than ordinals.
                let next = u32::try_from(self.sets.len()).unwrap_or(NO_REVISION);
                let number = self.free.pop().unwrap_or(next);
                self.numbers.insert(text.into(), number);
                match self.sets.get_mut(number as usize) {
                    Some(set) => set.0 = text.into(),
                    None => self.sets.push((text.into(), RoaringBitmap::new())),
                }
                number
            }
        };
        if let Some((_, images)) = self.sets.get_mut(number as usize) {
            images.insert(ordinal);
        }
        number
    }

    fn remove(&mut self, number: u32, ordinal: u32) {
        let Some((text, images)) = self.sets.get_mut(number as usize) else { return };
        images.remove(ordinal);
        if images.is_empty() {
            self.numbers.remove(text);
            *text = Box::default();
            self.free.push(number);
        }
    }

    fn bytes_used(&self) -> usize {
        let sets = self.sets.iter().map(|(text, images)| 2 * text.len() + images.serialized_size() + 64);
        sets.sum::<usize>() + self.free.capacity() * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Model = BTreeMap<u32, (i64, Option<&'static str>)>;

    const REVISIONS: [&str; 3] = ["rev-1", "rev-2", ""];

    /// Around the edges of days, on both sides of 1970, and at the ends of time.
    fn millis() -> impl Strategy<Value = i64> {
        let near = (-3_i64..4, -2_i64..3).prop_map(|(day, off)| day * DAY + off);
        prop_oneof![4 => near, 2 => -3 * DAY..3 * DAY, 1 => Just(i64::MIN), 1 => Just(i64::MAX)]
    }

    fn revision() -> impl Strategy<Value = Option<&'static str>> {
        prop_oneof![Just(None), (0..REVISIONS.len()).prop_map(|at| Some(REVISIONS[at]))]
    }

    fn naive(model: &Model, images: &RoaringBitmap, before: Option<i64>, other_than: Option<&str>) -> RoaringBitmap {
        let is_fresh = |ordinal: &u32| {
            model.get(ordinal).is_some_and(|(at, revision)| {
                before.is_none_or(|before| *at >= before) && other_than.is_none_or(|wanted| *revision == Some(wanted))
            })
        };
        images.iter().filter(is_fresh).collect()
    }

    #[test]
    fn the_edge_is_an_instant_and_not_a_day() {
        let at = Timestamp::from_millis;
        let mut reports = ReportSets::default();
        for (ordinal, millis) in [(0, 10 * DAY - 1), (1, 10 * DAY), (2, 10 * DAY + 1), (3, 11 * DAY)] {
            reports.set(ordinal, at(millis), None);
        }
        let images: RoaringBitmap = (0..5).collect();
        let fresh = |before| -> Vec<u32> {
            reports.fresh(&images, &Stale { before: Some(at(before)), ..Stale::default() }).iter().collect()
        };
        assert_eq!(fresh(10 * DAY - 1), [0, 1, 2, 3]);
        assert_eq!(fresh(10 * DAY), [1, 2, 3]);
        assert_eq!(fresh(10 * DAY + 1), [2, 3]);
        assert_eq!(fresh(10 * DAY + 2), [3]);
        assert_eq!(fresh(11 * DAY + 1), [0_u32; 0]);
    }

    #[test]
    fn p10_a_new_revision_for_every_report_fills_nothing() {
        let mut reports = ReportSets::default();
        for number in 0..10_000_i64 {
            reports.set(
                u32::try_from(number % 10).unwrap(),
                Timestamp::from_millis(number * DAY),
                Some(&format!("r{number}")),
            );
        }
        assert_eq!((reports.len(), reports.by_day.len(), reports.by_revision.numbers.len()), (10, 10, 10));
        assert!(reports.by_revision.sets.len() <= 11 && reports.bytes_used() < 8_000, "{}", reports.bytes_used());
    }

    proptest! {
        #[test]
        fn sets_agree_with_a_walk_over_every_image(
            reports in proptest::collection::vec((0_u32..70, millis(), revision()), 0..120),
            images in proptest::collection::btree_set(0_u32..80, 0..80),
            asks in proptest::collection::vec((proptest::option::of(millis()), revision()), 1..8),
        ) {
            let (mut sets, mut model) = (ReportSets::default(), Model::new());
            let images: RoaringBitmap = images.into_iter().collect();
            for (ordinal, millis, revision) in reports {
                let at = Timestamp::from_millis(millis);
                sets.set(ordinal, at, revision);
                model.insert(ordinal, (at.millis(), revision));
            }
            for (before, revision) in asks {
                let before = before.map(Timestamp::from_millis);
                let found = sets.fresh(&images, &Stale { before, revision_other_than: revision });
                prop_assert_eq!(found, naive(&model, &images, before.map(Timestamp::millis), revision));
            }
            prop_assert_eq!(sets.len(), model.len() as u64);
            prop_assert_eq!(sets.is_empty(), model.is_empty());
        }
    }
}
