//! Which key files are read, and that nothing of a secret shows.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use scheduler_auth::{
    Algorithm, KeyError, SECRET_LEN_MIN, Secret, SignatureHeaders, SigningKey, Verifier, WebhookKey,
    generate_ed25519_pair, generate_hmac_secret,
};
use scheduler_model::Source::Feedser;
use scheduler_model::{TenantScope, WebhookKeyId};

fn id(name: &str) -> WebhookKeyId {
    name.parse().unwrap()
}

fn hmac(content: &[u8]) -> Result<WebhookKey, KeyError> {
    WebhookKey::hmac(id("k"), Feedser, content, TenantScope::All)
}

fn public(pem: &str) -> Result<WebhookKey, KeyError> {
    WebhookKey::ed25519_pem(id("k"), Feedser, pem, TenantScope::All)
}

#[test]
fn a_secret_is_the_bytes_of_one_line() {
    let signed = |content: &[u8]| SigningKey::hmac(id("k"), content).unwrap().scheduler_header(b"{}", 1);
    let plain = signed(b"sixteen bytes ok");
    assert_eq!(signed(b"sixteen bytes ok\n"), plain);
    assert_eq!(signed(b"sixteen bytes ok\r\n"), plain);
    assert_ne!(signed(b"sixteen bytes ok "), plain, "a blank is a byte like any other");
    assert_eq!(signed(b"whsec_c2l4dGVlbiBieXRlcyBvaw==\n"), plain);
    assert_eq!(signed(b"whsec_c2l4dGVlbiBieXRlcyBvaw"), plain, "without padding");
    assert!(hmac(&[0xff; SECRET_LEN_MIN]).is_ok(), "bytes that are no text");
}

#[test]
fn bad_secrets_are_refused_with_the_reason() {
    let check = |content: &[u8], expected: &str| {
        assert_eq!(hmac(content).unwrap_err().to_string(), expected);
        assert_eq!(SigningKey::hmac(id("k"), content).unwrap_err().to_string(), expected);
    };
    check(b"", "the webhook secret is empty");
    check(b"\n", "the webhook secret is empty");
    check(b"whsec_", "the webhook secret is empty");
    check(&[b'x'; SECRET_LEN_MIN - 1], "the webhook secret has 15 bytes, at least 16 are needed");
    check(b"whsec_c2hvcnQ=", "the webhook secret has 5 bytes, at least 16 are needed");
    check(b"a first secret line\na second secret line\n", "the webhook secret has more than one line");
    check(b"a secret and a blank line\n\n", "the webhook secret has more than one line");
    check(b"whsec_this is not base64 at all", "the webhook secret after `whsec_` is not base64");
}

#[test]
fn bad_key_ids_are_refused() {
    for bad in ["a,b", "a b", "\u{e9}"] {
        let key = WebhookKey::hmac(id(bad), Feedser, b"sixteen bytes ok", TenantScope::All);
        assert!(matches!(key, Err(KeyError::Id(name)) if name == id(bad)), "{bad}");
    }
}

#[test]
fn only_public_ed25519_keys_in_pem_are_read() {
    let pair = generate_ed25519_pair([7; 32]);
    assert_eq!(public(&pair.public_pem).unwrap().algorithm(), Algorithm::Ed25519);
    assert!(public(&format!("\n{}\r\n", pair.public_pem.replace('\n', "\r\n"))).is_ok(), "line ends of another system");
    assert!(matches!(
        public(std::str::from_utf8(pair.private_pem.expose()).unwrap()),
        Err(KeyError::PublicKeyIsPrivate)
    ));
    let p256 = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAENmMb4/Z1Hwzf73+5XRgVJLGrIxzn
hTH92j9V27cPKfxYCmmOBg2rJwlhWJPNzA3nqXu6zjC8fNiyK5cP11xAzg==
-----END PUBLIC KEY-----
";
    let x25519 = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VuAyEAWkJiwM/xf7eJkx2UnwVNunrro+0dbe+qCnjnDy6iExQ=
-----END PUBLIC KEY-----
";
    for other in [p256, x25519, "", "no pem", "MCowBQYDK2VwAyEA9+YxYpPkLH01ww8ornV7ctSZ45dS/RVqjJ/Dsouepv8="] {
        assert!(matches!(public(other), Err(KeyError::PublicKey(_))), "{other}");
        assert!(matches!(SigningKey::ed25519_pem(id("k"), other), Err(KeyError::PrivateKey(_))), "{other}");
    }
}

