//! Debouncing of exports: the first after a quiet time is planned at once, a storm costs few runs and loses no key.

use scheduler_model::Priority;
use std::time::Duration;

/// The window of one source. Times are durations since any fixed moment of a monotonic clock.
#[derive(Debug, Clone, Default)]
pub struct DebounceWindow {
    open_until: Option<Duration>,
}

/// What to do now with the exports that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Close a batch of all of them.
    Close,
    /// Look again then, or when another export comes.
    WaitUntil(Duration),
    /// Nothing waits and no window is open.
    Quiet,
}

impl DebounceWindow {
    /// Decides, given the urgency of each export that waits. After `Close` the next window is open; the caller closes the
    /// batch before it asks again.
    ///
    /// ```
    /// use scheduler_core::window::{DebounceWindow, Decision};
    /// use scheduler_model::Priority::Normal;
    /// use std::time::Duration;
    /// let (mut window, secs) = (DebounceWindow::default(), Duration::from_secs);
    /// assert_eq!(window.decide(secs(0), &[Normal], secs(30)), Decision::Close);
    /// assert_eq!(window.decide(secs(1), &[Normal], secs(30)), Decision::WaitUntil(secs(30)));
    /// assert_eq!(window.decide(secs(30), &[Normal, Normal], secs(30)), Decision::Close);
    /// ```
    pub fn decide(&mut self, now: Duration, waiting: &[Priority], debounce: Duration) -> Decision {
        if self.open_until.is_some_and(|until| now >= until) && waiting.is_empty() {
            self.open_until = None;
        }
        let urgent = waiting.contains(&Priority::Kev);
        match self.open_until {
            None if waiting.is_empty() => Decision::Quiet,
            Some(until) if now < until && !urgent => Decision::WaitUntil(until),
            None | Some(_) => {
                self.open_until = Some(now + debounce);
                Decision::Close
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Priority::{Critical, Kev, Normal};

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn a_window_that_closes_empty_is_followed_by_quiet() {
        let mut window = DebounceWindow::default();
        assert_eq!(window.decide(S(0), &[], S(30)), Decision::Quiet);
        assert_eq!(window.decide(S(0), &[Normal], S(30)), Decision::Close);
        assert_eq!(window.decide(S(5), &[], S(30)), Decision::WaitUntil(S(30)));
        assert_eq!(window.decide(S(31), &[], S(30)), Decision::Quiet);
        assert_eq!(window.decide(S(32), &[Normal], S(30)), Decision::Close, "the first after a quiet time, at once");
    }

    #[test]
    fn a_window_that_closes_with_something_in_it_opens_the_next() {
        let mut window = DebounceWindow::default();
        assert_eq!(window.decide(S(0), &[Normal], S(30)), Decision::Close);
        assert_eq!(window.decide(S(40), &[Critical], S(30)), Decision::Close);
        assert_eq!(window.decide(S(41), &[Normal], S(30)), Decision::WaitUntil(S(70)));
    }

    #[test]
    fn an_export_with_kev_closes_the_window_at_once() {
        let mut window = DebounceWindow::default();
        assert_eq!(window.decide(S(0), &[Normal], S(30)), Decision::Close);
        assert_eq!(window.decide(S(1), &[Normal, Kev], S(30)), Decision::Close);
        assert_eq!(window.decide(S(2), &[Normal], S(30)), Decision::WaitUntil(S(31)));
    }
}
