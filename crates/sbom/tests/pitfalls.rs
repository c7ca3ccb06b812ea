//! Each known way in which readers of SBOMs go wrong, held by a test under its id.

use scheduler_sbom::{Document, Format, Limits, Note, SbomError, read_slice};
use serde_json::{Value, json};

fn read(document: &Value) -> Result<Document, SbomError> {
    read_slice(document.to_string().as_bytes(), &Limits::default())
}

fn purls(document: &Document) -> Vec<&str> {
    document.components.iter().map(|component| component.purl.as_str()).collect()
}

fn cyclonedx(components: Value) -> Value {
    json!({ "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "components": components })
}

fn spdx_package(id: &str, purl: &str) -> Value {
    json!({ "SPDXID": id, "name": id, "externalRefs": [
        { "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl }] })
}

#[test]
fn sbom_01_repeated_components_and_references_are_read() {
    let same = json!({ "type": "library", "bom-ref": "x", "name": "a", "purl": "pkg:npm/a@1" });
    let document = read(&cyclonedx(json!([same, same, { "bom-ref": "x", "purl": "pkg:npm/b@1" }]))).unwrap();
    assert_eq!(purls(&document), ["pkg:npm/a@1", "pkg:npm/a@1", "pkg:npm/b@1"]);
}

#[test]
fn sbom_03_unknown_versions_are_refused_naming_the_supported_ones() {
    let cdx = |version: Value| json!({ "bomFormat": "CycloneDX", "specVersion": version, "components": [] });
    for (document, found) in [
        (cdx(json!("1.9")), "CycloneDX 1.9"),
        (cdx(json!("1.1")), "CycloneDX 1.1"),
        (cdx(json!("")), "CycloneDX "),
        (cdx(json!(1.6)), "CycloneDX without specVersion"),
        (json!({ "spdxVersion": "SPDX-2.1", "packages": [] }), "SPDX 2.1"),
        (json!({ "spdxVersion": "2.3", "packages": [] }), "SPDX with spdxVersion 2.3"),
        (json!({ "@context": "https://spdx.org/rdf/3.1.0/spdx-context.jsonld", "@graph": [] }), "SPDX 3.1.0"),
        (json!({ "@context": "https://spdx.org/rdf/3.0.1/spdx-context.jsonld" }), "SPDX 3 without @graph"),
        (json!({ "schema": "bom-index@2", "imageDigest": "x", "purls": [] }), "bom-index@2"),
        (json!({ "hello": "world" }), "no SBOM"),
        (json!({ "artifacts": [] }), "no SBOM"),
        (json!([]), "not an object"),
    ] {
        let error = read(&document).unwrap_err();
        assert!(
            matches!(&error, SbomError::UnsupportedFormat { found: f } if f.contains(found)),
            "{document}: {error}"
        );
        assert!(error.to_string().contains("CycloneDX JSON 1.2 to 1.7"), "{error}");
    }
}

#[test]
fn sbom_04_members_that_do_not_matter_never_refuse_a_document() {
    let document = json!({
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": "one", "serialNumber": 7, "metadata": [1],
        "dependencies": "none", "vulnerabilities": { "a": [] },
        "components": [
            { "name": 7, "version": [], "externalReferences": [{ "url": "http://[bad" }], "purl": "pkg:npm/a@1" },
            { "purl": 42 }, { "purl": null }, { "purl": "" }, { "purl": "pkg:npm/b@1", "properties": "none" },
            { "purl": "pkg:npm/c@1", "properties": [null, 3, { "name": 1, "value": 2 }], "pedigree": { "ancestors": [0] } },
            "pkg:npm/no-component@1", 5, null
        ] });
    let document = read(&document).unwrap();
    assert_eq!(purls(&document), ["pkg:npm/a@1", "pkg:npm/b@1", "pkg:npm/c@1"]);
    assert_eq!(document.no_purl, 3);
    let spdx = json!({ "spdxVersion": "SPDX-2.3", "creationInfo": 1, "name": {}, "documentDescribes": "x", "relationships": [4, "a"],
        "packages": [{ "SPDXID": 4, "externalRefs": [null, { "referenceType": "purl", "referenceLocator": 3 }] }, 9] });
    assert_eq!(read(&spdx).unwrap().no_purl, 1);
}

#[test]
fn sbom_06_a_byte_order_mark_is_accepted_and_other_encodings_are_named() {
    let text = cyclonedx(json!([{ "purl": "pkg:npm/a@1" }])).to_string();
    let marked = [b"\xEF\xBB\xBF", text.as_bytes()].concat();
    assert_eq!(read_slice(&marked, &Limits::default()).unwrap().components.len(), 1);
    assert_eq!(scheduler_sbom::read(marked.as_slice(), &Limits::default()).unwrap().components.len(), 1);

    let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
    let marked_utf16 = [b"\xFF\xFE", little.as_slice()].concat();
    let twice = Value::String(text.clone()).to_string();
    let base64 = "eyJib21Gb3JtYXQiOiAiQ3ljbG9uZURYIiwgInNwZWNWZXJzaW9uIjogIjEuNiJ9";
    for input in [little.as_slice(), &big, &marked_utf16, base64.as_bytes(), twice.as_bytes()] {
        let error = read_slice(input, &Limits::default()).unwrap_err();
        assert!(matches!(error, SbomError::Encoding { .. }), "{error}");
    }
}

#[test]
fn sbom_07_components_without_purl_are_counted_and_the_rest_is_read() {
    let plain = json!({ "SPDXID": "SPDXRef-x", "name": "files" });
    let spdx =
        json!({ "spdxVersion": "SPDX-2.2", "packages": [plain, spdx_package("SPDXRef-a", "pkg:npm/a@1"), plain] });
    let spdx = read(&spdx).unwrap();
    assert_eq!((purls(&spdx), spdx.no_purl), (vec!["pkg:npm/a@1"], 2));
    let cdx =
        read(&cyclonedx(json!([{ "name": "x" }, { "purl": "pkg:npm/a@1", "components": [{ "name": "y" }] }]))).unwrap();
    assert_eq!((purls(&cdx), cdx.no_purl), (vec!["pkg:npm/a@1"], 2));
    let syft = json!({ "artifacts": [{ "name": "x", "purl": "" }, { "purl": "pkg:npm/a@1" }], "schema": { "version": "16.0.0" } });
    let syft = read(&syft).unwrap();
    assert_eq!((purls(&syft), syft.no_purl), (vec!["pkg:npm/a@1"], 1));
}

#[test]
fn sbom_09_relations_to_nothing_are_legal() {
    let relation =
        |to: &str| json!({ "spdxElementId": "SPDXRef-a", "relationshipType": "CONTAINS", "relatedSpdxElement": to });
    let spdx = json!({ "spdxVersion": "SPDX-2.3", "packages": [spdx_package("SPDXRef-a", "pkg:npm/a@1")],
        "relationships": [relation("NOASSERTION"), relation("NONE"),
            { "spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "NONE" }] });
    assert_eq!(purls(&read(&spdx).unwrap()), ["pkg:npm/a@1"]);
}

#[test]
fn sbom_11_content_decides_the_format_and_emptiness_is_noted() {
    let graph = json!([{ "type": "CreationInfo", "specVersion": "3.0.0" }]);
    for (document, format, version) in [
        (cyclonedx(json!([])), Format::CycloneDx, Some("1.6")),
        (json!({ "packages": [], "spdxVersion": "SPDX-2.3" }), Format::Spdx2, Some("2.3")),
        (json!({ "@graph": graph }), Format::Spdx3, Some("3.0.0")),
        (
            json!({ "@graph": [], "@context": ["x", "https://spdx.org/rdf/3.0.1/spdx-context.jsonld"] }),
            Format::Spdx3,
            Some("3.0.1"),
        ),
        (json!({ "artifacts": [], "descriptor": { "name": "syft" } }), Format::Syft, None),
        (json!({ "imageDigest": "sha256:1", "purls": [] }), Format::BomIndex, Some("1")),
    ] {
        let read = read(&document).unwrap();
        assert_eq!((read.format, read.spec_version.as_deref()), (format, version), "{document}");
        assert_eq!(read.notes, [Note::NoComponents], "{document}");
    }
    assert_eq!(read(&cyclonedx(json!([{ "name": "x" }]))).unwrap().notes, [Note::NoPurls]);
}

#[test]
fn sbom_14_references_into_other_documents_are_noted() {
    let spdx = json!({ "spdxVersion": "SPDX-2.3", "packages": [spdx_package("SPDXRef-a", "pkg:npm/a@1")],
        "externalDocumentRefs": [{ "externalDocumentId": "DocumentRef-other", "spdxDocument": "https://example.com/missing" }],
        "relationships": [{ "spdxElementId": "SPDXRef-a", "relationshipType": "DEPENDS_ON",
            "relatedSpdxElement": "DocumentRef-other:SPDXRef-b" }] });
    let document = read(&spdx).unwrap();
    assert_eq!(
        (purls(&document), document.notes.as_slice()),
        (vec!["pkg:npm/a@1"], &[Note::ExternalReferences(1)][..])
    );
}

#[test]
fn malformed_json_is_told_with_its_place() {
    for (text, line) in
        [("{\"bomFormat\": \"CycloneDX\",", 1), ("{\n \"a\": tru }", 2), ("", 1), ("{} {}", 1), ("SPDXVersio", 1)]
    {
        match read_slice(text.as_bytes(), &Limits::default()) {
            Err(SbomError::MalformedJson { line: found, .. }) => assert!(found <= line, "{text}: line {found}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn an_error_of_the_reader_is_handed_on() {
    struct Broken;
    impl std::io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("body too large"))
        }
    }
    let start = format!("{{\"bomFormat\": \"CycloneDX\",{}", " ".repeat(200));
    for start in ["", start.as_str()] {
        match scheduler_sbom::read(std::io::Read::chain(start.as_bytes(), Broken), &Limits::default()) {
            Err(SbomError::Read(source)) => assert_eq!(source.to_string(), "body too large"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn limits_hold_on_both_sides() {
    let limits = Limits { components_max: 3, depth_max: 2, purl_bytes_max: 12 };
    let read = |document: &Value| read_slice(document.to_string().as_bytes(), &limits);
    let one = json!({ "purl": "pkg:npm/a@1" });
    assert_eq!(read(&cyclonedx(json!([one, one, {}]))).unwrap().components.len(), 2);
    assert!(matches!(read(&cyclonedx(json!([one, one, {}, one]))), Err(SbomError::TooMany { limit: 3, .. })));

    assert_eq!(read(&cyclonedx(json!([{ "components": [one] }]))).unwrap().components.len(), 1);
    let deeper = cyclonedx(json!([{ "components": [{ "components": [one] }] }]));
    assert!(matches!(read(&deeper), Err(SbomError::TooDeep { limit: 2 })));

    let long = read(&cyclonedx(json!([{ "purl": "pkg:npm/ab@1" }, { "purl": "pkg:npm/abc@1" }]))).unwrap();
    assert_eq!(long.components[0].problem, None);
    assert_eq!(long.components[1].problem.unwrap().to_string(), "purl is too long");
}

#[test]
fn depth_is_bounded_by_default_and_costs_nothing_where_it_is_skipped() {
    let nested = |levels: usize| {
        let open = r#"{"purl":"pkg:npm/a@1","components":["#.repeat(levels);
        format!(r#"{{"bomFormat":"CycloneDX","specVersion":"1.6","components":[{open}{}]}}"#, "]}".repeat(levels))
    };
    let limits = Limits::default();
    assert_eq!(read_slice(nested(59).as_bytes(), &limits).unwrap().components.len(), 59);
    assert!(matches!(read_slice(nested(60).as_bytes(), &limits), Err(SbomError::TooDeep { limit: 60 })));
    assert!(matches!(read_slice(nested(100_000).as_bytes(), &limits), Err(SbomError::TooDeep { .. })));
    let skipped = format!(
        r#"{{"bomFormat":"CycloneDX","specVersion":"1.6","x":{}{}}}"#,
        "[".repeat(200_000),
        "]".repeat(200_000)
    );
    assert!(read_slice(skipped.as_bytes(), &limits).is_ok());
}

#[test]
fn what_should_list_the_components_and_is_no_list_is_refused_and_null_is_an_empty_list() {
    let spdx =
        |packages: Value| json!({ "spdxVersion": "SPDX-2.3", "SPDXID": "SPDXRef-DOCUMENT", "packages": packages });
    let nested = cyclonedx(json!([{ "purl": "pkg:npm/a@1", "components": 7 }]));
    for document in [cyclonedx(json!("x")), cyclonedx(json!({ "purl": "pkg:npm/q@1" })), nested, spdx(json!({}))] {
        assert!(matches!(read(&document), Err(SbomError::NotAList { .. })), "{document}");
    }
    for document in [cyclonedx(Value::Null), cyclonedx(json!([])), spdx(Value::Null)] {
        assert_eq!(read(&document).unwrap().components.len(), 0, "{document}");
    }
}
