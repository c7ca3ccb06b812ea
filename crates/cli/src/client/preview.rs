//! `preview`.

use super::Session;
use super::http::Request;
use super::output::{Table, cell};
use super::selection::{KeyArgs, SelectionArgs};
use serde_json::{Map, Value, json};

/// What a preview asks.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  stella-scheduler preview --key pkg:npm/left-pad
  stella-scheduler preview --keys-file changed.txt --namespace prod --sample 0
  stella-scheduler preview --vuln CVE-2024-3094 --json")]
pub struct PreviewArgs {
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    selection: SelectionArgs,
    /// How many of the images are named, at most 500.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=500))]
    sample: u32,
}

const SAMPLE: &[(&str, &str)] =
    &[("DIGEST", "/imageDigest"), ("REPOSITORY", "/repository"), ("TAGS", "/tags"), ("KEYS", "/matchedKeys")];
const REPOSITORIES: &[(&str, &str)] = &[("IMAGES", "/candidates"), ("REPOSITORY", "/repository")];

impl PreviewArgs {
    /// Carries it out.
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let Session { client, out } = session;
        let mut body = Map::new();
        self.keys.write(&mut body)?;
        if let Some(selection) = self.selection.selection() {
            body.insert("selection".to_owned(), selection);
        }
        body.insert("sampleSize".to_owned(), json!(self.sample));
        let answer = client.call(Request::post(&["preview", "impact"]).json(&Value::Object(body))).await?;
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
        if get("/projected/basis") == "history" {
            let (deltas, kev) = (get("/projected/deltas"), get("/projected/kev"));
            out.line(&format!("as runs went lately: {deltas} with news, {kev} with KEV"))?;
        }
        if get("/indexState") != "warm" {
            out.remark(&format!("the index is {}: images may be missing; ask again soon", get("/indexState")));
        }
        show(session, REPOSITORIES, answer.get("byRepository"))?;
        show(session, SAMPLE, answer.get("sample"))
    }
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
