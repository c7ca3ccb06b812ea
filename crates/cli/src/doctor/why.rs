//! `doctor why`: what became of a vulnerability in an image, from what the service has stored.

use crate::client::{ClientError, Request, Session, clean, count};
use serde_json::{Value, json};

/// Runs that are looked through.
const RUNS: &str = "500";

/// Runs that are shown.
const RUNS_SHOWN_MAX: usize = 10;

/// What is asked about.
#[derive(clap::Args, Debug)]
pub struct WhyArgs {
    /// The image's digest, `sha256:…`.
    digest: String,
    /// The vulnerability, as exports name it.
    vuln: String,
}

/// What the service has stored of the question.
struct Facts {
    /// The catalog's entry, if the image is there.
    image: Option<Value>,
    /// Product keys that exports have named with the vulnerability.
    keys: u64,
    /// Those of them that the image has.
    matched: Vec<String>,
    /// Whether a run that minds usage would take the image.
    selected: bool,
    /// Runs that asked about the image, the newest first.
    history: Vec<Value>,
}

impl WhyArgs {
    /// Carries it out.
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let facts = Facts::gather(session, &self).await?;
        let answer = facts.answer(&self.vuln);
        let out = &session.out;
        if out.json {
            let told = facts.history.iter().any(|entry| tells(entry, &self.vuln));
            return out.document(&json!({
                "imageDigest": self.digest, "vulnId": self.vuln, "inCatalog": facts.image.is_some(),
                "keysOfVuln": facts.keys, "matchedKeys": facts.matched, "selected": facts.selected,
                "told": told, "history": facts.history, "answer": answer,
            }));
        }
        if out.quiet {
            return out.line(&clean(&answer));
        }
        for line in facts.lines(&self.vuln) {
            out.line(&clean(&line))?;
        }
        out.line(&clean(&format!("so: {answer}")))
    }
}

impl Facts {
    async fn gather(session: &Session, asked: &WhyArgs) -> anyhow::Result<Self> {
        let client = &session.client;
        let image = match client.call(Request::get(&["images", &asked.digest]), &["imageDigest"]).await {
            Ok(image) => Some(image),
            Err(ClientError::Refused(problem)) if problem.status == 404 => None,
            Err(error) => return Err(error.into()),
        };
        let preview = async |usage_only: bool| {
            let body = json!({
                "vulnIds": [asked.vuln], "usageOnly": usage_only, "sampleSize": 1,
                "selection": { "scope": "by-digest", "digests": [asked.digest] },
            });
            client.call(Request::post(&["preview", "impact"]).json(&body), &["candidates", "keysMatched"]).await
        };
        let (any, used) = (preview(false).await?, preview(true).await?);
        let matched = any.pointer("/sample/0/matchedKeys").and_then(Value::as_array).cloned().unwrap_or_default();
        let history = Request::get(&["images", &asked.digest, "history"]).query("limit", RUNS);
        let mut history = client.call(history, &["items"]).await?;
        Ok(Self {
            image,
            keys: number(&any, "/keysMatched") + number(&any, "/keysUnknown"),
            matched: matched.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            selected: number(&used, "/candidates") > 0,
            history: match history.get_mut("items").map(Value::take) {
                Some(Value::Array(items)) => items,
                _ => Vec::new(),
            },
        })
    }

    fn lines(&self, vuln: &str) -> Vec<String> {
        let mut lines = Vec::new();
        lines.push(match &self.image {
            Some(image) => format!(
                "image: {}{}, {}, {} used; in the catalog since {}",
                text(image, "/image/repository"),
                image.pointer("/image/tags/0").and_then(Value::as_str).map_or(String::new(), |tag| format!(":{tag}")),
                count(number(image, "/components"), "package"),
                text(image, "/used"),
                text(image, "/updatedAt")
            ),
            None => "image: not in the catalog".to_owned(),
        });
        lines.push(match self.matched.as_slice() {
            [] => format!("exports: {} named with {vuln}, none of them in the image", count(self.keys, "package")),
            keys => {
                format!("exports: {} named with {vuln}, in the image {}", count(self.keys, "package"), keys.join(", "))
            }
        });
        lines.push(format!("runs: {} of the last {RUNS} asked about it", self.history.len()));
        lines.extend(self.history.iter().take(RUNS_SHOWN_MAX).map(|entry| {
            let exports = entry.pointer("/reason/exportIds").and_then(Value::as_array).map_or(0, Vec::len);
            let exports = if exports == 0 {
                String::new()
            } else {
                format!(" ({}, last {})", count(exports as u64, "export"), last(entry))
            };
            let names = if tells(entry, vuln) { format!(", {vuln} among them") } else { String::new() };
            format!(
                "  {} {}{exports}, run {}: {}{names}",
                text(entry, "/outcome/finishedAt"),
                text(entry, "/trigger"),
                text(entry, "/runId"),
                outcome(entry)
            )
        }));
        lines
    }

