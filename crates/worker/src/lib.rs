//! The loops: ticker, planner, runner, index replica and housekeeping. They decide by `scheduler-core` and act through its ports.
//!
//! - WRK-1: every step may be repeated; what is durable is done once.
//! - WRK-2: a loop that meets a store which is away waits for it; it drops nothing and panics never.

mod admission;
mod beginning;
mod call;
mod changes;
mod committing;
mod fleet;
pub mod gauges;
pub mod housekeeping;
mod index_host;
mod planner;
mod planning;
mod refresh;
#[cfg(test)]
mod refresh_tests;
mod reports;
mod run_keys;
#[cfg(test)]
mod run_keys_tests;
pub mod runner;
mod search;
mod segment;
mod services;
mod ticker;
mod traces;

pub use fleet::Fleet;
pub use index_host::{IndexHost, IndexHostError, IndexState, RestoreError};
pub use planner::Planner;
pub use run_keys::{KeyError, Keys, Mentions};
pub use services::{Services, Settings};
pub use ticker::Ticker;
