//! The built binary from outside: over HTTP, by signals, on a data folder of its own.
//!
//! - `cli`: what the program says where something is wrong, at a terminal and in a pipe.
//! - `durability`: kill -9 at any moment loses nothing that was acknowledged and doubles nothing.
//! - `limits`: every limit of the interface, on both sides.
//! - `stream`: the event stream over reconnects, and many readers at once.
//! - `disk`: a full disk, and the sync before the answer.
//! - `documents`: real SBOMs of every kind.
//! - `events_page`: the page of events says what is taken and told.
//! - `metrics`: every sample is described.
//! - `golden`: a data folder of an earlier version opens.
//! - `narrowing`: ranges of affected versions, from webhook to run and preview.
//! - `openapi`: the OpenAPI document has every operation and every status that a test meets.
//! - `pages`: the commands of the documentation are run, its links followed.
//! - `traces`: one trace from webhook to verdict.
//! - `large`: a document of 300 MB.
//! - `refresh`: kills while tags are followed.
//! - `schedules`: clocks before and after they are saved, policy revisions, cursors.
//! - `secrets`: nothing secret leaves.
//! - `senders`: senders who are slow, greedy or unknown.
//! - `snapshot`: an index is written out, lost and restored.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed step has to stop the test")]

mod catalog;
mod cli;
mod client;
mod completions;
mod disk;
mod documents;
mod durability;
mod events_page;
mod foreign;
mod golden;
mod kills;
mod large;
mod limits;
mod markdown;
mod metrics;
mod narrowing;
mod openapi;
mod pages;
mod refresh;
mod scanner;
mod schedules;
mod secrets;
mod senders;
mod service;
mod snapshot;
mod sse;
mod stream;
mod traces;
