//! Following tags: what an image is called, and how several reports about it become one.

use crate::findings;
use scheduler_model::{Delta, Found, ImagePlace, Report, ReportRecord, Severity, TagRule, Verdict};
use std::collections::BTreeSet;

/// The most tags of one image that are resolved in a run; the first in order are.
pub const TAGS_MAX: usize = 64;

/// The most findings that a merged report names.
const TOP_FINDINGS_MAX: usize = 100;

/// The tags of an image that the rule lets through, in order, each with its `registry/repository:tag`.
///
/// None when the image's place does not say where it could be found.
///
/// ```
/// use scheduler_core::refresh::references;
/// use scheduler_model::{ImagePlace, TagRule};
/// let place = ImagePlace {
///     registry: "registry.example.com".into(),
///     repository: "shop/cart".into(),
///     tags: vec!["prod-2".into(), "dev".into()],
///     ..ImagePlace::default()
/// };
/// let rule = TagRule { resolve: true, include: vec!["prod-*".into()] };
/// assert_eq!(references(&rule, &place), [("prod-2".to_owned(), "registry.example.com/shop/cart:prod-2".to_owned())]);
/// ```
pub fn references(rule: &TagRule, place: &ImagePlace) -> Vec<(String, String)> {
    if place.registry.is_empty() || place.repository.is_empty() {
        return Vec::new();
    }
    let tags: BTreeSet<&String> = place.tags.iter().filter(|tag| !tag.is_empty() && rule.lets(tag)).collect();
    let name = |tag: &String| (tag.clone(), format!("{}/{}:{tag}", place.registry, place.repository));
    tags.into_iter().take(TAGS_MAX).map(name).collect()
}

/// One report out of those about the digests that an image's tags point to.
///
/// The worst verdict counts, with its link, attestation and policy; of equals the first. Findings are united, so that one
/// that stands against several digests is one. Deltas that the scanner took cannot be told apart: their counts are added.
/// Where a scanner gives both, findings are compared with `known` first.
pub fn merged(first: Report, others: impl IntoIterator<Item = Report>, known: Option<&ReportRecord>) -> Report {
    others.into_iter().fold(first, |one, other| {
        let found = match (one.found.clone(), other.found.clone()) {
            (Found::Findings(mut these), Found::Findings(those)) => {
                these.extend(those);
                Found::Findings(these)
            }
            (these, those) => Found::Delta(sum(compared(these, known), compared(those, known))),
        };
        let worse = if badness(other.verdict) > badness(one.verdict) { other } else { one };
        Report { found, ..worse }
    })
}

fn badness(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Pass => 0,
        Verdict::Warn => 1,
        Verdict::Fail => 2,
    }
}

fn compared(found: Found, known: Option<&ReportRecord>) -> Delta {
    match found {
        Found::Delta(delta) => delta,
        Found::Findings(all) => {
            findings::delta(known.and_then(|record| record.findings.as_deref()), &findings::canonical(all))
        }
    }
}

