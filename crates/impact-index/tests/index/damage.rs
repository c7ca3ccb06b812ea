use crate::catalog::{component, tenants};
use crate::model::{ModelImage, Op, apply};
use scheduler_impact_index::{ImpactIndex, IndexError, Thresholds};
use scheduler_model::{ImageDigest, ImagePlace};
use std::path::Path;

pub fn many_ops(len: usize) -> Vec<Op> {
    let image = |at: usize| {
        let components =
            (0..20).map(|i| component(&format!("pkg:npm/lib-{}@{}.0", (at * 7 + i) % 61, i % 5))).collect();
        ModelImage {
            place: ImagePlace { repository: format!("r{}", at % 9), ..ImagePlace::default() },
            components,
            used: None,
        }
    };
    let op = |at: usize| Op {
        tenant: tenants()[at % 3].clone(),
        digest: ImageDigest::of(&(at % 150).to_le_bytes()),
        put: (!at.is_multiple_of(11)).then(|| image(at)),
    };
    (0..len).map(op).collect()
}

/// A stored index with several segments, files of both kinds (tables and a log), and its catalog.
fn stored(folder: &Path) -> Vec<Op> {
    let ops = many_ops(300);
    let thresholds = Thresholds { chunk_bytes: 700, ..Thresholds::default() };
    for upto in [150, 250, 300] {
        let index = ImpactIndex::open(folder, thresholds.clone()).unwrap();
        apply(&index, 1, &ops[..upto]);
        index.checkpoint().unwrap();
    }
    ops
}

/// The index is refused as damaged, or it is what it was at some sequence.
fn check(folder: &Path, ops: &[Op], what: &str) -> bool {
    let index = match ImpactIndex::open(folder, Thresholds::default()) {
        Ok(index) => index,
        Err(IndexError::Damaged { reason }) => {
            assert!(!reason.is_empty());
            let index = ImpactIndex::create(folder, Thresholds::default()).unwrap();
            assert_eq!((index.sequence(), index.stats().images), (0, 0));
            return true;
        }
        Err(other) => panic!("{what}: {other:?}"),
    };
    let expected = ImpactIndex::in_memory(Thresholds::default());
    apply(&expected, 1, &ops[..index.sequence() as usize]);
    assert_eq!(index.verify_against(&expected), Ok(()), "{what}");
    false
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Files with one flipped bit come before those that are cut or gone.
const FLIPS: usize = 5;

#[test]
fn a_damaged_checkpoint_gives_no_wrong_answer() {
    let original = tempfile::tempdir().unwrap();
    let ops = stored(original.path());
    let mut refused = 0;
    let names: Vec<_> = std::fs::read_dir(original.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    for name in names {
        let bytes = std::fs::read(original.path().join(&name)).unwrap();
        let is_text = name.to_string_lossy().starts_with("LOG") || name.to_string_lossy().starts_with("OPTIONS");
        if bytes.is_empty() || is_text {
            continue;
        }
        let damages: [_; FLIPS] = [1, 2, 3, 5, 8].map(|part| {
            let mut flipped = bytes.clone();
            flipped[bytes.len() * part / 9] ^= 1 << (part % 8);
            flipped
        });
        let truncated = [0, 1, 2, 3].map(|part| bytes[..bytes.len() * part / 4].to_vec());
        for (at, damaged) in damages.into_iter().chain(truncated).map(Some).chain([None]).enumerate() {
            let folder = tempfile::tempdir().unwrap();
            copy(original.path(), folder.path());
            match damaged {
                Some(damaged) => std::fs::write(folder.path().join(&name), damaged).unwrap(),
                None => std::fs::remove_file(folder.path().join(&name)).unwrap(),
            }
            let what = format!("{} {at}", name.to_string_lossy());
            let is_refused = check(folder.path(), &ops, &what);
            // Only the end of a log may be torn: a crash does that.
            assert!(is_refused || !what.contains(".log") || at >= FLIPS, "{what} passed unnoticed");
            refused += usize::from(is_refused);
        }
    }
    assert!(refused > 0, "no damage was noticed");
}

/// Damage that the engine's own checksums do not see: values that were changed through the engine.
#[test]
fn a_changed_or_missing_value_is_refused() {
    let original = tempfile::tempdir().unwrap();
    let ops = stored(original.path());
    let keys: Vec<Vec<u8>> = {
        let db = rocksdb::DB::open_default(original.path()).unwrap();
        db.iterator(rocksdb::IteratorMode::Start).map(|entry| entry.unwrap().0.to_vec()).collect()
    };
    assert!(keys.len() > 10, "{}", keys.len());
    for (at, key) in keys.iter().enumerate().step_by(keys.len() / 5 + 1).chain([(0, &keys[0])]) {
        for way in 0..4 {
            let folder = tempfile::tempdir().unwrap();
            copy(original.path(), folder.path());
            {
                let db = rocksdb::DB::open_default(folder.path()).unwrap();
                let mut value = db.get(key).unwrap().unwrap();
                let middle = value.len() / 2;
                match way {
                    0 => value[middle] ^= 4,
                    1 => value.truncate(middle),
                    2 => value = db.get(&keys[(at + 1) % keys.len()]).unwrap().unwrap(),
                    _ => value.clear(),
                }
                db.put(key, value).unwrap();
            }
            assert!(check(folder.path(), &ops, &format!("{key:?} {way}")), "{key:?} changed in way {way} is taken");
        }
        let folder = tempfile::tempdir().unwrap();
        copy(original.path(), folder.path());
        rocksdb::DB::open_default(folder.path()).unwrap().delete(key).unwrap();
        check(folder.path(), &ops, &format!("{key:?} deleted"));
    }
}
