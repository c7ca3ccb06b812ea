use crate::catalog::tenants;
use crate::damage::many_ops;
use crate::model::{Model, apply};
use scheduler_impact_index::{ImpactIndex, Query, QueryKey, Thresholds, Want};
use scheduler_model::purl::ProductKey;
use scheduler_model::{ImageDigest, Selection};
use std::sync::atomic::{AtomicBool, Ordering};

const CHANGES: usize = 4000;

/// Sets move, become dense and go back, tables grow, and generations follow each other while others read.
pub fn restless() -> Thresholds {
    Thresholds {
        dense_len_min: 4,
        dense_one_in: 8,
        compact_retired_min: 600,
        compact_percent: 25,
        piece_len: 16,
        page_words: 2,
        changes_per_edition: 3,
        ..Thresholds::default()
    }
}

#[test]
fn p01_every_answer_while_images_come_in_is_of_one_sequence() {
    let ops = many_ops(CHANGES);
    let keys: Vec<QueryKey> = ["pkg:npm/lib-7", "pkg:npm/lib-11@3.0", "pkg:npm/lib-60@0.0", "pkg:npm/none"]
        .map(|raw| QueryKey::new(ProductKey::parse(raw).unwrap().0, None))
        .to_vec();
    let (tenant, selection) = (&tenants()[0], &Selection::default());
    let digests = [ImageDigest::of(&3_usize.to_le_bytes()), ImageDigest::of(&9_usize.to_le_bytes())];
    let of_digests = Selection { digests: digests.to_vec(), ..Selection::default() };
    let queries = [
        Query { tenant, selection, keys: Some(&keys), usage_only: true },
        Query { tenant, selection: &of_digests, keys: None, usage_only: false },
    ];

    // What each query gives at each sequence.
    let mut model = Model::default();
    let expected: Vec<Vec<(u64, Vec<ImageDigest>)>> = std::iter::once(None)
        .chain(ops.iter().map(Some))
        .map(|op| {
            op.iter().for_each(|op| model.apply(op));
            queries.iter().map(|query| model.answer(query)).collect()
        })
        .collect();

    let index = ImpactIndex::in_memory(restless());
    let done = AtomicBool::new(false);
    let read = || {
        let (mut last, mut answers) = (0, 0_u64);
        while !done.load(Ordering::Relaxed) || last < CHANGES as u64 {
            for (at, query) in queries.iter().enumerate() {
                let answer = index.resolve(query, Want { digests: true, ..Want::default() });
                assert!(answer.sequence >= last, "an answer goes back from {last} to {}", answer.sequence);
                last = answer.sequence;
                let found: Vec<_> = answer.digests.into_iter().map(|image| image.digest).collect();
                assert_eq!((answer.total, found), expected[last as usize][at], "query {at} at {last}");
                answers += 1;
            }
        }
        answers
    };
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..3).map(|_| scope.spawn(read)).collect();
        for (from, ops) in (1..).step_by(10).zip(ops.chunks(10)) {
            apply(&index, from, ops);
        }
        done.store(true, Ordering::Relaxed);
        let answers: u64 = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        assert!(answers > 100, "the readers were hardly there");
    });
    assert!(index.stats().generation > 3, "too few generations: {}", index.stats().generation);
}
