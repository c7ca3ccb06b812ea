//! What Feedser and Vexer send, read leniently: unknown members are ignored, keys that cannot be read are skipped and named.

use crate::body::parse_foreign;
use crate::keys::count_within;
use crate::openapi::params::texts::ProductKeyText;
use crate::problem::{FieldError, Problem};
use scheduler_model::purl::ProductKey;
use scheduler_model::{ChangedKey, ExportId, Priority, Severity, Source, Timestamp, VulnLink, Window};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use utoipa::ToSchema;

/// The most skipped keys that an answer names.
const SKIPPED_NAMED_MAX: usize = 1000;

const EXCERPT_LEN_MAX: usize = 256;
const VULN_ID_LEN_MAX: usize = 128;

/// A longer range of affected versions, or more of one key, do not narrow it.
const AFFECTED_LEN_MAX: usize = 4096;
const RANGES_PER_KEY_MAX: usize = 1000;

/// A key or claim that was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SkippedKey {
    key: String,
    reason: String,
}

/// An export that was read.
#[derive(Debug, Clone)]
pub struct ReadExport {
    /// The sender's name of it.
    pub export_id: ExportId,
    /// Distinct keys with their urgency.
    pub keys: Vec<ChangedKey>,
    /// What it says of vulnerabilities.
    pub links: Vec<VulnLink>,
    /// The time it covers.
    pub window: Option<Window>,
    /// What was left out.
    pub skipped: Vec<SkippedKey>,
}

/// Advisories that have changed. Keys that cannot be read are skipped and named.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = FeedserExport, example = json!({
    "exportId": "adv-2026-11-29-17", "changedProductKeys": ["pkg:deb/debian/openssl", "pkg:npm/lodash@4.17.20"],
    "kev": ["CVE-2026-1234"],
    "window": { "from": "2026-11-29T16:00:00Z", "to": "2026-11-29T17:00:00Z" },
    "changes": [{ "productKey": "pkg:deb/debian/openssl", "vulnId": "CVE-2026-1234", "severity": "critical" }],
}))]
pub struct FeedserBody {
    /// The sender's name of it; with the key and the content its identity for 30 days.
    #[schema(min_length = 1, max_length = 256, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$")]
    export_id: String,
    #[serde(default)]
    #[schema(value_type = Option<Vec<ProductKeyText>>)]
    changed_product_keys: Option<Vec<Value>>,
    /// CVEs that are known to be exploited; without any `changes` they mark the whole export.
    #[serde(default)]
    kev: Option<Vec<String>>,
    /// Detail; its product keys are changed keys too.
    #[serde(default)]
    #[schema(value_type = Option<Vec<ChangeBody>>)]
    changes: Option<Vec<Value>>,
    #[serde(default)]
    #[schema(value_type = Option<crate::openapi::documents::Window>)]
    window: Option<Value>,
}

/// What changed of a product key.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Change)]
struct ChangeBody {
    #[schema(value_type = ProductKeyText)]
    product_key: String,
    #[serde(default)]
    vuln_id: Option<String>,
    /// `low`, `medium`, `high` or `critical`; another word counts as low.
    #[serde(default)]
    severity: Option<String>,
    /// The affected versions as a `vers` range. With `impactIndex.narrowByRange`, images whose versions are surely outside are
    /// not asked for; a range that is not understood narrows nothing.
    #[serde(default)]
    #[schema(value_type = Option<String>, example = "vers:deb/<3.0.13-1~deb12u1")]
    affected: Option<Value>,
}

/// VEX claims that have changed. Claims that cannot be read are skipped and named.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = VexerExport, example = json!({
    "exportId": "vex-88",
    "changedClaims": [{ "productKey": "pkg:golang/example.com/lib", "vulnId": "CVE-2026-7", "status": "none→not_affected" }],
}))]
pub struct VexerBody {
    /// The sender's name of it; with the key and the content its identity for 30 days.
    #[schema(min_length = 1, max_length = 256, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$")]
    export_id: String,
    #[schema(value_type = Vec<ClaimBody>)]
    changed_claims: Vec<Value>,
    #[serde(default)]
    #[schema(value_type = Option<crate::openapi::documents::Window>)]
    window: Option<Value>,
}

