//! The image that a document describes: no component, but the source of the image's facts.
#![expect(clippy::unwrap_used, reason = "test code")]

use scheduler_sbom::{Document, Limits, Note, read_slice};
use serde_json::{Value, json};

fn read(document: &Value) -> Document {
    read_slice(document.to_string().as_bytes(), &Limits::default()).unwrap()
}

fn purls(document: &Document) -> Vec<&str> {
    document.components.iter().map(|component| component.purl.as_str()).collect()
}

fn sha(digit: char) -> String {
    format!("sha256:{}", String::from(digit).repeat(64))
}

#[test]
fn cyclonedx_root_is_no_component_but_what_lies_under_it_is() {
    let document = read(&json!({
        "metadata": { "timestamp": "2025-10-18T03:12:45Z",
            "properties": [{ "name": "syft:image:labels:team", "value": "cart" }],
            "component": { "type": "container", "name": "registry.example.com/shop/cart:1", "version": sha('a'),
                "components": [{ "purl": "pkg:npm/under-root@1" }, { "name": "plain" }],
                "properties": [{ "name": "aquasecurity:trivy:Labels:tier", "value": "web" },
                               { "name": "aquasecurity:trivy:ImageID", "value": sha('f') }] } },
        "components": [{ "purl": "pkg:npm/beside@1" }], "specVersion": "1.5", "bomFormat": "CycloneDX" }));
    assert_eq!(purls(&document), ["pkg:npm/beside@1", "pkg:npm/under-root@1"]);
    assert_eq!(document.no_purl, 1);
    let image = document.image;
    assert_eq!(image.digest, Some(sha('a')));
    assert_eq!(image.registry.as_deref(), Some("registry.example.com"));
    assert_eq!(image.repository.as_deref(), Some("shop/cart"));
    assert_eq!(image.tags, ["1"]);
    assert_eq!(image.labels.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>(), ["team=cart", "tier=web"]);
    assert_eq!(image.generated_at.as_deref(), Some("2025-10-18T03:12:45Z"));
}

