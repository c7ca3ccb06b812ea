//! The story: six steps from an empty catalog to deltas, each checked against what the demo works out by itself.

use super::client::{Events, answer};
use super::follow::{Followed, count, follow, text};
use super::intel::{Intel, KnownImage, news};
use super::own::unpacked;
use super::scanner::DemoScanner;
use super::scenario::{Scenario, Upload};
use super::screen::Screen;
use super::service::{KEY_ID, Service};
use super::summary::Summary;
use crate::system::SystemClock;
use anyhow::{Context, ensure};
use reqwest::Method;
use scheduler_auth::SCHEDULER_SIGNATURE_HEADER;
use scheduler_core::ports::Clock;
use scheduler_model::purl::ProductKey;
use scheduler_model::{ImageDigest, Timestamp};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// Deltas that are shown one by one.
const DELTAS_SHOWN: usize = 8;

/// Everything that the steps work with.
pub struct Story<'a> {
    /// What is played.
    pub scenario: &'a Scenario,
    /// The service.
    pub service: &'a Service,
    /// The scanner that it asks.
    pub scanner: &'a DemoScanner,
    /// Where it is told.
    pub screen: &'a mut Screen,
}

/// What the demo works out by itself, pair by pair, to hold the service's answers against.
struct Expected {
    /// Images that the export can touch.
    impacted: BTreeSet<ImageDigest>,
    /// Of these, the ones with something new.
    deltas: BTreeSet<ImageDigest>,
    /// Images with a changed package that is not used.
    idle: usize,
    /// Whether `impacted` is exact: a key of type `oci` names images themselves, which packages do not show.
    exact: bool,
}

