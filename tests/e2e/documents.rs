//! Every published SBOM of the shared data goes in over HTTP, with the counts that its catalogue states.

use crate::catalog::digest;
use crate::client::Client;
use crate::service::Service;
use reqwest::Method;
use scheduler_model::purl::Purl;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Rows whose `noPurl` counts the described image too, which has no purl and is no component.
const IMAGE_WITHOUT_PURL: [&str; 3] = [
    "sbom/trivy/integration__testdata__fixtures__sbom__centos-7-spdx.json",
    "sbom/trivy/pkg__sbom__spdx__testdata__happy__empty-bom.json",
    "sbom/trivy/pkg__sbom__spdx__testdata__happy__os-only-bom.json",
];

fn shared() -> Option<PathBuf> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let data = std::env::var_os("SCHEDULER_SHARED").map_or(default, PathBuf::from).join("data");
    let found = data.join("documents.jsonl").is_file();
    if !found {
        println!("skipped: no shared data");
    }
    found.then_some(data)
}

fn content(data: &Path, row: &Value) -> Vec<u8> {
    let path = data.join(row["file"].as_str().unwrap());
    let stored = std::fs::read(&path).unwrap();
    if path.extension().is_none_or(|end| end != "zst") {
        return stored;
    }
    let mut plain = Vec::new();
    zstd::Decoder::new(stored.as_slice()).unwrap().read_to_end(&mut plain).unwrap();
    plain
}

/// What is left of a document's distinct purls without those that cannot be read and those that are one after canonical
/// form; and how many of each kind there were.
fn expected(body: &[u8], row: &Value) -> (u64, u64, u64) {
    let document = scheduler_sbom::read_slice(body, &scheduler_sbom::Limits::default()).unwrap();
    let raw: BTreeSet<&str> = document.components.iter().map(|component| component.purl.as_str()).collect();
    let read: Vec<Purl> =
        raw.iter().filter_map(|purl| Purl::parse_lenient(purl).ok()).map(|parsed| parsed.purl).collect();
    let distinct: BTreeSet<String> = read.iter().map(ToString::to_string).collect();
    // The purl of the image that an SPDX document describes is in the catalogue's count, and no component.
    let image = document.image.purls.iter().filter(|purl| !raw.contains(purl.as_str())).count();
    let image = if row["kind"] == "spdx2" { image } else { 0 };
    assert_eq!(Some((raw.len() + image) as u64), row["distinctPurls"].as_u64(), "{}", row["file"]);
    (distinct.len() as u64, (raw.len() - read.len()) as u64, (read.len() - distinct.len()) as u64)
}

async fn put(client: &Client, number: usize, body: Vec<u8>) -> crate::client::Answer {
    let path = format!("/images/{}/sbom?repository=documents/r{number}", digest(number));
    client.send(client.request(Method::PUT, &path).body(body)).await
}

#[tokio::test]
async fn published_sboms_go_in_with_the_counts_of_their_catalogue() {
    let Some(data) = shared() else { return };
    let service = Service::start(json!({})).await;
    let client = service.client("alpha");
    let rows = std::fs::read_to_string(data.join("documents.jsonl")).unwrap();
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (mut taken, mut wrong, mut bad, mut same) = (0, Vec::new(), 0, 0);
    for (number, row) in rows.iter().enumerate() {
        let (file, kind) = (row["file"].as_str().unwrap(), row["kind"].as_str().unwrap());
        let body = content(&data, row);
        let answer = put(&client, number, body.clone()).await;
        let is_sbom = ["cdx", "cdx-vex", "spdx2", "spdx3", "syft"].contains(&kind);
        if file.contains("invalid") || !is_sbom {
            // One that breaks its schema may be good enough; what is no SBOM never is.
            let refused = (400..500).contains(&answer.status) && !answer.code().is_empty();
            assert!(refused || (is_sbom && answer.is_success()), "{file}: {} {}", answer.status, answer.text);
            continue;
        }
        assert_eq!(answer.status, 201, "{file}: {}", answer.text);
        taken += 1;
        let (distinct, unreadable, twice) = expected(&body, row);
        bad += unreadable;
        same += twice;
        let counts = ["components", "noPurl"].map(|name| answer.body[name].as_u64().unwrap());
        let nameless = row["noPurl"].as_u64().unwrap() - u64::from(IMAGE_WITHOUT_PURL.contains(&file));
        let skipped: BTreeSet<&str> =
            answer.body["skipped"].as_array().unwrap().iter().map(|one| one["purl"].as_str().unwrap()).collect();
        if counts != [distinct, nameless] || skipped.len() as u64 != unreadable {
            wrong.push(format!("{file}: {counts:?} for [{distinct}, {nameless}], skipped {skipped:?}"));
        }
    }
    println!("{taken} documents taken; purls that cannot be read: {bad}, the same after canonical form: {same}");
    assert!(wrong.is_empty(), "{} of {taken}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(taken > 500, "only {taken} documents were taken");
}
