//! What a verb fails with, as one sentence with the way out.

use super::problem::ProblemDocument;
use std::path::PathBuf;

/// Why a call to the service, or what goes before it, failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// `--server` is no address.
    #[error("`{shown}` is no http or https URL; pass --server as in http://127.0.0.1:8585")]
    Server {
        /// The text without a password.
        shown: String,
    },
    /// The token file.
    #[error("the token file {} cannot be used: {why}", path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The HTTP client refuses its settings, as without system certificates for an https server.
    #[error("calls to {server} cannot be set up: {why}")]
    Setup {
        /// The address, without a password.
        server: String,
        /// Why.
        why: String,
    },
    /// No connection.
    #[error("cannot reach {server}: {why}; is `stella-scheduler serve` running there?")]
    Unreachable {
        /// The address, without a password.
        server: String,
        /// Why.
        why: String,
    },
    /// A connection, but no whole answer.
    #[error("{server} did not answer: {why}")]
    Cut {
        /// The address, without a password.
        server: String,
        /// Why.
        why: String,
    },
    /// The service said no.
    #[error("{0}")]
    Refused(ProblemDocument),
    /// An answer that is none of this service's.
    #[error("{server} answered {what}; is it a stella-scheduler?")]
    Foreign {
        /// The address, without a password.
        server: String,
        /// What it answered.
        what: String,
    },
    /// A file that was named.
    #[error("{} cannot be read: {why}", path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

impl ClientError {
    /// Whether the service could not be asked, so that asking again may help.
    pub fn is_transport(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Cut { .. } => true,
            Self::Refused(problem) => matches!(problem.status, 502..=504),
            Self::Server { .. }
            | Self::Token { .. }
            | Self::Setup { .. }
            | Self::Foreign { .. }
            | Self::Input { .. } => false,
        }
    }
}
