//! The HTTP adapter against servers that misbehave.

mod common;

use common::{config, scanner_at, scanner_of};
use scheduler_core::ports::{Scanner, ScannerError};
use scheduler_model::{ErrorClass, Report};
use scheduler_scanner::{ClientIdentity, HttpScanner, ScannerConfig, ScannerSetupError, TokenSource};
use scheduler_testkit::scanner::{HttpReply, HttpScannerServer, image_scan, report_request};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

async fn report_from(reply: HttpReply) -> Result<Report, ScannerError> {
    let server = HttpScannerServer::start(move |_| reply.clone());
    scanner_at(&server.url()).report(&report_request()).await
}

fn check(error: &ScannerError, class: ErrorClass, retryable: bool, refused: bool) {
    assert_eq!((error.class, error.retryable, error.refused), (class, retryable, refused), "{error:?}");
}

#[tokio::test]
async fn calls_tell_who_we_are_and_keep_their_connection() {
    let server = HttpScannerServer::start(|call| HttpReply::quiet_report(call.text("imageDigest")));
    let scanner = scanner_at(&server.url());
    for _ in 0..3 {
        scanner.report(&report_request()).await.unwrap();
    }
    let calls = server.calls();
    assert_eq!(calls.len(), 3);
    for call in calls {
        assert_eq!(call.header("user-agent"), concat!("stella-scheduler/", env!("CARGO_PKG_VERSION")));
        assert_eq!(call.header("content-type"), "application/json");
        assert_eq!(call.header("authorization"), "");
        assert_eq!(call.text("runId"), "run-1");
    }
}

#[tokio::test]
async fn answers_without_sense_are_bad_responses() {
    for body in ["", "{\"imageDigest\": \"sha", "[\"not\", \"a\", \"report\"]", "<html>proxy says hello</html>"] {
        let error = report_from(HttpReply::raw(200, body)).await.unwrap_err();
        check(&error, ErrorClass::BadResponse, true, false);
    }
    let other = HttpReply::quiet_report(&format!("sha256:{}", "0".repeat(64)));
    check(&report_from(other).await.unwrap_err(), ErrorClass::BadResponse, true, false);
}

