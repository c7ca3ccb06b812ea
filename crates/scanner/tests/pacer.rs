//! The pacer of one process under the contract of the `Pacer` port, and the rates that callers really get.

use scheduler_core::ports::Pacer;
use scheduler_scanner::LocalPacer;
use scheduler_testkit::pacer::{check_windows, group, host, tenant};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

async fn make() -> LocalPacer {
    LocalPacer::new()
}

scheduler_testkit::pacer_contract!(make);

#[tokio::test(start_paused = true)]
async fn p07_forty_callers_get_the_rate_and_no_more() {
    let pacer = Arc::new(LocalPacer::new());
    let start = Instant::now();
    let callers: Vec<_> = (0..40)
        .map(|caller| {
            let pacer = pacer.clone();
            tokio::spawn(async move {
                let mut begins = Vec::new();
                for _ in 0..25 {
                    let buckets =
                        [tenant("t", 100), group("g", 80), host(if caller < 5 { "slow" } else { "fast" }, 60)];
                    tokio::time::sleep(pacer.reserve(&buckets).await).await;
                    begins.push(Instant::now());
                    // The call itself, on the paused clock.
                    tokio::time::sleep(Duration::from_millis(30)).await;
                }
                begins
            })
        })
        .collect();
    let mut begins = Vec::new();
    for caller in callers {
        begins.extend(caller.await.unwrap_or_default());
    }
    assert_eq!(begins.len(), 1_000, "none is lost");
    check_windows(&begins, 80);
    assert!(start.elapsed() < Duration::from_secs(20), "they are no slower than the rates: {:?}", start.elapsed());
}
