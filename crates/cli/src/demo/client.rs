//! The demo's side of the REST interface: it talks to the service as anybody would.

use anyhow::{Context, bail, ensure};
use reqwest::{Client, Method, RequestBuilder, Response};
use scheduler_web::BASE_PATH;
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;

/// A call that takes longer is a failure of the demo.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The longest line of the event stream, in bytes.
const LINE_LEN_MAX: usize = 1 << 20;

/// A client of one service.
#[derive(Clone)]
pub struct Api {
    http: Client,
    base: String,
}

impl Api {
    /// A client of the service at that address.
    pub fn new(address: SocketAddr) -> anyhow::Result<Self> {
        let http = Client::builder().no_proxy().build().context("no HTTP client can be made")?;
        Ok(Self { http, base: format!("http://{address}{BASE_PATH}") })
    }

    /// Where the interface begins.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Begins a request to a path below the base.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base)).timeout(CALL_TIMEOUT)
    }

    /// Posts a document and reads the one that comes back.
    pub async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        answer(path, self.request(Method::POST, path).json(body))
            .await?
            .json()
            .await
            .with_context(|| format!("POST {path}"))
    }

    /// Opens the event stream, which begins now.
    pub async fn events(&self) -> anyhow::Result<Events> {
        let path = "/events/stream";
        // Without the timeout of the other calls: the stream goes on.
        let response = self.http.get(format!("{}{path}", self.base)).send().await.context("the event stream")?;
        ensure!(response.status().is_success(), "{path} answered {}", response.status());
        Ok(Events { response, buffer: Vec::new(), kind: String::new() })
    }
}

/// Sends a request; an answer that is no success is an error with the problem's own words.
pub async fn answer(path: &str, request: RequestBuilder) -> anyhow::Result<Response> {
    let response = request.send().await.with_context(|| format!("{path} cannot be reached"))?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let problem: Value = response.json().await.unwrap_or_default();
    let detail = problem.get("detail").and_then(Value::as_str).unwrap_or("without a reason");
    bail!("{path} answered {status}: {detail}")
}

/// The event stream.
pub struct Events {
    response: Response,
    buffer: Vec<u8>,
    kind: String,
}

/// An event of the stream: its type, and the `data` of the CloudEvent in it.
pub struct Event {
    /// Such as `rescan.delta`.
    pub kind: String,
    /// What it tells.
    pub data: Value,
}

impl Events {
    /// The next event.
    pub async fn next(&mut self) -> anyhow::Result<Event> {
        loop {
            while let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                if let Some(kind) = line.strip_prefix("event:") {
                    self.kind = kind.trim().to_owned();
                } else if let Some(data) = line.strip_prefix("data:") {
                    let mut event: Value = serde_json::from_str(data.trim()).context("an event is no JSON")?;
                    let data = event.get_mut("data").map(Value::take).unwrap_or_default();
                    return Ok(Event { kind: std::mem::take(&mut self.kind), data });
                }
            }
            ensure!(
                self.buffer.len() <= LINE_LEN_MAX,
                "a line of the event stream is longer than {LINE_LEN_MAX} bytes"
            );
            let chunk = self.response.chunk().await.context("the event stream broke")?;
            self.buffer.extend_from_slice(&chunk.context("the event stream ended")?);
        }
    }
}
