//! The contract of the `Scanner` port.
//!
//! An adapter's test gives a function that makes it beside a scanner of a scripted behaviour; the macro lists the cases.

use super::scripted::report_of;
use scheduler_core::ports::{ImageScan, ReportRequest, Scanner, ScannerError};
use scheduler_model::{Delta, Finding, Found, ImageDigest, Report, RunId, Severity, TenantId, TopFinding, Verdict};
use std::time::Duration;

/// What the scanner behind the adapter was asked, as it saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenReport {
    /// The tenant's name.
    pub tenant: String,
    /// The idempotency key.
    pub key: String,
    /// The image to report on.
    pub digest: String,
    /// The policy, if any.
    pub policy_revision: Option<String>,
    /// The trace context.
    pub traceparent: String,
}

/// An adapter, and the scanner behind it.
pub trait UnderTest: Send + Sync {
    /// The adapter.
    fn scanner(&self) -> &dyn Scanner;
    /// The reports that the scanner saw, in order.
    fn seen(&self) -> Vec<SeenReport>;
    /// From here on, reports get this answer.
    fn answer(&self, report: Report);
    /// From here on, reports get this HTTP status, and a `Retry-After` of so many seconds.
    fn fail(&self, status: u16, retry_after_s: Option<u64>);
    /// From here on, a tag points to an image, or nowhere; a scan of it goes for one poll and then ends well or not.
    fn tag(&self, image_ref: &str, digest: Option<ImageDigest>, scan_succeeds: bool);
}

/// A request of a report on an image that its tag has moved to.
pub fn report_request() -> ReportRequest {
    ReportRequest {
        tenant: tenant(),
        run: "run-1".parse::<RunId>().unwrap_or_else(|error| unreachable!("{error}")),
        catalog_digest: ImageDigest::of(b"as the catalog names it"),
        digest: ImageDigest::of(b"as its tag points to"),
        policy_revision: Some("rev-12".to_owned()),
        traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned(),
    }
}

/// A request about a tag.
pub fn image_scan() -> ImageScan {
    ImageScan {
        tenant: tenant(),
        image_ref: "registry.example.com/shop/cart:prod-1".to_owned(),
        traceparent: report_request().traceparent,
    }
}

fn tenant() -> TenantId {
    TenantId::try_from("tenant-01".to_owned()).unwrap_or_else(|error| unreachable!("{error}"))
}

/// The cases. Each takes a fresh adapter.
pub mod cases {
    use super::*;
    use scheduler_core::ports::ScanState;
    use scheduler_model::ErrorClass;

    async fn failure(test: &dyn UnderTest, status: u16, retry_after_s: Option<u64>) -> ScannerError {
        test.fail(status, retry_after_s);
        match test.scanner().report(&report_request()).await {
            Ok(report) => panic!("a {status} was taken for {report:?}"),
            Err(error) => error,
        }
    }

    /// The scanner sees whose image is asked about, for which run, under which policy and trace.
    pub async fn a_report_is_asked_for_in_full(test: &dyn UnderTest) {
        test.answer(report_of(Delta::default()));
        let request = report_request();
        test.scanner().report(&request).await.map_err(|error| error.message).unwrap_or_else(|error| panic!("{error}"));
        let without = ReportRequest { policy_revision: None, ..request.clone() };
        test.scanner().report(&without).await.map_err(|error| error.message).unwrap_or_else(|error| panic!("{error}"));
        let expected = SeenReport {
            tenant: "tenant-01".to_owned(),
            key: format!("run-1:{}", request.digest),
            digest: request.digest.to_string(),
            policy_revision: Some("rev-12".to_owned()),
            traceparent: request.traceparent,
        };
        let second = SeenReport { policy_revision: None, ..expected.clone() };
        assert_eq!(test.seen(), [expected, second]);
    }