#[test]
fn members_may_come_in_any_order() {
    let component = r#""components":[{"purl":"pkg:npm/a@1"}]"#;
    let root = format!(r#""metadata":{{"component":{{"version":"{}","name":"cart","type":"container"}}}}"#, sha('a'));
    let names = r#""bomFormat":"CycloneDX","specVersion":"1.6""#;
    for order in [[component, &root, names], [names, &root, component], [&root, names, component]] {
        let text = format!("{{{}}}", order.join(","));
        let document = read_slice(text.as_bytes(), &Limits::default()).unwrap();
        assert_eq!((purls(&document), document.image.digest.clone()), (vec!["pkg:npm/a@1"], Some(sha('a'))), "{text}");
    }
}

#[test]
fn cyclonedx_root_that_is_no_image_gives_no_facts() {
    let document = read(&json!({ "bomFormat": "CycloneDX", "specVersion": "1.5",
        "metadata": { "component": { "type": "application", "name": "shop/cart:1", "purl": "pkg:npm/cart@1" } } }));
    assert_eq!((document.image.repository, document.no_purl, document.components.len()), (None, 0, 0));
}

#[test]
fn cyclonedx_reference_that_is_an_image_purl_serves_as_one() {
    let bom_ref = format!("pkg:oci/cart@{}?repository_url=registry.example.com%2Fshop%2Fcart", sha('b'));
    let document = read(&json!({ "bomFormat": "CycloneDX", "specVersion": "1.5",
        "metadata": { "component": { "bom-ref": bom_ref, "name": "the cart" } } }));
    assert_eq!((document.image.digest, document.image.repository.as_deref()), (Some(sha('b')), Some("shop/cart")));
}

fn spdx(packages: &Value, relations: &Value, describes: &Value) -> Document {
    read(
        &json!({ "spdxVersion": "SPDX-2.3", "relationships": relations, "documentDescribes": describes, "packages": packages }),
    )
}

fn package(id: &str, purls: &[&str]) -> Value {
    let refs: Vec<Value> = purls
        .iter()
        .map(
            |purl| json!({ "referenceCategory": "PACKAGE_MANAGER", "referenceType": "purl", "referenceLocator": purl }),
        )
        .collect();
    json!({ "SPDXID": id, "name": "x", "externalRefs": refs })
}

#[test]
fn spdx_image_that_is_described_is_taken_out_whichever_way_it_is_described() {
    let oci = format!("pkg:oci/cart@{}?repository_url=registry.example.com/shop/cart&tag=1", sha('a'));
    let packages = json!([
        package("SPDXRef-a", &["pkg:npm/a@1"]),
        package("SPDXRef-i", &[&oci, "pkg:oci/other"]),
        package("SPDXRef-b", &["pkg:npm/b@1"])
    ]);
    let describes = |kind: &str, from: &str, to: &str| json!([{ "spdxElementId": from, "relationshipType": kind, "relatedSpdxElement": to }]);
    let document = "SPDXRef-DOCUMENT";
    for (relations, list) in [
        (describes("DESCRIBES", document, "SPDXRef-i"), json!([])),
        (describes("DESCRIBE", document, "SPDXRef-i"), json!([])),
        (describes("DESCRIBED_BY", "SPDXRef-i", document), json!(null)),
        (json!([]), json!(["SPDXRef-i"])),
    ] {
        let read = spdx(&packages, &relations, &list);
        assert_eq!(purls(&read), ["pkg:npm/a@1", "pkg:npm/b@1"]);
        assert_eq!(read.image.purls, [oci.as_str(), "pkg:oci/other"]);
        assert_eq!((read.image.repository.as_deref(), read.image.tags), (Some("shop/cart"), vec!["1".to_owned()]));
        assert_eq!((read.image.digest, read.no_purl), (Some(sha('a')), 0));
    }
    let elsewhere = spdx(&packages, &describes("CONTAINS", document, "SPDXRef-i"), &json!(["SPDXRef-a"]));
    assert_eq!(elsewhere.components.len(), 4, "neither an image that is not described nor another described package");
    assert_eq!(elsewhere.image.repository, None);
}

#[test]
fn spdx_container_without_purl_is_the_image_and_is_not_counted() {
    let mut image = package("SPDXRef-i", &[]);
    image["primaryPackagePurpose"] = json!("CONTAINER");
    image["annotations"] = json!([{ "comment": format!("RepoDigest: registry.example.com/shop/cart@{}", sha('c')) }]);
    let read = spdx(&json!([image, package("SPDXRef-p", &[])]), &json!([]), &json!(["SPDXRef-i", "SPDXRef-p"]));
    assert_eq!(
        (read.no_purl, read.image.digest, read.image.repository.as_deref()),
        (1, Some(sha('c')), Some("shop/cart"))
    );
}

#[test]
fn several_described_images_are_noted_and_the_first_gives_the_facts() {
    let packages = json!([
        package("SPDXRef-1", &["pkg:oci/one?tag=1"]),
        package("SPDXRef-a", &["pkg:npm/a@1"]),
        package("SPDXRef-2", &["pkg:oci/two"])
    ]);
    let read = spdx(&packages, &json!([]), &json!(["SPDXRef-1", "SPDXRef-2"]));
    assert_eq!((purls(&read), read.image.purls[0].as_str()), (vec!["pkg:npm/a@1"], "pkg:oci/one?tag=1"));
    assert_eq!(read.notes, [Note::SeveralImages(2)]);
}

#[test]
fn spdx_3_purls_types_and_roots_are_read_in_every_spelling() {
    let external =
        |kind: &str, purl: &str| json!([{ "externalIdentifierType": kind, "identifier": purl }, "urn:elsewhere", 4]);
    let document = read(&json!({
        "@context": "https://spdx.org/rdf/3.0.1/spdx-context.jsonld",
        "@graph": [
            "urn:only-a-name",
            { "software_packageUrl": "pkg:npm/a@1", "spdxId": "urn:a", "type": "software_Package",
              "externalIdentifier": external("packageUrl", "pkg:npm/a@1") },
            { "@type": ["https://spdx.org/rdf/3.0.1/terms/Software/Package"], "externalIdentifier": external("purl", "pkg:npm/b@1") },
            { "type": "software_Package", "externalIdentifier": external("cpe23", "cpe:2.3:a:x") },
            { "type": "software_File", "software_packageUrl": "pkg:npm/no-package@1" },
            { "type": "software_Package", "software_packageUrl": "pkg:deb/debian/libssl3@1", "software_sourceInfo": "built package from: openssl 1.1" },
            { "type": "software_Package", "@id": "urn:image", "software_primaryPurpose": "container", "name": "registry.example.com/shop/cart:1" },
            { "type": "software_Sbom", "rootElement": ["urn:image"] },
            { "type": "CreationInfo", "@id": "_:c", "specVersion": "3.0.1", "created": "2025-10-18T03:12:45Z" }
        ] }));
    assert_eq!(purls(&document), ["pkg:npm/a@1", "pkg:npm/b@1", "pkg:deb/debian/libssl3@1"]);
    assert_eq!(document.components[2].source.as_ref().unwrap().name, "openssl");
    assert_eq!(document.no_purl, 1);
    assert_eq!((document.image.repository.as_deref(), document.image.tags), (Some("shop/cart"), vec!["1".to_owned()]));
    assert_eq!(document.image.generated_at.as_deref(), Some("2025-10-18T03:12:45Z"));
}

#[test]
fn syft_images_are_read_in_the_old_and_the_new_schema() {
    let target = json!({ "userInput": "registry.example.com/shop/cart:1", "manifestDigest": sha('a'), "imageID": sha('f'),
        "tags": ["registry.example.com/shop/cart:1"], "labels": { "team": "cart", "n": 1 },
        "repoDigests": [format!("registry.example.com/shop/cart@{}", sha('b'))] });
    for member in ["target", "metadata"] {
        let document = read(
            &json!({ "source": { "type": "image", member: target }, "artifacts": [], "schema": { "version": "6.0.0" } }),
        );
        let image = document.image;
        assert_eq!((image.digest, image.repository.as_deref()), (Some(sha('a')), Some("shop/cart")));
        assert_eq!((image.tags, image.labels.len()), (vec!["1".to_owned()], 1));
    }
    let folder = json!({ "source": { "type": "directory", "target": "/srv/cart" }, "artifacts": [], "schema": { "version": "6.0.0" } });
    assert_eq!(read(&folder).image.repository, None);
}

#[test]
fn syft_metadata_names_the_source_package() {
    let artifact = |purl: &str, metadata: Value| json!({ "purl": purl, "metadata": metadata });
    let document = read(&json!({ "schema": { "version": "16.0.18" }, "artifacts": [
        artifact("pkg:deb/debian/libssl3@3.0.11-1", json!({ "source": "openssl", "sourceVersion": "3.0.11-1+src" })),
        artifact("pkg:rpm/redhat/glibc-common@2.34", json!({ "sourceRpm": "glibc-2.34-60.el9.src.rpm" })),
        artifact("pkg:apk/alpine/libcrypto3@3.1.4-r5", json!({ "originPackage": "openssl-apk" })),
        artifact("pkg:cargo/serde@1", json!({ "source": "registry+https://example.com" })),
    ] }));
    let sources: Vec<_> = document
        .components
        .iter()
        .map(|c| c.source.as_ref().map(|s| (s.name.as_str(), s.version.as_deref())))
        .collect();
    let expected = [
        Some(("openssl", Some("3.0.11-1+src"))),
        Some(("glibc", Some("2.34-60.el9"))),
        Some(("openssl-apk", None)),
        None,
    ];
    assert_eq!(sources, expected);
}
