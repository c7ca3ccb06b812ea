use crate::catalog::{component, keys, ops, selection, tenants, thresholds};
use crate::damage::many_ops;
use crate::model::{Model, ModelImage, Op, TIMELINE, apply};
use proptest::prelude::*;
use scheduler_impact_index::{ImpactIndex, Query, SnapshotError, SnapshotInfo, Thresholds};
use scheduler_model::{ImageDigest, ImagePlace};
use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use std::path::PathBuf;

fn taken(index: &ImpactIndex) -> Vec<u8> {
    let mut file = Vec::new();
    index.snapshot(&mut file).unwrap();
    file
}

fn read(file: &[u8]) -> Result<(ImpactIndex, SnapshotInfo), SnapshotError> {
    ImpactIndex::from_snapshot(Cursor::new(file), Thresholds::default())
}

fn of(ops: &[Op]) -> ImpactIndex {
    let index = ImpactIndex::in_memory(Thresholds::default());
    apply(&index, 1, ops);
    index
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::cases(500), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn p09_a_restored_index_that_caught_up_equals_the_original(
        ops in ops(50), cut in 0_usize..50, keys in keys(), selection in selection(), before in thresholds(), after in thresholds(),
    ) {
        let cut = cut.min(ops.len());
        let original = ImpactIndex::in_memory(before);
        apply(&original, 1, &ops[..cut]);
        let file = taken(&original);
        let (restored, info) = ImpactIndex::from_snapshot(Cursor::new(&file), after).unwrap();
        let stats = original.stats();
        prop_assert_eq!((info.sequence, info.images, info.postings), (cut as u64, stats.images, stats.postings));
        prop_assert_eq!(SnapshotInfo::read(Cursor::new(&file)).unwrap(), info);
        prop_assert_eq!(restored.verify_against(&original), Ok(()));
        // The catalog is replayed from somewhere before.
        apply(&restored, 1, &ops);
        apply(&original, 1, &ops);
        prop_assert_eq!(restored.sequence(), ops.len() as u64);
        prop_assert_eq!(restored.verify_against(&original), Ok(()));
        let model = Model::of(&ops);
        for tenant in &tenants() {
            model.check(&restored, &Query { tenant, selection: &selection, keys: keys.as_deref(), usage_only: true });
        }
    }
}

/// A few images, so that every byte of the file can be tried.
fn small() -> Vec<u8> {
    taken(&of(&many_ops(12)))
}

#[test]
fn a_snapshot_that_ends_early_is_refused_wherever_it_does() {
    let file = small();
    for len in 0..file.len() {
        let refused = read(&file[..len]).err();
        match len {
            0..8 => assert!(matches!(refused, Some(SnapshotError::Foreign)), "{len} bytes: {refused:?}"),
            _ => assert!(matches!(refused, Some(SnapshotError::Damaged { .. })), "{len} bytes: {refused:?}"),
        }
    }
}

#[test]
fn a_snapshot_with_a_flipped_bit_is_refused_whichever_it_is() {
    let file = small();
    for at in 0..file.len() {
        let mut flipped = file.clone();
        flipped[at] ^= 1 << (at % 8);
        let refused = read(&flipped).err();
        let expected = match at {
            0..8 => matches!(refused, Some(SnapshotError::Foreign)),
            8..12 => matches!(refused, Some(SnapshotError::Version(_))),
            _ => matches!(refused, Some(SnapshotError::Damaged { .. })),
        };
        assert!(expected, "byte {at}: {refused:?}");
    }
}

#[test]
fn what_follows_a_snapshot_is_noticed() {
    for rest in [&b"\0"[..], b"more", &small()] {
        let file = [small().as_slice(), rest].concat();
        assert!(matches!(read(&file).err(), Some(SnapshotError::Damaged { .. })));
    }
}

