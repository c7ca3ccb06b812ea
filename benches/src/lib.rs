//! What the benchmarks share: catalogs that are made from a seed, and figures as `make bench` prints them.
//!
//! The same seed gives the same catalog in every process, so that peers and child processes work on equal data without
//! handing it over.

mod catalog;
mod figure;
mod keys;
pub mod union;

pub use catalog::{Catalog, Keys};
pub use figure::{figure, median_ms, percentile, ratio, rss_bytes, time_ms};
pub use keys::parse_keys;

/// What ends a benchmark.
pub type Outcome = Result<(), Box<dyn std::error::Error>>;
