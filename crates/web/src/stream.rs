//! `GET /events/stream`: a tenant's events as they become durable, with resumption.
//!
//! A stream reads the outbox at its own pace, so that a reader who never reads costs one socket buffer.

use crate::extract::Tenant;
use crate::problem::Problem;
use crate::state::App;
use crate::view::RunView;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::stream::{self, Stream};
use scheduler_core::ports::StoreError;
use scheduler_model::{OutboundBody, OutboundEvent, TenantId};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tracing::warn;

/// Events that are read at once.
const READ_LEN_MAX: usize = 128;

const KEEP_ALIVE: Duration = Duration::from_secs(15);
const STORE_RETRY: Duration = Duration::from_secs(1);

/// Where a stream stands.
struct Reader {
    app: Arc<App>,
    tenant: TenantId,
    after: u64,
    ready: VecDeque<Event>,
}

/// `GET /events/stream`
pub async fn events(
    State(app): State<Arc<App>>,
    Tenant(tenant): Tenant,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let (oldest, newest) = app.store.outbox_range(&tenant).await?;
    let mut ready = VecDeque::new();
    let last = headers.get("last-event-id").map(|value| value.to_str().ok().and_then(|text| text.parse::<u64>().ok()));
    let after = match last {
        None => newest,
        // Everything after it is still there.
        Some(Some(last)) if last <= newest && last.saturating_add(1) >= oldest => last,
        Some(_) => {
            ready.push_back(resync(newest));
            newest
        }
    };
    let reader = Reader { app, tenant, after, ready };
    let stream = stream::unfold(reader, |mut reader| async {
        let event = reader.next().await?;
        Some((Ok(event), reader))
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

impl Reader {
    /// The next event; `None` when the process ends.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let shutdown = self.app.shutdown.clone();
            tokio::select! {
                () = shutdown.cancelled() => return None,
                read = self.fill() => if let Err(error) = read {
                    warn!(%error, "an event stream waits for the store");
                    tokio::time::sleep(STORE_RETRY).await;
                }
            }
        }
    }

    /// Reads what comes after the last event, waiting for it.
    async fn fill(&mut self) -> Result<(), StoreError> {
        let events = self.app.store.outbox(&self.tenant, self.after, READ_LEN_MAX).await?;
        match events.first() {
            None => self.app.feed.outbox_beyond(&self.tenant, self.after).await,
            // What followed is gone: the reader was slower than the retention.
            Some(first) if first.sequence > self.after + 1 => {
                let (_, newest) = self.app.store.outbox_range(&self.tenant).await?;
                self.after = newest;
                self.ready.push_back(resync(newest));
            }
            Some(_) => {
                for event in events {
                    self.after = event.sequence;
                    self.ready.push_back(show(&event, &self.app.public_url));
                }
            }
        }
        Ok(())
    }
}

/// Tells a reader to look at the present state, since what it missed is gone.
fn resync(newest: u64) -> Event {
    Event::default().event("resync").id(newest.to_string()).data("{}")
}

fn show(event: &OutboundEvent, public_url: &str) -> Event {
    Event::default()
        .event(event.type_str())
        .id(event.sequence.to_string())
        .data(cloud_event(event, public_url).to_string())
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
