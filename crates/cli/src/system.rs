//! The real clock, randomness and ids. Everything else gets them from outside.

use rand::TryRngCore;
use scheduler_core::ports::{Clock, Ids, Random};
use scheduler_model::Timestamp;
use std::time::{SystemTime, UNIX_EPOCH};
use uuid::Uuid;

/// The machine's clock.
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is where time comes from")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// The system's randomness.
pub struct SystemRandom;

impl Random for SystemRandom {
    fn unit(&self) -> f64 {
        rand::random()
    }
}

/// UUIDs of version 7: later ones sort after earlier ones.
pub struct UuidIds;

impl Ids for UuidIds {
    #[expect(clippy::disallowed_methods, reason = "this is where ids come from")]
    fn fresh(&self) -> String {
        Uuid::now_v7().to_string()
    }
}

/// Randomness for a new key, from the operating system.
pub fn secret_bytes() -> anyhow::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    rand::rngs::OsRng.try_fill_bytes(&mut bytes)?;
    Ok(bytes)
}
