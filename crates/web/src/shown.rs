//! An event as a stream shows it.

use crate::view::RunView;
use axum::response::sse::Event;
use scheduler_model::{OutboundBody, OutboundEvent};
use serde_json::{Value, json};

/// An event in its final form, made once for all streams.
#[derive(Debug)]
pub struct Shown {
    /// Its place among the tenant's events.
    pub sequence: u64,
    kind: &'static str,
    data: String,
}

impl Shown {
    /// `public_url` stands in front of links.
    pub fn new(event: &OutboundEvent, public_url: &str) -> Self {
        let data = cloud_event(event, public_url).to_string();
        Self { sequence: event.sequence, kind: event.type_str(), data }
    }

    /// For a stream.
    pub fn event(&self) -> Event {
        Event::default().event(self.kind).id(self.sequence.to_string()).data(&self.data)
    }
}

/// The event in the JSON form of CloudEvents 1.0.
fn cloud_event(event: &OutboundEvent, public_url: &str) -> Value {
    let kind = event.type_str();
    let (id, subject, data) = match &event.body {
        OutboundBody::Image(_, body) => (
            format!("{}:{}:scheduler.{kind}", body.run_id, body.image_digest),
            body.image_digest.as_str().to_owned(),
            json!(body),
        ),
        OutboundBody::RunUpdated(run) => (
            format!("{}:{}:scheduler.{kind}", run.id, event.sequence),
            run.id.as_str().to_owned(),
            json!(RunView::new((**run).clone(), public_url)),
        ),
    };
    json!({
        "specversion": "1.0",
        "id": id,
        "source": "/scheduler",
        "type": format!("scheduler.{kind}"),
        "time": event.time,
        "subject": subject,
        "datacontenttype": "application/json",
        "data": data,
    })
}
