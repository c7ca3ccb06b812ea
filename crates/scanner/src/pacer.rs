//! Leaky buckets for a fleet of one process.

use crate::bucket::LeakyBucket;
use async_trait::async_trait;
use parking_lot::Mutex;
use scheduler_core::ports::{Bucket, BucketKey, Pacer};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// Below so many buckets none is looked at for being idle.
const SWEEP_MIN: usize = 1_024;

/// The pacer of a process that is alone: its buckets are in memory. A restart begins with empty buckets.
///
/// Memory is bounded by the buckets in use: those that would behave as new ones are forgotten, each time their number
/// has doubled.
pub struct LocalPacer {
    epoch: Instant,
    buckets: Mutex<Buckets>,
}

struct Buckets {
    by_key: HashMap<BucketKey, LeakyBucket>,
    sweep_at: usize,
}

impl LocalPacer {
    /// A pacer with empty buckets, at the monotonic time of the runtime.
    pub fn new() -> Self {
        let buckets = Buckets { by_key: HashMap::new(), sweep_at: SWEEP_MIN };
        Self { epoch: Instant::now(), buckets: Mutex::new(buckets) }
    }

    fn now(&self) -> Duration {
        self.epoch.elapsed()
    }
}

impl Default for LocalPacer {
    fn default() -> Self {
        Self::new()
    }
}

impl Buckets {
    fn sweep(&mut self, now: Duration) {
        if self.by_key.len() >= self.sweep_at {
            self.by_key.retain(|_, bucket| !bucket.is_idle(now));
            self.sweep_at = (2 * self.by_key.len()).max(SWEEP_MIN);
        }
    }

    /// The earliest instant that suits every bucket, reserved in all of them.
    fn reserve(&mut self, wanted: &[Bucket], now: Duration) -> Duration {
        self.sweep(now);
        let mut leaks = Vec::with_capacity(wanted.len());
        for (place, bucket) in wanted.iter().enumerate() {
            // A bucket that is named twice is one bucket.
            if !wanted.iter().take(place).any(|other| other.key == bucket.key) {
                let state = self.by_key.entry(bucket.key.clone()).or_insert_with(LeakyBucket::new);
                let leak = state.settle(now, bucket.rate_per_second);
                leaks.push((&bucket.key, leak));
            }
        }
        let mut begin = now;
        loop {
            // Each round moves to a later gap of some bucket, of which there are finitely many; behind all of them
            // every instant suits.
            let suits = leaks
                .iter()
                .filter_map(|(key, leak)| self.by_key.get(key).map(|bucket| bucket.earliest(begin, *leak)))
                .max()
                .unwrap_or(begin);
            if suits == begin {
                break;
            }
            begin = suits;
        }
        for (key, leak) in leaks {
            if let Some(bucket) = self.by_key.get_mut(key) {
                bucket.reserve(begin, leak);
            }
        }
        begin
    }
}

#[async_trait]
impl Pacer for LocalPacer {
    async fn reserve(&self, buckets: &[Bucket]) -> Duration {
        let now = self.now();
        self.buckets.lock().reserve(buckets, now).saturating_sub(now)
    }

    async fn slow(&self, bucket: &Bucket) {
        let now = self.now();
        let mut buckets = self.buckets.lock();
        buckets.sweep(now);
        buckets.by_key.entry(bucket.key.clone()).or_insert_with(LeakyBucket::new).slow(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: usize, rate_per_second: u32) -> Bucket {
        Bucket { key: BucketKey::Host(name.to_string()), rate_per_second }
    }

    #[tokio::test(start_paused = true)]
    async fn idle_buckets_are_forgotten() {
        let pacer = LocalPacer::new();
        for name in 0..20_000 {
            pacer.reserve(&[host(name, 1_000)]).await;
            tokio::time::advance(Duration::from_millis(2)).await;
        }
        let kept = pacer.buckets.lock().by_key.len();
        assert!(kept <= SWEEP_MIN, "{kept} buckets");
    }

    #[tokio::test(start_paused = true)]
    async fn buckets_in_use_are_kept() {
        let pacer = LocalPacer::new();
        for name in 0..3_000 {
            pacer.reserve(&[host(name, 1)]).await;
        }
        for name in 0..3_000 {
            assert_eq!(pacer.reserve(&[host(name, 1)]).await, Duration::from_secs(1), "host {name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slowed_bucket_recovers_without_a_jump() {
        let pacer = LocalPacer::new();
        let bucket = host(0, 100);
        for _ in 0..4 {
            tokio::time::advance(Duration::from_millis(500)).await;
            pacer.slow(&bucket).await;
        }
        let mut per_second = Vec::new();
        for _ in 0..12 {
            let (second, mut calls) = (Instant::now(), 0);
            while second.elapsed() < Duration::from_secs(1) {
                tokio::time::sleep(pacer.reserve(std::slice::from_ref(&bucket)).await).await;
                calls += 1;
            }
            per_second.push(calls);
        }
        assert!(per_second[0] <= 25, "{per_second:?}");
        assert!(per_second[11] >= 90, "{per_second:?}");
        assert!(per_second.windows(2).all(|pair| pair[1] <= pair[0] + 20), "{per_second:?}");
    }
}
