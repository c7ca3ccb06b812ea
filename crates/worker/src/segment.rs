//! One leased segment: its images run concurrently in the lease's slots, their outcomes are written in batches.

use crate::call::{Context, Settled, settle_image};
use crate::fleet::{Entered, Fleet};
use crate::services::Services;
use crate::traces;
use futures::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use parking_lot::Mutex;
use scheduler_core::ports::{Claim, Lease, OutcomeWrite, QueueError, StoreError, Written};
use scheduler_core::settle::{self, Attempts};
use scheduler_model::{ErrorClass, ImageDigest, OutcomeResult, Run, RunState, Segment};
use scheduler_scanner::Breaker;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, error, info_span, warn};

/// A segment that was claimed so often in vain is given up: its images get outcomes, so that the run ends. In vain is a claim
/// that neither wrote anything nor ended in peace: the process died, the task panicked, the lease ran out.
pub(crate) const FUTILE_CLAIMS_MAX: u32 = 16;

/// How long a segment rests when the store cannot be reached.
const STORE_RETRY: Duration = Duration::from_secs(1);

/// How a segment ended.
enum End {
    /// Every image has an outcome; or others take care of it.
    Done,
    /// Images are left; somebody shall go on, after so long. In peace: nothing is wrong with the segment.
    Left(Duration),
    /// Images are left since something is wrong with the segment.
    Failed(Duration),
    /// The lease went to somebody else.
    Lost,
}

/// Works on a lease until it is done, stopped or lost.
pub(crate) async fn work(
    services: Arc<Services>,
    fleet: Arc<Fleet>,
    breaker: Arc<Mutex<Breaker>>,
    lease: Lease,
    drain: CancellationToken,
) {
    let entered = fleet.enter(&lease.segment.run);
    let end = carry_out(&services, &fleet, &breaker, &lease, &entered, &drain).await;
    let (id, fence) = (&lease.segment.id, lease.fence);
    let said = match end {
        End::Done => services.queue.complete(id, fence).await,
        End::Left(delay) => {
            let now = services.clock.now();
            // Lost, this word costs one of many tries.
            let _ = services.store.write_outcomes(id, fence, Vec::new(), now, false).await;
            services.queue.release(id, fence, delay).await
        }
        End::Failed(delay) => services.queue.release(id, fence, delay).await,
        End::Lost => Ok(()),
    };
    if let Err(error) = said {
        // It runs out by itself.
        warn!(%error, segment = %id, "a lease could not be given back");
    }
}

async fn carry_out(
    services: &Arc<Services>,
    fleet: &Arc<Fleet>,
    breaker: &Mutex<Breaker>,
    lease: &Lease,
    entered: &Entered,
    drain: &CancellationToken,
) -> End {
    let Claim { run, segment, futile } = match services.store.claim(&lease.segment.id, lease.fence).await {
        Ok(Some(claimed)) => claimed,
        Ok(None) => return End::Done,
        Err(StoreError::Fenced { .. }) => return End::Lost,
        Err(error) if error.is_retryable() => {
            warn!(%error, segment = %lease.segment.id, "a segment waits for the store");
            return End::Failed(STORE_RETRY);
        }
        Err(error) => {
            error!(%error, segment = %lease.segment.id, "a segment cannot be read");
            return fail_run(services, &lease.segment, "a segment of the run cannot be read").await;
        }
    };
    if run.cancel_requested_at.is_some() {
        fleet.finish_cancel(run.tenant.clone(), run.id.clone());
        return End::Done;
    }
    if futile >= FUTILE_CLAIMS_MAX {
        return give_up(services, lease, &run, &segment, futile).await;
    }
    if run.state == RunState::Queued
        && let Err(error) = services.store.mark_started(&run.tenant, &run.id, services.clock.now()).await
    {
        warn!(%error, run = %run.id, "a run waits for the store");
        return End::Left(STORE_RETRY);
    }

    // One token for every reason to stop: the run's cancel, the process's drain, the loss of the lease. As a child it is
    // cancelled in the same moment as the run's, before the cancel is answered.
    let stop = entered.stop.child_token();
    // Goes with this future, also in a panic: a lease that is kept for nobody would never run out.
    let _watch = Aborted(watch_reasons(services.clone(), lease, drain, stop.clone()));
    let span = info_span!("segment", run = %run.id, segment = %segment.id, images = segment.images.len());
    let span = traces::of_run(&run, span);
    ask(services, fleet, breaker, lease, &run, &segment, &stop).instrument(span).await
}

/// Aborts a task when it goes.
struct Aborted(tokio::task::JoinHandle<()>);

