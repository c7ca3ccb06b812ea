//! For the `Scanner` port: a fake, a real HTTP server with the scanner's addresses, and the contract suite that the fake
//! and the HTTP adapter both pass.

mod contract;
mod scripted;
mod server;

pub use contract::{SeenReport, UnderTest, cases, image_scan, report_request};
pub use scripted::{ReportCall, ScriptedScanner, failing, refused, report_of};
pub use server::{HttpCall, HttpReply, HttpScannerServer};

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use scheduler_core::ports::{ScanState, Scanner, ScannerError};
    use scheduler_model::{Delta, ErrorClass, ImageDigest, Report};
    use std::sync::Arc;
    use std::time::Duration;

    #[derive(Clone)]
    enum Answer {
        Report(Report),
        Failure(u16, Option<u64>),
    }

    struct Scripted {
        scanner: ScriptedScanner,
        answer: Arc<Mutex<Answer>>,
    }

    fn make() -> Scripted {
        let answer = Arc::new(Mutex::new(Answer::Report(report_of(Delta::default()))));
        let current = answer.clone();
        let scanner = ScriptedScanner::new(move |_, _| match current.lock().clone() {
            Answer::Report(report) => Ok(report),
            Answer::Failure(status, retry_after_s) => Err(error_of(status, retry_after_s)),
        });
        Scripted { scanner, answer }
    }

    fn error_of(status: u16, retry_after_s: Option<u64>) -> ScannerError {
        let class = match status {
            429 => ErrorClass::Throttled,
            408 => ErrorClass::Timeout,
            500.. => ErrorClass::ServerError,
            _ => ErrorClass::Rejected,
        };
        failing(class, retry_after_s.map(|seconds| Duration::from_secs(seconds.min(3_600))))
    }

    impl UnderTest for Scripted {
        fn scanner(&self) -> &dyn Scanner {
            &self.scanner
        }

        fn seen(&self) -> Vec<SeenReport> {
            let seen = |call: ReportCall| SeenReport {
                tenant: call.request.tenant.to_string(),
                key: format!("{}:{}", call.request.run, call.request.digest),
                digest: call.request.digest.to_string(),
                policy_revision: call.request.policy_revision,
                traceparent: call.request.traceparent,
            };
            self.scanner.reports().into_iter().map(seen).collect()
        }

        fn answer(&self, report: Report) {
            *self.answer.lock() = Answer::Report(report);
        }

        fn fail(&self, status: u16, retry_after_s: Option<u64>) {
            *self.answer.lock() = Answer::Failure(status, retry_after_s);
        }

        fn tag(&self, image_ref: &str, digest: Option<ImageDigest>, scan_succeeds: bool) {
            self.scanner.point(image_ref, digest);
            self.scanner.scans_end(1, if scan_succeeds { ScanState::Done } else { ScanState::Failed });
        }
    }

    crate::scanner_contract!(make);

    #[tokio::test(start_paused = true)]
    async fn the_fake_counts_what_goes_at_once() {
        let scanner = ScriptedScanner::content().delayed(Duration::from_secs(1));
        let request = report_request();
        let given_up = tokio::time::timeout(Duration::from_millis(1), scanner.report(&request)).await;
        assert!(given_up.is_err());
        let (first, second) = tokio::join!(scanner.report(&request), scanner.report(&request));
        assert!(first.is_ok() && second.is_ok());
        let calls = scanner.reports();
        assert_eq!(calls.iter().map(|call| call.nth).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(calls.iter().map(|call| call.ended.is_some()).collect::<Vec<_>>(), [false, true, true]);
        assert_eq!(calls[1].ended.unwrap() - calls[1].began, Duration::from_secs(1));
        assert_eq!(scanner.in_flight_max(), 2);
    }
}
