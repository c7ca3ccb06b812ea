//! Requests of one tenant, and what tests wait for.

use crate::openapi;
use crate::service::SECRET;
use reqwest::Method;
use scheduler_auth::{SCHEDULER_SIGNATURE_HEADER, SigningKey};
use scheduler_model::WebhookKeyId;
use serde_json::{Value, json};
use std::time::Duration;

/// How long anything may take that a test waits for.
pub const PATIENCE: Duration = Duration::from_secs(60);

const BASE: &str = "/api/v1/scheduler";

/// An answer, read whole.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub body: Value,
    pub text: String,
}

impl Answer {
    /// Whether it is a 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The code of a problem document.
    pub fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or_default()
    }

    /// Seconds of `Retry-After`.
    pub fn retry_after(&self) -> Option<u64> {
        self.headers.get("retry-after")?.to_str().ok()?.parse().ok()
    }
}

/// Speaks for a tenant.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    address: String,
    tenant: String,
}

impl Client {
    pub fn new(address: &str, tenant: &str) -> Self {
        // Another caller may have chosen it already.
        drop(rustls::crypto::ring::default_provider().install_default());
        Self { http: reqwest::Client::new(), address: address.to_owned(), tenant: tenant.to_owned() }
    }

    /// Where the service listens, as a URL.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The same service for another tenant.
    pub fn of(&self, tenant: &str) -> Self {
        Self { tenant: tenant.to_owned(), ..self.clone() }
    }

    /// A request under the base path; one that begins with `/healthz` and the like stays as it is.
    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let outside = ["/healthz", "/readyz", "/metrics", "/openapi.json"].iter().any(|one| path.starts_with(one));
        let base = if outside { "" } else { BASE };
        self.http.request(method, format!("{}{base}{path}", self.address)).header("X-Tenant-Id", &self.tenant)
    }

    /// Sends; `None` when the connection failed or the answer was cut.
    pub async fn try_send(&self, request: reqwest::RequestBuilder) -> Option<Answer> {
        let request = request.build().unwrap();
        let (method, path) = (request.method().clone(), request.url().path().to_owned());
        let response = self.http.execute(request).await.ok()?;
        openapi::expect_documented(&method, &path, response.status().as_u16());
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.ok()?;
        Some(Answer { status, headers, body: serde_json::from_str(&text).unwrap_or(Value::Null), text })
    }

    pub async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        self.try_send(request).await.unwrap()
    }

    pub async fn try_get(&self, path: &str) -> Option<Answer> {
        self.try_send(self.request(Method::GET, path)).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send(self.request(Method::PUT, path).json(body)).await
    }

    /// A signed delivery.
    pub fn event(&self, source: &str, body: &Value) -> reqwest::RequestBuilder {
        let bytes = body.to_string().into_bytes();
        let header = sign(&format!("{source}-1"), &bytes, unix_now());
        self.request(Method::POST, &format!("/events/{source}-export"))
            .header(SCHEDULER_SIGNATURE_HEADER, header)
            .header("content-type", "application/json")
            .body(bytes)
    }

    pub async fn post_event(&self, source: &str, body: &Value) -> Answer {
        self.send(self.event(source, body)).await
    }

    /// Every item of a list.
    pub async fn all(&self, path: &str) -> Vec<Value> {
        let mut items = Vec::new();
        let mut cursor = String::new();
        loop {
            let join = if path.contains('?') { '&' } else { '?' };
            let page = self.get(&format!("{path}{join}limit=500{cursor}")).await;
            assert_eq!(page.status, 200, "{}", page.text);
            items.extend(page.body["items"].as_array().unwrap().iter().cloned());
            match page.body["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return items,
            }
        }
    }

    /// Starts a run; gives its id.
    pub async fn start_run(&self, body: &Value) -> String {
        let answer = self.post("/run", body).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
        answer.body["runId"].as_str().unwrap().to_owned()
    }

    /// Waits until a run has one of the states.
    pub async fn run_in(&self, id: &str, states: &[&str]) -> Value {
        let what = format!("run {id} in {states:?}");
        eventually(&what, async || {
            let run = self.get(&format!("/runs/{id}")).await.body;
            states.contains(&run["state"].as_str().unwrap_or_default()).then_some(run)
        })
        .await
    }

    /// Waits until a run has ended.
    pub async fn ended(&self, id: &str) -> Value {
        self.run_in(id, &["completed", "cancelled", "error"]).await
    }

    /// A schedule that hears Feedser; gives its id.
    pub async fn subscribe(&self, name: &str) -> String {
        let answer = self.post("/schedules", &json!({ "name": name, "onEvents": ["feedser"] })).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        answer.body["id"].as_str().unwrap().to_owned()
    }
}

/// Looks until there is something to see.
pub async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < deadline, "waited too long for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The signature header over a body.
pub fn sign(key: &str, body: &[u8], now: u64) -> String {
    let id = WebhookKeyId::try_from(key.to_owned()).unwrap();
    SigningKey::hmac(id, SECRET.as_bytes()).unwrap().scheduler_header(body, now)
}

/// The machine's time, as the service sees it.
#[expect(clippy::disallowed_methods, reason = "signatures carry the real time")]
pub fn unix_now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}
