//! The loops over the embedded store and queue, a scripted scanner and virtual time.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a bench that cannot be set up has to stop its test")]

mod bench;
mod crowd;
mod only_if;
mod pitfalls;
mod planner;
mod runner;
mod simulation;
mod store;
mod ticker;
mod tickers;
mod world;
mod year;
