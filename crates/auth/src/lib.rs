//! Who may deliver webhooks: signatures over the bytes as they came, in two forms, or the subject of a client certificate.
//!
//! The crate is pure: keys come as text, headers as plain strings, the time as an argument. It knows no HTTP library, no
//! clock, no store, and never the meaning of a body.
//!
//! - SIG-1: nothing is accepted without a configured key of that very source; no key, no header, no match are errors.
//! - SIG-2: what is verified are the raw bytes; nothing is parsed or decompressed before.
//! - SIG-3: a tag is compared whole and in constant time; a shortened one never matches.
//! - SIG-4: one request costs at most [`BODY_PASSES_MAX`] passes over its body, and one more when it is accepted.
//! - SIG-5: of several good signatures the first *configured* key answers, and one in the scheduler's own form before one
//!   of Standard Webhooks, so that the order of headers, which proxies may change, does not change who the sender is.
//! - SIG-6: no secret and no signature appears in a `Debug` or `Display` text or in an error.
//! - SIG-7: a client is found by the whole subject of a certificate, never by a part of it. Whether the certificate is good
//!   was decided where the connection was made.
//!
//! ```
//! use scheduler_auth::{SignatureHeaders, SigningKey, Verifier, WebhookKey, generate_hmac_secret};
//! use scheduler_model::{Source, TenantScope, WebhookKeyId};
//!
//! let id: WebhookKeyId = "feedser-1".parse()?;
//! let secret = generate_hmac_secret([7; 32]);
//! let header = SigningKey::hmac(id.clone(), secret.expose())?.scheduler_header(b"{}", 1_764_000_000);
//!
//! let key = WebhookKey::hmac(id.clone(), Source::Feedser, secret.expose(), TenantScope::All)?;
//! let headers = SignatureHeaders { scheduler: vec![&header], ..SignatureHeaders::default() };
//! let verified = Verifier::new(vec![key], 300)?.verify(Source::Feedser, &headers, b"{}", 1_764_000_042)?;
//! assert_eq!(verified.key_id, id);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Replays
//!
//! A captured request verifies again until its time leaves the tolerance. There is no store of seen signatures here: it
//! would have to be durable and shared by all nodes, and the inbox of events already is. So [`Verified`] carries a
//! [`fingerprint`](Verified::fingerprint) of what was signed, the time included. The inbox records it with each event that
//! it takes, by source and key, and answers a known one as a duplicate, whatever was sent since; it remembers for 30 days, far
//! beyond [`TOLERANCE_SECONDS_MAX`]. A sender who repeats an old content on purpose signs it anew and has another
//! fingerprint. One who signs a body at two different seconds, or in both forms, makes two.

mod client;
mod error;
mod header;
mod key;
mod secret;
mod sign;
mod subject;
mod verify;

#[cfg(test)]
mod vectors;

pub use client::WebhookClient;
pub use error::{KeyError, SignatureError, SubjectError};
pub use header::{
    SCHEDULER_SIGNATURE_HEADER, SIGNATURES_MAX, SignatureHeaders, WEBHOOK_ID_HEADER, WEBHOOK_SIGNATURE_HEADER,
    WEBHOOK_TIMESTAMP_HEADER,
};
pub use key::{Algorithm, SECRET_LEN_MIN, WebhookKey};
pub use secret::Secret;
pub use sign::{Ed25519Pair, SigningKey, generate_ed25519_pair, generate_hmac_secret, generate_text_secret};
pub use subject::{Subject, validity};
pub use verify::{BODY_PASSES_MAX, KEYS_PER_SOURCE_MAX, TOLERANCE_SECONDS_MAX, Verified, Verifier};
