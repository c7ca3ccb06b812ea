//! From batches of exports, and from what was left over, to runs. Every step may be done twice.
//!
//! - WRK-4: a batch, a schedule or a run that cannot be read holds up itself alone.

use crate::admission::Admission;
use crate::services::Services;
use crate::traces;
use scheduler_core::launch;
use scheduler_core::ports::{Begun, NewRun, Spill, StoreError, StoreResult, Subscription};
use scheduler_core::tick;
use scheduler_model::{
    Batch, ExportHead, Priority, Reason, Run, RunId, Schedule, ScheduleId, Source, TenantId, Timestamp,
};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;
use tracing::{error, info, warn};

/// What a schedule left over is taken by a run of its own when no other one comes for so long.
const CONTINUE_AFTER: Duration = Duration::from_secs(300);

/// Begins runs.
pub(crate) struct Beginning<'a> {
    services: &'a Services,
}

/// Lets the others go on where one cannot. What the store cannot do now concerns them all.
fn alone(result: StoreResult<()>, what: impl Display) -> StoreResult<()> {
    match result {
        Err(error) if !error.is_retryable() => {
            error!(%error, "{what} is left as it is");
            Ok(())
        }
        other => other,
    }
}

impl<'a> Beginning<'a> {
    /// By these services.
    pub(crate) fn new(services: &'a Services) -> Self {
        Self { services }
    }

    /// Hands closed batches to their subscribers.
    pub(crate) async fn distribute(&self) -> StoreResult<()> {
        for batch in self.services.store.unplanned_batches().await? {
            alone(self.hand_out(&batch).await, format_args!("batch {}", batch.id))?;
        }
        Ok(())
    }

    async fn hand_out(&self, batch: &Batch) -> StoreResult<()> {
        let store = &self.services.store;
        let exports = store.batch_heads(&batch.id).await?;
        let to: Vec<Subscription> = store
            .subscribers(batch.source)
            .await?
            .into_iter()
            .filter(|schedule| exports.iter().any(|export| export.tenants.includes(&schedule.tenant)))
            .map(|schedule| Subscription { tenant: schedule.tenant, schedule: schedule.id, batch: batch.id.clone() })
            .collect();
        info!(batch = %batch.id, schedules = to.len(), "a batch is handed to its subscribers");
        store.distribute(&batch.id, to).await
    }

    /// Begins runs for schedules that have something waiting and no run that goes. What carries KEV does not wait.
    pub(crate) async fn take_waiting(&self) -> StoreResult<()> {
        let mut by_schedule: BTreeMap<(TenantId, ScheduleId), Vec<Subscription>> = BTreeMap::new();
        for waiting in self.services.store.waiting().await? {
            by_schedule.entry((waiting.tenant.clone(), waiting.schedule.clone())).or_default().push(waiting);
        }
        let mut admission = Admission::new(&self.services.settings);
        for ((tenant, id), waiting) in by_schedule {
            let taken = self.take(&tenant, &id, &waiting, &mut admission).await;
            alone(taken, format_args!("what waits for schedule {id}"))?;
        }
        Ok(())
    }

    async fn take(
        &self,
        tenant: &TenantId,
        id: &ScheduleId,
        waiting: &[Subscription],
        admission: &mut Admission,
    ) -> StoreResult<()> {
        let store = &self.services.store;
        let Some(schedule) = store.schedule_with_deleted(tenant, id).await? else { return Ok(()) };
        let mut exports: Vec<Vec<ExportHead>> = Vec::new();
        for taken in waiting {
            exports.push(store.batch_heads(&taken.batch).await?);
        }
        let urgent =
            exports.iter().flatten().any(|export| export.tenants.includes(tenant) && export.priority == Priority::Kev);
        let goes = !store.live_runs(tenant, id).await?.is_empty();
        if !urgent && (goes || !self.is_their_turn(&schedule).await?) {
            return Ok(());
        }
        // A run has one trigger, so each source makes one of its own.
        for source in Source::ALL {
            let of_source: Vec<ExportHead> = exports.iter().flatten().filter(|e| e.source == source).cloned().collect();
            let takes: Vec<Subscription> = waiting
                .iter()
                .zip(&exports)
                .filter(|(_, exports)| exports.first().is_some_and(|e| e.source == source))
                .map(|(taken, _)| taken.clone())
                .collect();
            if !takes.is_empty() && admission.admits(store.as_ref(), tenant).await? {
                let now = self.services.clock.now();
                let defaults = self.services.settings.run_defaults;
                let mut new = launch::of_exports(&schedule, source, takes, &of_source, defaults, now);
                traces::begin_of(&mut new, &of_source);
                self.begin(new).await?;
            }
        }
        Ok(())
    }

