//! Every metric of the service, with what it means: the page of the documentation and the `# HELP` lines are made of this, and a
//! test holds it against the places that count.
//!
//! - TEL-3: each label has one of a few known values, so that `/metrics` does not grow with what is served.

use metrics::Label;

/// What kind of number it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// As it is now.
    Gauge,
    /// How often values fell into which range.
    Histogram,
}

/// A metric.
#[derive(Debug)]
pub struct Metric {
    /// Its name on `/metrics`.
    pub name: &'static str,
    /// What kind of number it is.
    pub kind: Kind,
    /// Its labels, each with the values that it can have.
    pub labels: &'static [(&'static str, &'static [&'static str])],
    /// What it counts.
    pub help: &'static str,
}

const MODE: (&str, &[&str]) = ("mode", &["analysis-only", "content-refresh"]);

const fn counter(
    name: &'static str,
    labels: &'static [(&'static str, &'static [&'static str])],
    help: &'static str,
) -> Metric {
    Metric { name, kind: Kind::Counter, labels, help }
}

const fn gauge(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, labels: &[], help }
}

const fn histogram(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Histogram, labels: &[], help }
}

/// All of them, in the order in which people look for them.
pub const METRICS: &[Metric] = &[
    counter(
        "scheduler_events_total",
        &[
            ("source", &["feedser", "vexer", "policy"]),
            ("result", &["accepted", "duplicate", "superseded", "refused", "unauthorized", "error"]),
        ],
        "deliveries to the webhooks, and changes of a policy revision",
    ),
    histogram("scheduler_impact_resolve_seconds", "one search of the warm index, for a run or a preview"),
    counter("scheduler_images_selected_total", &[MODE], "candidates of planned runs"),
    counter("scheduler_jobs_enqueued_total", &[MODE], "images queued"),
    histogram(
        "scheduler_run_latency_seconds",
        "from the arrival of the first export of an event run to its first verdict",
    ),
    counter("scheduler_outcomes_total", &[("outcome", &["delta", "unchanged", "failed", "skipped"])], "images settled"),
    counter(
        "scheduler_delta_images_total",
        &[("severity", &["low", "medium", "high", "critical"])],
        "images with something new, by the worst of it",
    ),
    counter(
        "scheduler_rate_limited_total",
        &[("reason", &["scanner-429", "active-runs", "backlog", "tenant-limit"])],
        "answers 429 of the scanner; and refused or delayed at a limit of a tenant: runs by hand at `active-runs` and `backlog`, runs \
         of events that wait at `tenant-limit`",
    ),
    counter(
        "scheduler_retries_total",
        &[("class", &["timeout", "connect", "throttled", "server-error", "rejected", "bad-response", "internal"])],
        "calls that will be repeated",
    ),
    counter(
        "scheduler_ticks_total",
        &[("result", &["begun", "waits", "dropped", "broken"])],
        "what became of instants; `broken`: a schedule that cannot be read or decided",
    ),
    counter(
        "scheduler_window_holes_total",
        &[("source", &["feedser", "vexer"])],
        "times that no export covers, when they were found",
    ),
    counter("scheduler_lease_expiries_total", &[], "leases that were lost while work went on"),
    counter(
        "scheduler_late_outcomes_total",
        &[],
        "answers that came when their lease was over: they are not written, and their images are asked again under the same \
         `Idempotency-Key`",
    ),
    counter("scheduler_dead_letters_total", &[], "segments given up: begun 16 times without anything written"),
    Metric {
        name: "scheduler_queue_segments",
        kind: Kind::Gauge,
        labels: &[("lane", &["kev", "critical", "normal", "backlog"]), ("state", &["waiting", "leased"])],
        help: "how much waits, and how much is worked on",
    },
    gauge(
        "scheduler_outbox_age_seconds",
        "the age of the oldest event that is not on the bus; 0 where the outbox is the bus",
    ),
    gauge("scheduler_index_sequence_lag", "catalog changes that the index has not applied"),
    gauge("scheduler_index_images", "images in the index"),
    gauge("scheduler_index_packages", "distinct packages in the index"),
    gauge("scheduler_index_bytes", "memory of the index"),
    counter(
        "scheduler_purls_mended_total",
        &[],
        "package URLs of keys and components that were taken although they were not written by the rules",
    ),
    counter("scheduler_tls_handshakes_total", &[("result", &["ok", "failed", "timeout"])], "TLS handshakes of callers"),
    counter("scheduler_spans_total", &[("result", &["sent", "failed"])], "spans that were to go to the collector"),
];

/// Tells the process's recorder what each metric means, and begins each counter at 0 for all values of its labels: a rate over a
/// counter that appears with its first event would miss that event.
pub fn describe() {
    for metric in METRICS {
        match metric.kind {
            Kind::Counter => {
                metrics::describe_counter!(metric.name, metric.help);
                for labels in label_values(metric.labels) {
                    metrics::counter!(metric.name, labels).increment(0);
                }
            }
            Kind::Gauge => metrics::describe_gauge!(metric.name, metric.help),
            Kind::Histogram => metrics::describe_histogram!(metric.name, metric.help),
        }
    }
}

/// Every combination of the values of labels.
fn label_values(labels: &[(&'static str, &[&'static str])]) -> Vec<Vec<Label>> {
    labels.iter().fold(vec![Vec::new()], |begun, (name, values)| {
        let with = |value: &&'static str| {
            let label = Label::from_static_parts(name, value);
            begun.iter().map(move |labels| [labels.as_slice(), std::slice::from_ref(&label)].concat())
        };
        values.iter().flat_map(with).collect()
    })
}
