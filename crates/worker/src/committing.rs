//! Plans on their way to the store: many at once, so that they share its syncs, and as many as fit into memory.

use crate::planning::{PlanError, commit};
use crate::services::Services;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use scheduler_core::ports::PlannedRun;
use scheduler_model::{RunId, TenantId};
use tracing::{Instrument, Span};

/// Plans that are written at the same time.
const PLANS_MAX: usize = 64;

/// No further plan is added while those being written have so many images.
const IMAGES_MAX: usize = 50_000;

/// How a plan ended.
pub(crate) struct Ended {
    pub(crate) tenant: TenantId,
    pub(crate) run: RunId,
    pub(crate) result: Result<(), PlanError>,
}

/// The plans that are being written. Dropping them loses segments that the queue has not got, so all are awaited.
pub(crate) struct Committing<'a> {
    services: &'a Services,
    plans: FuturesUnordered<BoxFuture<'a, (Ended, usize)>>,
    images: usize,
}

impl<'a> Committing<'a> {
    /// None yet.
    pub(crate) fn new(services: &'a Services) -> Self {
        Self { services, plans: FuturesUnordered::new(), images: 0 }
    }

    /// Adds one, whatever room there is.
    pub(crate) fn add(&mut self, plan: PlannedRun, span: Span) {
        let images = plan.segments.iter().map(|segment| segment.images.len()).sum();
        let (tenant, run) = (plan.run.tenant.clone(), plan.run.id.clone());
        let writing = commit(self.services, plan).instrument(span);
        self.images += images;
        self.plans.push(Box::pin(async move { (Ended { tenant, run, result: writing.await }, images) }));
    }

    /// The next that has ended; `None` when there is none left.
    pub(crate) async fn next(&mut self) -> Option<Ended> {
        let (ended, images) = self.plans.next().await?;
        self.images -= images;
        Some(ended)
    }

    /// One that has ended, waited for where there is no room for another; `None`: there is room. Sets those that were added to
    /// work.
    pub(crate) async fn make_room(&mut self) -> Option<Ended> {
        if self.plans.len() >= PLANS_MAX || self.images >= IMAGES_MAX {
            self.next().await
        } else {
            self.next().now_or_never().flatten()
        }
    }
}