/// The checksum says that it was written so, but no program of ours does.
#[test]
fn what_follows_the_frame_or_its_end_is_refused_under_a_right_checksum() {
    let file = small();
    let frame = &file[12..file.len() - 8];
    let body = zstd::decode_all(frame).unwrap();
    assert!(read(&around(frame)).is_ok());
    let more = [body.as_slice(), b"\0"].concat();
    for after in [
        zstd::encode_all(&*more, 1).unwrap(),
        [frame, b"\0"].concat(),
        [frame, &zstd::encode_all(&b""[..], 1).unwrap()].concat(),
        [frame, frame].concat(),
    ] {
        let refused = read(&around(&after)).err().unwrap();
        assert_eq!(refused.to_string(), "the snapshot is torn or altered: something follows its end");
    }
}

/// A file with a right checksum around a body.
fn around(compressed: &[u8]) -> Vec<u8> {
    let mut file = b"SIIXSNAP\x02\0\0\0".to_vec();
    file.extend_from_slice(compressed);
    let sum = xxhash_rust::xxh3::xxh3_64(&file);
    file.extend_from_slice(&sum.to_le_bytes());
    file
}

/// Lengths and counts that nothing follows: they are believed no further than there are bytes.
#[test]
fn p10_lengths_that_cannot_be_are_refused() {
    const HUGE: &[u8] = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    const U32_MAX: &[u8] = b"\xff\xff\xff\xff\x0f";
    let chunk = |parts: &[&[u8]]| {
        let content = parts.concat();
        [&[u8::try_from(content.len()).unwrap()][..], &content].concat()
    };
    // A sequence, a timeline, seven counts and the postings, all 0; then a tenant.
    let (head, tenant) = (chunk(&[&[0; 10]]), chunk(&[b"\0\x04acme"]));
    let check = |chunks: &[&[u8]], says: &str| {
        let body = zstd::encode_all(&*chunks.concat(), 1).unwrap();
        let refused = read(&around(&body)).err().unwrap();
        assert!(matches!(refused, SnapshotError::Damaged { .. }), "{refused:?}");
        assert!(refused.to_string().contains(says), "{refused}");
    };
    check(&[HUGE], "a chunk is too long");
    check(&[&head, HUGE], "a chunk is too long");
    // 64 MiB and one byte, and 64 MiB that are not there.
    check(&[&head, b"\x81\x80\x80\x20"], "a chunk is too long");
    check(&[&head, b"\x80\x80\x80\x20"], "it ends too early");
    check(&[&head, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"], "a length cannot be read");
    check(&[&chunk(&[U32_MAX, U32_MAX, U32_MAX, &[0; 7]]), &[0]], "was stored");
    check(&[&chunk(&[&[0; 9], HUGE]), &[0]], "postings are missing");
    check(&[&head, &chunk(&[b"\0", HUGE, b"acme"])], "a record cannot be read");
    check(&[&head, &tenant, &chunk(&[b"\x05\0", &[7; 32], b"\0", U32_MAX, b"\0\0"])], "a record cannot be read");
    check(&[&head, &tenant, &chunk(&[b"\x07\0", U32_MAX, b"\0\0"])], "a record cannot be read");
}

#[test]
fn p10_a_frame_that_asks_for_much_memory_is_refused() {
    let with_window = |log: u32| {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(log).unwrap();
        // The frame says how large its window is when its content is longer than what was buffered.
        std::io::copy(&mut std::io::repeat(0).take(1 << 22), &mut encoder).unwrap();
        read(&around(&encoder.finish().unwrap())).err().unwrap().to_string()
    };
    assert!(with_window(24).contains("it cannot be decompressed"), "{}", with_window(24));
    // This one is read: it begins with an empty head.
    assert!(with_window(23).contains("its head cannot be read"), "{}", with_window(23));
}

#[test]
fn a_file_that_is_something_else_is_named_so() {
    let check = |file: &[u8], said: &str| assert_eq!(read(file).err().unwrap().to_string(), said);
    check(b"PK\x03\x04 an archive", "this is no snapshot of an impact index");
    check(&zstd::encode_all(&b"compressed"[..], 1).unwrap(), "this is no snapshot of an impact index");
    let mut newer = small();
    newer[8] = 3;
    check(&newer, "the snapshot is of format version 3, this program reads 1 to 2");
    newer[8] = 0;
    check(&newer, "the snapshot is of format version 0, this program reads 1 to 2");
    let mut flipped = small();
    let last = flipped.len() - 1;
    flipped[last] ^= 1;
    check(&flipped, "the snapshot is torn or altered: its checksum is wrong");
}

#[test]
fn p09_a_snapshot_that_is_taken_while_images_come_in_is_of_one_sequence() {
    let ops = many_ops(1500);
    let index = ImpactIndex::in_memory(crate::readers::restless());
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for (from, ops) in (1..).step_by(10).zip(ops.chunks(10)) {
                apply(&index, from, ops);
            }
        });
        let (mut sequences, mut last) = (Vec::new(), false);
        while !last {
            last = writer.is_finished();
            let (restored, info) = read(&taken(&index)).unwrap();
            assert_eq!(restored.verify_against(&of(&ops[..info.sequence as usize])), Ok(()), "at {}", info.sequence);
            sequences.push(info.sequence);
        }
        assert!(sequences.is_sorted() && sequences.last() == Some(&1500), "{sequences:?}");
    });
}