#[tokio::test]
async fn pace_04_a_wait_is_taken_from_the_header_alone_and_never_from_prose() {
    let told = |text: &str| HttpReply::raw(429, format!(r#"{{"message":"toomanyrequests: retry after {text}"}}"#));
    let refused = async |reply: HttpReply| report_from(reply).await.unwrap_err();
    assert_eq!(refused(told("880.092µs")).await.retry_after, None);
    assert_eq!(refused(told("880.092µs").with("retry-after", "880.092µs")).await.retry_after, None);
    let seconds = refused(told("880.092µs").with("retry-after", "7")).await;
    assert_eq!(seconds.retry_after, Some(Duration::from_secs(7)));
    check(&seconds, ErrorClass::Throttled, true, false);
}

#[tokio::test]
async fn redirects_are_not_followed() {
    for status in [301, 302, 303, 307, 308] {
        let server = HttpScannerServer::start(move |_| HttpReply::status(status).with("location", "/elsewhere"));
        let error = scanner_at(&server.url()).report(&report_request()).await.unwrap_err();
        check(&error, ErrorClass::BadResponse, true, false);
        assert_eq!(server.calls().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn an_answer_is_read_up_to_sixteen_mebibytes() {
    let padded = |len: usize| {
        let (head, tail) = ("{\"verdict\":\"pass\",\"delta\":{},\"x\":\"", "\"}");
        format!("{head}{}{tail}", "x".repeat(len - head.len() - tail.len()))
    };
    let limit = 16 << 20;
    assert!(report_from(HttpReply::raw(200, padded(limit))).await.is_ok());
    let error = report_from(HttpReply::raw(200, padded(limit + 1))).await.unwrap_err();
    check(&error, ErrorClass::BadResponse, true, false);
    // Without an announced length.
    let endless = HttpReply { cut: true, ..HttpReply::raw(200, padded(2 * limit)) };
    check(&report_from(endless).await.unwrap_err(), ErrorClass::BadResponse, true, false);
}

#[tokio::test]
async fn an_answer_that_is_cut_is_a_lost_connection() {
    let cut = HttpReply { cut: true, ..HttpReply::raw(200, "{\"verdict\":") };
    check(&report_from(cut).await.unwrap_err(), ErrorClass::Connect, true, false);
}

#[tokio::test]
async fn an_answer_that_is_no_http_is_an_answer_that_cannot_be_understood() {
    for answer in [
        &b"SSH-2.0-OpenSSH_9.2p1\r\n"[..],
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n12345",
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut connection, _) = listener.accept().await.unwrap();
            let mut request = [0; 64];
            connection.read_exact(&mut request).await.unwrap();
            connection.write_all(answer).await.unwrap();
        });
        let error = scanner_at(&url).report(&report_request()).await.unwrap_err();
        check(&error, ErrorClass::BadResponse, true, false);
        assert!(error.message.contains("is no HTTP"), "{}", error.message);
    }
}

#[tokio::test]
async fn a_scanner_that_does_not_answer_is_a_timeout() {
    let server = HttpScannerServer::start(|_| HttpReply::status(200).after(Duration::from_secs(60)));
    let settings = ScannerConfig { timeout: Duration::from_millis(100), ..config(&server.url()) };
    let error = scanner_of(&settings).report(&report_request()).await.unwrap_err();
    check(&error, ErrorClass::Timeout, true, false);
    let error = scanner_of(&settings).ping().await.unwrap_err();
    check(&error, ErrorClass::Timeout, true, false);
}

#[tokio::test]
async fn a_scanner_that_is_down_refuses_and_comes_back() {
    let mut server = HttpScannerServer::start(|call| HttpReply::quiet_report(call.text("imageDigest")));
    let scanner = scanner_at(&server.url());
    scanner.report(&report_request()).await.unwrap();
    server.down();
    let mut last = None;
    for _ in 0..5 {
        // The first call may still meet the connection that was kept.
        last = scanner.report(&report_request()).await.err();
    }
    check(&last.unwrap(), ErrorClass::Connect, true, true);
    server.up();
    scanner.report(&report_request()).await.unwrap();
}

#[tokio::test]
async fn names_and_handshakes_that_fail_are_refusals() {
    let plain = HttpScannerServer::start(|_| HttpReply::status(200));
    let encrypted = plain.url().replace("http://", "https://");
    let dir = tempfile::tempdir().unwrap();
    let ca_file = dir.path().join("ca.pem");
    std::fs::write(&ca_file, include_str!("data/ca.pem")).unwrap();
    let settings = ScannerConfig { ca_file: Some(ca_file), ..config(&encrypted) };
    let error = scanner_of(&settings).report(&report_request()).await.unwrap_err();
    check(&error, ErrorClass::Connect, true, true);
    let error = scanner_at("http://scanner.invalid").report(&report_request()).await.unwrap_err();
    check(&error, ErrorClass::Connect, true, true);
}

/// Reads one request with a body of JSON.
async fn read_request(stream: &mut TcpStream) -> bool {
    let mut seen = Vec::new();
    let mut part = [0; 4_096];
    loop {
        match stream.read(&mut part).await {
            Ok(0) | Err(_) => return false,
            Ok(len) => seen.extend_from_slice(part.get(..len).unwrap_or_default()),
        }
        if seen.ends_with(b"}") {
            return true;
        }
    }
}

#[tokio::test]
async fn a_kept_connection_that_is_lost_in_a_call_is_no_refusal_and_no_second_call() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(read_request(&mut stream).await);
        let body = "{\"verdict\":\"pass\",\"delta\":{}}";
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        stream.write_all(answer.as_bytes()).await.unwrap();
        assert!(read_request(&mut stream).await, "the second call on the same connection");
        drop(stream);
        // Whether somebody calls again.
        tokio::time::timeout(Duration::from_millis(200), listener.accept()).await.is_ok()
    });
    let scanner = scanner_at(&url);
    scanner.report(&report_request()).await.unwrap();
    let error = scanner.report(&report_request()).await.unwrap_err();
    check(&error, ErrorClass::Connect, true, false);
    assert!(!server.await.unwrap(), "the call was made again");
}

#[tokio::test]
async fn a_wait_may_be_a_date() {
    let reply = HttpReply::status(503).with("retry-after", "Thu, 01 Jan 2026 00:00:30 GMT");
    assert_eq!(report_from(reply).await.unwrap_err().retry_after, Some(Duration::from_secs(30)));
    let reply = HttpReply::status(503).with("retry-after", "soon");
    assert_eq!(report_from(reply).await.unwrap_err().retry_after, None);
    let reply = HttpReply::status(404).with("retry-after", "30");
    assert_eq!(report_from(reply).await.unwrap_err().retry_after, None);
}

