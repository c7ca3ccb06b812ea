//! What a scanner reports of an image, and what of it is new.

use crate::{ImageDigest, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How bad a finding is. A severity that is not known counts as low.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Low, or not known.
    #[default]
    Low,
    /// Medium.
    Medium,
    /// High.
    High,
    /// Critical.
    Critical,
}

impl Severity {
    /// Reads a foreign word, in any case; whatever is not one of the four counts as low.
    ///
    /// ```
    /// use scheduler_model::Severity;
    /// assert_eq!(Severity::of_word("CRITICAL"), Severity::Critical);
    /// assert_eq!(Severity::of_word("negligible"), Severity::Low);
    /// ```
    pub fn of_word(word: &str) -> Self {
        match word.to_ascii_lowercase().as_str() {
            "critical" => Self::Critical,
            "high" | "important" => Self::High,
            "medium" | "moderate" => Self::Medium,
            _ => Self::Low,
        }
    }
}

/// The scanner's judgement of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Nothing stands against it.
    Pass,
    /// Something to look at.
    Warn,
    /// It breaks the policy.
    Fail,
}

/// A finding worth naming in an event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct TopFinding {
    /// The package, as the scanner names it.
    pub purl: String,
    /// The vulnerability.
    pub vuln_id: String,
    /// The scanner's word for the severity.
    pub severity: String,
    /// Where a person reads more; may be absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

/// What is new since the image's last report. Counts are findings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Delta {
    /// All new findings.
    pub new_findings: u64,
    /// Of these, critical ones.
    pub new_criticals: u64,
    /// Of these, high ones.
    pub new_high: u64,
    /// Of these, medium ones.
    pub new_medium: u64,
    /// Of these, low ones.
    pub new_low: u64,
    /// CVEs that are known to be exploited.
    pub kev_hits: Vec<String>,
    /// Some of the new findings, worst first.
    pub top_findings: Vec<TopFinding>,
}

impl Delta {
    /// Whether nothing is new. A KEV hit alone is news too: a known finding may have become exploited.
    pub fn is_empty(&self) -> bool {
        self.new_findings == 0
            && self.kev_hits.is_empty()
            && self.new_criticals + self.new_high + self.new_medium + self.new_low == 0
    }

    /// The worst severity among the new findings; `None` when nothing is new.
    ///
    /// Findings that the scanner counted without a severity count as low.
    pub fn worst(&self) -> Option<Severity> {
        if self.new_criticals > 0 {
            Some(Severity::Critical)
        } else if self.new_high > 0 {
            Some(Severity::High)
        } else if self.new_medium > 0 {
            Some(Severity::Medium)
        } else if self.new_low > 0 || self.new_findings > 0 {
            Some(Severity::Low)
        } else {
            None
        }
    }
}

/// One finding of a scanner that reports findings instead of a delta.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The package.
    pub purl: String,
    /// The vulnerability.
    pub vuln_id: String,
    /// Its severity.
    pub severity: Severity,
    /// Known to be exploited.
    #[serde(default)]
    pub kev: bool,
}

/// The form in which the scanner tells what it found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// The scanner compared by itself.
    Delta(Delta),
    /// Everything that stands against the image now; the comparison is ours.
    Findings(Vec<Finding>),
}

/// Where a signed report can be looked up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Attestation {
    /// The entry in the transparency log.
    pub uuid: String,
    /// Whether the signature was checked.
    pub verified: bool,
}

/// A scanner's answer about one image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Under which policy it was judged.
    pub policy_revision: Option<String>,
    /// The judgement.
    pub verdict: Verdict,
    /// What was found.
    pub found: Found,
    /// Where a person reads the report.
    pub report_url: Option<String>,
    /// The report's signature.
    pub attestation: Option<Attestation>,
}

/// What this service remembers of an image's last report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportRecord {
    /// When the verdict came.
    pub reported_at: Timestamp,
    /// Under which policy.
    pub policy_revision: Option<String>,
    /// The findings last seen, of a scanner that reports findings; sorted by purl and vulnerability.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub findings: Option<Vec<Finding>>,
    /// How many reports were remembered before this one. Findings that were compared with an older report than the last
    /// one are told by it.
    #[serde(default)]
    pub revision: u64,
    /// When the call began that gave the findings. Those of an older call than the last one replace nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<Timestamp>,
}

impl ReportRecord {
    /// What decides whether the image is due for another report.
    pub fn head(&self) -> ReportHead {
        ReportHead { reported_at: self.reported_at, policy_revision: self.policy_revision.clone() }
    }
}

/// A [`ReportRecord`] without what was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportHead {
    /// When the verdict came.
    pub reported_at: Timestamp,
    /// Under which policy.
    pub policy_revision: Option<String>,
}

/// What this service remembers of an image's tags: what each pointed to when the last verdict by it came.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagRecord {
    /// By tag.
    pub tags: BTreeMap<String, ImageDigest>,
}