impl Drop for Aborted {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Stops the segment when there is a reason to, and keeps its lease until then.
fn watch_reasons(
    services: Arc<Services>,
    lease: &Lease,
    drain: &CancellationToken,
    stop: CancellationToken,
) -> tokio::task::JoinHandle<()> {
    let drain = drain.clone();
    let (segment, fence) = (lease.segment.id.clone(), lease.fence);
    tokio::spawn(async move {
        let ttl = services.settings.lease;
        let mut beat = tokio::time::interval(ttl / 3);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = drain.cancelled(), if !stop.is_cancelled() => stop.cancel(),
                // Calls in flight end after the stop; the lease is kept for them.
                _ = beat.tick() => match services.queue.heartbeat(&segment, fence, ttl).await {
                    Ok(()) => {}
                    Err(QueueError::LeaseLost(_)) => {
                        metrics::counter!("scheduler_lease_expiries_total").increment(1);
                        stop.cancel();
                        return;
                    }
                    Err(error) => warn!(%error, segment = %segment, "a lease could not be prolonged"),
                }
            }
        }
    })
}

/// Asks about the images, and writes what comes back as it comes.
async fn ask(
    services: &Services,
    fleet: &Fleet,
    breaker: &Mutex<Breaker>,
    lease: &Lease,
    run: &Run,
    segment: &Segment,
    stop: &CancellationToken,
) -> End {
    let slots = Semaphore::new(usize::try_from(lease.slots.max(1)).unwrap_or(1));
    let context = Context { services, breaker, run, segment, slots: &slots, stop };
    let mut asking: FuturesUnordered<_> = segment.images.iter().map(|image| settle_image(&context, image)).collect();
    let mut settled: Vec<Settled<'_>> = Vec::new();
    let mut held = lease.slots.max(1);
    let mut all_settled = true;
    loop {
        // Whatever is ready goes into one write; while it is being written, calls go on.
        while let Some(ready) = asking.next().now_or_never() {
            match ready {
                Some(Some(image)) => settled.push(image),
                Some(None) => all_settled = false,
                None => break,
            }
        }
        if settled.is_empty() {
            match asking.next().await {
                Some(Some(image)) => settled.push(image),
                Some(None) => all_settled = false,
                None => break,
            }
            continue;
        }
        let rest = u32::try_from(asking.len()).unwrap_or(u32::MAX).max(1);
        // By halves, since whoever takes slots over keeps that number for a whole segment.
        if rest <= held / 2 && services.queue.shrink(&segment.id, lease.fence, rest).await.is_ok() {
            held = rest;
        }
        let write = write(services, fleet, lease, run, std::mem::take(&mut settled), stop);
        tokio::pin!(write);
        let written = loop {
            tokio::select! {
                written = &mut write => break written,
                Some(result) = asking.next(), if !asking.is_empty() => match result {
                    Some(image) => settled.push(image),
                    None => all_settled = false,
                },
            }
        };
        if let Some(end) = written {
            return end;
        }
    }
    if all_settled { End::Done } else { End::Left(Duration::ZERO) }
}

/// Writes outcomes, however long the store needs. Gives the segment's end when it must not go on.
async fn write(
    services: &Services,
    fleet: &Fleet,
    lease: &Lease,
    run: &Run,
    mut settled: Vec<Settled<'_>>,
    stop: &CancellationToken,
) -> Option<End> {
    loop {
        let outcomes: Vec<OutcomeWrite> = settled.iter().map(|image| image.write.clone()).collect();
        let announce = fleet.announces(&run.id);
        let now = services.clock.now();
        let result = services
            .store
            .write_outcomes(&lease.segment.id, lease.fence, outcomes, now, announce)
            .instrument(info_span!("persist", run = %run.id, outcomes = settled.len()))
            .await;
        match result {
            Ok(written) => {
                let (moved, done): (Vec<_>, Vec<_>) = std::mem::take(&mut settled)
                    .into_iter()
                    .partition(|image| written.moved.contains(&image.write.outcome.digest));
                count(services, &done, &written);
                emitted(run, &done);
                if written.run.state.is_ended() {
                    services.run_ended();
                }
                if moved.is_empty() {
                    return None;
                }
                settled = moved;
                compare_again(services, run, &mut settled).await;
            }
            Err(StoreError::Fenced { .. }) => {
                let late = settled.len();
                metrics::counter!("scheduler_late_outcomes_total").increment(late as u64);
                warn!(run = %run.id, segment = %lease.segment.id, late, "outcomes came when their lease was over; whoever has it now asks again under the same idempotency keys");
                stop.cancel();
                return Some(End::Lost);
            }
            Err(error) if error.is_retryable() => {
                warn!(%error, run = %run.id, "outcomes wait for the store");
                tokio::time::sleep(STORE_RETRY).await;
            }
            Err(error) => {
                error!(%error, run = %run.id, "outcomes cannot be written");
                stop.cancel();
                return Some(End::Failed(STORE_RETRY));
            }
        }
    }
}

