//! A reader of the event stream that goes on where it stopped.

use crate::client::Client;
use futures::StreamExt;
use reqwest::Method;
use serde_json::Value;
use std::collections::VecDeque;

/// One event.
#[derive(Debug, Clone)]
pub struct Event {
    /// Its place in the tenant's stream.
    pub id: u64,
    /// `rescan.delta` and the like.
    pub kind: String,
    /// The CloudEvent.
    pub data: Value,
    /// The same, as it was written.
    pub text: String,
}

impl Event {
    /// The CloudEvents id.
    pub fn cloud_id(&self) -> &str {
        self.data["id"].as_str().unwrap_or_default()
    }
}

/// An open stream.
pub struct Stream {
    chunks: futures::stream::BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    text: Vec<u8>,
    ready: VecDeque<Event>,
}

impl Stream {
    /// Opens one after an event; `None` when the service does not answer.
    pub async fn open(client: &Client, after: Option<u64>) -> Option<Self> {
        let mut request = client.request(Method::GET, "/events/stream");
        if let Some(after) = after {
            request = request.header("Last-Event-ID", after.to_string());
        }
        Self::of(request).await
    }

    /// Opens the one that a request asks for.
    pub async fn of(request: reqwest::RequestBuilder) -> Option<Self> {
        let response = request.send().await.ok().filter(|response| response.status() == 200)?;
        Some(Self { chunks: response.bytes_stream().boxed(), text: Vec::new(), ready: VecDeque::new() })
    }

    /// The next event; `None` when the stream ends or breaks.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let chunk = self.chunks.next().await?.ok()?;
            self.text.extend_from_slice(&chunk);
            while let Some(end) = self.text.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.text.drain(..end + 2).collect();
                self.ready.extend(parse(&String::from_utf8(block).unwrap()));
            }
        }
    }
}

/// An event of a block; a comment is none.
fn parse(block: &str) -> Option<Event> {
    let field =
        |name: &str| block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim_start);
    Some(Event {
        id: field("id")?.parse().unwrap(),
        kind: field("event")?.to_owned(),
        data: serde_json::from_str(field("data")?).unwrap(),
        text: field("data")?.to_owned(),
    })
}
