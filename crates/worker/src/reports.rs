//! What this process knows of reports, as sets over the ordinals of its index. The store's records are the truth; this view of them
//! is made when it is first asked for, follows their log by number, and is made anew when the ordinals are.
//!
//! - WRK-3: when it says that it has the reports up to a number, it has for every image of the index that report or a later one.
//!   It holds since what the index takes in is looked up before anybody else may ask, and what is reported later comes by the log.

use scheduler_core::ports::{Store, StoreResult};
use scheduler_impact_index::{ImpactIndex, ReportSets};
use scheduler_model::{ImageDigest, ReportHead, TenantId};

/// Reports that are read at once.
const PAGE_LEN: usize = 2048;

/// The view. Whoever holds it is alone with the index.
#[derive(Default)]
pub(crate) struct Reports {
    /// By ordinal of the generation below.
    pub(crate) sets: ReportSets,
    /// `None`: nobody has asked yet, or it has to be made anew.
    generation: Option<u64>,
    /// The last report that is in it.
    number: u64,
    /// Whether somebody has asked: what nobody asks for is not kept.
    is_wanted: bool,
}

impl Reports {
    /// Takes in every report that is durable by now.
    pub(crate) async fn catch_up(&mut self, index: &ImpactIndex, store: &dyn Store) -> StoreResult<()> {
        self.is_wanted = true;
        let (generation, _) = index.ordinals([]);
        if self.generation != Some(generation) {
            self.sets = ReportSets::default();
            (self.generation, self.number) = (Some(generation), 0);
        }
        let head = store.last_report().await?;
        while self.number < head {
            let changes = store.report_changes(self.number, PAGE_LEN).await?;
            let images = changes.iter().map(|change| (&change.tenant, &change.digest));
            let (_, ordinals) = index.ordinals(images);
            for (ordinal, change) in ordinals.into_iter().zip(&changes) {
                self.set(ordinal, &change.report);
            }
            self.number = changes.last().map_or(head, |last| last.number);
        }
        Ok(())
    }

    /// The same, once somebody has asked.
    pub(crate) async fn keep_up(&mut self, index: &ImpactIndex, store: &dyn Store) -> StoreResult<()> {
        if self.is_wanted { self.catch_up(index, store).await } else { Ok(()) }
    }

    /// Whether images that the index takes in have to be looked up.
    pub(crate) fn is_kept(&self) -> bool {
        self.generation.is_some()
    }

    /// Takes in the reports of images that the index has taken in: one that comes back, or gets another ordinal, has a report
    /// that the log told of before.
    pub(crate) async fn placed(
        &mut self,
        index: &ImpactIndex,
        store: &dyn Store,
        images: &[(TenantId, ImageDigest)],
    ) -> StoreResult<()> {
        let (generation, ordinals) = index.ordinals(images.iter().map(|(tenant, digest)| (tenant, digest)));
        if self.generation != Some(generation) || images.is_empty() {
            return Ok(());
        }
        let heads = match store.report_heads(images).await {
            Ok(heads) => heads,
            Err(error) => {
                self.generation = None;
                return Err(error);
            }
        };
        for (ordinal, report) in ordinals.into_iter().zip(heads) {
            if let Some(report) = report {
                self.set(ordinal, &report);
            }
        }
        Ok(())
    }

    fn set(&mut self, ordinal: Option<u32>, report: &ReportHead) {
        // An image that is not there has no ordinal; should it come, it is looked up.
        if let Some(ordinal) = ordinal {
            self.sets.set(ordinal, report.reported_at, report.policy_revision.as_deref());
        }
    }
}

/// The reports of the images of an index of their own.
pub(crate) fn sets_of<'a>(
    index: &ImpactIndex,
    images: impl IntoIterator<Item = (&'a TenantId, &'a ImageDigest)>,
    heads: &[Option<ReportHead>],
) -> ReportSets {
    let mut reports = Reports::default();
    for (ordinal, head) in index.ordinals(images).1.into_iter().zip(heads) {
        if let Some(head) = head {
            reports.set(ordinal, head);
        }
    }
    reports.sets
}

#[cfg(test)]
#[path = "reports_tests.rs"]
mod tests;
