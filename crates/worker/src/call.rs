//! One image of a segment, from its turn to its outcome: pacing, the breaker, the call, and what to do when it fails.

use crate::services::Services;
use parking_lot::Mutex;
use scheduler_core::launch::call_traceparent;
use scheduler_core::ports::{Bucket, BucketKey, OutcomeWrite, ReportRequest, ScannerError};
use scheduler_core::settle::{self, Attempts};
use scheduler_model::{ErrorClass, Found, Report, Run, Segment, SegmentImage, SkipReason, Timestamp};
use scheduler_scanner::{Breaker, CallEnd, Pass, Permit, backoff};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, debug, info_span, warn};

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
    fn buckets(&self) -> [Bucket; 2] {
        [
            Bucket {
                key: BucketKey::Tenant(self.run.tenant.clone()),
                rate_per_second: self.services.settings.tenant_rate_per_second,
            },
            Bucket {
                key: BucketKey::Group(self.segment.pace_group.clone()),
                rate_per_second: self.segment.pace.rate_per_second,
            },
        ]
    }

    fn expired(&self, now: Timestamp) -> bool {
        now.since(self.segment.queued_at) > self.services.settings.deadline
    }
}

/// Brings one image to its outcome. `None` when it was stopped before: the image stays open.
pub(crate) async fn settle_image(context: &Context<'_>, image: &SegmentImage) -> Option<OutcomeWrite> {
    let services = context.services;
    let mut attempts = Attempts { count: 0, started_at: services.clock.now() };
    loop {
        let slot = tokio::select! {
            biased;
            () = context.stop.cancelled() => return None,
            slot = context.slots.acquire() => slot.ok()?,
        };
        let now = services.clock.now();
        if context.expired(now) {
            return Some(settle::skipped(context.run, image, attempts, SkipReason::Expired, now));
        }
        let pass = match clear(context).await {
            Clearance::Go(pass) => pass,
            Clearance::Stopped => return None,
            Clearance::Expired(now) => {
                return Some(settle::skipped(context.run, image, attempts, SkipReason::Expired, now));
            }
        };
        if attempts.count == 0 {
            attempts.started_at = services.clock.now();
        }
        let result = report(context, image, attempts.count + 1).await;
        if ended(context, pass, image, &result).await {
            attempts.count += 1;
        }
        let error = match result {
            Ok(report) => return settled(context, image, attempts, report).await,
            Err(error) => error,
        };
        drop(slot);
        debug!(%error, run = %context.run.id, image = %image.digest, attempts = attempts.count, "a report call failed");
        if !error.retryable || attempts.count >= services.settings.max_attempts {
            let now = services.clock.now();
            return Some(settle::failed(context.run, image, attempts, error.class, error.message, now));
        }
        metrics::counter!("scheduler_retries_total", "class" => class_word(error.class)).increment(1);
        if error.class == ErrorClass::Throttled {
            metrics::counter!("scheduler_rate_limited_total", "reason" => "scanner-429").increment(1);
            let [tenant, _] = context.buckets();
            services.pacer.slow(&tenant).await;
        }
        let wait = delay(services, attempts.count, &error);
        tokio::select! {
            () = context.stop.cancelled() => return None,
            () = tokio::time::sleep(wait) => {}
        }
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
async fn clear(context: &Context<'_>) -> Clearance {
    loop {
        let permit = context.breaker.lock().permit(Instant::now());
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
        let wait = context.services.pacer.reserve(&context.buckets()).await;
        tokio::select! {
            biased;
            () = context.stop.cancelled() => {
                context.breaker.lock().give_back(&pass);
                return Clearance::Stopped;
            }
            () = tokio::time::sleep(wait) => {}
        }
        if context.breaker.lock().still_lets(&pass) {
            return Clearance::Go(pass);
        }
    }
}

/// Tells the breaker how a call ended, and says whether it was an attempt. A probe that failed is followed by a ping, which
/// tells a scanner that is away from an image that always fails.
async fn ended(context: &Context<'_>, pass: Pass, image: &SegmentImage, result: &Result<Report, ScannerError>) -> bool {
    let end = CallEnd::of(result);
    if pass.is_probe() && end == CallEnd::Failed {
        let answered = context.services.scanner.ping().await.is_ok();
        context.breaker.lock().on_ping(&pass, &image.digest, answered, Instant::now());
    }
    context.breaker.lock().on_end(pass, &image.digest, end, Instant::now())
}

async fn report(context: &Context<'_>, image: &SegmentImage, attempt: u32) -> Result<Report, ScannerError> {
    let request = ReportRequest {
        tenant: context.run.tenant.clone(),
        run: context.run.id.clone(),
        catalog_digest: image.digest.clone(),
        digest: image.digest.clone(),
        policy_revision: context.run.policy_revision.clone(),
        traceparent: call_traceparent(context.run, image.digest.as_str(), attempt),
    };
    let span = info_span!("report_call", run = %context.run.id, image = %image.digest, attempt);
    context.services.scanner.report(&request).instrument(span).await
}

/// A verdict is there: compare it with what was known, and make it an outcome. The baseline is read even while the segment
/// is being stopped, since what was begun is recorded.
async fn settled(
    context: &Context<'_>,
    image: &SegmentImage,
    attempts: Attempts,
    report: Report,
) -> Option<OutcomeWrite> {
    let services = context.services;
    // Only findings are compared with what was seen before; a delta was taken by the scanner.
    let previous = if matches!(report.found, Found::Findings(_)) {
        loop {
            match services.store.reports(&context.run.tenant, std::slice::from_ref(&image.digest)).await {
                Ok(mut records) => break records.pop().flatten(),
                Err(error) => {
                    warn!(%error, image = %image.digest, "the baseline of an image cannot be read");
                    if context.stop.is_cancelled() {
                        return None;
                    }
                    tokio::time::sleep(STORE_RETRY).await;
                }
            }
        }
    } else {
        None
    };
    let mut write = settle::reported(context.run, image, attempts, report, previous.as_ref(), services.clock.now());
    if !services.settings.emit {
        write.event = None;
    }
    Some(write)
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
