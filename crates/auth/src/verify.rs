use crate::header::{self, SchedulerSignature, SignedAt, StandardDelivery, StandardSignature, standard_signature};
use crate::key::{Check, ed25519_fits, same_tag, tag};
use crate::{KeyError, SIGNATURES_MAX, SignatureError, SignatureHeaders, Subject, WebhookClient, WebhookKey};
use scheduler_model::{Source, TenantScope, WebhookKeyId};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

/// The most keys of one source. A signature that names no key is tried with each.
pub const KEYS_PER_SOURCE_MAX: usize = 32;

/// The most times that the signatures of one request, good or forged, may have its body hashed: enough to try two that
/// name no key, an old and a new one, with every key of a source.
pub const BODY_PASSES_MAX: usize = 2 * KEYS_PER_SOURCE_MAX;

/// The longest tolerance, in seconds.
pub const TOLERANCE_SECONDS_MAX: u64 = 3600;

/// Checks deliveries against the configured keys.
#[derive(Debug, Clone)]
pub struct Verifier {
    /// In the configured order.
    keys: Vec<WebhookKey>,
    clients: Vec<WebhookClient>,
    tolerance_seconds: u64,
}

/// Who signed a delivery, and what exactly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The key that signed it.
    pub key_id: WebhookKeyId,
    /// Whom the key may speak for.
    pub tenants: TenantScope,
    /// When it was signed, by the sender's clock.
    pub signed_at_unix_seconds: i64,
    /// SHA-256 of what was signed: the time, the delivery's id where the form has one, and the body. Equal for a replay
    /// (also with another of its signatures), different for the same body signed at another second.
    pub fingerprint: [u8; 32],
}

impl Verifier {
    /// With the keys of all sources, in the configured order.
    ///
    /// # Errors
    /// [`KeyError`] for two keys of one id, more than [`KEYS_PER_SOURCE_MAX`] of a source, or a tolerance over
    /// [`TOLERANCE_SECONDS_MAX`].
    pub fn new(keys: Vec<WebhookKey>, tolerance_seconds: u64) -> Result<Self, KeyError> {
        if tolerance_seconds > TOLERANCE_SECONDS_MAX {
            return Err(KeyError::Tolerance(tolerance_seconds));
        }
        let mut ids = BTreeSet::new();
        if let Some(twice) = keys.iter().find(|key| !ids.insert(key.id())) {
            return Err(KeyError::IdTaken(twice.id().clone()));
        }
        for source in Source::ALL {
            if keys.iter().filter(|key| key.source() == source).count() > KEYS_PER_SOURCE_MAX {
                return Err(KeyError::TooManyKeys(source));
            }
        }
        Ok(Self { keys, clients: vec![], tolerance_seconds })
    }

    /// The same, and clients that are known by their certificates.
    ///
    /// # Errors
    /// [`KeyError`] for two clients of one source and subject, more than [`KEYS_PER_SOURCE_MAX`] of a source, or a client
    /// whose subject is the id of a key, since exports are known by either.
    pub fn with_clients(self, clients: Vec<WebhookClient>) -> Result<Self, KeyError> {
        let mut known = BTreeSet::new();
        for client in &clients {
            if self.keys.iter().any(|key| key.id() == client.id()) {
                return Err(KeyError::IdTaken(client.id().clone()));
            }
            if !known.insert((client.source(), client.id())) {
                return Err(KeyError::SubjectTaken(client.source(), client.id().clone()));
            }
        }
        for source in Source::ALL {
            if clients.iter().filter(|client| client.source() == source).count() > KEYS_PER_SOURCE_MAX {
                return Err(KeyError::TooManyKeys(source));
            }
        }
        Ok(Self { clients, ..self })
    }

    /// The client of the source whose certificate has this subject. The caller has verified the certificate.
    pub fn client(&self, source: Source, subject: &Subject) -> Option<&WebhookClient> {
        self.clients.iter().find(|client| client.source() == source && client.subject() == subject)
    }

    /// Whether a key of the source signed these bytes, within the tolerance around `now_unix_seconds` (both ends
    /// included). `body` is as it came over the wire, before decompression. One good signature of either form is enough,
    /// whatever stands beside it. Takes time in proportion to the body; a caller on an async runtime may want to move
    /// large ones off it.
    ///
    /// # Errors
    /// [`SignatureError`]; of several signatures that fail, the error of the one that got furthest.
    pub fn verify(
        &self,
        source: Source,
        headers: &SignatureHeaders<'_>,
        body: &[u8],
        now_unix_seconds: i64,
    ) -> Result<Verified, SignatureError> {
        let keys: Vec<&WebhookKey> = self.keys.iter().filter(|key| key.source() == source).collect();
        if keys.is_empty() {
            return Err(SignatureError::NoKeys);
        }
        let scheduler: Vec<_> = headers
            .scheduler
            .iter()
            .flat_map(|value| header::scheduler_signatures(value))
            .take(SIGNATURES_MAX + 1)
            .collect();
        let standard: Vec<&str> = headers.standard_entries().take(SIGNATURES_MAX + 1).collect();
        if scheduler.len() + standard.len() > SIGNATURES_MAX {
            return Err(SignatureError::TooMany);
        }

        let mut attempt = Attempt {
            tolerance_seconds: self.tolerance_seconds,
            keys,
            body,
            now_unix_seconds,
            passes_left: BODY_PASSES_MAX,
            failure: SignatureError::Missing,
        };
        if let Some(verified) = attempt.scheduler(scheduler)? {
            return Ok(verified);
        }
        if !headers.webhook_signature.is_empty() {
            match headers.standard_delivery() {
                Ok(delivery) => {
                    if let Some(verified) = attempt.standard(&delivery, &standard)? {
                        return Ok(verified);
                    }
                }
                Err(error) => attempt.note(error),
            }
        }
        Err(attempt.failure)
    }
}

