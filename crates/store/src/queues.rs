//! The keys of the families that are queues. What is in them leaves soon, so that on disk they hold mostly deletions that stay until
//! the engine's next compaction, and a walk would pass them all: after a hundred thousand runs, each look at what waits to be planned
//! would cost a hundred thousand steps. So their keys are kept in memory too, and a walk reads the values of these alone.
//!
//! - KEY-1: the keys are those of the last durable write; a failed write is followed by loading them anew.
//! - KEY-2: for a transaction they are exact, since one thread writes both. A reader may see a key later than its value, never
//!   after the write was answered, and finds no value for a key that is newer than its snapshot.

use crate::family::Cf;
use std::collections::BTreeSet;
use std::ops::Bound;

/// The families.
const QUEUES: [Cf; 7] =
    [Cf::Unbatched, Cf::BatchQueue, Cf::Waiting, Cf::Planning, Cf::OpenSegments, Cf::Spills, Cf::LiveBySchedule];

/// The keys of each queue.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    keys: [BTreeSet<Box<[u8]>>; QUEUES.len()],
}

impl Queues {
    /// The families whose keys are kept.
    pub(crate) fn families() -> impl Iterator<Item = Cf> {
        QUEUES.into_iter()
    }

    fn place(cf: Cf) -> Option<usize> {
        QUEUES.iter().position(|queue| *queue == cf)
    }

    /// Whether the keys of the family are kept.
    pub(crate) fn has(cf: Cf) -> bool {
        Self::place(cf).is_some()
    }

    /// Takes note of a key that was written, or removed.
    pub(crate) fn set(&mut self, cf: Cf, key: &[u8], is_there: bool) {
        let Some(keys) = Self::place(cf).and_then(|place| self.keys.get_mut(place)) else { return };
        if is_there {
            keys.insert(key.into());
        } else {
            keys.remove(key);
        }
    }

    /// The keys that begin with `prefix` in order, from `from` on or after it; `None` for a family whose keys are not kept.
    pub(crate) fn range<'a>(
        &'a self,
        cf: Cf,
        prefix: &'a [u8],
        from: &[u8],
        inclusive: bool,
    ) -> Option<impl Iterator<Item = &'a [u8]>> {
        let keys = self.keys.get(Self::place(cf)?)?;
        let start = if inclusive { Bound::Included(from) } else { Bound::Excluded(from) };
        let range = keys.range::<[u8], _>((start, Bound::Unbounded));
        Some(range.map(AsRef::as_ref).take_while(move |key: &&[u8]| key.starts_with(prefix)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Engine, KeyWrite};
    use crate::read::{Read, ReadExt};
    use crate::runs;
    use crate::{EmbeddedStore, events};
    use proptest::prelude::*;
    use rocksdb::perf::{PerfContext, PerfMetric, PerfStatsLevel, set_perf_stats};
    use scheduler_core::ports::RunStore;
    use scheduler_testkit::store::build::*;
    use std::collections::BTreeMap;
    use tempfile::TempDir;

    /// How many deletions the engine passes while something is read.
    fn graves(engine: &Engine, read: impl FnOnce(&crate::engine::View<'_>)) -> u64 {
        set_perf_stats(PerfStatsLevel::EnableCount);
        let mut context = PerfContext::default();
        context.reset();
        engine
            .read(|view| {
                read(view);
                Ok(())
            })
            .unwrap();
        context.metric(PerfMetric::InternalDeleteSkippedCount)
    }

    #[tokio::test]
    async fn p10_a_look_at_what_waits_costs_what_waits_not_what_has_ended() {
        const ENDED: usize = 2_000;
        let folder = TempDir::new().unwrap();
        let store = EmbeddedStore::open(folder.path()).unwrap();
        let ended = (0..ENDED).map(async |number| {
            let run = of_schedule(run(&alpha(), &format!("r-{number}")), "s");
            store.begin_run(new_run(&run)).await.unwrap();
            store.commit_plan(plan(&run, &[])).await.unwrap();
        });
        futures::future::join_all(ended).await;
        let going = of_schedule(run(&alpha(), "going"), "s");
        store.begin_run(new_run(&going)).await.unwrap();
        let walked = graves(&store.engine, |view| {
            let mut found = 0;
            view.walk(Cf::Planning, &[], &[], true, &mut |_, _| {
                found += 1;
                Ok(true)
            })
            .unwrap();
            assert_eq!(found, 1);
        });
        assert!(walked >= ENDED as u64, "a walk passes the deletions: {walked}");
        let looked = graves(&store.engine, |view| {
            assert_eq!(runs::lists::planning(view).unwrap().len(), 1);
            assert_eq!(runs::lists::open_segments(view).unwrap(), []);
            assert_eq!(events::waiting(view).unwrap(), []);
            assert_eq!(runs::lists::live_runs(view, &alpha(), &id("s")).unwrap().len(), 1);
        });
        assert_eq!(looked, 0);
        drop(store);
        let store = EmbeddedStore::open(folder.path()).unwrap();
        assert_eq!(store.planning().await.unwrap().len(), 1, "and so after a restart");
        assert_eq!(store.live_runs(&alpha(), &id("s")).await.unwrap().len(), 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        /// A queue answers as a family that is walked does, whatever was written, removed and opened again.
        #[test]
        fn a_queue_is_read_as_any_family_is(
            groups in proptest::collection::vec(proptest::collection::vec(("[ab]{0,3}", any::<bool>()), 0..9), 1..8),
            asks in proptest::collection::vec(("[ab]{0,2}", "[ab]{0,3}", any::<bool>()), 20),
            reopen_before in 0_usize..8,
        ) {
            let folder = TempDir::new().unwrap();
            let mut engine = Engine::open(folder.path()).unwrap();
            let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
            for (number, group) in groups.into_iter().enumerate() {
                if number == reopen_before {
                    drop(engine);
                    engine = Engine::open(folder.path()).unwrap();
                }
                let writes = group.into_iter().map(|(key, is_put)| {
                    let (key, value) = (key.into_bytes(), is_put.then(|| vec![1]));
                    match &value {
                        Some(value) => drop(model.insert(key.clone(), value.clone())),
                        None => drop(model.remove(&key)),
                    }
                    KeyWrite { cf: Cf::Waiting, key, value }
                });
                let writes: Vec<KeyWrite> = writes.collect();
                engine.write(writes).unwrap();
            }
            for (prefix, from, inclusive) in asks {
                let (prefix, from) = (prefix.as_bytes(), prefix.as_bytes().max(from.as_bytes()));
                let mut read: [Vec<Vec<u8>>; 2] = Default::default();
                engine.read(|view| {
                    view.visit_from(Cf::Waiting, prefix, from, inclusive, &mut |key, _| {
                        read[0].push(key.to_vec());
                        Ok(true)
                    })?;
                    view.walk(Cf::Waiting, prefix, from, inclusive, &mut |key, _| {
                        read[1].push(key.to_vec());
                        Ok(true)
                    })
                }).unwrap();
                prop_assert_eq!(&read[0], &read[1]);
            }
            let all = engine.read(|view| view.pairs(Cf::Waiting, &[], usize::MAX)).unwrap();
            prop_assert_eq!(all, model.into_iter().collect::<Vec<_>>());
        }
    }
}