fn sum(one: Delta, other: Delta) -> Delta {
    let union: BTreeSet<String> = one.kev_hits.into_iter().chain(other.kev_hits).collect();
    let mut top = one.top_findings;
    for finding in other.top_findings {
        if !top.iter().any(|known| known.purl == finding.purl && known.vuln_id == finding.vuln_id) {
            top.push(finding);
        }
    }
    // The worst first, and of equals in the order of the reports.
    top.sort_by_key(|finding| std::cmp::Reverse(Severity::of_word(&finding.severity)));
    top.truncate(TOP_FINDINGS_MAX);
    Delta {
        new_findings: one.new_findings.saturating_add(other.new_findings),
        new_criticals: one.new_criticals.saturating_add(other.new_criticals),
        new_high: one.new_high.saturating_add(other.new_high),
        new_medium: one.new_medium.saturating_add(other.new_medium),
        new_low: one.new_low.saturating_add(other.new_low),
        kev_hits: union.into_iter().collect(),
        top_findings: top,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scheduler_model::{Finding, Timestamp, TopFinding};

    fn place(tags: &[&str]) -> ImagePlace {
        ImagePlace {
            registry: "r.example".into(),
            repository: "shop/cart".into(),
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            ..ImagePlace::default()
        }
    }

    #[test]
    fn every_tag_that_the_rule_lets_through_is_followed_once() {
        let all = TagRule { resolve: true, include: vec![] };
        let prod = TagRule { resolve: true, include: vec!["prod-*".into(), "v?".into()] };
        let names = |rule: &TagRule, place: &ImagePlace| -> Vec<String> {
            references(rule, place).into_iter().map(|(tag, _)| tag).collect()
        };
        let some = place(&["v1", "prod-2", "dev", "v1", "prod-1", ""]);
        assert_eq!(names(&all, &some), ["dev", "prod-1", "prod-2", "v1"]);
        assert_eq!(names(&prod, &some), ["prod-1", "prod-2", "v1"]);
        assert!(names(&all, &place(&[])).is_empty());
        assert!(names(&all, &ImagePlace { registry: String::new(), ..some.clone() }).is_empty());
        assert!(names(&all, &ImagePlace { repository: String::new(), ..some }).is_empty());
        let many: Vec<String> = (0..TAGS_MAX + 1).map(|n| format!("t{n:03}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(names(&all, &place(many.get(1..).unwrap())).len(), TAGS_MAX);
        assert_eq!(names(&all, &place(&many)).len(), TAGS_MAX);
    }

    fn report(verdict: Verdict, found: Found, link: &str) -> Report {
        Report { policy_revision: None, verdict, found, report_url: Some(link.into()), attestation: None }
    }

    fn united(mut reports: Vec<Report>, known: Option<&ReportRecord>) -> Report {
        let first = reports.remove(0);
        merged(first, reports, known)
    }

    fn finding(vuln: &str) -> Finding {
        Finding { purl: "pkg:npm/a".into(), vuln_id: vuln.into(), severity: Severity::High, kev: false }
    }

    fn delta(criticals: u64, kev: &[&str]) -> Delta {
        Delta {
            new_findings: criticals,
            new_criticals: criticals,
            kev_hits: kev.iter().map(|cve| (*cve).to_owned()).collect(),
            top_findings: kev
                .iter()
                .map(|cve| TopFinding {
                    vuln_id: (*cve).to_owned(),
                    severity: "critical".into(),
                    ..TopFinding::default()
                })
                .collect(),
            ..Delta::default()
        }
    }

    #[test]
    fn the_worst_verdict_counts_with_its_link() {
        let none = || Found::Delta(Delta::default());
        for (verdicts, worst) in [
            (vec![Verdict::Pass], 0),
            (vec![Verdict::Pass, Verdict::Fail, Verdict::Warn], 1),
            (vec![Verdict::Warn, Verdict::Warn], 0),
        ] {
            let reports = verdicts.iter().zip(0..).map(|(v, n)| report(*v, none(), &format!("{n}"))).collect();
            let whole = united(reports, None);
            assert_eq!(whole.report_url.unwrap(), worst.to_string(), "{verdicts:?}");
        }
    }

    #[test]
    fn findings_are_united_and_deltas_added() {
        let both = united(
            vec![
                report(Verdict::Warn, Found::Findings(vec![finding("CVE-1"), finding("CVE-2")]), "a"),
                report(Verdict::Warn, Found::Findings(vec![finding("CVE-2"), finding("CVE-3")]), "b"),
            ],
            None,
        );
        let Found::Findings(all) = both.found else { panic!("findings stay findings") };
        assert_eq!(findings::canonical(all).len(), 3);

        let sum = united(
            vec![
                report(Verdict::Fail, Found::Delta(delta(2, &["CVE-1", "CVE-2"])), "a"),
                report(Verdict::Fail, Found::Delta(delta(3, &["CVE-2"])), "b"),
            ],
            None,
        );
        let Found::Delta(sum) = sum.found else { panic!("deltas stay deltas") };
        assert_eq!((sum.new_findings, sum.new_criticals, sum.kev_hits.len(), sum.top_findings.len()), (5, 5, 2, 2));
    }

    #[test]
    fn findings_beside_a_delta_are_compared_with_what_was_known() {
        let known = ReportRecord {
            reported_at: Timestamp::from_millis(0),
            policy_revision: None,
            findings: Some(vec![finding("CVE-1")]),
            revision: 0,
            asked_at: None,
        };
        let whole = united(
            vec![
                report(Verdict::Warn, Found::Findings(vec![finding("CVE-1"), finding("CVE-2")]), "a"),
                report(Verdict::Fail, Found::Delta(delta(1, &[])), "b"),
            ],
            Some(&known),
        );
        let Found::Delta(sum) = whole.found else { panic!("a delta") };
        assert_eq!((sum.new_findings, sum.new_high, sum.new_criticals), (2, 1, 1));
    }
}
