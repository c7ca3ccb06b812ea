//! An event as a stream shows it.

use crate::view::RunView;
use axum::response::sse::Event;
use scheduler_model::{ImageEvent, OutboundBody, OutboundEvent, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

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
        let data = serde_json::to_string(&cloud_event(event, public_url)).unwrap_or_default();
        Self { sequence: event.sequence, kind: event.type_str(), data }
    }

    /// Its size, in bytes.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// For a stream.
    pub fn event(&self) -> Event {
        Event::default().event(self.kind).id(self.sequence.to_string()).data(&self.data)
    }
}

/// An event in the JSON form of CloudEvents 1.0.
#[derive(Debug, Serialize, ToSchema)]
pub struct CloudEvent {
    #[schema(example = "1.0")]
    specversion: &'static str,
    /// Stable over every repetition: `<runId>:<imageDigest>:<type>`.
    id: String,
    #[schema(example = "/scheduler")]
    source: &'static str,
    /// `scheduler.rescan.delta`, `scheduler.report.ready` or `scheduler.run.updated`.
    r#type: String,
    time: Timestamp,
    /// The image's digest or the run's id.
    subject: String,
    #[schema(example = "application/json")]
    datacontenttype: &'static str,
    data: EventData,
}

/// What an event is about.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum EventData {
    /// Of `rescan.delta` and `report.ready`.
    Image(Box<ImageEvent>),
    /// Of `run.updated`.
    Run(Box<RunView>),
}

fn cloud_event(event: &OutboundEvent, public_url: &str) -> CloudEvent {
    let kind = event.type_str();
    let (id, subject, data) = match &event.body {
        OutboundBody::Image(_, body) => (
            format!("{}:{}:scheduler.{kind}", body.run_id, body.image_digest),
            body.image_digest.as_str().to_owned(),
            EventData::Image(body.clone()),
        ),
        OutboundBody::RunUpdated(run) => (
            format!("{}:{}:scheduler.{kind}", run.id, event.sequence),
            run.id.as_str().to_owned(),
            EventData::Run(Box::new(RunView::new((**run).clone(), public_url))),
        ),
    };
    CloudEvent {
        specversion: "1.0",
        id,
        source: "/scheduler",
        r#type: format!("scheduler.{kind}"),
        time: event.time,
        subject,
        datacontenttype: "application/json",
        data,
    }
}
