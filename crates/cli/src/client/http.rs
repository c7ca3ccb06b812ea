//! Calls to the service.

use super::problem::ProblemDocument;
use super::{ClientError, Global};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url, redirect, retry};
use serde_json::Value;
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

const CONNECT_WAIT_MAX: Duration = Duration::from_secs(10);

/// How long most calls may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long calls may take that go over the whole catalog, or send a lot.
const LONG_PATIENCE: Duration = Duration::from_secs(3600);

/// The largest answer that is read, in bytes. Lists come in pages, so only a bulk upload's answer is long.
const ANSWER_LEN_MAX: usize = 256 << 20;

/// Items of one page.
const PAGE_LEN: &str = "500";

/// Below the service's address.
const BASE_PATH: [&str; 3] = ["api", "v1", "scheduler"];

const TENANT: HeaderName = HeaderName::from_static("x-tenant-id");

/// One call.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    method: Method,
    path: Vec<&'a str>,
    query: Vec<(&'a str, String)>,
    headers: HeaderMap,
    body: Option<Vec<u8>>,
    patience: Duration,
}

impl<'a> Request<'a> {
    /// A call below the base path; each segment is escaped.
    pub fn new(method: Method, path: &[&'a str]) -> Self {
        Self {
            method,
            path: path.to_vec(),
            query: Vec::new(),
            headers: HeaderMap::new(),
            body: None,
            patience: PATIENCE,
        }
    }

    /// `GET`.
    pub fn get(path: &[&'a str]) -> Self {
        Self::new(Method::GET, path)
    }

    /// `POST`.
    pub fn post(path: &[&'a str]) -> Self {
        Self::new(Method::POST, path)
    }

    /// Adds a parameter.
    pub fn query(mut self, name: &'a str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    /// Adds a parameter if there is a value.
    pub fn maybe(self, name: &'a str, value: Option<impl Into<String>>) -> Self {
        match value {
            Some(value) => self.query(name, value),
            None => self,
        }
    }

    /// Adds a header; a value that no header can hold is left out.
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
        self
    }

    /// Sends bytes of a media type.
    pub fn body(mut self, media_type: &'static str, body: Vec<u8>) -> Self {
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        self.body = Some(body);
        self
    }

    /// Sends a JSON document.
    pub fn json(self, document: &Value) -> Self {
        self.body("application/json", document.to_string().into_bytes())
    }

    /// Lets the call take as long as work over the whole catalog does.
    pub fn patiently(mut self) -> Self {
        self.patience = LONG_PATIENCE;
        self
    }
}

/// Calls one service as one tenant.
pub struct Client {
    http: reqwest::Client,
    server: Url,
    identity: HeaderMap,
}

impl Client {
    /// A client by the flags. Proxies of the environment are used, but not for this machine.
    pub fn new(global: &Global) -> Result<Self, ClientError> {
        let server = server_url(&global.server)?;
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("stella-scheduler/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .http1_only()
            .connect_timeout(CONNECT_WAIT_MAX);
        if is_here(&server) {
            builder = builder.no_proxy();
        }
        if server.scheme() == "http" {
            // A machine without any system certificates can still call a service that needs none.
            builder = builder.tls_certs_only([]);
        }
        let http =
            builder.build().map_err(|error| ClientError::Setup { server: shown(&server), why: innermost(&error) })?;
        Self::over(global, http)
    }

    /// A client over connections of the caller's kind.
    pub fn over(global: &Global, http: reqwest::Client) -> Result<Self, ClientError> {
        let server = server_url(&global.server)?;
        let mut identity = HeaderMap::new();
        if let Some(tenant) = &global.tenant
            && let Ok(value) = HeaderValue::from_str(tenant.as_str())
        {
            identity.insert(TENANT, value);
        }
        if let Some(path) = &global.token_file {
            identity.insert(AUTHORIZATION, bearer(path)?);
        }
        Ok(Self { http, server, identity })
    }

    /// The service's address for people: without name and password.
    pub fn server(&self) -> String {
        shown(&self.server)
    }

    /// Sends a call; the answer's JSON, which has these members. Without any, the answer has to have no body, and is `null`.
    /// Whoever answers 200 to everything is no service that did something.
    pub async fn call(&self, request: Request<'_>, members: &[&str]) -> Result<Value, ClientError> {
        let body = self.bytes(request).await?;
        if members.is_empty() {
            return if body.is_empty() { Ok(Value::Null) } else { Err(self.foreign("more than was asked for")) };
        }
        let answer = serde_json::from_slice(&body).map_err(|_| self.foreign("something that is no JSON"))?;
        self.with_members(answer, members)
    }

    /// A document, if it has these members.
    pub fn with_members(&self, answer: Value, members: &[&str]) -> Result<Value, ClientError> {
        match members.iter().find(|member| answer.get(**member).is_none()) {
            Some(lacking) => Err(self.foreign(&format!("without `{lacking}`"))),
            None => Ok(answer),
        }
    }

    /// Sends a call; the answer as it came.
    pub async fn bytes(&self, request: Request<'_>) -> Result<Vec<u8>, ClientError> {
        let answer = self.send(request).await?;
        self.read(answer).await
    }

    async fn read(&self, mut answer: reqwest::Response) -> Result<Vec<u8>, ClientError> {
        let status = answer.status();
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| self.transport(&error))? {
            if body.len() + chunk.len() > ANSWER_LEN_MAX {
                return Err(self.foreign("more than can be taken"));
            }
            body.extend_from_slice(&chunk);
        }
        if status.is_success() {
            return Ok(body);
        }
        match serde_json::from_slice::<ProblemDocument>(&body) {
            Ok(problem) if problem.status == status.as_u16() => Err(ClientError::Refused(problem)),
            _ => Err(self.foreign(&status.to_string())),
        }
    }

    /// Sends a call; the answer, which may be of any length, goes to `out` as it comes.
    pub async fn download(&self, request: Request<'_>, out: &mut impl Write) -> anyhow::Result<()> {
        let mut answer = self.send(request).await?;
        if !answer.status().is_success() {
            return Ok(self.read(answer).await.map(|_| ())?);
        }
        while let Some(chunk) = answer.chunk().await.map_err(|error| self.transport(&error))? {
            out.write_all(&chunk)?;
        }
        Ok(())
    }

    async fn send(&self, request: Request<'_>) -> Result<reqwest::Response, ClientError> {
        let mut url = self.server.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(BASE_PATH).extend(&request.path);
        }
        if !request.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&request.query);
        }
        let mut headers = self.identity.clone();
        headers.extend(request.headers);
        let mut call = self.http.request(request.method, url).headers(headers).timeout(request.patience);
        if let Some(body) = request.body {
            call = call.body(body);
        }
        call.send().await.map_err(|error| self.transport(&error))
    }

