//! What a sender may rely on, and what nobody gets through with. The constants were made with Python's `hmac` and the
//! `openssl` command, not with this crate (HOOK-02).
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use scheduler_auth::{
    BODY_PASSES_MAX, KEYS_PER_SOURCE_MAX, KeyError, SIGNATURES_MAX, SignatureError, SignatureHeaders, SigningKey,
    TOLERANCE_SECONDS_MAX, Verified, Verifier, WebhookKey, generate_ed25519_pair,
};
use scheduler_model::Source::{Feedser, Vexer};
use scheduler_model::{Source, TenantScope, WebhookKeyId};

const NOW: i64 = 1_764_000_000;
/// Spacing, a float and an escape that no JSON writer would repeat.
const BODY: &[u8] = br#"{"b":1.0,  "a":"\u00e9","exportId":"x-1"}"#;
const BINARY: &[u8] = &[0xff, 0xfe, 0x00, 0x78, 0x0d, 0x0a];

const TEXT_SECRET: &str = "correct horse battery staple 42";
const TEXT_SIGNED: &str =
    "keyId=feedser-1,t=1764000000,alg=hmac-sha256,sig=nFPYP8brxy5sCPSYJLzvnNoflDEldaC4M/0ndHcLNL0=";
const WHSEC: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=";
const WHSEC_SIGNED: &str =
    "keyId=feedser-2,t=1764000000,alg=hmac-sha256,sig=XtGyFN8JzVTzQHZ3mlTcTVKMA98RjQzeOEbfmEdP27c=";
const WHSEC_SIGNED_BINARY: &str =
    "keyId=feedser-2,t=1764000000,alg=hmac-sha256,sig=AqfFwaGrUCOV7JYEmOIETzBCImeWCMyGnyROHNuCVk8=";
const PRIVATE_PEM: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIEPEc/yXDIF+zOZGphcjMoUx4S3CoOYQlzyxdn0pW8SL
-----END PRIVATE KEY-----
";
const PUBLIC_PEM: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEA9+YxYpPkLH01ww8ornV7ctSZ45dS/RVqjJ/Dsouepv8=
-----END PUBLIC KEY-----
";
const ED25519_SIGNED: &str = "keyId=feedser-3,t=1764000000,alg=ed25519,sig=FSyzBOdjtBg2jU1vGY2ek+Sm5u5LgHYcIC0EBUdP4gBlvszlseBQ8c8J5JQZPwcR6IZE167wWzisEEpxswdlBw==";

fn id(name: &str) -> WebhookKeyId {
    name.parse().unwrap()
}

fn hmac(name: &str, source: Source, secret: &str) -> WebhookKey {
    WebhookKey::hmac(id(name), source, secret.as_bytes(), TenantScope::All).unwrap()
}

fn pair(name: &str, source: Source, seed: u8) -> (WebhookKey, SigningKey) {
    let pair = generate_ed25519_pair([seed; 32]);
    let private = std::str::from_utf8(pair.private_pem.expose()).unwrap();
    let key = WebhookKey::ed25519_pem(id(name), source, &pair.public_pem, TenantScope::All).unwrap();
    (key, SigningKey::ed25519_pem(id(name), private).unwrap())
}

/// The three keys of the constants above, and one of the other source.
fn verifier() -> Verifier {
    let public = WebhookKey::ed25519_pem(id("feedser-3"), Feedser, PUBLIC_PEM, TenantScope::All).unwrap();
    let keys = vec![
        hmac("feedser-1", Feedser, TEXT_SECRET),
        hmac("feedser-2", Feedser, WHSEC),
        public,
        hmac("vexer-1", Vexer, "a secret of the other source"),
    ];
    Verifier::new(keys, 300).unwrap()
}

fn own<'a>(values: &[&'a str]) -> SignatureHeaders<'a> {
    SignatureHeaders { scheduler: values.to_vec(), ..SignatureHeaders::default() }
}

fn standard<'a>(id: &'a str, time: &'a str, signatures: &[&'a str]) -> SignatureHeaders<'a> {
    SignatureHeaders {
        webhook_id: Some(id),
        webhook_timestamp: Some(time),
        webhook_signature: signatures.to_vec(),
        ..SignatureHeaders::default()
    }
}

