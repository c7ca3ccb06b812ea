//! Small valid documents for the suites; a case changes the field that it is about.

use scheduler_core::ports::{NewRun, OutcomeWrite, PlanInput, PlannedRun, RunStore};
use scheduler_model::{
    Batch, ChangedKey, Delta, EventId, Export, Image, ImageDigest, ImageEvent, ImageEventType, ImagePlace, Lane, Mode,
    NotifyRule, OnlyIf, OutboundEvent, Outcome, OutcomeResult, Pace, Priority, Reason, ReportRecord, Run, RunId,
    RunLimits, RunState, RunStats, Schedule, ScheduleId, ScheduleSpec, Segment, SegmentImage, Selection, SkipReason,
    Source, TagRule, TenantId, TenantScope, Timestamp, Trigger, Verdict, VulnLink,
};
use std::fmt::Debug;

/// An id of any kind.
pub fn id<T: TryFrom<String>>(text: &str) -> T
where
    T::Error: Debug,
{
    T::try_from(text.to_owned()).unwrap()
}

/// The tenant `alpha`.
pub fn alpha() -> TenantId {
    id("alpha")
}

/// The tenant `beta`.
pub fn beta() -> TenantId {
    id("beta")
}

/// So many milliseconds after the suites' epoch.
pub fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + millis)
}

/// The digest with that number.
pub fn digest(number: usize) -> ImageDigest {
    id(&format!("sha256:{number:064x}"))
}

/// An image without packages in repository `repo-<number>`.
pub fn image(tenant: &TenantId, number: usize) -> Image {
    Image {
        tenant: tenant.clone(),
        digest: digest(number),
        place: ImagePlace { repository: format!("repo-{number}"), ..ImagePlace::default() },
        components: Vec::new(),
        used: None,
        no_purl: 0,
        generated_at: None,
        updated_at: at(0),
        sequence: 0,
    }
}

/// An enabled schedule named like its id, version 1, that neither ticks nor hears events.
pub fn schedule(tenant: &TenantId, name: &str) -> Schedule {
    Schedule {
        id: id(name),
        tenant: tenant.clone(),
        spec: ScheduleSpec {
            name: name.to_owned(),
            enabled: true,
            when_cron: None,
            timezone: "UTC".to_owned(),
            on_events: Vec::new(),
            mode: Mode::AnalysisOnly,
            selection: Selection::default(),
            usage_only: None,
            only_if: OnlyIf::default(),
            misfire: Default::default(),
            overlap: Default::default(),
            jitter_seconds: 0,
            notify: NotifyRule::default(),
            limits: RunLimits::default(),
        },
        ticks_from: Some(at(0)),
        version: 1,
        created_at: at(0),
        updated_at: at(0),
        created_by: "ada".to_owned(),
        updated_by: "ada".to_owned(),
        deleted_at: None,
    }
}

/// A Feedser export for all tenants, with the event id `<export>-<content>` and one key.
pub fn export(export: &str, content: &str) -> Export {
    Export {
        event_id: id(&format!("{export}-{content}")),
        source: Source::Feedser,
        key_id: id("key"),
        export_id: id(export),
        content_hash: content.to_owned(),
        received_at: at(0),
        tenants: TenantScope::All,
        keys: vec![ChangedKey {
            key: "pkg:deb/debian/openssl".to_owned(),
            priority: Priority::Normal,
            subcomponent: None,
            affected: vec!["vers:deb/<3.0.13-1".to_owned()],
        }],
        links: Vec::new(),
        window: None,
        traceparent: None,
    }
}

/// That a vulnerability concerns a key.
pub fn link(vuln: &str, key: &str) -> VulnLink {
    VulnLink { vuln_id: vuln.to_owned(), key: key.to_owned(), severity: None }
}

/// A closed Feedser batch.
pub fn batch(name: &str, events: &[&Export]) -> Batch {
    let events: Vec<EventId> = events.iter().map(|export| export.event_id.clone()).collect();
    Batch { id: id(name), source: Source::Feedser, closed_at: at(0), events }
}

