//! The inbox: deliveries, batches, who waits for them, and what exports have said of vulnerabilities.
//!
//! - INB-1: an event is in the queue of its source or in one closed batch, never in both.
//! - INB-2: a batch is handed out once; a repetition finds it out of the queue and does nothing.
//! - INB-3: `UNPLANNED` counts the events that were not handed out.
//!
//! An export is told from others by its source too: one key may sign for both, and their export ids have nothing to do
//! with each other.

use crate::commit::Tx;
use crate::family::Cf;
use crate::key::Key;
use crate::read::{Read, ReadExt};
use crate::{EmbeddedStore, conflict, doc, not_found};
use async_trait::async_trait;
use scheduler_core::ports::{Accepted, EventStore, StoreError, StoreResult, Subscription};
use scheduler_model::{
    Batch, BatchId, EventId, Export, ExportHead, ScheduleId, Source, TenantId, TenantScope, Timestamp, ids,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long a delivery is remembered.
pub(crate) const IDENTITY_TTL: Duration = Duration::from_secs(30 * 24 * 3600);
/// Keys that are kept and told of one vulnerability.
pub(crate) const KEYS_PER_VULN_MAX: usize = 10_000;

const ARRIVALS: &[u8] = b"arrivals";
const BATCHES: &[u8] = b"batches";
const UNPLANNED: &[u8] = b"unplanned";

/// A delivery of the past.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct IdentityDoc {
    pub(crate) event: EventId,
    pub(crate) received_at: Timestamp,
}

fn open_key(export: &Export) -> Key {
    Key::default().id(export.source.as_str()).id(export.key_id.as_str()).id(export.export_id.as_str())
}

fn unbatched_key(source: Source, arrival: u64) -> Vec<u8> {
    Key::default().id(source.as_str()).number(arrival).done()
}

fn event_key(event: &EventId) -> Vec<u8> {
    event.as_str().as_bytes().to_vec()
}

fn batch_key(batch: &BatchId) -> Vec<u8> {
    batch.as_str().as_bytes().to_vec()
}

fn waiting_prefix(tenant: &TenantId, schedule: &ScheduleId) -> Key {
    Key::default().id(tenant.as_str()).id(schedule.as_str())
}

/// Whether a delivery of that time is forgotten at `now`.
pub(crate) fn is_forgotten(received_at: Timestamp, now: Timestamp) -> bool {
    now.since(received_at) >= IDENTITY_TTL
}

/// The number of a batch in the order of closing, and the batch.
pub(crate) fn batch_of(read: &(impl Read + ?Sized), id: &[u8]) -> StoreResult<Option<(u64, Batch)>> {
    let Some(bytes) = read.get(Cf::Batches, id)? else { return Ok(None) };
    let (order, document) = doc::split_number("a batch", &bytes)?;
    Ok(Some((order, doc::decode("a batch", document)?)))
}

fn export_of(read: &(impl Read + ?Sized), event: &[u8]) -> StoreResult<Option<Export>> {
    let Some(bytes) = read.get(Cf::Exports, event)? else { return Ok(None) };
    doc::decode("an export", doc::split_number("an export", &bytes)?.1).map(Some)
}