/// One `v1` or `v1a` entry. The message is put into the scheduler's form, `<t>.<body>`, which is the same bytes when
/// what stands before the first full stop is a number.
fn entry(key: &SigningKey, id: u64, time: i64, body: &[u8]) -> String {
    let rest = [time.to_string().as_bytes(), b".", body].concat();
    let header = key.scheduler_header(&rest, id);
    let version = if header.contains("alg=ed25519") { "v1a" } else { "v1" };
    format!("{version},{}", header.rsplit_once("sig=").unwrap().1)
}

/// What the head alone tells is what the whole request tells, whatever the body.
fn feedser(headers: &SignatureHeaders<'_>, body: &[u8]) -> Result<Verified, SignatureError> {
    let verified = verifier().verify(Feedser, headers, body, NOW);
    if let Err(error) = verifier().check_head(Feedser, headers, NOW) {
        assert_eq!(verified, Err(error));
        assert_eq!(verifier().verify(Feedser, headers, b"another body", NOW), Err(error));
    }
    verified
}

#[test]
fn hook_01_the_raw_bytes_are_what_is_verified() {
    assert!(feedser(&own(&[TEXT_SIGNED]), BODY).is_ok());
    assert!(feedser(&own(&[WHSEC_SIGNED_BINARY]), BINARY).is_ok());
    let rewritten = "{\"b\":1.0,\"a\":\"\u{e9}\",\"exportId\":\"x-1\"}".as_bytes();
    assert_eq!(feedser(&own(&[TEXT_SIGNED]), rewritten), Err(SignatureError::Mismatch));
}

#[test]
fn hook_02_signatures_of_other_tools_hold_and_ours_are_the_same() {
    for signed in [TEXT_SIGNED, WHSEC_SIGNED, ED25519_SIGNED] {
        assert!(feedser(&own(&[signed]), BODY).is_ok(), "{signed}");
    }
    let time = u64::try_from(NOW).unwrap();
    for (key, signed) in [
        (SigningKey::hmac(id("feedser-1"), TEXT_SECRET.as_bytes()), TEXT_SIGNED),
        (SigningKey::hmac(id("feedser-2"), WHSEC.as_bytes()), WHSEC_SIGNED),
        (SigningKey::ed25519_pem(id("feedser-3"), PRIVATE_PEM), ED25519_SIGNED),
    ] {
        assert_eq!(key.unwrap().scheduler_header(BODY, time), signed);
    }
}

#[test]
fn hook_03_a_number_written_otherwise_is_another_body() {
    for other in [&br#"{"b":1,  "a":"\u00e9","exportId":"x-1"}"#[..], br#"{"b": 1.0,  "a":"\u00e9","exportId":"x-1"}"#]
    {
        assert_eq!(feedser(&own(&[TEXT_SIGNED]), other), Err(SignatureError::Mismatch));
    }
}

#[test]
fn hook_04_the_tolerance_includes_both_ends_and_has_a_ceiling() {
    let check = |offset: i64, tolerance: u64| {
        let verifier = Verifier::new(vec![hmac("feedser-1", Feedser, TEXT_SECRET)], tolerance).unwrap();
        verifier
            .verify(Feedser, &own(&[TEXT_SIGNED]), BODY, NOW - offset)
            .map(|verified| verified.signed_at_unix_seconds)
    };
    for (offset, tolerance, expected) in [
        (0, 0, Ok(NOW)),
        (-1, 0, Err(SignatureError::Stale)),
        (1, 0, Err(SignatureError::Future)),
        (-300, 300, Ok(NOW)),
        (-301, 300, Err(SignatureError::Stale)),
        (300, 300, Ok(NOW)),
        (301, 300, Err(SignatureError::Future)),
        (-3600, TOLERANCE_SECONDS_MAX, Ok(NOW)),
        (NOW - i64::MAX, TOLERANCE_SECONDS_MAX, Err(SignatureError::Stale)),
        (i64::MAX, TOLERANCE_SECONDS_MAX, Err(SignatureError::Future)),
    ] {
        assert_eq!(check(offset, tolerance), expected, "signed {offset} s from now, tolerance {tolerance}");
    }
    assert!(matches!(Verifier::new(vec![], TOLERANCE_SECONDS_MAX + 1), Err(KeyError::Tolerance(3601))));
}

#[test]
fn hook_07_one_good_signature_of_several_is_enough() {
    let key = SigningKey::hmac(id("any"), WHSEC.as_bytes()).unwrap();
    let good = entry(&key, 7, NOW, BODY);
    let wrong = "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let time = NOW.to_string();
    for (list, expected) in [
        (vec![format!("{wrong} {good} v9,ignored")], Ok(())),
        (vec![format!("v9,ignored  v1,zz v1a,AAAA garbage {good}")], Ok(())),
        (vec![wrong.to_owned(), good.clone()], Ok(())),
        (vec![wrong.to_owned()], Err(SignatureError::Mismatch)),
        (vec![good.replace("v1,", "v2,")], Err(SignatureError::Malformed)),
        (vec![String::new()], Err(SignatureError::Malformed)),
        (vec![], Err(SignatureError::Missing)),
    ] {
        let values: Vec<&str> = list.iter().map(String::as_str).collect();
        assert_eq!(feedser(&standard("7", &time, &values), BODY).map(|_| ()), expected, "{list:?}");
    }

    let stranger = "keyId=nobody,t=1764000000,alg=hmac-sha256,sig=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    for list in [
        vec![stranger, TEXT_SIGNED],
        vec![TEXT_SIGNED, stranger],
        vec!["garbage", "", "keyId=,t=,alg=,sig=", TEXT_SIGNED],
        vec![&format!("{stranger}, {TEXT_SIGNED}")],
        vec![&format!("garbage,{TEXT_SIGNED},{stranger}")],
    ] {
        assert_eq!(feedser(&own(&list), BODY).map(|verified| verified.key_id), Ok(id("feedser-1")), "{list:?}");
    }
}