/// The catalog of the golden file: two tenants, replaced and deleted images, everything that a place can have, bits and long lists.
fn golden_ops() -> Vec<Op> {
    let place = ImagePlace {
        registry: "registry.example.com".to_owned(),
        repository: "магазин/cart".to_owned(),
        namespaces: vec!["prod".to_owned(), "test".to_owned()],
        tags: vec!["1.0".to_owned(), "latest".to_owned()],
        labels: BTreeMap::from([("team".to_owned(), "cart".to_owned())]),
    };
    let purls = [
        "pkg:deb/debian/libssl3@1:3.0.11-1?arch=amd64&upstream=openssl%403.0.11",
        "pkg:npm/%40scope/a@1.0.0",
        "pkg:pypi/%D0%BF%D0%B0%D0%BA%D0%B5%D1%82",
        "pkg:oci/cart@1.0",
    ];
    let image = |at: usize| ModelImage {
        place: if at.is_multiple_of(3) { place.clone() } else { ImagePlace::default() },
        components: purls.iter().cycle().skip(at).take(at % 5).map(|purl| component(purl)).collect(),
        used: at.is_multiple_of(2).then(|| (0..at as u32 % 5).step_by(2).collect()),
    };
    let op = |at: usize| Op {
        tenant: tenants()[at % 2].clone(),
        digest: ImageDigest::of(&[(at % 130) as u8]),
        put: (at % 17 != 16).then(|| image(at)),
    };
    (0..200).map(op).collect()
}

fn golden(version: u32) -> Vec<u8> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/index/golden"));
    std::fs::read(folder.join(format!("snapshot-v{version}.bin"))).unwrap()
}

/// A snapshot of version 1 as a program of that time wrote it. It is never written again.
#[test]
fn p09_the_snapshot_of_version_1_is_read() {
    let (golden, expected) = (golden(1), of(&golden_ops()));
    let (read, info) = read(&golden).unwrap();
    assert_eq!((info.sequence, info.images), (200, expected.stats().images));
    assert_eq!(read.verify_against(&expected), Ok(()));
    assert_eq!(expected.verify_against(&read), Ok(()));
    assert_eq!((info.timeline, read.timeline()), (0, 0));
}

/// The format is what it was: with another one comes another version.
#[test]
fn p09_the_snapshot_of_version_2_is_read_and_written() {
    let (golden, expected) = (golden(2), of(&golden_ops()));
    let (read, info) = read(&golden).unwrap();
    assert_eq!((info.sequence, info.timeline, read.timeline()), (200, TIMELINE, TIMELINE));
    assert_eq!(read.verify_against(&expected), Ok(()));
    assert_eq!(expected.verify_against(&read), Ok(()));
    // What is written now is the same but for the compression.
    let body = |file: &[u8]| zstd::decode_all(&file[12..file.len() - 8]).unwrap();
    assert_eq!(body(&taken(&expected)), body(&golden));
}
