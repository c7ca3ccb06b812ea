use crate::header::{self, GivenSignature, SchedulerSignature, SignedAt, StandardDelivery, standard_signature};
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
        let head = self.examine(source, headers, now_unix_seconds)?;
        let mut attempt = Attempt { keys: head.keys, body, passes_left: BODY_PASSES_MAX, failure: head.failure };
        if let Some(verified) = attempt.scheduler(head.scheduler)? {
            return Ok(verified);
        }
        if let Some((delivery, signatures)) = head.standard
            && let Some(verified) = attempt.standard(&delivery, &signatures)?
        {
            return Ok(verified);
        }
        Err(attempt.failure)
    }

    /// Whether the head of a request lets [`Verifier::verify`] succeed with some body: a signature that can be read, by a
    /// key of the source, within the tolerance. So that nobody has to receive a body that cannot be good.
    ///
    /// # Errors
    /// The [`SignatureError`] that `verify` would give for every body.
    pub fn check_head(
        &self,
        source: Source,
        headers: &SignatureHeaders<'_>,
        now_unix_seconds: i64,
    ) -> Result<(), SignatureError> {
        let head = self.examine(source, headers, now_unix_seconds)?;
        if head.scheduler.is_empty() && head.standard.is_none() { Err(head.failure) } else { Ok(()) }
    }

    /// Reads the signatures of a request and leaves out those that fit no body.
    fn examine<'a>(
        &'a self,
        source: Source,
        headers: &SignatureHeaders<'a>,
        now_unix_seconds: i64,
    ) -> Result<Head<'a>, SignatureError> {
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
        let tolerance = Tolerance { seconds: self.tolerance_seconds, now_unix_seconds };
        let mut head = Head { keys, scheduler: vec![], standard: None, failure: SignatureError::Missing };
        for signature in scheduler {
            match signature.and_then(|signature| head.candidate(&signature, tolerance)) {
                Ok(candidate) => head.scheduler.push(candidate),
                Err(error) => head.failure = head.failure.max(error),
            }
        }
        head.scheduler.sort_by_key(|candidate| candidate.place);
        if !headers.webhook_signature.is_empty() {
            match head.delivery(headers, &standard, tolerance) {
                Ok(delivery) => head.standard = Some(delivery),
                Err(error) => head.failure = head.failure.max(error),
            }
        }
        Ok(head)
    }
}

/// How far the sender's clock may be from ours.
#[derive(Clone, Copy)]
struct Tolerance {
    seconds: u64,
    now_unix_seconds: i64,
}

impl Tolerance {
    fn check(self, signed_at: SignedAt<'_>) -> Result<(), SignatureError> {
        if signed_at.unix_seconds.abs_diff(self.now_unix_seconds) <= self.seconds {
            Ok(())
        } else if signed_at.unix_seconds < self.now_unix_seconds {
            Err(SignatureError::Stale)
        } else {
            Err(SignatureError::Future)
        }
    }
}

/// What the head of a request tells: the signatures that may fit its body.
struct Head<'a> {
    /// Those of the source, in the configured order.
    keys: Vec<&'a WebhookKey>,
    /// In the order of their keys.
    scheduler: Vec<Candidate<'a>>,
    standard: Option<(StandardDelivery<'a>, Vec<GivenSignature>)>,
    /// Of the signature that got furthest and is none of these.
    failure: SignatureError,
}

/// A signature in the scheduler's own form that may fit.
struct Candidate<'a> {
    /// That of its key.
    place: usize,
    signed_at: SignedAt<'a>,
    given: GivenSignature,
}