    /// What it comes to, and the way out.
    fn answer(&self, vuln: &str) -> String {
        if let Some(told) = self.history.iter().find(|entry| tells(entry, vuln)) {
            return format!(
                "it was told as new by run {} at {}; the event went out on the event stream unless the schedule's notify rule held \
                 it back",
                text(told, "/runId"),
                text(told, "/outcome/finishedAt")
            );
        }
        if self.image.is_none() {
            return "the image is not in the catalog, so no run takes it; put it there with `image import`".to_owned();
        }
        if self.keys == 0 {
            return format!(
                "no export has told which packages {vuln} concerns; its `changes` would. `preview --key PURL` asks by package"
            );
        }
        if self.matched.is_empty() {
            return "the image has none of the packages, so no run takes it for this".to_owned();
        }
        if !self.selected {
            return "the image has the package but its entrypoint does not use it; `usageOnly: false` takes it too"
                .to_owned();
        }
        match self.history.first() {
            None => {
                "the image is affected, and no run has asked about it: see `schedule list` (`onEvents`) and `run list`"
                    .to_owned()
            }
            Some(last) if text(last, "/outcome/outcome") == "failed" => format!(
                "the image is affected, and the last run could not get a report: {}; see docs/reference/scanner.md",
                text(last, "/outcome/error/message")
            ),
            Some(last) => format!(
                "the image was asked about by run {}, and the scanner named no new finding of {vuln} among its top findings",
                text(last, "/runId")
            ),
        }
    }
}

/// Whether an outcome's news name the vulnerability.
fn tells(entry: &Value, vuln: &str) -> bool {
    let is = |value: &Value| value.as_str().is_some_and(|id| id.eq_ignore_ascii_case(vuln));
    let list = |at: &str| entry.pointer(at).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    list("/outcome/delta/kevHits").iter().any(is)
        || list("/outcome/delta/topFindings").iter().filter_map(|finding| finding.get("vulnId")).any(is)
}

fn outcome(entry: &Value) -> String {
    let kind = text(entry, "/outcome/outcome");
    match kind.as_str() {
        "delta" | "unchanged" => format!(
            "{kind}, verdict {}, {}",
            text(entry, "/outcome/verdict"),
            count(number(entry, "/outcome/delta/newFindings"), "new finding")
        ),
        "failed" => format!("failed: {}", text(entry, "/outcome/error/message")),
        _ => format!("{kind}: {}", text(entry, "/outcome/reason")),
    }
}

fn last(entry: &Value) -> String {
    let ids = entry.pointer("/reason/exportIds").and_then(Value::as_array);
    ids.and_then(|ids| ids.last()).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// A number; zero where there is none.
fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_default()
}

/// A value as text; nothing where there is none.
fn text(value: &Value, pointer: &str) -> String {
    match value.pointer(pointer) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            image: Some(json!({ "image": { "repository": "shop/cart" } })),
            keys: 1,
            matched: vec!["pkg:npm/a".to_owned()],
            selected: true,
            history: Vec::new(),
        }
    }

    fn entry(outcome: Value) -> Value {
        json!({ "runId": "r1", "trigger": "feedser", "reason": { "exportIds": ["e1"] }, "outcome": outcome })
    }

    #[test]
    fn every_way_that_a_notice_goes_or_does_not_has_its_sentence() {
        let told = entry(json!({ "outcome": "delta", "delta": { "kevHits": ["CVE-1"], "topFindings": [] } }));
        let named = entry(json!({ "outcome": "delta", "delta": { "topFindings": [{ "vulnId": "cve-1" }] } }));
        let other = entry(json!({ "outcome": "unchanged", "delta": { "kevHits": ["CVE-2"] } }));
        let failed = entry(json!({ "outcome": "failed", "error": { "message": "no answer" } }));
        for (facts, words) in [
            (Facts { history: vec![other.clone(), told], ..facts() }, "told as new by run r1"),
            (Facts { history: vec![named], image: None, ..facts() }, "told as new by run r1"),
            (Facts { image: None, ..facts() }, "not in the catalog"),
            (Facts { keys: 0, ..facts() }, "no export has told"),
            (Facts { matched: Vec::new(), ..facts() }, "none of the packages"),
            (Facts { selected: false, ..facts() }, "does not use it"),
            (facts(), "no run has asked"),
            (Facts { history: vec![failed], ..facts() }, "no answer"),
            (Facts { history: vec![other], ..facts() }, "no new finding"),
        ] {
            let answer = facts.answer("CVE-1");
            assert!(answer.contains(words), "{words}: {answer}");
            assert!(facts.lines("CVE-1").len() >= 3);
        }
    }
}
