//! Connections as they are accepted: so many at once, each with what the service has to know of it.

use crate::code::Code;
use crate::problem::Problem;
use crate::tls::PeerCertificate;
use axum::serve::Listener;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::warn;

/// Connections at once that are told that there are too many; further ones are closed without a word.
const REFUSED_AT_ONCE_MAX: usize = 32;

/// How long such a one may take to read that.
const REFUSAL_WAIT: Duration = Duration::from_secs(1);

/// A connection that the service can judge.
pub trait Link: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Bytes that were written to it so far.
    fn written(&self) -> Arc<AtomicU64>;

    /// Who is at the other end.
    fn certificate(&self) -> PeerCertificate;
}

/// Accepts so many connections at once; those beyond are answered with 503, or closed, at once.
pub struct Links {
    tcp: TcpListener,
    places: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    /// Whether a caller understands an answer in plain HTTP.
    plain: bool,
    full: bool,
}

impl Links {
    /// At most `at_once` connections; `plain` without TLS.
    pub fn new(tcp: TcpListener, at_once: usize, plain: bool) -> Self {
        let refusals = Arc::new(Semaphore::new(REFUSED_AT_ONCE_MAX));
        Self { tcp, places: Arc::new(Semaphore::new(at_once)), refusals, plain, full: false }
    }

    fn refuse(&mut self, stream: TcpStream) {
        if !std::mem::replace(&mut self.full, true) {
            warn!("as many connections are open as there can be; new ones are refused");
        }
        if self.plain
            && let Ok(turn) = self.refusals.clone().try_acquire_owned()
        {
            tokio::spawn(tokio::time::timeout(REFUSAL_WAIT, tell(stream, turn)));
        }
    }
}

/// Says why, and waits until the other end has closed: what it has sent would else take the answer away.
async fn tell(mut stream: TcpStream, _turn: OwnedSemaphorePermit) -> io::Result<()> {
    let problem = Problem::new(Code::Busy, "as many connections are open as there can be").document().to_string();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 10\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{problem}",
        problem.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    while stream.read(&mut [0; 4096]).await? > 0 {}
    Ok(())
}

impl Listener for Links {
    type Io = TcpLink;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpLink, SocketAddr) {
        loop {
            let (stream, peer) = Listener::accept(&mut self.tcp).await;
            match self.places.clone().try_acquire_owned() {
                Ok(place) => {
                    self.full = false;
                    return (TcpLink { stream, written: Arc::default(), _place: place }, peer);
                }
                Err(_) => self.refuse(stream),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

/// A connection with its place.
pub struct TcpLink {
    // Before the stream: whoever sees the connection end finds the place free.
    _place: OwnedSemaphorePermit,
    stream: TcpStream,
    written: Arc<AtomicU64>,
}

impl TcpLink {
    fn count(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &written {
            self.written.fetch_add(*bytes as u64, Ordering::Relaxed);
        }
        written
    }
}

impl Link for TcpLink {
    fn written(&self) -> Arc<AtomicU64> {
        self.written.clone()
    }

    fn certificate(&self) -> PeerCertificate {
        PeerCertificate { subject: None }
    }
}

impl AsyncRead for TcpLink {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for TcpLink {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.count(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.count(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
