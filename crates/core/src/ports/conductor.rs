use async_trait::async_trait;
use scheduler_model::{RunId, TenantId};

/// What the web part tells the loops, so that they act at once and not at their next look. Losing a word costs time, never
/// work: the store knows what is to be done.
#[async_trait]
pub trait Conductor: Send + Sync {
    /// An export was accepted.
    fn export_accepted(&self);

    /// A run was begun and waits to be planned.
    fn run_begun(&self);

    /// A cancel was made durable. When this returns, no slot of this process begins a call that was not cleared before.
    async fn run_cancelled(&self, tenant: &TenantId, run: &RunId);
}
