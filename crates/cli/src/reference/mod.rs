//! Reference pages that are written from the code.

mod api;
mod cli;
mod errors;
mod metrics;
