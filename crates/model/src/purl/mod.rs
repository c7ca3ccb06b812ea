//! Package URLs: parsing, the canonical form, and what a changed key matches on.
//!
//! - PURL-A: a [`Purl`] is valid and canonical; two texts of one purl give equal values, and its text parses to itself.
//! - PURL-B: [`Purl::parse_lenient`] mends nothing exactly where [`Purl::parse_strict`] accepts, and then both agree.
//! - PURL-C: what cannot be understood is an error with a reason; no input panics and none beyond
//!   [`Purl::LEN_MAX`] is looked at.
//! - PURL-D: [`ProductKey::matches`] is the reference for every index: the rule as the contract words it, one pair at
//!   a time.
//! - PURL-E: what reads canonical texts in one pass reads them as the full parser does.
//!
//! ```
//! use scheduler_model::purl::{Component, ProductKey, Purl};
//!
//! let purl = Purl::parse_lenient("pkg:deb/Debian/libssl3@0:3.0.11-1?upstream=openssl")?.purl;
//! assert_eq!(purl.to_string(), "pkg:deb/debian/libssl3@0:3.0.11-1?upstream=openssl");
//! let (key, _) = ProductKey::parse("pkg:deb/openssl@3.0.11-1")?;
//! assert!(key.matches(&Component::from_purl(&purl, None)));
//! # Ok::<(), scheduler_model::purl::PurlError>(())
//! ```

mod build;
mod component;
mod error;
mod form;
mod key;
mod mend;
mod parse;
mod percent;
mod plain;
mod rules;
mod value;

pub use build::PurlParts;
pub use component::{Component, MatchName, Source};
pub use error::PurlError;
pub use key::ProductKey;
pub use mend::{Mend, Mends};
pub use parse::Parsed;
pub use value::Purl;
