use super::Certificates;
use crate::connections::{Link, Links, TcpLink};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::serve::Listener;
use rustls::ServerConfig;
use scheduler_auth::Subject;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;

/// What handshakes may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandshakeLimits {
    /// From the connection to the end of its handshake.
    pub timeout: Duration,
    /// Handshakes that go on at once; further connections wait in the system's backlog.
    pub in_flight: usize,
}

impl Default for HandshakeLimits {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(10), in_flight: 256 }
    }
}

/// Connections that are ready and not taken yet.
const READY_MAX: usize = 16;

type Ready = (TlsStream<TcpLink>, SocketAddr);

/// Gives connections whose handshake is done. Slow handshakes hold up no others.
pub struct TlsListener {
    address: SocketAddr,
    ready: mpsc::Receiver<Ready>,
    _accepting: AbortOnDropHandle<()>,
}

impl TlsListener {
    /// Begins to accept.
    ///
    /// # Errors
    /// When the socket does not know its address.
    pub fn new(links: Links, certificates: &Certificates, limits: HandshakeLimits) -> io::Result<Self> {
        let address = links.local_addr()?;
        let (send, ready) = mpsc::channel(READY_MAX);
        let accepting = tokio::spawn(accept(links, certificates.watch(), limits, send));
        Ok(Self { address, ready, _accepting: AbortOnDropHandle::new(accepting) })
    }
}

async fn accept(
    mut links: Links,
    config: watch::Receiver<Arc<ServerConfig>>,
    limits: HandshakeLimits,
    ready: mpsc::Sender<Ready>,
) {
    let slots = Arc::new(Semaphore::new(limits.in_flight));
    // Dropped with the listener, and the handshakes with it.
    let mut handshakes = JoinSet::new();
    while let Ok(slot) = slots.clone().acquire_owned().await {
        let (stream, peer) = links.accept().await;
        while handshakes.try_join_next().is_some() {}
        let acceptor = TlsAcceptor::from(config.borrow().clone());
        let ready = ready.clone();
        handshakes.spawn(async move {
            let _slot = slot;
            let result = match tokio::time::timeout(limits.timeout, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => {
                    // The other end goes when the service stops.
                    let _ = ready.send((stream, peer)).await;
                    "ok"
                }
                Ok(Err(error)) => {
                    debug!(%peer, %error, "a tls handshake failed");
                    "failed"
                }
                Err(_) => {
                    debug!(%peer, "a tls handshake took too long");
                    "timeout"
                }
            };
            metrics::counter!("scheduler_tls_handshakes_total", "result" => result).increment(1);
        });
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpLink>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> Ready {
        match self.ready.recv().await {
            Some(ready) => ready,
            // The accepting task only ends with this listener.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

/// The client certificate of a request's connection, if there is one: verified, in its validity, of the configured CA.
#[derive(Debug, Clone)]
pub struct PeerCertificate {
    /// Its subject.
    pub subject: Option<Arc<Subject>>,
}

impl Link for TlsStream<TcpLink> {
    fn written(&self) -> Arc<AtomicU64> {
        self.get_ref().0.written()
    }

    fn certificate(&self) -> PeerCertificate {
        let (_, connection) = self.get_ref();
        let certificate = connection.peer_certificates().and_then(<[_]>::first);
        PeerCertificate { subject: certificate.and_then(|der| Subject::of_certificate(der).ok()).map(Arc::new) }
    }
}

impl<S: Sync> FromRequestParts<S> for PeerCertificate {
    type Rejection = Infallible;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or(Self { subject: None }))
    }
}
