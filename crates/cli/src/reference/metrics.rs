//! The page of metrics, and that the code counts what it says.

use crate::golden::{golden, path};
use scheduler_telemetry::{Kind, METRICS, Metric};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const HEAD: &str = "# Metrics

Prometheus text on `/metrics`, or on `telemetry.metricsListen` alone. Every label has one of the values below: none holds a tenant, a
digest, a run, a key or a text of somebody else's, so that the number of time series has a bound.

| name | kind | labels | what |
| --- | --- | --- | --- |
";

const TAIL: &str = "
Gauges are looked at every five seconds. What no export covers: see [cursors](schedules.md#cursors).

## Dead letters

A segment is begun by a lease. When it ends in none of the ways it should (the process dies, the task panics, the lease runs out)
before anything of it is written, the store counts that; a write, a drain or a scanner that is away does not count. After 16 in a row its
images fail with the class `internal`, and the run ends. The count survives restarts, so a segment that takes the process down with
it is found too.
";

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    }
}

fn row(metric: &Metric) -> String {
    let label = |(name, values): &(&str, &[&str])| format!("`{name}`: {}", values.join(", "));
    let labels: Vec<String> = metric.labels.iter().map(label).collect();
    format!("| `{}` | {} | {} | {} |\n", metric.name, kind(metric.kind), labels.join("; "), metric.help)
}

#[test]
fn the_page_of_metrics_is_what_the_service_counts() {
    let rows: String = METRICS.iter().map(row).collect();
    golden("docs/reference/metrics.md", &format!("{HEAD}{rows}{TAIL}"));
}

fn sources(folder: &Path, found: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
}

/// Name, kind and labels of every place of the code that counts.
fn counted() -> BTreeMap<String, (&'static str, BTreeSet<String>)> {
    let mut text = String::new();
    for entry in std::fs::read_dir(path("crates")).unwrap() {
        sources(&entry.unwrap().path().join("src"), &mut text);
    }
    let mut found = BTreeMap::new();
    for kind in ["counter", "gauge", "histogram"] {
        for place in text.split(&format!("metrics::{kind}!(")).skip(1) {
            let Some(inner) = place.trim_start().strip_prefix('"') else { continue };
            let (name, rest) = inner.split_once('"').unwrap();
            // Up to what is done with it; labels are `"name" => value`.
            let arguments = rest.split(';').next().unwrap();
            let labels = arguments.match_indices("\" =>").map(|(at, _)| {
                let before = &arguments[..at];
                before[before.rfind('"').unwrap() + 1..].to_owned()
            });
            let labels: BTreeSet<String> = labels.collect();
            let known = found.entry(name.to_owned()).or_insert_with(|| (kind, labels.clone()));
            assert_eq!(*known, (kind, labels), "{name} is counted in two ways");
        }
    }
    found
}

#[test]
fn what_the_code_counts_is_what_is_described() {
    let described: BTreeMap<String, (&'static str, BTreeSet<String>)> = METRICS
        .iter()
        .map(|metric| {
            let labels = metric.labels.iter().map(|(name, _)| (*name).to_owned());
            (metric.name.to_owned(), (kind(metric.kind), labels.collect()))
        })
        .collect();
    assert_eq!(counted(), described);
}
