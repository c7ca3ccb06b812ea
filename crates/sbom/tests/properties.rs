//! SBOM-R2 on arbitrary input, and documents of our own making that come back as they were.

use proptest::prelude::*;
use scheduler_sbom::{Limits, RawComponent, read, read_bom_index, read_slice};
use serde_json::{Value, json};

/// Member names that lead into the readers, so that arbitrary values reach every one of them.
const NAMES: [&str; 40] = [
    "bomFormat",
    "specVersion",
    "components",
    "metadata",
    "component",
    "purl",
    "properties",
    "name",
    "value",
    "version",
    "type",
    "pedigree",
    "ancestors",
    "bom-ref",
    "spdxVersion",
    "packages",
    "externalRefs",
    "referenceType",
    "referenceLocator",
    "SPDXID",
    "relationships",
    "documentDescribes",
    "spdxElementId",
    "relationshipType",
    "relatedSpdxElement",
    "@context",
    "@graph",
    "software_packageUrl",
    "externalIdentifier",
    "rootElement",
    "artifacts",
    "source",
    "schema",
    "target",
    "tags",
    "labels",
    "purls",
    "usedByEntrypoint",
    "imageDigest",
    "image",
];

const TEXTS: [&str; 12] = [
    "CycloneDX",
    "1.6",
    "SPDX-2.3",
    "purl",
    "pkg:npm/a@1",
    "pkg:oci/a@sha256:1?tag=x",
    "SPDXRef-DOCUMENT",
    "DESCRIBES",
    "software_Package",
    "https://spdx.org/rdf/3.0.1/x",
    "bom-index@1",
    "OjAAAAEAAAAAAAAAEAAAAAAA",
];

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        proptest::sample::select(&TEXTS[..]).prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        let name = prop_oneof![4 => proptest::sample::select(&NAMES[..]).prop_map(str::to_owned), 1 => ".{0,6}"];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::hash_map(name, inner, 0..8).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Whatever comes out, the three ways of reading agree and none panics.
fn read_every_way(bytes: &[u8]) -> Result<(), TestCaseError> {
    let limits = Limits { components_max: 20, ..Limits::default() };
    let at_once = read_slice(bytes, &limits).map_err(|error| error.to_string());
    let streamed = read(bytes, &limits).map_err(|error| error.to_string());
    let is_same = match (&at_once, &streamed) {
        // The two readers of the parser may put the same fault at another column.
        (Err(left), Err(right)) => left.split(" at line").next() == right.split(" at line").next(),
        (left, right) => left == right,
    };
    prop_assert!(is_same, "{:?} and {:?}", at_once, streamed);
    if let Ok(document) = at_once {
        prop_assert!(document.components.len() <= limits.components_max);
    }
    read_bom_index(bytes, &limits).ok();
    Ok(())
}

fn purl() -> impl Strategy<Value = String> {
    ("[a-z]{1,6}", "[a-zA-Z0-9._-]{1,8}", "[0-9]{1,2}")
        .prop_map(|(kind, name, version)| format!("pkg:{kind}/{name}@{version}"))
}

/// A component tree: purls, absent ones among them, and what lies under each.
#[derive(Clone, Debug)]
struct Tree {
    purl: Option<String>,
    under: Vec<Tree>,
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = proptest::option::of(purl()).prop_map(|purl| Tree { purl, under: Vec::new() });
    leaf.prop_recursive(4, 24, 4, |inner| {
        (proptest::option::of(purl()), proptest::collection::vec(inner, 0..4))
            .prop_map(|(purl, under)| Tree { purl, under })
    })
}

impl Tree {
    fn json(&self) -> Value {
        let under: Vec<Value> = self.under.iter().map(Self::json).collect();
        json!({ "name": "x", "purl": self.purl, "components": under })
    }

    fn purls(&self, into: &mut Vec<Option<String>>) {
        into.push(self.purl.clone());
        self.under.iter().for_each(|tree| tree.purls(into));
    }
}

fn sorted(components: &[RawComponent]) -> Vec<String> {
    let mut purls: Vec<String> = components.iter().map(|component| component.purl.clone()).collect();
    purls.sort();
    purls
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_json_never_panics(value in any_json()) {
        read_every_way(value.to_string().as_bytes())?;
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        read_every_way(&bytes)?;
    }

    #[test]
    fn cut_and_spoilt_documents_never_panic(value in any_json(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = value.to_string().into_bytes();
        let at = at.index(bytes.len());
        read_every_way(bytes.get(..at).unwrap_or_default())?;
        if let Some(slot) = bytes.get_mut(at) {
            *slot = byte;
        }
        read_every_way(&bytes)?;
    }

    #[test]
    fn hostile_bitmaps_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64), cookie in 0u8..3) {
        use base64::Engine;
        let start: &[u8] = match cookie { 0 => &[0x3A, 0x30, 0, 0], 1 => &[0x3B, 0x30, 0, 0], _ => &[] };
        let used = base64::engine::general_purpose::STANDARD.encode([start, &bytes].concat());
        let text = json!({ "schema": "bom-index@1", "purls": ["pkg:npm/a@1"], "usedByEntrypoint": used }).to_string();
        read_bom_index(text.as_bytes(), &Limits::default()).ok();
    }

    #[test]
    fn every_component_of_a_tree_comes_back(forest in proptest::collection::vec(tree(), 0..5)) {
        let components: Vec<Value> = forest.iter().map(Tree::json).collect();
        let text = json!({ "bomFormat": "CycloneDX", "specVersion": "1.6", "components": components }).to_string();
        let mut all = Vec::new();
        forest.iter().for_each(|tree| tree.purls(&mut all));
        let missing = all.iter().filter(|purl| purl.is_none()).count();
        let mut expected: Vec<String> = all.into_iter().flatten().collect();
        expected.sort();
        let document = read_slice(text.as_bytes(), &Limits::default()).map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(sorted(&document.components), expected);
        prop_assert_eq!(document.no_purl, u64::try_from(missing).unwrap_or(u64::MAX));
    }

    #[test]
    fn every_format_gives_back_its_purls(purls in proptest::collection::vec(purl(), 0..30)) {
        let list = |make: &dyn Fn(&String) -> Value| purls.iter().map(make).collect::<Vec<Value>>();
        let reference = |purl: &String| json!({ "externalRefs": [{ "referenceType": "purl", "referenceLocator": purl }] });
        let element = |purl: &String| json!({ "type": "software_Package", "software_packageUrl": purl });
        let context = "https://spdx.org/rdf/3.0.1/spdx-context.jsonld";
        for document in [
            json!({ "spdxVersion": "SPDX-2.2", "packages": list(&reference) }),
            json!({ "@context": context, "@graph": list(&element) }),
            json!({ "artifacts": list(&|purl| json!({ "purl": purl })), "schema": { "version": "16.0.18" } }),
            json!({ "schema": "bom-index@1", "imageDigest": "sha256:1", "purls": purls }),
        ] {
            let text = document.to_string();
            let read = read_slice(text.as_bytes(), &Limits::default()).map_err(|e| TestCaseError::fail(e.to_string()))?;
            let found: Vec<String> = read.components.into_iter().map(|component| component.purl).collect();
            prop_assert_eq!(&found, &purls);
        }
    }
}