    /// What the scanner says arrives, as a delta and as findings.
    pub async fn a_report_arrives_whole(test: &dyn UnderTest) {
        let top = TopFinding {
            purl: "pkg:npm/a@1".to_owned(),
            vuln_id: "CVE-2026-1".to_owned(),
            severity: "critical".to_owned(),
            link: Some("https://ui.example/1".to_owned()),
        };
        let delta = Delta {
            new_findings: 4,
            new_criticals: 1,
            new_high: 2,
            new_medium: 0,
            new_low: 1,
            kev_hits: vec!["CVE-2026-1".to_owned()],
            top_findings: vec![top],
        };
        let finding = Finding {
            purl: "pkg:npm/a@1".to_owned(),
            vuln_id: "CVE-2026-1".to_owned(),
            severity: Severity::High,
            kev: true,
        };
        for found in [Found::Delta(delta), Found::Findings(vec![finding]), Found::Findings(Vec::new())] {
            let report = Report {
                policy_revision: Some("rev-12".to_owned()),
                verdict: Verdict::Fail,
                found,
                report_url: Some("https://ui.example/report".to_owned()),
                attestation: Some(scheduler_model::Attestation { uuid: "u-1".to_owned(), verified: true }),
            };
            test.answer(report.clone());
            match test.scanner().report(&report_request()).await {
                Ok(got) => assert_eq!(got, report),
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Each failure has its class, and only what may succeed later is retryable.
    pub async fn failures_have_their_class(test: &dyn UnderTest) {
        let expected = [
            (429, ErrorClass::Throttled, true),
            (500, ErrorClass::ServerError, true),
            (503, ErrorClass::ServerError, true),
            (408, ErrorClass::Timeout, true),
            (400, ErrorClass::Rejected, false),
            (404, ErrorClass::Rejected, false),
        ];
        for (status, class, retryable) in expected {
            let error = failure(test, status, None).await;
            assert_eq!((error.class, error.retryable, error.refused), (class, retryable, false), "{status}");
            assert!(!error.message.is_empty(), "{status}");
        }
    }

    /// A wait that the scanner asks for arrives, cut to an hour.
    pub async fn a_wait_that_is_asked_for_arrives(test: &dyn UnderTest) {
        for (asked, told) in [(None, None), (Some(0), Some(0)), (Some(7), Some(7)), (Some(86_400), Some(3_600))] {
            let error = failure(test, 429, asked).await;
            assert_eq!(error.retry_after, told.map(Duration::from_secs), "{asked:?}");
        }
    }

    /// A call that fails is made once.
    pub async fn no_call_retries_by_itself(test: &dyn UnderTest) {
        for status in [429, 500, 503, 400] {
            let before = test.seen().len();
            failure(test, status, None).await;
            assert_eq!(test.seen().len(), before + 1, "{status}");
        }
    }

    /// A tag is resolved to what it points to now; one that points nowhere is rejected.
    pub async fn a_tag_is_resolved(test: &dyn UnderTest) {
        let (request, digest) = (image_scan(), ImageDigest::of(b"now"));
        test.tag(&request.image_ref, Some(digest.clone()), true);
        match test.scanner().resolve(&request).await {
            Ok(got) => assert_eq!(got, digest),
            Err(error) => panic!("{error}"),
        }
        test.tag(&request.image_ref, None, true);
        match test.scanner().resolve(&request).await {
            Ok(got) => panic!("resolved to {got}"),
            Err(error) => assert_eq!((error.class, error.retryable), (ErrorClass::Rejected, false)),
        }
    }

    /// A scan is asked for, goes, and ends.
    pub async fn a_scan_goes_and_ends(test: &dyn UnderTest) {
        let (request, digest) = (image_scan(), ImageDigest::of(b"now"));
        for (succeeds, end) in [(true, ScanState::Done), (false, ScanState::Failed)] {
            test.tag(&request.image_ref, Some(digest.clone()), succeeds);
            let mut progress = match test.scanner().scan(&request).await {
                Ok(progress) => progress,
                Err(error) => panic!("{error}"),
            };
            let mut states = vec![progress.state];
            while progress.state == ScanState::Going && states.len() < 10 {
                progress = match test.scanner().scan_state(&request, &progress.scan_id).await {
                    Ok(progress) => progress,
                    Err(error) => panic!("{error}"),
                };
                states.push(progress.state);
            }
            assert_eq!(states, [ScanState::Going, ScanState::Going, end]);
            assert_eq!(progress.digest, Some(digest.clone()));
        }
    }

    /// A scanner that is there answers a ping.
    pub async fn a_ping_is_answered(test: &dyn UnderTest) {
        if let Err(error) = test.scanner().ping().await {
            panic!("{error}");
        }
    }
}

/// The contract suite: `scanner_contract!(make)`, where `make()` gives something that is [`UnderTest`].
#[macro_export]
macro_rules! scanner_contract {
    ($make:path) => {
        $crate::scanner_contract!(@cases $make:
            a_report_is_asked_for_in_full,
            a_report_arrives_whole,
            failures_have_their_class,
            a_wait_that_is_asked_for_arrives,
            no_call_retries_by_itself,
            a_tag_is_resolved,
            a_scan_goes_and_ends,
            a_ping_is_answered,
        );
    };
    (@cases $make:path: $($case:ident,)*) => {
        $(
            #[tokio::test]
            async fn $case() {
                $crate::scanner::cases::$case(&$make()).await;
            }
        )*
    };
}
