use scheduler_model::{ImageDigest, TenantId};
use std::path::PathBuf;

/// What can go wrong with an index.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// A table has reached the size that its 32-bit numbers can address; the index still answers as before.
    #[error("the impact index is full: no room for more {0}")]
    Full(&'static str),
    /// The stored index cannot be read whole. It is to be rebuilt from the catalog: see `ImpactIndex::create`.
    #[error("the stored impact index is damaged: {reason}")]
    Damaged {
        /// What was found.
        reason: String,
    },
    /// The folder is none, and cannot be made.
    #[error("the folder {} of the impact index cannot be made", folder.display())]
    Folder {
        /// Which folder.
        folder: PathBuf,
        /// What went wrong.
        source: std::io::Error,
    },
    /// The storage engine failed, for example because the disk is full or another process holds the folder.
    #[error("the storage of the impact index failed")]
    Storage(#[source] rocksdb::Error),
}

impl IndexError {
    pub(crate) fn damaged(reason: impl Into<String>) -> Self {
        Self::Damaged { reason: reason.into() }
    }
}

impl From<rocksdb::Error> for IndexError {
    fn from(error: rocksdb::Error) -> Self {
        let lacks_file = error.kind() == rocksdb::ErrorKind::IOError && error.as_ref().contains("No such file");
        match error.kind() {
            rocksdb::ErrorKind::Corruption | rocksdb::ErrorKind::NotSupported => Self::damaged(error.into_string()),
            _ if lacks_file => Self::damaged(error.into_string()),
            _ => Self::Storage(error),
        }
    }
}

/// The first way in which two indexes differ.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("image {digest} of tenant {tenant}: {kind}")]
pub struct Difference {
    /// Whose image it is.
    pub tenant: TenantId,
    /// The image.
    pub digest: ImageDigest,
    /// What differs.
    pub kind: DifferenceKind,
}

/// What differs about an image between an index and its rebuild.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DifferenceKind {
    /// The rebuild has the image, the index lacks it.
    #[error("missing")]
    Missing,
    /// The index has an image that the rebuild lacks.
    #[error("not in the catalog")]
    Extra,
    /// Registry, repository, namespaces, labels or tags differ.
    #[error("its place differs")]
    Place,
    /// The rebuild has the component, or has it as used, where the index does not.
    #[error("component {0} is missing or counts as unused")]
    ComponentMissing(String),
    /// The index has the component, or has it as used, where the rebuild does not.
    #[error("component {0} is there or counts as used, against the catalog")]
    ComponentExtra(String),
    /// The index cannot find the component under one of its names.
    #[error("component {0} cannot be found by its name")]
    ComponentUnnamed(String),
}
