use async_trait::async_trait;
use scheduler_model::TenantId;
use std::time::Duration;

/// What a leaky bucket belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum BucketKey {
    /// A tenant.
    Tenant(TenantId),
    /// A schedule, or a run that belongs to none.
    Group(String),
    /// A registry host.
    Host(String),
}

/// A bucket and how fast it leaks.
#[derive(Debug, Clone)]
pub struct Bucket {
    /// Whose it is.
    pub key: BucketKey,
    /// Calls a second, above zero. The burst is half a second's worth, at least one call.
    pub rate_per_second: u32,
}

/// Leaky buckets that hold for the whole fleet.
#[async_trait]
pub trait Pacer: Send + Sync {
    /// Reserves one call in every one of the buckets, and says how long the caller has to wait before it begins the call.
    /// A reservation that is not used is lost, not given back.
    async fn reserve(&self, buckets: &[Bucket]) -> Duration;

    /// Slows a bucket after the other side complained: its rate halves, down to a sixteenth, and recovers gradually. What
    /// follows a complaint that counted within half a second is of the same burst of calls and changes nothing.
    async fn slow(&self, bucket: &Bucket);
}
