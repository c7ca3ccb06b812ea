use crate::catalog::{keys, ops, selection, tenants, thresholds};
use crate::model::{Model, apply};
use proptest::prelude::*;
use scheduler_impact_index::{ImpactIndex, Query, Thresholds};

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::cases(12).min(1000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn p09_a_reopened_index_that_caught_up_equals_the_original(
        ops in ops(50), cuts in prop::collection::vec(0_usize..50, 1..5), lost in 0_usize..8,
        keys in keys(), selection in selection(), thresholds in thresholds(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(ops.len())).collect();
        cuts.sort_unstable();
        let model = Model::of(&ops);
        let mut stored = 0;
        for cut in cuts {
            let index = ImpactIndex::open(folder.path(), thresholds.clone()).unwrap();
            prop_assert_eq!(index.sequence(), stored);
            prop_assert_eq!(index.stats().checkpointed, stored);
            apply(&index, 1, &ops[..cut]);
            stored = index.checkpoint().unwrap();
            prop_assert_eq!(stored, cut as u64);
            // What comes after the checkpoint is lost with the process.
            apply(&index, 1, &ops[..(cut + lost).min(ops.len())]);
        }
        let index = ImpactIndex::open(folder.path(), thresholds.clone()).unwrap();
        prop_assert_eq!(index.sequence(), stored);
        let before = ImpactIndex::in_memory(Thresholds::default());
        apply(&before, 1, &ops[..stored as usize]);
        prop_assert_eq!(index.verify_against(&before), Ok(()));
        apply(&index, stored + 1, &ops[stored as usize..]);
        apply(&before, 1, &ops);
        prop_assert_eq!(index.verify_against(&before), Ok(()));
        for tenant in &tenants() {
            for usage_only in [false, true] {
                model.check(&index, &Query { tenant, selection: &selection, keys: keys.as_deref(), usage_only });
            }
        }
    }
}

#[test]
fn a_reset_index_is_empty_and_stays_so() {
    let folder = tempfile::tempdir().unwrap();
    let index = ImpactIndex::open(folder.path(), Thresholds::default()).unwrap();
    let op = crate::damage::many_ops(3).remove(0);
    apply(&index, 1, std::slice::from_ref(&op));
    index.checkpoint().unwrap();
    index.reset().unwrap();
    assert_eq!((index.sequence(), index.stats().images, index.stats().generation), (0, 0, 1));
    drop(index);
    let index = ImpactIndex::open(folder.path(), Thresholds::default()).unwrap();
    assert_eq!((index.sequence(), index.stats().images, index.stats().generation), (0, 0, 1));
    apply(&index, 1, &[op]);
    assert_eq!((index.checkpoint().unwrap(), index.stats().checkpointed), (1, 1));
}

#[test]
fn p09_a_replaced_index_is_the_other_one_now_and_after_a_start() {
    let folder = tempfile::tempdir().unwrap();
    let index = ImpactIndex::open(folder.path(), Thresholds::default()).unwrap();
    let (old, new) = (crate::damage::many_ops(3), crate::damage::many_ops(7));
    apply(&index, 1, &old);
    index.checkpoint().unwrap();
    let fresh = || {
        let fresh = ImpactIndex::in_memory(Thresholds::default());
        apply(&fresh, 1, &new);
        fresh
    };
    let sequence = fresh().sequence();
    assert_eq!(index.replace(fresh()).unwrap(), sequence);
    assert_eq!(index.verify_against(&fresh()), Ok(()));
    drop(index);
    let index = ImpactIndex::open(folder.path(), Thresholds::default()).unwrap();
    assert_eq!((index.sequence(), index.stats().generation), (sequence, 1));
    assert_eq!(index.verify_against(&fresh()), Ok(()));
}

#[test]
fn a_folder_that_another_index_holds_is_an_error_but_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let _held = ImpactIndex::open(folder.path(), Thresholds::default()).unwrap();
    for result in [ImpactIndex::open, ImpactIndex::create].map(|make| make(folder.path(), Thresholds::default())) {
        assert!(matches!(result, Err(scheduler_impact_index::IndexError::Storage(_))));
    }
}

#[test]
fn creating_replaces_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    let index = ImpactIndex::create(&path, Thresholds::default()).unwrap();
    apply(&index, 1, &crate::damage::many_ops(3));
    assert_eq!(index.checkpoint().unwrap(), 3);
    drop(index);
    assert_eq!(ImpactIndex::create(&path, Thresholds::default()).unwrap().sequence(), 0);
}

#[test]
fn a_folder_that_cannot_be_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("file"), folder.path().join("link"));
    std::fs::write(&file, b"something").unwrap();
    std::os::unix::fs::symlink(folder.path().join("nowhere/at/all"), &link).unwrap();
    for path in [file.clone(), link, file.join("index")] {
        let refused = ImpactIndex::open(&path, Thresholds::default()).err().unwrap();
        let said = format!("the folder {} of the impact index cannot be made", path.display());
        assert_eq!(refused.to_string(), said);
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"something");
}
