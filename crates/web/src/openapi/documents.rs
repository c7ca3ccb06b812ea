//! Documents that others write, as far as this service looks at them. Whatever else they hold is passed over.
#![expect(dead_code, reason = "these types describe; `scheduler-sbom` and `export` read")]

use scheduler_model::{ImageDigest, Timestamp};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// An SBOM, told apart by content. Members that do not matter here are not looked at.
#[derive(ToSchema)]
#[schema(as = Sbom, example = json!({
    "bomFormat": "CycloneDX", "specVersion": "1.6",
    "components": [{ "type": "library", "name": "openssl", "purl": "pkg:deb/debian/openssl@3.0.11-1~deb12u2" }],
}))]
#[serde(untagged)]
pub enum SbomText {
    CycloneDx(CycloneDx),
    Spdx2(Spdx2),
    Spdx3(Spdx3),
    Syft(Syft),
}

/// CycloneDX JSON. Components count at any depth, those under the root component too.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CycloneDx {
    bom_format: CycloneDxWord,
    spec_version: CycloneDxVersion,
}

#[derive(ToSchema)]
enum CycloneDxWord {
    #[serde(rename = "CycloneDX")]
    CycloneDx,
}

#[derive(ToSchema)]
enum CycloneDxVersion {
    #[serde(rename = "1.2")]
    V12,
    #[serde(rename = "1.3")]
    V13,
    #[serde(rename = "1.4")]
    V14,
    #[serde(rename = "1.5")]
    V15,
    #[serde(rename = "1.6")]
    V16,
    #[serde(rename = "1.7")]
    V17,
}

/// SPDX 2 JSON, with `packages` whose `externalRefs` hold purls.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Spdx2 {
    spdx_version: Spdx2Version,
}

#[derive(ToSchema)]
enum Spdx2Version {
    #[serde(rename = "SPDX-2.2")]
    V22,
    #[serde(rename = "SPDX-2.3")]
    V23,
}

/// SPDX 3 JSON-LD.
#[derive(ToSchema)]
pub struct Spdx3 {
    #[serde(rename = "@context")]
    #[schema(pattern = r"^https://spdx\.org/rdf/3\.0\.[0-9]+/spdx-context\.jsonld$")]
    context: String,
    #[serde(rename = "@graph")]
    graph: Vec<BTreeMap<String, serde_json::Value>>,
}

/// Syft's own JSON.
#[derive(ToSchema)]
pub struct Syft {
    artifacts: Vec<BTreeMap<String, serde_json::Value>>,
    schema: SyftSchema,
}

#[derive(ToSchema)]
struct SyftSchema {
    #[schema(example = "16.0.15")]
    version: String,
}

/// A BOM-Index sidecar.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Sidecar, example = json!({
    "schema": "bom-index@1",
    "imageDigest": "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "generatedAt": "2026-11-29T12:00:00Z",
    "image": { "registry": "registry.example.com", "repository": "shop/cart", "namespaces": ["prod"],
               "tags": ["1.4.2"], "labels": { "team": "cart" } },
    "purls": ["pkg:deb/debian/libssl3@3.0.11-1~deb12u2?upstream=openssl", "pkg:npm/lodash@4.17.20"],
    "usedByEntrypoint": [0],
}))]
pub struct SidecarText {
    schema: Option<SidecarVersion>,
    /// The same as in the path.
    image_digest: ImageDigest,
    generated_at: Option<Timestamp>,
    image: SidecarImage,
    /// What is in the image. One that cannot be read is skipped and named in the answer.
    purls: Vec<String>,
    used_by_entrypoint: Option<Usage>,
}

#[derive(ToSchema)]
enum SidecarVersion {
    #[serde(rename = "bom-index@1")]
    V1,
}

/// Where the image lives and what it is called.
#[derive(ToSchema)]
struct SidecarImage {
    registry: Option<String>,
    #[schema(min_length = 1)]
    repository: String,
    namespaces: Option<Vec<String>>,
    tags: Option<Vec<String>>,
    labels: Option<BTreeMap<String, String>>,
}

/// What the entrypoint uses; without it every component counts as used.
#[derive(ToSchema)]
#[serde(untagged)]
enum Usage {
    /// Positions in `purls`.
    Positions(Vec<u32>),
    /// The same as a roaring bitmap in the portable format, in base64.
    #[schema(format = "roaring-bitmap", example = "OjAAAAAAAAA=")]
    Bitmap(String),
}

/// The time that an export covers. One that cannot be read is no reason to refuse it.
#[derive(ToSchema)]
pub struct Window {
    from: Option<Timestamp>,
    to: Option<Timestamp>,
}