#[test]
fn hook_08_no_signature_is_refused_with_and_without_keys() {
    let none = Verifier::new(vec![], 300).unwrap();
    let others = Verifier::new(vec![hmac("v", Vexer, TEXT_SECRET)], 300).unwrap();
    let incomplete = SignatureHeaders { webhook_id: Some("msg_1"), ..SignatureHeaders::default() };
    for headers in [SignatureHeaders::default(), incomplete] {
        assert_eq!(feedser(&headers, BODY), Err(SignatureError::Missing));
        assert_eq!(none.verify(Feedser, &headers, BODY, NOW), Err(SignatureError::NoKeys));
        assert_eq!(others.verify(Feedser, &headers, BODY, NOW), Err(SignatureError::NoKeys));
    }
    assert_eq!(none.verify(Feedser, &own(&[TEXT_SIGNED]), BODY, NOW), Err(SignatureError::NoKeys));
}

#[test]
fn a_scheduler_signature_that_is_not_exactly_right_is_refused() {
    use SignatureError::{Malformed, Mismatch, UnknownKey, WrongAlgorithm};
    let swap = |from: &str, to: &str| TEXT_SIGNED.replace(from, to);
    for (value, expected) in [
        (swap("feedser-1", "feedser-9"), UnknownKey),
        (swap("feedser-1", "vexer-1"), UnknownKey),
        (swap("feedser-1", "Feedser-1"), UnknownKey),
        (swap("feedser-1", "feedser-2"), Mismatch),
        (swap("hmac-sha256", "ed25519"), WrongAlgorithm),
        (swap("hmac-sha256", "none"), WrongAlgorithm),
        (swap("hmac-sha256", ""), WrongAlgorithm),
        (swap("feedser-1", "feedser-3"), WrongAlgorithm),
        (swap("t=1764000000", "t=1764000001"), Mismatch),
        (swap("t=1764000000", "t=+1764000000"), Malformed),
        (swap("t=1764000000", "t=-1764000000"), Malformed),
        (swap("t=1764000000", "t= 1764000000"), Malformed),
        (swap("t=1764000000", "t=01764000000"), Malformed),
        (swap("t=1764000000", "t=1764000000.0"), Malformed),
        (swap("t=1764000000", "t=１７６４００００００"), Malformed),
        (swap("t=1764000000", "t=99999999999999999999"), Malformed),
        (swap("t=1764000000", "t="), Malformed),
        (swap("t=1764000000,", ""), Malformed),
        (swap("t=1764000000", "t=1764000000,t=1764000000"), Malformed),
        (swap("alg=hmac-sha256,", "alg=hmac-sha256,v=2,"), Malformed),
        (swap("NL0=", "NL0"), Mismatch),
        (swap("NL0=", "NL0=="), Mismatch),
        (swap("NL0=", "NL1="), Mismatch),
        (swap("sig=nFPY", "sig="), Mismatch),
        (swap("sig=nFPYP8brxy5sCPSYJLzvnNoflDEldaC4M/0ndHcLNL0=", "sig="), Mismatch),
        (swap("sig=nFPYP8brxy5sCPSYJLzvnNoflDEldaC4M/0ndHcLNL0=", "sig=nFPYP8brxy5sCPSYJLzvng=="), Mismatch),
        (swap("M/0nd", "M_0nd"), Mismatch),
        (swap("keyId=feedser-1,", ""), Malformed),
        (String::new(), Malformed),
        ("garbage".to_owned(), Malformed),
    ] {
        assert_eq!(feedser(&own(&[&value]), BODY), Err(expected), "{value}");
    }
    assert_eq!(verifier().verify(Vexer, &own(&[TEXT_SIGNED]), BODY, NOW), Err(UnknownKey));
}

