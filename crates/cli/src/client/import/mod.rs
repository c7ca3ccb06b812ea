//! `image import`: reads documents and puts them into the catalog, sidecars in bulk, SBOMs one by one with some in flight.
//!
//! A document that cannot be taken is named, and the others are taken all the same; a service that cannot be reached ends the
//! import, which may be repeated: the same documents make the same catalog.

mod document;
mod find;

pub use document::name_of;

use super::http::{Client, Request};
use super::output::{cell, count};
use super::selection::label;
use super::{ClientError, Output, Session, clean};
use anyhow::bail;
use document::{Content, ReadDocument};
use futures::{StreamExt, TryStreamExt, stream};
use indicatif::ProgressBar;
use reqwest::Method;
use scheduler_model::ImageDigest;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Documents, and bytes of them, that are read and sent together.
const BATCH_LEN_MAX: usize = 256;
const BATCH_BYTES_MAX: usize = 16 << 20;

/// SBOMs on their way at a time.
const SBOMS_IN_FLIGHT: usize = 8;

/// Remarks on documents that are shown; `--json` has all of them.
const REMARKS_SHOWN_MAX: usize = 20;

/// Skipped purls that are named for one document.
const SKIPPED_SHOWN_MAX: usize = 5;

/// Members of the answer to a document that was taken.
const IMPORTED: [&str; 2] = ["imageDigest", "components"];

/// What to import.
#[derive(clap::Args, Debug)]
pub struct ImportArgs {
    /// Files and folders; `-` is standard input.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Where an SBOM's image is, in place of what the document says. Sidecars say it themselves.
#[derive(clap::Args, Debug, Default)]
#[command(next_help_heading = "Of SBOMs, in place of what they say themselves")]
struct PlaceArgs {
    /// The image's registry.
    #[arg(long, value_name = "HOST")]
    registry: Option<String>,
    /// The image's repository; of a file that names none it is the file's name.
    #[arg(long, value_name = "NAME")]
    repository: Option<String>,
    /// Where the image is used; may be given several times.
    #[arg(long = "namespace", value_name = "NAME")]
    namespaces: Vec<String>,
    /// The image's tag; may be given several times.
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// The image's label; may be given several times.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
}

/// A file with what was read from it.
type ReadFile = (PathBuf, Result<ReadDocument, String>);

/// What one document got: the service's answer, or a sentence.
type Answer = Result<Value, String>;

impl ImportArgs {
    /// Carries it out.
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let Session { client, out } = session;
        let found = find::find(&self.paths);
        let bar = out.progress(found.files.len() as u64);
        let mut import = Import::new(*out, &bar);
        for (path, why) in &found.failures {
            import.failed(path, why)?;
        }
        let mut files = found.files.into_iter();
        let (mut batch, mut rest) = read_batch(files).await?;
        while !batch.is_empty() {
            files = rest;
            // The next documents are read while these are under way.
            let (sent, next) = tokio::join!(import.send(client, batch, &self.place), read_batch(files));
            sent?;
            (batch, rest) = next?;
        }
        bar.finish_and_clear();
        if found.passed_over > 0 {
            out.remark(&format!("{} passed over: not .json, .gz or .zst", count(found.passed_over as u64, "file")));
        }
        import.end()
    }
}

/// Reads the next documents, off the runtime.
async fn read_batch(
    mut files: std::vec::IntoIter<PathBuf>,
) -> anyhow::Result<(Vec<ReadFile>, std::vec::IntoIter<PathBuf>)> {
    let work = move || {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < BATCH_LEN_MAX && bytes < BATCH_BYTES_MAX {
            let Some(path) = files.next() else { break };
            let read = document::read(&path);
            bytes += read.as_ref().map_or(0, |document| document.content.len());
            batch.push((path, read));
        }
        (batch, files)
    };
    Ok(tokio::task::spawn_blocking(work).await?)
}

/// An import under way.
struct Import<'a> {
    out: Output,
    bar: &'a ProgressBar,
    taken: u64,
    /// The images that the documents are of: several may be of one.
    images: HashSet<String>,
    remarks: usize,
    components: u64,
    skipped: u64,
    failed: u64,
    /// Documents that name no repository, whose file's name stands for it.
    named_by_file: u64,
}

