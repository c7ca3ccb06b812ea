use super::*;
use proptest::prelude::*;

fn asked() -> ImageDigest {
    ImageDigest::of(b"image")
}

/// A report with some members replaced or added.
fn answer(members: &serde_json::Value) -> Vec<u8> {
    let mut whole = serde_json::json!({ "verdict": "pass", "delta": { "newFindings": 0 } });
    for (name, value) in members.as_object().unwrap() {
        whole[name] = value.clone();
    }
    serde_json::to_vec(&whole).unwrap()
}

fn delta_of(members: serde_json::Value) -> Result<Delta, AnswerError> {
    report(&answer(&serde_json::json!({ "delta": members })), &asked()).map(|report| match report.found {
        Found::Delta(delta) => delta,
        Found::Findings(_) => panic!("a delta was sent"),
    })
}

#[test]
fn a_report_is_read_whole() {
    let body = serde_json::json!({
        "imageDigest": asked(), "policyRevision": "rev-12", "verdict": "fail", "more": [1, 2],
        "delta": { "newFindings": 3, "newCriticals": 1, "newHigh": 2, "newMedium": 0, "newLow": 0, "kevHits": ["CVE-1"],
                   "topFindings": [{ "purl": "p", "vulnId": "v", "severity": "critical", "link": "https://l" }] },
        "reportUrl": "https://r", "attestation": { "uuid": "u", "verified": true }
    });
    let expected = Report {
        policy_revision: Some("rev-12".to_owned()),
        verdict: Verdict::Fail,
        found: Found::Delta(Delta {
            new_findings: 3,
            new_criticals: 1,
            new_high: 2,
            kev_hits: vec!["CVE-1".to_owned()],
            top_findings: vec![TopFinding {
                purl: "p".to_owned(),
                vuln_id: "v".to_owned(),
                severity: "critical".to_owned(),
                link: Some("https://l".to_owned()),
            }],
            ..Delta::default()
        }),
        report_url: Some("https://r".to_owned()),
        attestation: Some(Attestation { uuid: "u".to_owned(), verified: true }),
    };
    assert_eq!(report(&serde_json::to_vec(&body).unwrap(), &asked()), Ok(expected));
}

#[test]
fn findings_are_read_instead_of_a_delta() {
    let body = serde_json::json!({ "verdict": "warn", "findings": [
        { "purl": "p", "vulnId": "1", "severity": "Critical", "kev": true },
        { "purl": "p", "vulnId": "2", "severity": "negligible" },
        { "purl": "p", "vulnId": "3", "severity": 9.8, "kev": null },
        { "purl": "p", "vulnId": "4" },
    ] });
    let got = report(&serde_json::to_vec(&body).unwrap(), &asked()).unwrap();
    let Found::Findings(findings) = got.found else { panic!("findings were sent") };
    let severities: Vec<_> = findings.iter().map(|one| (one.vuln_id.as_str(), one.severity, one.kev)).collect();
    let expected = [
        ("1", Severity::Critical, true),
        ("2", Severity::Low, false),
        ("3", Severity::Low, false),
        ("4", Severity::Low, false),
    ];
    assert_eq!(severities, expected);
}

#[test]
fn what_is_no_report_is_refused() {
    let check = |body: &str| {
        assert!(report(body.as_bytes(), &asked()).is_err(), "{body}");
    };
    check("");
    check("{\"imageDigest\": \"sha");
    check("<html>proxy says hello</html>");
    check("null");
    check("[\"not\",\"a\",\"report\"]");
    check("[null,null,\"pass\",{}]");
    check("{}");
    check("{\"verdict\":\"pass\"}");
    check("{\"verdict\":\"pass\",\"delta\":null}");
    check("{\"verdict\":\"pass\",\"delta\":[]}");
    check("{\"verdict\":\"pass\",\"delta\":{\"topFindings\":[[]]}}");
    check("{\"verdict\":\"pass\",\"findings\":{}}");
    check("{\"verdict\":\"pass\",\"findings\":[{\"purl\":\"p\"}]}");
    check("{\"verdict\":\"pass\",\"findings\":[{\"purl\":\"\",\"vulnId\":\"v\"}]}");
    check("{\"verdict\":\"PASS\",\"delta\":{}}");
    check("{\"verdict\":\"green\",\"delta\":{}}");
    check("{\"delta\":{\"newFindings\":1}}");
    check("{\"verdict\":\"pass\",\"delta\":{},\"attestation\":{}}");
    check("{\"verdict\":\"pass\",\"delta\":{}} trailing");
    let deep = format!("{{\"verdict\":\"pass\",\"delta\":{{}},\"x\":{}", "[".repeat(100_000));
    check(&deep);
}

#[test]
fn a_report_about_another_image_is_refused() {
    let other = serde_json::json!({ "imageDigest": ImageDigest::of(b"other") });
    assert_eq!(report(&answer(&other), &asked()), Err(AnswerError::OtherImage));
    assert!(report(&answer(&serde_json::json!({ "imageDigest": null })), &asked()).is_ok());
}

