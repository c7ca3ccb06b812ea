//! The OpenAPI document against the service. Every answer that any test here gets is held against it too.

use crate::service::Service;
use reqwest::Method;
use serde_json::{Value, json};
use std::process::Command;
use std::sync::LazyLock;

/// The document as the binary prints it.
static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let printed = Command::new(env!("CARGO_BIN_EXE_stella-scheduler")).arg("openapi").output().unwrap();
    serde_json::from_slice(&printed.stdout).unwrap()
});

const METHODS: [Method; 5] = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

/// The item of the document that an address belongs to; one without parameters goes first.
fn item(address: &str) -> Option<&'static Value> {
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let fits = |path: &str| {
        let (path, address) = (path.split('/'), address.split('/'));
        path.clone().count() == address.clone().count()
            && path.zip(address).all(|(wanted, part)| wanted == part || (wanted.starts_with('{') && !part.is_empty()))
    };
    paths.get(address).or_else(|| paths.iter().find(|(path, _)| fits(path)).map(|(_, item)| item))
}

/// Fails when a documented operation answers a status that its description does not have.
pub fn expect_documented(method: &Method, address: &str, status: u16) {
    let Some(item) = item(address) else { return };
    let Some(operation) = item.get(method.as_str().to_lowercase()) else { return };
    assert!(
        !operation["responses"][status.to_string()].is_null(),
        "{method} {address} answered {status}, which the OpenAPI document does not have"
    );
}

#[tokio::test]
async fn the_document_has_every_operation_and_no_other() {
    let service = Service::start(json!({})).await;
    let client = service.client("default");
    let http = reqwest::Client::new();
    let served = client.get("/openapi.json").await;
    assert_eq!(served.body, *DOCUMENT, "the printed document is the served one");
    assert!(DOCUMENT["openapi"].as_str().unwrap().starts_with("3.1"));
    for (path, item) in DOCUMENT["paths"].as_object().unwrap() {
        let address = path.replace("{id}", "none").replace("{digest}", &format!("sha256:{}", "0".repeat(64)));
        for method in METHODS {
            let documented = !item[method.as_str().to_lowercase()].is_null();
            let request = http.request(method.clone(), format!("{}{address}", client.address()));
            // Of a stream the headers are enough.
            let answer = request.send().await.unwrap();
            assert_eq!(answer.status() != 405, documented, "{method} {path} is {}", answer.status());
        }
    }
    assert_eq!(client.get("/no-such-thing").await.status, 404);
}

#[test]
fn every_operation_is_described_for_people_and_machines() {
    let mut ids = std::collections::BTreeSet::new();
    for (path, item) in DOCUMENT["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(ids.insert(id), "{id} is there twice");
            assert!(operation["summary"].as_str().is_some_and(|summary| summary.len() > 5), "{method} {path}: summary");
            let described = operation["parameters"].as_array().into_iter().flatten();
            for parameter in described {
                assert!(parameter["name"].as_str().is_some(), "{method} {path}: {parameter}");
            }
            let tenant = path.starts_with("/api/") && !path.contains("/admin/") && !path.ends_with("-export");
            let header = operation["parameters"].to_string().contains("X-Tenant-Id");
            assert_eq!(tenant, header, "{method} {path}: X-Tenant-Id");
        }
    }
    assert!(ids.len() > 25, "{ids:?}");
}

/// The table of routes is the only place where one is added, and only with its description.
#[test]
fn no_route_is_added_beside_the_document() {
    let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../web/src");
    for file in std::fs::read_dir(sources).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        for way in [".route(", ".route_service(", ".nest_service(", ".routes(routes!("] {
            let allowed = way.ends_with("routes!(") && path.ends_with("lib.rs");
            assert!(allowed || !text.contains(way), "{} adds a route by `{way}`", path.display());
        }
    }
}