impl<'a> Import<'a> {
    fn new(out: Output, bar: &'a ProgressBar) -> Self {
        Self {
            out,
            bar,
            taken: 0,
            images: HashSet::new(),
            remarks: 0,
            components: 0,
            skipped: 0,
            failed: 0,
            named_by_file: 0,
        }
    }

    /// Sends a batch and says what became of each document, in the order of the files.
    async fn send(&mut self, client: &Client, batch: Vec<ReadFile>, place: &PlaceArgs) -> anyhow::Result<()> {
        let mut lines = Vec::new();
        let mut line_count = 0_usize;
        let mut sboms = Vec::new();
        // What each file waits for.
        let mut named = Vec::with_capacity(batch.len());
        for (path, read) in batch {
            named.push(match read {
                Err(why) => (path, Waiting::Known(why)),
                Ok(document) => {
                    let head = (document.format.to_string(), document.notes);
                    match document.content {
                        Content::Line(mut line) => {
                            lines.append(&mut line);
                            lines.push(b'\n');
                            line_count += 1;
                            (path, Waiting::Bulk(head))
                        }
                        Content::Sbom { digest, names_repository, body } => {
                            let by_file = !names_repository && place.repository.is_none();
                            let repository = if by_file { document::name_of(&path) } else { place.repository.clone() };
                            self.named_by_file += u64::from(by_file && repository.is_some());
                            sboms.push((digest, repository, body));
                            (path, Waiting::Put(head))
                        }
                    }
                }
            });
        }
        let send = |(digest, repository, body)| put_sbom(client, digest, repository, body, place);
        let put = stream::iter(sboms.into_iter().map(send)).buffered(SBOMS_IN_FLIGHT).try_collect::<Vec<Answer>>();
        let (bulk, put) = tokio::try_join!(put_sidecars(client, lines, line_count), put)?;
        let (mut bulk, mut put) = (bulk.into_iter(), put.into_iter());
        for (path, waiting) in named {
            let ((format, notes), answer) = match waiting {
                Waiting::Known(why) => {
                    self.failed(&path, &why)?;
                    continue;
                }
                Waiting::Bulk(head) => (head, bulk.next()),
                Waiting::Put(head) => (head, put.next()),
            };
            match answer.unwrap_or_else(|| Err("the service did not answer for it".to_owned())) {
                Ok(answer) => self.took(&path, &format, &notes, answer)?,
                Err(why) => self.failed(&path, &why)?,
            }
        }
        Ok(())
    }

    fn took(&mut self, path: &Path, format: &str, notes: &[String], mut answer: Value) -> anyhow::Result<()> {
        let file = path.display().to_string();
        let skipped = answer.get("skipped").and_then(Value::as_array).cloned().unwrap_or_default();
        self.taken += 1;
        self.components += answer.get("components").and_then(Value::as_u64).unwrap_or(0);
        self.skipped += skipped.len() as u64;
        self.images.insert(cell(&answer, "/imageDigest"));
        let mut remarks: Vec<String> = notes.to_vec();
        let named = skipped.iter().take(SKIPPED_SHOWN_MAX);
        remarks.extend(named.map(|one| format!("skipped {}: {}", cell(one, "/purl"), cell(one, "/reason"))));
        if skipped.len() > SKIPPED_SHOWN_MAX {
            remarks.push(format!("… and {} more", skipped.len() - SKIPPED_SHOWN_MAX));
        }
        let shown = REMARKS_SHOWN_MAX.saturating_sub(self.remarks).min(remarks.len());
        self.remarks += remarks.len();
        let (out, bar) = (self.out, self.bar);
        bar.suspend(|| {
            for remark in remarks.iter().take(shown) {
                out.remark(&format!("{}: {remark}", clean(&file)));
            }
            if out.json {
                if let Some(members) = answer.as_object_mut() {
                    members.insert("file".to_owned(), json!(file));
                    members.insert("format".to_owned(), json!(format));
                    members.insert("notes".to_owned(), json!(notes));
                }
                return out.document(&answer);
            }
            if out.quiet { out.line(&cell(&answer, "/imageDigest")) } else { Ok(()) }
        })?;
        bar.inc(1);
        Ok(())
    }

