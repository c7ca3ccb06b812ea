//! A scanner over HTTP, on a free port of the loopback interface, that can go down and come up again.
#![expect(clippy::expect_used, reason = "a test server that cannot start fails the test")]

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// A body that is cut is sent in parts of so many bytes, so that most of it arrives.
const PART_LEN: usize = 64 << 10;

type Behaviour = dyn Fn(&HttpCall) -> HttpReply + Send + Sync;

/// A call that the server took.
#[derive(Debug, Clone)]
pub struct HttpCall {
    /// The method.
    pub method: String,
    /// The path.
    pub path: String,
    /// The header fields.
    pub headers: HeaderMap,
    /// The body as JSON; null when it is none.
    pub body: Value,
    /// The how-manieth call with that path and image it is, from 1.
    pub nth: u32,
}

impl HttpCall {
    /// A header's value, empty when it is absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// A text member of the body, empty when it is absent.
    pub fn text(&self, member: &str) -> &str {
        self.body.get(member).and_then(Value::as_str).unwrap_or_default()
    }
}

/// What the server answers.
#[derive(Debug, Clone)]
pub struct HttpReply {
    /// The status.
    pub status: u16,
    /// More header fields.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// The wait before the answer.
    pub delay: Duration,
    /// Whether the length is not announced and the connection is cut after the body, in place of the answer's end.
    pub cut: bool,
}

impl HttpReply {
    /// 200 with JSON.
    pub fn json(body: &Value) -> Self {
        Self::raw(200, body.to_string())
    }

    /// An empty object with a status.
    pub fn status(status: u16) -> Self {
        Self::raw(status, "{}")
    }

    /// Bytes with a status.
    pub fn raw(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into(), delay: Duration::ZERO, cut: false }
    }

    /// The report of an image in which nothing is new.
    pub fn quiet_report(digest: &str) -> Self {
        Self::json(&serde_json::json!({ "imageDigest": digest, "verdict": "pass", "delta": { "newFindings": 0 } }))
    }

    /// With another header field.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// After a wait.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }
}

/// The server. It has a runtime of its own, so that it serves while a test's runtime is busy, and so that going down
/// takes its connections with it.
pub struct HttpScannerServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
}

struct Shared {
    behaviour: Box<Behaviour>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    calls: Vec<HttpCall>,
    counts: HashMap<(String, String), u32>,
    in_flight: usize,
    in_flight_max: usize,
}

impl HttpScannerServer {
    /// Serves what `behaviour` says, on a free port.
    pub fn start(behaviour: impl Fn(&HttpCall) -> HttpReply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("the port");
        let shared = Arc::new(Shared { behaviour: Box::new(behaviour), seen: Mutex::default() });
        let mut server = Self { address, shared, runtime: None };
        server.serve(listener);
        server
    }

    /// The base address.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The calls, in the order of their arrival.
    pub fn calls(&self) -> Vec<HttpCall> {
        self.shared.seen.lock().calls.clone()
    }

    /// The most calls that went at once.
    pub fn in_flight_max(&self) -> usize {
        self.shared.seen.lock().in_flight_max
    }

    /// Refuses connections from here on; those that are open are cut.
    pub fn down(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// Serves again, at the same address.
    pub fn up(&mut self) {
        self.down();
        let listener = TcpListener::bind(self.address).expect("the same port again");
        self.serve(listener);
    }

    fn serve(&mut self, listener: TcpListener) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime for the test server");
        listener.set_nonblocking(true).expect("a listener that does not block");
        let router = Router::new().fallback(answer).with_state(self.shared.clone());
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener of the runtime");
            axum::serve(listener, router).await.expect("the test server serves");
        });
        self.runtime = Some(runtime);
    }
}

impl Drop for HttpScannerServer {
    fn drop(&mut self) {
        self.down();
    }
}

/// Counts a call out, also when its client gives it up.
struct InFlight(Arc<Shared>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.seen.lock().in_flight -= 1;
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let image = ["imageDigest", "imageRef"].iter().find_map(|member| body.get(*member)?.as_str()).unwrap_or_default();
    let path = head.uri.path().to_owned();
    let call = {
        let mut seen = shared.seen.lock();
        let count = seen.counts.entry((path.clone(), image.to_owned())).or_default();
        *count += 1;
        let nth = *count;
        let call = HttpCall { method: head.method.to_string(), path, headers: head.headers, body, nth };
        seen.calls.push(call.clone());
        seen.in_flight += 1;
        seen.in_flight_max = seen.in_flight_max.max(seen.in_flight);
        call
    };
    let _in_flight = InFlight(shared.clone());
    let reply = (shared.behaviour)(&call);
    if !reply.delay.is_zero() {
        tokio::time::sleep(reply.delay).await;
    }
    response(reply)
}

fn response(reply: HttpReply) -> Response<Body> {
    let body = if reply.cut {
        let body = Bytes::from(reply.body);
        let parts: Vec<_> =
            (0..body.len()).step_by(PART_LEN).map(|at| body.slice(at..body.len().min(at + PART_LEN))).collect();
        let parts = parts.into_iter().map(Ok).chain([Err(std::io::Error::other("cut"))]);
        Body::from_stream(futures::stream::iter(parts))
    } else {
        Body::from(reply.body)
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(reply.status).expect("a status");
    for (name, value) in reply.headers {
        response.headers_mut().insert(name, value.parse().expect("a header's value"));
    }
    response
}
