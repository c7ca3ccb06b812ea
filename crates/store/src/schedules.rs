//! Schedules and the names that they hold.
//!
//! - SCH-1: a name of a tenant belongs to one schedule that is not deleted.
//! - SCH-2: a schedule has one entry among the changes, that of its last change, with a number higher than all before.

use crate::commit::Tx;
use crate::family::Cf;
use crate::key::{Key, text_after, trailing_number};
use crate::read::{PageOf, Read, ReadExt};
use crate::{EmbeddedStore, conflict, doc, not_found};
use async_trait::async_trait;
use scheduler_core::ports::{Page, ScheduleFilter, ScheduleStore, StoreError, StoreResult};
use scheduler_model::{Schedule, ScheduleId, Source, TenantId};

pub(crate) fn schedule_key(tenant: &TenantId, id: &ScheduleId) -> Vec<u8> {
    Key::default().id(tenant.as_str()).last(id.as_str())
}

fn name_key(schedule: &Schedule) -> Vec<u8> {
    Key::default().id(schedule.tenant.as_str()).last(&schedule.spec.name)
}

fn take_name(tx: &mut Tx<'_>, schedule: &Schedule) -> StoreResult<()> {
    let key = name_key(schedule);
    match tx.get(Cf::ScheduleNames, &key)? {
        Some(owner) if owner != schedule.id.as_str().as_bytes() => {
            Err(StoreError::NameTaken { name: schedule.spec.name.clone() })
        }
        Some(_) => Ok(()),
        None => {
            tx.put(Cf::ScheduleNames, key, schedule.id.as_str().as_bytes().to_vec());
            Ok(())
        }
    }
}

fn create(tx: &mut Tx<'_>, schedule: &Schedule) -> StoreResult<()> {
    let key = schedule_key(&schedule.tenant, &schedule.id);
    if tx.get(Cf::Schedules, &key)?.is_some() {
        return Err(conflict("schedule", schedule.id.as_str()));
    }
    take_name(tx, schedule)?;
    put(tx, key, schedule)
}

/// Writes a schedule, and its change in the place of the one before.
fn put(tx: &mut Tx<'_>, key: Vec<u8>, schedule: &Schedule) -> StoreResult<()> {
    let change = |number| Key::default().number(number).done();
    let number = tx.next_schedule_change()?;
    if let Some(before) = tx.get(Cf::ScheduleMarks, &key)? {
        tx.delete(Cf::ScheduleChanges, change(trailing_number(&before)));
    }
    tx.put(Cf::ScheduleChanges, change(number), key.clone());
    tx.put_number(Cf::ScheduleMarks, key.clone(), number);
    tx.put_doc(Cf::Schedules, key, schedule)
}

fn update(tx: &mut Tx<'_>, schedule: &Schedule, expected: u64) -> StoreResult<()> {
    let key = schedule_key(&schedule.tenant, &schedule.id);
    let stored: Option<Schedule> = tx.doc(Cf::Schedules, &key)?;
    let stored = stored
        .filter(|stored| stored.deleted_at.is_none())
        .ok_or_else(|| not_found("schedule", schedule.id.as_str()))?;
    if stored.version != expected {
        return Err(conflict("schedule", schedule.id.as_str()));
    }
    if schedule.deleted_at.is_some() {
        tx.delete(Cf::ScheduleNames, name_key(&stored));
    } else if stored.spec.name != schedule.spec.name {
        take_name(tx, schedule)?;
        tx.delete(Cf::ScheduleNames, name_key(&stored));
    }
    put(tx, key, schedule)
}

#[async_trait]
impl ScheduleStore for EmbeddedStore {
    async fn create_schedule(&self, schedule: Schedule) -> StoreResult<()> {
        self.submit(move |tx| create(tx, &schedule)).await
    }

    async fn update_schedule(&self, schedule: Schedule, expected: u64) -> StoreResult<()> {
        self.submit(move |tx| update(tx, &schedule, expected)).await
    }

    async fn schedule(&self, tenant: &TenantId, id: &ScheduleId) -> StoreResult<Option<Schedule>> {
        Ok(self.schedule_with_deleted(tenant, id).await?.filter(|schedule| schedule.deleted_at.is_none()))
    }

    async fn schedule_with_deleted(&self, tenant: &TenantId, id: &ScheduleId) -> StoreResult<Option<Schedule>> {
        let key = schedule_key(tenant, id);
        self.read(move |view| view.doc(Cf::Schedules, &key)).await
    }

    async fn schedules(
        &self,
        tenant: &TenantId,
        filter: &ScheduleFilter,
        after: Option<&str>,
        limit: usize,
    ) -> StoreResult<Page<Schedule>> {
        let prefix = Key::default().id(tenant.as_str());
        let after = after
            .map(|text| ScheduleId::try_from(text.to_owned()).map_err(|_| StoreError::BadCursor))
            .transpose()?
            .map(|id| prefix.clone().last(id.as_str()));
        let (prefix, filter) = (prefix.done(), filter.clone());
        self.read(move |view| {
            let mut page = PageOf::new(limit);
            let from = after.as_ref().unwrap_or(&prefix);
            view.visit_from(Cf::Schedules, &prefix, from, after.is_none(), &mut |key, value| {
                let schedule: Schedule = doc::decode("a schedule", value)?;
                let wanted = schedule.deleted_at.is_none()
                    && filter.enabled.is_none_or(|enabled| enabled == schedule.spec.enabled)
                    && filter.name.as_ref().is_none_or(|name| *name == schedule.spec.name);
                Ok(!wanted || page.push(schedule, || text_after(key, prefix.len())))
            })?;
            Ok(page.done())
        })
        .await
    }

    async fn subscribers(&self, source: Source) -> StoreResult<Vec<Schedule>> {
        self.read(move |view| {
            let mut schedules: Vec<Schedule> = Vec::new();
            let hears = |schedule: &Schedule| schedule.spec.enabled && schedule.spec.on_events.contains(&source);
            view.visit(Cf::Schedules, &[], &mut |_, value| {
                match doc::decode::<Schedule>("a schedule", value) {
                    Ok(schedule) if schedule.deleted_at.is_none() && hears(&schedule) => schedules.push(schedule),
                    Ok(_) => {}
                    Err(error) => tracing::error!(%error, "a schedule that cannot be read hears no export"),
                }
                Ok(true)
            })?;
            Ok(schedules)
        })
        .await
    }
}
