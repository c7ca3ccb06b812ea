//! One leaky bucket: the virtual-scheduling form of GCRA, with calls that are reserved ahead of time.
//!
//! The usual form keeps one instant, which is enough as long as each call begins as soon as its bucket lets it. A call
//! that waits for another bucket begins later, together with others that came after it, and would break the rate of
//! this one. So the calls that have not begun yet are kept by their instants: a new call goes into the first gap that
//! keeps the whole sequence within the rate, before them if it may.
//!
//! Instants are durations since an epoch of the caller's; nothing here knows a clock.

use std::collections::VecDeque;
use std::time::Duration;

const PPM: u64 = 1_000_000;
/// A bucket that was slowed again and again keeps a sixteenth of its rate.
const SHARE_MIN_PPM: u64 = PPM / 16;
/// Complaints so soon after one that counted are of the same burst: that of a bucket is half a second's worth.
const COMPLAINTS_APART: Duration = Duration::from_millis(500);
/// A tenth of the nominal rate comes back in a second.
const NANOS_PER_PPM_RECOVERED: u128 = 10_000;
/// So many calls are kept ahead; with more of them, none goes before the earliest any longer.
const AHEAD_MAX: usize = 4_096;

/// How a bucket leaks just now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leak {
    /// The time that each call takes up.
    interval: Duration,
    /// How far ahead of its time a call may begin: the burst less the call itself.
    tolerance: Duration,
}

#[derive(Debug)]
pub(crate) struct LeakyBucket {
    /// When the calls that have begun have leaked out.
    settled: Duration,
    /// No call goes before it.
    not_before: Duration,
    /// When the reserved calls begin, in order.
    ahead: VecDeque<Duration>,
    /// When everything has leaked out for sure, at the rates at which it was reserved.
    idle_at: Duration,
    /// The share of the nominal rate that was left at `share_at`.
    share_ppm: u64,
    share_at: Duration,
    /// When it was slowed last.
    slowed_at: Option<Duration>,
}

impl LeakyBucket {
    /// An empty bucket.
    pub(crate) fn new() -> Self {
        Self {
            settled: Duration::ZERO,
            not_before: Duration::ZERO,
            ahead: VecDeque::new(),
            idle_at: Duration::ZERO,
            share_ppm: PPM,
            share_at: Duration::ZERO,
            slowed_at: None,
        }
    }

    /// Whether it behaves as a new one, so that it may be forgotten.
    pub(crate) fn is_idle(&self, now: Duration) -> bool {
        self.idle_at <= now && self.share_ppm(now) == PPM
    }

    /// Halves the rate, once for a burst of complaints.
    pub(crate) fn slow(&mut self, now: Duration) {
        if self.slowed_at.is_some_and(|at| now.saturating_sub(at) < COMPLAINTS_APART) {
            return;
        }
        self.slowed_at = Some(now);
        self.share_ppm = (self.share_ppm(now) / 2).max(SHARE_MIN_PPM);
        self.share_at = now;
    }

    fn share_ppm(&self, now: Duration) -> u64 {
        let recovered = now.saturating_sub(self.share_at).as_nanos() / NANOS_PER_PPM_RECOVERED;
        u64::try_from(recovered).map_or(PPM, |recovered| self.share_ppm.saturating_add(recovered).min(PPM))
    }

    /// Counts the calls that have begun by `now` as begun, and says how the bucket leaks.
    pub(crate) fn settle(&mut self, now: Duration, rate_per_second: u32) -> Leak {
        let leak = Leak::new(rate_per_second, self.share_ppm(now));
        while self.ahead.front().is_some_and(|begin| *begin <= now) {
            self.settle_first(leak);
        }
        leak
    }

    fn settle_first(&mut self, leak: Leak) {
        if let Some(begin) = self.ahead.pop_front() {
            self.settled = leak.after(self.settled, begin);
            self.not_before = begin;
        }
    }

    /// The earliest instant, not before `wanted`, at which one more call keeps the rate.
    pub(crate) fn earliest(&self, wanted: Duration, leak: Leak) -> Duration {
        let wanted = wanted.max(self.not_before);
        let latest = self.latest_backlogs(leak);
        let mut backlog = self.settled;
        for (next, latest) in self.ahead.iter().zip(latest) {
            let begin = wanted.max(backlog.saturating_sub(leak.tolerance));
            if begin <= *next && leak.after(backlog, begin) <= latest {
                return begin;
            }
            backlog = leak.after(backlog, *next);
        }
        wanted.max(backlog.saturating_sub(leak.tolerance))
    }

