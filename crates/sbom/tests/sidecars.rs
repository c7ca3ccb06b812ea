//! BOM-Index sidecars, above all the three forms of usage.
#![expect(clippy::unwrap_used, reason = "test code")]

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use roaring::RoaringBitmap;
use scheduler_sbom::{Document, Format, Limits, PurlProblem, SbomError, Usage, read_bom_index, read_slice};
use serde_json::{Value, json};

fn sidecar(purls: usize, used: Value) -> Value {
    let purls: Vec<String> = (0..purls).map(|i| format!("pkg:npm/p{i}@1")).collect();
    json!({ "usedByEntrypoint": used, "purls": purls, "schema": "bom-index@1", "imageDigest": "sha256:1" })
}

fn read(document: &Value) -> Result<Document, SbomError> {
    read_bom_index(document.to_string().as_bytes(), &Limits::default())
}

fn encode(bytes: &[u8]) -> Value {
    Value::String(STANDARD.encode(bytes))
}

fn portable(used: &RoaringBitmap) -> Vec<u8> {
    let mut bytes = Vec::new();
    used.serialize_into(&mut bytes).unwrap();
    bytes
}

#[test]
fn all_facts_are_taken_and_unknown_members_ignored() {
    let document = json!({ "schema": "bom-index@1", "imageDigest": "sha256:1", "generatedAt": "2025-10-18T03:12:45Z", "colour": "red",
        "image": { "registry": "registry.example.com", "repository": "shop/cart", "namespaces": ["prod", 1], "tags": ["a", "b"],
                   "labels": { "team": "cart", "size": 4 }, "shape": [] },
        "bomFormat": "CycloneDX", "purls": ["pkg:npm/a@1"] });
    for read in [read(&document).unwrap(), read_slice(document.to_string().as_bytes(), &Limits::default()).unwrap()] {
        assert_eq!((read.format, read.usage, read.no_purl), (Format::BomIndex, Usage::Unknown, 0));
        let image = read.image;
        assert_eq!(
            (image.digest.as_deref(), image.registry.as_deref()),
            (Some("sha256:1"), Some("registry.example.com"))
        );
        assert_eq!(
            (image.repository.as_deref(), image.namespaces, image.tags.len()),
            (Some("shop/cart"), vec!["prod".to_owned()], 2)
        );
        assert_eq!((image.labels.len(), image.generated_at.as_deref()), (1, Some("2025-10-18T03:12:45Z")));
    }
}

#[test]
fn usage_is_read_in_each_form() {
    let used: RoaringBitmap = [0, 7, 8, 31, 39].into_iter().collect();
    let mut runs: RoaringBitmap = (3..30).collect();
    runs.optimize();
    let padless = STANDARD.encode(portable(&used)).trim_end_matches('=').to_owned();
    for (written, expected) in [
        (json!([39, 0, 7, 8, 31, 7]), Usage::Known(used.clone())),
        (encode(&portable(&used)), Usage::Known(used.clone())),
        (json!(padless), Usage::Known(used)),
        (encode(&portable(&runs)), Usage::Known(runs)),
        (json!([]), Usage::Known(RoaringBitmap::new())),
        (encode(&portable(&RoaringBitmap::new())), Usage::Known(RoaringBitmap::new())),
        (Value::Null, Usage::Unknown),
    ] {
        assert_eq!(read(&sidecar(40, written.clone())).unwrap().usage, expected, "{written}");
    }
}

#[test]
fn an_index_outside_the_purls_is_impossible() {
    let far: RoaringBitmap = [40].into_iter().collect();
    let farthest: RoaringBitmap = [u32::MAX].into_iter().collect();
    for used in [
        json!([40]),
        json!([4_294_967_296_u64]),
        json!([1_000_000]),
        encode(&portable(&far)),
        encode(&portable(&farthest)),
    ] {
        let error = read(&sidecar(40, used.clone())).unwrap_err();
        assert!(matches!(error, SbomError::Impossible { .. }), "{used}: {error}");
        assert!(read(&sidecar(39, json!([38]))).is_ok());
    }
}