impl<'a> Head<'a> {
    /// A signature whose key there is, when the rest of what it says fits too.
    fn candidate(
        &self,
        signature: &SchedulerSignature<'a>,
        tolerance: Tolerance,
    ) -> Result<Candidate<'a>, SignatureError> {
        let named = self.keys.iter().enumerate().find(|(_, key)| key.id().as_str() == signature.key_id);
        let (place, key) = named.ok_or(SignatureError::UnknownKey)?;
        if signature.algorithm != Some(key.algorithm()) {
            return Err(SignatureError::WrongAlgorithm);
        }
        tolerance.check(signature.signed_at)?;
        // What is no base64 fits nothing.
        let given = match key.check() {
            Check::Hmac(_) => header::decode(signature.base64).map(GivenSignature::Hmac),
            Check::Ed25519(_) => header::decode(signature.base64).map(GivenSignature::Ed25519),
        };
        let given = given.ok_or(SignatureError::Mismatch)?;
        Ok(Candidate { place, signed_at: signature.signed_at, given })
    }

    /// The signatures in the form of Standard Webhooks, where they name no key.
    fn delivery(
        &self,
        headers: &SignatureHeaders<'a>,
        entries: &[&str],
        tolerance: Tolerance,
    ) -> Result<(StandardDelivery<'a>, Vec<GivenSignature>), SignatureError> {
        let delivery = headers.standard_delivery()?;
        tolerance.check(delivery.signed_at)?;
        let signatures: Vec<GivenSignature> = entries.iter().filter_map(|entry| standard_signature(entry)).collect();
        if signatures.is_empty() {
            return Err(SignatureError::Malformed);
        }
        let fits = |key: &&WebhookKey| signatures.iter().any(|signature| of_one_kind(key, signature));
        if self.keys.iter().any(fits) { Ok((delivery, signatures)) } else { Err(SignatureError::UnknownKey) }
    }
}

/// Whether a key makes signatures of this kind.
fn of_one_kind(key: &WebhookKey, signature: &GivenSignature) -> bool {
    match (key.check(), signature) {
        (Check::Hmac(_), GivenSignature::Hmac(_)) | (Check::Ed25519(_), GivenSignature::Ed25519(_)) => true,
        (Check::Hmac(_), GivenSignature::Ed25519(_)) | (Check::Ed25519(_), GivenSignature::Hmac(_)) => false,
    }
}

/// One request under examination.
struct Attempt<'a> {
    keys: Vec<&'a WebhookKey>,
    body: &'a [u8],
    passes_left: usize,
    /// Of the signature that got furthest.
    failure: SignatureError,
}

impl Attempt<'_> {
    fn note(&mut self, error: SignatureError) {
        self.failure = self.failure.max(error);
    }

    /// The first key that signed in the scheduler's own form.
    fn scheduler(&mut self, candidates: Vec<Candidate<'_>>) -> Result<Option<Verified>, SignatureError> {
        for Candidate { place, signed_at, given } in candidates {
            let Some(key) = self.keys.get(place).copied() else { continue };
            let parts: [&[u8]; 3] = [signed_at.text.as_bytes(), b".", self.body];
            if self.key_fits(key, &[given], &parts)? {
                return Ok(Some(verified(key, signed_at, &parts)));
            }
        }
        Ok(None)
    }

    /// The first key that signed in the form of Standard Webhooks, where signatures name no key.
    fn standard(
        &mut self,
        delivery: &StandardDelivery<'_>,
        signatures: &[GivenSignature],
    ) -> Result<Option<Verified>, SignatureError> {
        let parts: [&[u8]; 5] = [delivery.id.as_bytes(), b".", delivery.signed_at.text.as_bytes(), b".", self.body];
        for key in self.keys.clone() {
            if self.key_fits(key, signatures, &parts)? {
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
        signatures: &[GivenSignature],
        parts: &[&[u8]],
    ) -> Result<bool, SignatureError> {
        let mut expected = None;
        for signature in signatures {
            let fits = match (key.check(), signature) {
                (Check::Hmac(keyed), GivenSignature::Hmac(given)) => {
                    let expected = match expected {
                        Some(expected) => expected,
                        None => {
                            self.pass()?;
                            *expected.insert(tag(keyed, parts))
                        }
                    };
                    same_tag(&expected, given)
                }
                (Check::Ed25519(public), GivenSignature::Ed25519(given)) => {
                    self.pass()?;
                    ed25519_fits(public, parts, given)
                }
                (Check::Hmac(_), GivenSignature::Ed25519(_)) | (Check::Ed25519(_), GivenSignature::Hmac(_)) => {
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
