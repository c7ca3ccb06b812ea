//! The page of events, held against the service: its exports are taken whole, its members are those that there are, and its event
//! is one as they come.

use crate::catalog::{digest, sidecar_of};
use crate::client::PATIENCE;
use crate::durability::unhurried;
use crate::markdown::blocks;
use crate::pages::root;
use crate::service::Service;
use crate::sse::Stream;
use scheduler_testkit::scanner::{HttpReply, HttpScannerServer};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tokio::time::timeout;

/// Every member of a document, by its path; elements of a list are one.
fn members(value: &Value, at: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(of) => {
            for (name, below) in of {
                let path = format!("{at}/{name}");
                found.insert(path.clone());
                members(below, &path, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| members(item, at, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn members_of(value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    members(value, "", &mut found);
    found
}

/// The members that the OpenAPI document gives to a schema.
fn described(openapi: &Value, schema: &str) -> Vec<String> {
    let properties = openapi["components"]["schemas"][schema]["properties"].as_object();
    properties.unwrap_or_else(|| panic!("no schema {schema}")).keys().cloned().collect()
}

/// A report with everything that a scanner can say of news.
fn full_report() -> Value {
    json!({
        "verdict": "fail", "reportUrl": "https://reports.example.com/1", "attestation": { "uuid": "u-1", "verified": true },
        "delta": {
            "newFindings": 1, "newCriticals": 1, "kevHits": ["CVE-2026-1234"],
            "topFindings": [{
                "purl": "pkg:deb/debian/openssl@1", "vulnId": "CVE-2026-1234", "severity": "critical", "link": "https://a.example.com",
            }],
        },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_of_events_says_what_the_service_takes_and_tells() {
    let page = std::fs::read_to_string(root().join("docs/reference/events.md")).unwrap();
    let documents = blocks(&page).into_iter().filter(|block| block.language() == "json");
    let documents: Vec<Value> = documents.map(|block| serde_json::from_str(&block.text).unwrap()).collect();
    let scanner = HttpScannerServer::start(|_| HttpReply::json(&full_report()));
    let service = Service::start(unhurried(&scanner.url())).await;
    let client = service.client("default");
    let image = sidecar_of(1, &["pkg:deb/debian/openssl@1".to_owned()]);
    client.put(&format!("/images/{}/bom-index", digest(1)), &image).await;
    client.subscribe("all").await;

    let member = |source: &str| if source == "feedser" { "changedProductKeys" } else { "changedClaims" };
    for source in ["feedser", "vexer"] {
        let export = documents.iter().find(|document| document.get(member(source)).is_some()).unwrap();
        let answer = client.post_event(source, export).await;
        assert_eq!((answer.status, &answer.body["skipped"]), (202, &json!([])), "{}", answer.text);
    }
    let openapi = client.get("/openapi.json").await.body;
    for schema in ["FeedserExport", "VexerExport", "Change", "Claim"] {
        for name in described(&openapi, schema) {
            let told = page.contains(&format!("\"{name}\":"));
            assert!(told, "{name} of {schema} is not on the page");
        }
    }

    let mut stream = Stream::open(&client, Some(0)).await.unwrap();
    let delta = loop {
        let event = timeout(PATIENCE, stream.next()).await.unwrap().unwrap();
        assert!(page.contains(&format!("| `{}` |", event.kind)), "{} is not on the page", event.kind);
        if event.kind == "rescan.delta" {
            break event.data;
        }
    };
    let told = documents.iter().find(|document| document["type"] == "scheduler.rescan.delta").unwrap();
    assert_eq!(members_of(told), members_of(&delta));
}
