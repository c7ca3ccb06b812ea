//! The scanner over HTTP.

use crate::answer::{self, ANSWER_LEN_MAX, AnswerError};
use crate::call_error;
use crate::config::{Endpoints, ScannerConfig, ScannerSetupError, shown};
use crate::retry_after::{RETRY_AFTER_MAX, retry_after};
use crate::token::BearerToken;
use async_trait::async_trait;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Certificate, Client, Identity, Method, Response, StatusCode, Url, redirect, retry};
use scheduler_core::ports::{Clock, ImageScan, ReportRequest, ScanProgress, Scanner, ScannerError};
use scheduler_model::{ErrorClass, ImageDigest, Report, RunId, TenantId};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A connection that idles longer is closed: common servers close theirs after five seconds, and a call on a connection
/// that is just being closed is lost.
const IDLE_CONNECTION_MAX: Duration = Duration::from_secs(4);
/// Of an answer without use so much is read to keep its connection, and so long.
const DRAIN_LEN_MAX: usize = 64 << 10;
const DRAIN_WAIT_MAX: Duration = Duration::from_millis(250);

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const TENANT: HeaderName = HeaderName::from_static("x-tenant-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Calls the scanner's service over HTTP/1.1 with kept connections. It follows no redirects and uses no proxy of the
/// environment: the scanner is a neighbour.
pub struct HttpScanner {
    client: Client,
    endpoints: Endpoints,
    timeout: Duration,
    token: Option<BearerToken>,
    clock: Arc<dyn Clock>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReportBody<'a> {
    image_digest: &'a ImageDigest,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy_revision: Option<&'a str>,
    run_id: &'a RunId,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResolveBody<'a> {
    image_ref: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ScanBody<'a> {
    image_ref: &'a str,
    attest: bool,
}

impl HttpScanner {
    /// A client for one scanner; reads the files that `config` names.
    ///
    /// # Panics
    /// When the process has no TLS provider: the binary installs one before all else.
    pub fn new(config: &ScannerConfig, clock: Arc<dyn Clock>) -> Result<Self, ScannerSetupError> {
        let endpoints = Endpoints::parse(&config.base_url)?;
        let mut builder = Client::builder()
            .user_agent(concat!("stella-scheduler/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .no_proxy()
            .http1_only()
            .pool_idle_timeout(IDLE_CONNECTION_MAX);
        if let Some(path) = &config.ca_file {
            builder = builder.tls_certs_only(certificates(path)?);
        } else if !endpoints.is_encrypted() {
            // A machine without any system certificates can still call a scanner that needs none.
            builder = builder.tls_certs_only([]);
        }
        if let Some(files) = &config.identity {
            let mut pem = read(&files.cert_file)?;
            pem.push(b'\n');
            pem.extend(read(&files.key_file)?);
            let identity = Identity::from_pem(&pem).map_err(|source| ScannerSetupError::Identity {
                cert: files.cert_file.clone(),
                key: files.key_file.clone(),
                source,
            })?;
            builder = builder.identity(identity);
        }
        Ok(Self {
            client: builder.build().map_err(ScannerSetupError::Client)?,
            endpoints,
            timeout: config.timeout,
            token: config.token.as_ref().map(|source| BearerToken::open(source, clock.now())).transpose()?,
            clock,
        })
    }

    async fn post<T>(
        &self,
        path: &str,
        headers: HeaderMap,
        body: &impl Serialize,
        understand: impl FnOnce(&[u8]) -> Result<T, AnswerError>,
    ) -> Result<T, ScannerError> {
        let url = self.endpoints.join(&[path]);
        let body = serde_json::to_vec(body).map_err(|source| ScannerError {
            class: ErrorClass::Internal,
            message: format!("the call to {} cannot be written", shown(&url)),
            retryable: false,
            retry_after: None,
            refused: false,
            source: Some(Box::new(source)),
        })?;
        self.call(Method::POST, url, headers, Some(body), understand).await
    }

    /// One call, within the time that it may take, and its answer understood.
    async fn call<T>(
        &self,
        method: Method,
        url: Url,
        headers: HeaderMap,
        body: Option<Vec<u8>>,
        understand: impl FnOnce(&[u8]) -> Result<T, AnswerError>,
    ) -> Result<T, ScannerError> {
        let place = shown(&url);
        let exchange = async {
            let (response, authorization) = self.send(method, url, headers, body, &place).await?;
            if response.status().is_success() {
                return whole_body(response, &place).await;
            }
            Err(self.failure(response, authorization, &place).await)
        };
        let body = match tokio::time::timeout(self.timeout, exchange).await {
            Ok(answer) => answer?,
            Err(_) => return Err(call_error::of_timeout(&place, self.timeout)),
        };
        understand(&body).map_err(|error| call_error::of_answer(&place, error))
    }

    async fn send(
        &self,
        method: Method,
        url: Url,
        mut headers: HeaderMap,
        body: Option<Vec<u8>>,
        place: &str,
    ) -> Result<(Response, Option<HeaderValue>), ScannerError> {
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let authorization = match &self.token {
            Some(token) => Some(token.header(self.clock.now()).await),
            None => None,
        };
        if let Some(authorization) = &authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        let mut request = self.client.request(method, url);
        if let Some(body) = body {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            request = request.body(body);
        }
        let response = request.headers(headers).send().await.map_err(|error| call_error::of_transport(place, error))?;
        Ok((response, authorization))
    }

    async fn failure(&self, response: Response, authorization: Option<HeaderValue>, place: &str) -> ScannerError {
        let status = response.status();
        let wait = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let wait = wait.and_then(|value| retry_after(value, self.clock.now())).map(|wait| wait.min(RETRY_AFTER_MAX));
        drain(response).await;
        let mut error = call_error::of_status(place, status, wait);
        if let (StatusCode::UNAUTHORIZED, Some(token), Some(used)) = (status, &self.token, authorization) {
            // A token that was replaced since is no reason to give an image up.
            error.retryable = token.has_other_than(&used).await;
        }
        error
    }
}

#[async_trait]
impl Scanner for HttpScanner {
    async fn report(&self, request: &ReportRequest) -> Result<Report, ScannerError> {
        let mut headers = headers_of(&request.tenant, &request.traceparent);
        let key = format!("{}:{}", request.run, request.digest);
        put_header(&mut headers, IDEMPOTENCY_KEY, &key);
        let body = ReportBody {
            image_digest: &request.digest,
            policy_revision: request.policy_revision.as_deref(),
            run_id: &request.run,
        };
        self.post("reports", headers, &body, |answer| answer::report(answer, &request.digest)).await
    }

    async fn resolve(&self, request: &ImageScan) -> Result<ImageDigest, ScannerError> {
        let headers = headers_of(&request.tenant, &request.traceparent);
        self.post("resolve", headers, &ResolveBody { image_ref: &request.image_ref }, answer::resolved).await
    }

    async fn scan(&self, request: &ImageScan) -> Result<ScanProgress, ScannerError> {
        let headers = headers_of(&request.tenant, &request.traceparent);
        let body = ScanBody { image_ref: &request.image_ref, attest: false };
        self.post("scans", headers, &body, |answer| answer::scan(answer, None)).await
    }

    async fn scan_state(&self, request: &ImageScan, scan_id: &str) -> Result<ScanProgress, ScannerError> {
        let headers = headers_of(&request.tenant, &request.traceparent);
        let url = self.endpoints.join(&["scans", scan_id]);
        self.call(Method::GET, url, headers, None, |answer| answer::scan(answer, Some(scan_id))).await
    }

    /// Asks `GET healthz`. Whatever it answers will do, but for 5xx, and for 401 and 403, which say that the
    /// credentials are wrong.
    async fn ping(&self) -> Result<(), ScannerError> {
        let url = self.endpoints.join(&["healthz"]);
        let place = shown(&url);
        let exchange = async {
            let (response, authorization) = self.send(Method::GET, url, HeaderMap::new(), None, &place).await?;
            let status = response.status();
            let unfit =
                status.is_server_error() || status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN;
            if unfit {
                return Err(self.failure(response, authorization, &place).await);
            }
            drain(response).await;
            Ok(())
        };
        tokio::time::timeout(self.timeout, exchange)
            .await
            .unwrap_or_else(|_| Err(call_error::of_timeout(&place, self.timeout)))
    }
}

fn headers_of(tenant: &TenantId, traceparent: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    put_header(&mut headers, TENANT, tenant.as_str());
    put_header(&mut headers, TRACEPARENT, traceparent);
    headers
}

/// A value that no header can hold is left out: a run's id has no control characters, and a broken trace must not cost
/// a verdict.
fn put_header(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_bytes(value.as_bytes())
        && !value.is_empty()
    {
        headers.insert(name, value);
    }
}

async fn whole_body(mut response: Response, place: &str) -> Result<Vec<u8>, ScannerError> {
    let too_long = || call_error::of_answer(place, AnswerError::TooLong);
    let announced = response.content_length().map_or(Ok(0), usize::try_from).map_err(|_| too_long())?;
    if announced > ANSWER_LEN_MAX {
        return Err(too_long());
    }
    let mut body = Vec::with_capacity(announced);
    while let Some(chunk) = response.chunk().await.map_err(|error| call_error::of_transport(place, error))? {
        if body.len() + chunk.len() > ANSWER_LEN_MAX {
            return Err(too_long());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Reads the rest of an answer, so that its connection can serve the next call. Failing at it costs just that.
async fn drain(mut response: Response) {
    let reading = async {
        let mut len = 0;
        while let Ok(Some(chunk)) = response.chunk().await {
            len += chunk.len();
            if len > DRAIN_LEN_MAX {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(DRAIN_WAIT_MAX, reading).await;
}

fn read(path: &Path) -> Result<Vec<u8>, ScannerSetupError> {
    std::fs::read(path).map_err(|source| ScannerSetupError::File { path: path.to_owned(), source })
}

fn certificates(path: &Path) -> Result<Vec<Certificate>, ScannerSetupError> {
    let unreadable = |source| ScannerSetupError::Certificates { path: path.to_owned(), source };
    let found = Certificate::from_pem_bundle(&read(path)?).map_err(|source| unreadable(Some(source)))?;
    if found.is_empty() { Err(unreadable(None)) } else { Ok(found) }
}
