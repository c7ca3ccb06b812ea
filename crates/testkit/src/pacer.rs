//! The contract suite of the `Pacer` port.
//!
//! Nothing sleeps: a reservation says when its call would begin, and that is compared with what the rates allow. So the
//! suite holds for a pacer with a clock of its own (a server's) too, within [`TOLERANCE`].

use scheduler_core::ports::{Bucket, BucketKey, Pacer};
use scheduler_model::TenantId;
use std::time::Duration;
use tokio::time::Instant;

/// By how much instants may differ: a call to a server, and its rounding.
pub const TOLERANCE: Duration = Duration::from_millis(150);

/// The bucket of a tenant.
pub fn tenant(name: &str, rate_per_second: u32) -> Bucket {
    let key = TenantId::try_from(name.to_owned()).unwrap_or_else(|error| panic!("{name}: {error}"));
    Bucket { key: BucketKey::Tenant(key), rate_per_second }
}

/// The bucket of a schedule.
pub fn group(name: &str, rate_per_second: u32) -> Bucket {
    Bucket { key: BucketKey::Group(name.to_owned()), rate_per_second }
}

/// The bucket of a registry host.
pub fn host(name: &str, rate_per_second: u32) -> Bucket {
    Bucket { key: BucketKey::Host(name.to_owned()), rate_per_second }
}

/// Panics when more begins in some window than half a second's worth (at least one call) and the rate allow.
pub fn check_windows(begins: &[Instant], rate_per_second: u32) {
    let mut begins = begins.to_vec();
    begins.sort();
    let (rate, burst) = (f64::from(rate_per_second), f64::from((rate_per_second / 2).max(1)));
    for (first, from) in begins.iter().enumerate() {
        for (count, to) in (1_u32..).zip(begins.iter().skip(first)) {
            let width = (*to - *from + TOLERANCE).as_secs_f64();
            assert!(
                f64::from(count) <= burst + rate * width + 1e-6,
                "{count} calls in {width:.3} s at {rate} a second"
            );
        }
    }
}

/// The cases. Each takes a pacer whose buckets are empty.
pub mod cases {
    use super::*;

    async fn begin(pacer: &dyn Pacer, buckets: &[Bucket]) -> Instant {
        let asked = Instant::now();
        asked + pacer.reserve(buckets).await
    }

    async fn begins(pacer: &dyn Pacer, buckets: &[Bucket], calls: usize) -> Vec<Instant> {
        let mut begins = Vec::with_capacity(calls);
        for _ in 0..calls {
            begins.push(begin(pacer, buckets).await);
        }
        begins
    }

    fn check_at(start: Instant, begin: Instant, expected_ms: u64, what: &str) {
        let (got, expected) = (begin.saturating_duration_since(start), Duration::from_millis(expected_ms));
        assert!(got.abs_diff(expected) <= TOLERANCE, "{what}: at {got:?} instead of {expected:?}");
    }

    fn last(begins: &[Instant]) -> Instant {
        begins.last().copied().unwrap_or_else(|| panic!("no call"))
    }

    /// Half a second's worth goes at once, the rest at the rate.
    pub async fn p07_the_burst_goes_at_once_and_the_rest_at_the_rate(pacer: &dyn Pacer) {
        let start = Instant::now();
        let begins = begins(pacer, &[tenant("t", 20)], 50).await;
        check_windows(&begins, 20);
        for (place, begin) in begins.iter().enumerate() {
            let expected = u64::try_from(place).unwrap_or(0).saturating_sub(9) * 50;
            check_at(start, *begin, expected, &format!("call {place}"));
        }
    }

    /// Where half a second's worth is less than a call, the burst is one call.
    pub async fn p07_the_burst_is_one_call_at_least(pacer: &dyn Pacer) {
        let start = Instant::now();
        let begins = begins(pacer, &[tenant("t", 1)], 3).await;
        for (begin, expected) in begins.iter().zip([0, 1_000, 2_000]) {
            check_at(start, *begin, expected, "a call at one a second");
        }
    }

    /// The slowest bucket sets the wait.
    pub async fn p07_the_wait_is_the_longest_of_the_buckets(pacer: &dyn Pacer) {
        let start = Instant::now();
        let buckets = [tenant("t", 100), group("g", 10), host("h", 2)];
        let begins = begins(pacer, &buckets, 5).await;
        check_at(start, last(&begins), 2_000, "the fifth call at two a second");
    }

    /// A reservation takes a call out of each of its buckets.
    pub async fn p07_a_call_counts_in_every_bucket(pacer: &dyn Pacer) {
        let start = Instant::now();
        begins(pacer, &[tenant("t", 10), group("g", 1_000)], 5).await;
        check_at(start, begin(pacer, &[tenant("t", 10)]).await, 100, "the tenant's sixth call");
        begins(pacer, &[group("g", 4)], 2).await;
        let more = begins(pacer, &[group("g", 4)], 4).await;
        assert!(last(&more) > start + Duration::from_millis(750), "the group's calls were counted");
    }

