//! A fake scanner whose answers a closure gives, at the runtime's time (which tests may pause).

use async_trait::async_trait;
use parking_lot::Mutex;
use scheduler_core::ports::{ImageScan, ReportRequest, ScanProgress, ScanState, Scanner, ScannerError};
use scheduler_model::{Delta, ErrorClass, Found, ImageDigest, Report, Verdict};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

type Behaviour = dyn Fn(&ReportRequest, u32) -> Result<Report, ScannerError> + Send + Sync;

/// A call of `report` that the fake took.
#[derive(Debug, Clone)]
pub struct ReportCall {
    /// What was asked.
    pub request: ReportRequest,
    /// The how-manieth call with that tenant and catalog digest it was, from 1.
    pub nth: u32,
    /// When it began.
    pub began: Instant,
    /// When it was answered; `None` while it goes, or when the caller gave it up.
    pub ended: Option<Instant>,
}

/// The fake. Tags point where [`Self::point`] says, scans end as [`Self::scans_end`] says.
pub struct ScriptedScanner {
    behaviour: Box<Behaviour>,
    delay: Duration,
    /// Another delay of the call with that number.
    delayed: Option<(u32, Duration)>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    reports: Vec<ReportCall>,
    in_flight: usize,
    in_flight_max: usize,
    tags: HashMap<String, ImageDigest>,
    resolved: Vec<String>,
    scans: HashMap<String, (String, u32)>,
    scan_polls: u32,
    scan_end: Option<ScanState>,
    throttled: HashMap<String, u32>,
}

impl ScriptedScanner {
    /// A scanner that answers `behaviour(request, nth)`, at once. `nth` counts the calls with a tenant and catalog digest,
    /// from 1.
    pub fn new(
        behaviour: impl Fn(&ReportRequest, u32) -> Result<Report, ScannerError> + Send + Sync + 'static,
    ) -> Self {
        Self { behaviour: Box::new(behaviour), delay: Duration::ZERO, delayed: None, seen: Mutex::default() }
    }

    /// A scanner that finds nothing.
    pub fn content() -> Self {
        Self::new(|_, _| Ok(report_of(Delta::default())))
    }

    /// Lets every report take so long.
    #[must_use]
    pub fn delayed(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Lets the `nth` report on each image take so long.
    #[must_use]
    pub fn delayed_at(self, nth: u32, delay: Duration) -> Self {
        Self { delayed: Some((nth, delay)), ..self }
    }

    /// Lets a tag point to an image, or nowhere.
    pub fn point(&self, image_ref: &str, digest: Option<ImageDigest>) {
        let mut seen = self.seen.lock();
        match digest {
            Some(digest) => seen.tags.insert(image_ref.to_owned(), digest),
            None => seen.tags.remove(image_ref),
        };
    }

    /// Lets scans go for so many polls and then end so.
    pub fn scans_end(&self, polls: u32, end: ScanState) {
        let mut seen = self.seen.lock();
        (seen.scan_polls, seen.scan_end) = (polls, Some(end));
    }

    /// Answers 429 to so many tries to resolve a tag.
    pub fn throttle(&self, image_ref: &str, times: u32) {
        self.seen.lock().throttled.insert(image_ref.to_owned(), times);
    }

    /// The reports that were asked for, in the order in which their calls began.
    pub fn reports(&self) -> Vec<ReportCall> {
        self.seen.lock().reports.clone()
    }

    /// The tags that were resolved, in order.
    pub fn resolved(&self) -> Vec<String> {
        self.seen.lock().resolved.clone()
    }

    /// How many scans were started.
    pub fn scans_started(&self) -> usize {
        self.seen.lock().scans.len()
    }

    /// The most reports that went at once.
    pub fn in_flight_max(&self) -> usize {
        self.seen.lock().in_flight_max
    }
}

/// Counts a call out, also when its caller drops it.
struct InFlight<'a>(&'a Mutex<Seen>);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.lock().in_flight -= 1;
    }
}

