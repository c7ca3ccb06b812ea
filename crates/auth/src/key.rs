use crate::{KeyError, Secret};
use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use ed25519_dalek::ed25519::signature::MultipartVerifier;
use ed25519_dalek::pkcs8::DecodePublicKey;
use ed25519_dalek::{Signature, VerifyingKey};
use hmac::{Hmac, KeyInit, Mac};
use scheduler_model::{Source, TenantScope, WebhookKeyId};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::fmt;
use subtle::ConstantTimeEq;

/// The shortest HMAC secret, in bytes: 128 bits, below which guessing is no longer absurd.
pub const SECRET_LEN_MIN: usize = 16;

/// How a key signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// HMAC with SHA-256 over a shared secret.
    #[serde(rename = "hmac-sha256")]
    HmacSha256,
    /// Ed25519 (RFC 8032); only the public key lies with the receiver.
    Ed25519,
}

impl Algorithm {
    /// The name as in the configuration and in the signature header.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::HmacSha256 => "hmac-sha256",
            Self::Ed25519 => "ed25519",
        }
    }
}

/// A sender's key as the receiver has it. `Debug` shows no key material.
#[derive(Clone)]
pub struct WebhookKey {
    id: WebhookKeyId,
    source: Source,
    tenants: TenantScope,
    check: Check,
}

#[derive(Clone)]
pub(crate) enum Check {
    /// The keyed state, so that the secret is hashed once.
    Hmac(Hmac<Sha256>),
    Ed25519(Box<VerifyingKey>),
}

impl WebhookKey {
    /// A key from the content of its secret file or variable: the bytes of its one line, or, after `whsec_`, base64.
    /// One line end (`\n` or `\r\n`) at its end is no part of the secret.
    ///
    /// # Errors
    /// [`KeyError`] for an id that cannot stand in a header, an empty list of tenants, and for a secret that is empty,
    /// shorter than [`SECRET_LEN_MIN`], of several lines, or not base64 after `whsec_`.
    pub fn hmac(id: WebhookKeyId, source: Source, content: &[u8], tenants: TenantScope) -> Result<Self, KeyError> {
        let check = Check::Hmac(keyed(&hmac_secret(content)?));
        Ok(Self { id: key_id(id)?, source, tenants: somebody(tenants)?, check })
    }

    /// A key from the sender's public key: a `PUBLIC KEY` (SubjectPublicKeyInfo) in PEM.
    ///
    /// # Errors
    /// [`KeyError`] for an id that cannot stand in a header, an empty list of tenants, another kind of key, a private
    /// key, or a weak one.
    pub fn ed25519_pem(id: WebhookKeyId, source: Source, pem: &str, tenants: TenantScope) -> Result<Self, KeyError> {
        if pem.contains("PRIVATE KEY-----") {
            return Err(KeyError::PublicKeyIsPrivate);
        }
        let public = VerifyingKey::from_public_key_pem(pem.trim()).map_err(KeyError::PublicKey)?;
        if public.is_weak() {
            return Err(KeyError::PublicKeyWeak);
        }
        Ok(Self { id: key_id(id)?, source, tenants: somebody(tenants)?, check: Check::Ed25519(Box::new(public)) })
    }

    /// The id that signatures name.
    pub fn id(&self) -> &WebhookKeyId {
        &self.id
    }

    /// Whose key it is.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Whom it may speak for.
    pub fn tenants(&self) -> &TenantScope {
        &self.tenants
    }

    /// How it signs.
    pub fn algorithm(&self) -> Algorithm {
        match self.check {
            Check::Hmac(_) => Algorithm::HmacSha256,
            Check::Ed25519(_) => Algorithm::Ed25519,
        }
    }

    pub(crate) fn check(&self) -> &Check {
        &self.check
    }
}

impl fmt::Debug for WebhookKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookKey")
            .field("id", &self.id)
            .field("source", &self.source)
            .field("algorithm", &self.algorithm())
            .field("tenants", &self.tenants)
            .field("key", &format_args!("***"))
            .finish()
    }
}

/// The id, when it can stand in a signature header.
pub(crate) fn key_id(id: WebhookKeyId) -> Result<WebhookKeyId, KeyError> {
    let valid = id.as_str().bytes().all(|b| b.is_ascii_graphic() && b != b',');
    if valid { Ok(id) } else { Err(KeyError::Id(id)) }
}

/// The scope, unless no tenant is in it: such a key would accept events that reach nobody.
pub(crate) fn somebody(tenants: TenantScope) -> Result<TenantScope, KeyError> {
    match &tenants {
        TenantScope::Only(list) if list.is_empty() => Err(KeyError::NoTenants),
        TenantScope::Only(_) | TenantScope::All => Ok(tenants),
    }
}

/// Senders differ in whether they pad the secret that they show.
const SECRET_BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The secret in a file's content; see [`WebhookKey::hmac`].
pub(crate) fn hmac_secret(content: &[u8]) -> Result<Secret, KeyError> {
    let line = content.strip_suffix(b"\n").unwrap_or(content);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.iter().any(|b| matches!(b, b'\n' | b'\r')) {
        return Err(KeyError::SecretLines);
    }
    let secret = match line.strip_prefix(b"whsec_") {
        // The decoder's error would name a byte of the secret.
        Some(text) => SECRET_BASE64.decode(text).map_err(|_| KeyError::SecretBase64)?,
        None => line.to_vec(),
    };
    match secret.len() {
        0 => Err(KeyError::SecretEmpty),
        len if len < SECRET_LEN_MIN => Err(KeyError::SecretShort { len }),
        _ => Ok(Secret::new(secret)),
    }
}

#[expect(clippy::expect_used, reason = "HMAC takes keys of every length; the fallible signature is the trait's")]
pub(crate) fn keyed(secret: &Secret) -> Hmac<Sha256> {
    Hmac::new_from_slice(secret.expose()).expect("a key of any length")
}

/// The HMAC tag of a message that comes in parts.
pub(crate) fn tag(keyed: &Hmac<Sha256>, parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = keyed.clone();
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// Compares in a time that does not depend on where the tags differ.
pub(crate) fn same_tag(expected: &[u8; 32], given: &[u8; 32]) -> bool {
    expected.ct_eq(given).into()
}

/// Whether the signature is the key's over the message in parts.
///
/// A signature's scalar must be canonical and its point is compared byte by byte, so no second signature can be derived
/// from one; weak keys do not get in. What the "strict" check adds, refusing a small-order `R`, only the owner of the
/// private key could make use of, and it would need a copy of the whole body.
pub(crate) fn ed25519_fits(key: &VerifyingKey, parts: &[&[u8]], signature: &[u8; 64]) -> bool {
    key.multipart_verify(parts, &Signature::from_bytes(signature)).is_ok()
}
