//! One image of a segment, from its turn to its outcome: pacing, the breaker, the calls, and what to do when one fails.

use crate::refresh;
use crate::services::Services;
use parking_lot::Mutex;
use scheduler_core::launch::call_traceparent;
use scheduler_core::ports::{Bucket, BucketKey, OutcomeWrite, ReportRequest, ScannerError, StoreResult};
use scheduler_core::settle::{self, Attempts};
use scheduler_model::{
    ErrorClass, Found, ImageDigest, Report, ReportRecord, Run, Segment, SegmentImage, SkipReason, Timestamp,
};
use scheduler_scanner::{Breaker, CallEnd, Pass, Permit, backoff};
use scheduler_telemetry::traceparent;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::field::Empty;
use tracing::{Instrument, Span, debug, info_span, warn};

/// Between two tries to read the baseline of an image whose verdict is there.
const STORE_RETRY: Duration = Duration::from_millis(500);

/// What the images of a segment share.
pub(crate) struct Context<'a> {
    pub services: &'a Services,
    pub breaker: &'a Mutex<Breaker>,
    pub run: &'a Run,
    pub segment: &'a Segment,
    /// Calls of the segment that may be in flight.
    pub slots: &'a Semaphore,
    /// Cancelled when no further call may begin.
    pub stop: &'a CancellationToken,
}

impl Context<'_> {
    /// The buckets that a call needs room in.
    fn buckets(&self, target: Target<'_>) -> Vec<Bucket> {
        let mut buckets = vec![
            self.tenant_bucket(),
            Bucket {
                key: BucketKey::Group(self.segment.pace_group.clone()),
                rate_per_second: self.segment.pace.rate_per_second,
            },
        ];
        if let Target::Registry(host) = target {
            buckets.push(self.host_bucket(host));
        }
        buckets
    }

    /// The one bucket that a 429 slows.
    fn complained(&self, target: Target<'_>) -> Bucket {
        match target {
            Target::Report => self.tenant_bucket(),
            Target::Registry(host) | Target::Scan(host) => self.host_bucket(host),
        }
    }

    fn tenant_bucket(&self) -> Bucket {
        Bucket {
            key: BucketKey::Tenant(self.run.tenant.clone()),
            rate_per_second: self.services.settings.tenant_rate_per_second,
        }
    }

    fn host_bucket(&self, host: &str) -> Bucket {
        let settings = &self.services.settings;
        let host = host.to_ascii_lowercase();
        let rate_per_second = settings.host_rates.get(&host).copied().unwrap_or(settings.host_rate_per_second);
        Bucket { key: BucketKey::Host(host), rate_per_second }
    }

    fn expired(&self, now: Timestamp) -> bool {
        now.since(self.segment.queued_at) > self.services.settings.deadline
    }

    /// A wait, no longer than until the deadline has passed.
    fn within_deadline(&self, wait: Duration) -> Duration {
        let age = self.services.clock.now().since(self.segment.queued_at);
        wait.min(self.services.settings.deadline.saturating_sub(age) + Duration::from_millis(1))
    }
}

/// What a call makes the scanner do, and hence which buckets pace it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target<'a> {
    /// Analyse what it knows.
    Report,
    /// Ask the registry of that host.
    Registry(&'a str),
    /// Tell how far a scan of an image of that host is.
    Scan(&'a str),
}

/// Why there is nothing more to ask about an image.
pub(crate) enum Early {
    /// Its segment is being stopped: the image stays open.
    Stopped,
    /// It has its outcome.
    Settled(Box<OutcomeWrite>),
}

/// An image's outcome by what was known of it before.
type Comparison<'a> = dyn Fn(Option<&ReportRecord>) -> OutcomeWrite + Send + 'a;

/// An image that is ready to be written.
pub(crate) struct Settled<'a> {
    /// What is to be written.
    pub write: OutcomeWrite,
    /// The same against another baseline; none where nothing is compared.
    anew: Option<Box<Comparison<'a>>>,
}

impl<'a> Settled<'a> {
    /// An image with a verdict: `settle` compares it with what was known.
    pub(crate) fn against(
        previous: Option<&ReportRecord>,
        settle: impl Fn(Option<&ReportRecord>) -> OutcomeWrite + Send + 'a,
    ) -> Self {
        Self { write: settle(previous), anew: Some(Box::new(settle)) }
    }

    /// Compares again, since another run's report came in between.
    pub(crate) fn compare_again(&mut self, previous: Option<&ReportRecord>) {
        if let Some(anew) = &self.anew {
            self.write = anew(previous);
        }
    }
}

