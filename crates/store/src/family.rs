//! The column families: one per kind of document or index.

/// A column family. The order is of no meaning on disk: families are found by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cf {
    /// Counters and the format version.
    Meta,
    /// tenant, digest → sequence and image.
    Images,
    /// sequence → whose and which image changed.
    Changes,
    /// tenant, digest → the sequence of the deletion.
    Tombstones,
    /// tenant, id → schedule.
    Schedules,
    /// tenant, name → schedule id, of schedules that are not deleted.
    ScheduleNames,
    /// event id → place in the queue and export.
    Exports,
    /// event id → export without its keys.
    ExportHeads,
    /// source, key id, export id, content hash → event id and time: what was delivered before.
    Identities,
    /// source, fingerprint → event id and time: requests that were taken before.
    Fingerprints,
    /// source, key id, export id → event id of the delivery that no batch holds yet.
    OpenExports,
    /// source, arrival → event id.
    Unbatched,
    /// batch id → order and batch.
    Batches,
    /// order → batch id, of batches that were not handed to their subscribers.
    BatchQueue,
    /// tenant, schedule, order → batch id.
    Waiting,
    /// vulnerability, key, scope → scope.
    VulnLinks,
    /// run id → run.
    Runs,
    /// tenant, newest first, run id → nothing.
    RunsByTime,
    /// tenant, schedule, newest first, run id → nothing.
    RunsBySchedule,
    /// time of the end, run id → nothing.
    EndedRuns,
    /// tenant, run id → what is open of it; only runs that have not ended.
    LiveRuns,
    /// run id → plan input; only runs in planning.
    Planning,
    /// segment id → segment.
    Segments,
    /// segment id → fence and what remains.
    SegmentStates,
    /// run id, position → segment id.
    RunSegments,
    /// run id, position → segment id; only segments with an image without outcome.
    OpenSegments,
    /// run id, digest → outcome.
    Outcomes,
    /// tenant, digest → what is remembered of the last report.
    Reports,
    /// number → whose and which image got a report, and what decides whether it is due for another.
    ReportChanges,
    /// tenant, digest → the number of its last report.
    ReportMarks,
    /// tenant, digest → what is remembered of its tags.
    Tags,
    /// tenant, schedule → what is left over.
    Spills,
    /// tenant, sequence → event.
    Outbox,
    /// tenant → oldest and next sequence of its outbox.
    OutboxMarks,
    /// tenant, idempotency key → what it started.
    Idempotency,
    /// tenant, schedule, run id → nothing; only runs that have not ended.
    LiveBySchedule,
    /// change number → tenant, schedule id.
    ScheduleChanges,
    /// tenant, schedule id → the number of its last change.
    ScheduleMarks,
    /// tenant, schedule id → where the ticker stands.
    Ticks,
    /// tenant, source → how far exports are planned.
    Cursors,
    /// tenant → how many runs and images of it are open: the sums of its `LiveRuns`.
    Loads,
    /// first catalog change → the number of the timeline that began with it.
    Timelines,
}

impl Cf {
    /// Every family; `ALL[cf as usize] == cf`.
    pub(crate) const ALL: [Self; 42] = [
        Self::Meta,
        Self::Images,
        Self::Changes,
        Self::Tombstones,
        Self::Schedules,
        Self::ScheduleNames,
        Self::Exports,
        Self::ExportHeads,
        Self::Identities,
        Self::Fingerprints,
        Self::OpenExports,
        Self::Unbatched,
        Self::Batches,
        Self::BatchQueue,
        Self::Waiting,
        Self::VulnLinks,
        Self::Runs,
        Self::RunsByTime,
        Self::RunsBySchedule,
        Self::EndedRuns,
        Self::LiveRuns,
        Self::Planning,
        Self::Segments,
        Self::SegmentStates,
        Self::RunSegments,
        Self::OpenSegments,
        Self::Outcomes,
        Self::Reports,
        Self::ReportChanges,
        Self::ReportMarks,
        Self::Tags,
        Self::Spills,
        Self::Outbox,
        Self::OutboxMarks,
        Self::Idempotency,
        Self::LiveBySchedule,
        Self::ScheduleChanges,
        Self::ScheduleMarks,
        Self::Ticks,
        Self::Cursors,
        Self::Loads,
        Self::Timelines,
    ];

    /// The family's name on disk.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Meta => "meta",
            Self::Images => "images",
            Self::Changes => "changes",
            Self::Tombstones => "tombstones",
            Self::Schedules => "schedules",
            Self::ScheduleNames => "schedule-names",
            Self::Exports => "exports",
            Self::ExportHeads => "export-heads",
            Self::Identities => "identities",
            Self::Fingerprints => "fingerprints",
            Self::OpenExports => "open-exports",
            Self::Unbatched => "unbatched",
            Self::Batches => "batches",
            Self::BatchQueue => "batch-queue",
            Self::Waiting => "waiting",
            Self::VulnLinks => "vuln-links",
            Self::Runs => "runs",
            Self::RunsByTime => "runs-by-time",
            Self::RunsBySchedule => "runs-by-schedule",
            Self::EndedRuns => "ended-runs",
            Self::LiveRuns => "live-runs",
            Self::Planning => "planning",
            Self::Segments => "segments",
            Self::SegmentStates => "segment-states",
            Self::RunSegments => "run-segments",
            Self::OpenSegments => "open-segments",
            Self::Outcomes => "outcomes",
            Self::Reports => "reports",
            Self::ReportChanges => "report-changes",
            Self::ReportMarks => "report-marks",
            Self::Tags => "tags",
            Self::Spills => "spills",
            Self::Outbox => "outbox",
            Self::OutboxMarks => "outbox-marks",
            Self::Idempotency => "idempotency",
            Self::LiveBySchedule => "live-by-schedule",
            Self::ScheduleChanges => "schedule-changes",
            Self::ScheduleMarks => "schedule-marks",
            Self::Ticks => "ticks",
            Self::Cursors => "cursors",
            Self::Loads => "loads",
            Self::Timelines => "timelines",
        }
    }
}
