//! Forgetting: what nothing refers to, and what is past its time. Every step is a small transaction of its own, so that
//! writers wait for none of it long; doing it again changes nothing.

use crate::catalog::delete_unchanged;
use crate::commit::Tx;
use crate::events::{IdentityDoc, batch_of, is_forgotten, surplus_links, waiting};
use crate::family::Cf;
use crate::read::{Read, ReadExt};
use crate::runs::IdempotencyDoc;
use crate::runs::{by_schedule_key, by_time_key, ended_key, of_run, run_key, schedule_prefix};
use crate::{EmbeddedStore, doc};
use async_trait::async_trait;
use scheduler_core::ports::{CatalogStore, Housekeeping, PlanInput, Pruned, StoreResult, TrimmedImages};
use scheduler_model::{BatchId, Run, RunId, Timestamp};
use std::collections::HashSet;

/// Keys that one transaction removes.
const CHUNK_LEN_MAX: usize = 5_000;

#[async_trait]
impl Housekeeping for EmbeddedStore {
    async fn prune(&self, now: Timestamp) -> StoreResult<Pruned> {
        let batches = self.submit(prune_batches).await?;
        let old =
            move |value: &[u8]| Ok(is_forgotten(doc::decode::<IdentityDoc>("a delivery", value)?.received_at, now));
        let identities = self.remove_where(Cf::Identities, old).await?;
        let fingerprints = self.remove_where(Cf::Fingerprints, old).await?;
        let idempotency_keys = self
            .remove_where(Cf::Idempotency, move |value| {
                Ok(doc::decode::<IdempotencyDoc>("an idempotency key", value)?.is_forgotten(now))
            })
            .await?;
        let mut links = 0;
        loop {
            let surplus = self.read(|view| surplus_links(view, CHUNK_LEN_MAX)).await?;
            if surplus.is_empty() {
                break;
            }
            links += surplus.len();
            self.submit(move |tx| {
                surplus.into_iter().for_each(|key| tx.delete(Cf::VulnLinks, key));
                Ok(())
            })
            .await?;
        }
        Ok(Pruned { batches, identities, fingerprints, idempotency_keys, links })
    }

    async fn trim_runs(&self, before: Timestamp) -> StoreResult<u64> {
        let ended = self.read(move |view| ended_before(view, before)).await?;
        let mut trimmed = 0;
        for id in ended {
            trimmed += u64::from(self.submit(move |tx| trim_run(tx, &id)).await?);
        }
        Ok(trimmed)
    }

    async fn trim_images(&self, before: Timestamp, after: u64, limit: usize) -> StoreResult<TrimmedImages> {
        let changes = self.catalog_changes(after, limit).await?;
        let mut trimmed = TrimmedImages { looked_at: after, more: changes.len() == limit, ..TrimmedImages::default() };
        let mut old = Vec::new();
        for change in changes {
            match &change.image {
                // Changes are in the order of time, so those that follow are no older.
                Some(image) if image.updated_at >= before => {
                    trimmed.more = false;
                    break;
                }
                Some(_) | None => trimmed.looked_at = change.sequence,
            }
            old.extend(change.image.is_some().then_some(change));
        }
        trimmed.images = self.submit(move |tx| delete_unchanged(tx, &old)).await?;
        Ok(trimmed)
    }
}

impl EmbeddedStore {
    /// Removes the values that `old` holds for. Looks beside the writer, then removes what still is as it was.
    async fn remove_where(
        &self,
        cf: Cf,
        old: impl Fn(&[u8]) -> StoreResult<bool> + Clone + Send + 'static,
    ) -> StoreResult<usize> {
        let is_old = old.clone();
        let mut keys = self
            .read(move |view| {
                let mut keys = Vec::new();
                view.visit(cf, &[], &mut |key, value| {
                    if is_old(value)? {
                        keys.push(key.to_vec());
                    }
                    Ok(true)
                })?;
                Ok(keys)
            })
            .await?;
        let mut removed = 0;
        while !keys.is_empty() {
            let chunk = keys.split_off(keys.len().saturating_sub(CHUNK_LEN_MAX));
            let old = old.clone();
            removed += self
                .submit(move |tx| {
                    let mut removed = 0;
                    for key in chunk {
                        if tx.get(cf, &key)?.is_some_and(|value| old(&value).unwrap_or_default()) {
                            tx.delete(cf, key);
                            removed += 1;
                        }
                    }
                    Ok(removed)
                })
                .await?;
        }
        Ok(removed)
    }
}

fn prune_batches(tx: &mut Tx<'_>) -> StoreResult<usize> {
    let mut needed: HashSet<BatchId> = waiting(tx)?.into_iter().map(|subscription| subscription.batch).collect();
    for input in tx.docs::<PlanInput>(Cf::Planning, &[])? {
        needed.extend(input.batches);
    }
    let queued: HashSet<Vec<u8>> =
        tx.pairs(Cf::BatchQueue, &[], usize::MAX)?.into_iter().map(|(_, batch)| batch).collect();
    let mut pruned = 0;
    for (key, _) in tx.pairs(Cf::Batches, &[], usize::MAX)? {
        let Some((_, batch)) = batch_of(tx, &key)? else { continue };
        if queued.contains(&key) || needed.contains(&batch.id) {
            continue;
        }
        for event in &batch.events {
            tx.delete(Cf::Exports, event.as_str().as_bytes().to_vec());
            tx.delete(Cf::ExportHeads, event.as_str().as_bytes().to_vec());
        }
        tx.delete(Cf::Batches, key);
        pruned += 1;
    }
    Ok(pruned)
}

fn ended_before(read: &(impl Read + ?Sized), before: Timestamp) -> StoreResult<Vec<RunId>> {
    let end = crate::key::Key::default().time(before).done();
    let mut ended = Vec::new();
    read.visit(Cf::EndedRuns, &[], &mut |key, _| {
        let old = key < end.as_slice();
        if old {
            ended.extend(RunId::try_from(crate::key::text_after(key, end.len())));
        }
        Ok(old)
    })?;
    Ok(ended)
}

fn trim_run(tx: &mut Tx<'_>, id: &RunId) -> StoreResult<bool> {
    let Some(run) = tx.doc::<Run>(Cf::Runs, &run_key(id))? else { return Ok(false) };
    if let Some(schedule) = &run.schedule {
        let key = by_schedule_key(&run, schedule);
        let newest = tx.pairs(Cf::RunsBySchedule, &schedule_prefix(&run.tenant, schedule).done(), 1)?;
        if newest.first().is_some_and(|(newest, _)| *newest == key) {
            return Ok(false);
        }
        tx.delete(Cf::RunsBySchedule, key);
    }
    let prefix = of_run(id).done();
    for (place, segment) in tx.pairs(Cf::RunSegments, &prefix, usize::MAX)? {
        tx.delete(Cf::RunSegments, place);
        tx.delete(Cf::Segments, segment.clone());
        tx.delete(Cf::SegmentStates, segment);
    }
    for (outcome, _) in tx.pairs(Cf::Outcomes, &prefix, usize::MAX)? {
        tx.delete(Cf::Outcomes, outcome);
    }
    tx.delete(Cf::RunsByTime, by_time_key(&run));
    tx.delete(Cf::EndedRuns, ended_key(&run));
    tx.delete(Cf::Runs, run_key(id));
    Ok(true)
}
