//! Instants: which one is due, what becomes of missed ones, who goes first when a run has ended.
//!
//! - TIC-1: instants are counted from the last one that was handled, never from now.
//! - TIC-2: whatever the clock does, an instant that was handled does not come again.
//! - TIC-3: any number of missed instants costs one run, or none.

use scheduler_model::ids::content_id;
use scheduler_model::{Misfire, Overlap, Run, RunId, Schedule, ScheduleId, TenantId, Timestamp, Trigger};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// An instant that is handled so much later counts as missed. Clocks that differ or jump by less are no downtime.
pub const GRACE: Duration = Duration::from_secs(60);

/// A handled instant that is so far ahead of the clock was handled by a clock that was wrong. Two clocks that are each right to
/// a minute differ by less.
const AHEAD_MAX: Duration = Duration::from_secs(180);

/// The instants of one calendar, in order.
pub trait Instants {
    /// The first one strictly later.
    fn next(&self, after: Timestamp) -> Option<Timestamp>;

    /// The last one strictly earlier.
    fn prev(&self, before: Timestamp) -> Option<Timestamp>;
}

/// Why an instant waits or was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Obstacle {
    /// A run of the schedule still goes, or exports take their turn.
    Overlap,
    /// The tenant has as many runs or images open as it may.
    Limits,
    /// It was missed, and the schedule skips what it missed.
    Misfire,
}

impl Obstacle {
    /// The word for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Overlap => "overlap",
            Self::Limits => "limits",
            Self::Misfire => "misfire",
        }
    }
}

/// An instant whose run has not begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// The instant.
    pub instant: Timestamp,
    /// Whether it makes up for earlier ones.
    pub catch_up: bool,
    /// What it waits for.
    pub obstacle: Obstacle,
}

/// An instant that got no run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Dropped {
    /// The last one of those that were dropped together.
    pub instant: Timestamp,
    /// Why.
    pub obstacle: Obstacle,
}

/// Where the ticker stands with a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TickState {
    /// Whose schedule.
    pub tenant: TenantId,
    /// The schedule.
    pub schedule: ScheduleId,
    /// Moves on with every write; 0: nothing is stored.
    pub revision: u64,
    /// Instants up to here are done with.
    pub handled: Timestamp,
    /// The instant after that, by the time-zone data named beside it.
    pub next: Option<Timestamp>,
    /// The release of the time-zone data that `next` was computed with.
    pub time_zone_data: String,
    /// At most one waits.
    pub waiting: Option<Waiting>,
    /// The last that was dropped.
    pub dropped: Option<Dropped>,
}

impl TickState {
    /// The state of a schedule of which nothing is stored.
    pub fn new(schedule: &Schedule) -> Self {
        Self {
            tenant: schedule.tenant.clone(),
            schedule: schedule.id.clone(),
            revision: 0,
            handled: schedule.counts_from(),
            next: None,
            time_zone_data: String::new(),
            waiting: None,
            dropped: None,
        }
    }

    /// The state after what was edited: instants before a resumption or under an earlier expression are gone, one that
    /// waits too.
    pub fn under(mut self, schedule: &Schedule) -> Self {
        self.handled = self.handled.max(schedule.counts_from());
        self.waiting = self.waiting.filter(|waiting| waiting.instant > schedule.counts_from());
        self
    }

    /// The instant that waits for a run, if the schedule may have one.
    pub fn waits(&self, schedule: &Schedule) -> Option<Waiting> {
        let ticks = schedule.spec.enabled && schedule.spec.when_cron.is_some() && schedule.deleted_at.is_none();
        self.waiting.filter(|waiting| ticks && waiting.instant > schedule.counts_from())
    }
}

/// What the clock asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Nothing before that time; `None`: nothing ever.
    Nothing(Option<Timestamp>),
    /// A run for this instant.
    Run {
        /// The last instant that is due.
        instant: Timestamp,
        /// Whether some before it, or it itself, were missed.
        catch_up: bool,
    },
    /// No run: everything up to this instant was missed, and the schedule skips what it missed.
    Skip(Timestamp),
}

