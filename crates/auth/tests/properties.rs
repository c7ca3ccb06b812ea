//! Signing and verifying for any input.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use proptest::collection::vec;
use proptest::prelude::*;
use scheduler_auth::{SignatureHeaders, SigningKey, Verifier, WebhookKey, generate_ed25519_pair, generate_hmac_secret};
use scheduler_model::Source::Feedser;
use scheduler_model::{TenantScope, WebhookKeyId};

const NOW: u32 = 1_764_000_000;

fn id(name: &str) -> WebhookKeyId {
    name.parse().unwrap()
}

/// A verifier for both kinds of key, `h` and `e`, and their signers.
fn keys() -> (Verifier, [SigningKey; 2]) {
    let secret = generate_hmac_secret([3; 32]);
    let pair = generate_ed25519_pair([4; 32]);
    let keys = vec![
        WebhookKey::hmac(id("h"), Feedser, secret.expose(), TenantScope::All).unwrap(),
        WebhookKey::ed25519_pem(id("e"), Feedser, &pair.public_pem, TenantScope::All).unwrap(),
    ];
    let private = std::str::from_utf8(pair.private_pem.expose()).unwrap();
    let signers =
        [SigningKey::hmac(id("h"), secret.expose()).unwrap(), SigningKey::ed25519_pem(id("e"), private).unwrap()];
    (Verifier::new(keys, 300).unwrap(), signers)
}

/// The bytes with one bit turned.
fn turned(bytes: &[u8], bit: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let bit = bit % (bytes.len() * 8);
    if let Some(byte) = bytes.get_mut(bit / 8) {
        *byte ^= 1 << (bit % 8);
    }
    bytes
}

fn accepts(verifier: &Verifier, headers: &SignatureHeaders<'_>, body: &[u8]) -> bool {
    verifier.verify(Feedser, headers, body, i64::from(NOW)).is_ok()
}

fn own(value: &str) -> SignatureHeaders<'_> {
    SignatureHeaders { scheduler: vec![value], ..SignatureHeaders::default() }
}

fn standard<'a>(id: &'a str, time: &'a str, signature: &'a str) -> SignatureHeaders<'a> {
    SignatureHeaders {
        webhook_id: Some(id),
        webhook_timestamp: Some(time),
        webhook_signature: vec![signature],
        ..SignatureHeaders::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_was_signed_is_accepted_and_a_turned_bit_is_not(
        body in vec(any::<u8>(), 1..300), offset in -300i32..=300, bit in any::<usize>(), which in 0usize..2,
    ) {
        let (verifier, signers) = keys();
        let header = signers[which].scheduler_header(&body, u64::from(NOW.saturating_add_signed(offset)));
        prop_assert!(accepts(&verifier, &own(&header), &body));
        prop_assert!(!accepts(&verifier, &own(&header), &turned(&body, bit)));
        if let Ok(other) = String::from_utf8(turned(header.as_bytes(), bit)) {
            prop_assert!(!accepts(&verifier, &own(&other), &body), "{other}");
        }
    }

    /// The id is a number, so that the scheduler's form signs the same bytes.
    #[test]
    fn a_standard_delivery_is_accepted_and_a_turned_bit_is_not(
        body in vec(any::<u8>(), 1..300), message in any::<u64>(), bit in any::<usize>(), which in 0usize..2,
    ) {
        let (verifier, signers) = keys();
        let (message_id, time) = (message.to_string(), NOW.to_string());
        let header = signers[which].scheduler_header(&[time.as_bytes(), b".", &body].concat(), message);
        let entry = format!("{},{}", ["v1", "v1a"][which], header.rsplit_once("sig=").unwrap().1);
        prop_assert!(accepts(&verifier, &standard(&message_id, &time, &entry), &body));
        prop_assert!(!accepts(&verifier, &standard(&message_id, &time, &entry), &turned(&body, bit)));
        for (at, part) in [&message_id, &time, &entry].into_iter().enumerate() {
            let Ok(other) = String::from_utf8(turned(part.as_bytes(), bit)) else { continue };
            let mut parts = [&message_id, &time, &entry];
            parts[at] = &other;
            prop_assert!(!accepts(&verifier, &standard(parts[0], parts[1], parts[2]), &body), "{other}");
        }
    }

    #[test]
    fn no_headers_make_it_panic_or_accept(
        own in vec(any::<String>(), 0..4), id in any::<Option<String>>(), time in any::<Option<String>>(),
        list in vec(any::<String>(), 0..4), now in any::<i64>(),
    ) {
        let headers = SignatureHeaders {
            scheduler: own.iter().map(String::as_str).collect(),
            webhook_id: id.as_deref(),
            webhook_timestamp: time.as_deref(),
            webhook_signature: list.iter().map(String::as_str).collect(),
        };
        let verdict = keys().0.verify(Feedser, &headers, b"[]", now);
        prop_assert!(verdict.is_err(), "accepted");
    }

    #[test]
    fn nearly_right_headers_do_not_panic_or_pass(
        own in "(keyId=[heg]?,? ?)?(t=-?[0-9]{0,21},)?(alg=(hmac-sha256|ed25519|x)?,)?(sig=[A-Za-z0-9+/=]{0,90})?(,keyId=h)?",
        list in "(v[0-9]a?,[A-Za-z0-9+/=]{0,90} {0,2}){0,4}", id in "[a-z.]{0,4}", now in any::<i64>(),
    ) {
        let time = now.to_string();
        let headers = SignatureHeaders { scheduler: vec![&own], ..standard(&id, &time, &list) };
        let verdict = keys().0.verify(Feedser, &headers, b"[]", now);
        prop_assert!(verdict.is_err(), "accepted");
    }
}