    fn failed(&mut self, path: &Path, why: &str) -> anyhow::Result<()> {
        let file = path.display().to_string();
        self.failed += 1;
        let (out, bar) = (self.out, self.bar);
        bar.suspend(|| {
            out.complain(&format!("{}: {why}", clean(&named(path))));
            if out.json { out.document(&json!({ "file": file, "error": why })) } else { Ok(()) }
        })?;
        bar.inc(1);
        Ok(())
    }

    fn end(self) -> anyhow::Result<()> {
        let skipped =
            if self.skipped > 0 { format!(", {} skipped", count(self.skipped, "purl")) } else { String::new() };
        if self.named_by_file > 0 {
            let documents = if self.named_by_file == 1 {
                "1 document names".to_owned()
            } else {
                format!("{} documents name", self.named_by_file)
            };
            self.out.remark(&format!(
                "{documents} no repository: the file's name stands for it; `--repository NAME` gives another"
            ));
        }
        if self.remarks > REMARKS_SHOWN_MAX {
            let more = count((self.remarks - REMARKS_SHOWN_MAX) as u64, "more remark");
            self.out.remark(&format!("{more}; `--json` has all of them"));
        }
        let (images, components) = (count(self.images.len() as u64, "image"), count(self.components, "component"));
        if self.taken + self.failed == 0 {
            bail!("there was nothing to import: of a folder, files ending in .json, .gz and .zst are read");
        }
        // Several documents may be of one image.
        let documents = if self.taken == self.images.len() as u64 {
            String::new()
        } else {
            format!(" from {} documents", self.taken)
        };
        self.out.say(&format!("imported {images}{documents}, {components}{skipped}"))?;
        match self.failed {
            0 => Ok(()),
            1 => bail!("1 document could not be taken; `error:` above names it"),
            failed => bail!("{failed} documents could not be taken; `error:` above names each"),
        }
    }
}

/// A document's name in sentences.
fn named(path: &Path) -> String {
    if document::is_stdin(path) { "standard input".to_owned() } else { path.display().to_string() }
}

/// Where the answer for a file comes from.
enum Waiting {
    Known(String),
    Bulk((String, Vec<String>)),
    Put((String, Vec<String>)),
}

async fn put_sidecars(client: &Client, lines: Vec<u8>, count: usize) -> Result<Vec<Answer>, ClientError> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let request = Request::post(&["images", "bulk"]).body("application/x-ndjson", lines).patiently();
    let answer = client.bytes(request).await?;
    let answers: Vec<Answer> = answer
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
        .map(|answer| match answer.get("problem") {
            Some(problem) => Ok(Err(cell(problem, "/detail"))),
            None => client.with_members(answer, &IMPORTED).map(Ok),
        })
        .collect::<Result<_, ClientError>>()?;
    if answers.len() == count {
        return Ok(answers);
    }
    Err(ClientError::Foreign {
        server: client.server(),
        what: format!("{} lines for a bulk upload of {count}", answers.len()),
    })
}

async fn put_sbom(
    client: &Client,
    digest: ImageDigest,
    repository: Option<String>,
    body: Vec<u8>,
    place: &PlaceArgs,
) -> Result<Answer, ClientError> {
    let mut request = Request::new(Method::PUT, &["images", digest.as_str(), "sbom"])
        .maybe("registry", place.registry.as_deref())
        .maybe("repository", repository);
    for (name, values) in [("namespace", &place.namespaces), ("tag", &place.tags)] {
        for value in values {
            request = request.query(name, value);
        }
    }
    for (name, value) in &place.labels {
        request = request.query("label", format!("{name}={value}"));
    }
    match client.call(request.body("application/json", body).patiently(), &IMPORTED).await {
        Ok(answer) => Ok(Ok(answer)),
        // The document's fault, or this one's alone.
        Err(ClientError::Refused(problem)) if matches!(problem.status, 400 | 413 | 415 | 422) => {
            let lacks_repository = problem.to_string().contains("?repository");
            let way_out = if lacks_repository { "; pass --repository NAME" } else { "" };
            Ok(Err(format!("{problem}{way_out}")))
        }
        Err(error) => Err(error),
    }
}
