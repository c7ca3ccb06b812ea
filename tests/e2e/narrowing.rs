//! Ranges of affected versions, from the webhook to the run, and what a preview says of them.

use crate::catalog::{digest, sidecar_of};
use crate::client::{Client, eventually};
use crate::service::Service;
use serde_json::{Value, json};

/// Four images with a package in one version each; the last one's nobody understands.
const VERSIONS: [&str; 4] = ["1.0.0", "2.0.0", "3.0.0", "latest"];

async fn service(narrow: bool) -> Service {
    let service = Service::start(json!({
        "events": { "debounceSeconds": 0 },
        "impactIndex": { "narrowByRange": narrow },
    }))
    .await;
    let client = service.client("default");
    for (number, version) in VERSIONS.iter().enumerate() {
        let sidecar = sidecar_of(number, &[format!("pkg:npm/a@{version}"), "pkg:npm/b@1.0.0".to_owned()]);
        let put = client.put(&format!("/images/{}/bom-index", digest(number)), &sidecar).await;
        assert_eq!(put.status, 201, "{}", put.text);
    }
    client.subscribe("all").await;
    service
}

/// What the run of an export has been planned to.
async fn planned(client: &Client, export: &Value) -> (u64, u64) {
    let answer = client.post_event("feedser", export).await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    let run = eventually("a planned run", async || {
        let runs = client.all("/runs").await;
        runs.into_iter().find(|run| run["state"] != "planning")
    })
    .await;
    (run["stats"]["candidates"].as_u64().unwrap(), run["stats"]["narrowedAway"].as_u64().unwrap())
}

fn changes(of: &[(&str, Option<&str>)]) -> Vec<Value> {
    let change = |(number, (key, affected)): (usize, &(&str, Option<&str>))| json!({ "productKey": key, "vulnId": format!("CVE-2026-{number}"), "severity": "high", "affected": affected });
    of.iter().enumerate().map(change).collect()
}

fn export(keys: &[&str], of: &[(&str, Option<&str>)]) -> Value {
    json!({ "exportId": "e-1", "changedProductKeys": keys, "changes": changes(of) })
}

const TWO_VULNERABILITIES: [(&str, Option<&str>); 2] =
    [("pkg:npm/a", Some("vers:npm/<1.5.0")), ("pkg:npm/a", Some("vers:npm/>=3.0.0|<3.5.0"))];

#[tokio::test]
async fn p01_a_run_leaves_out_the_images_that_no_range_of_their_keys_can_mean() {
    for (narrow, keys, of, expected) in [
        // Two vulnerabilities of one key: what one of them may affect is asked for.
        (true, vec!["pkg:npm/a"], TWO_VULNERABILITIES.to_vec(), (3, 1)),
        (false, vec!["pkg:npm/a"], TWO_VULNERABILITIES.to_vec(), (4, 0)),
        // A change without a range, and a changed key without a change.
        (true, vec![], [&TWO_VULNERABILITIES[..], &[("pkg:npm/a", None)]].concat(), (4, 0)),
        (true, vec!["pkg:npm/b"], TWO_VULNERABILITIES.to_vec(), (4, 0)),
        // A range of another ecosystem says nothing.
        (true, vec![], vec![("pkg:npm/a", Some("vers:deb/<1.0"))], (4, 0)),
    ] {
        let service = service(narrow).await;
        let found = planned(&service.client("default"), &export(&keys, &of)).await;
        assert_eq!(found, expected, "narrow: {narrow}, {keys:?} and {of:?}");
    }
}