/// Where counting goes on from at `now`: the last handled instant, unless the clock was far ahead when that was handled and is
/// not any more, which must not silence a schedule until then. What had begun is known by the runs' ids and comes to nothing new.
/// Where it is another one than `handled`, it becomes what is handled: counted from now at every look, nothing would ever be due.
pub fn counts_from(handled: Timestamp, now: Timestamp) -> Timestamp {
    if handled.since(now) > AHEAD_MAX { now } else { handled }
}

/// What is due at `now`, of the instants after `handled`, which [`counts_from`] gave. Takes a bounded number of steps, however many were missed.
pub fn due(schedule: &Schedule, instants: &impl Instants, handled: Timestamp, now: Timestamp) -> Due {
    let fires = |instant| fires_at(schedule, instants, instant);
    let Some(first) = instants.next(handled) else { return Due::Nothing(None) };
    if fires(first) > now {
        return Due::Nothing(Some(fires(first)));
    }
    // Every instant fires before the next one comes, so that only the last one before now can be due and still delayed.
    let mut last = instants.prev(now.plus(Duration::from_millis(1))).map_or(first, |last| last.max(first));
    if last > first && fires(last) > now {
        last = instants.prev(last).map_or(first, |last| last.max(first));
    }
    let late = now.since(fires(last)) > GRACE;
    match schedule.spec.misfire {
        Misfire::Once => Due::Run { instant: last, catch_up: late || last > first },
        Misfire::Skip if late => Due::Skip(last),
        Misfire::Skip => Due::Run { instant: last, catch_up: false },
    }
}

/// When the run of an instant begins: up to `jitterSeconds` later, the same in every process, and before the next instant.
pub fn fires_at(schedule: &Schedule, instants: &impl Instants, instant: Timestamp) -> Timestamp {
    let jitter = u64::from(schedule.spec.jitter_seconds) * 1000;
    if jitter == 0 {
        return instant;
    }
    let gap = instants
        .next(instant)
        .map_or(u64::MAX, |next| u64::try_from(next.since(instant).as_millis()).unwrap_or(u64::MAX));
    let hash = content_id("jitter", &[schedule.id.as_str(), &instant.to_string()]);
    let number = hash.get(..16).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or_default();
    // Between 0 and the jitter, both included, but less than the gap.
    instant.plus(Duration::from_millis(number % (jitter + 1).min(gap.max(1))))
}

/// What an instant does that meets runs of its schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meeting {
    /// It begins: none goes.
    Begin,
    /// It waits until they have ended.
    Wait,
    /// It is dropped.
    Drop,
    /// It waits, and these are cancelled for it.
    Replace(Vec<RunId>),
}

/// Settles the meeting of an instant with the runs that go. Whatever carries changes that nobody else carries (an export's
/// run, and one that took over what another left) is never cancelled for an instant: its images would be forgotten.
pub fn meet(overlap: Overlap, live: &[Run]) -> Meeting {
    if live.is_empty() {
        return Meeting::Begin;
    }
    match overlap {
        Overlap::Queue => Meeting::Wait,
        Overlap::Skip => Meeting::Drop,
        Overlap::Replace => {
            let carries = |run: &&Run| run.trigger.is_event() || run.reason.left_over > 0;
            let idle = live.iter().filter(|run| !carries(run) && run.cancel_requested_at.is_none());
            let replaced: Vec<RunId> = idle.map(|run| run.id.clone()).collect();
            if replaced.is_empty() { Meeting::Wait } else { Meeting::Replace(replaced) }
        }
    }
}

/// Whether exports go before an instant when both wait for the same schedule: they take turns, so that neither waits for
/// ever. `last` is what started the schedule's last run.
pub fn exports_go_first(last: Option<Trigger>) -> bool {
    !last.is_some_and(Trigger::is_event)
}

#[cfg(test)]
#[path = "tick_tests.rs"]
mod tests;
