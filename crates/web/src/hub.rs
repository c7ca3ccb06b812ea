//! Reads each tenant's new events once, however many streams show them.
//!
//! - HUB-1: what goes through the hub is a hint. A stream knows the number of its last event; whatever is missing, it reads
//!   from the store. So a reader that is slow, late or passed over loses nothing.
//! - HUB-2: what is kept is bounded: so many events of so many bytes for each tenant that has a stream, and so many streams,
//!   of which no tenant has all (P10).

use crate::shares::{Share, Shares};
use crate::shown::Shown;
use parking_lot::Mutex;
use scheduler_core::ports::{Feed, Store};
use scheduler_model::TenantId;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::{self, Receiver, Sender};
use tracing::warn;

/// Streams that one process serves, as far as its connections allow.
const STREAMS_MAX: u32 = 4096;

/// A tenant may have a quarter of them, and so many in any case.
const TENANT_STREAMS_MIN: u32 = 16;

/// Events of a tenant that are kept for streams that have not taken them yet.
const KEPT_LEN_MAX: usize = 256;

/// A larger event is not kept for streams: each reads it from the store when it has room.
const KEPT_BYTES_MAX: usize = 16 << 10;

/// Events that are read at once.
const READ_LEN_MAX: usize = 128;

const STORE_RETRY: Duration = Duration::from_secs(1);

/// The place where streams hear of new events.
pub struct Hub {
    store: Arc<dyn Store>,
    feed: Arc<dyn Feed>,
    public_url: String,
    tenants: Mutex<HashMap<TenantId, Sender<News>>>,
    places: Shares,
}

/// What a stream hears.
#[derive(Debug, Clone)]
pub enum News {
    /// An event.
    Event(Arc<Shown>),
    /// That there is one, too large to be kept here.
    InStore,
}

/// A stream's place.
pub struct Listener {
    /// New events, in order; some may be passed over.
    pub events: Receiver<News>,
    _place: Share,
}

impl Hub {
    /// A hub without streams. `public_url` stands in front of links; streams have half of the `connections` at most.
    pub fn new(store: Arc<dyn Store>, feed: Arc<dyn Feed>, public_url: String, connections: usize) -> Arc<Self> {
        let streams = u32::try_from(connections / 2).unwrap_or(u32::MAX).min(STREAMS_MAX);
        let places = Shares::new(streams, (streams / 4).max(TENANT_STREAMS_MIN));
        Arc::new(Self { store, feed, public_url, tenants: Mutex::default(), places })
    }

    /// Takes a place; `None` when all are taken, or all of the tenant's. Events that become durable after this are heard.
    pub(crate) fn listen(self: &Arc<Self>, tenant: &TenantId, newest: u64) -> Option<Listener> {
        let place = self.places.account(tenant.as_str()).try_take(1)?;
        let mut tenants = self.tenants.lock();
        let events = match tenants.get(tenant) {
            Some(sender) => sender.subscribe(),
            None => {
                let (sender, events) = broadcast::channel(KEPT_LEN_MAX);
                tenants.insert(tenant.clone(), sender.clone());
                tokio::spawn(self.clone().read(tenant.clone(), newest, sender));
                events
            }
        };
        Some(Listener { events, _place: place })
    }

    /// Reads what comes after `after`, until the last stream has gone.
    async fn read(self: Arc<Self>, tenant: TenantId, mut after: u64, sender: Sender<News>) {
        loop {
            tokio::select! {
                () = sender.closed() => {
                    let mut tenants = self.tenants.lock();
                    // Another stream may just have come.
                    if sender.receiver_count() == 0 {
                        tenants.remove(&tenant);
                        return;
                    }
                }
                () = self.step(&tenant, &mut after, &sender) => {}
            }
        }
    }

    async fn step(&self, tenant: &TenantId, after: &mut u64, sender: &Sender<News>) {
        match self.store.outbox(tenant, *after, READ_LEN_MAX).await {
            Ok(events) if events.is_empty() => self.feed.outbox_beyond(tenant, *after).await,
            Ok(events) => {
                for event in events {
                    *after = event.sequence;
                    // Nobody listens: the loop ends.
                    let shown = Shown::new(&event, &self.public_url);
                    let news = if shown.len() > KEPT_BYTES_MAX { News::InStore } else { News::Event(Arc::new(shown)) };
                    drop(sender.send(news));
                }
            }
            Err(error) => {
                warn!(%error, "event streams wait for the store");
                tokio::time::sleep(STORE_RETRY).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scheduler_store::EmbeddedStore;
    use scheduler_testkit::store::build::{alpha, beta};

    #[tokio::test]
    async fn p10_a_process_serves_so_many_streams_and_a_tenant_has_its_part_of_them() {
        let folder = tempfile::TempDir::new().unwrap();
        let store = Arc::new(EmbeddedStore::open(folder.path()).unwrap());
        for (connections, all, part) in
            [(usize::MAX, 4096, 1024), (8192, 4096, 1024), (8000, 4000, 1000), (80, 40, 16), (20, 10, 10)]
        {
            let hub = Hub::new(store.clone(), store.clone(), String::new(), connections);
            let mut streams: Vec<Listener> = std::iter::from_fn(|| hub.listen(&alpha(), 0)).collect();
            assert_eq!(streams.len(), part, "of a tenant, with {connections} connections");
            let tenants = (0..).map(|number| TenantId::try_from(format!("tenant-{number}")).unwrap());
            let others: Vec<Listener> = tenants.take(all).filter_map(|tenant| hub.listen(&tenant, 0)).collect();
            assert_eq!(others.len(), all - part, "of all others");
            assert!(hub.listen(&alpha(), 0).is_none());
            streams.pop();
            assert!(hub.listen(&beta(), 0).is_some());
        }
    }
}
