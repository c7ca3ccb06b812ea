use crate::{Algorithm, SignatureError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The header of the scheduler's own form.
pub const SCHEDULER_SIGNATURE_HEADER: &str = "x-scheduler-signature";
/// Standard Webhooks: the header with the delivery's id.
pub const WEBHOOK_ID_HEADER: &str = "webhook-id";
/// Standard Webhooks: the header with the time of signing.
pub const WEBHOOK_TIMESTAMP_HEADER: &str = "webhook-timestamp";
/// Standard Webhooks: the header with the list of signatures.
pub const WEBHOOK_SIGNATURE_HEADER: &str = "webhook-signature";

/// The most signatures in one request, over both forms, those of unknown versions included.
pub const SIGNATURES_MAX: usize = 16;

/// The longest `webhook-id`, in bytes.
const WEBHOOK_ID_LEN_MAX: usize = 256;

/// The headers of a request that concern signatures. Values that are not text are left out by the caller.
#[derive(Debug, Clone, Default)]
pub struct SignatureHeaders<'a> {
    /// Every [`SCHEDULER_SIGNATURE_HEADER`].
    pub scheduler: Vec<&'a str>,
    /// The [`WEBHOOK_ID_HEADER`]; `None` when it is absent or occurs more than once.
    pub webhook_id: Option<&'a str>,
    /// The [`WEBHOOK_TIMESTAMP_HEADER`]; `None` when it is absent or occurs more than once.
    pub webhook_timestamp: Option<&'a str>,
    /// Every [`WEBHOOK_SIGNATURE_HEADER`].
    pub webhook_signature: Vec<&'a str>,
}

/// A signature in the scheduler's own form, as read.
pub(crate) struct SchedulerSignature<'a> {
    pub key_id: &'a str,
    pub signed_at: SignedAt<'a>,
    /// `None`: a name that is no algorithm.
    pub algorithm: Option<Algorithm>,
    pub base64: &'a str,
}

/// What the two Standard Webhooks headers beside the signatures say.
pub(crate) struct StandardDelivery<'a> {
    pub id: &'a str,
    pub signed_at: SignedAt<'a>,
}

/// A signature, decoded. Standard Webhooks call them:
pub(crate) enum GivenSignature {
    /// `v1`.
    Hmac([u8; 32]),
    /// `v1a`.
    Ed25519([u8; 64]),
}

/// A time of signing, with the very text that was signed.
#[derive(Clone, Copy)]
pub(crate) struct SignedAt<'a> {
    pub text: &'a str,
    pub unix_seconds: i64,
}

impl<'a> SignedAt<'a> {
    /// Plain decimal digits without sign, blanks or leading zeros.
    pub(crate) fn read(text: &'a str) -> Result<Self, SignatureError> {
        let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text.len() == 1 || !text.starts_with('0'));
        match text.parse() {
            Ok(unix_seconds) if plain => Ok(Self { text, unix_seconds }),
            _ => Err(SignatureError::Malformed),
        }
    }
}

/// The signatures of one `X-Scheduler-Signature` value, each good or not. There are several when a proxy joined the
/// headers with commas, as HTTP lets it; each begins with `keyId`. There is always at least one.
pub(crate) fn scheduler_signatures(value: &str) -> Vec<Result<SchedulerSignature<'_>, SignatureError>> {
    let mut all = vec![];
    let mut current = Members::default();
    for (index, part) in value.split(',').enumerate() {
        let part = part.trim_matches([' ', '\t']);
        if part.starts_with("keyId=") && index > 0 {
            all.push(std::mem::take(&mut current).finish());
        }
        current.add(part);
    }
    all.push(current.finish());
    all
}

#[derive(Default)]
struct Members<'a> {
    key_id: Option<&'a str>,
    time: Option<&'a str>,
    algorithm: Option<&'a str>,
    signature: Option<&'a str>,
    /// A member twice, or one that is none.
    broken: bool,
}

impl<'a> Members<'a> {
    fn add(&mut self, part: &'a str) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let member = match name {
            "keyId" => &mut self.key_id,
            "t" => &mut self.time,
            "alg" => &mut self.algorithm,
            "sig" => &mut self.signature,
            _ => {
                self.broken = true;
                return;
            }
        };
        self.broken |= member.replace(value).is_some();
    }

    fn finish(self) -> Result<SchedulerSignature<'a>, SignatureError> {
        let Self {
            key_id: Some(key_id),
            time: Some(time),
            algorithm: Some(name),
            signature: Some(base64),
            broken: false,
        } = self
        else {
            return Err(SignatureError::Malformed);
        };
        let algorithm = [Algorithm::HmacSha256, Algorithm::Ed25519].into_iter().find(|known| known.as_str() == name);
        Ok(SchedulerSignature { key_id, signed_at: SignedAt::read(time)?, algorithm, base64 })
    }
}

impl<'a> SignatureHeaders<'a> {
    /// The id and the time of a Standard Webhooks delivery. A full stop in the id is refused, as it would let one signed
    /// text be read as another id, time and body.
    pub(crate) fn standard_delivery(&self) -> Result<StandardDelivery<'a>, SignatureError> {
        let (Some(id), Some(time)) = (self.webhook_id, self.webhook_timestamp) else {
            return Err(SignatureError::Malformed);
        };
        let valid =
            (1..=WEBHOOK_ID_LEN_MAX).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic() && b != b'.');
        if !valid {
            return Err(SignatureError::Malformed);
        }
        Ok(StandardDelivery { id, signed_at: SignedAt::read(time)? })
    }

    /// The entries of every `webhook-signature`, not yet read.
    pub(crate) fn standard_entries(&self) -> impl Iterator<Item = &'a str> {
        self.webhook_signature.iter().flat_map(|value| value.split(' ')).filter(|entry| !entry.is_empty())
    }
}

/// Reads one entry of a `webhook-signature`; `None` for an unknown version or what is not a whole signature.
pub(crate) fn standard_signature(entry: &str) -> Option<GivenSignature> {
    match entry.split_once(',')? {
        ("v1", text) => decode(text).map(GivenSignature::Hmac),
        ("v1a", text) => decode(text).map(GivenSignature::Ed25519),
        _ => None,
    }
}

/// Decodes padded base64 of exactly `N` bytes; any other length, alphabet or left-over bit is `None`.
pub(crate) fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    // Long nonsense costs no decoding.
    if text.len() != N.div_ceil(3) * 4 {
        return None;
    }
    STANDARD.decode(text).ok()?.try_into().ok()
}