#[test]
fn a_standard_delivery_needs_a_plain_id_and_time() {
    let key = SigningKey::hmac(id("any"), WHSEC.as_bytes()).unwrap();
    let good = entry(&key, 7, NOW, BODY);
    let time = NOW.to_string();
    assert_eq!(feedser(&standard("7", &time, &[&good]), BODY).unwrap().key_id, id("feedser-2"));
    let long = "7".repeat(257);
    for (msg, time) in
        [("", time.as_str()), ("7.0", &time), ("a b", &time), (&long, &time), ("7", ""), ("7", " 1764000000")]
    {
        assert_eq!(feedser(&standard(msg, time, &[&good]), BODY), Err(SignatureError::Malformed), "{msg:?} {time:?}");
    }
    let one_header_lost = SignatureHeaders { webhook_id: None, ..standard("7", &time, &[&good]) };
    assert_eq!(feedser(&one_header_lost, BODY), Err(SignatureError::Malformed));
    assert_eq!(feedser(&standard("8", &time, &[&good]), BODY), Err(SignatureError::Mismatch));
    assert_eq!(verifier().verify(Vexer, &standard("7", &time, &[&good]), BODY, NOW), Err(SignatureError::Mismatch));
    assert_eq!(
        verifier().verify(Vexer, &standard("7", &time, &["v1a,AAAA"]), BODY, NOW),
        Err(SignatureError::Malformed),
    );
    let pair_only = Verifier::new(vec![pair("p", Feedser, 1).0], 300).unwrap();
    assert_eq!(pair_only.verify(Feedser, &standard("7", &time, &[&good]), BODY, NOW), Err(SignatureError::UnknownKey),);
}

#[test]
fn either_form_is_enough_beside_a_bad_other() {
    let key = SigningKey::hmac(id("any"), WHSEC.as_bytes()).unwrap();
    let (good, time) = (entry(&key, 7, NOW, BODY), NOW.to_string());
    let both = |own: &'static str, id: &'static str| SignatureHeaders {
        scheduler: vec![own],
        ..standard(id, &time, &[&good])
    };
    assert_eq!(feedser(&both("garbage", "7"), BODY).unwrap().key_id, id("feedser-2"));
    assert_eq!(feedser(&both(TEXT_SIGNED, "8"), BODY).unwrap().key_id, id("feedser-1"));
    assert_eq!(feedser(&both("garbage", "8"), BODY), Err(SignatureError::Mismatch));
}

#[test]
fn the_first_configured_key_answers_in_any_order_of_signatures() {
    let secrets = ["whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAA=", WHSEC];
    let keys = ["first", "second"].map(id).into_iter().zip(secrets);
    let signers: Vec<_> = keys.clone().map(|(id, secret)| SigningKey::hmac(id, secret.as_bytes()).unwrap()).collect();
    let keys = keys.map(|(id, secret)| hmac(id.as_str(), Feedser, secret)).collect();
    let verifier = Verifier::new(keys, 300).unwrap();
    let time = NOW.to_string();
    let own_values: Vec<String> = signers.iter().map(|key| key.scheduler_header(BODY, 1_764_000_000)).collect();
    let entries: Vec<String> = signers.iter().map(|key| entry(key, 7, NOW, BODY)).collect();
    for order in [[0, 1], [1, 0]] {
        let values = order.map(|n| own_values[n].as_str());
        assert_eq!(verifier.verify(Feedser, &own(&values), BODY, NOW).unwrap().key_id, id("first"));
        let values = order.map(|n| entries[n].as_str());
        assert_eq!(verifier.verify(Feedser, &standard("7", &time, &values), BODY, NOW).unwrap().key_id, id("first"));
    }
}

