//! Vectors that independent tools made (HOOK-02): every row of the webhook oracles that concerns signatures.

use crate::key::{Check, ed25519_fits, hmac_secret, keyed, same_tag, tag};
use crate::{Secret, SignatureHeaders, Verifier, WebhookKey, header};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ed25519_dalek::VerifyingKey;
use scheduler_model::{Source, TenantScope, WebhookKeyId};
use serde_json::Value;
use std::path::PathBuf;

/// The text of an oracle, or `None`, said aloud, where the shared data is absent.
fn oracle(name: &str) -> Option<String> {
    let root = std::env::var("SCHEDULER_SHARED")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared").to_owned());
    let root = PathBuf::from(root);
    if !root.is_dir() {
        println!("skipped: no shared data");
        return None;
    }
    Some(std::fs::read_to_string(root.join("oracles/security").join(name)).unwrap())
}

fn rows(name: &str) -> Option<Vec<Value>> {
    Some(oracle(name)?.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn document(name: &str) -> Option<Value> {
    Some(serde_json::from_str(&oracle(name)?).unwrap())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn unhex(value: &Value) -> Vec<u8> {
    text(value).as_bytes().chunks(2).map(|b| u8::from_str_radix(str::from_utf8(b).unwrap(), 16).unwrap()).collect()
}

fn id(name: &str) -> WebhookKeyId {
    name.parse().unwrap()
}

fn public_pem(raw: &[u8]) -> String {
    let prefix = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
    format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode([&prefix, raw].concat()))
}

fn public_key(pem: &str) -> VerifyingKey {
    match WebhookKey::ed25519_pem(id("k"), Source::Feedser, pem, TenantScope::All).unwrap().check() {
        Check::Ed25519(key) => **key,
        Check::Hmac(_) => unreachable!("an Ed25519 key was read"),
    }
}

#[test]
fn every_wycheproof_hmac_row_holds_and_cut_tags_never_match() {
    let Some(document) = document("wycheproof-hmac_sha256.json") else { return };
    let mut seen = 0;
    for group in document["testGroups"].as_array().unwrap() {
        for test in group["tests"].as_array().unwrap() {
            let (given, valid) = (unhex(&test["tag"]), test["result"] == "valid");
            let expected = tag(&keyed(&Secret::new(unhex(&test["key"]))), &[&unhex(&test["msg"])]);
            let cut = group["tagSize"] == 128;
            assert_eq!(expected[..given.len()] == given, valid, "the primitive, tcId {}", test["tcId"]);
            let accepted = header::decode(&STANDARD.encode(&given)).is_some_and(|given| same_tag(&expected, &given));
            assert_eq!(accepted, valid && !cut, "as a webhook signature, tcId {}", test["tcId"]);
            seen += 1;
        }
    }
    assert_eq!(seen, 122);
}

#[test]
fn every_wycheproof_ed25519_row_holds() {
    let Some(document) = document("wycheproof-ed25519.json") else { return };
    let mut seen = 0;
    for group in document["testGroups"].as_array().unwrap() {
        let key = public_key(text(&group["publicKeyPem"]));
        for test in group["tests"].as_array().unwrap() {
            let message = unhex(&test["msg"]);
            let (head, tail) = message.split_at(message.len() / 2);
            let accepted = header::decode(&STANDARD.encode(unhex(&test["sig"])))
                .is_some_and(|given| ed25519_fits(&key, &[head, tail], &given));
            assert_eq!(accepted, test["result"] == "valid", "tcId {}", test["tcId"]);
            seen += 1;
        }
    }
    assert_eq!(seen, 106);
}

#[test]
fn every_webhook_case_has_its_verdict() {
    let Some(rows) = rows("webhook-cases.jsonl") else { return };
    assert_eq!(rows.len(), 34);
    for row in rows {
        let mut keys = vec![];
        for (n, secret) in row["secrets"].as_array().unwrap().iter().enumerate() {
            let id = id(&format!("hmac-{n}"));
            keys.push(WebhookKey::hmac(id, Source::Vexer, text(secret).as_bytes(), TenantScope::All).unwrap());
        }
        for (n, public) in row["ed25519_public_b64"].as_array().unwrap().iter().enumerate() {
            let pem = public_pem(&STANDARD.decode(text(public)).unwrap());
            keys.push(
                WebhookKey::ed25519_pem(id(&format!("pair-{n}")), Source::Vexer, &pem, TenantScope::All).unwrap(),
            );
        }
        let header = |name: &str| row["headers"].get(name).map(text);
        let headers = SignatureHeaders {
            scheduler: vec![],
            webhook_id: header("webhook-id"),
            webhook_timestamp: header("webhook-timestamp"),
            webhook_signature: header("webhook-signature").into_iter().collect(),
        };
        let body = STANDARD.decode(text(&row["body_b64"])).unwrap();
        let verdict = Verifier::new(keys, row["tolerance_s"].as_u64().unwrap()).unwrap().verify(
            Source::Vexer,
            &headers,
            &body,
            row["now"].as_i64().unwrap(),
        );
        assert_eq!(verdict.is_ok(), row["verdict"] == "accept", "{}: {}: {verdict:?}", row["id"], row["why"]);
    }
}

#[test]
fn published_examples_of_hmac_and_ed25519_hold() {
    let Some(rows) = rows("rfc-facts.jsonl") else { return };
    let fits_hmac = |secret: &[u8], message: &[u8], mac: &[u8]| tag(&keyed(&Secret::new(secret)), &[message]) == mac;
    let mut seen = 0;
    for row in rows {
        let holds = match (text(&row["kind"]), row["alg"].as_str()) {
            ("hmac-sha256", _) => fits_hmac(&unhex(&row["key_hex"]), &unhex(&row["msg_hex"]), &unhex(&row["mac_hex"])),
            ("x-hub-signature-256", _) => {
                let mac = unhex(&Value::from(text(&row["header"]).strip_prefix("sha256=").unwrap()));
                fits_hmac(text(&row["secret"]).as_bytes(), text(&row["body"]).as_bytes(), &mac)
            }
            ("webhook-v1", _) => {
                let message = ["webhook_id", "webhook_timestamp", "body"].map(|member| text(&row[member])).join(".");
                let mac = text(&row["webhook_signature"]).strip_prefix("v1,").and_then(header::decode::<32>).unwrap();
                fits_hmac(hmac_secret(text(&row["secret"]).as_bytes()).unwrap().expose(), message.as_bytes(), &mac)
            }
            ("http-signature", Some(algorithm)) => {
                let signature = text(&row["signature"]).split(':').nth(1).unwrap();
                let base = text(&row["signature_base"]).as_bytes();
                match algorithm {
                    "hmac-sha256" => {
                        let secret = STANDARD.decode(text(&row["key_b64"])).unwrap();
                        fits_hmac(&secret, base, &header::decode::<32>(signature).unwrap())
                    }
                    "ed25519" => {
                        let key = public_key(text(&row["public_key_pem"]));
                        ed25519_fits(&key, &[base], &header::decode(signature).unwrap())
                    }
                    _ => continue,
                }
            }
            ("jws", Some("EdDSA")) => {
                let key = public_key(&public_pem(&URL_SAFE_NO_PAD.decode(text(&row["jwk"]["x"])).unwrap()));
                let (message, signature) = text(&row["jws"]).rsplit_once('.').unwrap();
                let signature = URL_SAFE_NO_PAD.decode(signature).unwrap().try_into().unwrap();
                ed25519_fits(&key, &[message.as_bytes()], &signature)
            }
            _ => continue,
        };
        assert!(holds, "{}", row["id"]);
        seen += 1;
    }
    assert_eq!(seen, 7);
}
