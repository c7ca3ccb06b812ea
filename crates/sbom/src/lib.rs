//! Reads the documents that fill the catalog: BOM-Index sidecars, CycloneDX, SPDX and Syft JSON.
//!
//! The format is told apart by content, in one streaming pass: members may come in any order, so the pass gathers what each
//! format would want and decides at the end. Purls leave as the document wrote them; parsing them is the caller's work.
//!
//! - SBOM-R1: what is kept is bounded by [`Limits`]; a document is never held as a whole.
//! - SBOM-R2: no input panics; whatever is refused is refused with a reason.
//! - SBOM-R3: a member that does not matter, or whose type is not the expected one, never refuses a document.
//! - SBOM-R4: position `i` of a sidecar's components is entry `i` of its `purls`, also where that entry is unusable.
//! - SBOM-R5: the image that a document describes is no component of itself.

mod bom_index;
mod cyclonedx;
mod document;
mod error;
mod evidence;
mod lenient;
mod limits;
mod read;
mod reference;
mod sink;
mod sniff;
mod source;
mod spdx2;
mod spdx3;
mod syft;

pub use document::{Document, Format, ImageFacts, Note, PurlProblem, RawComponent, SourceRecord, Usage};
pub use error::SbomError;
pub use limits::Limits;
pub use read::{read, read_bom_index, read_slice};
