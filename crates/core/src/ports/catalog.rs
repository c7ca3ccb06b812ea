use super::{Page, StoreResult};
use async_trait::async_trait;
use scheduler_model::{Image, ImageDigest, TenantId};
use std::sync::Arc;

/// What putting an image did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PutImage {
    /// Whether the tenant had no image of that digest.
    pub created: bool,
    /// The change's sequence number.
    pub sequence: u64,
}

/// One change of the catalog.
#[derive(Debug, Clone)]
pub struct CatalogChange {
    /// Its number; later changes have higher ones.
    pub sequence: u64,
    /// Its timeline: see [`CatalogStore::timeline_at`].
    pub timeline: u64,
    /// Whose image.
    pub tenant: TenantId,
    /// Which image.
    pub digest: ImageDigest,
    /// The image as of now; `None` when it was deleted.
    pub image: Option<Arc<Image>>,
}

/// The catalog of images: the truth that every index is a view of.
#[async_trait]
pub trait CatalogStore: Send + Sync {
    /// Puts images, each replacing the tenant's image of the same digest; the `sequence` of what is given is ignored and
    /// assigned here, ascending in the given order. One durable write: all or none. Doing it again makes new changes
    /// and leaves the same catalog.
    async fn put_images(&self, images: Vec<Image>) -> StoreResult<Vec<PutImage>>;

    /// Deletes an image. `None` when there is none.
    async fn delete_image(&self, tenant: &TenantId, digest: &ImageDigest) -> StoreResult<Option<u64>>;

    /// One image.
    async fn image(&self, tenant: &TenantId, digest: &ImageDigest) -> StoreResult<Option<Image>>;

    /// The tenant's images in the order of their digests, at most `limit` after `after`.
    async fn images(&self, tenant: &TenantId, after: Option<&str>, limit: usize) -> StoreResult<Page<Image>>;

    /// The number of the last change that is durable.
    async fn catalog_head(&self) -> StoreResult<u64>;

    /// Changes after `after` in the order of their numbers, at most `limit`. A change that a later one to the same image
    /// supersedes may be left out. None is left out because it committed late: a number is readable only when all lower
    /// ones are.
    async fn catalog_changes(&self, after: u64, limit: usize) -> StoreResult<Vec<CatalogChange>>;

    /// The timeline of the change of that number, whether the change is still there or not. 0 when it is not known: beyond the head,
    /// or so long ago that it was forgotten.
    ///
    /// A catalog begins a new timeline, a random number, with its first change after every start. Two catalogs that have one number in one
    /// timeline are the same up to it, even where one of them is a copy, or was restored from a backup, and has gone another way since.
    async fn timeline_at(&self, sequence: u64) -> StoreResult<u64>;
}
