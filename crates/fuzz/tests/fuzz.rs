//! A short run of every target; with `SOAK=1` a long one, by another seed each time. `FUZZ_SEED` has a run again.

#![expect(clippy::expect_used, reason = "a target that is not there has to stop its test")]

use scheduler_fuzz::{Mutator, Target, all};
use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// A long run is so many short ones.
const SOAK: u32 = 200;

fn run(name: &str) {
    let target = all().into_iter().find(|target| target.name == name).expect("a target of this name");
    let given = std::env::var("FUZZ_SEED").ok().and_then(|text| text.parse().ok());
    let (count, seed) = match (std::env::var_os("SOAK"), given) {
        (Some(_), given) => (target.short * SOAK, given.unwrap_or_else(|| RandomState::new().hash_one(name))),
        (None, given) => (target.short, given.unwrap_or(1)),
    };
    target.seeds.iter().for_each(|input| check(&target, seed, input));
    let mut mutator = Mutator::new(seed);
    for _ in 0..count {
        check(&target, seed, &mutator.input(&target.seeds, target.words));
    }
}

fn check(target: &Target, seed: u64, input: &[u8]) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (target.check)(input))) {
        eprintln!("{} of seed {seed} fails on \"{}\"", target.name, input.escape_ascii());
        resume_unwind(panic);
    }
}

#[test]
fn no_purl_panics_and_each_has_one_canonical_form() {
    run("purl");
}

#[test]
fn no_sidecar_panics() {
    run("sidecar");
}

#[test]
fn no_sbom_panics_and_each_says_the_same_in_parts() {
    run("sbom");
}

#[test]
fn no_bitmap_panics_or_is_misread() {
    run("bitmap");
}

#[test]
fn p09_no_snapshot_panics_or_is_misread() {
    run("snapshot");
}

#[test]
fn p09_no_content_of_a_snapshot_panics_or_is_misread() {
    run("snapshot-body");
}