/// A claim that has changed.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Claim)]
struct ClaimBody {
    #[schema(value_type = ProductKeyText)]
    product_key: String,
    /// Only images that contain this too.
    #[serde(default)]
    #[schema(value_type = Option<ProductKeyText>)]
    subcomponent: Option<String>,
    /// A change between two of `affected`, `not_affected`, `fixed`, `under_investigation` and `none`, with `→` or `->`.
    #[schema(
        pattern = "^ *(affected|not_affected|fixed|under_investigation|none) *(→|->) *(affected|not_affected|fixed|under_investigation|none) *$"
    )]
    status: String,
}

/// Reads an export of a source; each of its lists has at most `keys_max` entries.
pub fn read(source: Source, content: &[u8], keys_max: usize) -> Result<ReadExport, Problem> {
    match source {
        Source::Feedser => feedser(content, keys_max),
        Source::Vexer => vexer(content, keys_max),
    }
}

/// What the mentions of a key say together.
#[derive(Default)]
struct Mentioned {
    /// The highest urgency.
    priority: Priority,
    affected: Affected,
}

/// Which versions the mentions of a key are about.
#[derive(Default)]
enum Affected {
    /// Nothing is said.
    #[default]
    Unsaid,
    /// Those of the ranges.
    Ranges(BTreeSet<String>),
    /// Any: one change has no range that could narrow the key.
    Any,
}

impl Affected {
    /// A change of the key.
    fn add(&mut self, range: Option<&Value>) {
        let range = range.and_then(Value::as_str).filter(|text| (1..=AFFECTED_LEN_MAX).contains(&text.len()));
        let Some(range) = range else {
            *self = Self::Any;
            return;
        };
        if matches!(self, Self::Unsaid) {
            *self = Self::Ranges(BTreeSet::new());
        }
        if let Self::Ranges(ranges) = self {
            ranges.insert(range.to_owned());
            if ranges.len() > RANGES_PER_KEY_MAX {
                *self = Self::Any;
            }
        }
    }

    fn ranges(self) -> Vec<String> {
        match self {
            Self::Ranges(ranges) => ranges.into_iter().collect(),
            Self::Unsaid | Self::Any => Vec::new(),
        }
    }
}

/// Gathers keys, each once with what is said of it, and what is wrong with the others.
#[derive(Default)]
struct Gatherer {
    keys: BTreeMap<(String, Option<String>), Mentioned>,
    skipped: Vec<SkippedKey>,
    errors: Vec<FieldError>,
}

impl Gatherer {
    fn skip(&mut self, pointer: String, key: &str, reason: String) {
        if self.skipped.len() < SKIPPED_NAMED_MAX {
            self.skipped.push(SkippedKey { key: key.chars().take(EXCERPT_LEN_MAX).collect(), reason: reason.clone() });
            self.errors.push(FieldError { pointer, detail: reason });
        }
    }

    /// The canonical key of a text; otherwise it is skipped.
    fn key(&mut self, pointer: &str, text: &str) -> Option<String> {
        match ProductKey::parse(text) {
            Ok((key, mended)) => {
                if !mended.is_empty() {
                    metrics::counter!("scheduler_purls_mended_total").increment(1);
                }
                Some(key.purl().as_str().to_owned())
            }
            Err(error) => {
                self.skip(pointer.to_owned(), text, error.to_string());
                None
            }
        }
    }

    fn add(&mut self, key: String, subcomponent: Option<String>, priority: Priority) -> &mut Mentioned {
        let mentioned = self.keys.entry((key, subcomponent)).or_default();
        mentioned.priority = mentioned.priority.max(priority);
        mentioned
    }

