//! The domain's plain data: ids, purls, selections, schedules, runs, deltas and events. No I/O, no clock.
//!
//! - MOD-1: a value of a type here is valid; texts are parsed once, at the border.
//! - MOD-2: an id that names work derives from content ([`ids::content_id`]), so that work may be planned twice.

mod delta;
mod event;
pub mod ids;
mod image;
mod outbound;
pub mod purl;

mod run;
mod schedule;
#[cfg(feature = "openapi")]
mod schema;
mod selection;
mod time;

pub use delta::{
    Attestation, Delta, Finding, Found, Report, ReportHead, ReportRecord, Severity, TagRecord, TopFinding, Verdict,
};
pub use event::{Batch, ChangedKey, Export, ExportHead, Priority, Source, TenantScope, VulnLink, Window};
pub use ids::{
    BatchId, EventId, ExportId, IdError, ImageDigest, RunId, ScheduleId, SegmentId, TenantId, WebhookKeyId, WorkerId,
};
pub use image::{CatalogComponent, Image, ImagePlace};
pub use outbound::{ImageEvent, ImageEventType, OutboundBody, OutboundEvent};
pub use run::{
    ErrorClass, IllegalMove, Lane, Outcome, OutcomeResult, Pace, Reason, ReportedTag, Run, RunState, RunStats, Segment,
    SegmentImage, SkipReason, TagRule, Trigger,
};
pub use schedule::{Misfire, Mode, NotifyRule, OnlyIf, Overlap, RunLimits, Schedule, ScheduleSpec};
pub use selection::{Scope, Selection, SelectionError, glob_matches};
pub use time::{Timestamp, TimestampError};