#[test]
fn a_replay_has_the_same_fingerprint_and_a_new_signature_another() {
    let first = feedser(&own(&[TEXT_SIGNED]), BODY).unwrap();
    let hex: String = first.fingerprint.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "dcde53bbc40695aa8073cf65a96f815cf6993efda058581db7cb6f65ef640621");
    assert_eq!(feedser(&own(&[TEXT_SIGNED]), BODY).unwrap(), first);
    assert_eq!(feedser(&own(&[WHSEC_SIGNED]), BODY).unwrap().fingerprint, first.fingerprint, "its other signature");
    let key = SigningKey::hmac(id("feedser-1"), TEXT_SECRET.as_bytes()).unwrap();
    let later = key.scheduler_header(BODY, 1_764_000_001);
    assert_ne!(feedser(&own(&[&later]), BODY).unwrap().fingerprint, first.fingerprint);
}

#[test]
fn a_request_may_bring_sixteen_signatures_and_not_one_more() {
    let mut values = vec!["garbage"; SIGNATURES_MAX - 1];
    values.push(TEXT_SIGNED);
    assert!(feedser(&own(&values), BODY).is_ok());
    values.insert(0, "garbage");
    assert_eq!(feedser(&own(&values), BODY), Err(SignatureError::TooMany));

    let joined = ["keyId=x"; SIGNATURES_MAX + 1].join(",");
    assert_eq!(feedser(&own(&[&joined]), BODY), Err(SignatureError::TooMany));
    let time = NOW.to_string();
    let list = ["v9,x"; SIGNATURES_MAX].join(" ");
    assert_eq!(feedser(&standard("7", &time, &[&list]), BODY), Err(SignatureError::Malformed));
    let over = SignatureHeaders { scheduler: vec!["garbage"], ..standard("7", &time, &[&list]) };
    assert_eq!(feedser(&over, BODY), Err(SignatureError::TooMany), "both forms count together");
}

#[test]
fn two_signatures_are_tried_with_every_key_and_forgeries_stop_at_the_limit() {
    let pairs: Vec<_> = (0..=u8::MAX).take(KEYS_PER_SOURCE_MAX).map(|n| pair(&format!("k-{n}"), Feedser, n)).collect();
    let time = NOW.to_string();
    let forged = format!("v1a,{}", STANDARD.encode([0; 64]));
    let check = |keys: usize, list: &[&str]| {
        let keys = pairs.iter().take(keys).map(|(key, _)| key.clone()).collect();
        let verifier = Verifier::new(keys, 300).unwrap();
        verifier.verify(Feedser, &standard("7", &time, list), BODY, NOW).map(|_| ())
    };
    let last = entry(&pairs.last().unwrap().1, 7, NOW, BODY);
    assert_eq!(check(KEYS_PER_SOURCE_MAX, &[&forged, &last]), Ok(()));
    assert_eq!(check(BODY_PASSES_MAX / 4, &[forged.as_str(); 4]), Err(SignatureError::Mismatch));
    assert_eq!(check((BODY_PASSES_MAX + 1) / 5, &[forged.as_str(); 5]), Err(SignatureError::TooMany));
}

#[test]
fn a_set_of_keys_is_checked_as_a_whole() {
    let keys = |count: usize| (0..count).map(|n| hmac(&format!("k-{n}"), Vexer, TEXT_SECRET)).collect();
    assert!(Verifier::new(keys(KEYS_PER_SOURCE_MAX), 300).is_ok());
    assert!(matches!(Verifier::new(keys(KEYS_PER_SOURCE_MAX + 1), 300), Err(KeyError::TooManyKeys(Vexer))));
    let twice = vec![hmac("same", Feedser, TEXT_SECRET), hmac("same", Vexer, WHSEC)];
    assert!(matches!(Verifier::new(twice, 300), Err(KeyError::IdTaken(taken)) if taken == id("same")));
}

#[test]
fn the_verified_key_says_whom_it_may_speak_for() {
    let only = TenantScope::Only(vec!["alpha".parse().unwrap()]);
    let key = WebhookKey::hmac(id("feedser-1"), Feedser, TEXT_SECRET.as_bytes(), only.clone()).unwrap();
    let verified = Verifier::new(vec![key], 300).unwrap().verify(Feedser, &own(&[TEXT_SIGNED]), BODY, NOW).unwrap();
    assert_eq!(verified.tenants, only);
    let nobody = WebhookKey::hmac(id("x"), Feedser, TEXT_SECRET.as_bytes(), TenantScope::Only(vec![]));
    assert!(matches!(nobody, Err(KeyError::NoTenants)));
}
