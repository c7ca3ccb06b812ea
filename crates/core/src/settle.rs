//! From a scanner's answer to what becomes durable: the outcome, its event and the new baseline.

use crate::ports::OutcomeWrite;
use crate::{findings, notify};
use scheduler_model::{
    ErrorClass, Found, ImageEvent, Outcome, OutcomeResult, Report, ReportRecord, Run, SegmentImage, SkipReason,
    Timestamp,
};

/// The tries that an image had in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempts {
    /// Calls that count.
    pub count: u32,
    /// When the first one began.
    pub started_at: Timestamp,
    /// When the last one began.
    pub last_began_at: Timestamp,
}

/// An image that got a report. `previous` is what was remembered of its last one.
///
/// The baseline moves with the outcome: findings are compared with what was durable before, so that a call repeated after
/// a crash gives the same delta. What an older call than the last report's found is told if it is new, and joins the
/// baseline: it does not replace what is known since.
pub fn reported(
    run: &Run,
    image: &SegmentImage,
    attempts: Attempts,
    report: Report,
    previous: Option<&ReportRecord>,
    now: Timestamp,
) -> OutcomeWrite {
    let known = previous.and_then(|record| record.findings.as_deref());
    let last_asked = previous.and_then(|record| record.asked_at);
    let is_older = last_asked.is_some_and(|last| last > attempts.last_began_at);
    let (delta, findings) = match report.found {
        Found::Delta(delta) => (delta, None),
        Found::Findings(found) => {
            let found = findings::canonical(found);
            let delta = findings::delta(known, &found);
            let baseline = if is_older {
                findings::canonical(known.unwrap_or_default().iter().cloned().chain(found).collect())
            } else {
                found
            };
            (delta, Some(baseline))
        }
    };
    let event = ImageEvent {
        tenant: run.tenant.clone(),
        run_id: run.id.clone(),
        schedule_id: run.schedule.clone(),
        image_digest: image.digest.clone(),
        repository: image.repository.clone(),
        new_criticals: delta.new_criticals,
        new_high: delta.new_high,
        new_findings: delta.new_findings,
        kev_hits: delta.kev_hits.clone(),
        top_findings: delta.top_findings.clone(),
        report_url: report.report_url.clone(),
        attestation: report.attestation.clone(),
        ts: now,
    };
    let record = ReportRecord {
        reported_at: now,
        // A scanner that does not say under which policy it judged did so under the one that it was asked under.
        policy_revision: report.policy_revision.or_else(|| run.policy_revision.clone()),
        // A scanner that changes from findings to deltas leaves the last findings as they were.
        asked_at: if findings.is_none() || is_older { last_asked } else { Some(attempts.last_began_at) },
        findings: findings.or_else(|| known.map(<[_]>::to_vec)),
        revision: previous.map_or(0, |record| record.revision + 1),
    };
    OutcomeWrite {
        event: Some((notify::event_type(&delta, &run.notify), event)),
        report: Some(record),
        tags: None,
        outcome: outcome(
            run,
            image,
            attempts,
            now,
            OutcomeResult::Reported {
                verdict: report.verdict,
                delta,
                report_url: report.report_url,
                attestation: report.attestation,
            },
        ),
    }
}

/// An image that was given up.
pub fn failed(
    run: &Run,
    image: &SegmentImage,
    attempts: Attempts,
    class: ErrorClass,
    message: String,
    now: Timestamp,
) -> OutcomeWrite {
    silent(outcome(run, image, attempts, now, OutcomeResult::Failed { class, message }))
}

/// An image that was not asked about.
pub fn skipped(
    run: &Run,
    image: &SegmentImage,
    attempts: Attempts,
    reason: SkipReason,
    now: Timestamp,
) -> OutcomeWrite {
    silent(outcome(run, image, attempts, now, OutcomeResult::Skipped { reason }))
}

/// Images without a verdict give no event and move no baseline.
fn silent(outcome: Outcome) -> OutcomeWrite {
    OutcomeWrite { outcome, event: None, report: None, tags: None }
}

