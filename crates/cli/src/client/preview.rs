//! `preview`.

use super::files::read_document;
use super::http::Request;
use super::output::{Table, cell};
use super::selection::{KeyArgs, SelectionArgs};
use super::{ClientError, Session};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// What a preview asks.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  stella-scheduler preview --key pkg:npm/left-pad
  stella-scheduler preview --keys-file changed.txt --namespace prod --sample 0
  stella-scheduler preview --vuln CVE-2024-3094 --json
  stella-scheduler preview --export export.json --narrow-by-range true --sample 0")]
pub struct PreviewArgs {
    /// How many of the images are named, at most 500.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=500))]
    sample: u32,
    /// How many of the keys that touch something are explained, at most 500.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=500))]
    explain: u32,
    /// A Feedser export: its keys and changes count as keys; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
    /// Whether images are left out whose versions are surely outside of the ranges of the export's changes; as the service is
    /// configured, if not given.
    #[arg(long, value_name = "BOOL")]
    narrow_by_range: Option<bool>,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    selection: SelectionArgs,
}

const SAMPLE: &[(&str, &str)] =
    &[("DIGEST", "/imageDigest"), ("REPOSITORY", "/repository"), ("TAGS", "/tags"), ("KEYS", "/matchedKeys")];
const EXPLAINED: &[(&str, &str)] = &[
    ("IMAGES", "/images"),
    ("NARROWED", "/narrowedAway"),
    ("KEY", "/key"),
    ("HOW", "/how"),
    ("PACKAGES", "/packagesTotal"),
    ("MOSTLY", "/packages/0/purl"),
];
const REPOSITORIES: &[(&str, &str)] = &[("IMAGES", "/candidates"), ("REPOSITORY", "/repository")];

impl PreviewArgs {
    /// Carries it out.
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let Session { client, out } = session;
        let mut body = Map::new();
        self.keys.write(&mut body)?;
        if let Some(path) = &self.export {
            let export = read_document(path)?;
            expect_export(&export).map_err(|why| ClientError::Input { path: path.clone(), why: why.to_owned() })?;
            write_export(&export, &mut body);
        }
        if let Some(narrow) = self.narrow_by_range {
            body.insert("narrowByRange".to_owned(), json!(narrow));
        }
        body.insert("explainSize".to_owned(), json!(self.explain));
        if let Some(selection) = self.selection.selection() {
            body.insert("selection".to_owned(), selection);
        }
        body.insert("sampleSize".to_owned(), json!(self.sample));
        let answer = client
            .call(Request::post(&["preview", "impact"]).json(&Value::Object(body)), &["candidates", "total"])
            .await?;
        if out.json {
            return out.document(&answer);
        }
        let sample = answer.get("sample").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if out.quiet {
            return sample.iter().try_for_each(|one| out.line(&cell(one, "/imageDigest")));
        }
        let get = |pointer| cell(&answer, pointer);
        out.line(&format!(
            "{} of {} images; keys: {} known, {} unknown; {} ms",
            get("/candidates"),
            get("/total"),
            get("/keysMatched"),
            get("/keysUnknown"),
            get("/elapsedMs")
        ))?;
        if get("/narrowedAway") != "0" {
            out.line(&format!("left out by the ranges of versions: {} images", get("/narrowedAway")))?;
        }
        if get("/projected/basis") == "history" {
            let (deltas, kev) = (get("/projected/deltas"), get("/projected/kev"));
            out.line(&format!("as runs went lately: {deltas} with news, {kev} with KEV"))?;
        }
        if get("/indexState") != "warm" {
            out.remark(&format!("the index is {}: images may be missing; ask again soon", get("/indexState")));
        }
        show(session, EXPLAINED, answer.get("explain"))?;
        show(session, REPOSITORIES, answer.get("byRepository"))?;
        show(session, SAMPLE, answer.get("sample"))
    }
}

/// Refuses what is no export of Feedser, in a sentence: it would ask about nothing.
fn expect_export(export: &Value) -> Result<(), &'static str> {
    let has_list = |member: &str| export.get(member).is_some_and(Value::is_array);
    if has_list("changedProductKeys") || has_list("changes") {
        return Ok(());
    }
    if has_list("changedClaims") {
        return Err("it is an export of Vexer; a preview takes those of Feedser, and single packages by --key");
    }
    Err("it is no export: it has neither `changedProductKeys` nor `changes`")
}

/// Writes what an export says has changed into a request's body. A changed key with a change is narrowed by it, another by
/// nothing; a change without a key that can be read is left for the service to refuse.
fn write_export(export: &Value, body: &mut Map<String, Value>) {
    let list = |member: &str| export.get(member).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let changes = list("changes").iter().map(|change| {
        let range = change.get("affected").filter(|range| range.is_string());
        json!({ "productKey": change.get("productKey"), "affected": range })
    });
    let changes: Vec<Value> = changes.collect();
    let has_change = |key: &&Value| changes.iter().any(|change| change.get("productKey") == Some(key));
    let plain: Vec<Value> = list("changedProductKeys").iter().filter(|key| !has_change(key)).cloned().collect();
    let keys = body.entry("keys").or_insert_with(|| json!([]));
    if let Some(keys) = keys.as_array_mut() {
        keys.extend(plain);
    }
    body.insert("changes".to_owned(), json!(changes));
}

fn show(
    session: &Session,
    columns: &'static [(&'static str, &'static str)],
    items: Option<&Value>,
) -> anyhow::Result<()> {
    let items = items.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if items.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(columns);
    items.iter().for_each(|item| table.push(item));
    session.out.line("")?;
    table.lines().iter().try_for_each(|line| session.out.line(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_export_is_told_from_one() {
        for (document, said) in [
            (json!({ "changedProductKeys": [] }), None),
            (json!({ "changes": [{ "productKey": "pkg:npm/a" }] }), None),
            (json!({ "changedClaims": [] }), Some("Vexer")),
            (json!([1]), Some("no export")),
            (json!({ "foo": 1 }), Some("no export")),
            (json!({ "changedProductKeys": "pkg:npm/a" }), Some("no export")),
            (Value::Null, Some("no export")),
        ] {
            match (expect_export(&document), said) {
                (Ok(()), None) => {}
                (Err(why), Some(said)) => assert!(why.contains(said), "{document}: {why}"),
                (found, _) => panic!("{document}: {found:?}"),
            }
        }
    }
}
