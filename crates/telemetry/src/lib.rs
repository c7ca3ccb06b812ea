//! Logs. Lines go to stderr; `RUST_LOG` narrows or widens them.
//!
//! - TEL-1: no secret, token, signature or body is ever a field or a message.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

/// What is logged when `RUST_LOG` does not say.
const DEFAULT_FILTER: &str = "info";

/// Sets the process's logs up: one JSON object a line, or text for people. A second call changes nothing.
pub fn init_logs(json: bool) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_span_events(FmtSpan::NONE)
        .with_target(false);
    // Somebody else, as a test, may have set them up before.
    let _ = if json { logs.json().flatten_event(true).try_init() } else { logs.try_init() };
}