    fn finish(self, export_id: ExportId, links: Vec<VulnLink>, window: Option<Value>) -> Result<ReadExport, Problem> {
        if self.keys.is_empty() {
            return Err(Problem::bad_places("no usable key is left in the export", self.errors));
        }
        let keys = self
            .keys
            .into_iter()
            .map(|((key, subcomponent), Mentioned { priority, affected })| ChangedKey {
                key,
                priority,
                subcomponent,
                affected: affected.ranges(),
            })
            .collect();
        Ok(ReadExport { export_id, keys, links, window: window.as_ref().and_then(read_window), skipped: self.skipped })
    }
}

fn feedser(content: &[u8], keys_max: usize) -> Result<ReadExport, Problem> {
    let body: FeedserBody = parse_foreign(content)?;
    let export_id = export_id(body.export_id)?;
    let keys = body.changed_product_keys.unwrap_or_default();
    let (kev, changes) = (body.kev.unwrap_or_default(), body.changes.unwrap_or_default());
    for (member, count) in [("changedProductKeys", keys.len()), ("kev", kev.len()), ("changes", changes.len())] {
        count_within(member, count, keys_max)?;
    }
    let kev: HashSet<String> = kev.iter().map(|id| id.to_ascii_uppercase()).collect();
    // Without any detail, a list of exploited vulnerabilities marks the whole export.
    let plain = if changes.is_empty() && !kev.is_empty() { Priority::Kev } else { Priority::Normal };
    let mut gathered = Gatherer::default();
    for (number, value) in keys.iter().enumerate() {
        let pointer = format!("/changedProductKeys/{number}");
        match value.as_str() {
            Some(text) => {
                if let Some(key) = gathered.key(&pointer, text) {
                    gathered.add(key, None, plain);
                }
            }
            None => gathered.skip(pointer, &value.to_string(), "a key is a string".to_owned()),
        }
    }
    let mut links = BTreeSet::new();
    for (number, value) in changes.iter().enumerate() {
        let pointer = format!("/changes/{number}");
        let change: ChangeBody = match element(value) {
            Ok(change) => change,
            Err(error) => {
                gathered.skip(pointer, &value.to_string(), error);
                continue;
            }
        };
        let Some(key) = gathered.key(&format!("{pointer}/productKey"), &change.product_key) else { continue };
        let severity = change.severity.as_deref().map(Severity::of_word);
        let exploited = change.vuln_id.as_ref().is_some_and(|id| kev.contains(&id.to_ascii_uppercase()));
        let priority = if exploited {
            Priority::Kev
        } else if severity == Some(Severity::Critical) {
            Priority::Critical
        } else {
            Priority::Normal
        };
        if let Some(vuln_id) = change.vuln_id.filter(|id| (1..=VULN_ID_LEN_MAX).contains(&id.len())) {
            links.insert((vuln_id, key.clone(), severity));
        }
        gathered.add(key, None, priority).affected.add(change.affected.as_ref());
    }
    let links = links.into_iter().map(|(vuln_id, key, severity)| VulnLink { vuln_id, key, severity }).collect();
    gathered.finish(export_id, links, body.window)
}

fn vexer(content: &[u8], keys_max: usize) -> Result<ReadExport, Problem> {
    let body: VexerBody = parse_foreign(content)?;
    let export_id = export_id(body.export_id)?;
    count_within("changedClaims", body.changed_claims.len(), keys_max)?;
    let mut gathered = Gatherer::default();
    for (number, value) in body.changed_claims.iter().enumerate() {
        let pointer = format!("/changedClaims/{number}");
        let claim: ClaimBody = match element(value) {
            Ok(claim) => claim,
            Err(error) => {
                gathered.skip(pointer, &value.to_string(), error);
                continue;
            }
        };
        if let Err(reason) = status_change(&claim.status) {
            gathered.skip(format!("{pointer}/status"), &claim.product_key, reason);
            continue;
        }
        let Some(key) = gathered.key(&format!("{pointer}/productKey"), &claim.product_key) else { continue };
        let subcomponent = match claim.subcomponent {
            None => None,
            Some(text) => match gathered.key(&format!("{pointer}/subcomponent"), &text) {
                Some(subcomponent) => Some(subcomponent),
                None => continue,
            },
        };
        gathered.add(key, subcomponent, Priority::Normal);
    }
    gathered.finish(export_id, Vec::new(), body.window)
}

