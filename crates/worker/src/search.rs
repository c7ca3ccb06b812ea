//! Which images a run may take: of the index, or, while that is not warm, of the catalog itself, page by page.

use crate::changes::index_of;
use crate::planning::PlanError;
use crate::reports::sets_of;
use crate::run_keys::Keys;
use crate::services::Services;
use scheduler_core::plan::Candidates;
use scheduler_impact_index::{ImpactIndex, IndexError, Query, QueryKey, ReportSets, SelectedImage, Stale, Want};
use scheduler_model::{Image, ImageDigest, OnlyIf, Priority, ReportHead, SegmentImage, Selection, TenantId, Timestamp};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Images of the catalog that are looked at together while the index is not warm.
const SCAN_PAGE_LEN: usize = 256;

/// What a run looks for.
#[derive(Debug, Clone)]
pub(crate) struct Search {
    pub(crate) tenant: TenantId,
    pub(crate) selection: Selection,
    pub(crate) usage_only: bool,
    /// `None`: every image of the selection.
    pub(crate) keys: Option<Keys>,
    pub(crate) left_over: Vec<ImageDigest>,
    pub(crate) only_if: Option<DueSince>,
}

/// `onlyIf` at the time of planning. An image without a report qualifies, and one whose report is too old or under another
/// policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DueSince {
    before: Option<Timestamp>,
    revision: Option<String>,
}

impl DueSince {
    /// `None` when every image qualifies.
    pub(crate) fn of(only_if: &OnlyIf, now: Timestamp) -> Option<Self> {
        let days = |days: u32| Duration::from_secs(u64::from(days) * 86_400);
        let before = only_if.last_report_older_than_days.map(|limit| now.minus(days(limit)));
        let revision = only_if.policy_revision.clone();
        (before.is_some() || revision.is_some()).then_some(Self { before, revision })
    }

    fn stale(&self) -> Stale<'_> {
        Stale { before: self.before, revision_other_than: self.revision.as_deref() }
    }
}

