//! The domain: decisions as pure functions, and the ports that adapters implement.
//!
//! It knows no engine, no network and no clock: time, randomness and ids come in from outside, so that every decision
//! can be tested without waiting and replayed.

pub mod cursor;
pub mod findings;
pub mod launch;
pub mod notify;
pub mod plan;
pub mod ports;
pub mod refresh;
pub mod settle;
pub mod tick;
pub mod window;
