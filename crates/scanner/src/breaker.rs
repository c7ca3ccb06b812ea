//! The circuit breaker of one scanner, so that a scanner that is down for a while fails no image.
//!
//! It opens at a refused connection, or after five failures of the scanner in a row over two images or more. While it
//! is open, one probe at a time goes out, the first after a short wait, then at doubling waits; the first probe that is
//! answered closes it. A probe is a real call; what it fails with is no attempt of its image.
//!
//! Images that always fail look like an outage when no others are left. They are told apart by a ping beside each failed
//! probe: when for a long time every probe has failed and every ping was answered, the scanner is there and it is the
//! images that fail. The breaker closes then, and failures of the images that were probed open it no more, so that their
//! attempts run out.
//!
//! Tenants take turns with probes: who failed one lets others go first, so that a tenant whose images all fail holds up nobody
//! whose images do not.
//!
//! It is pure: instants come in, and nothing is waited for. A caller asks for a [`Permit`] before each call and tells
//! with its [`Pass`] how the call ended.

use scheduler_core::ports::ScannerError;
use scheduler_model::{ErrorClass, ImageDigest, TenantId};
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::Instant;

/// Suspects that are remembered; beyond it the breaker forgets them all, and learns them again.
const SUSPECTS_MAX: usize = 1_024;

/// When the breaker opens and how it probes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakerLimits {
    /// Failures in a row that open it.
    pub failures_max: u32,
    /// The wait before the first probe.
    pub probe_wait_min: Duration,
    /// The longest wait between probes.
    pub probe_wait_max: Duration,
    /// How long a probe is waited for. One that was never reported is forgotten then; longer than a call may take.
    pub probe_expires_after: Duration,
    /// How long probes must fail while pings are answered until the images are blamed.
    pub blame_after: Duration,
}

impl BreakerLimits {
    /// Five failures, waits of 200 ms to 5 s, images blamed after two minutes, and probes that are forgotten some time after
    /// a call of `call_timeout` must have ended.
    pub fn for_calls_of(call_timeout: Duration) -> Self {
        Self {
            failures_max: 5,
            probe_wait_min: Duration::from_millis(200),
            probe_wait_max: Duration::from_secs(5),
            probe_expires_after: call_timeout.saturating_add(Duration::from_secs(5)),
            blame_after: Duration::from_secs(120),
        }
    }
}

/// How a call ended, as far as the breaker minds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEnd {
    /// The scanner is there and did its work: a verdict, or a refusal of the image.
    Answered,
    /// The scanner is there, but this says nothing about how well it is: 429, or an answer that cannot be understood.
    Unclear,
    /// A timeout, a 5xx, or a connection that was lost in the middle.
    Failed,
    /// No connection could be made.
    Refused,
}

impl CallEnd {
    /// The end that a call's answer means.
    pub fn of<T>(answer: &Result<T, ScannerError>) -> Self {
        match answer {
            Ok(_) => Self::Answered,
            Err(error) if error.refused => Self::Refused,
            Err(error) => match error.class {
                ErrorClass::Timeout | ErrorClass::Connect | ErrorClass::ServerError => Self::Failed,
                ErrorClass::Rejected => Self::Answered,
                ErrorClass::Throttled | ErrorClass::BadResponse | ErrorClass::Internal => Self::Unclear,
            },
        }
    }
}

/// Whether a call may go out.
#[derive(Debug, PartialEq, Eq)]
pub enum Permit {
    /// Yes.
    Go(Pass),
    /// Yes, as the probe. The caller may take its time before the call begins; meanwhile no other probe goes.
    Probe(Pass),
    /// No; ask again then.
    WaitUntil(Instant),
}

/// Belongs to one call, from its permit to its end.
#[derive(Debug, PartialEq, Eq)]
pub struct Pass {
    /// In which state of the breaker the call began, by number.
    era: u64,
    /// Which probe it is, in that state.
    probe: Option<u64>,
}

impl Pass {
    /// Whether the call is a probe.
    pub fn is_probe(&self) -> bool {
        self.probe.is_some()
    }
}

/// The breaker of one scanner.
#[derive(Debug)]
pub struct Breaker {
    limits: BreakerLimits,
    /// Counts the openings and closings. A call whose pass is of an older era saw an opening.
    era: u64,
    state: State,
    /// Images whose failures say nothing of the scanner.
    suspects: HashSet<ImageDigest>,
}

#[derive(Debug)]
enum State {
    Closed(Streak),
    Open(Probing),
}

/// Failures since the last answer.
#[derive(Debug, Default)]
struct Streak {
    failures: u32,
    first: Option<ImageDigest>,
    over_several_images: bool,
}

#[derive(Debug)]
struct Probing {
    wait: Duration,
    next_at: Instant,
    /// The number of the last probe, and when it is forgotten, while it is on its way.
    number: u64,
    under_way_until: Option<Instant>,
    /// Who the last probe was of.
    last: Option<TenantId>,
    /// Since when every failed probe had an answered ping beside it.
    pinged_since: Option<Instant>,
    /// The images of those probes.
    probed: HashSet<ImageDigest>,
}

impl Breaker {
    /// A closed breaker.
    pub fn new(limits: BreakerLimits) -> Self {
        Self { limits, era: 0, state: State::Closed(Streak::default()), suspects: HashSet::new() }
    }

    /// Whether it is open: segments should be leased only as far as probes of more tenants need them.
    pub fn is_open(&self) -> bool {
        match self.state {
            State::Closed(_) => false,
            State::Open(_) => true,
        }
    }