impl Search {
    /// Asks the index, or, when it is not warm, the catalog.
    pub(crate) async fn carry_out(self, services: &Services, warm: bool) -> Result<Candidates, PlanError> {
        if warm {
            let index = services.index.index();
            let began = Instant::now();
            let found = if self.only_if.is_some() {
                services.index.with_reports(move |index, reports| self.ask(index, reports)).await?
            } else {
                let asked = tokio::task::spawn_blocking(move || self.ask(&index, &ReportSets::default()));
                asked.await.map_err(|_| PlanError::NoAnswer)?
            };
            metrics::histogram!("scheduler_impact_resolve_seconds").record(began.elapsed().as_secs_f64());
            return Ok(found);
        }
        let search = Arc::new(self);
        let (mut found, mut after) = (Candidates::default(), None);
        loop {
            let page = services.store.images(&search.tenant, after.as_deref(), SCAN_PAGE_LEN).await?;
            let reports = search.reports_of(services, &page.items).await?;
            let (search_page, items) = (search.clone(), page.items);
            let some = tokio::task::spawn_blocking(move || search_page.ask_page(items, &reports))
                .await
                .map_err(|_| PlanError::NoAnswer)??;
            found.kev.extend(some.kev);
            found.critical.extend(some.critical);
            found.left_over.extend(some.left_over);
            found.all.extend(some.all);
            found.held_back += some.held_back;
            found.narrowed_away += some.narrowed_away;
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let place: HashMap<&ImageDigest, usize> = search.left_over.iter().zip(0..).collect();
        found.left_over.sort_by_key(|image| place.get(&image.digest).copied());
        Ok(found)
    }

    /// Asks some images only: by an index of their own, so that the rules are the same.
    fn ask_page(&self, images: Vec<Image>, reports: &[Option<ReportHead>]) -> Result<Candidates, IndexError> {
        let digests: Vec<ImageDigest> = images.iter().map(|image| image.digest.clone()).collect();
        let index = index_of(images)?;
        let sets = sets_of(&index, digests.iter().map(|digest| (&self.tenant, digest)), reports);
        Ok(self.ask(&index, &sets))
    }

    /// The last reports of some images, where they matter.
    async fn reports_of(&self, services: &Services, images: &[Image]) -> Result<Vec<Option<ReportHead>>, PlanError> {
        if self.only_if.is_none() {
            return Ok(Vec::new());
        }
        let of: Vec<_> = images.iter().map(|image| (self.tenant.clone(), image.digest.clone())).collect();
        Ok(services.store.report_heads(&of).await?)
    }

    /// Asks an index, once for each urgency, and what is known of reports.
    fn ask(&self, index: &ImpactIndex, reports: &ReportSets) -> Candidates {
        let of = |urgency: Priority| -> Vec<SegmentImage> {
            let keys = self.keys.iter().flatten().filter(|(_, priority)| *priority == urgency);
            let some: Vec<QueryKey> = keys.map(|(key, _)| key.clone()).collect();
            if some.is_empty() { Vec::new() } else { self.resolve(index, Some(&some), &self.selection).0 }
        };
        let all: Option<Vec<QueryKey>> =
            self.keys.as_ref().map(|keys| keys.iter().map(|(key, _)| key.clone()).collect());
        let (all, held_back, narrowed_away) = match &self.only_if {
            // What `onlyIf` narrows no change caused, so that no range does.
            Some(only_if) => {
                let (due, held_back) = self.due(index, reports, all.as_deref(), only_if);
                (due, held_back, 0)
            }
            None => {
                let (all, narrowed_away) = self.resolve(index, all.as_deref(), &self.selection);
                (all, 0, narrowed_away)
            }
        };
        let (kev, critical) = (of(Priority::Kev), of(Priority::Critical));
        Candidates { kev, critical, left_over: self.kept(index), all, held_back, narrowed_away }
    }

    /// The images that qualify, and how many do not. What was left over has qualified before.
    fn due(
        &self,
        index: &ImpactIndex,
        reports: &ReportSets,
        keys: Option<&[QueryKey]>,
        only_if: &DueSince,
    ) -> (Vec<SegmentImage>, u64) {
        let query = Query { tenant: &self.tenant, selection: &self.selection, keys, usage_only: self.usage_only };
        let found = index.resolve(&query, Want::default());
        let mut held_back = reports.fresh(&found.images, &only_if.stale());
        let owed = index.ordinals(self.left_over.iter().map(|digest| (&self.tenant, digest))).1;
        for ordinal in owed.into_iter().flatten() {
            held_back.remove(ordinal);
        }
        let due = index.selected(found.generation, &(&found.images - &held_back));
        (due.into_iter().map(segment_image).collect(), held_back.len())
    }

    /// The images, and how many more there were without the ranges of affected versions.
    fn resolve(
        &self,
        index: &ImpactIndex,
        keys: Option<&[QueryKey]>,
        selection: &Selection,
    ) -> (Vec<SegmentImage>, u64) {
        let query = Query { tenant: &self.tenant, selection, keys, usage_only: self.usage_only };
        let found = index.resolve(&query, Want { digests: true, ..Want::default() });
        (found.digests.into_iter().map(segment_image).collect(), found.narrowed_away)
    }

    /// Of what was left over, what is still there and the selection still lets through, in the order in which it was left.
    fn kept(&self, index: &ImpactIndex) -> Vec<SegmentImage> {
        let chosen: HashSet<&ImageDigest> = self.selection.digests.iter().collect();
        let digests: Vec<ImageDigest> =
            self.left_over.iter().filter(|digest| chosen.is_empty() || chosen.contains(digest)).cloned().collect();
        if digests.is_empty() {
            return Vec::new();
        }
        let narrowed = Selection { digests, ..self.selection.clone() };
        let mut found: HashMap<ImageDigest, SegmentImage> =
            self.resolve(index, None, &narrowed).0.into_iter().map(|image| (image.digest.clone(), image)).collect();
        self.left_over.iter().filter_map(|digest| found.remove(digest)).collect()
    }
}

fn segment_image(image: SelectedImage) -> SegmentImage {
    SegmentImage { digest: image.digest, repository: image.repository }
}
