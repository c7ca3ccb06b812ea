//! The contract of the port, on tokio's paused clock.

use scheduler_queue::EmbeddedQueue;

async fn make() -> EmbeddedQueue {
    tokio::time::pause();
    EmbeddedQueue::new(1)
}

scheduler_testkit::segment_queue_contract!(make);