    /// Every item of a list, page by page.
    pub async fn each(
        &self,
        request: Request<'_>,
        limit: Option<usize>,
        mut item: impl FnMut(Value) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut left = limit.unwrap_or(usize::MAX);
        let mut cursor: Option<String> = None;
        while left > 0 {
            let page = request.clone().query("limit", PAGE_LEN).maybe("cursor", cursor);
            let mut answer = self.call(page, &["items"]).await?;
            let Some(Value::Array(items)) = answer.get_mut("items").map(Value::take) else {
                return Err(self.foreign("a list without items").into());
            };
            for one in items.into_iter().take(left) {
                left -= 1;
                item(one)?;
            }
            match answer.get("nextCursor").and_then(Value::as_str) {
                Some(next) => cursor = Some(next.to_owned()),
                None => break,
            }
        }
        Ok(())
    }

    fn foreign(&self, what: &str) -> ClientError {
        ClientError::Foreign { server: self.server(), what: what.to_owned() }
    }

    fn transport(&self, error: &reqwest::Error) -> ClientError {
        let (server, why) = (self.server(), unreachable_reason(error));
        if error.is_connect() { ClientError::Unreachable { server, why } } else { ClientError::Cut { server, why } }
    }
}

fn server_url(text: &str) -> Result<Url, ClientError> {
    let refused = || ClientError::Server { shown: text.rsplit('@').next().unwrap_or_default().to_owned() };
    let mut url = Url::parse(text.trim()).map_err(|_| refused())?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(refused());
    }
    url.set_query(None);
    url.set_fragment(None);
    Ok(url)
}

fn is_here(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // Both fail only for URLs without host, which were refused.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.to_string().trim_end_matches('/').to_owned()
}

fn bearer(path: &Path) -> Result<HeaderValue, ClientError> {
    let refused = |why: String| ClientError::Token { path: path.to_path_buf(), why };
    let text = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    let text = text.trim();
    if text.is_empty() {
        return Err(refused("it is empty".to_owned()));
    }
    let mut value = HeaderValue::from_str(&format!("Bearer {text}"))
        .map_err(|_| refused("it has characters that a header cannot hold".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Why no connection or no answer came, in words of the operating system rather than of a library.
fn unreachable_reason(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    let mut cause: Option<&(dyn Error + 'static)> = error.source();
    while let Some(found) = cause {
        if let Some(io) = found.downcast_ref::<std::io::Error>() {
            if io.to_string().contains("corrupt message") {
                return "it does not speak TLS, so its address begins with http://".to_owned();
            }
            match io.kind() {
                std::io::ErrorKind::ConnectionRefused => return "connection refused".to_owned(),
                std::io::ErrorKind::ConnectionReset => return "the connection was reset".to_owned(),
                std::io::ErrorKind::TimedOut => return "no answer in time".to_owned(),
                std::io::ErrorKind::HostUnreachable | std::io::ErrorKind::NetworkUnreachable => {
                    return "there is no route to it".to_owned();
                }
                _ => {}
            }
        }
        cause = found.source();
    }
    innermost(error)
}

fn innermost(error: &dyn Error) -> String {
    let mut innermost = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p12_passwords_in_addresses_are_not_shown() {
        assert_eq!(shown(&server_url("http://user:hunter2@host:1/base/").unwrap()), "http://host:1/base");
        for text in ["ftp://user:hunter2@host", "user:hunter2@host", "unix:/x", "", "http://"] {
            let said = server_url(text).unwrap_err().to_string();
            assert!(!said.contains("hunter2") && said.contains("--server"), "{said}");
        }
    }

    #[test]
    fn proxies_are_not_used_for_this_machine() {
        for (text, here) in [
            ("http://localhost:1", true),
            ("http://127.0.0.9", true),
            ("http://[::1]:8585", true),
            ("http://scheduler", false),
            ("https://10.0.0.1", false),
        ] {
            assert_eq!(is_here(&server_url(text).unwrap()), here, "{text}");
        }
    }
}
