//! `GET /events/stream`: a tenant's events as they become durable, with resumption.
//!
//! A stream takes new events from the hub and what it missed from the store, always the one after its last. It is asked for
//! the next event only when its reader has room, so a reader who never reads costs a socket buffer and a few events.

use crate::code::Code;
use crate::extract::Tenant;
use crate::hub::{Listener, News};
use crate::openapi::params::TenantHeader;
use crate::openapi::problems::OfStream;
use crate::problem::Problem;
use crate::shown::Shown;
use crate::state::App;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::stream::{self, Stream};
use scheduler_core::ports::StoreError;
use scheduler_model::TenantId;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tracing::warn;

/// Events that a stream reads from the store at once, fewer when they are large. It holds them while its reader does not read.
const READ_LEN_MAX: usize = 32;

const KEEP_ALIVE: Duration = Duration::from_secs(15);
const STORE_RETRY: Duration = Duration::from_secs(1);

/// Where a stream stands.
struct Reader {
    app: Arc<App>,
    tenant: TenantId,
    listener: Listener,
    after: u64,
    ready: VecDeque<Event>,
    /// Whether the store may have events after the last one that the hub did not bring.
    behind: bool,
}

/// Listen to the tenant's events.
///
/// Server-Sent Events: `rescan.delta`, `report.ready`, `run.updated`, each with a CloudEvents document as data and its number as id.
/// Without `Last-Event-ID` the stream starts now; after an id that is gone it sends one `resync` event and goes on from now.
#[utoipa::path(
    get, path = "/events/stream", tag = "events", operation_id = "streamEvents",
    params(
        TenantHeader,
        ("Last-Event-ID" = Option<String>, Header, nullable = false, description = "The `id:` of the last event that was seen"),
    ),
    responses((status = 200, description = "Events, see `CloudEvent`", body = String, content_type = "text/event-stream"), OfStream)
)]
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
    let listener = app.hub.listen(&tenant, newest).ok_or_else(too_many)?;
    let reader = Reader { app, tenant, listener, after, ready, behind: true };
    let stream = stream::unfold(reader, |mut reader| async {
        let event = reader.next().await?;
        Some((Ok(event), reader))
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

fn too_many() -> Problem {
    Problem::new(Code::TooManyStreams, "all places for event streams are taken, of this tenant or of all")
        .retry_after(30)
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
                filled = self.fill() => if let Err(error) = filled {
                    warn!(%error, "an event stream waits for the store");
                    tokio::time::sleep(STORE_RETRY).await;
                }
            }
        }
    }

    async fn fill(&mut self) -> Result<(), StoreError> {
        if self.behind {
            return self.catch_up().await;
        }
        self.hear().await;
        Ok(())
    }

    /// Reads what comes after the last event.
    async fn catch_up(&mut self) -> Result<(), StoreError> {
        let events = self.app.store.outbox(&self.tenant, self.after, READ_LEN_MAX).await?;
        match events.first() {
            None => self.behind = false,
            // What followed is gone: the reader was slower than the retention.
            Some(first) if first.sequence > self.after + 1 => {
                let (_, newest) = self.app.store.outbox_range(&self.tenant).await?;
                self.after = newest;
                self.ready.push_back(resync(newest));
            }
            Some(_) => {
                for event in events {
                    self.after = event.sequence;
                    self.ready.push_back(Shown::new(&event, &self.app.public_url).event());
                }
            }
        }
        Ok(())
    }

    /// Waits for the hub.
    async fn hear(&mut self) {
        match self.listener.events.recv().await {
            Ok(News::Event(shown)) if shown.sequence == self.after + 1 => {
                self.after = shown.sequence;
                self.ready.push_back(shown.event());
            }
            // It came from the store already.
            Ok(News::Event(shown)) if shown.sequence <= self.after => {}
            Ok(_) | Err(RecvError::Lagged(_)) => self.behind = true,
            // The hub's reader has ended; it does not while there is a listener.
            Err(RecvError::Closed) => {
                tokio::time::sleep(STORE_RETRY).await;
                self.behind = true;
            }
        }
    }
}

/// Tells a reader to look at the present state, since what it missed is gone.
fn resync(newest: u64) -> Event {
    Event::default().event("resync").id(newest.to_string()).data("{}")
}
