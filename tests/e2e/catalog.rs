//! Images and documents to put.

use serde_json::{Value, json};

/// The digest of the image with a number.
pub fn digest(number: usize) -> String {
    format!("sha256:{number:064x}")
}

/// A sidecar whose image has `pkg:npm/common@1.0.0`, one of ten groups and a package of its own.
pub fn sidecar(number: usize) -> Value {
    sidecar_of(
        number,
        &[
            "pkg:npm/common@1.0.0".to_owned(),
            format!("pkg:npm/group-{}@1.0.0", number % 10),
            format!("pkg:npm/own-{number}@1.0.0"),
        ],
    )
}

/// A sidecar with these purls.
pub fn sidecar_of(number: usize, purls: &[String]) -> Value {
    json!({
        "schema": "bom-index@1",
        "imageDigest": digest(number),
        "generatedAt": "2026-01-01T00:00:00Z",
        "image": { "registry": "registry.example.com", "repository": format!("shop/app-{}", number % 7), "tags": ["prod-1"] },
        "purls": purls,
    })
}

/// An export of keys.
pub fn export(id: &str, keys: &[String]) -> Value {
    json!({ "exportId": id, "changedProductKeys": keys })
}
