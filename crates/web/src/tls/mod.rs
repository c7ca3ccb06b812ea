//! HTTPS: certificates from files, read again when they change, and a listener that makes the handshakes.
//!
//! - TLS-1: a handshake takes bounded time, and a bounded number of them go on at once ([`HandshakeLimits`]).
//! - TLS-2: a client certificate is optional; one that is shown and not signed by the configured CA ends the handshake.
//! - TLS-3: certificates that cannot be used never replace those in use.

mod certificates;
mod listener;

pub use certificates::{Certificates, TlsError, TlsFiles};
pub use listener::{HandshakeLimits, PeerCertificate, TlsListener};