    /// For each call ahead, how late the calls before it may have leaked out so that it and all after it keep their
    /// instants.
    fn latest_backlogs(&self, leak: Leak) -> Vec<Duration> {
        let mut latest: Vec<Duration> = Vec::with_capacity(self.ahead.len());
        let mut after = Duration::MAX;
        for begin in self.ahead.iter().rev() {
            after = begin.saturating_add(leak.tolerance).min(after.saturating_sub(leak.interval));
            latest.push(after);
        }
        latest.reverse();
        latest
    }

    /// Takes a call at an instant that [`Self::earliest`] gave.
    pub(crate) fn reserve(&mut self, begin: Duration, leak: Leak) {
        let place = self.ahead.partition_point(|other| *other <= begin);
        self.ahead.insert(place, begin);
        self.idle_at = leak.after(self.idle_at, begin);
        if self.ahead.len() > AHEAD_MAX {
            self.settle_first(leak);
        }
    }
}

impl Leak {
    fn new(rate_per_second: u32, share_ppm: u64) -> Self {
        let calls_per_million_s = u64::from(rate_per_second.max(1)).saturating_mul(share_ppm.max(1));
        // Rounded up, so that the rate is never exceeded.
        let interval = Duration::from_nanos((1_000_000_000 * PPM).div_ceil(calls_per_million_s));
        let burst = u32::try_from(calls_per_million_s / (2 * PPM)).unwrap_or(u32::MAX).max(1);
        Self { interval, tolerance: interval.saturating_mul(burst - 1) }
    }

