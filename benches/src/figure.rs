use std::time::Instant;

/// Prints a figure; the median of what was measured.
pub fn figure(name: &str, value: f64, unit: &str) {
    println!("figure {name} {value:.3} {unit}");
}

/// Prints a ratio.
pub fn ratio(name: &str, value: f64) {
    println!("ratio {name} {value:.3}");
}

/// How long something takes, in milliseconds, with what it gave.
pub fn time_ms<T>(run: impl FnOnce() -> T) -> (f64, T) {
    #[expect(clippy::disallowed_methods, reason = "a benchmark is what the clock is for")]
    let start = Instant::now();
    let result = std::hint::black_box(run());
    (start.elapsed().as_secs_f64() * 1e3, result)
}

/// The median of so many runs, after one that does not count, in milliseconds that this thread was on the processor. On a
/// machine of one's own that is the time that passes; on a shared one it leaves out while others had the processor.
pub fn median_ms<T>(runs: usize, mut run: impl FnMut() -> T) -> f64 {
    std::hint::black_box(run());
    let mut times: Vec<f64> = (0..runs)
        .map(|_| {
            let start = on_processor_ms();
            std::hint::black_box(run());
            on_processor_ms() - start
        })
        .collect();
    percentile(&mut times, 50)
}

fn on_processor_ms() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    #[expect(clippy::cast_precision_loss, reason = "seconds and nanoseconds are far below 2^53")]
    let (seconds, nanoseconds) = (time.tv_sec as f64, time.tv_nsec as f64);
    seconds * 1e3 + nanoseconds / 1e6
}

/// The value below which so many percent of the values are; 0 when there is none.
pub fn percentile(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() * percent / 100).min(values.len().saturating_sub(1));
    values.get(at).copied().unwrap_or_default()
}

/// The memory that this process holds in RAM, in bytes; 0 where the system does not say.
pub fn rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).and_then(|text| text.parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}