#[tokio::test]
async fn a_refused_token_is_retryable_once_its_file_holds_another() {
    let server = HttpScannerServer::start(|call| match call.header("authorization") {
        "Bearer new" => HttpReply::quiet_report(call.text("imageDigest")),
        _ => HttpReply::status(401),
    });
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, "old\n").unwrap();
    let settings = ScannerConfig { token: Some(TokenSource::File(file.clone())), ..config(&server.url()) };
    let scanner = scanner_of(&settings);
    let error = scanner.report(&report_request()).await.unwrap_err();
    check(&error, ErrorClass::Rejected, false, false);
    std::fs::write(&file, "new\n").unwrap();
    let error = scanner.report(&report_request()).await.unwrap_err();
    check(&error, ErrorClass::Rejected, true, false);
    scanner.report(&report_request()).await.unwrap();
}

#[tokio::test]
async fn a_password_in_the_url_is_sent_and_never_shown() {
    let mut server = HttpScannerServer::start(|_| HttpReply::status(503));
    let url = server.url().replace("http://", "http://user:hunter2@");
    let scanner = scanner_at(&url);
    let answered = scanner.report(&report_request()).await.unwrap_err();
    assert!(server.calls()[0].header("authorization").starts_with("Basic "));
    server.down();
    scanner.report(&report_request()).await.unwrap_err();
    let refused = scanner.report(&report_request()).await.unwrap_err();
    for error in [answered, refused] {
        assert!(!format!("{error} {error:?} {:?}", error.source).contains("hunter2"), "{error:?}");
        assert!(error.message.contains("/reports"), "{error}");
    }
}

#[tokio::test]
async fn a_ping_minds_only_failures_and_credentials() {
    for (status, ok) in [(200, true), (404, true), (429, true), (401, false), (403, false), (500, false), (503, false)]
    {
        let server = HttpScannerServer::start(move |_| HttpReply::status(status));
        assert_eq!(scanner_at(&server.url()).ping().await.is_ok(), ok, "{status}");
    }
}

#[tokio::test]
async fn values_that_no_header_holds_cost_no_call() {
    let server = HttpScannerServer::start(|call| HttpReply::quiet_report(call.text("imageDigest")));
    let mut request = report_request();
    request.traceparent = "broken\r\nx-evil: 1".to_owned();
    request.run = "nächtlich".parse().unwrap();
    let scanner = scanner_at(&server.url());
    scanner.report(&request).await.unwrap();
    let call = &server.calls()[0];
    assert_eq!(call.header("traceparent"), "");
    assert_eq!(call.header("x-evil"), "");
    let key = format!("nächtlich:{}", request.digest);
    assert_eq!(call.headers["idempotency-key"].as_bytes(), key.as_bytes());
}

#[tokio::test]
async fn a_refusal_to_resolve_is_throttling() {
    let server = HttpScannerServer::start(|_| HttpReply::status(429).with("retry-after", "3"));
    let scanner = scanner_at(&server.url());
    for error in [scanner.resolve(&image_scan()).await.unwrap_err(), scanner.scan(&image_scan()).await.unwrap_err()] {
        check(&error, ErrorClass::Throttled, true, false);
        assert_eq!(error.retry_after, Some(Duration::from_secs(3)));
    }
    assert_eq!(server.calls().len(), 2, "nothing else is called instead");
}

#[test]
fn files_that_do_not_fit_are_named() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let dir = tempfile::tempdir().unwrap();
    let (absent, garbage, empty) = (dir.path().join("absent"), dir.path().join("garbage"), dir.path().join("empty"));
    std::fs::write(&garbage, "-----BEGIN CERTIFICATE-----\nnonsense").unwrap();
    std::fs::write(&empty, "").unwrap();
    let setup = |settings: ScannerConfig| HttpScanner::new(&settings, Arc::new(common::FixedClock)).err().unwrap();
    let base = || config("https://scanner.internal");
    let identity = |path: &std::path::Path| ClientIdentity { cert_file: path.to_owned(), key_file: path.to_owned() };

    let error = setup(ScannerConfig { ca_file: Some(absent.clone()), ..base() });
    assert!(matches!(&error, ScannerSetupError::File { path, .. } if *path == absent), "{error:?}");
    for file in [&garbage, &empty] {
        let error = setup(ScannerConfig { ca_file: Some(file.clone()), ..base() });
        assert!(matches!(&error, ScannerSetupError::Certificates { path, .. } if path == file), "{error:?}");
    }
    let error = setup(ScannerConfig { identity: Some(identity(&empty)), ..config("http://scanner") });
    assert!(matches!(&error, ScannerSetupError::Identity { .. }), "{error:?}");
    let error = setup(ScannerConfig { token: Some(TokenSource::File(absent.clone())), ..config("http://scanner") });
    assert!(matches!(&error, ScannerSetupError::File { path, .. } if *path == absent), "{error:?}");
    let error = setup(config("ftp://scanner"));
    assert!(matches!(error, ScannerSetupError::Url), "{error:?}");
}