impl Story<'_> {
    /// Tells it to the end.
    pub async fn tell(&mut self) -> anyhow::Result<Summary> {
        let intel = Arc::new(Intel::new(self.scenario.after.iter().cloned()));
        let before = Arc::new(Intel::new(self.scenario.before.iter().cloned()));
        let expected = expected(self.scenario, &before, &intel);
        self.scanner.learn(before);
        self.fill_catalog().await?;
        let schedule = self.schedule().await?;
        let preview = self.preview(&expected).await?;
        let mut events = self.service.api.events().await?;
        // From here on the scanner knows what the export tells: both read the same advisories.
        self.scanner.learn(intel);
        let calls_before = self.scanner.calls();
        let sent_at = self.send_export().await?;
        let followed = self.run(&schedule, &expected, &mut events).await?;
        self.deltas(&followed, &expected)?;
        let sum = |member: &str| followed.deltas.iter().map(|delta| number(delta, member)).sum::<u64>();
        let (critical, high) = (sum("newCriticals"), sum("newHigh"));
        let since = |member: &str| {
            let at = Timestamp::parse(text(&followed.run, member)).ok();
            at.map(|at| at.since(sent_at)).unwrap_or_default()
        };
        Ok(Summary {
            keys: self.scenario.keys.len(),
            keys_matched: number(&preview, "keysMatched"),
            images: self.scenario.images.len(),
            impacted: self.scanner.asked(text(&followed.run, "id")).len(),
            idle: expected.idle,
            preview_ms: preview.get("elapsedMs").and_then(Value::as_f64).unwrap_or_default(),
            calls: self.scanner.calls() - calls_before,
            deltas: followed.deltas.len(),
            findings: [critical, high, sum("newFindings").saturating_sub(critical + high)],
            kev_images: followed.deltas.iter().filter(|delta| !kev_hits(delta).is_empty()).count(),
            kev_hits: count(&followed.run, "kevHits"),
            first_verdict: since("firstVerdictAt"),
            last_verdict: since("finishedAt"),
        })
    }

    async fn fill_catalog(&mut self) -> anyhow::Result<()> {
        let images = self.scenario.images.len();
        self.screen
            .step("The catalog", "The service learns what is in each image, and the scanner reports on each once.")?;
        self.screen.line(&self.scenario.catalog)?;
        for remark in &self.scenario.remarks {
            self.screen.line(remark)?;
        }
        let began = SystemClock.now();
        let bar = self.screen.bar(images, "into the catalog")?;
        for upload in &self.scenario.uploads {
            self.upload(upload).await?;
            bar.inc(upload.images() as u64);
        }
        drop(bar);
        let stored = SystemClock.now();
        let bar = self.screen.bar(images, "first reports")?;
        let mut events = self.service.api.events().await?;
        let started = self.service.api.post("/run", &json!({ "reason": "first report of every image" })).await?;
        let run = text(&started, "runId").to_owned();
        let followed = follow(&mut events, |candidate| text(candidate, "id") == run, &bar).await?;
        drop(bar);
        let asked = self.scanner.asked(&run).len();
        ensure!(asked == images, "the first run asked about {asked} images, but the catalog has {images}");
        let reported = SystemClock.now();
        self.screen.line(&format!(
            "{images} images stored durably in {}; {} first reports in {}: what a rescan of everything costs.",
            seconds(stored.since(began)),
            count(&followed.run, "completed"),
            seconds(reported.since(stored)),
        ))?;
        Ok(())
    }

    async fn upload(&self, upload: &Upload) -> anyhow::Result<()> {
        let api = &self.service.api;
        match upload {
            Upload::Bulk { lines, images } => {
                let path = "/images/bulk";
                let sent = api.request(Method::POST, path).header("content-type", "application/x-ndjson");
                let answers = answer(path, sent.body(lines.clone())).await?.text().await?;
                let mut taken = 0;
                for line in answers.lines() {
                    let said: Value = serde_json::from_str(line).context("an answer of the bulk upload is no JSON")?;
                    ensure!(said.get("imageDigest").is_some(), "a sidecar was refused: {line}");
                    taken += 1;
                }
                ensure!(taken == *images, "{images} sidecars were sent, {taken} were answered");
            }
            Upload::File { path, digest, repository, sidecar } => {
                let kind = if *sidecar { "bom-index" } else { "sbom" };
                let url = format!("/images/{digest}/{kind}");
                let file = path.clone();
                let content = tokio::task::spawn_blocking(move || unpacked(&file)).await??;
                let query: Vec<(&str, &str)> = repository.iter().map(|name| ("repository", name.as_str())).collect();
                let sent = api.request(Method::PUT, &url).query(&query).header("content-type", "application/json");
                answer(&url, sent.body(content)).await.with_context(|| path.display().to_string())?;
            }
        }
        Ok(())
    }

    async fn schedule(&mut self) -> anyhow::Result<String> {
        self.screen.step(
            "A schedule",
            "It says what to do when advisories change: new reports for the images that use a changed package.",
        )?;
        let body = json!({ "name": "advisories", "onEvents": ["feedser"], "notify": { "minSeverity": "low" } });
        let schedule = self.service.api.post("/schedules", &body).await?;
        self.screen.line(&format!("POST /schedules {body}"))?;
        Ok(text(&schedule, "id").to_owned())
    }

    async fn preview(&mut self, expected: &Expected) -> anyhow::Result<Value> {
        self.screen.step(
            "A preview",
            "What would the export touch? The index alone answers; nothing is asked of the scanner.",
        )?;
        let keys: Vec<&str> = self.scenario.keys.iter().map(|key| key.purl().as_str()).collect();
        let preview = self.service.api.post("/preview/impact", &json!({ "keys": keys, "sampleSize": 3 })).await?;
        let candidates = usize::try_from(number(&preview, "candidates"))?;
        let by_hand = expected.impacted.len();
        ensure!(
            candidates == by_hand || (!expected.exact && candidates >= by_hand),
            "the preview names {candidates} images, but comparing every package with every key gives {by_hand}"
        );
        self.screen.line(&format!(
            "{} keys, {} known to the catalog: {candidates} of {} images, in {} ms.",
            keys.len(),
            number(&preview, "keysMatched"),
            number(&preview, "total"),
            preview.get("elapsedMs").unwrap_or(&Value::Null),
        ))?;
        if expected.exact {
            self.screen.line(&format!("Comparing every package with every key, pair by pair, gives {by_hand} too."))?;
        }
        Ok(preview)
    }

    async fn send_export(&mut self) -> anyhow::Result<Timestamp> {
        self.screen.step(
            "The signed export",
            "The advisory service posts what has changed. Who it is shows an HMAC over the bytes of the body.",
        )?;
        let path = "/events/feedser-export";
        let sent_at = SystemClock.now();
        let seconds = u64::try_from(sent_at.seconds()).context("the clock stands before 1970")?;
        let signature = self.service.key.scheduler_header(&self.scenario.export, seconds);
        let sent = self
            .service
            .api
            .request(Method::POST, path)
            .header("content-type", "application/json")
            .header(SCHEDULER_SIGNATURE_HEADER, signature)
            .body(self.scenario.export.clone());
        let response = answer(path, sent).await?;
        let status = response.status();
        let said: Value = response.json().await.context("the answer to the export is no JSON")?;
        ensure!(text(&said, "status") == "accepted", "the export was answered with {said}");
        self.screen.line(&format!(
            "POST {path} ({} bytes, signed with {KEY_ID}) -> {}: {} keys taken, {} skipped.",
            self.scenario.export.len(),
            status.as_u16(),
            number(&said, "keys"),
            said.get("skipped").and_then(Value::as_array).map_or(0, Vec::len),
        ))?;
        Ok(sent_at)
    }

    async fn run(&mut self, schedule: &str, expected: &Expected, events: &mut Events) -> anyhow::Result<Followed> {
        self.screen.step("The run", "Exactly those images are asked for, exploited and critical ones first.")?;
        let bar = self.screen.bar(expected.impacted.len(), "new reports")?;
        let export_id = self.scenario.export_id.as_str();
        let is_it = |run: &Value| {
            text(run, "scheduleId") == schedule
                && run.get("reason").is_some_and(|reason| text(reason, "feedserExportId") == export_id)
        };
        let followed = follow(events, is_it, &bar).await?;
        drop(bar);
        let run = text(&followed.run, "id");
        let asked = self.scanner.asked(run);
        let missed = expected.impacted.difference(&asked).count();
        let needless = if expected.exact { asked.difference(&expected.impacted).count() } else { 0 };
        ensure!(
            missed == 0 && needless == 0,
            "of the images that the export can touch the run missed {missed}, and it asked about {needless} others"
        );
        self.screen.line(&format!(
            "Run {run}: {} images asked for, {} verdicts; none missed, none asked for besides.",
            asked.len(),
            count(&followed.run, "completed"),
        ))?;
        Ok(followed)
    }

    fn deltas(&mut self, followed: &Followed, expected: &Expected) -> anyhow::Result<()> {
        self.screen
            .step("The deltas", "People hear of what is new, and of nothing else. These came on the event stream:")?;
        let told: BTreeSet<&str> = followed.deltas.iter().map(|delta| text(delta, "imageDigest")).collect();
        let due: BTreeSet<&str> = expected.deltas.iter().map(ImageDigest::as_str).collect();
        ensure!(
            !expected.exact || told == due,
            "{} images have news by the stream, but {} have by their versions",
            told.len(),
            due.len()
        );
        ensure!(told.len() == followed.deltas.len(), "an image was told of twice");
        let names: HashMap<&str, &str> =
            self.scenario.images.iter().map(|image| (image.digest.as_str(), image.name.as_str())).collect();
        let mut worst: Vec<&Value> = followed.deltas.iter().collect();
        worst.sort_by_key(|delta| {
            let weight = (kev_hits(delta).len(), number(delta, "newCriticals"), number(delta, "newHigh"));
            (std::cmp::Reverse(weight), names.get(text(delta, "imageDigest")))
        });
        // One of each repository: its builds tell the same.
        let mut repositories = BTreeSet::new();
        let shown = worst.iter().filter(|delta| repositories.insert(text(delta, "repository"))).take(DELTAS_SHOWN);
        let mut lines = 0;
        for delta in shown {
            let name = names.get(text(delta, "imageDigest")).copied().unwrap_or_default();
            self.screen.line(&format!("{name:<24} {}", first_finding(delta)))?;
            lines += 1;
        }
        if worst.len() > lines {
            self.screen.line(&format!("... and {} more", worst.len() - lines))?;
        }
        if worst.is_empty() {
            self.screen.line("none: no image of the catalog has anything new.")?;
        }
        Ok(())
    }
}