#[test]
fn absurd_numbers_are_refused() {
    let check = |number: serde_json::Value, fits: bool| {
        for name in ["newFindings", "newCriticals", "newHigh", "newMedium", "newLow"] {
            assert_eq!(delta_of(serde_json::json!({ name: number })).is_ok(), fits, "{name}: {number}");
        }
    };
    check(0.into(), true);
    check(COUNT_MAX.into(), true);
    check((COUNT_MAX + 1).into(), false);
    check(u64::MAX.into(), false);
    check((-1).into(), false);
    check(1.5.into(), false);
    check("3".into(), false);
}

#[test]
fn a_missing_total_is_the_sum() {
    let delta = delta_of(serde_json::json!({ "newHigh": 2, "newLow": 1 })).unwrap();
    assert_eq!(delta.new_findings, 3);
    assert_eq!(delta_of(serde_json::json!({})).unwrap(), Delta::default());
}

#[test]
fn lists_for_people_are_cut() {
    for (sent, kept) in [(99, 99), (100, 100), (101, 100)] {
        let top: Vec<_> = (0..sent).map(|n| serde_json::json!({ "vulnId": n.to_string() })).collect();
        assert_eq!(delta_of(serde_json::json!({ "topFindings": top })).unwrap().top_findings.len(), kept);
    }
    for (sent, kept) in [(1_000, 1_000), (1_001, 1_000)] {
        let hits: Vec<_> = (0..sent).map(|n| n.to_string()).collect();
        assert_eq!(delta_of(serde_json::json!({ "kevHits": hits })).unwrap().kev_hits.len(), kept);
    }
}

#[test]
fn long_texts_do_not_pass() {
    let long = "x".repeat(NAME_LEN_MAX + 1);
    let delta = delta_of(serde_json::json!({ "kevHits": [long, "CVE-1", "CVE-1"], "topFindings": [{ "purl": long }] }))
        .unwrap();
    assert_eq!(delta.kev_hits, ["CVE-1"]);
    assert_eq!(delta.top_findings, []);
    let findings = serde_json::json!({ "verdict": "pass", "findings": [{ "purl": long, "vulnId": "v" }] });
    let got = report(&serde_json::to_vec(&findings).unwrap(), &asked());
    assert_eq!(got, Err(AnswerError::OutOfRange("purl")));
    let got = report(&answer(&serde_json::json!({ "policyRevision": long })), &asked());
    assert_eq!(got, Err(AnswerError::OutOfRange("policyRevision")));
}

#[test]
fn links_that_a_browser_would_run_are_left_out() {
    let check = |link: &str, kept: bool| {
        let got = report(&answer(&serde_json::json!({ "reportUrl": link })), &asked()).unwrap();
        assert_eq!(got.report_url.is_some(), kept, "{link}");
    };
    check("https://ui.example/scans/sha256:ab/report", true);
    check("HTTP://ui.example", true);
    check("/scans/sha256:ab", true);
    check("report-7", true);
    check("javascript:alert(1)", false);
    check("data:text/html,x", false);
    check(" javascript:alert(1)", false);
    check("java\nscript:alert(1)", false);
    check(&format!("https://{}", "x".repeat(LINK_LEN_MAX)), false);
}

#[test]
fn a_tag_is_resolved_to_a_digest_only() {
    let digest = asked();
    let good = serde_json::json!({ "imageDigest": digest, "more": 1 });
    assert_eq!(resolved(&serde_json::to_vec(&good).unwrap()), Ok(digest));
    for bad in ["{}", "[]", "{\"imageDigest\":\"latest\"}", "{\"imageDigest\":null}"] {
        assert!(resolved(bad.as_bytes()).is_err(), "{bad}");
    }
}

#[test]
fn a_scan_goes_until_it_is_done_or_failed() {
    let check = |body: &str, asked: Option<&str>, expected: Option<(&str, ScanState)>| {
        let got = scan(body.as_bytes(), asked).ok();
        assert_eq!(got.as_ref().map(|got| (got.scan_id.as_str(), got.state)), expected, "{body}");
    };
    check("{\"scanId\":\"s\",\"status\":\"queued\"}", None, Some(("s", ScanState::Going)));
    check("{\"scanId\":\"s\",\"status\":\"done\"}", Some("s"), Some(("s", ScanState::Done)));
    check("{\"status\":\"failed\"}", Some("s"), Some(("s", ScanState::Failed)));
    check("{\"scanId\":\"t\",\"status\":\"done\"}", Some("s"), None);
    check("{\"scanId\":\"s\"}", None, None);
    check("{\"status\":\"queued\"}", None, None);
    check("{\"scanId\":\"\",\"status\":\"queued\"}", None, None);
    check("{\"scanId\":\"..\",\"status\":\"queued\"}", None, None);
    check("{\"scanId\":\"s\",\"status\":\"done\",\"imageDigest\":\"latest\"}", None, None);
}

#[test]
fn an_error_quotes_nothing_of_the_answer() {
    for body in ["{\"verdict\":\"hunter2\",\"delta\":{}}", "{\"verdict\":\"pass\",\"delta\":\"hunter2\"}", "hunter2"] {
        let error = report(body.as_bytes(), &asked()).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = report(&body, &asked());
        let _ = resolved(&body);
        let _ = scan(&body, Some("s"));
    }
}
