//! Whether writes succeed, without a write for each who asks.

use crate::EmbeddedStore;
use async_trait::async_trait;
use parking_lot::Mutex;
use scheduler_core::ports::{StoreError, StoreResult, Writable};
use std::time::Duration;
use tokio::time::Instant;

/// After a failure a write is tried again for those who ask so often at most: a try writes some megabytes.
const TRIED_EVERY: Duration = Duration::from_secs(5);

/// When writing was tried last for somebody who asked.
#[derive(Default)]
pub(crate) struct Trials(Mutex<Option<Instant>>);

impl Trials {
    /// Whether it is time to try; if so, it counts as done.
    fn is_due(&self, now: Instant) -> bool {
        let mut last = self.0.lock();
        let due = last.is_none_or(|last| now.duration_since(last) >= TRIED_EVERY);
        if due {
            *last = Some(now);
        }
        due
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the last write failed")]
struct LastFailed;

#[async_trait]
impl Writable for EmbeddedStore {
    async fn writable(&self) -> StoreResult<()> {
        if !*self.signals.failing.borrow() {
            return Ok(());
        }
        if self.trials.is_due(Instant::now()) {
            // Any transaction, even an empty one, has the database opened again, when there is room.
            return self.submit(|_| Ok(())).await;
        }
        Err(StoreError::Unavailable { what: "writing".to_owned(), source: Box::new(LastFailed) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p10_a_write_is_tried_rarely_however_many_ask() {
        let (trials, now) = (Trials::default(), Instant::now());
        let tried = (0..100).filter(|tenths| trials.is_due(now + Duration::from_millis(tenths * 100))).count();
        assert_eq!(tried, 2, "in ten seconds");
    }
}
