//! What talks to the Scanner service, and how gently.
//!
//! - SCN-1: no call retries by itself; how a failed call may be repeated stands in its error.
//! - SCN-2: an answer is understood whole or not at all; what is taken from it is bounded.
//! - SCN-3: no body, token or password of a call is in an error, a log or a `Debug` text.
//! - SCN-4: in every window of length w, at most burst + rate × w calls of a bucket begin (P7).
//! - SCN-5: while the breaker is open nothing but its probes goes out, and it can always close again.
//!
//! [`HttpScanner`] and [`LocalPacer`] are adapters of the ports of `scheduler-core`; [`Breaker`], [`backoff()`] and
//! [`retry_after()`] are pure. Nothing here knows runs, queues or stores.

mod answer;
mod backoff;
mod breaker;
mod bucket;
mod call_error;
mod config;
mod http;
mod object;
mod pacer;
mod retry_after;
mod token;

pub use backoff::backoff;
pub use breaker::{Breaker, BreakerLimits, CallEnd, Pass, Permit};
pub use config::{ClientIdentity, ScannerConfig, ScannerSetupError, TokenSource};
pub use http::HttpScanner;
pub use pacer::LocalPacer;
pub use retry_after::{RETRY_AFTER_MAX, retry_after};
