//! The index against a naive model of it, over catalogs that are made to take every path.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "test code; what is there, is there"
)]

mod catalog;
mod damage;
mod explaining;
mod model;
mod naming;
mod readers;
mod real_data;
mod resolving;
mod snapshots;
mod storing;

/// How many cases a property is tried with: 10,000 when there is time.
fn cases(in_short: u32) -> u32 {
    if std::env::var_os("SOAK").is_some() { 10_000 } else { in_short }
}
