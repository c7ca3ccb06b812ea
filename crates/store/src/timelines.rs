//! The timelines of the catalog: which start of which store its changes are of.
//!
//! - TIM-1: the first catalog change after a start is in a timeline of its own, whose number is random. What a copy of the folder, or a
//!   folder that was restored from a backup, changes is never in a timeline of the original.

use crate::commit::{CATALOG_HEAD, Tx};
use crate::engine::KeyWrite;
use crate::family::Cf;
use crate::key::{Key, trailing_number};
use crate::read::{Read, ReadExt};
use scheduler_core::ports::StoreResult;
use std::hash::{BuildHasher, RandomState};

/// The timeline that the last change is in.
const PRESENT: &[u8] = b"timeline";

/// So many are kept, of so many starts that changed the catalog; an index that is older than all of them is rebuilt.
const TIMELINES_MAX: usize = 1_000;

/// The first change of each timeline that is known, and its number; ascending.
pub(crate) struct Timelines(Vec<(u64, u64)>);

impl Timelines {
    pub(crate) fn of(view: &impl Read) -> StoreResult<Self> {
        let mut all = Vec::new();
        view.visit(Cf::Timelines, &[], &mut |key, value| {
            // One that cannot be read is none: what rests on it is then made anew.
            let timeline = value.try_into().map_or(0, u64::from_be_bytes);
            all.push((trailing_number(key), timeline));
            Ok(true)
        })?;
        Ok(Self(all))
    }

    /// The timeline of a change; 0 when it is not known.
    pub(crate) fn at(&self, sequence: u64) -> u64 {
        let begun = self.0.partition_point(|(first, _)| *first <= sequence);
        begun.checked_sub(1).and_then(|at| self.0.get(at)).map_or(0, |(_, timeline)| *timeline)
    }
}

/// Makes sure that the change of that number, the last one, is in the timeline of this start.
pub(crate) fn note(tx: &mut Tx<'_>, sequence: u64, timeline: u64) -> StoreResult<()> {
    if tx.number(Cf::Meta, PRESENT)? == timeline {
        return Ok(());
    }
    let known = Timelines::of(tx)?.0;
    let surplus = (known.len() + 1).saturating_sub(TIMELINES_MAX);
    known.into_iter().take(surplus).for_each(|(first, _)| tx.delete(Cf::Timelines, key(first)));
    tx.put_number(Cf::Timelines, key(sequence), timeline);
    tx.put_number(Cf::Meta, PRESENT.to_vec(), timeline);
    Ok(())
}

/// The timeline of all changes of a folder from before there were any.
pub(crate) fn missing(view: &impl Read) -> StoreResult<Option<KeyWrite>> {
    let lacks = view.number(Cf::Meta, CATALOG_HEAD)? > 0 && Timelines::of(view)?.0.is_empty();
    Ok(lacks.then(|| KeyWrite { cf: Cf::Timelines, key: key(1), value: Some(random().to_be_bytes().to_vec()) }))
}

/// The number of a timeline; never 0. It is not injected as ids are: one that came again would be of no use.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one("timeline").max(1)
}

fn key(first: u64) -> Vec<u8> {
    Key::default().number(first).done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EmbeddedStore;
    use scheduler_core::ports::CatalogStore;
    use scheduler_testkit::store::build::{alpha, image};
    use tempfile::TempDir;

    #[tokio::test]
    async fn the_changes_of_a_folder_without_timelines_get_one_that_stays() {
        let folder = TempDir::new().unwrap();
        let store = EmbeddedStore::open(folder.path()).unwrap();
        store.put_images(vec![image(&alpha(), 1), image(&alpha(), 2), image(&alpha(), 2)]).await.unwrap();
        let forget = |tx: &mut Tx<'_>| {
            tx.delete(Cf::Timelines, key(1));
            tx.delete(Cf::Meta, PRESENT.to_vec());
            Ok(())
        };
        store.submit(forget).await.unwrap();
        assert_eq!(store.timeline_at(3).await.unwrap(), 0);
        drop(store);
        let mut of_starts = Vec::new();
        for _ in 0..2 {
            let store = EmbeddedStore::open(folder.path()).unwrap();
            for sequence in 1..=3 {
                of_starts.push(store.timeline_at(sequence).await.unwrap());
            }
        }
        assert!(of_starts.iter().all(|timeline| *timeline == of_starts[0] && *timeline != 0), "{of_starts:?}");
        let store = EmbeddedStore::open(folder.path()).unwrap();
        store.put_images(vec![image(&alpha(), 4)]).await.unwrap();
        assert!(![0, of_starts[0]].contains(&store.timeline_at(4).await.unwrap()));
        assert_eq!(store.timeline_at(3).await.unwrap(), of_starts[0]);
    }

    #[tokio::test]
    async fn p10_the_oldest_timelines_are_forgotten_and_what_cannot_be_read_is_none() {
        let folder = TempDir::new().unwrap();
        let store = EmbeddedStore::open(folder.path()).unwrap();
        let starts = TIMELINES_MAX as u64 + 1;
        let all = store.submit(move |tx| {
            (1..=starts).try_for_each(|sequence| note(tx, sequence * 10, sequence))?;
            // The same one again is none further.
            note(tx, starts * 10 + 5, starts)?;
            tx.put(Cf::Timelines, key(50), b"garbage".to_vec());
            Timelines::of(tx)
        });
        let all = all.await.unwrap();
        assert_eq!(all.0.len(), TIMELINES_MAX);
        assert_eq!([0, 19, 20, 29, 30, 50, 60].map(|sequence| all.at(sequence)), [0, 0, 2, 2, 3, 0, 6]);
        assert_eq!(all.at(starts * 10 + 7), starts);
    }
}
