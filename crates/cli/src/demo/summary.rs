//! The figures at the end.

use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;

/// What the demo measured.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// Distinct keys of the export.
    pub keys: usize,
    /// Of these, keys that some package of the catalog has.
    pub keys_matched: u64,
    /// Images of the catalog.
    pub images: usize,
    /// Images that the export can touch.
    pub impacted: usize,
    /// Images that have a changed package, but do not use it.
    pub idle: usize,
    /// The index's time for the preview, in milliseconds.
    pub preview_ms: f64,
    /// Report calls for the export.
    pub calls: u64,
    /// Images with something new.
    pub deltas: usize,
    /// New findings: critical, high, and the rest.
    pub findings: [u64; 3],
    /// Images with a vulnerability that is known to be exploited.
    pub kev_images: usize,
    /// KEV hits over all images.
    pub kev_hits: u64,
    /// From sending the export to the first verdict.
    pub first_verdict: Duration,
    /// From sending the export to the last one.
    pub last_verdict: Duration,
}

impl Summary {
    /// The figures as a document.
    pub fn document(&self) -> Value {
        let [critical, high, other] = self.findings;
        json!({
            "keys": self.keys, "keysMatched": self.keys_matched,
            "images": self.images, "impacted": self.impacted, "idle": self.idle,
            "previewMs": self.preview_ms, "reportCalls": self.calls, "deltas": self.deltas,
            "newFindings": { "critical": critical, "high": high, "other": other },
            "kevHits": self.kev_hits, "kevImages": self.kev_images,
            "firstVerdictMs": millis(self.first_verdict), "lastVerdictMs": millis(self.last_verdict),
        })
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [critical, high, rest] = self.findings;
        let idle = match self.idle {
            0 => String::new(),
            idle => format!(" ({idle} more have a changed package that they do not use)"),
        };
        let patched = match self.impacted.saturating_sub(self.deltas) {
            0 => String::new(),
            patched => format!(" (the other {patched} are patched)"),
        };
        let rows = [
            ("changed keys", format!("{}, {} of them in the catalog", self.keys, self.keys_matched)),
            ("images impacted", format!("{} of {}{idle}", self.impacted, self.images)),
            ("preview", format!("{:.1} ms", self.preview_ms)),
            ("report calls", format!("{}; rescanning everything would have made {}", self.calls, self.images)),
            ("images with news", format!("{}{patched}", self.deltas)),
            ("new findings", format!("{critical} critical, {high} high, {rest} other")),
            ("KEV hits", format!("{} in {} images", self.kev_hits, self.kev_images)),
            (
                "export to verdict",
                format!("first {} ms, last {} ms", millis(self.first_verdict), millis(self.last_verdict)),
            ),
        ];
        let line = "-".repeat(78);
        writeln!(f, "{line}")?;
        for (name, value) in rows {
            writeln!(f, "  {name:<18} {value}")?;
        }
        f.write_str(&line)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
