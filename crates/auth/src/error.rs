use crate::{KEYS_PER_SOURCE_MAX, SECRET_LEN_MIN, SIGNATURES_MAX, TOLERANCE_SECONDS_MAX};
use ed25519_dalek::pkcs8;
use scheduler_model::{IdError, Source, WebhookKeyId};

/// Why a delivery is not accepted; each is a 401. The texts name neither keys nor signatures, as they may be logged.
///
/// The order is how far the best signature of the request got, which is what helps the sender most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum SignatureError {
    /// Nobody may deliver for this source.
    #[error("no webhook key is configured for this source")]
    NoKeys,
    /// The request has no signature header.
    #[error("the request has no signature header")]
    Missing,
    /// No signature of the request can be read.
    #[error("the signature headers are malformed")]
    Malformed,
    /// No key of this source has the named id or can verify such a signature.
    #[error("the signature is by no webhook key of this source")]
    UnknownKey,
    /// The named key signs with another algorithm.
    #[error("the signature names another algorithm than its key has")]
    WrongAlgorithm,
    /// Signed too long ago.
    #[error("the signature's time is too old")]
    Stale,
    /// Signed too far ahead.
    #[error("the signature's time is too far ahead")]
    Future,
    /// The signature does not fit the bytes.
    #[error("the signature does not match the request")]
    Mismatch,
    /// More signatures than one request may ask to be checked.
    #[error("the request has more signatures than are checked, at most {SIGNATURES_MAX}")]
    TooMany,
}

/// Why a text or a certificate gives no subject.
#[derive(Debug, thiserror::Error)]
pub enum SubjectError {
    /// No text at all.
    #[error("the subject is empty")]
    Empty,
    /// A part without `=`.
    #[error("`{0}` in the subject has no `=`")]
    NoValue(String),
    /// An attribute type that is neither known by name nor dotted numbers.
    #[error("`{0}` is no attribute type of a subject; write it as dotted numbers, such as 2.5.4.97")]
    UnknownType(String),
    /// A character that has to be escaped in a value.
    #[error("`{}` in the subject needs a backslash before it", .0.escape_default())]
    Unescaped(char),
    /// A backslash before neither a special character nor two hexadecimal digits.
    #[error("a backslash in the subject stands before neither a special character nor two hexadecimal digits")]
    Escape,
    /// Bytes that are no value.
    #[error("bytes in the subject make no value")]
    Hex,
    /// No X.509 certificate.
    #[error("the certificate cannot be read")]
    Certificate(#[source] x509_cert::der::Error),
}

/// Why a webhook key, or a set of them, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// An id that could not stand in a signature header.
    #[error("the webhook key id `{0}` has a blank, a comma or a character beyond ascii")]
    Id(WebhookKeyId),
    /// Nothing but a line end.
    #[error("the webhook secret is empty")]
    SecretEmpty,
    /// A secret that could be guessed.
    #[error("the webhook secret has {len} bytes, at least {SECRET_LEN_MIN} are needed")]
    SecretShort {
        /// Its length in bytes, after decoding.
        len: usize,
    },
    /// A file that holds more than the secret.
    #[error("the webhook secret has more than one line")]
    SecretLines,
    /// What follows `whsec_` is not base64.
    #[error("the webhook secret after `whsec_` is not base64")]
    SecretBase64,
    /// Not a public Ed25519 key.
    #[error("the webhook public key is not an ed25519 key in pem")]
    PublicKey(#[source] pkcs8::spki::Error),
    /// The sender's secret half, which must not lie here.
    #[error("the webhook public key file holds a private key")]
    PublicKeyIsPrivate,
    /// A key of small order, for which signatures can be made without its private half.
    #[error("the webhook public key is weak: anybody could sign for it")]
    PublicKeyWeak,
    /// Not a private Ed25519 key.
    #[error("the webhook private key is not an ed25519 key in pkcs#8 pem")]
    PrivateKey(#[source] pkcs8::Error),
    /// A client's subject that cannot be read.
    #[error(transparent)]
    Subject(SubjectError),
    /// A client's subject that is too long to be an id.
    #[error("the subject cannot serve as an id")]
    SubjectId(#[source] IdError),
    /// Two clients that the same certificate stands for.
    #[error("two webhook clients of {source} have the subject `{id}`", source = .0.as_str(), id = .1)]
    SubjectTaken(Source, WebhookKeyId),
    /// A key that speaks for nobody.
    #[error("the webhook key's list of tenants is empty, `*` stands for all")]
    NoTenants,
    /// Two keys with one id, of which a signature could mean either.
    #[error("two webhook keys have the id `{0}`")]
    IdTaken(WebhookKeyId),
    /// More keys than a request can be checked against.
    #[error("more than {KEYS_PER_SOURCE_MAX} webhook keys for {}", .0.as_str())]
    TooManyKeys(Source),
    /// A tolerance that would leave captured requests valid for long.
    #[error("the webhook tolerance is {0} seconds, at most {TOLERANCE_SECONDS_MAX} are allowed")]
    Tolerance(u64),
}
