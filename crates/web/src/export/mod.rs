//! What Feedser and Vexer send, read leniently: unknown members are ignored, keys that cannot be read are skipped and named.

mod bodies;
mod gather;

pub use bodies::{FeedserBody, VexerBody};

use crate::body::{parse_foreign, sentence};
use crate::keys::count_within;
use crate::problem::Problem;
use bodies::{ChangeBody, ClaimBody};
use gather::Gatherer;
use scheduler_model::{ChangedKey, ExportId, Priority, Severity, Source, VulnLink};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use utoipa::ToSchema;

const EXCERPT_LEN_MAX: usize = 256;
const VULN_ID_LEN_MAX: usize = 128;

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
    /// The time it covers, as it was sent.
    pub window: Option<Box<RawValue>>,
    /// What was left out.
    pub skipped: Vec<SkippedKey>,
}

/// Reads an export of a source; each of its lists has at most `keys_max` entries.
pub fn read(source: Source, content: &[u8], keys_max: usize) -> Result<ReadExport, Problem> {
    match source {
        Source::Feedser => feedser(content, keys_max),
        Source::Vexer => vexer(content, keys_max),
    }
}

fn feedser(content: &[u8], keys_max: usize) -> Result<ReadExport, Problem> {
    let body: FeedserBody<'_> = parse_foreign(content)?;
    let export_id = export_id(body.export_id)?;
    let keys = body.changed_product_keys.unwrap_or_default();
    let (kev, changes) = (body.kev.unwrap_or_default(), body.changes.unwrap_or_default());
    for (member, count) in [("changedProductKeys", keys.len()), ("kev", kev.len()), ("changes", changes.len())] {
        count_within(member, count, keys_max)?;
    }
    let kev: HashSet<String> = kev.into_iter().filter_map(text).map(|id| id.to_ascii_uppercase()).collect();
    // Without any detail, a list of exploited vulnerabilities marks the whole export.
    let plain = if changes.is_empty() && !kev.is_empty() { Priority::Kev } else { Priority::Normal };
    let mut gathered = Gatherer::with_capacity(keys.len());
    for (number, value) in keys.into_iter().enumerate() {
        let pointer = || format!("/changedProductKeys/{number}");
        match text(value) {
            Some(text) => {
                if let Some(key) = gathered.key(pointer, text) {
                    gathered.add(key, None, plain);
                }
            }
            None => gathered.skip(pointer, value.get(), "a key is a string"),
        }
    }
    let mut links = BTreeSet::new();
    for (number, value) in changes.into_iter().enumerate() {
        let change: ChangeBody<'_> = match element(value) {
            Ok(change) => change,
            Err(error) => {
                gathered.skip(|| format!("/changes/{number}"), value.get(), error);
                continue;
            }
        };
        let pointer = || format!("/changes/{number}/productKey");
        let Some(key) = gathered.key(pointer, change.product_key) else { continue };
        let severity = change.severity.and_then(text).map(|word| Severity::of_word(&word));
        let vuln_id = change.vuln_id.and_then(text);
        let exploited = vuln_id.as_ref().is_some_and(|id| kev.contains(&id.to_ascii_uppercase()));
        let priority = if exploited {
            Priority::Kev
        } else if severity == Some(Severity::Critical) {
            Priority::Critical
        } else {
            Priority::Normal
        };
        if let Some(vuln_id) = vuln_id.filter(|id| (1..=VULN_ID_LEN_MAX).contains(&id.len())) {
            links.insert((vuln_id, key.clone(), severity));
        }
        gathered.add(key, None, priority).affected.add(change.affected.and_then(text).as_deref());
    }
    let links = links.into_iter().map(|(vuln_id, key, severity)| VulnLink {
        vuln_id: vuln_id.into_owned(),
        key: key.into_owned(),
        severity,
    });
    let links = links.collect();
    let (keys, skipped) = gathered.finish()?;
    Ok(ReadExport { export_id, keys, links, window: body.window.map(ToOwned::to_owned), skipped })
}

fn vexer(content: &[u8], keys_max: usize) -> Result<ReadExport, Problem> {
    let body: VexerBody<'_> = parse_foreign(content)?;
    let export_id = export_id(body.export_id)?;
    count_within("changedClaims", body.changed_claims.len(), keys_max)?;
    let mut gathered = Gatherer::with_capacity(body.changed_claims.len());
    for (number, value) in body.changed_claims.into_iter().enumerate() {
        let claim: ClaimBody<'_> = match element(value) {
            Ok(claim) => claim,
            Err(error) => {
                gathered.skip(|| format!("/changedClaims/{number}"), value.get(), error);
                continue;
            }
        };
        if let Err(reason) = status_change(&claim.status) {
            gathered.skip(|| format!("/changedClaims/{number}/status"), &claim.product_key, reason);
            continue;
        }
        let pointer = || format!("/changedClaims/{number}/productKey");
        let Some(key) = gathered.key(pointer, claim.product_key) else { continue };
        let subcomponent = match claim.subcomponent {
            None => None,
            Some(text) => match gathered.key(|| format!("/changedClaims/{number}/subcomponent"), text) {
                Some(subcomponent) => Some(subcomponent),
                None => continue,
            },
        };
        gathered.add(key, subcomponent, Priority::Normal);
    }
    let (keys, skipped) = gathered.finish()?;
    Ok(ReadExport { export_id, keys, links: Vec::new(), window: body.window.map(ToOwned::to_owned), skipped })
}

