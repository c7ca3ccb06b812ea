//! Several workers share a queue over threads, and none of them sleeps while something may go.

#![expect(clippy::unwrap_used, reason = "a broken queue has to stop the test")]

use scheduler_core::ports::SegmentQueue;
use scheduler_queue::EmbeddedQueue;
use scheduler_testkit::queue::{LONG, segment};
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, task::JoinSet, time::timeout};

const SEGMENTS: u32 = 3_000;

async fn work(queue: Arc<EmbeddedQueue>, done: Arc<watch::Sender<u32>>) {
    let worker = "worker".parse().unwrap();
    let mut ended = done.subscribe();
    loop {
        while let Some(lease) = queue.lease(&worker, 2, LONG).await.unwrap() {
            tokio::task::yield_now().await;
            if lease.deliveries == 0 && lease.segment.position % 7 == 0 {
                queue.release(&lease.segment.id, lease.fence, Duration::from_millis(1)).await.unwrap();
            } else {
                queue.complete(&lease.segment.id, lease.fence).await.unwrap();
                done.send_modify(|count| *count += 1);
            }
        }
        tokio::select! {
            () = queue.changed() => {}
            all = ended.wait_for(|count| *count == SEGMENTS) => {
                all.unwrap();
                return;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_wakeup_is_lost_between_workers() {
    let queue = Arc::new(EmbeddedQueue::new(1));
    let done = Arc::new(watch::Sender::new(0));
    let mut workers = JoinSet::new();
    for _ in 0..6 {
        workers.spawn(work(queue.clone(), done.clone()));
    }
    for number in 0..SEGMENTS {
        // One slot for each group: what waits may mostly not go before something else ends.
        let group = format!("group-{}", number % 3);
        let made = segment(&format!("s-{number}")).group(&group).parallelism(1).position(number).build();
        queue.enqueue(vec![made]).await.unwrap();
        if number % 16 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let all = timeout(Duration::from_secs(30), workers.join_all()).await;
    assert!(all.is_ok(), "{} of {SEGMENTS} were done when every worker slept", *done.borrow());
}

/// One segment at a time, so that nothing else would wake the worker in place of a lost wakeup.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_single_segment_wakes_the_worker() {
    const ROUNDS: u32 = 20_000;
    let queue = Arc::new(EmbeddedQueue::new(1));
    let done = Arc::new(watch::Sender::new(0));
    let worker = tokio::spawn({
        let (queue, done) = (queue.clone(), done.clone());
        async move {
            for _ in 0..ROUNDS {
                let lease = loop {
                    match queue.lease(&"worker".parse().unwrap(), 1, LONG).await.unwrap() {
                        Some(lease) => break lease,
                        None => queue.changed().await,
                    }
                };
                queue.complete(&lease.segment.id, lease.fence).await.unwrap();
                done.send_modify(|count| *count += 1);
            }
        }
    });
    let mut ended = done.subscribe();
    for round in 0..ROUNDS {
        queue.enqueue(vec![segment("a").build()]).await.unwrap();
        let end = ended.wait_for(|count| *count > round);
        assert!(timeout(Duration::from_secs(10), end).await.is_ok(), "the worker slept through segment {round}");
    }
    worker.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_takes_nothing_is_told_once_and_does_not_spin() {
    let queue = EmbeddedQueue::new(1);
    queue.enqueue(vec![segment("a").build(), segment("b").group("b").build()]).await.unwrap();
    queue.changed().await;
    assert!(timeout(LONG, queue.changed()).await.is_err(), "nothing new may go");
    queue.enqueue(vec![segment("c").build()]).await.unwrap();
    queue.changed().await;
    assert!(timeout(LONG, queue.changed()).await.is_err());
}