/// An element of a list of objects, or what is wrong with it.
fn element<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, String> {
    if !value.is_object() {
        return Err("an object is wanted".to_owned());
    }
    serde_json::from_value(value.clone()).map_err(|error| error.to_string())
}

/// Whether a text tells of a change between two statuses that there are.
fn status_change(text: &str) -> Result<(), String> {
    const STATUSES: [&str; 5] = ["affected", "not_affected", "fixed", "under_investigation", "none"];
    let (from, to) = text
        .split_once('→')
        .or_else(|| text.split_once("->"))
        .ok_or_else(|| format!("`{}` is no change such as `not_affected→affected`", excerpt(text)))?;
    let (from, to) = (from.trim(), to.trim());
    if let Some(unknown) = [from, to].into_iter().find(|status| !STATUSES.contains(status)) {
        return Err(format!("`{}` is none of {}", excerpt(unknown), STATUSES.join(", ")));
    }
    if from == to {
        return Err(format!("`{from}` to itself is no change"));
    }
    Ok(())
}

fn excerpt(text: &str) -> String {
    text.chars().take(64).collect()
}

fn export_id(text: String) -> Result<ExportId, Problem> {
    ExportId::try_from(text).map_err(|e| Problem::bad_input("/exportId", e.to_string()))
}