/// An export with its documents, made before the writer gets it.
struct Delivery {
    export: Export,
    document: Vec<u8>,
    head: Vec<u8>,
    fingerprint: Option<Vec<u8>>,
    links: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Delivery {
    fn new(export: Export, fingerprint: Option<String>) -> StoreResult<Self> {
        let document = doc::encode(&export)?;
        let head = doc::encode(&export.head())?;
        // Another key is another sender, with tenants of its own: what it signs is no replay.
        let sender = Key::default().id(export.source.as_str()).id(export.key_id.as_str());
        let fingerprint = fingerprint.map(|text| sender.last(&text));
        let scope = doc::encode(&export.tenants)?;
        // The same link under the same scope has the same key: a link is written without being read first.
        let scope_id = ids::sha256_hex(&scope);
        let links = export.links.iter().map(|link| {
            let key = Key::default().any_text(&link.vuln_id).id(&link.key).last(&scope_id);
            (key, scope.clone())
        });
        let links = links.collect();
        Ok(Self { export, document, head, fingerprint, links })
    }
}

fn accept(tx: &mut Tx<'_>, delivery: Delivery, limit: u64) -> StoreResult<Accepted> {
    let Delivery { export, document, head, fingerprint, links } = delivery;
    if let Some(key) = &fingerprint
        && let Some(known) = tx.doc::<IdentityDoc>(Cf::Fingerprints, key)?
        && !is_forgotten(known.received_at, export.received_at)
    {
        return Ok(Accepted::Duplicate(known.event));
    }
    let slot = open_key(&export).done();
    let identity_key = open_key(&export).last(&export.content_hash);
    let last = last_delivery(tx, &slot, export.received_at)?;
    if let Some((key, known)) = &last
        && *key == identity_key
    {
        if let Some(fingerprint) = fingerprint {
            tx.put_doc(Cf::Fingerprints, fingerprint, known)?;
        }
        return Ok(Accepted::Duplicate(known.event.clone()));
    }
    let replaced = tx.get(Cf::OpenExports, &slot)?;
    let known_otherwise = replaced.is_some() || last.is_some();
    let arrival = match replaced {
        Some(event) => {
            let bytes = tx.get(Cf::Exports, &event)?.unwrap_or_default();
            tx.delete(Cf::ExportHeads, event.clone());
            tx.delete(Cf::Exports, event);
            doc::split_number("an export", &bytes)?.0
        }
        None => {
            let unplanned = tx.number(Cf::Meta, UNPLANNED)?;
            if unplanned >= limit {
                return Err(StoreError::Full { what: "the inbox", limit });
            }
            tx.put_number(Cf::Meta, UNPLANNED.to_vec(), unplanned + 1);
            tx.next_number(Cf::Meta, ARRIVALS)?
        }
    };
    let event = event_key(&export.event_id);
    tx.put(Cf::Unbatched, unbatched_key(export.source, arrival), event.clone());
    tx.put(Cf::OpenExports, slot, event.clone());
    tx.put(Cf::ExportHeads, event.clone(), head);
    tx.put(Cf::Exports, event, doc::with_number(arrival, &document));
    let identity = IdentityDoc { event: export.event_id, received_at: export.received_at };
    if let Some(fingerprint) = fingerprint {
        tx.put_doc(Cf::Fingerprints, fingerprint, &identity)?;
    }
    tx.put_doc(Cf::Identities, identity_key, &identity)?;
    for (key, scope) in links {
        tx.put(Cf::VulnLinks, key, scope);
    }
    Ok(if known_otherwise { Accepted::Superseded } else { Accepted::New })
}

/// The last delivery of an export of that source, key and id that is remembered. Of one moment, the later event id is the
/// later delivery.
fn last_delivery(tx: &Tx<'_>, slot: &[u8], now: Timestamp) -> StoreResult<Option<(Vec<u8>, IdentityDoc)>> {
    let mut last: Option<(Vec<u8>, IdentityDoc)> = None;
    tx.visit(Cf::Identities, slot, &mut |key, value| {
        let found: IdentityDoc = doc::decode("a delivery", value)?;
        let later = last.as_ref().is_none_or(|(_, last)| {
            (found.received_at, found.event.as_str()) > (last.received_at, last.event.as_str())
        });
        if later && !is_forgotten(found.received_at, now) {
            last = Some((key.to_vec(), found));
        }
        Ok(true)
    })?;
    Ok(last)
}

fn close_batch(tx: &mut Tx<'_>, batch: &Batch) -> StoreResult<()> {
    let key = batch_key(&batch.id);
    if tx.get(Cf::Batches, &key)?.is_some() {
        return Ok(());
    }
    for event in &batch.events {
        let gone = || conflict("batch", batch.id.as_str());
        let bytes = tx.get(Cf::Exports, &event_key(event))?.ok_or_else(gone)?;
        let (arrival, document) = doc::split_number("an export", &bytes)?;
        let place = unbatched_key(batch.source, arrival);
        if tx.get(Cf::Unbatched, &place)? != Some(event_key(event)) {
            return Err(gone());
        }
        tx.delete(Cf::Unbatched, place);
        tx.delete(Cf::OpenExports, open_key(&doc::decode("an export", document)?).done());
    }
    let order = tx.next_number(Cf::Meta, BATCHES)?;
    tx.put(Cf::Batches, key.clone(), doc::with_number(order, &doc::encode(batch)?));
    tx.put(Cf::BatchQueue, Key::default().number(order).done(), key);
    Ok(())
}

fn distribute(tx: &mut Tx<'_>, id: &BatchId, to: Vec<Subscription>) -> StoreResult<()> {
    let (order, batch) = batch_of(tx, &batch_key(id))?.ok_or_else(|| not_found("batch", id.as_str()))?;
    let place = Key::default().number(order).done();
    if tx.get(Cf::BatchQueue, &place)?.is_none() {
        return Ok(());
    }
    tx.delete(Cf::BatchQueue, place);
    let unplanned = tx.number(Cf::Meta, UNPLANNED)?.saturating_sub(batch.events.len() as u64);
    tx.put_number(Cf::Meta, UNPLANNED.to_vec(), unplanned);
    for subscription in to {
        let key = waiting_prefix(&subscription.tenant, &subscription.schedule).number(order).done();
        tx.put_doc(Cf::Waiting, key, &WaitingDoc::from(subscription))?;
    }
    Ok(())
}

/// A subscription that waits.
#[derive(Debug, Serialize, Deserialize)]
struct WaitingDoc {
    tenant: TenantId,
    schedule: ScheduleId,
    batch: BatchId,
}

impl From<Subscription> for WaitingDoc {
    fn from(Subscription { tenant, schedule, batch }: Subscription) -> Self {
        Self { tenant, schedule, batch }
    }
}

impl From<WaitingDoc> for Subscription {
    fn from(WaitingDoc { tenant, schedule, batch }: WaitingDoc) -> Self {
        Self { tenant, schedule, batch }
    }
}

/// Every subscription that waits, in order.
pub(crate) fn waiting(read: &(impl Read + ?Sized)) -> StoreResult<Vec<Subscription>> {
    Ok(read.docs::<WaitingDoc>(Cf::Waiting, &[])?.into_iter().map(Subscription::from).collect())
}

/// Takes a subscription out of the waiting list; `Conflict` when it does not wait.
pub(crate) fn take_waiting(tx: &mut Tx<'_>, taken: &Subscription) -> StoreResult<()> {
    let gone = || conflict("the waiting batch", taken.batch.as_str());
    let (order, _) = batch_of(tx, &batch_key(&taken.batch))?.ok_or_else(gone)?;
    let key = waiting_prefix(&taken.tenant, &taken.schedule).number(order).done();
    if tx.get(Cf::Waiting, &key)?.is_none() {
        return Err(gone());
    }
    tx.delete(Cf::Waiting, key);
    Ok(())
}

fn keys_of_vuln(read: &(impl Read + ?Sized), tenant: &TenantId, vuln_id: &str) -> StoreResult<Vec<String>> {
    let prefix = Key::default().any_text(vuln_id).done();
    let mut keys = BTreeSet::new();
    read.visit(Cf::VulnLinks, &prefix, &mut |key, value| {
        if doc::decode::<TenantScope>("a vulnerability link", value)?.includes(tenant) {
            keys.insert(linked_key(key.get(prefix.len()..).unwrap_or_default()));
        }
        Ok(keys.len() < KEYS_PER_VULN_MAX)
    })?;
    Ok(keys.into_iter().collect())
}

fn linked_key(rest: &[u8]) -> String {
    let purl = rest.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(purl).into_owned()
}

#[async_trait]
impl EventStore for EmbeddedStore {
    async fn accept(&self, export: Export, fingerprint: Option<String>, limit: u64) -> StoreResult<Accepted> {
        let delivery = Delivery::new(export, fingerprint)?;
        self.submit(move |tx| accept(tx, delivery, limit)).await
    }

