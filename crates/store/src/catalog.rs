//! The catalog of images and its log of changes.
//!
//! - CAT-1: the log has one entry for every image that is there and one for every deletion that nothing replaced, so that
//!   reading it from 0 gives the whole catalog.
//! - CAT-2: a number is given once; entries become durable in the order of their numbers.

use crate::commit::Tx;
use crate::family::Cf;
use crate::key::{Key, text_after, trailing_number};
use crate::read::{PageOf, Read};
use crate::timelines::Timelines;
use crate::{EmbeddedStore, doc};
use async_trait::async_trait;
use scheduler_core::ports::{CatalogChange, CatalogStore, Page, PutImage, StoreError, StoreResult};
use scheduler_model::{Image, ImageDigest, TenantId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// An entry of the log.
#[derive(Debug, Serialize, Deserialize)]
struct ChangeDoc {
    tenant: TenantId,
    digest: ImageDigest,
}

fn image_key(tenant: &TenantId, digest: &ImageDigest) -> Vec<u8> {
    Key::default().id(tenant.as_str()).last(digest.as_str())
}

fn change_key(sequence: u64) -> Vec<u8> {
    Key::default().number(sequence).done()
}

fn image_of(bytes: &[u8]) -> StoreResult<Image> {
    let (sequence, document) = doc::split_number("an image", bytes)?;
    let image: Image = doc::decode("an image", document)?;
    Ok(Image { sequence, ..image })
}

fn log(tx: &mut Tx<'_>, change: &ChangeDoc) -> StoreResult<u64> {
    let sequence = tx.next_change()?;
    tx.put_doc(Cf::Changes, change_key(sequence), change)?;
    Ok(sequence)
}

fn put_one(tx: &mut Tx<'_>, change: &ChangeDoc, document: &[u8]) -> StoreResult<PutImage> {
    let key = image_key(&change.tenant, &change.digest);
    let before = tx.get(Cf::Images, &key)?;
    if let Some(before) = &before {
        tx.delete(Cf::Changes, change_key(doc::split_number("an image", before)?.0));
    }
    if let Some(deletion) = tx.get(Cf::Tombstones, &key)? {
        tx.delete(Cf::Changes, change_key(trailing_number(&deletion)));
        tx.delete(Cf::Tombstones, key.clone());
    }
    let sequence = log(tx, change)?;
    tx.put(Cf::Images, key, doc::with_number(sequence, document));
    Ok(PutImage { created: before.is_none(), sequence })
}

/// Deletes an image, if it is there and `meant` holds for the number of its last change.
fn delete_one(tx: &mut Tx<'_>, change: &ChangeDoc, meant: impl Fn(u64) -> bool) -> StoreResult<Option<u64>> {
    let key = image_key(&change.tenant, &change.digest);
    let Some(before) = tx.get(Cf::Images, &key)? else { return Ok(None) };
    let (number, _) = doc::split_number("an image", &before)?;
    if !meant(number) {
        return Ok(None);
    }
    tx.delete(Cf::Changes, change_key(number));
    let sequence = log(tx, change)?;
    tx.delete(Cf::Images, key.clone());
    tx.put_number(Cf::Tombstones, key, sequence);
    Ok(Some(sequence))
}

/// Deletes the images of changes that are still the last ones to them; gives how many.
pub(crate) fn delete_unchanged(tx: &mut Tx<'_>, changes: &[CatalogChange]) -> StoreResult<u64> {
    let mut deleted = 0;
    for CatalogChange { sequence, tenant, digest, .. } in changes {
        let change = ChangeDoc { tenant: tenant.clone(), digest: digest.clone() };
        deleted += u64::from(delete_one(tx, &change, |number| number == *sequence)?.is_some());
    }
    Ok(deleted)
}

#[async_trait]
impl CatalogStore for EmbeddedStore {
    async fn put_images(&self, images: Vec<Image>) -> StoreResult<Vec<PutImage>> {
        // The documents are made here, so that the one writer does not spend its time on them.
        let prepare = |image: &Image| {
            let change = ChangeDoc { tenant: image.tenant.clone(), digest: image.digest.clone() };
            Ok((change, doc::encode(image)?))
        };
        let documents = images.iter().map(prepare).collect::<StoreResult<Vec<_>>>()?;
        let recent = Arc::clone(&self.recent);
        let images = recent.admit(images);
        self.submit(move |tx| {
            let put = documents.iter().map(|(change, document)| put_one(tx, change, document));
            let put = put.collect::<StoreResult<Vec<PutImage>>>()?;
            let sequences: Vec<u64> = put.iter().map(|put| put.sequence).collect();
            tx.when_durable(move || {
                let images = images.into_iter().zip(sequences);
                images
                    .filter_map(|(image, sequence)| image.map(|image| Image { sequence, ..image }))
                    .for_each(|image| recent.keep(image));
            });
            Ok(put)
        })
        .await
    }

    async fn delete_image(&self, tenant: &TenantId, digest: &ImageDigest) -> StoreResult<Option<u64>> {
        let change = ChangeDoc { tenant: tenant.clone(), digest: digest.clone() };
        self.submit(move |tx| delete_one(tx, &change, |_| true)).await
    }

    async fn image(&self, tenant: &TenantId, digest: &ImageDigest) -> StoreResult<Option<Image>> {
        let key = image_key(tenant, digest);
        self.read(move |view| view.get(Cf::Images, &key)?.map(|bytes| image_of(&bytes)).transpose()).await
    }

    async fn images(&self, tenant: &TenantId, after: Option<&str>, limit: usize) -> StoreResult<Page<Image>> {
        let prefix = Key::default().id(tenant.as_str());
        let after = after
            .map(|text| ImageDigest::try_from(text.to_owned()).map_err(|_| StoreError::BadCursor))
            .transpose()?
            .map(|digest| prefix.clone().last(digest.as_str()));
        let prefix = prefix.done();
        self.read(move |view| {
            let mut page = PageOf::new(limit);
            let from = after.as_ref().unwrap_or(&prefix);
            view.visit_from(Cf::Images, &prefix, from, after.is_none(), &mut |key, value| {
                Ok(page.push(image_of(value)?, || text_after(key, prefix.len())))
            })?;
            Ok(page.done())
        })
        .await
    }

    async fn catalog_head(&self) -> StoreResult<u64> {
        Ok(*self.signals.catalog.borrow())
    }

    async fn catalog_changes(&self, after: u64, limit: usize) -> StoreResult<Vec<CatalogChange>> {
        let recent = Arc::clone(&self.recent);
        self.read(move |view| {
            let timelines = Timelines::of(view)?;
            let mut found = Vec::new();
            view.visit_from(Cf::Changes, &[], &change_key(after), false, &mut |key, value| {
                if found.len() >= limit {
                    return Ok(false);
                }
                let sequence = trailing_number(key);
                let ChangeDoc { tenant, digest } = doc::decode("a catalog change", value)?;
                let stored = || {
                    let image = view.get(Cf::Images, &image_key(&tenant, &digest))?;
                    image.map(|bytes| image_of(&bytes).map(Arc::new)).transpose()
                };
                // The last change of an image is the only one that is in the log (CAT-1).
                let image = recent.take(sequence).map_or_else(stored, |image| Ok(Some(image)))?;
                found.push(CatalogChange { sequence, timeline: timelines.at(sequence), tenant, digest, image });
                Ok(true)
            })?;
            Ok(found)
        })
        .await
    }

    async fn timeline_at(&self, sequence: u64) -> StoreResult<u64> {
        let head = self.catalog_head().await?;
        if sequence > head {
            return Ok(0);
        }
        self.read(move |view| Ok(Timelines::of(view)?.at(sequence))).await
    }
}
