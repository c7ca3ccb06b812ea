//! What is remembered of reports, and the log of them.
//!
//! - REP-1: the log has one entry for every image with a report, that of its last one, so that reading it from 0 gives all.
//! - REP-2: a record and its entry are one write; entries become durable in the order of their numbers.

use crate::commit::{REPORTS_HEAD, Tx};
use crate::engine::{KeyWrite, View};
use crate::family::Cf;
use crate::key::{Key, text_after, trailing_number};
use crate::read::{Read, ReadExt};
use crate::{EmbeddedStore, doc};
use async_trait::async_trait;
use scheduler_core::ports::{ReportChange, ReportStore, StoreResult};
use scheduler_model::{ImageDigest, ReportHead, ReportRecord, TenantId};
use serde::{Deserialize, Serialize};

/// An entry of the log.
#[derive(Debug, Serialize, Deserialize)]
struct ReportDoc {
    tenant: TenantId,
    digest: ImageDigest,
    report: ReportHead,
}

pub(crate) fn report_key(tenant: &TenantId, digest: &ImageDigest) -> Vec<u8> {
    Key::default().id(tenant.as_str()).last(digest.as_str())
}

fn change_key(number: u64) -> Vec<u8> {
    Key::default().number(number).done()
}

/// Remembers an image's report, in the place of the one before.
pub(crate) fn put(tx: &mut Tx<'_>, tenant: &TenantId, digest: &ImageDigest, record: &ReportRecord) -> StoreResult<()> {
    let key = report_key(tenant, digest);
    let number = tx.next_report()?;
    if let Some(before) = tx.get(Cf::ReportMarks, &key)? {
        tx.delete(Cf::ReportChanges, change_key(trailing_number(&before)));
    }
    let entry = ReportDoc { tenant: tenant.clone(), digest: digest.clone(), report: record.head() };
    tx.put_doc(Cf::ReportChanges, change_key(number), &entry)?;
    tx.put_number(Cf::ReportMarks, key.clone(), number);
    tx.put_doc(Cf::Reports, key, record)
}

fn head(read: &(impl Read + ?Sized), key: &[u8]) -> StoreResult<Option<ReportHead>> {
    let Some(mark) = read.get(Cf::ReportMarks, key)? else { return Ok(None) };
    let entry: Option<ReportDoc> = read.doc(Cf::ReportChanges, &change_key(trailing_number(&mark)))?;
    Ok(entry.map(|entry| entry.report))
}

/// Entries for records that have none, as a folder of an earlier program has them: of at most `limit` records after the key
/// `after`, with the key of the last one.
pub(crate) fn missing_entries(
    view: &View<'_>,
    after: &[u8],
    limit: usize,
) -> StoreResult<(Vec<KeyWrite>, Option<Vec<u8>>)> {
    let (mut writes, mut last, mut looked) = (Vec::new(), None, 0);
    let mut number = view.number(Cf::Meta, REPORTS_HEAD)?;
    let mut put = |cf, key, value| writes.push(KeyWrite { cf, key, value: Some(value) });
    view.visit_from(Cf::Reports, &[], after, false, &mut |key, value| {
        last = Some(key.to_vec());
        looked += 1;
        if view.get(Cf::ReportMarks, key)?.is_none()
            && let Some((tenant, digest)) = split_key(key)
        {
            number += 1;
            let report = doc::decode::<ReportRecord>("a report", value)?.head();
            put(Cf::ReportChanges, change_key(number), doc::encode(&ReportDoc { tenant, digest, report })?);
            put(Cf::ReportMarks, key.to_vec(), number.to_be_bytes().to_vec());
        }
        Ok(looked < limit)
    })?;
    put(Cf::Meta, REPORTS_HEAD.to_vec(), number.to_be_bytes().to_vec());
    Ok((writes, last))
}

/// The tenant and digest of a key.
fn split_key(key: &[u8]) -> Option<(TenantId, ImageDigest)> {
    let end = key.iter().position(|byte| *byte == 0)?;
    let tenant = TenantId::try_from(String::from_utf8_lossy(key.get(..end)?).into_owned()).ok()?;
    Some((tenant, ImageDigest::try_from(text_after(key, end + 1)).ok()?))
}

#[async_trait]
impl ReportStore for EmbeddedStore {
    async fn report_heads(&self, of: &[(TenantId, ImageDigest)]) -> StoreResult<Vec<Option<ReportHead>>> {
        let keys: Vec<Vec<u8>> = of.iter().map(|(tenant, digest)| report_key(tenant, digest)).collect();
        self.read(move |view| keys.iter().map(|key| head(view, key)).collect()).await
    }

    async fn last_report(&self) -> StoreResult<u64> {
        Ok(*self.signals.reports.borrow())
    }

    async fn report_changes(&self, after: u64, limit: usize) -> StoreResult<Vec<ReportChange>> {
        self.read(move |view| {
            let mut changes = Vec::new();
            view.visit_from(Cf::ReportChanges, &[], &change_key(after), false, &mut |number, value| {
                if changes.len() < limit {
                    let ReportDoc { tenant, digest, report } = doc::decode("a report's entry", value)?;
                    changes.push(ReportChange { number: trailing_number(number), tenant, digest, report });
                }
                Ok(changes.len() < limit)
            })?;
            Ok(changes)
        })
        .await
    }
}
