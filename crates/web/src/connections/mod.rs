//! Serves connections, and closes those on which nothing happens.
//!
//! - CON-1: so many connections are open at once; a further one is refused at once, it does not wait ([`Links`]).
//! - CON-2: a connection without a request under way is closed after a while, whatever of a request it has sent. One whose
//!   answer goes on (an event stream, a long list) is not.
//! - CON-3: at the end requests under way are answered, and no new ones are taken.

mod links;

pub use links::{Link, Links, TcpLink};

use crate::tls::PeerCertificate;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::serve::Listener;
use http_body_util::BodyExt;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::Service;
use tracing::debug;

/// After so long without a request under way a connection is closed.
pub const QUIET_MAX: Duration = Duration::from_secs(60);

/// Serves until `stop`; returns when the requests that are under way then are answered. `quiet` as [`QUIET_MAX`].
pub async fn serve<L>(mut listener: L, router: Router, quiet: Duration, stop: CancellationToken)
where
    L: Listener,
    L::Io: Link,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            (link, _) = listener.accept() => {
                while connections.try_join_next().is_some() {}
                connections.spawn(connection(link, router.clone(), quiet, stop.clone()));
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn connection(link: impl Link, router: Router, quiet: Duration, stop: CancellationToken) {
    let (written, certificate) = (link.written(), link.certificate());
    let (requests, under_way) = watch::channel(0);
    let requests = Arc::new(requests);
    let answer = tower::service_fn(move |request: axum::http::Request<hyper::body::Incoming>| {
        respond(router.clone(), certificate.clone(), UnderWay::begin(&requests), request.map(Body::new))
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(quiet);
    builder.http2().timer(TokioTimer::new());
    let mut served = pin!(builder.serve_connection(TokioIo::new(link), TowerToHyperService::new(answer)));
    let mut quiet = pin!(quiet_for(quiet, under_way, &written));
    let mut ending = false;
    loop {
        tokio::select! {
            ended = served.as_mut() => {
                if let Err(error) = ended {
                    debug!(%error, "a connection broke");
                }
                return;
            }
            () = stop.cancelled(), if !ending => {
                ending = true;
                served.as_mut().graceful_shutdown();
            }
            // Gone with this function.
            () = quiet.as_mut() => return,
        }
    }
}

async fn respond(
    mut router: Router,
    certificate: PeerCertificate,
    under_way: UnderWay,
    mut request: Request,
) -> Result<axum::response::Response, std::convert::Infallible> {
    request.extensions_mut().insert(certificate);
    let response = router.call(request).await?;
    // The request is under way until its answer's body is dropped.
    Ok(response.map(|body| {
        Body::new(body.map_err(move |error| {
            let _ = &under_way;
            error
        }))
    }))
}

/// A request that is under way.
struct UnderWay(Arc<watch::Sender<usize>>);

impl UnderWay {
    fn begin(requests: &Arc<watch::Sender<usize>>) -> Self {
        requests.send_modify(|count| *count += 1);
        Self(requests.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// Returns when no request was under way and nothing was written for so long. What is read does not count: a head that comes
/// byte by byte is no request yet.
async fn quiet_for(limit: Duration, mut under_way: watch::Receiver<usize>, written: &AtomicU64) {
    loop {
        let before = written.load(Ordering::Relaxed);
        let requests = *under_way.borrow_and_update();
        let changed = tokio::time::timeout(limit, under_way.changed()).await;
        // The end of an answer may be on its way to a slow reader still.
        if changed.is_err() && requests == 0 && written.load(Ordering::Relaxed) == before {
            return;
        }
        // The connection has ended; so will whoever waits here.
        if matches!(changed, Ok(Err(_))) {
            std::future::pending::<()>().await;
        }
    }
}