/// One request under examination.
struct Attempt<'a> {
    tolerance_seconds: u64,
    /// Those of the source, in the configured order.
    keys: Vec<&'a WebhookKey>,
    body: &'a [u8],
    now_unix_seconds: i64,
    passes_left: usize,
    /// Of the signature that got furthest.
    failure: SignatureError,
}

impl<'a> Attempt<'a> {
    fn note(&mut self, error: SignatureError) {
        self.failure = self.failure.max(error);
    }

    /// The first key that signed in the scheduler's own form.
    fn scheduler(
        &mut self,
        signatures: Vec<Result<SchedulerSignature<'_>, SignatureError>>,
    ) -> Result<Option<Verified>, SignatureError> {
        let mut candidates = vec![];
        for signature in signatures {
            match signature.and_then(|signature| Ok((self.candidate(&signature)?, signature))) {
                Ok(candidate) => candidates.push(candidate),
                Err(error) => self.note(error),
            }
        }
        candidates.sort_by_key(|(place, _)| *place);
        for (place, signature) in candidates {
            let Some(key) = self.keys.get(place).copied() else { continue };
            let parts: [&[u8]; 3] = [signature.signed_at.text.as_bytes(), b".", self.body];
            let fits = match key.check() {
                Check::Hmac(keyed) => match header::decode(signature.base64) {
                    Some(given) => {
                        self.pass()?;
                        same_tag(&tag(keyed, &parts), &given)
                    }
                    None => false,
                },
                Check::Ed25519(public) => match header::decode(signature.base64) {
                    Some(given) => {
                        self.pass()?;
                        ed25519_fits(public, &parts, &given)
                    }
                    None => false,
                },
            };
            if fits {
                return Ok(Some(verified(key, signature.signed_at, &parts)));
            }
            self.note(SignatureError::Mismatch);
        }
        Ok(None)
    }

    /// The place of the key that the signature names, when the rest of what it says fits too.
    fn candidate(&self, signature: &SchedulerSignature<'_>) -> Result<usize, SignatureError> {
        let named = self.keys.iter().enumerate().find(|(_, key)| key.id().as_str() == signature.key_id);
        let (place, key) = named.ok_or(SignatureError::UnknownKey)?;
        if signature.algorithm != Some(key.algorithm()) {
            return Err(SignatureError::WrongAlgorithm);
        }
        self.fresh(signature.signed_at)?;
        Ok(place)
    }

    /// The first key that signed in the form of Standard Webhooks, where signatures name no key.
    fn standard(
        &mut self,
        delivery: &StandardDelivery<'_>,
        entries: &[&str],
    ) -> Result<Option<Verified>, SignatureError> {
        if let Err(error) = self.fresh(delivery.signed_at) {
            self.note(error);
            return Ok(None);
        }
        let signatures: Vec<StandardSignature> = entries.iter().filter_map(|entry| standard_signature(entry)).collect();
        if signatures.is_empty() {
            self.note(SignatureError::Malformed);
            return Ok(None);
        }
        let parts: [&[u8]; 5] = [delivery.id.as_bytes(), b".", delivery.signed_at.text.as_bytes(), b".", self.body];
        for key in self.keys.clone() {
            if self.key_fits(key, &signatures, &parts)? {
                return Ok(Some(verified(key, delivery.signed_at, &parts)));
            }
        }
        self.note(SignatureError::UnknownKey);
        Ok(None)
    }

    /// Whether one of the signatures is the key's. The tag of an HMAC key is computed once for all of them.
    fn key_fits(
        &mut self,
        key: &WebhookKey,
        signatures: &[StandardSignature],
        parts: &[&[u8]],
    ) -> Result<bool, SignatureError> {
        let mut expected = None;
        for signature in signatures {
            let fits = match (key.check(), signature) {
                (Check::Hmac(keyed), StandardSignature::Hmac(given)) => {
                    let expected = match expected {
                        Some(expected) => expected,
                        None => {
                            self.pass()?;
                            *expected.insert(tag(keyed, parts))
                        }
                    };
                    same_tag(&expected, given)
                }
                (Check::Ed25519(public), StandardSignature::Ed25519(given)) => {
                    self.pass()?;
                    ed25519_fits(public, parts, given)
                }
                (Check::Hmac(_), StandardSignature::Ed25519(_)) | (Check::Ed25519(_), StandardSignature::Hmac(_)) => {
                    continue;
                }
            };
            if fits {
                return Ok(true);
            }
            self.note(SignatureError::Mismatch);
        }
        Ok(false)
    }

    fn fresh(&self, signed_at: SignedAt<'_>) -> Result<(), SignatureError> {
        if signed_at.unix_seconds.abs_diff(self.now_unix_seconds) <= self.tolerance_seconds {
            Ok(())
        } else if signed_at.unix_seconds < self.now_unix_seconds {
            Err(SignatureError::Stale)
        } else {
            Err(SignatureError::Future)
        }
    }

    /// Takes one of the passes over the body that the request may cost.
    fn pass(&mut self) -> Result<(), SignatureError> {
        self.passes_left = self.passes_left.checked_sub(1).ok_or(SignatureError::TooMany)?;
        Ok(())
    }
}

fn verified(key: &WebhookKey, signed_at: SignedAt<'_>, parts: &[&[u8]]) -> Verified {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part);
    }
    Verified {
        key_id: key.id().clone(),
        tenants: key.tenants().clone(),
        signed_at_unix_seconds: signed_at.unix_seconds,
        fingerprint: digest.finalize().into(),
    }
}