    /// When everything has leaked out after one more call.
    fn after(self, backlog: Duration, begin: Duration) -> Duration {
        backlog.max(begin).saturating_add(self.interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn secs(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// Calls that begin, when one comes at each of the instants.
    fn begins(bucket: &mut LeakyBucket, rate: u32, arrivals: &[Duration]) -> Vec<Duration> {
        let mut begins = Vec::new();
        for now in arrivals {
            let leak = bucket.settle(*now, rate);
            let begin = bucket.earliest(*now, leak);
            bucket.reserve(begin, leak);
            begins.push(begin);
        }
        begins
    }

    #[test]
    fn the_burst_is_half_a_second_and_at_least_one_call() {
        for (rate, burst) in [(1, 1), (2, 1), (3, 1), (4, 2), (50, 25), (200, 100), (u32::MAX, u32::MAX / 2)] {
            let leak = Leak::new(rate, PPM);
            let calls = leak.tolerance.as_nanos() / leak.interval.as_nanos() + 1;
            assert_eq!(calls, u128::from(burst), "{rate} a second");
        }
    }

    #[test]
    fn a_slowed_bucket_halves_to_a_sixteenth_and_recovers_by_a_tenth_a_second() {
        let mut bucket = LeakyBucket::new();
        let check = |bucket: &LeakyBucket, at: f64, ppm: u64| assert_eq!(bucket.share_ppm(secs(at)), ppm, "at {at}");
        bucket.slow(secs(0.0));
        check(&bucket, 0.0, 500_000);
        check(&bucket, 0.5, 550_000);
        check(&bucket, 1.0, 600_000);
        check(&bucket, 60.0, PPM);
        for half_seconds in 120..140 {
            bucket.slow(secs(f64::from(half_seconds) / 2.0));
        }
        check(&bucket, 69.5, 62_500);
        check(&bucket, 78.5, 962_500);
        check(&bucket, 79.5, PPM);
        assert!(!bucket.is_idle(secs(78.5)));
        assert!(bucket.is_idle(secs(79.5)));
    }

    #[test]
    fn complaints_of_one_burst_halve_the_rate_once() {
        let mut bucket = LeakyBucket::new();
        let mut check = |at: f64, ppm: u64| {
            bucket.slow(secs(at));
            assert_eq!(bucket.share_ppm(secs(at)), ppm, "at {at}");
        };
        check(10.0, 500_000);
        check(10.0, 500_000);
        check(10.499, 549_900);
        check(10.5, 275_000);
        check(10.6, 285_000);
    }

    #[test]
    fn a_call_goes_before_those_that_wait_for_something_else() {
        let mut bucket = LeakyBucket::new();
        let leak = bucket.settle(Duration::ZERO, 10);
        for begin in [5.0, 6.0, 7.0] {
            bucket.reserve(secs(begin), leak);
        }
        assert_eq!(bucket.earliest(Duration::ZERO, leak), Duration::ZERO);
    }

    #[test]
    fn calls_that_waited_for_something_else_are_counted_where_they_begin() {
        let mut bucket = LeakyBucket::new();
        let leak = bucket.settle(Duration::ZERO, 10);
        for _ in 0..5 {
            bucket.reserve(secs(5.0), leak);
        }
        // The burst of five is taken at second 5 already.
        assert_eq!(bucket.earliest(secs(5.0), leak), secs(5.1));
        assert_eq!(bucket.earliest(secs(4.95), leak), secs(5.1));
        assert_eq!(bucket.earliest(secs(4.0), leak), secs(4.0));
    }

    #[test]
    fn calls_ahead_are_bounded() {
        let mut bucket = LeakyBucket::new();
        let arrivals = vec![Duration::ZERO; AHEAD_MAX + 50];
        let begins = begins(&mut bucket, 10, &arrivals);
        assert_eq!(bucket.ahead.len(), AHEAD_MAX);
        assert_eq!(*begins.last().unwrap(), secs((AHEAD_MAX + 50 - 5) as f64 / 10.0));
    }

    /// The most that begins in any window against what the rate allows in it.
    fn check_windows(begins: &[Duration], rate: u32) -> Result<(), TestCaseError> {
        let mut begins = begins.to_vec();
        begins.sort();
        let burst = f64::from((rate / 2).max(1));
        for (first, from) in begins.iter().enumerate() {
            for (last, to) in begins.iter().enumerate().skip(first) {
                let (count, width) = ((last - first + 1) as f64, (*to - *from).as_secs_f64());
                prop_assert!(count <= burst + f64::from(rate) * width + 1e-6, "{count} calls in {width} s at {rate}/s");
            }
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn p07_every_window_has_at_most_burst_and_rate(
            rate in 1_u32..300, gaps in proptest::collection::vec(0_u64..200_000, 1..150),
        ) {
            let mut now = Duration::ZERO;
            let arrivals: Vec<_> = gaps.iter().map(|gap| { now += Duration::from_micros(*gap); now }).collect();
            check_windows(&begins(&mut LeakyBucket::new(), rate, &arrivals), rate)?;
        }

        #[test]
        fn p07_holds_for_calls_that_other_buckets_delay(
            rate in 1_u32..100, calls in proptest::collection::vec((0_u64..100_000, 0_u64..3_000_000), 1..100),
        ) {
            let (mut bucket, mut now, mut begins) = (LeakyBucket::new(), Duration::ZERO, Vec::new());
            for (gap, delay) in calls {
                now += Duration::from_micros(gap);
                let leak = bucket.settle(now, rate);
                let begin = bucket.earliest(now + Duration::from_micros(delay), leak);
                prop_assert_eq!(bucket.earliest(begin, leak), begin, "what is granted is stable");
                bucket.reserve(begin, leak);
                begins.push(begin);
            }
            check_windows(&begins, rate)?;
        }

        #[test]
        fn p07_an_idle_bucket_is_as_a_new_one(
            rate in 1_u32..100, calls in proptest::collection::vec((0_u64..100_000, 0_u64..3_000_000), 1..50),
        ) {
            let (mut bucket, mut now) = (LeakyBucket::new(), Duration::ZERO);
            for (gap, delay) in calls {
                now += Duration::from_micros(gap);
                let leak = bucket.settle(now, rate);
                let begin = bucket.earliest(now + Duration::from_micros(delay), leak);
                bucket.reserve(begin, leak);
                prop_assert!(!bucket.is_idle(begin));
            }
            let idle_at = bucket.idle_at;
            prop_assert!(bucket.is_idle(idle_at));
            let arrivals = vec![idle_at; 100];
            prop_assert_eq!(begins(&mut bucket, rate, &arrivals), begins(&mut LeakyBucket::new(), rate, &arrivals));
        }

        #[test]
        fn p07_a_lone_bucket_is_as_fast_as_plain_gcra(
            rate in 1_u32..300, gaps in proptest::collection::vec(0_u64..200_000, 1..150),
        ) {
            let leak = Leak::new(rate, PPM);
            let (mut now, mut backlog, mut expected, mut arrivals) = (Duration::ZERO, Duration::ZERO, vec![], vec![]);
            for gap in gaps {
                now += Duration::from_micros(gap);
                arrivals.push(now);
                let begin = now.max(backlog.saturating_sub(leak.tolerance));
                backlog = backlog.max(begin) + leak.interval;
                expected.push(begin);
            }
            prop_assert_eq!(begins(&mut LeakyBucket::new(), rate, &arrivals), expected);
        }

        #[test]
        fn p07_holds_at_the_fastest_rate_while_rates_change(
            calls in proptest::collection::vec((0_u64..100_000, 1_u32..100, any::<bool>()), 1..100),
        ) {
            let (mut bucket, mut now, mut begins) = (LeakyBucket::new(), Duration::ZERO, Vec::new());
            let fastest = calls.iter().map(|(_, rate, _)| *rate).max().unwrap();
            for (gap, rate, slow) in calls {
                now += Duration::from_micros(gap);
                if slow {
                    bucket.slow(now);
                }
                let leak = bucket.settle(now, rate);
                let begin = bucket.earliest(now, leak);
                bucket.reserve(begin, leak);
                begins.push(begin);
            }
            check_windows(&begins, fastest)?;
        }
    }
}
