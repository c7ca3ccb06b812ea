//! The ImpactIndex: which images contain which packages, and hence which images a change can touch.
//!
//! A disposable view of the catalog. Each image's packages become postings (image ordinals) of *components*; a changed
//! product key is turned into components, their postings are united and cut to a selection of one tenant's images. No
//! clock and no randomness is in the answers; a failure of the disk leaves the memory as it is and is reported.
//!
//! - IDX-1: an image that uses a component contains it: a posting is one number, use is a bit of it.
//! - IDX-2: no result leaves this crate before it is cut to the live images of the query's tenant.
//! - IDX-3: ordinals ascend and are never given twice within one generation; postings are only ever appended.
//! - IDX-4: a name found by its hash is compared byte for byte, so that no collision can add an image.
//! - IDX-5: an answer is computed on one edition: it is as of one sequence, which it names. Readers wait for nobody.
//! - IDX-6: a checkpoint becomes valid, with its sequence, in one atomic write; what cannot be read whole is refused.
//! - IDX-8: what a reader may be looking at stays as it is: tables grow without moving, and a block that a set has outgrown is
//!   used again only when every edition that was read while it was in use has been given up.

mod arena;
mod chains;
mod codec;
mod column;
mod compact;
mod dictionary;
mod edition;
mod error;
mod explain;
mod hits;
mod images;
mod index;
mod interner;
mod load;
mod lookup;
mod naming;
mod oci;
mod pieces;
mod postings;
mod records;
mod reports;
mod repositories;
mod resolve;
mod sample;
mod save;
mod select;
mod snapshot;
mod table;
mod terms;
mod texts;
mod types;
mod verify;
mod view;
mod writer;

pub use error::{Difference, DifferenceKind, IndexError};
pub use index::ImpactIndex;
pub use oci::ImageRef;
pub use reports::{ReportSets, Stale};
pub use resolve::UnionProbe;
pub use snapshot::{SnapshotError, SnapshotInfo};
pub use types::{
    Change, Found, ImageInfo, IndexStats, KeyMatch, PackageCount, PutImage, Query, QueryKey, Resolution, Sample,
    SampleMatch, SelectedImage, Shapes, Thresholds, Want, Way,
};