/// Compares images whose baseline has moved with the one that is there now, however long the store needs.
async fn compare_again(services: &Services, run: &Run, moved: &mut [Settled<'_>]) {
    let digests: Vec<ImageDigest> = moved.iter().map(|image| image.write.outcome.digest.clone()).collect();
    let records = loop {
        match services.store.reports(&run.tenant, &digests).await {
            Ok(records) => break records,
            Err(error) => {
                warn!(%error, run = %run.id, "outcomes wait for their baselines");
                tokio::time::sleep(STORE_RETRY).await;
            }
        }
    };
    for (image, record) in moved.iter_mut().zip(records) {
        image.compare_again(record.as_ref());
    }
}

/// Marks that events are out: the embedded bus is the outbox, which they were written into with their outcomes.
fn emitted(run: &Run, images: &[Settled<'_>]) {
    let events = images.iter().filter(|image| image.write.event.is_some()).count();
    if events > 0 {
        drop(info_span!("emit", run = %run.id, events));
    }
}

/// Counts what was written.
fn count(services: &Services, images: &[Settled<'_>], written: &Written) {
    let outcomes = || images.iter().map(|image| &image.write.outcome);
    let verdicts = outcomes().filter(|outcome| matches!(outcome.result, OutcomeResult::Reported { .. })).count();
    // The first verdict of a run is in the write after which there are no others.
    if written.inserted == images.len()
        && verdicts > 0
        && written.run.stats.completed == verdicts as u64
        && let Some(caused_at) = written.run.caused_at
    {
        let latency = written.run.first_verdict_at.unwrap_or_else(|| services.clock.now()).since(caused_at);
        metrics::histogram!("scheduler_run_latency_seconds").record(latency.as_secs_f64());
    }
    for outcome in outcomes() {
        metrics::counter!("scheduler_outcomes_total", "outcome" => outcome.result.as_str()).increment(1);
        if let OutcomeResult::Reported { delta, .. } = &outcome.result
            && let Some(worst) = delta.worst()
        {
            metrics::counter!("scheduler_delta_images_total", "severity" => severity_word(worst)).increment(1);
        }
    }
}

fn severity_word(severity: scheduler_model::Severity) -> &'static str {
    match severity {
        scheduler_model::Severity::Low => "low",
        scheduler_model::Severity::Medium => "medium",
        scheduler_model::Severity::High => "high",
        scheduler_model::Severity::Critical => "critical",
    }
}

/// A segment that never finishes: its images fail, so that the run ends.
async fn give_up(services: &Services, lease: &Lease, run: &Run, segment: &Segment, futile: u32) -> End {
    error!(run = %run.id, segment = %segment.id, futile, "a segment is given up");
    metrics::counter!("scheduler_dead_letters_total").increment(1);
    let now = services.clock.now();
    let message = format!("its segment was begun {futile} times and came to nothing");
    let attempts = Attempts { count: 0, started_at: now, last_began_at: now };
    let outcomes = segment
        .images
        .iter()
        .map(|image| settle::failed(run, image, attempts, ErrorClass::Internal, message.clone(), now))
        .collect();
    match services.store.write_outcomes(&segment.id, lease.fence, outcomes, now, true).await {
        Ok(_) => {
            services.run_ended();
            End::Done
        }
        Err(StoreError::Fenced { .. }) => End::Lost,
        Err(error) if error.is_retryable() => {
            warn!(%error, segment = %segment.id, "a segment that is given up waits for the store");
            End::Failed(STORE_RETRY)
        }
        Err(error) => {
            error!(%error, segment = %segment.id, "a segment cannot even be given up");
            fail_run(services, segment, "a segment of the run can neither be finished nor given up").await
        }
    }
}

/// Ends the run of a segment that nobody can work on.
async fn fail_run(services: &Services, segment: &Segment, why: &str) -> End {
    match services.store.fail_run(&segment.tenant, &segment.run, why, services.clock.now()).await {
        Ok(()) | Err(StoreError::Conflict { .. } | StoreError::NotFound { .. }) => {
            services.run_ended();
            End::Done
        }
        Err(error) => {
            error!(%error, run = %segment.run, "a run cannot be ended");
            End::Failed(STORE_RETRY)
        }
    }
}
