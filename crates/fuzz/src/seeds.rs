//! Inputs that are right, or nearly: what the mutator begins with.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use roaring::RoaringBitmap;
use scheduler_impact_index::{Change, ImpactIndex, PutImage, Thresholds};
use scheduler_model::purl::Component;
use scheduler_model::{ImageDigest, ImagePlace, TenantId};
use std::collections::BTreeMap;

pub(crate) const PURLS: &[&str] = &[
    "pkg:npm/%40babel/core@7.22.0#lib/index.js",
    "pkg:npm/@babel/core#lib",
    "pkg:pypi/My--Pkg.Name_x@1.0",
    "pkg:deb/debian/libssl3@1:3.0.11-1%2Bdeb12u2?arch=amd64&distro=debian-12&upstream=openssl%403.0.11",
    "pkg:rpm/redhat/openssl-libs@3.0.7-1.el9?epoch=1&arch=x86_64&upstream=openssl-3.0.7-1.el9.src.rpm",
    "pkg:alpine/openssl@3.1.0?arch=x86_64",
    "pkg:golang/github.com/a/b@v1.0.0-0.20200101000000-abcdefabcdef+incompatible",
    "pkg:maven/org.Foo/Bar@2+3?repository_url=https:%2F%2Frepo.example.com&type=jar",
    "pkg:oci/cart@sha256:4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a?repository_url=r.example.com/cart",
    "pkg:generic/a%20b%25@1%25?checksum=sha1:ad%2Cmd5:ee&empty=",
    "pkg://GitHub/Foo/Bar@",
    "pkg:cpan/A::B@1",
    "pkg:huggingface/микромодель@ü",
];

pub(crate) const PURL_WORDS: &[&[u8]] = &[
    b"pkg:",
    b"%2F",
    b"%40",
    b"%",
    b"%zz",
    b"//",
    b"@",
    b"?epoch=",
    b"&upstream=",
    b"#",
    b"\xc3\xa9",
    b"%C3%A9",
    b"\xff",
];

pub(crate) const JSON_WORDS: &[&[u8]] = &[
    b"\"purl\":",
    b"\"components\":[",
    b"\"purls\":[",
    b"\"usedByEntrypoint\":[0]",
    b"\"schema\":\"bom-index@1\"",
    b"\"bomFormat\":\"CycloneDX\"",
    b"\"spdxVersion\":\"SPDX-2.3\"",
    b"\"@context\":\"https://spdx.org/rdf/3.0.1/spdx-context.jsonld\"",
    b"\"artifacts\":[",
    b"null",
    b"{}",
    b"[]",
    b"\\u0000",
    b"\\ud800",
    b"\xef\xbb\xbf",
    b"\"pkg:npm/a@1\"",
];

pub(crate) fn sidecars() -> Vec<Vec<u8>> {
    let digest = ImageDigest::of(b"cart");
    let bitmap = STANDARD.encode(bitmap(&[0, 2]));
    let documents = [
        format!(
            r#"{{"schema":"bom-index@1","imageDigest":"{digest}","generatedAt":"2026-01-01T00:00:00Z","image":{{"registry":"r.example.com","repository":"shop/cart","namespaces":["prod"],"tags":["1.0"],"labels":{{"team":"cart"}}}},"purls":["pkg:npm/a@1","pkg:deb/debian/b@2?upstream=c","pkg:npm/@x/y@3","",7],"usedByEntrypoint":[0,2]}}"#
        ),
        format!(
            r#"{{"imageDigest":"{digest}","usedByEntrypoint":"{bitmap}","purls":["pkg:npm/a","pkg:npm/b","pkg:npm/c"],"image":{{"repository":"b"}}}}"#
        ),
        r#"{"schema":"bom-index@1","purls":[]}"#.to_owned(),
    ];
    documents.map(String::into_bytes).to_vec()
}

