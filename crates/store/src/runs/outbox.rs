//! What leaves: per tenant a sequence of events that begins with 1.
//!
//! - OUT-1: a number is given once; a tenant's numbers say nothing of another tenant (P2).
//! - OUT-2: the marks say which numbers are kept, so that nobody walks over what was trimmed.

use crate::EmbeddedStore;
use crate::commit::Tx;
use crate::doc;
use crate::family::Cf;
use crate::key::{Key, trailing_number};
use crate::read::{Read, ReadExt};
use scheduler_core::ports::StoreResult;
use scheduler_model::{OutboundBody, OutboundEvent, Run, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

/// One read gives no more events when those that it has are so large, as stored.
const READ_BYTES_MAX: usize = 256 << 10;

/// Events that one transaction trims.
const TRIM_LEN_MAX: usize = 5_000;

/// The numbers of a tenant's outbox: kept are `oldest..next`.
#[derive(Debug, Serialize, Deserialize)]
struct Marks {
    oldest: u64,
    next: u64,
}

fn marks(read: &(impl Read + ?Sized), tenant: &[u8]) -> StoreResult<Marks> {
    Ok(read.doc(Cf::OutboxMarks, tenant)?.unwrap_or(Marks { oldest: 1, next: 1 }))
}

fn marks_key(tenant: &TenantId) -> &[u8] {
    tenant.as_str().as_bytes()
}

fn event_key(prefix: &Key, sequence: u64) -> Vec<u8> {
    prefix.clone().number(sequence).done()
}

/// Adds an event.
pub(super) fn push(tx: &mut Tx<'_>, tenant: &TenantId, time: Timestamp, body: OutboundBody) -> StoreResult<()> {
    let Marks { oldest, next } = marks(tx, marks_key(tenant))?;
    let event = OutboundEvent { sequence: next, tenant: tenant.clone(), time, body };
    tx.put_doc(Cf::Outbox, event_key(&Key::default().id(tenant.as_str()), next), &event)?;
    tx.put_doc(Cf::OutboxMarks, marks_key(tenant).to_vec(), &Marks { oldest, next: next + 1 })?;
    tx.outbox_has_changed();
    Ok(())
}

/// Adds the run as it stands.
pub(super) fn announce(tx: &mut Tx<'_>, run: &Run, now: Timestamp) -> StoreResult<()> {
    push(tx, &run.tenant, now, OutboundBody::RunUpdated(Box::new(run.clone())))
}

pub(super) fn after(
    read: &(impl Read + ?Sized),
    tenant: &TenantId,
    after: u64,
    limit: usize,
) -> StoreResult<Vec<OutboundEvent>> {
    let prefix = Key::default().id(tenant.as_str());
    let from = event_key(&prefix, marks(read, marks_key(tenant))?.oldest.max(after.saturating_add(1)));
    let (mut events, mut bytes) = (Vec::new(), 0);
    read.visit_from(Cf::Outbox, &prefix.done(), &from, true, &mut |_, value| {
        if events.len() < limit {
            events.push(doc::decode("an event", value)?);
            bytes += value.len();
        }
        Ok(events.len() < limit && bytes < READ_BYTES_MAX)
    })?;
    Ok(events)
}

pub(super) fn range(read: &(impl Read + ?Sized), tenant: &TenantId) -> StoreResult<(u64, u64)> {
    let Marks { oldest, next } = marks(read, marks_key(tenant))?;
    Ok((oldest, next - 1))
}

/// Removes a tenant's oldest events as long as they are older than `before`, a bounded number; says how many.
fn trim_chunk(tx: &mut Tx<'_>, tenant: &[u8], before: Timestamp) -> StoreResult<usize> {
    let Marks { oldest, next } = marks(tx, tenant)?;
    let prefix = Key::default().id(&String::from_utf8_lossy(tenant));
    let mut gone = Vec::new();
    tx.visit_from(Cf::Outbox, &prefix.clone().done(), &event_key(&prefix, oldest), true, &mut |key, value| {
        let old = doc::decode::<OutboundEvent>("an event", value)?.time < before;
        if old {
            gone.push(key.to_vec());
        }
        Ok(old && gone.len() < TRIM_LEN_MAX)
    })?;
    if let Some(last) = gone.last() {
        let oldest = trailing_number(last) + 1;
        tx.put_doc(Cf::OutboxMarks, tenant.to_vec(), &Marks { oldest, next })?;
    }
    let len = gone.len();
    for key in gone {
        tx.delete(Cf::Outbox, key);
    }
    Ok(len)
}

impl EmbeddedStore {
    pub(super) async fn trim_outbox_of_all(&self, before: Timestamp) -> StoreResult<u64> {
        let mut trimmed = 0;
        for (tenant, _) in self.read(|view| view.pairs(Cf::OutboxMarks, &[], usize::MAX)).await? {
            loop {
                let tenant = tenant.clone();
                let len = self.submit(move |tx| trim_chunk(tx, &tenant, before)).await?;
                trimmed += len as u64;
                if len < TRIM_LEN_MAX {
                    break;
                }
            }
        }
        Ok(trimmed)
    }
}
