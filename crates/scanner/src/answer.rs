//! Reads the scanner's answers. Members that are not known are ignored; what is known must have its shape, and what is
//! taken from it is bounded (SCN-2).

use crate::object::Object;
use scheduler_core::ports::{ScanProgress, ScanState};
use scheduler_model::{Attestation, Delta, Finding, Found, ImageDigest, Report, Severity, TopFinding, Verdict};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;

/// The longest answer that is read, in bytes.
pub(crate) const ANSWER_LEN_MAX: usize = 16 << 20;
/// A count of findings above it is no count of an image: and so the sums of a run cannot overflow.
const COUNT_MAX: u64 = 10_000_000;
/// Of these lists the first ones are kept: they are shown to people.
const TOP_FINDINGS_MAX: usize = 100;
const KEV_HITS_MAX: usize = 1_000;
/// Texts that name a thing; a longer one is refused rather than cut, since a cut name is another name.
const NAME_LEN_MAX: usize = 4_096;
const SCAN_ID_LEN_MAX: usize = 256;
/// Links and words for people; a longer one is left out.
const LINK_LEN_MAX: usize = 2_048;

/// Why an answer cannot be understood. It quotes nothing of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AnswerError {
    #[error("it is no JSON (line {line}, column {column})")]
    NotJson { line: usize, column: usize },
    #[error("it is JSON of another shape (line {line}, column {column})")]
    Shape { line: usize, column: usize },
    #[error("it has neither `delta` nor `findings`")]
    NothingFound,
    #[error("it is about another image")]
    OtherImage,
    #[error("it is about another scan")]
    OtherScan,
    #[error("its `{0}` is out of range")]
    OutOfRange(&'static str),
    #[error("it is longer than {ANSWER_LEN_MAX} bytes")]
    TooLong,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReportAnswer {
    image_digest: Option<String>,
    policy_revision: Option<String>,
    verdict: Verdict,
    delta: Option<Object<DeltaAnswer>>,
    findings: Option<Vec<Object<FindingAnswer>>>,
    report_url: Option<String>,
    attestation: Option<Object<AttestationAnswer>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeltaAnswer {
    new_findings: Option<u64>,
    new_criticals: Option<u64>,
    new_high: Option<u64>,
    new_medium: Option<u64>,
    new_low: Option<u64>,
    kev_hits: Option<Vec<String>>,
    top_findings: Option<Vec<Object<TopFindingAnswer>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TopFindingAnswer {
    purl: Option<String>,
    vuln_id: Option<String>,
    severity: Option<String>,
    link: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FindingAnswer {
    purl: String,
    vuln_id: String,
    /// Of any type: whatever is no word that is known counts as low.
    #[serde(default)]
    severity: serde_json::Value,
    kev: Option<bool>,
}

#[derive(Deserialize)]
struct AttestationAnswer {
    uuid: String,
    verified: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResolveAnswer {
    image_digest: ImageDigest,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ScanAnswer {
    scan_id: Option<String>,
    status: String,
    image_digest: Option<ImageDigest>,
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, AnswerError> {
    // The library's own message quotes the answer, so only the place is kept.
    serde_json::from_slice::<Object<T>>(body).map(|Object(answer)| answer).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        if error.is_data() { AnswerError::Shape { line, column } } else { AnswerError::NotJson { line, column } }
    })
}

/// The answer to `POST /reports` about `asked`.
pub(crate) fn report(body: &[u8], asked: &ImageDigest) -> Result<Report, AnswerError> {
    let answer: ReportAnswer = read(body)?;
    if answer.image_digest.is_some_and(|digest| digest != asked.as_str()) {
        return Err(AnswerError::OtherImage);
    }
    // A scanner that sends both has compared by itself.
    let found = match (answer.delta, answer.findings) {
        (Some(Object(delta)), _) => Found::Delta(self::delta(delta)?),
        (None, Some(findings)) => {
            Found::Findings(findings.into_iter().map(|Object(one)| finding(one)).collect::<Result<_, _>>()?)
        }
        (None, None) => return Err(AnswerError::NothingFound),
    };
    if answer.policy_revision.as_ref().is_some_and(|revision| revision.len() > NAME_LEN_MAX) {
        return Err(AnswerError::OutOfRange("policyRevision"));
    }
    Ok(Report {
        policy_revision: answer.policy_revision,
        verdict: answer.verdict,
        found,
        report_url: answer.report_url.filter(|url| is_link(url)),
        attestation: answer
            .attestation
            .map(|Object(one)| Attestation { uuid: one.uuid, verified: one.verified.unwrap_or(false) })
            .filter(|one| one.uuid.len() <= NAME_LEN_MAX),
    })
}

fn delta(answer: DeltaAnswer) -> Result<Delta, AnswerError> {
    let count = |number: Option<u64>, name| match number.unwrap_or(0) {
        number if number <= COUNT_MAX => Ok(number),
        _ => Err(AnswerError::OutOfRange(name)),
    };
    let new_criticals = count(answer.new_criticals, "newCriticals")?;
    let new_high = count(answer.new_high, "newHigh")?;
    let new_medium = count(answer.new_medium, "newMedium")?;
    let new_low = count(answer.new_low, "newLow")?;
    let by_severity = new_criticals + new_high + new_medium + new_low;
    Ok(Delta {
        new_findings: count(answer.new_findings.or(Some(by_severity)), "newFindings")?,
        new_criticals,
        new_high,
        new_medium,
        new_low,
        kev_hits: answer
            .kev_hits
            .unwrap_or_default()
            .into_iter()
            .filter(|cve| !cve.is_empty() && cve.len() <= NAME_LEN_MAX)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .take(KEV_HITS_MAX)
            .collect(),
        top_findings: answer
            .top_findings
            .unwrap_or_default()
            .into_iter()
            .take(TOP_FINDINGS_MAX)
            .filter_map(|Object(one)| top_finding(one))
            .collect(),
    })
}

fn top_finding(answer: TopFindingAnswer) -> Option<TopFinding> {
    let named = |text: &Option<String>| text.as_ref().is_none_or(|text| text.len() <= NAME_LEN_MAX);
    let whole = named(&answer.purl) && named(&answer.vuln_id) && named(&answer.severity);
    whole.then(|| TopFinding {
        purl: answer.purl.unwrap_or_default(),
        vuln_id: answer.vuln_id.unwrap_or_default(),
        severity: answer.severity.unwrap_or_default(),
        link: answer.link.filter(|link| is_link(link)),
    })
}

fn finding(answer: FindingAnswer) -> Result<Finding, AnswerError> {
    let name = |text: String, member| {
        let usable = (1..=NAME_LEN_MAX).contains(&text.len());
        if usable { Ok(text) } else { Err(AnswerError::OutOfRange(member)) }
    };
    Ok(Finding {
        purl: name(answer.purl, "purl")?,
        vuln_id: name(answer.vuln_id, "vulnId")?,
        severity: answer.severity.as_str().map_or(Severity::Low, Severity::of_word),
        kev: answer.kev.unwrap_or(false),
    })
}

/// Whether a text may become something that a person clicks: of no scheme at all, or of http or https.
fn is_link(text: &str) -> bool {
    let scheme =
        text.find([':', '/', '?', '#']).and_then(|at| text.get(at..)?.starts_with(':').then(|| text.get(..at)));
    let harmless = match scheme.flatten() {
        Some(scheme) => scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https"),
        None => true,
    };
    harmless && text.len() <= LINK_LEN_MAX && !text.chars().any(char::is_control)
}

/// The answer to `POST /resolve`.
pub(crate) fn resolved(body: &[u8]) -> Result<ImageDigest, AnswerError> {
    read::<ResolveAnswer>(body).map(|answer| answer.image_digest)
}

/// The answer to `POST /scans`, or, with `asked`, to `GET /scans/{scanId}`.
pub(crate) fn scan(body: &[u8], asked: Option<&str>) -> Result<ScanProgress, AnswerError> {
    let answer: ScanAnswer = read(body)?;
    let scan_id = match (answer.scan_id, asked) {
        (Some(told), Some(asked)) if told != asked => return Err(AnswerError::OtherScan),
        (Some(told), _) => told,
        (None, Some(asked)) => asked.to_owned(),
        (None, None) => return Err(AnswerError::OutOfRange("scanId")),
    };
    // It becomes a segment of a path, where dots alone mean another place.
    let usable = (1..=SCAN_ID_LEN_MAX).contains(&scan_id.len())
        && scan_id != "."
        && scan_id != ".."
        && !scan_id.chars().any(char::is_control);
    if !usable {
        return Err(AnswerError::OutOfRange("scanId"));
    }
    let state = match answer.status.as_str() {
        "done" => ScanState::Done,
        "failed" => ScanState::Failed,
        _ => ScanState::Going,
    };
    Ok(ScanProgress { scan_id, state, digest: answer.image_digest })
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