    async fn unbatched(&self, source: Source) -> StoreResult<Vec<ExportHead>> {
        let prefix = Key::default().id(source.as_str()).done();
        self.read_queue(Cf::Unbatched, &prefix.clone(), move |view| {
            let mut heads = Vec::new();
            view.visit(Cf::Unbatched, &prefix, &mut |_, event| {
                heads.extend(view.doc(Cf::ExportHeads, event)?);
                Ok(true)
            })?;
            Ok(heads)
        })
        .await
    }

    async fn close_batch(&self, batch: Batch) -> StoreResult<()> {
        self.submit(move |tx| close_batch(tx, &batch)).await
    }

    async fn unplanned_batches(&self) -> StoreResult<Vec<Batch>> {
        self.read_queue(Cf::BatchQueue, &[], |view| {
            let mut batches = Vec::new();
            view.visit(Cf::BatchQueue, &[], &mut |_, id| {
                batches.extend(batch_of(view, id)?.map(|(_, batch)| batch));
                Ok(true)
            })?;
            Ok(batches)
        })
        .await
    }

    async fn batch_heads(&self, batch: &BatchId) -> StoreResult<Vec<ExportHead>> {
        let id = batch.clone();
        self.read(move |view| {
            let (_, batch) = batch_of(view, &batch_key(&id))?.ok_or_else(|| not_found("batch", id.as_str()))?;
            let heads = batch.events.iter().map(|event| {
                view.doc(Cf::ExportHeads, &event_key(event))?.ok_or_else(|| not_found("event", event.as_str()))
            });
            heads.collect()
        })
        .await
    }

