//! Identifiers, each a type of its own: valid by construction, cheap to compare, opaque to callers.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;

/// Why a text is no identifier of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Not of the form `[A-Za-z0-9_-]{1,64}`.
    #[error("a tenant id is 1 to 64 letters, digits, `_` or `-`")]
    Tenant,
    /// A digest of another algorithm, or none at all.
    #[error("a digest begins with `sha256:`")]
    Algorithm,
    /// Not 64 lower-case hexadecimal digits.
    #[error("a sha256 digest has 64 lower-case hexadecimal digits")]
    Hex,
    /// Empty, too long, or with control characters.
    #[error("an id is 1 to {max} characters without control characters")]
    Text {
        /// The most characters.
        max: usize,
    },
}

/// A tenant: the wall that nothing crosses.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TenantId(String);

impl TenantId {
    /// The tenant's name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for TenantId {
    type Error = IdError;
    fn try_from(raw: String) -> Result<Self, IdError> {
        let valid =
            (1..=64).contains(&raw.len()) && raw.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        if valid { Ok(Self(raw)) } else { Err(IdError::Tenant) }
    }
}

/// The digest that names an image within its tenant: `sha256:` and 64 hexadecimal digits.
///
/// ```
/// use scheduler_model::ImageDigest;
/// let text = format!("sha256:{}", "0".repeat(64));
/// assert_eq!(ImageDigest::try_from(text.clone()).unwrap().as_str(), text);
/// assert!(ImageDigest::try_from("sha256:1234".to_owned()).is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ImageDigest(String);

impl ImageDigest {
    /// The digest's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The digest of some bytes, for images that are known by a document only.
    pub fn of(bytes: &[u8]) -> Self {
        Self(format!("sha256:{}", hex(&Sha256::digest(bytes))))
    }
}

impl TryFrom<String> for ImageDigest {
    type Error = IdError;
    fn try_from(raw: String) -> Result<Self, IdError> {
        let hex = raw.strip_prefix("sha256:").ok_or(IdError::Algorithm)?;
        let valid = hex.len() == 64 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if valid { Ok(Self(raw)) } else { Err(IdError::Hex) }
    }
}

const TEXT_ID_LEN_MAX: usize = 256;

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The id's text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(raw: String) -> Result<Self, IdError> {
                let valid = (1..=TEXT_ID_LEN_MAX).contains(&raw.chars().count()) && !raw.chars().any(char::is_control);
                if valid { Ok(Self(raw)) } else { Err(IdError::Text { max: TEXT_ID_LEN_MAX }) }
            }
        }

        displayed!($name);
    };
}

macro_rules! displayed {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::try_from(text.to_owned())
            }
        }
    };
}

displayed!(TenantId);
displayed!(ImageDigest);
text_id!(
    /// A schedule.
    ScheduleId
);
text_id!(
    /// A run. For runs that nobody started by hand it derives from what made them, so that any number of
    /// planners may try and one run results.
    RunId
);
text_id!(
    /// A segment of a run: the unit of work that a worker leases. Derives from the run and the segment's place in it.
    SegmentId
);
text_id!(
    /// One accepted webhook delivery.
    EventId
);
text_id!(
    /// A closed set of exports that is planned together. Derives from the exports' ids and contents.
    BatchId
);
text_id!(
    /// The sender's name of an export.
    ExportId
);
text_id!(
    /// The name of a webhook key or client.
    WebhookKeyId
);
text_id!(
    /// A worker process, new at every start.
    WorkerId
);

/// An id from content: the same parts give the same 32 hexadecimal digits, in every process and for ever.
///
/// Parts are length-prefixed before hashing, so that no two lists of parts run together.
///
/// ```
/// use scheduler_model::ids::content_id;
/// assert_eq!(content_id("run", &["a", "b"]), content_id("run", &["a", "b"]));
/// assert_ne!(content_id("run", &["ab"]), content_id("run", &["a", "b"]));
/// ```
pub fn content_id(kind: &str, parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in std::iter::once(&kind).chain(parts) {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hex(hash.finalize().get(..16).unwrap_or_default())
}

/// SHA-256 of some bytes, in hexadecimal.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    use fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        // Writing to a String cannot fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}
