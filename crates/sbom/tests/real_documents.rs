//! Every published SBOM of the shared data is read, with the counts that its catalogue states.
#![expect(clippy::unwrap_used, reason = "test code")]

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use scheduler_sbom::{Document, Format, Limits, SbomError, read, read_slice};
use serde_json::Value;

fn shared() -> Option<PathBuf> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared");
    let root = std::env::var_os("SCHEDULER_SHARED").map_or_else(|| default.into(), PathBuf::from);
    let found = root.join("data/documents.jsonl").is_file();
    if !found {
        println!("skipped: no shared data");
    }
    found.then_some(root.join("data"))
}

fn bytes(path: &Path) -> Vec<u8> {
    let file = File::open(path).unwrap();
    let mut out = Vec::new();
    if path.extension().is_some_and(|end| end == "zst") {
        zstd::Decoder::new(file).unwrap().read_to_end(&mut out).unwrap();
    } else {
        BufReader::new(file).read_to_end(&mut out).unwrap();
    }
    out
}

/// The rows of the catalogue whose kind is one of these.
fn rows(data: &Path, kinds: &[&str]) -> Vec<Value> {
    let lines = BufReader::new(File::open(data.join("documents.jsonl")).unwrap()).lines();
    lines
        .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap())
        .filter(|row| kinds.contains(&row["kind"].as_str().unwrap()))
        .collect()
}

fn load(data: &Path, file: &str) -> Result<Document, SbomError> {
    read_slice(&bytes(&data.join(file)), &Limits::default())
}

/// Rows whose `noPurl` counts the described image too, which has no purl and is no component.
const IMAGE_WITHOUT_PURL: [&str; 3] = [
    "sbom/trivy/integration__testdata__fixtures__sbom__centos-7-spdx.json",
    "sbom/trivy/pkg__sbom__spdx__testdata__happy__empty-bom.json",
    "sbom/trivy/pkg__sbom__spdx__testdata__happy__os-only-bom.json",
];