    /// Whether the exports that wait for a schedule go before an instant of it that waits too.
    async fn is_their_turn(&self, schedule: &Schedule) -> StoreResult<bool> {
        let store = &self.services.store;
        let state = store.ticks(&[(schedule.tenant.clone(), schedule.id.clone())]).await?.pop().flatten();
        if state.is_none_or(|state| state.waits(schedule).is_none()) {
            return Ok(true);
        }
        let last = store.last_run(&schedule.tenant, &schedule.id).await?;
        Ok(tick::exports_go_first(last.map(|run| run.trigger)))
    }

    /// Begins continuation runs for what was left over and not taken.
    pub(crate) async fn continue_spills(&self) -> StoreResult<()> {
        let now = self.services.clock.now();
        let mut admission = Admission::new(&self.services.settings);
        for spill in self.services.store.spills_before(now.minus(CONTINUE_AFTER)).await? {
            let continued = self.continue_spill(&spill, &mut admission, now).await;
            alone(continued, format_args!("what schedule {} left over", spill.schedule))?;
        }
        Ok(())
    }

    async fn continue_spill(&self, spill: &Spill, admission: &mut Admission, now: Timestamp) -> StoreResult<()> {
        let store = &self.services.store;
        let Some(schedule) = store.schedule(&spill.tenant, &spill.schedule).await? else { return Ok(()) };
        let Some(continued) = store.run(&spill.tenant, &spill.run).await? else { return Ok(()) };
        let waits = !schedule.spec.enabled || !store.live_runs(&spill.tenant, &spill.schedule).await?.is_empty();
        if waits || !admission.admits(store.as_ref(), &spill.tenant).await? {
            return Ok(());
        }
        let mut new = continuation(&schedule, &continued, self.services.settings.run_defaults, now);
        traces::begin(&mut new);
        self.begin(new).await
    }

    async fn begin(&self, new: NewRun) -> StoreResult<()> {
        let (id, trigger, tenant) = (new.run.id.clone(), new.run.trigger, new.run.tenant.clone());
        let moves = !new.passed.is_empty();
        match self.services.store.begin_run(new).await {
            Ok(begun) => {
                info!(run = %id, trigger = trigger.as_str(), ?begun, "a run begins");
                if moves && begun == Begun::New { self.tell_holes(&tenant, &id).await } else { Ok(()) }
            }
            // Somebody else took what waited.
            Err(StoreError::Conflict { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Tells of the holes between windows that a run's exports have shown: time of which no export spoke.
    async fn tell_holes(&self, tenant: &TenantId, run: &RunId) -> StoreResult<()> {
        for cursor in self.services.store.cursors(tenant).await? {
            for hole in cursor.holes.iter().filter(|hole| hole.found_by == *run) {
                let source = cursor.source.as_str();
                warn!(tenant = %tenant, source, from = %hole.from, to = %hole.to, run = %run, "no export covers this time");
                metrics::counter!("scheduler_window_holes_total", "source" => source).increment(1);
            }
        }
        Ok(())
    }
}

/// A run over nothing but what the schedule left over.
fn continuation(schedule: &Schedule, continued: &Run, defaults: launch::RunDefaults, now: Timestamp) -> NewRun {
    let reason = Reason { continues: Some(continued.id.clone()), ..Reason::default() };
    let id = launch::continuation_run_id(schedule, &continued.id);
    let mut new = launch::of_schedule(id, schedule, continued.trigger, reason, defaults, now);
    new.input.keys = Some(Vec::new());
    // What was left over has qualified already.
    new.input.only_if = scheduler_model::OnlyIf::default();
    new.run.traceparent = continued.traceparent.clone();
    new
}
