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

/// A schema under a reference, with the references of its members resolved.
fn schema(name: &str) -> &'static Value {
    &DOCUMENT["components"]["schemas"][name]
}

#[tokio::test]
async fn the_bounds_of_numbers_are_those_of_the_service() {
    let service = Service::start(json!({})).await;
    let client = service.client("default");
    let limits = schema("RunLimits")["properties"].as_object().unwrap();
    let bounds = |schema: &Value| (schema["minimum"].as_i64().unwrap(), schema["maximum"].as_i64().unwrap());
    for (member, schema) in limits {
        let (least, most) = bounds(schema);
        for (value, status) in [(least - 1, 400), (least, 201), (most, 201), (most + 1, 400)] {
            let body = json!({ "name": format!("{member}-{value}"), "limits": { member: value } });
            assert_eq!(client.post("/schedules", &body).await.status, status, "{body}");
        }
    }
    let (least, most) = bounds(&schema("OnlyIf")["properties"]["lastReportOlderThanDays"]);
    for (value, status) in [(least - 1, 400), (least, 201), (most, 201), (most + 1, 400)] {
        let body = json!({ "name": format!("age-{value}"), "onlyIf": { "lastReportOlderThanDays": value } });
        assert_eq!(client.post("/schedules", &body).await.status, status, "{body}");
    }
    for (name, body, member, path, good) in [
        ("NewSchedule", json!({ "name": "jitter" }), "jitterSeconds", "/schedules", 201),
        ("Clock", json!({ "whenCron": "@daily" }), "count", "/schedules/preview", 200),
        ("Preview", json!({}), "sampleSize", "/preview/impact", 200),
    ] {
        let (least, most) = bounds(&schema(name)["properties"][member]);
        for (value, status) in [(least - 1, 400), (least, good), (most, good), (most + 1, 400)] {
            let mut body = body.clone();
            body[member] = value.into();
            if name == "NewSchedule" {
                body["name"] = format!("{member}-{value}").into();
            }
            assert_eq!(client.post(path, &body).await.status, status, "{body}");
        }
    }
}

/// Null takes any member of a schedule away, and is refused for one that there is not.
#[tokio::test]
async fn a_patch_takes_every_member_away_and_no_other() {
    let service = Service::start(json!({})).await;
    let client = service.client("default");
    let id = client.subscribe("patched").await;
    let address = format!("/schedules/{id}");
    let members = schema("SchedulePatch")["properties"].as_object().unwrap();
    let nested = [("selection", "Selection"), ("onlyIf", "OnlyIf"), ("notify", "NotifyRule"), ("limits", "RunLimits")];
    let mut good: Vec<Value> =
        members.keys().filter(|name| *name != "name").map(|name| json!({ name: null })).collect();
    for (member, of) in nested {
        good.extend(schema(of)["properties"].as_object().unwrap().keys().map(|name| json!({ member: { name: null } })));
    }
    good.push(json!({ "selection": { "labels": { "any": null } } }));
    for patch in good {
        let answer = client.send(client.request(Method::PATCH, &address).json(&patch)).await;
        assert_eq!(answer.status, 200, "{patch}: {}", answer.text);
    }
    for (patch, at) in [
        (json!({ "none": null }), "/none"),
        (json!({ "limits": { "none": null } }), "/limits/none"),
        (json!({ "a/b": null }), "/a~1b"),
    ] {
        let answer = client.send(client.request(Method::PATCH, &address).json(&patch)).await;
        assert_eq!((answer.status, &answer.body["errors"][0]["pointer"]), (400, &json!(at)), "{patch}");
    }
}