/// The window, as far as it can be read: it is for cursors, and no reason to refuse an export.
fn read_window(value: &Value) -> Option<Window> {
    let time = |name: &str| value.get(name).and_then(Value::as_str).and_then(|text| Timestamp::parse(text).ok());
    let window = Window { from: time("from"), to: time("to") };
    (window.from.is_some() || window.to.is_some()).then_some(window)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::StatusCode;
    use serde_json::json;

    fn feedser_of(value: &Value) -> Result<ReadExport, Problem> {
        read(Source::Feedser, value.to_string().as_bytes(), 5)
    }

    fn priorities(export: &ReadExport) -> Vec<(&str, Priority)> {
        export.keys.iter().map(|key| (key.key.as_str(), key.priority)).collect()
    }

    #[test]
    fn changes_say_which_keys_are_urgent_and_are_keys_themselves() {
        let export = feedser_of(&json!({
            "exportId": "e", "changedProductKeys": ["pkg:npm/plain", "pkg:npm/crit"], "kev": ["CVE-2025-3"],
            "changes": [
                { "productKey": "pkg:npm/crit", "vulnId": "CVE-2025-2", "severity": "CRITICAL" },
                { "productKey": "pkg:npm/kev", "vulnId": "cve-2025-3", "severity": "low" },
                { "productKey": "pkg:npm/kev", "vulnId": "CVE-2025-4", "severity": "low" },
            ],
        }))
        .unwrap();
        assert_eq!(
            priorities(&export),
            [("pkg:npm/crit", Priority::Critical), ("pkg:npm/kev", Priority::Kev), ("pkg:npm/plain", Priority::Normal)]
        );
        assert_eq!(export.links.len(), 3);
    }

    #[test]
    fn ranges_come_with_a_key_only_if_every_change_of_it_has_one() {
        let of = |changes: Value| {
            let export =
                feedser_of(&json!({ "exportId": "e", "changedProductKeys": ["pkg:npm/a"], "changes": changes }));
            let export = export.unwrap();
            assert_eq!((export.keys.len(), export.keys[0].key.as_str()), (1, "pkg:npm/a"));
            export.keys[0].affected.clone()
        };
        let change = |affected: Value| json!({ "productKey": "pkg:npm/a", "affected": affected });
        let (one, other) = (json!("vers:npm/<1.0.0"), json!("vers:npm/<2.0.0"));
        assert!(of(json!([])).is_empty(), "a changed key without a change");
        assert_eq!(of(json!([change(one.clone()), change(other.clone()), change(one.clone())])), [one.clone(), other]);
        for none in [Value::Null, json!(""), json!(7), json!([one]), json!("x".repeat(AFFECTED_LEN_MAX + 1))] {
            assert!(of(json!([change(one.clone()), change(none.clone())])).is_empty(), "{none}");
            assert!(of(json!([change(none.clone()), change(one.clone())])).is_empty(), "{none}");
        }
        let longest = json!("x".repeat(AFFECTED_LEN_MAX));
        assert_eq!(of(json!([change(longest.clone())])), [longest]);
    }

    #[test]
    fn a_key_has_at_most_a_thousand_ranges() {
        let of = |count: usize| {
            let change = |n| json!({ "productKey": "pkg:npm/a", "affected": format!("vers:npm/<{n}.0.0") });
            let body = json!({ "exportId": "e", "changes": (0..count).map(change).collect::<Vec<_>>() });
            read(Source::Feedser, body.to_string().as_bytes(), 2000).unwrap().keys[0].affected.len()
        };
        assert_eq!((of(RANGES_PER_KEY_MAX), of(RANGES_PER_KEY_MAX + 1)), (RANGES_PER_KEY_MAX, 0));
    }

    #[test]
    fn without_changes_a_kev_list_marks_the_whole_export() {
        let export =
            feedser_of(&json!({ "exportId": "e", "changedProductKeys": ["pkg:npm/a"], "kev": ["CVE-1"] })).unwrap();
        assert_eq!(priorities(&export), [("pkg:npm/a", Priority::Kev)]);
    }

    #[test]
    fn keys_that_cannot_be_read_are_named_and_none_left_is_an_error_that_points() {
        let export =
            feedser_of(&json!({ "exportId": "e", "changedProductKeys": ["x", 7, "pkg:rpm/openssl"] })).unwrap();
        let named: Vec<&str> = export.skipped.iter().map(|skipped| skipped.key.as_str()).collect();
        assert_eq!((named, export.keys.len()), (vec!["x", "7"], 1));
        let problem = feedser_of(&json!({ "exportId": "e", "changedProductKeys": ["x"] })).unwrap_err();
        assert_eq!(problem.status(), StatusCode::BAD_REQUEST);
        assert!(problem.document().to_string().contains("/changedProductKeys/0"));
    }

    #[test]
    fn each_list_is_counted_by_itself() {
        let keys = |n: usize| (0..n).map(|i| format!("pkg:npm/k{i}")).collect::<Vec<_>>();
        assert!(feedser_of(&json!({ "exportId": "e", "changedProductKeys": keys(5), "kev": keys(5) })).is_ok());
        for body in [
            json!({ "exportId": "e", "changedProductKeys": keys(6) }),
            json!({ "exportId": "e", "changedProductKeys": keys(1), "kev": keys(6) }),
            json!({ "exportId": "e", "changedProductKeys": keys(1), "changes": keys(6) }),
        ] {
            assert_eq!(feedser_of(&body).unwrap_err().status(), StatusCode::PAYLOAD_TOO_LARGE);
        }
    }

    #[test]
    fn claims_change_between_two_statuses_with_either_arrow() {
        for (status, taken) in [
            ("not_affected→affected", true),
            ("none->not_affected", true),
            ("under_investigation → fixed", true),
            ("affected→affected", false),
            ("affected", false),
            ("affected→gone", false),
            ("→affected", false),
            ("affected=>fixed", false),
        ] {
            assert_eq!(status_change(status).is_ok(), taken, "{status}");
        }
    }
}
