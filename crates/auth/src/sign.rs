use crate::key::{hmac_secret, key_id, keyed, tag};
use crate::{Algorithm, KeyError, Secret};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::ed25519::signature::MultipartSigner;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{self, DecodePrivateKey, EncodePrivateKey, EncodePublicKey};
use hmac::Hmac;
use scheduler_model::WebhookKeyId;
use sha2::Sha256;
use std::fmt;

/// The sender's side of a key. `Debug` shows no key material.
pub struct SigningKey {
    id: WebhookKeyId,
    signer: Signer,
}

enum Signer {
    Hmac(Hmac<Sha256>),
    Ed25519(Box<ed25519_dalek::SigningKey>),
}

impl SigningKey {
    /// The shared secret, read as [`WebhookKey::hmac`](crate::WebhookKey::hmac) reads it.
    ///
    /// # Errors
    /// As there.
    pub fn hmac(id: WebhookKeyId, content: &[u8]) -> Result<Self, KeyError> {
        let signer = Signer::Hmac(keyed(&hmac_secret(content)?));
        Ok(Self { id: key_id(id)?, signer })
    }

    /// A private key: a `PRIVATE KEY` (PKCS#8) in PEM.
    ///
    /// # Errors
    /// [`KeyError`] for an id that cannot stand in a header, or another kind of key.
    pub fn ed25519_pem(id: WebhookKeyId, pem: &str) -> Result<Self, KeyError> {
        let private = ed25519_dalek::SigningKey::from_pkcs8_pem(pem.trim()).map_err(KeyError::PrivateKey)?;
        Ok(Self { id: key_id(id)?, signer: Signer::Ed25519(Box::new(private)) })
    }

    /// The value of [`SCHEDULER_SIGNATURE_HEADER`](crate::SCHEDULER_SIGNATURE_HEADER) for the body as it goes out,
    /// compressed or not.
    pub fn scheduler_header(&self, body: &[u8], now_unix_seconds: u64) -> String {
        let time = now_unix_seconds.to_string();
        let parts: [&[u8]; 3] = [time.as_bytes(), b".", body];
        let (algorithm, signature) = match &self.signer {
            Signer::Hmac(keyed) => (Algorithm::HmacSha256, STANDARD.encode(tag(keyed, &parts))),
            Signer::Ed25519(key) => (Algorithm::Ed25519, STANDARD.encode(key.multipart_sign(&parts).to_bytes())),
        };
        format!("keyId={},t={time},alg={},sig={signature}", self.id, algorithm.as_str())
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("id", &self.id).field("key", &format_args!("***")).finish()
    }
}

/// A new Ed25519 key in its two halves, each the text of a file.
#[derive(Debug, Clone)]
pub struct Ed25519Pair {
    /// For the receiver: `PUBLIC KEY` (SubjectPublicKeyInfo) in PEM.
    pub public_pem: String,
    /// For the sender: `PRIVATE KEY` (PKCS#8) in PEM.
    pub private_pem: Secret,
}

/// A new HMAC secret that is a text of letters and digits: its bytes are the key, so that a shell's `openssl` signs with it. The
/// caller gives the randomness.
pub fn generate_text_secret(randomness: [u8; 32]) -> Secret {
    use std::fmt::Write;
    let text = randomness.iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    });
    Secret::new(format!("{text}\n"))
}

/// A new HMAC secret as one line, `whsec_` and base64, from 32 bytes of randomness.
pub fn generate_hmac_secret(randomness: [u8; 32]) -> Secret {
    Secret::new(format!("whsec_{}\n", STANDARD.encode(randomness)))
}

/// A new Ed25519 pair from 32 bytes of randomness.
#[expect(clippy::expect_used, reason = "the encodings have a fixed size and no input but 32 bytes")]
pub fn generate_ed25519_pair(randomness: [u8; 32]) -> Ed25519Pair {
    let private = ed25519_dalek::SigningKey::from_bytes(&randomness);
    // Without the public key in it: the second version of the format, with it, is not read by every OpenSSL.
    let pkcs8 = pkcs8::KeypairBytes { secret_key: private.to_bytes(), public_key: None };
    let private_pem = pkcs8.to_pkcs8_pem(LineEnding::LF).expect("a private key in pem");
    let public_pem = private.verifying_key().to_public_key_pem(LineEnding::LF).expect("a public key in pem");
    Ed25519Pair { public_pem, private_pem: Secret::new(private_pem.as_bytes()) }
}