    async fn batch_exports(&self, batch: &BatchId) -> StoreResult<Vec<Export>> {
        let id = batch.clone();
        self.read(move |view| {
            let (_, batch) = batch_of(view, &batch_key(&id))?.ok_or_else(|| not_found("batch", id.as_str()))?;
            let exports = batch
                .events
                .iter()
                .map(|event| export_of(view, &event_key(event))?.ok_or_else(|| not_found("event", event.as_str())));
            exports.collect()
        })
        .await
    }

    async fn distribute(&self, batch: &BatchId, to: Vec<Subscription>) -> StoreResult<()> {
        let batch = batch.clone();
        self.submit(move |tx| distribute(tx, &batch, to)).await
    }

    async fn waiting(&self) -> StoreResult<Vec<Subscription>> {
        self.read_queue(Cf::Waiting, &[], |view| waiting(view)).await
    }

    async fn keys_of_vuln(&self, tenant: &TenantId, vuln_id: &str) -> StoreResult<Vec<String>> {
        let (tenant, vuln_id) = (tenant.clone(), vuln_id.to_owned());
        self.read(move |view| keys_of_vuln(view, &tenant, &vuln_id)).await
    }
}

/// The links that go beyond [`KEYS_PER_VULN_MAX`] of one vulnerability, at most `limit`.
pub(crate) fn surplus_links(read: &(impl Read + ?Sized), limit: usize) -> StoreResult<Vec<Vec<u8>>> {
    let (mut surplus, mut vuln, mut links) = (Vec::new(), Vec::new(), 0_usize);
    read.visit(Cf::VulnLinks, &[], &mut |key, _| {
        let (length, rest) = doc::split_number("a vulnerability link", key)?;
        let name = usize::try_from(length).ok().and_then(|length| rest.get(..length)).unwrap_or(rest);
        if name != vuln.as_slice() {
            (vuln, links) = (name.to_vec(), 0);
        }
        links += 1;
        if links > KEYS_PER_VULN_MAX {
            surplus.push(key.to_vec());
        }
        Ok(surplus.len() < limit)
    })?;
    Ok(surplus)
}