/// The joins that the service's index spares: every package of every image with every key.
fn expected(scenario: &Scenario, before: &Intel, after: &Intel) -> Expected {
    let selected = |usage_only: bool| -> Vec<&KnownImage> {
        scenario.images.iter().filter(|image| image.is_selected(&scenario.keys, usage_only)).collect()
    };
    let impacted = selected(true);
    let has_news = |image: &&&KnownImage| !news(&before.findings(image), &after.findings(image)).is_empty();
    Expected {
        deltas: impacted.iter().filter(has_news).map(|image| image.digest.clone()).collect(),
        idle: selected(false).len() - impacted.len(),
        impacted: impacted.into_iter().map(|image| image.digest.clone()).collect(),
        exact: !scenario.keys.iter().any(names_images),
    }
}

fn names_images(key: &ProductKey) -> bool {
    key.match_name().ty == "oci"
}

fn first_finding(delta: &Value) -> String {
    let top = delta.get("topFindings").and_then(Value::as_array).and_then(|list| list.first());
    let top = top.unwrap_or(&Value::Null);
    let purl = text(top, "purl").split('?').next().unwrap_or_default();
    let kev = if kev_hits(delta).iter().any(|hit| hit.as_str() == Some(text(top, "vulnId"))) { " KEV" } else { "" };
    let others = number(delta, "newFindings").saturating_sub(1);
    let others = if others > 0 { format!(", {others} more") } else { String::new() };
    format!("{:<8} {}{kev} in {purl}{others}", text(top, "severity"), text(top, "vulnId"))
}

fn kev_hits(delta: &Value) -> &[Value] {
    delta.get("kevHits").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn number(value: &Value, member: &str) -> u64 {
    value.get(member).and_then(Value::as_u64).unwrap_or_default()
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
