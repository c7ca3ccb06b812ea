//! Why a document was refused.

use std::io;

/// The formats and versions, as told to whoever sent another one.
const SUPPORTED: &str = "CycloneDX JSON 1.2 to 1.7, SPDX JSON 2.2, 2.3 and 3.0, Syft JSON, bom-index@1";

/// A refusal. Nothing of the document was taken.
#[derive(Debug, thiserror::Error)]
pub enum SbomError {
    /// The input ended with an error of its own (a broken body, a size limit), which is the source.
    #[error("cannot read the document")]
    Read(#[source] io::Error),
    /// No JSON, or JSON that ends too early.
    #[error("malformed JSON at line {line}, column {column}")]
    MalformedJson {
        /// Line, counted from 1; 0 when the input is empty.
        line: usize,
        /// Column in bytes, counted from 1.
        column: usize,
        /// What the parser says.
        #[source]
        source: serde_json::Error,
    },
    /// Bytes that are not UTF-8 JSON but plainly something else, as UTF-16 or base64.
    #[error("the document is {found}; send it as UTF-8 JSON")]
    Encoding {
        /// What the first bytes show.
        found: &'static str,
    },
    /// Readable, but none of the supported formats and versions.
    #[error("unsupported document: {found}; supported are {SUPPORTED}")]
    UnsupportedFormat {
        /// What it looks like.
        found: String,
    },
    /// A sidecar without a member that it must have, or with another type there.
    #[error("the sidecar has no usable `{member}`")]
    Missing {
        /// The member's name.
        member: &'static str,
    },
    /// A sidecar with a member that decides twice: which of them is meant?
    #[error("the sidecar has more than one `{member}`")]
    Repeated {
        /// The member's name.
        member: &'static str,
    },
    /// What should list the components is no list.
    #[error("`{member}` is no list")]
    NotAList {
        /// The member's name.
        member: &'static str,
    },
    /// `usedByEntrypoint` is neither a list of indexes nor a base64 portable roaring bitmap.
    #[error("usedByEntrypoint {reason}")]
    BadUsage {
        /// What is wrong with it.
        reason: String,
    },
    /// `usedByEntrypoint` names a position that `purls` does not have.
    #[error("usedByEntrypoint names component {index}, but the sidecar has {purls} purls")]
    Impossible {
        /// The position.
        index: u64,
        /// Entries of `purls`.
        purls: usize,
    },
    /// Components nested deeper than [`Limits::depth_max`](crate::Limits::depth_max).
    #[error("components are nested more than {limit} levels deep")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// A list longer than [`Limits::components_max`](crate::Limits::components_max).
    #[error("the document has more than {limit} {what}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
}

impl SbomError {
    /// The member of the document that is wrong, as a JSON pointer, where it is one.
    pub fn pointer(&self) -> Option<String> {
        match self {
            Self::Missing { member } | Self::Repeated { member } | Self::NotAList { member } => {
                Some(format!("/{member}"))
            }
            Self::BadUsage { .. } | Self::Impossible { .. } => Some("/usedByEntrypoint".to_owned()),
            Self::Read(_)
            | Self::MalformedJson { .. }
            | Self::Encoding { .. }
            | Self::UnsupportedFormat { .. }
            | Self::TooDeep { .. }
            | Self::TooMany { .. } => None,
        }
    }
}
