//! Exports: what Feedser and Vexer say has changed.

use crate::{BatchId, EventId, ExportId, Severity, TenantId, Timestamp, WebhookKeyId};
use serde::{Deserialize, Serialize};

/// Who sends exports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Advisories.
    Feedser,
    /// VEX claims.
    Vexer,
}

impl Source {
    /// Every source.
    pub const ALL: [Self; 2] = [Self::Feedser, Self::Vexer];

    /// The word of the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Feedser => "feedser",
            Self::Vexer => "vexer",
        }
    }
}

/// How urgent a change is; the later, the more urgent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// Everything else.
    #[default]
    Normal,
    /// A critical vulnerability.
    Critical,
    /// A vulnerability that is known to be exploited.
    Kev,
}

impl Priority {
    /// The word of the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Critical => "critical",
            Self::Kev => "kev",
        }
    }
}

/// A changed product key of an export, with how urgent it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangedKey {
    /// The purl, canonical.
    pub key: String,
    /// How urgent.
    #[serde(default)]
    pub priority: Priority,
    /// Of a claim: only images that contain this purl too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subcomponent: Option<String>,
    /// The `vers` ranges of the versions that are affected, one or more for the changes of the key; empty: any version is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub affected: Vec<String>,
}

/// That a vulnerability concerns a product key: what makes vulnerability ids resolvable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VulnLink {
    /// The vulnerability.
    pub vuln_id: String,
    /// The purl, canonical.
    pub key: String,
    /// Its severity, where the export says one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
}

/// The time that an export covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Its beginning.
    #[serde(default)]
    pub from: Option<Timestamp>,
    /// Its end.
    #[serde(default)]
    pub to: Option<Timestamp>,
}

/// The tenants that a webhook key may speak for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TenantScope {
    /// All of them.
    All,
    /// These only.
    Only(Vec<TenantId>),
}

impl TenantScope {
    /// Whether the tenant is among them.
    pub fn includes(&self, tenant: &TenantId) -> bool {
        match self {
            Self::All => true,
            Self::Only(tenants) => tenants.contains(tenant),
        }
    }
}

/// An export as it waits in the inbox: checked, canonical, durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Export {
    /// This delivery.
    pub event_id: EventId,
    /// Who sent it.
    pub source: Source,
    /// The key that it was signed with.
    pub key_id: WebhookKeyId,
    /// The sender's name of it.
    pub export_id: ExportId,
    /// SHA-256 of the body after decompression.
    pub content_hash: String,
    /// When it came.
    pub received_at: Timestamp,
    /// Whom it may reach.
    pub tenants: TenantScope,
    /// What changed.
    pub keys: Vec<ChangedKey>,
    /// What its `changes` say of vulnerabilities.
    pub links: Vec<VulnLink>,
    /// The time it covers.
    #[serde(default)]
    pub window: Option<Window>,
    /// W3C trace context of the delivery, so that one trace leads from webhook to verdict.
    #[serde(default)]
    pub traceparent: Option<String>,
}

impl Export {
    /// The urgency of its most urgent key.
    pub fn priority(&self) -> Priority {
        self.keys.iter().map(|key| key.priority).max().unwrap_or_default()
    }

    /// What is known of it without its keys.
    pub fn head(&self) -> ExportHead {
        ExportHead {
            event_id: self.event_id.clone(),
            source: self.source,
            export_id: self.export_id.clone(),
            content_hash: self.content_hash.clone(),
            received_at: self.received_at,
            tenants: self.tenants.clone(),
            priority: self.priority(),
            window: self.window.clone(),
            traceparent: self.traceparent.clone(),
        }
    }
}

/// An export without its keys and links, which may be many: enough to close windows and to begin runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExportHead {
    /// This delivery.
    pub event_id: EventId,
    /// Who sent it.
    pub source: Source,
    /// The sender's name of it.
    pub export_id: ExportId,
    /// SHA-256 of the body after decompression.
    pub content_hash: String,
    /// When it came.
    pub received_at: Timestamp,
    /// Whom it may reach.
    pub tenants: TenantScope,
    /// The urgency of its most urgent key.
    pub priority: Priority,
    /// The time it covers.
    #[serde(default)]
    pub window: Option<Window>,
    /// W3C trace context of the delivery.
    #[serde(default)]
    pub traceparent: Option<String>,
}

/// A closed set of exports of one source that is planned together. Its members are fixed when it is closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Batch {
    /// Derives from the members.
    pub id: BatchId,
    /// Whose exports they are.
    pub source: Source,
    /// When it was closed.
    pub closed_at: Timestamp,
    /// The members, in the order in which they came.
    pub events: Vec<EventId>,
}