/// The text of a JSON string, where it stands unless it has escapes; `None` for any other value.
fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    let raw = value.get();
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') { serde_json::from_str(raw).ok().map(Cow::Owned) } else { Some(Cow::Borrowed(inner)) }
}

/// An element of a list of objects, or what is wrong with it.
fn element<'a, T: Deserialize<'a>>(value: &'a RawValue) -> Result<T, String> {
    if !value.get().starts_with('{') {
        return Err("an object is wanted".to_owned());
    }
    serde_json::from_str(value.get()).map_err(|error| sentence(&error))
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

#[cfg(test)]
mod tests {
    use super::gather::{AFFECTED_LEN_MAX, RANGES_PER_KEY_MAX};
    use super::*;
    use axum::http::StatusCode;
    use serde_json::{Value, json};

    fn feedser_of(value: &Value) -> Result<ReadExport, Problem> {
        read(Source::Feedser, value.to_string().as_bytes(), 5)
    }

    fn priorities(export: &ReadExport) -> Vec<(&str, Priority)> {
        let mut keys: Vec<_> = export.keys.iter().map(|key| (key.key.as_str(), key.priority)).collect();
        keys.sort();
        keys
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
    fn a_detail_that_cannot_be_read_loses_no_key() {
        for detail in [
            r#""severity":9"#,
            r#""vulnId":7"#,
            r#""vulnId":"\ud800""#,
            r#""affected":1e400"#,
            r#""severity":["high"]"#,
        ] {
            let content = format!(r#"{{"exportId":"e","changes":[{{"productKey":"pkg:npm/a",{detail}}}]}}"#);
            let export = read(Source::Feedser, content.as_bytes(), 5).unwrap();
            assert_eq!(priorities(&export), [("pkg:npm/a", Priority::Normal)], "{detail}");
        }
        for member in
            [r#""kev":["CVE-1",null]"#, r#""kev":["\ud800"]"#, r#""window":{"from":1e400}"#, r#""window":"\ud800""#]
        {
            let content = format!(r#"{{"exportId":"e","changedProductKeys":["pkg:npm/a"],{member}}}"#);
            assert_eq!(read(Source::Feedser, content.as_bytes(), 5).unwrap().keys.len(), 1, "{member}");
        }
    }

    #[test]
    fn keys_are_the_same_however_they_are_written_in_json() {
        for text in [r#""pkg:npm/a""#, r#""pkg\u003anpm/a""#, r#""pkg:NPM/a""#, r#"" pkg:npm/a""#] {
            let content =
                format!(r#"{{"exportId":"e","changedProductKeys":[{text}],"changes":[{{"productKey":{text}}}]}}"#);
            let export = read(Source::Feedser, content.as_bytes(), 5).unwrap();
            assert_eq!(priorities(&export), [("pkg:npm/a", Priority::Normal)], "{text}");
            let content = format!(
                r#"{{"exportId":"e","changedClaims":[{{"productKey":{text},"status":"none→\u0061ffected"}}]}}"#
            );
            let export = read(Source::Vexer, content.as_bytes(), 5).unwrap();
            assert_eq!(priorities(&export), [("pkg:npm/a", Priority::Normal)], "{text}");
        }
        for broken in [r#""pkg:npm/\ud800""#, r#"["pkg:npm/a"]"#, "{}", "null"] {
            let content = format!(r#"{{"exportId":"e","changedProductKeys":[{broken},"pkg:npm/b"]}}"#);
            let export = read(Source::Feedser, content.as_bytes(), 5).unwrap();
            assert_eq!((export.skipped.len(), priorities(&export).len()), (1, 1), "{broken}");
        }
        for malformed in ["\"a\u{1}\"", "[", "nul", r#""\q""#] {
            let content = format!(r#"{{"exportId":"e","changedProductKeys":[{malformed},"pkg:npm/b"]}}"#);
            let problem = read(Source::Feedser, content.as_bytes(), 5).unwrap_err();
            assert_eq!(problem.document()["code"], "malformed-json", "{malformed}");
        }
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
