//! How long to wait before a failed call is made again.

use std::time::Duration;

/// The shortest wait, whatever base and jitter say (unless `cap` is shorter still): a call is never repeated in a tight
/// loop.
const WAIT_MIN: Duration = Duration::from_millis(5);

/// Capped exponential backoff with full jitter: evenly spread over zero to `base` × 2^(attempt − 1), at most `cap`, at
/// least five milliseconds.
///
/// `attempt` counts the calls that were made, from 1. `unit_random` is a number in `0.0..1.0`; anything else counts as
/// 1.0, the longest wait.
///
/// ```
/// use scheduler_scanner::backoff;
/// use std::time::Duration;
/// let (base, cap) = (Duration::from_millis(200), Duration::from_secs(60));
/// assert_eq!(backoff(3, base, cap, 0.5), Duration::from_millis(400));
/// assert_eq!(backoff(30, base, cap, 0.5), Duration::from_secs(30));
/// ```
pub fn backoff(attempt: u32, base: Duration, cap: Duration, unit_random: f64) -> Duration {
    let doublings = attempt.saturating_sub(1);
    let ceiling = 2_u32.checked_pow(doublings).map_or(cap, |factor| base.saturating_mul(factor)).min(cap);
    let share = if (0.0..=1.0).contains(&unit_random) { unit_random } else { 1.0 };
    let wait = Duration::try_from_secs_f64(ceiling.as_secs_f64() * share).unwrap_or(cap);
    wait.max(WAIT_MIN).min(cap)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_wait_is_between_the_floor_and_the_cap(
            attempt in any::<u32>(), base in 0_u64..100_000, cap in 5_u64..1_000_000, random in any::<f64>(),
        ) {
            let (base, cap) = (Duration::from_millis(base), Duration::from_millis(cap));
            let wait = backoff(attempt, base, cap, random);
            prop_assert!(wait >= WAIT_MIN && wait <= cap, "{wait:?}");
        }

        #[test]
        fn ceilings_double_until_the_cap(attempt in 1_u32..20, base in 10_u64..1_000, cap in 1_u64..100) {
            let (base, cap) = (Duration::from_millis(base), Duration::from_secs(cap));
            let expected = base.saturating_mul(2_u32.pow(attempt - 1)).min(cap);
            let longest = backoff(attempt, base, cap, 1.0);
            prop_assert!(longest.abs_diff(expected) < Duration::from_micros(1), "{longest:?} for {expected:?}");
        }

        #[test]
        fn the_jitter_is_full(attempt in 1_u32..20, random in 0.0_f64..1.0) {
            let (base, cap) = (Duration::from_secs(1), Duration::from_secs(60));
            let ceiling = backoff(attempt, base, cap, 1.0);
            let expected = ceiling.mul_f64(random).max(WAIT_MIN);
            prop_assert!(backoff(attempt, base, cap, random).abs_diff(expected) < Duration::from_micros(1));
        }
    }

    #[test]
    fn extremes_saturate() {
        assert_eq!(backoff(u32::MAX, Duration::MAX, Duration::MAX, 1.0), Duration::MAX);
        assert_eq!(backoff(0, Duration::ZERO, Duration::from_secs(1), 0.0), WAIT_MIN);
        assert_eq!(backoff(1, Duration::from_secs(1), Duration::ZERO, 1.0), Duration::ZERO);
    }
}
