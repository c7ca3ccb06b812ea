//! Time, randomness and ids: whatever would make a decision differ when it is replayed comes in from outside.

use scheduler_model::Timestamp;

/// Wall time.
pub trait Clock: Send + Sync {
    /// Now. May jump; nothing but people and other services should rely on it.
    fn now(&self) -> Timestamp;
}

/// Randomness, for jitter.
pub trait Random: Send + Sync {
    /// A number that is evenly spread over `0.0..1.0`.
    fn unit(&self) -> f64;
}

/// New ids, for what a person or a delivery starts.
pub trait Ids: Send + Sync {
    /// An id that was never given before; later ones sort after earlier ones.
    fn fresh(&self) -> String;
}
