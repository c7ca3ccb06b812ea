//! Who is told: the rule of the schedule on the delta of an image.

use scheduler_model::{Delta, ImageEventType, NotifyRule};

/// The type of the event that an image's verdict makes.
///
/// ```
/// use scheduler_core::notify::event_type;
/// use scheduler_model::{Delta, ImageEventType, NotifyRule, Severity};
/// let rule = NotifyRule { min_severity: Severity::High, ..NotifyRule::default() };
/// let low = Delta { new_findings: 1, new_low: 1, ..Delta::default() };
/// assert_eq!(event_type(&low, &rule), ImageEventType::ReportReady);
/// let exploited = Delta { kev_hits: vec!["CVE-2025-7".into()], ..low };
/// assert_eq!(event_type(&exploited, &rule), ImageEventType::RescanDelta);
/// ```
pub fn event_type(delta: &Delta, rule: &NotifyRule) -> ImageEventType {
    let severe = delta.worst().is_some_and(|worst| worst >= rule.min_severity);
    let exploited = rule.include_kev && !delta.kev_hits.is_empty();
    if rule.on_new_findings && (severe || exploited) {
        ImageEventType::RescanDelta
    } else {
        ImageEventType::ReportReady
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scheduler_model::Severity;

    #[test]
    fn the_rule_lets_out_what_it_says() {
        let delta = |criticals, high, low, kev: bool| Delta {
            new_findings: criticals + high + low,
            new_criticals: criticals,
            new_high: high,
            new_low: low,
            kev_hits: kev.then(|| "CVE-2025-1".to_owned()).into_iter().collect(),
            ..Delta::default()
        };
        let rule =
            |on_new_findings, min_severity, include_kev| NotifyRule { on_new_findings, min_severity, include_kev };
        for (delta, rule, told) in [
            (delta(0, 0, 0, false), rule(true, Severity::Low, true), false),
            (delta(0, 0, 1, false), rule(true, Severity::Low, true), true),
            (delta(0, 0, 1, false), rule(true, Severity::Medium, true), false),
            (delta(0, 1, 1, false), rule(true, Severity::High, true), true),
            (delta(0, 1, 1, false), rule(true, Severity::Critical, true), false),
            (delta(0, 0, 1, true), rule(true, Severity::Critical, true), true),
            (delta(0, 0, 1, true), rule(true, Severity::Critical, false), false),
            (delta(1, 0, 0, true), rule(false, Severity::Low, true), false),
            (Delta { new_findings: 2, ..Delta::default() }, rule(true, Severity::Low, false), true),
            (Delta { new_findings: 2, ..Delta::default() }, rule(true, Severity::Medium, false), false),
        ] {
            let expected = if told { ImageEventType::RescanDelta } else { ImageEventType::ReportReady };
            assert_eq!(event_type(&delta, &rule), expected, "{delta:?} under {rule:?}");
        }
    }
}