/// Brings one image to its outcome. `None` when it was stopped before: the image stays open.
pub(crate) async fn settle_image<'a>(context: &'a Context<'a>, image: &'a SegmentImage) -> Option<Settled<'a>> {
    let mut asking = Asking::new(context, image);
    let result = if context.run.tags.resolve { refresh::settle(&mut asking).await } else { asking.analysed().await };
    match result {
        Ok(settled) => Some(settled),
        Err(Early::Settled(write)) => Some(Settled { write: *write, anew: None }),
        Err(Early::Stopped) => None,
    }
}

/// An image that is being asked about.
#[derive(Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub context: &'a Context<'a>,
    pub image: &'a SegmentImage,
    attempts: Attempts,
}

impl<'a> Asking<'a> {
    fn new(context: &'a Context<'a>, image: &'a SegmentImage) -> Self {
        let now = context.services.clock.now();
        Self { context, image, attempts: Attempts { count: 0, started_at: now, last_began_at: now } }
    }

    /// The image as the catalog names it, reported on and settled.
    pub(crate) async fn analysed(&mut self) -> Result<Settled<'a>, Early> {
        let report = self.report(&self.image.digest).await?;
        let previous = self.baseline(&report).await?;
        let asked = *self;
        Ok(Settled::against(previous.as_ref(), move |previous| asked.settled(report.clone(), previous)))
    }

    /// A report on a digest.
    pub(crate) async fn report(&mut self, digest: &ImageDigest) -> Result<Report, Early> {
        let (context, image) = (self.context, self.image);
        self.call(Target::Report, |attempt| {
            let span = info_span!(
                "report_call", run = %context.run.id, image = %digest, attempt, otel.kind = "client",
                otel.status_code = Empty, error.class = Empty
            );
            let derived = || call_traceparent(context.run, digest.as_str(), attempt);
            let request = ReportRequest {
                tenant: context.run.tenant.clone(),
                run: context.run.id.clone(),
                catalog_digest: image.digest.clone(),
                digest: digest.clone(),
                policy_revision: context.run.policy_revision.clone(),
                traceparent: traceparent(&span).unwrap_or_else(derived),
            };
            async move {
                let result = context.services.scanner.report(&request).await;
                if let Err(error) = &result {
                    Span::current().record("otel.status_code", "ERROR").record("error.class", class_word(error.class));
                }
                result
            }
            .instrument(span)
        })
        .await
    }

    /// Makes a call until it gives an answer: paced, behind the breaker, repeated while that may help, in one of the segment's
    /// slots. `make` gets the number of the attempt, from 1.
    pub(crate) async fn call<T, F>(&mut self, target: Target<'_>, make: impl Fn(u32) -> F) -> Result<T, Early>
    where
        F: Future<Output = Result<T, ScannerError>>,
    {
        let (context, services) = (self.context, self.context.services);
        let mut tries = 0;
        loop {
            let slot = tokio::select! {
                biased;
                () = context.stop.cancelled() => return Err(Early::Stopped),
                slot = context.slots.acquire() => slot.map_err(|_| Early::Stopped)?,
            };
            let now = services.clock.now();
            if context.expired(now) {
                return Err(self.expired(now));
            }
            let pass = match clear(context, target).await {
                Clearance::Go(pass) => pass,
                Clearance::Stopped => return Err(Early::Stopped),
                Clearance::Expired(now) => return Err(self.expired(now)),
            };
            self.attempts.last_began_at = services.clock.now();
            if self.attempts.count == 0 {
                self.attempts.started_at = self.attempts.last_began_at;
            }
            let result = make(tries + 1).await;
            if ended(context, pass, self.image, &result).await {
                tries += 1;
                self.attempts.count += 1;
            }
            drop(slot);
            let error = match result {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            debug!(%error, run = %context.run.id, image = %self.image.digest, attempts = tries, "a call failed");
            if !error.retryable || tries >= services.settings.max_attempts {
                return Err(self.failed(error.class, error.message));
            }
            metrics::counter!("scheduler_retries_total", "class" => class_word(error.class)).increment(1);
            if error.class == ErrorClass::Throttled {
                metrics::counter!("scheduler_rate_limited_total", "reason" => "scanner-429").increment(1);
                services.pacer.slow(&context.complained(target)).await;
            }
            self.rest(context.within_deadline(delay(services, tries, &error))).await?;
        }
    }

    /// Waits, unless the segment is stopped.
    pub(crate) async fn rest(&self, time: Duration) -> Result<(), Early> {
        tokio::select! {
            () = self.context.stop.cancelled() => Err(Early::Stopped),
            () = tokio::time::sleep(time) => Ok(()),
        }
    }

    /// The image is given up.
    pub(crate) fn failed(&self, class: ErrorClass, message: String) -> Early {
        let now = self.context.services.clock.now();
        Early::Settled(Box::new(settle::failed(self.context.run, self.image, self.attempts, class, message, now)))
    }

    fn expired(&self, now: Timestamp) -> Early {
        Early::Settled(Box::new(settle::skipped(self.context.run, self.image, self.attempts, SkipReason::Expired, now)))
    }

    /// What is remembered of the image's last report, where that matters: only findings are compared with what was seen before;
    /// a delta was taken by the scanner.
    pub(crate) async fn baseline(&self, report: &Report) -> Result<Option<ReportRecord>, Early> {
        if !matches!(report.found, Found::Findings(_)) {
            return Ok(None);
        }
        let (store, run) = (&self.context.services.store, self.context.run);
        let mut records = self
            .stored("the baseline", || store.reports(&run.tenant, std::slice::from_ref(&self.image.digest)))
            .await?;
        Ok(records.pop().flatten())
    }

    /// Reads from the store, however long that needs; even while the segment is being stopped once, since what was begun is
    /// recorded.
    pub(crate) async fn stored<T, F>(&self, what: &str, read: impl Fn() -> F) -> Result<T, Early>
    where
        F: Future<Output = StoreResult<T>>,
    {
        loop {
            match read().await {
                Ok(value) => return Ok(value),
                Err(error) => {
                    warn!(%error, image = %self.image.digest, "{what} of an image cannot be read");
                    self.rest(STORE_RETRY).await?;
                }
            }
        }
    }

    /// A verdict is there: compared with what was known, it is the image's outcome.
    pub(crate) fn settled(&self, report: Report, previous: Option<&ReportRecord>) -> OutcomeWrite {
        let services = self.context.services;
        let now = services.clock.now();
        let mut write = settle::reported(self.context.run, self.image, self.attempts, report, previous, now);
        if !services.settings.emit {
            write.event = None;
        }
        write
    }
}

/// What an image may do.
enum Clearance {
    /// Begin its call.
    Go(Pass),
    /// Nothing more: the segment is being stopped.
    Stopped,
    /// Nothing more: its deadline has passed, at that time.
    Expired(Timestamp),
}

/// Waits until the breaker and the buckets let a call begin.
///
/// The breaker comes first, so that an outage uses up no reservations: while it is open only the probe reserves. Whoever
/// reserved before it opened has lost that reservation, since the bucket may have let others in for it by now.
async fn clear(context: &Context<'_>, target: Target<'_>) -> Clearance {
    loop {
        let permit = context.breaker.lock().permit(&context.run.tenant, Instant::now());
        let pass = match permit {
            Permit::Go(pass) | Permit::Probe(pass) => pass,
            Permit::WaitUntil(until) => {
                let now = context.services.clock.now();
                if context.expired(now) {
                    return Clearance::Expired(now);
                }
                tokio::select! {
                    biased;
                    () = context.stop.cancelled() => return Clearance::Stopped,
                    () = tokio::time::sleep_until(until) => continue,
                }
            }
        };
        let wait = context.services.pacer.reserve(&context.buckets(target)).await;
        tokio::select! {
            biased;
            () = context.stop.cancelled() => {
                context.breaker.lock().give_back(&pass);
                return Clearance::Stopped;
            }
            () = tokio::time::sleep(context.within_deadline(wait)) => {}
        }
        let now = context.services.clock.now();
        if context.expired(now) {
            context.breaker.lock().give_back(&pass);
            return Clearance::Expired(now);
        }
        if context.breaker.lock().still_lets(&pass) {
            return Clearance::Go(pass);
        }
    }
}

/// Tells the breaker how a call ended, and says whether it was an attempt. A probe that failed is followed by a ping, which
/// tells a scanner that is away from an image that always fails.
async fn ended<T>(context: &Context<'_>, pass: Pass, image: &SegmentImage, result: &Result<T, ScannerError>) -> bool {
    let end = CallEnd::of(result);
    if pass.is_probe() && end == CallEnd::Failed {
        let answered = context.services.scanner.ping().await.is_ok();
        context.breaker.lock().on_ping(&pass, &image.digest, answered, Instant::now());
    }
    context.breaker.lock().on_end(pass, &image.digest, end, Instant::now())
}

/// Our own jittered wait, or what the scanner asked for where that is longer.
fn delay(services: &Services, attempts: u32, error: &ScannerError) -> Duration {
    let settings = &services.settings;
    let own = backoff(attempts, settings.backoff_base, settings.backoff_cap, services.random.unit());
    own.max(error.retry_after.unwrap_or_default())
}

/// The word of the contract, for metrics.
fn class_word(class: ErrorClass) -> &'static str {
    match class {
        ErrorClass::Timeout => "timeout",
        ErrorClass::Connect => "connect",
        ErrorClass::Throttled => "throttled",
        ErrorClass::ServerError => "server-error",
        ErrorClass::Rejected => "rejected",
        ErrorClass::BadResponse => "bad-response",
        ErrorClass::Internal => "internal",
    }
}
