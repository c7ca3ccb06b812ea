//! Which versions of a package a range speaks of, by the rules of the package's ecosystem.
//!
//! Pure: no I/O, no clock, no text of its own. A range may only ever be used to leave something out, so every doubt counts
//! against leaving out.
//!
//! - VER-1: [`Range::surely_excludes`] is true only if the range and the version are understood whole and every sensible
//!   reading of the range lacks the version.
//! - VER-2: what is not understood gives no order at all, never a guess.

mod apk;
mod composer;
mod gem;
mod maven;
mod nuget;
mod range;
mod rpm;
mod semantic;
mod version;

pub use range::{Range, Ranges};
pub use version::{Scheme, Version};