pub(crate) fn sboms() -> Vec<Vec<u8>> {
    let documents = [
        r#"{"bomFormat":"CycloneDX","specVersion":"1.6","metadata":{"component":{"type":"container","name":"shop/cart","version":"1.0","purl":"pkg:oci/cart@1.0"}},"components":[{"type":"library","name":"a","purl":"pkg:npm/a@1","components":[{"purl":"pkg:npm/b@2","evidence":{"occurrences":[{"location":"/x"}]}}]},{"name":"none"},{"purl":"pkg:deb/debian/libssl3@3","properties":[{"name":"aquasecurity:trivy:SrcName","value":"openssl"}]}]}"#,
        r#"{"spdxVersion":"SPDX-2.3","name":"shop/cart","documentDescribes":["SPDXRef-i"],"packages":[{"SPDXID":"SPDXRef-i","name":"cart","externalRefs":[{"referenceCategory":"PACKAGE-MANAGER","referenceType":"purl","referenceLocator":"pkg:oci/cart@1"}]},{"SPDXID":"SPDXRef-a","name":"a","externalRefs":[{"referenceType":"purl","referenceLocator":"pkg:npm/a@1"}]}],"relationships":[{"spdxElementId":"SPDXRef-DOCUMENT","relationshipType":"DESCRIBES","relatedSpdxElement":"NOASSERTION"}]}"#,
        r#"{"@context":"https://spdx.org/rdf/3.0.1/spdx-context.jsonld","@graph":[{"type":"software_Package","spdxId":"urn:a","name":"a","software_packageUrl":"pkg:npm/a@1"},{"type":"SpdxDocument","rootElement":["urn:b"]},{"type":"software_Sbom","spdxId":"urn:b"}]}"#,
        r#"{"artifacts":[{"id":"1","name":"a","version":"1","purl":"pkg:npm/a@1"},{"purl":"pkg:rpm/fedora/b@2","metadata":{"sourceRpm":"c-2-1.src.rpm"}}],"source":{"type":"image","target":{"userInput":"shop/cart:1"}},"schema":{"version":"16.0.0"},"descriptor":{"name":"syft"}}"#,
    ];
    documents.map(|text| text.as_bytes().to_vec()).into_iter().chain(sidecars()).collect()
}

/// Bitmaps in the portable format: few numbers, many, and runs.
pub(crate) fn bitmaps() -> Vec<Vec<u8>> {
    let all: Vec<u32> = (0..90).collect();
    let mut runs: RoaringBitmap = (0..70_000).collect();
    runs.optimize();
    let mut with_runs = Vec::new();
    runs.serialize_into(&mut with_runs).unwrap();
    vec![bitmap(&[]), bitmap(&[0, 5, 99]), bitmap(&all), bitmap(&[0, 1 << 16, u32::MAX]), with_runs]
}

fn bitmap(numbers: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::new();
    numbers.iter().copied().collect::<RoaringBitmap>().serialize_into(&mut bytes).unwrap();
    bytes
}

/// Snapshots of an empty index and of one with a little of everything.
pub(crate) fn snapshots() -> Vec<Vec<u8>> {
    let tenants = ["default", "acme"].map(|name| TenantId::try_from(name.to_owned()).unwrap());
    let packages: Vec<Component> = PURLS.iter().filter_map(|purl| Component::parse(purl, None).ok()).collect();
    let positions: Vec<u32> = (0..).take(packages.len()).collect();
    let digests: Vec<ImageDigest> = (0..12_u8).map(|at| ImageDigest::of(&[at])).collect();
    let place = ImagePlace {
        registry: "r.example.com".to_owned(),
        repository: "shop/cart".to_owned(),
        namespaces: vec!["prod".to_owned()],
        tags: vec!["1.0".to_owned(), "latest".to_owned()],
        labels: BTreeMap::from([("team".to_owned(), "cart".to_owned())]),
    };
    let put = |sequence: u64, digest: usize, packages: usize| Change {
        sequence,
        timeline: 7,
        tenant: tenants.get(digest % 2).unwrap(),
        digest: digests.get(digest).unwrap(),
        put: (packages > 0).then_some(PutImage {
            place: &place,
            components: positions.get(..packages).unwrap_or(&positions),
            used: Some(&[0, 3]),
        }),
    };
    // Puts, two that replace others, and a deletion.
    let changes: Vec<Change<'_>> = (0..10)
        .map(|at| put(at + 1, usize::try_from(at).unwrap(), 3 + usize::try_from(at).unwrap()))
        .chain([put(11, 1, 2), put(12, 2, 2), put(13, 3, 0)])
        .collect();
    let index = ImpactIndex::in_memory(Thresholds { chunk_bytes: 100, ..Thresholds::default() });
    let mut snapshots = vec![Vec::new(), Vec::new()];
    for (snapshot, changes) in snapshots.iter_mut().zip([&[][..], &changes]) {
        index.apply(&packages, changes).unwrap();
        index.snapshot(snapshot).unwrap();
    }
    snapshots
}
