//! Following tags: what each points to now, a scan where that has changed, and one outcome for them all.
//!
//! - TAG-1: what a tag pointed to is remembered in the write of the outcome that it led to, never before.
//! - TAG-2: a registry that refuses to say what a tag points to is asked again later; nothing bigger is asked instead.

use crate::call::{Asking, Early, Settled, Target};
use scheduler_core::launch::call_traceparent;
use scheduler_core::ports::{ImageScan, ScanState};
use scheduler_core::refresh::{merged, references};
use scheduler_model::{ErrorClass, ImageDigest, Mode, Report, ReportedTag, TagRecord};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;

/// Before a scan is looked at for the first time; the wait doubles each time.
const POLL_FIRST: Duration = Duration::from_millis(200);

/// Between two looks at a scan, at most.
const POLL_MAX: Duration = Duration::from_secs(5);

/// A scan that takes longer fails its image.
const SCAN_MAX: Duration = Duration::from_secs(1800);

/// Brings an image to its outcome by what its tags point to now. One without a tag that is followed is analysed as it is.
pub(crate) async fn settle<'a>(asking: &mut Asking<'a>) -> Result<Settled<'a>, Early> {
    let (context, image) = (asking.context, asking.image);
    let (store, tenant) = (&context.services.store, &context.run.tenant);
    let place = asking.stored("the place", || store.image(tenant, &image.digest)).await?.map(|image| image.place);
    let references = place.as_ref().map(|place| references(&context.run.tags, place)).unwrap_or_default();
    let Some(place) = place.filter(|_| !references.is_empty()) else { return asking.analysed().await };
    let known = asking.stored("the tags", || store.tags(tenant, &image.digest)).await?.unwrap_or_default();

    let mut scanned = BTreeSet::new();
    let mut pointed: Vec<ReportedTag> = Vec::with_capacity(references.len());
    for (tag, image_ref) in references {
        let mut digest = resolve(asking, &place.registry, &image_ref).await?;
        // A tag that was never followed pointed to the image itself when that came into the catalog.
        let before = known.tags.get(&tag).unwrap_or(&image.digest);
        if context.run.mode == Mode::ContentRefresh && digest != *before && !scanned.contains(&digest) {
            digest = scan(asking, &place.registry, &image_ref, digest).await?;
            scanned.insert(digest.clone());
        }
        pointed.push(ReportedTag { tag, digest });
    }
    let mut reports: Vec<Report> = Vec::new();
    let mut asked = BTreeSet::new();
    for ReportedTag { digest, .. } in &pointed {
        if asked.insert(digest) {
            reports.push(asking.report(digest).await?);
        }
    }
    let mut records =
        asking.stored("the baseline", || store.reports(tenant, std::slice::from_ref(&image.digest))).await?;
    let previous = records.pop().flatten();
    // Tags that this run does not follow stay as they were; those that the image has no more go.
    let mut tags = known.tags;
    tags.retain(|tag, _| place.tags.contains(tag));
    tags.extend(pointed.iter().map(|reported| (reported.tag.clone(), reported.digest.clone())));
    let tags = TagRecord { tags };
    let mut others = reports.into_iter();
    let Some(first) = others.next() else { return asking.analysed().await };
    let asked = *asking;
    Ok(Settled::against(previous.as_ref(), move |previous| {
        let mut write = asked.settled(merged(first.clone(), others.clone(), previous), previous);
        write.tags = Some(tags.clone());
        write.outcome.reported.clone_from(&pointed);
        write
    }))
}

/// What a tag points to now.
async fn resolve(asking: &mut Asking<'_>, host: &str, image_ref: &str) -> Result<ImageDigest, Early> {
    let scanner = &asking.context.services.scanner;
    let request = requests(asking, "resolve", image_ref);
    asking
        .call(Target::Registry(host), |attempt| {
            let request = request(attempt);
            async move { scanner.resolve(&request).await }
        })
        .await
}

/// Scans what a tag points to, and gives the digest of what was scanned.
async fn scan(
    asking: &mut Asking<'_>,
    host: &str,
    image_ref: &str,
    mut digest: ImageDigest,
) -> Result<ImageDigest, Early> {
    let scanner = &asking.context.services.scanner;
    let began = Instant::now();
    let request = requests(asking, "scan", image_ref);
    let mut progress = asking
        .call(Target::Registry(host), |attempt| {
            let request = request(attempt);
            async move { scanner.scan(&request).await }
        })
        .await?;
    let mut wait = POLL_FIRST;
    let mut looks = 0;
    loop {
        // The tag may have moved on since it was resolved.
        digest = progress.digest.take().unwrap_or(digest);
        match progress.state {
            ScanState::Done => return Ok(digest),
            ScanState::Failed => {
                return Err(asking.failed(ErrorClass::Rejected, format!("the scan of {image_ref} failed")));
            }
            ScanState::Going if began.elapsed() >= SCAN_MAX => {
                let message = format!("the scan of {image_ref} went on after {} s", SCAN_MAX.as_secs());
                return Err(asking.failed(ErrorClass::Timeout, message));
            }
            ScanState::Going => {}
        }
        asking.rest(wait).await?;
        wait = POLL_MAX.min(wait * 2);
        looks += 1;
        let request = requests(asking, &format!("poll {looks}"), image_ref);
        let scan_id = progress.scan_id.clone();
        progress = asking
            .call(Target::Scan(host), |attempt| {
                let (request, scan_id) = (request(attempt), scan_id.clone());
                async move { scanner.scan_state(&request, &scan_id).await }
            })
            .await?;
    }
}

/// Requests about an image reference, by the number of the attempt, each with a span of its own.
fn requests<'a>(asking: &Asking<'a>, what: &str, image_ref: &'a str) -> impl Fn(u32) -> ImageScan + use<'a> {
    let run = asking.context.run;
    let name = format!("{what} {image_ref} {}", asking.image.digest);
    move |attempt| ImageScan {
        tenant: run.tenant.clone(),
        image_ref: image_ref.to_owned(),
        traceparent: call_traceparent(run, &name, attempt),
    }
}