#[test]
fn hostile_usage_is_an_error() {
    let full = portable(&(0..5000).collect());
    let mut cut = full.clone();
    cut.truncate(full.len() / 2);
    let longer = [full.as_slice(), &[0]].concat();
    let huge_count = [12346_u32.to_le_bytes(), u32::MAX.to_le_bytes()].concat();
    let unsorted = {
        let mut bytes = portable(&[1, 2].into_iter().collect());
        let end = bytes.len();
        bytes.swap(end - 4, end - 2);
        bytes
    };
    for used in [
        encode(&cut),
        encode(&longer),
        encode(&huge_count),
        encode(&unsorted),
        encode(b""),
        encode(&[0xFF; 64]),
        json!("not base64!"),
        json!(3),
        json!(true),
        json!({}),
        json!([-1]),
        json!([1.5]),
        json!(["1"]),
        json!([[0]]),
    ] {
        let error = read(&sidecar(6000, used.clone())).unwrap_err();
        assert!(matches!(error, SbomError::BadUsage { .. }), "{used}: {error}");
    }
}

#[test]
fn an_entry_that_is_no_string_keeps_its_position() {
    let document = json!({ "schema": "bom-index@1", "imageDigest": "sha256:1", "purls": ["pkg:npm/a@1", 42, null, ["x"], "pkg:npm/b@1"],
        "usedByEntrypoint": [4] });
    let document = read(&document).unwrap();
    let shown: Vec<_> = document.components.iter().map(|c| (c.purl.as_str(), c.problem)).collect();
    let bad = Some(PurlProblem::NotAString);
    let expected =
        [("pkg:npm/a@1", None), ("42", bad), ("null", bad), ("(list or object)", bad), ("pkg:npm/b@1", None)];
    assert_eq!(shown, expected);
}

#[test]
fn the_schema_may_be_absent_but_not_another() {
    assert!(read(&json!({ "purls": [] })).is_ok());
    assert!(matches!(read(&json!({ "purls": 3 })), Err(SbomError::Missing { member: "purls" })));
    assert!(matches!(read(&json!({ "schema": "bom-index@1" })), Err(SbomError::Missing { member: "purls" })));
    for other in [
        json!({ "schema": "bom-index@2", "purls": [] }),
        json!({ "schema": "x", "purls": [] }),
        json!([]),
        json!(7),
        json!({ "bomFormat": "CycloneDX", "specVersion": "1.6", "components": [] }),
    ] {
        assert!(matches!(read(&other), Err(SbomError::UnsupportedFormat { .. })), "{other}");
    }
    assert!(matches!(
        read_bom_index(b"{\"schema\": \"bom-index@1\", ", &Limits::default()),
        Err(SbomError::MalformedJson { .. })
    ));
}

#[test]
fn a_refusal_points_at_the_member_and_a_second_list_of_purls_is_one() {
    let check = |document: &str, pointer: &str| {
        let error = read_bom_index(document.as_bytes(), &Limits::default()).unwrap_err();
        assert_eq!(error.pointer().as_deref(), Some(pointer), "{document}: {error}");
    };
    check(r#"{"schema":"bom-index@1"}"#, "/purls");
    check(r#"{"schema":"bom-index@1","purls":3}"#, "/purls");
    check(r#"{"purls":["pkg:npm/a@1"],"schema":"bom-index@1","purls":[]}"#, "/purls");
    check(r#"{"purls":["pkg:npm/a@1"],"schema":"bom-index@1","usedByEntrypoint":[1]}"#, "/usedByEntrypoint");
    check(r#"{"purls":["pkg:npm/a@1"],"schema":"bom-index@1","usedByEntrypoint":["x"]}"#, "/usedByEntrypoint");
    check(r#"{"purls":["pkg:npm/a@1"],"schema":"bom-index@1","usedByEntrypoint":"!"}"#, "/usedByEntrypoint");
}
