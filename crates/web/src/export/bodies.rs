//! What Feedser and Vexer write. Elements of lists are taken apart one by one: one that cannot be read is no reason to refuse the
//! others, and a list may be long.

use crate::openapi::params::texts::ProductKeyText;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use utoipa::ToSchema;

/// Advisories that have changed. Keys that cannot be read are skipped and named.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = FeedserExport, example = json!({
    "exportId": "adv-2026-11-29-17", "changedProductKeys": ["pkg:deb/debian/openssl", "pkg:npm/lodash@4.17.20"],
    "kev": ["CVE-2026-1234"],
    "window": { "from": "2026-11-29T16:00:00Z", "to": "2026-11-29T17:00:00Z" },
    "changes": [{ "productKey": "pkg:deb/debian/openssl", "vulnId": "CVE-2026-1234", "severity": "critical" }],
}))]
pub struct FeedserBody<'a> {
    /// The sender's name of it; with the key and the content its identity for 30 days.
    #[schema(min_length = 1, max_length = 256, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$")]
    pub export_id: String,
    #[serde(borrow, default)]
    #[schema(value_type = Option<Vec<ProductKeyText>>)]
    pub changed_product_keys: Option<Vec<&'a RawValue>>,
    /// CVEs that are known to be exploited; without any `changes` they mark the whole export.
    #[serde(borrow, default)]
    #[schema(value_type = Option<Vec<String>>)]
    pub kev: Option<Vec<&'a RawValue>>,
    /// Detail; its product keys are changed keys too.
    #[serde(borrow, default)]
    #[schema(value_type = Option<Vec<ChangeBody>>)]
    pub changes: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    #[schema(value_type = Option<crate::openapi::documents::Window>)]
    pub window: Option<&'a RawValue>,
}

/// What changed of a product key. A detail that cannot be read is no reason to leave the key out.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Change)]
pub struct ChangeBody<'a> {
    #[serde(borrow)]
    #[schema(value_type = ProductKeyText)]
    pub product_key: Cow<'a, str>,
    #[serde(borrow, default)]
    #[schema(value_type = Option<String>)]
    pub vuln_id: Option<&'a RawValue>,
    /// `low`, `medium`, `high` or `critical`; another word counts as low.
    #[serde(borrow, default)]
    #[schema(value_type = Option<String>)]
    pub severity: Option<&'a RawValue>,
    /// The affected versions as a `vers` range. With `impactIndex.narrowByRange`, images whose versions are surely outside are
    /// not asked for; a range that is not understood narrows nothing.
    #[serde(borrow, default)]
    #[schema(value_type = Option<String>, example = "vers:deb/<3.0.13-1~deb12u1")]
    pub affected: Option<&'a RawValue>,
}

/// VEX claims that have changed. Claims that cannot be read are skipped and named.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = VexerExport, example = json!({
    "exportId": "vex-88",
    "changedClaims": [{ "productKey": "pkg:golang/example.com/lib", "vulnId": "CVE-2026-7", "status": "none→not_affected" }],
}))]
pub struct VexerBody<'a> {
    /// The sender's name of it; with the key and the content its identity for 30 days.
    #[schema(min_length = 1, max_length = 256, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$")]
    pub export_id: String,
    #[serde(borrow)]
    #[schema(value_type = Vec<ClaimBody>)]
    pub changed_claims: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    #[schema(value_type = Option<crate::openapi::documents::Window>)]
    pub window: Option<&'a RawValue>,
}

/// A claim that has changed.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Claim)]
pub struct ClaimBody<'a> {
    #[serde(borrow)]
    #[schema(value_type = ProductKeyText)]
    pub product_key: Cow<'a, str>,
    /// Only images that contain this too.
    #[serde(borrow, default)]
    #[schema(value_type = Option<ProductKeyText>)]
    pub subcomponent: Option<Cow<'a, str>>,
    /// A change between two of `affected`, `not_affected`, `fixed`, `under_investigation` and `none`, with `→` or `->`.
    #[schema(
        pattern = "^ *(affected|not_affected|fixed|under_investigation|none) *(→|->) *(affected|not_affected|fixed|under_investigation|none) *$"
    )]
    #[serde(borrow)]
    pub status: Cow<'a, str>,
}