    /// Asks for a call of a tenant.
    ///
    /// While a probe is on its way the instant to wait for is close by, so that its success is soon noticed; it is never
    /// in the past.
    pub fn permit(&mut self, tenant: &TenantId, now: Instant) -> Permit {
        let probing = match &mut self.state {
            State::Closed(_) => return Permit::Go(Pass { era: self.era, probe: None }),
            State::Open(probing) => probing,
        };
        match probing.under_way_until {
            Some(until) if now < until => return Permit::WaitUntil(until.min(now + self.limits.probe_wait_min)),
            Some(_) | None => {}
        }
        let grace = if probing.last.as_ref() == Some(tenant) { self.limits.probe_wait_min } else { Duration::ZERO };
        let turn = probing.next_at + grace;
        if now < turn {
            return Permit::WaitUntil(turn);
        }
        probing.last = Some(tenant.clone());
        probing.number += 1;
        probing.under_way_until = Some(now + self.limits.probe_expires_after);
        Permit::Probe(Pass { era: self.era, probe: Some(probing.number) })
    }

    /// Whether a call with that pass may still begin: nothing has opened or closed since it was given.
    pub fn still_lets(&self, pass: &Pass) -> bool {
        pass.era == self.era
    }

    /// Takes a pass back whose call did not begin, so that another probe may go at once.
    pub fn give_back(&mut self, pass: &Pass) {
        if let State::Open(probing) = &mut self.state
            && probing.is_current(pass, self.era)
        {
            probing.under_way_until = None;
        }
    }

    /// Takes the answer of a ping that was made because the probe of `image` failed; before the probe's own end is told.
    pub fn on_ping(&mut self, pass: &Pass, image: &ImageDigest, answered: bool, now: Instant) {
        let State::Open(probing) = &mut self.state else { return };
        if !probing.is_current(pass, self.era) {
            return;
        }
        if !answered {
            probing.pinged_since = None;
            probing.probed.clear();
            return;
        }
        let since = *probing.pinged_since.get_or_insert(now);
        if probing.probed.len() < SUSPECTS_MAX {
            probing.probed.insert(image.clone());
        }
        if now.saturating_duration_since(since) >= self.limits.blame_after {
            let blamed = std::mem::take(&mut probing.probed);
            if self.suspects.len() + blamed.len() > SUSPECTS_MAX {
                self.suspects.clear();
            }
            self.suspects.extend(blamed);
            self.turn(State::Closed(Streak::default()));
        }
    }

    /// Takes the end of a call, and says whether the call counts as an attempt of its image.
    ///
    /// It does not when the scanner failed it and the breaker was or is open during the call, nor when it was refused.
    /// Whatever the scanner answered counts.
    pub fn on_end(&mut self, pass: Pass, image: &ImageDigest, end: CallEnd, now: Instant) -> bool {
        let saw_an_opening = pass.era != self.era || self.is_open();
        match end {
            CallEnd::Answered | CallEnd::Unclear => {
                if end == CallEnd::Answered {
                    self.suspects.remove(image);
                }
                self.on_answer(&pass, end);
                true
            }
            CallEnd::Failed => {
                self.on_failure(&pass, image, now);
                !saw_an_opening
            }
            CallEnd::Refused => {
                self.on_refusal(&pass, now);
                false
            }
        }
    }

    fn on_answer(&mut self, pass: &Pass, end: CallEnd) {
        match &mut self.state {
            State::Closed(streak) => {
                if end == CallEnd::Answered && pass.era == self.era {
                    *streak = Streak::default();
                }
            }
            // Also a probe that was forgotten: it was answered after all. A call from before the opening may have used
            // a connection that is still there while new ones are refused, and closes nothing.
            State::Open(_) => {
                if pass.era == self.era {
                    self.turn(State::Closed(Streak::default()));
                }
            }
        }
    }

    fn on_failure(&mut self, pass: &Pass, image: &ImageDigest, now: Instant) {
        match &mut self.state {
            State::Closed(streak) => {
                // A call from before the last opening tells of that time, and a suspect's of itself.
                if pass.era == self.era
                    && !self.suspects.contains(image)
                    && streak.count(image) >= self.limits.failures_max
                    && streak.over_several_images
                {
                    self.open(now);
                }
            }
            State::Open(probing) => probing.failed(pass, self.era, now, self.limits.probe_wait_max),
        }
    }

    fn on_refusal(&mut self, pass: &Pass, now: Instant) {
        match &mut self.state {
            // A refusal is about this moment, but one from before the last opening may be as old as a call can be.
            State::Closed(_) => {
                if pass.era == self.era {
                    self.open(now);
                }
            }
            State::Open(probing) => probing.failed(pass, self.era, now, self.limits.probe_wait_max),
        }
    }

    fn open(&mut self, now: Instant) {
        let wait = self.limits.probe_wait_min;
        self.turn(State::Open(Probing {
            wait,
            next_at: now + wait,
            number: 0,
            under_way_until: None,
            last: None,
            pinged_since: None,
            probed: HashSet::new(),
        }));
    }

    fn turn(&mut self, state: State) {
        self.era += 1;
        self.state = state;
    }
}

impl Streak {
    fn count(&mut self, image: &ImageDigest) -> u32 {
        self.failures = self.failures.saturating_add(1);
        match &self.first {
            None => self.first = Some(image.clone()),
            Some(first) => self.over_several_images |= first != image,
        }
        self.failures
    }
}

impl Probing {
    fn is_current(&self, pass: &Pass, era: u64) -> bool {
        pass.era == era && pass.probe == Some(self.number) && self.under_way_until.is_some()
    }

    fn failed(&mut self, pass: &Pass, era: u64, now: Instant, wait_max: Duration) {
        if self.is_current(pass, era) {
            self.under_way_until = None;
            self.wait = self.wait.saturating_mul(2).min(wait_max);
            self.next_at = now + self.wait;
        }
    }
}

#[cfg(test)]
#[path = "breaker_tests.rs"]
mod tests;