/// A run in planning of no schedule.
pub fn run(tenant: &TenantId, name: &str) -> Run {
    Run {
        id: id(name),
        tenant: tenant.clone(),
        schedule: None,
        trigger: Trigger::Manual,
        reason: Reason::default(),
        state: RunState::Planning,
        mode: Mode::AnalysisOnly,
        tags: TagRule::default(),
        priority: Priority::Normal,
        stats: RunStats::default(),
        notify: NotifyRule::default(),
        policy_revision: None,
        pace: Pace { rate_per_second: 50, parallelism: 8 },
        caused_at: None,
        created_at: at(0),
        started_at: None,
        first_verdict_at: None,
        finished_at: None,
        error: None,
        cancel_requested_at: None,
        traceparent: None,
    }
}

/// The same run, of a schedule.
pub fn of_schedule(run: Run, schedule: &str) -> Run {
    Run { schedule: Some(id::<ScheduleId>(schedule)), ..run }
}

/// What an ordinary run looks at.
pub fn plan_input() -> PlanInput {
    PlanInput {
        selection: Selection::default(),
        keys: None,
        batches: Vec::new(),
        usage_only: false,
        only_if: OnlyIf::default(),
        max_jobs: 1000,
        spills: true,
        rest_of: None,
        limits: RunLimits::default(),
    }
}

/// A run to begin that takes nothing.
pub fn new_run(run: &Run) -> NewRun {
    NewRun { run: run.clone(), input: plan_input(), takes: Vec::new(), passed: Vec::new(), idempotency: None }
}

/// The id of a run's segment.
pub fn segment_id(run: &RunId, position: u32) -> scheduler_model::SegmentId {
    id(&format!("{run}/{position}"))
}

/// A plan of one segment for each list of image numbers.
pub fn plan(run: &Run, segments: &[&[usize]]) -> PlannedRun {
    let mut run = run.clone();
    run.stats.queued = segments.iter().map(|images| images.len() as u64).sum();
    run.state = RunState::Queued;
    let segments = segments.iter().zip(0..).map(|(images, position)| Segment {
        id: segment_id(&run.id, position),
        run: run.id.clone(),
        tenant: run.tenant.clone(),
        pace_group: run.id.to_string(),
        pace: run.pace,
        lane: Lane::Normal,
        position,
        queued_at: at(1),
        images: images
            .iter()
            .map(|&number| SegmentImage { digest: digest(number), repository: format!("repo-{number}") })
            .collect(),
    });
    let segments = segments.collect();
    PlannedRun { run, segments, left_over: None }
}

/// A result with so many new critical findings.
pub fn reported(new_criticals: u64) -> OutcomeResult {
    OutcomeResult::Reported {
        verdict: Verdict::Warn,
        delta: Delta { new_findings: new_criticals, new_criticals, ..Delta::default() },
        report_url: None,
        attestation: None,
    }
}

/// A skipped result.
pub fn skipped() -> OutcomeResult {
    OutcomeResult::Skipped { reason: SkipReason::Cancelled }
}

/// An outcome with an event and a report record where there is a verdict.
pub fn outcome(run: &Run, number: usize, result: OutcomeResult) -> OutcomeWrite {
    let with_verdict = matches!(result, OutcomeResult::Reported { .. });
    let outcome = Outcome {
        run: run.id.clone(),
        digest: digest(number),
        repository: format!("repo-{number}"),
        attempts: 1,
        started_at: at(2),
        finished_at: at(3),
        result,
        reported: Vec::new(),
    };
    let event = ImageEvent {
        tenant: run.tenant.clone(),
        run_id: run.id.clone(),
        schedule_id: run.schedule.clone(),
        image_digest: digest(number),
        repository: outcome.repository.clone(),
        new_criticals: 0,
        new_high: 0,
        new_findings: 0,
        kev_hits: Vec::new(),
        top_findings: Vec::new(),
        report_url: None,
        attestation: None,
        ts: at(3),
    };
    let report = ReportRecord {
        reported_at: at(3),
        policy_revision: Some(run.id.to_string()),
        findings: None,
        revision: 0,
        asked_at: None,
    };
    OutcomeWrite {
        outcome,
        event: with_verdict.then_some((ImageEventType::ReportReady, event)),
        report: with_verdict.then_some(report),
        tags: None,
    }
}

/// All events of a tenant that are kept, read page by page.
pub async fn all_events(store: &(impl RunStore + ?Sized), tenant: &TenantId) -> Vec<OutboundEvent> {
    let mut all: Vec<OutboundEvent> = Vec::new();
    loop {
        let after = all.last().map_or(0, |event| event.sequence);
        let page = store.outbox(tenant, after, 1_000).await.unwrap_or_else(|error| panic!("{error}"));
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}