fn outcome(run: &Run, image: &SegmentImage, attempts: Attempts, now: Timestamp, result: OutcomeResult) -> Outcome {
    Outcome {
        run: run.id.clone(),
        digest: image.digest.clone(),
        repository: image.repository.clone(),
        attempts: attempts.count,
        started_at: attempts.started_at,
        finished_at: now,
        result,
        reported: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::some_run;
    use scheduler_model::{Finding, ImageDigest, ImageEventType, Severity, Verdict};

    fn settle(found: Found, previous: Option<&ReportRecord>) -> OutcomeWrite {
        settle_at(1, found, previous)
    }

    fn settle_at(began: i64, found: Found, previous: Option<&ReportRecord>) -> OutcomeWrite {
        let report =
            Report { policy_revision: None, verdict: Verdict::Warn, found, report_url: None, attestation: None };
        let image = SegmentImage { digest: ImageDigest::of(b"a"), repository: "shop/cart".into() };
        let began = Timestamp::from_millis(began);
        let attempts = Attempts { count: 1, started_at: Timestamp::from_millis(1), last_began_at: began };
        reported(&some_run(), &image, attempts, report, previous, Timestamp::from_millis(2))
    }

    fn finding(vuln: &str) -> Finding {
        Finding { purl: "pkg:npm/a".into(), vuln_id: vuln.into(), severity: Severity::High, kev: false }
    }

    #[test]
    fn a_report_is_under_the_policy_that_it_names_else_under_the_one_it_was_asked_under() {
        let check = |asked: Option<&str>, named: Option<&str>, expected: Option<&str>| {
            let mut run = some_run();
            run.policy_revision = asked.map(str::to_owned);
            let report = Report {
                policy_revision: named.map(str::to_owned),
                verdict: Verdict::Pass,
                found: Found::Findings(Vec::new()),
                report_url: None,
                attestation: None,
            };
            let image = SegmentImage { digest: ImageDigest::of(b"a"), repository: String::new() };
            let at = Timestamp::from_millis(1);
            let attempts = Attempts { count: 1, started_at: at, last_began_at: at };
            let record = reported(&run, &image, attempts, report, None, at).report.unwrap();
            assert_eq!(record.policy_revision.as_deref(), expected);
        };
        check(Some("rev-2"), Some("rev-2"), Some("rev-2"));
        check(Some("rev-2"), Some("rev-1"), Some("rev-1"));
        check(Some("rev-2"), None, Some("rev-2"));
        check(None, None, None);
    }

    #[test]
    fn an_answer_that_was_asked_for_before_the_last_one_sets_nothing_back() {
        let found = |vulns: &[&str]| Found::Findings(vulns.iter().map(|vuln| finding(vuln)).collect());
        let news = |write: &OutcomeWrite| write.event.as_ref().unwrap().1.new_findings;
        let newest = settle_at(5, found(&["CVE-1", "CVE-2"]), None).report.unwrap();
        let late = settle_at(2, found(&["CVE-1", "CVE-3"]), Some(&newest));
        assert_eq!(news(&late), 1, "CVE-3 was never told");
        let joined = late.report.unwrap();
        assert_eq!(joined.asked_at, newest.asked_at);
        let after = settle_at(6, found(&["CVE-2", "CVE-3"]), Some(&joined));
        assert_eq!(news(&after), 0, "nothing is told twice");
        assert_eq!(after.report.unwrap().findings.unwrap().len(), 2, "and a later answer replaces what is known");
    }

    #[test]
    fn the_baseline_moves_with_the_outcome_and_a_repeated_call_gives_the_same_delta() {
        let first = settle(Found::Findings(vec![finding("CVE-1")]), None);
        let baseline = first.report.unwrap();
        let both = || Found::Findings(vec![finding("CVE-2"), finding("CVE-1")]);
        let second = settle(both(), Some(&baseline));
        assert_eq!(second.outcome, settle(both(), Some(&baseline)).outcome);
        assert_eq!(second.event.unwrap().1.new_findings, 1);
        let third = settle(both(), second.report.as_ref());
        assert_eq!(third.event.unwrap().0, ImageEventType::ReportReady);
        assert_eq!(third.outcome.result.as_str(), "unchanged");
    }
}
