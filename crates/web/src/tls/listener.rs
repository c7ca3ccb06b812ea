use super::Certificates;
use axum::extract::FromRequestParts;
use axum::extract::connect_info::{ConnectInfo, Connected};
use axum::http::request::Parts;
use axum::serve::{IncomingStream, Listener};
use rustls::ServerConfig;
use scheduler_auth::Subject;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
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

type Ready = (TlsStream<TcpStream>, SocketAddr);

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
    pub fn new(tcp: TcpListener, certificates: &Certificates, limits: HandshakeLimits) -> io::Result<Self> {
        let address = tcp.local_addr()?;
        let (send, ready) = mpsc::channel(READY_MAX);
        let accepting = tokio::spawn(accept(tcp, certificates.watch(), limits, send));
        Ok(Self { address, ready, _accepting: AbortOnDropHandle::new(accepting) })
    }
}

async fn accept(
    mut tcp: TcpListener,
    config: watch::Receiver<Arc<ServerConfig>>,
    limits: HandshakeLimits,
    ready: mpsc::Sender<Ready>,
) {
    let slots = Arc::new(Semaphore::new(limits.in_flight));
    // Dropped with the listener, and the handshakes with it.
    let mut handshakes = JoinSet::new();
    while let Ok(slot) = slots.clone().acquire_owned().await {
        let (stream, peer) = Listener::accept(&mut tcp).await;
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
    type Io = TlsStream<TcpStream>;
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

impl Connected<IncomingStream<'_, TlsListener>> for PeerCertificate {
    fn connect_info(stream: IncomingStream<'_, TlsListener>) -> Self {
        let (_, connection) = stream.io().get_ref();
        let certificate = connection.peer_certificates().and_then(<[_]>::first);
        Self { subject: certificate.and_then(|der| Subject::of_certificate(der).ok()).map(Arc::new) }
    }
}

impl<S: Sync> FromRequestParts<S> for PeerCertificate {
    type Rejection = Infallible;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let known = parts.extensions.get::<ConnectInfo<Self>>();
        Ok(known.map_or(Self { subject: None }, |info| info.0.clone()))
    }
}
