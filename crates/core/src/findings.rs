//! What is new among findings, for scanners that report findings instead of a delta.

use scheduler_model::{Delta, Finding, Severity, TopFinding};
use std::collections::BTreeMap;

/// The most findings that an event names.
pub const TOP_FINDINGS_MAX: usize = 10;

/// Brings findings into the order in which they are remembered: by purl and vulnerability, each pair once, with the worst
/// severity that was given for it.
pub fn canonical(findings: Vec<Finding>) -> Vec<Finding> {
    let mut merged: BTreeMap<(String, String), Finding> = BTreeMap::new();
    for finding in findings {
        merged
            .entry((finding.purl.clone(), finding.vuln_id.clone()))
            .and_modify(|known| {
                known.severity = known.severity.max(finding.severity);
                known.kev |= finding.kev;
            })
            .or_insert(finding);
    }
    merged.into_values().collect()
}

/// The delta from what was last seen (`None`: never a report, so everything is new) to what is there now; both canonical.
///
/// A finding is new when its (purl, vulnerability) was not there, when its severity rose, or when it became KEV.
/// What went away is no news.
pub fn delta(previous: Option<&[Finding]>, now: &[Finding]) -> Delta {
    let known: BTreeMap<(&str, &str), &Finding> =
        previous.unwrap_or_default().iter().map(|f| ((f.purl.as_str(), f.vuln_id.as_str()), f)).collect();
    let mut fresh: Vec<&Finding> = now
        .iter()
        .filter(|f| {
            known
                .get(&(f.purl.as_str(), f.vuln_id.as_str()))
                .is_none_or(|before| f.severity > before.severity || (f.kev && !before.kev))
        })
        .collect();
    let count = |severity: Severity| fresh.iter().filter(|f| f.severity == severity).count() as u64;
    let mut delta = Delta {
        new_findings: fresh.len() as u64,
        new_criticals: count(Severity::Critical),
        new_high: count(Severity::High),
        new_medium: count(Severity::Medium),
        new_low: count(Severity::Low),
        ..Delta::default()
    };
    delta.kev_hits = fresh.iter().filter(|f| f.kev).map(|f| f.vuln_id.clone()).collect();
    delta.kev_hits.sort();
    delta.kev_hits.dedup();
    fresh.sort_by_key(|f| std::cmp::Reverse((f.kev, f.severity)));
    delta.top_findings = fresh
        .iter()
        .take(TOP_FINDINGS_MAX)
        .map(|f| TopFinding {
            purl: f.purl.clone(),
            vuln_id: f.vuln_id.clone(),
            severity: severity_word(f.severity).to_owned(),
            link: None,
        })
        .collect();
    delta
}

fn severity_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Low => "low",
        Severity::Medium => "medium",
        Severity::High => "high",
        Severity::Critical => "critical",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn finding(purl: &str, vuln: &str, severity: Severity, kev: bool) -> Finding {
        Finding { purl: purl.into(), vuln_id: vuln.into(), severity, kev }
    }

    #[test]
    fn a_first_report_is_all_new_and_a_repeated_one_is_none() {
        let now = [finding("a", "CVE-1", Severity::High, true), finding("b", "CVE-1", Severity::Low, false)];
        let first = delta(None, &now);
        assert_eq!((first.new_findings, first.new_high, first.new_low), (2, 1, 1));
        assert_eq!(first.kev_hits, ["CVE-1"]);
        assert_eq!(first.top_findings.first().unwrap().purl, "a");
        assert!(delta(Some(&now), &now).is_empty());
    }

    #[test]
    fn a_risen_severity_and_a_new_kev_mark_are_news_and_a_fallen_one_is_not() {
        let before = [finding("a", "CVE-1", Severity::Low, false), finding("b", "CVE-2", Severity::High, true)];
        let risen = delta(Some(&before), &[finding("a", "CVE-1", Severity::Critical, false)]);
        assert_eq!((risen.new_findings, risen.new_criticals), (1, 1));
        let marked = delta(Some(&before), &[finding("a", "CVE-1", Severity::Low, true)]);
        assert_eq!((marked.new_findings, marked.kev_hits.len()), (1, 1));
        assert!(delta(Some(&before), &[finding("b", "CVE-2", Severity::Low, false)]).is_empty());
    }

    fn some() -> impl Strategy<Value = Vec<Finding>> {
        let one = (0..4u8, 0..4u8, 0..4u8, any::<bool>()).prop_map(|(p, v, s, kev)| {
            let severity = [Severity::Low, Severity::Medium, Severity::High, Severity::Critical][usize::from(s)];
            finding(&format!("p{p}"), &format!("v{v}"), severity, kev)
        });
        proptest::collection::vec(one, 0..12)
    }

    proptest! {
        #[test]
        fn the_delta_equals_a_naive_comparison(before in some(), now in some()) {
            let (before, now) = (canonical(before), canonical(now));
            let got = delta(Some(&before), &now);
            let naive = now.iter().filter(|f| !before.iter().any(|b|
                b.purl == f.purl && b.vuln_id == f.vuln_id && b.severity >= f.severity && (b.kev || !f.kev)));
            prop_assert_eq!(got.new_findings, naive.count() as u64);
            prop_assert_eq!(got.new_findings, got.new_criticals + got.new_high + got.new_medium + got.new_low);
            prop_assert!(delta(Some(&now), &now).is_empty());
        }
    }
}
