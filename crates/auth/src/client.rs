//! Senders that are known by the certificate of their connection.

use crate::key::somebody;
use crate::{KeyError, Subject};
use scheduler_model::{Source, TenantScope, WebhookKeyId};

/// A sender that needs no signature: whoever verified its connection knows its certificate's subject.
#[derive(Debug, Clone)]
pub struct WebhookClient {
    id: WebhookKeyId,
    subject: Subject,
    source: Source,
    tenants: TenantScope,
}

impl WebhookClient {
    /// A client by the whole subject of its certificate (RFC 4514).
    ///
    /// # Errors
    /// [`KeyError`] for a subject that cannot be read or is too long for an id, and for an empty list of tenants.
    pub fn new(subject: &str, source: Source, tenants: TenantScope) -> Result<Self, KeyError> {
        let subject: Subject = subject.parse().map_err(KeyError::Subject)?;
        let id = WebhookKeyId::try_from(subject.to_string()).map_err(KeyError::SubjectId)?;
        Ok(Self { id, subject, source, tenants: somebody(tenants)? })
    }

    /// The subject as text: what the sender's exports are known by.
    pub fn id(&self) -> &WebhookKeyId {
        &self.id
    }

    /// The subject that the certificate must have.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Whose exports it may deliver.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Whom it may speak for.
    pub fn tenants(&self) -> &TenantScope {
        &self.tenants
    }
}
