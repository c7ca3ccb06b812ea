//! What the tests of the HTTP adapter share.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

use scheduler_core::ports::Clock;
use scheduler_model::Timestamp;
use scheduler_scanner::{HttpScanner, ScannerConfig};
use std::sync::Arc;
use std::time::Duration;

/// Wall time that stands still.
pub struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp::parse("2026-01-01T00:00:00Z").unwrap()
    }
}

/// The settings of a scanner without credentials.
pub fn config(url: &str) -> ScannerConfig {
    ScannerConfig {
        base_url: url.to_owned(),
        timeout: Duration::from_secs(10),
        token: None,
        ca_file: None,
        identity: None,
    }
}

/// The adapter for some settings.
pub fn scanner_of(config: &ScannerConfig) -> HttpScanner {
    // Fails when another test of the process was first, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    HttpScanner::new(config, Arc::new(FixedClock)).unwrap()
}

/// The adapter for a scanner without credentials.
pub fn scanner_at(url: &str) -> HttpScanner {
    scanner_of(&config(url))
}