#[test]
fn a_key_for_which_anybody_could_sign_is_refused() {
    // The neutral element of the curve.
    let pem = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=
-----END PUBLIC KEY-----
";
    assert!(matches!(public(pem), Err(KeyError::PublicKeyWeak)));
}

#[test]
fn generated_keys_work_and_depend_on_the_randomness_alone() {
    let (secret, pair) = (generate_hmac_secret([1; 32]), generate_ed25519_pair([1; 32]));
    assert_eq!(secret, generate_hmac_secret([1; 32]));
    assert_ne!(secret, generate_hmac_secret([2; 32]));
    assert_ne!(pair.public_pem, generate_ed25519_pair([2; 32]).public_pem);
    assert!(secret.expose().starts_with(b"whsec_") && secret.expose().ends_with(b"\n"));

    let private = std::str::from_utf8(pair.private_pem.expose()).unwrap();
    for (key, signer) in [
        (hmac(secret.expose()).unwrap(), SigningKey::hmac(id("k"), secret.expose()).unwrap()),
        (public(&pair.public_pem).unwrap(), SigningKey::ed25519_pem(id("k"), private).unwrap()),
    ] {
        let header = signer.scheduler_header(b"{}", 1000);
        let headers = SignatureHeaders { scheduler: vec![&header], ..SignatureHeaders::default() };
        assert!(Verifier::new(vec![key], 0).unwrap().verify(Feedser, &headers, b"{}", 1000).is_ok());
    }
}

/// What OpenSSL 3.0 writes for the same seed, to the byte.
#[test]
fn generated_pairs_are_written_as_openssl_writes_them() {
    let seed = [
        0x43, 0xc4, 0x73, 0xfc, 0x97, 0x0c, 0x81, 0x7e, 0xcc, 0xe6, 0x46, 0xa6, 0x17, 0x23, 0x32, 0x85, 0x31, 0xe1,
        0x2d, 0xc2, 0xa0, 0xe6, 0x10, 0x97, 0x3c, 0xb1, 0x76, 0x7d, 0x29, 0x5b, 0xc4, 0x8b,
    ];
    let pair = generate_ed25519_pair(seed);
    assert_eq!(
        pair.public_pem,
        "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEA9+YxYpPkLH01ww8ornV7ctSZ45dS/RVqjJ/Dsouepv8=
-----END PUBLIC KEY-----
"
    );
    assert_eq!(
        std::str::from_utf8(pair.private_pem.expose()).unwrap(),
        "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIEPEc/yXDIF+zOZGphcjMoUx4S3CoOYQlzyxdn0pW8SL
-----END PRIVATE KEY-----
"
    );
}

#[test]
fn no_text_shows_a_secret() {
    let line = "whsec_c2l4dGVlbiBieXRlcyBvaw==";
    let key = hmac(line.as_bytes()).unwrap();
    let pair = generate_ed25519_pair([9; 32]);
    let texts = [
        format!("{:?}", Secret::new(line)),
        Secret::new(line).to_string(),
        format!("{key:?}"),
        format!("{:?}", Verifier::new(vec![key], 300).unwrap()),
        format!("{:?}", SigningKey::hmac(id("k"), line.as_bytes()).unwrap()),
        format!("{pair:?}"),
    ];
    let private = std::str::from_utf8(pair.private_pem.expose()).unwrap().lines().nth(1).unwrap();
    for text in texts {
        assert!(text.contains("***"), "{text}");
        for shown in ["sixteen bytes", "c2l4", private, "115, 105, 120"] {
            assert!(!text.contains(shown), "{text}");
        }
    }
}

#[test]
fn algorithms_are_named_as_in_the_configuration() {
    for algorithm in [Algorithm::HmacSha256, Algorithm::Ed25519] {
        assert_eq!(serde_json::to_value(algorithm).unwrap(), algorithm.as_str());
    }
}

/// What a shell does: the text of the file is the key of `openssl dgst -hmac`.
#[test]
fn a_text_secret_is_the_key_itself() {
    let secret = scheduler_auth::generate_text_secret([7; 32]);
    let line = std::str::from_utf8(secret.expose()).unwrap();
    assert_eq!(line.trim_end(), "07".repeat(32));
    assert_ne!(secret, scheduler_auth::generate_text_secret([8; 32]));
    let id = || "k".parse().unwrap();
    let (written, typed) =
        (SigningKey::hmac(id(), line.as_bytes()), SigningKey::hmac(id(), line.trim_end().as_bytes()));
    let sign = |key: SigningKey| key.scheduler_header(b"{}", 1_700_000_000);
    assert_eq!(sign(written.unwrap()), sign(typed.unwrap()));
}