    /// Buckets of other names or other kinds do not mind.
    pub async fn p07_buckets_are_apart(pacer: &dyn Pacer) {
        begins(pacer, &[tenant("same", 1)], 5).await;
        let start = Instant::now();
        for other in [tenant("other", 1), group("same", 1), host("same", 1)] {
            check_at(start, begin(pacer, std::slice::from_ref(&other)).await, 0, &format!("{other:?}"));
        }
    }

    /// Calls that wait for a slow host do not make the tenant's others wait.
    pub async fn p07_a_slow_host_holds_no_other_up(pacer: &dyn Pacer) {
        let start = Instant::now();
        begins(pacer, &[tenant("t", 200), host("slow", 1)], 6).await;
        let fast = begins(pacer, &[tenant("t", 200), host("fast", 200)], 10).await;
        check_at(start, last(&fast), 0, "a call about another host");
    }

    /// Calls that waited for a host still keep the tenant's rate where they begin.
    pub async fn p07_calls_that_waited_keep_the_rate(pacer: &dyn Pacer) {
        let mut all = Vec::new();
        for name in ["a", "b", "c", "d", "e", "f"] {
            all.extend(begins(pacer, &[tenant("t", 4), host(name, 1)], 3).await);
        }
        all.extend(begins(pacer, &[tenant("t", 4)], 10).await);
        check_windows(&all, 4);
    }

    /// A schedule's new rate holds for what is reserved from then on.
    pub async fn p07_a_changed_rate_holds_from_then_on(pacer: &dyn Pacer) {
        begins(pacer, &[group("g", 1_000)], 10).await;
        let start = Instant::now();
        let slower = begins(pacer, &[group("g", 2)], 4).await;
        check_windows(&slower, 2);
        assert!(last(&slower) >= start + Duration::from_millis(1_350), "the slower rate");
        let faster = begins(pacer, &[group("g", 1_000)], 10).await;
        assert!(last(&faster) < start + Duration::from_millis(2_500), "the faster rate");
    }

    /// Reservations at the same time are as many calls.
    pub async fn p07_the_rate_holds_for_many_at_once(pacer: &dyn Pacer) {
        let bucket = [tenant("t", 20)];
        let (a, b, c, d) = tokio::join!(
            begins(pacer, &bucket, 10),
            begins(pacer, &bucket, 10),
            begins(pacer, &bucket, 10),
            begins(pacer, &bucket, 10)
        );
        check_windows(&[a, b, c, d].concat(), 20);
    }

    /// The calls that were in flight together complain together: that halves the rate once.
    pub async fn a_burst_of_complaints_halves_the_rate_once(pacer: &dyn Pacer) {
        for complaints in [1_u32, 2, 9] {
            let bucket = host(&format!("h{complaints}"), 16);
            for _ in 0..complaints {
                pacer.slow(&bucket).await;
            }
            let begins = begins(pacer, std::slice::from_ref(&bucket), 12).await;
            let spaced = begins.iter().rev().take(2).copied().collect::<Vec<_>>();
            let &[later, earlier] = spaced.as_slice() else { panic!("two calls") };
            let expected = Duration::from_millis(125);
            // It recovers while this runs, by a tenth a second: a little early is right.
            assert!(later - earlier <= expected.mul_f64(1.2), "{complaints} complaints: {:?}", later - earlier);
            assert!(later - earlier >= expected.mul_f64(0.6), "{complaints} complaints: {:?}", later - earlier);
        }
    }

    /// A complaint about one bucket slows that one only.
    pub async fn a_complaint_slows_its_bucket_only(pacer: &dyn Pacer) {
        for _ in 0..4 {
            pacer.slow(&host("slow", 16)).await;
        }
        let start = Instant::now();
        let others = begins(pacer, &[tenant("t", 16), host("other", 16)], 8).await;
        check_at(start, last(&others), 0, "the burst about another host");
    }

    /// Without buckets there is nothing to wait for.
    pub async fn no_bucket_is_no_wait(pacer: &dyn Pacer) {
        assert_eq!(pacer.reserve(&[]).await, Duration::ZERO);
    }
}

/// The contract suite: `pacer_contract!(make)`, where the async `make()` gives a pacer whose buckets are empty.
#[macro_export]
macro_rules! pacer_contract {
    ($make:path) => {
        $crate::pacer_contract!(@cases $make:
            p07_the_burst_goes_at_once_and_the_rest_at_the_rate,
            p07_the_burst_is_one_call_at_least,
            p07_the_wait_is_the_longest_of_the_buckets,
            p07_a_call_counts_in_every_bucket,
            p07_buckets_are_apart,
            p07_a_slow_host_holds_no_other_up,
            p07_calls_that_waited_keep_the_rate,
            p07_a_changed_rate_holds_from_then_on,
            p07_the_rate_holds_for_many_at_once,
            a_burst_of_complaints_halves_the_rate_once,
            a_complaint_slows_its_bucket_only,
            no_bucket_is_no_wait,
        );
    };
    (@cases $make:path: $($case:ident,)*) => {
        $(
            #[tokio::test]
            async fn $case() {
                $crate::pacer::cases::$case(&$make().await).await;
            }
        )*
    };
}