#[tokio::test]
async fn a_preview_says_what_keys_found_what_and_what_ranges_leave_out() {
    let service = service(false).await;
    let client = service.client("default");
    let asked = json!({ "changes": changes(&TWO_VULNERABILITIES).iter().map(|change| json!({
        "productKey": change["productKey"], "affected": change["affected"],
    })).collect::<Vec<_>>(), "keys": ["pkg:npm/b@1.0.0"], "narrowByRange": true });
    let answer = client.post("/preview/impact", &asked).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let explain = answer.body["explain"].as_array().unwrap();
    assert_eq!(explain.len(), 2, "{explain:?}");
    assert_eq!(explain[0]["key"], "pkg:npm/b@1.0.0");
    assert_eq!(explain[0]["how"], json!(["exact"]));
    assert_eq!((&explain[1]["images"], &explain[1]["narrowedAway"]), (&json!(3), &json!(1)));
    assert_eq!(explain[1]["how"], json!(["all-versions"]));
    assert_eq!(explain[1]["packagesTotal"], 3);
    assert_eq!(answer.body["narrowedAway"], 0, "the other key has every image");
    let second = answer.body["sample"].as_array().unwrap().iter().find(|one| one["imageDigest"] == digest(1)).unwrap();
    let expected = json!([{ "key": "pkg:npm/b@1.0.0", "purl": "pkg:npm/b@1.0.0", "source": null, "how": ["exact"] }]);
    assert_eq!(second["matches"], expected);

    let narrow = |on: Option<bool>| json!({ "changes": [{ "productKey": "pkg:npm/a", "affected": "vers:npm/<1.5.0" }], "narrowByRange": on });
    for (on, candidates, narrowed_away) in [(Some(true), 2, 2), (Some(false), 4, 0), (None, 4, 0)] {
        let answer = client.post("/preview/impact", &narrow(on)).await;
        assert_eq!(answer.body["candidates"], candidates, "{}", answer.text);
        assert_eq!(answer.body["narrowedAway"], narrowed_away, "{}", answer.text);
    }
    for (size, status) in [(500, 200), (501, 400)] {
        let answer = client.post("/preview/impact", &json!({ "explainSize": size })).await;
        assert_eq!(answer.status, status, "{}", answer.text);
    }
    let refused = client.post("/preview/impact", &json!({ "changes": [{ "productKey": "none" }] })).await;
    assert_eq!((refused.status, &refused.body["errors"][0]["pointer"]), (400, &json!("/changes/0/productKey")));
}

#[tokio::test]
async fn a_preview_counts_distinct_keys_and_names_them_as_they_were_sent() {
    let service = Service::start(json!({})).await;
    let client = service.client("default");
    for (number, purl) in ["pkg:npm/%40scope/x@1%2B2", "pkg:npm/%40scope/y@1.0.0"].into_iter().enumerate() {
        let put =
            client.put(&format!("/images/{}/bom-index", digest(number)), &sidecar_of(number, &[purl.to_owned()])).await;
        assert_eq!(put.status, 201, "{}", put.text);
    }
    let preview = async |keys: Value, changes: Value| {
        let asked = json!({ "keys": keys, "changes": changes, "narrowByRange": true });
        let answer = client.post("/preview/impact", &asked).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let body = answer.body;
        let counts =
            ["candidates", "keysMatched", "keysUnknown", "narrowedAway"].map(|name| body[name].as_u64().unwrap());
        let named = |list: &str| -> Vec<Value> {
            body[list]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one.get("key").unwrap_or(&one["matchedKeys"]).clone())
                .collect()
        };
        assert!(body["sample"].as_array().unwrap().iter().all(|one| one["matches"][0]["key"] == one["matchedKeys"][0]));
        (counts, named("explain"), named("sample"))
    };
    // Two spellings and a double of one that is known, a double of one that is not.
    let (x, spelled, unknown) = ("pkg:npm/@scope/x@1+2", "pkg:npm/%40scope/x@1%2B2", "pkg:npm/none");
    for (first, second) in [(x, spelled), (spelled, x)] {
        let found = preview(json!([unknown, first, second, first, unknown]), Value::Null).await;
        assert_eq!(found, ([1, 1, 1, 0], vec![json!(first)], vec![json!([first])]), "{first} before {second}");
    }
    // A key and a change of it: the key asks for all versions, whatever the range of the change.
    let (y, change) =
        ("pkg:npm/@scope/y", json!([{ "productKey": "pkg:npm/%40scope/y", "affected": "vers:npm/>1.0.0" }]));
    assert_eq!(preview(json!([y]), change.clone()).await, ([1, 1, 0, 0], vec![json!(y)], vec![json!([y])]));
    // Changes alone are told as they were sent too, and narrowed.
    let change =
        json!([{ "productKey": y, "affected": "vers:npm/>1.0.0" }, { "productKey": y, "affected": "vers:npm/>2.0.0" }]);
    assert_eq!(preview(json!([]), change).await, ([0, 1, 0, 1], vec![json!(y)], vec![]));
}