#[async_trait]
impl Scanner for ScriptedScanner {
    async fn report(&self, request: &ReportRequest) -> Result<Report, ScannerError> {
        let (place, nth) = {
            let mut seen = self.seen.lock();
            let same = |call: &&ReportCall| {
                call.request.tenant == request.tenant && call.request.catalog_digest == request.catalog_digest
            };
            let nth = u32::try_from(seen.reports.iter().filter(same).count()).unwrap_or(u32::MAX).saturating_add(1);
            seen.reports.push(ReportCall { request: request.clone(), nth, began: Instant::now(), ended: None });
            seen.in_flight += 1;
            seen.in_flight_max = seen.in_flight_max.max(seen.in_flight);
            (seen.reports.len() - 1, nth)
        };
        let _in_flight = InFlight(&self.seen);
        let delay = self.delayed.filter(|(which, _)| *which == nth).map_or(self.delay, |(_, delay)| delay);
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let answer = (self.behaviour)(request, nth);
        if let Some(call) = self.seen.lock().reports.get_mut(place) {
            call.ended = Some(Instant::now());
        }
        answer
    }

    async fn resolve(&self, request: &ImageScan) -> Result<ImageDigest, ScannerError> {
        let mut seen = self.seen.lock();
        seen.resolved.push(request.image_ref.clone());
        if let Some(left) = seen.throttled.get_mut(&request.image_ref).filter(|left| **left > 0) {
            *left -= 1;
            return Err(failing(ErrorClass::Throttled, None));
        }
        seen.tags.get(&request.image_ref).cloned().ok_or_else(|| failing(ErrorClass::Rejected, None))
    }

    async fn scan(&self, request: &ImageScan) -> Result<ScanProgress, ScannerError> {
        let mut seen = self.seen.lock();
        let scan_id = format!("scan-{}", seen.scans.len() + 1);
        let polls = seen.scan_polls;
        seen.scans.insert(scan_id.clone(), (request.image_ref.clone(), polls));
        let digest = seen.tags.get(&request.image_ref).cloned();
        Ok(ScanProgress { scan_id, state: ScanState::Going, digest })
    }

    async fn scan_state(&self, request: &ImageScan, scan_id: &str) -> Result<ScanProgress, ScannerError> {
        let mut seen = self.seen.lock();
        let end = seen.scan_end.unwrap_or(ScanState::Done);
        let digest = seen.tags.get(&request.image_ref).cloned();
        let scan = seen.scans.get_mut(scan_id).filter(|(image_ref, _)| *image_ref == request.image_ref);
        let Some((_, polls)) = scan else { return Err(failing(ErrorClass::Rejected, None)) };
        let state = if *polls == 0 { end } else { ScanState::Going };
        *polls = polls.saturating_sub(1);
        Ok(ScanProgress { scan_id: scan_id.to_owned(), state, digest })
    }

    async fn ping(&self) -> Result<(), ScannerError> {
        Ok(())
    }
}

/// A report with that delta: `fail` with critical findings, `warn` with others, else `pass`.
pub fn report_of(delta: Delta) -> Report {
    let verdict = match (delta.new_criticals, delta.new_findings) {
        (0, 0) => Verdict::Pass,
        (0, _) => Verdict::Warn,
        (_, _) => Verdict::Fail,
    };
    Report { policy_revision: None, verdict, found: Found::Delta(delta), report_url: None, attestation: None }
}

/// A call that failed so, though a connection was made; retryable unless it was rejected.
pub fn failing(class: ErrorClass, retry_after: Option<Duration>) -> ScannerError {
    let retryable = class != ErrorClass::Rejected;
    ScannerError {
        class,
        message: format!("a scripted {class:?}"),
        retryable,
        retry_after,
        refused: false,
        source: None,
    }
}

/// A call for which no connection could be made.
pub fn refused() -> ScannerError {
    ScannerError { refused: true, ..failing(ErrorClass::Connect, None) }
}
