//! Certificate subjects as senders: RFC 4514 in, whole names compared.

#![expect(clippy::unwrap_used, reason = "certificates that cannot be made have to stop their test")]

use proptest::prelude::*;
use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair};
use scheduler_auth::{KeyError, Subject, Verifier, WebhookClient, WebhookKey};
use scheduler_model::{Source, TenantScope};

fn parsed(text: &str) -> Subject {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// The subject of a certificate whose names stand in the certificate's order.
fn certified(names: &[(DnType, DnValue)]) -> Subject {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    for (kind, value) in names {
        params.distinguished_name.push(kind.clone(), value.clone());
    }
    let key = KeyPair::generate().unwrap();
    Subject::of_certificate(params.self_signed(&key).unwrap().der()).unwrap()
}

fn utf8(text: &str) -> DnValue {
    DnValue::Utf8String(text.to_owned())
}

#[test]
fn spellings_of_one_name_are_equal() {
    for (written, canonical) in [
        ("CN=feedser", "CN=feedser"),
        ("cn = feedser", "CN=feedser"),
        ("2.5.4.3=feedser", "CN=feedser"),
        ("CN=feedser, O=Example", "CN=feedser,O=Example"),
        ("CN=a+OU=b,C=DE", "OU=b+CN=a,C=DE"),
        (r"CN=a\,b", r"CN=a\,b"),
        (r"CN=a\2cb", r"CN=a\,b"),
        (r"CN=M\c3\bcller", "CN=Müller"),
        (r"CN=\ a\ ", r"CN=\ a\ "),
        ("CN=  a  ", "CN=a"),
        (r"CN=\#a", r"CN=\#a"),
        ("CN=#0c0161", "CN=a"),
        ("CN=", "CN="),
        ("CN=a=b", "CN=a=b"),
        (r"1.2.3=#0101ff", "1.2.3=#0101ff"),
    ] {
        let subject = parsed(written);
        assert_eq!(subject.to_string(), canonical, "{written}");
        assert_eq!(parsed(canonical), subject, "{written}");
    }
}

#[test]
fn what_is_no_subject_is_refused_with_its_reason() {
    for (written, reason) in [
        ("", "empty"),
        ("  ", "empty"),
        ("feedser", "no `=`"),
        ("CN=a,", "no `=`"),
        ("CN=a,b", "no `=`"),
        ("ZZ=a", "`ZZ` is no attribute type"),
        ("=a", "`` is no attribute type"),
        ("1..2=a", "`1..2` is no attribute type"),
        ("CN=\"a\"", "backslash"),
        ("CN=a;b", "backslash"),
        ("CN=a\\", "backslash"),
        ("CN=a\\x1", "backslash"),
        ("CN=a\\é1", "backslash"),
        ("CN=#zz", "no value"),
        ("CN=#0c05", "no value"),
        (r"CN=\ff", "no value"),
    ] {
        let said = written.parse::<Subject>().unwrap_err().to_string();
        assert!(said.contains(reason), "{written}: {said}");
    }
}

#[test]
fn sig7_a_certificate_matches_its_whole_subject_only() {
    let full = certified(&[
        (DnType::CountryName, DnValue::PrintableString("DE".try_into().unwrap())),
        (DnType::OrganizationName, utf8("Example, Inc.")),
        (DnType::CommonName, utf8("feedser")),
    ]);
    assert_eq!(full, parsed(r"CN=feedser,O=Example\, Inc.,C=DE"));
    for other in [
        "CN=feedser",
        r"C=DE,O=Example\, Inc.,CN=feedser",
        r"CN=feedser,O=example\, inc.,C=DE",
        r"CN=feedser+O=Example\, Inc.,C=DE",
        r"CN=feedser,O=Example,C=DE",
    ] {
        assert_ne!(full, parsed(other), "{other}");
    }
    // Separators inside a value are text.
    assert_ne!(certified(&[(DnType::CommonName, utf8("feedser,O=Example"))]), parsed("CN=feedser,O=Example"));
    // A certificate without a subject is nobody.
    let nobody = certified(&[]);
    let verifier = verifier(&["CN=feedser"]).unwrap();
    assert!(verifier.client(Source::Feedser, &nobody).is_none());
}

#[test]
fn string_types_of_a_certificate_do_not_matter() {
    for value in [
        utf8("feedser"),
        DnValue::PrintableString("feedser".try_into().unwrap()),
        DnValue::Ia5String("feedser".try_into().unwrap()),
        DnValue::TeletexString("feedser".try_into().unwrap()),
        DnValue::BmpString("feedser".try_into().unwrap()),
    ] {
        assert_eq!(certified(&[(DnType::CommonName, value.clone())]), parsed("CN=feedser"), "{value:?}");
    }
}

#[test]
fn what_is_no_certificate_is_an_error() {
    for bytes in [&b""[..], b"0", b"not a certificate", &[0x30, 0x82, 0xff, 0xff]] {
        assert!(Subject::of_certificate(bytes).is_err());
    }
}

fn verifier(subjects: &[&str]) -> Result<Verifier, KeyError> {
    let clients = subjects
        .iter()
        .map(|subject| WebhookClient::new(subject, Source::Feedser, TenantScope::All))
        .collect::<Result<_, _>>()?;
    let id = "CN=key".parse().unwrap();
    let key = WebhookKey::hmac(id, Source::Feedser, &[7; 32], TenantScope::All)?;
    Verifier::new(vec![key], 300)?.with_clients(clients)
}

#[test]
fn a_client_speaks_for_its_source_alone() {
    let verifier = verifier(&["CN=feedser"]).unwrap();
    let subject = parsed("CN=feedser");
    assert_eq!(verifier.client(Source::Feedser, &subject).unwrap().id().as_str(), "CN=feedser");
    assert!(verifier.client(Source::Vexer, &subject).is_none());
}

#[test]
fn two_senders_never_share_an_id() {
    for (subjects, reason) in [
        (vec!["CN=a", "cn= a"], "two webhook clients of feedser have the subject `CN=a`"),
        (vec!["CN=key"], "two webhook keys have the id `CN=key`"),
        (vec!["nobody"], "no `=`"),
    ] {
        let said = verifier(&subjects).unwrap_err().to_string();
        assert!(said.contains(reason), "{subjects:?}: {said}");
    }
    let long = format!("CN={}", "x".repeat(300));
    assert!(matches!(verifier(&[long.as_str()]), Err(KeyError::SubjectId(_))));
    let many: Vec<String> = (0..33).map(|n| format!("CN=c{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(verifier(&many[..32]).is_ok());
    assert!(matches!(verifier(&many), Err(KeyError::TooManyKeys(Source::Feedser))));
}

proptest! {
    #[test]
    fn any_value_survives_a_certificate_and_its_text(value in any::<String>(), other in any::<String>()) {
        let subject = certified(&[(DnType::OrganizationName, utf8(&other)), (DnType::CommonName, utf8(&value))]);
        prop_assert_eq!(parsed(&subject.to_string()), subject);
    }

    #[test]
    fn reading_never_panics(text in any::<String>(), tail in "[\\\\,+#= \"a0é]{0,12}") {
        let _ = text.parse::<Subject>();
        if let Ok(subject) = format!("CN={tail}").parse::<Subject>() {
            prop_assert_eq!(parsed(&subject.to_string()), subject);
        }
    }
}
