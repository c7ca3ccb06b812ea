//! What strangers can hand in, thrown at its readers: purls, sidecars, SBOMs, snapshots and bitmaps.
//!
//! A target takes bytes, and panics when a promise is broken; whatever the bytes are, a reader refuses them or says the same of
//! them twice. [`Mutator`] makes bytes out of seeds that are nearly right, by a seed of its own, so that every finding can be had again. It needs no
//! special toolchain; the targets are plain functions, for those who want to drive them by coverage.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a target reports what it finds by a panic")]

mod mutator;
mod seeds;
mod targets;

pub use mutator::Mutator;
pub use targets::{Target, all};
