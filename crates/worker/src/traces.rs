//! Runs in traces: whatever happens of a run, here or after a restart, continues the context that is stored with it.

use scheduler_core::launch::run_traceparent;
use scheduler_core::ports::NewRun;
use scheduler_model::{ExportHead, Run};
use scheduler_telemetry::{continues, follows, traceparent};
use tracing::{Span, info_span};

/// Marks the beginning of a run: in the trace of what caused it, else in one of its own.
pub(crate) fn begin(new: &mut NewRun) {
    begin_of(new, &[]);
}

/// The same for a run of exports. It belongs to the trace of the first one that names one; the trace of each other one gets a
/// span that leads there.
pub(crate) fn begin_of(new: &mut NewRun, exports: &[ExportHead]) {
    let run = &mut new.run;
    let span = info_span!("begin", run = %run.id, trigger = run.trigger.as_str());
    if let Some(cause) = &run.traceparent {
        continues(&span, cause);
    }
    let others: Vec<&str> = exports
        .iter()
        .filter(|export| export.tenants.includes(&run.tenant))
        .filter_map(|export| export.traceparent.as_deref())
        .filter(|other| Some(*other) != run.traceparent.as_deref())
        .collect();
    let Some(own) = traceparent(&span) else { return };
    for other in others {
        let gathered = info_span!("gathered", run = %run.id);
        continues(&gathered, other);
        follows(&gathered, &own);
    }
    run.traceparent = Some(own);
}

/// A span of something that happens of a run.
pub(crate) fn of_run(run: &Run, span: Span) -> Span {
    continues(&span, &run_traceparent(run));
    span
}