/// The catalogue counts the purls of an SPDX document's described image, too; here they are the image's.
#[test]
fn published_sboms_give_the_counts_of_the_catalogue() {
    let Some(data) = shared() else { return };
    let mut wrong = Vec::new();
    let mut read_count = 0;
    for row in rows(&data, &["cdx", "cdx-vex", "spdx2", "spdx3", "syft"]) {
        let file = row["file"].as_str().unwrap();
        let kind = row["kind"].as_str().unwrap();
        let result = load(&data, file);
        if file.contains("invalid-") {
            continue;
        }
        let document = match result {
            Ok(document) => document,
            Err(error) => {
                wrong.push(format!("{file}: {error}"));
                continue;
            }
        };
        read_count += 1;
        let format = match kind {
            "spdx2" => Format::Spdx2,
            "spdx3" => Format::Spdx3,
            "syft" => Format::Syft,
            _ => Format::CycloneDx,
        };
        assert_eq!(document.format, format, "{file}");
        let mut purls: BTreeSet<&str> = document.components.iter().map(|c| c.purl.as_str()).collect();
        if kind == "spdx2" {
            purls.extend(document.image.purls.iter().map(String::as_str));
        }
        let image = u64::from(IMAGE_WITHOUT_PURL.contains(&file));
        let expected = (row["distinctPurls"].as_u64().unwrap(), row["noPurl"].as_u64().unwrap() - image);
        let found = (u64::try_from(purls.len()).unwrap(), document.no_purl);
        if found != expected {
            wrong.push(format!(
                "{file}: {found:?} instead of {expected:?}, image {:?}, {:?}",
                document.image.purls, document.notes
            ));
        }
    }
    assert!(wrong.is_empty(), "{read_count} read; wrong are {}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(read_count > 500, "only {read_count} documents were read");
}

#[test]
fn streaming_gives_the_same_as_reading_from_memory() {
    let Some(data) = shared() else { return };
    for row in rows(&data, &["cdx", "spdx2", "spdx3", "syft"]).iter().step_by(7) {
        let content = bytes(&data.join(row["file"].as_str().unwrap()));
        let streamed = read(content.as_slice(), &Limits::default()).map_err(|error| error.to_string());
        let at_once = read_slice(&content, &Limits::default()).map_err(|error| error.to_string());
        assert_eq!(streamed, at_once, "{}", row["file"]);
    }
}

#[test]
fn documents_that_are_no_sboms_are_refused_with_what_they_are() {
    let Some(data) = shared() else { return };
    for row in rows(&data, &["not-an-sbom", "openvex", "csaf"]) {
        let file = row["file"].as_str().unwrap();
        let error = load(&data, file).expect_err(file);
        assert!(matches!(error, SbomError::UnsupportedFormat { .. }), "{file}: {error}");
        let named = match row["kind"].as_str().unwrap() {
            "openvex" => "OpenVEX",
            "csaf" => "CSAF",
            _ => "unsupported document: ",
        };
        assert!(error.to_string().contains(named), "{file}: {error}");
    }
}

#[test]
fn images_are_known_by_what_each_tool_writes() {
    let Some(data) = shared() else { return };
    let check = |start: &str, digest: &str, registry: Option<&str>, repository: &str, tags: &[&str]| {
        let row =
            rows(&data, &["cdx", "spdx2"]).into_iter().find(|row| row["file"].as_str().unwrap().starts_with(start));
        let document = load(&data, row.expect(start)["file"].as_str().unwrap()).unwrap();
        let image = document.image;
        let found = image.digest.as_deref().unwrap_or_default();
        assert!(found.strip_prefix("sha256:").unwrap_or(found).starts_with(digest), "digest of {start}: {found}");
        assert_eq!(found.is_empty(), digest.is_empty(), "digest of {start}: {found}");
        assert_eq!(image.registry.as_deref(), registry, "registry of {start}");
        assert_eq!(image.repository.as_deref(), Some(repository), "repository of {start}");
        assert_eq!(image.tags, tags, "tags of {start}");
    };
    let hub = Some("index.docker.io");
    // CycloneDX by Syft, by Trivy with and without a purl.
    let syft = "sbom/guac/docs__cyclonedx__syft-cyclonedx-docker.io-library-alpine";
    check(syft, "1304f1745573", Some("docker.io"), "library/alpine", &["latest"]);
    let trivy = "sbom/trivy/pkg__fanal__analyzer__sbom__testdata__cdx.json";
    check(trivy, "d4b68b602eb3", hub, "bitnami/elasticsearch", &["8.7.1-debian-11-r7"]);
    let tags = &["centos-7"];
    let tagged = "sbom/trivy/integration__testdata__fixtures__sbom__centos-7-cyclonedx.json";
    check(tagged, "", Some("ghcr.io"), "aquasecurity/trivy-test-images", tags);
    // SPDX by Trivy in attribution texts, by Syft as root package and (older) in the document's name, by others as purl.
    let spdx = "sbom/trivy/integration__testdata__fixtures__sbom__centos-7-spdx.json";
    check(spdx, "", Some("ghcr.io"), "aquasecurity/trivy-test-images", tags);
    let old_trivy = "sbom/lab/in-the-lab__spdx-popular-containers__data__spdx-trivy-bitnami_rabbitmq";
    check(old_trivy, "c823ba36deec", None, "bitnami/rabbitmq", &[]);
    let root = "sbom/trustify/etc__test-data__syft-ubi-example__v1.json";
    check(root, "640c321b9231", Some("registry.access.redhat.com"), "ubi9/ubi", &["latest"]);
    let old_syft = "sbom/lab/in-the-lab__spdx-popular-containers__data__spdx-syft-grafana";
    check(old_syft, "b29f08d9210a", None, "grafana/fluent-bit-plugin-loki", &[]);
    let ubi = "sbom/trustify/etc__test-data__ubi9-9.2-755";
    check(ubi, "2f168398c538", Some("registry.redhat.io"), "ubi9", &["9.2-755.1697625012"]);
}

#[test]
fn real_components_carry_their_source_packages() {
    let Some(data) = shared() else { return };
    let check = |file: &str, purl: &str, name: &str, version: Option<&str>| {
        let document = load(&data, file).unwrap();
        let component = document.components.iter().find(|c| c.purl.starts_with(purl)).expect(purl);
        let source = component.source.as_ref().expect(purl);
        assert_eq!((source.name.as_str(), source.version.as_deref()), (name, version), "{purl} in {file}");
    };
    let cdx = "sbom/trivy/integration__testdata__fixtures__sbom__centos-7-cyclonedx.json";
    check(cdx, "pkg:rpm/centos/openssl-libs@", "openssl", Some("1:1.0.2k-16.el7"));
    let spdx = "sbom/trivy/integration__testdata__fixtures__sbom__centos-7-spdx.json";
    check(spdx, "pkg:rpm/centos/bash@", "bash", Some("4.2.46-31.el7"));
    let syft = "sbom/generated/img-nginx-light.syft.json.zst";
    check(syft, "pkg:deb/debian/bsdutils@", "util-linux", Some("2.38.1-5+deb12u3"));
    let syft_cdx = "sbom/generated/img-nginx-light.cdx.json.zst";
    check(syft_cdx, "pkg:deb/debian/bsdutils@", "util-linux", Some("2.38.1-5+deb12u3"));
}
