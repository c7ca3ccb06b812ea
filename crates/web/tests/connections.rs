//! What a connection may cost: how many there are, how long they may say nothing, and how they end.

#![expect(clippy::unwrap_used, reason = "a failed step has to stop the test")]

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use futures::future::join_all;
use futures::{StreamExt, stream};
use scheduler_web::connections::{self, Links};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const QUIET: Duration = Duration::from_millis(300);

/// More than what a connection's buffers hold.
const LONG: usize = 32 << 20;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

struct Server {
    address: SocketAddr,
    stop: CancellationToken,
    ended: JoinHandle<()>,
}

async fn serve(at_once: usize, quiet: Duration) -> Server {
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = tcp.local_addr().unwrap();
    // Parts that are longer apart than a connection may be quiet.
    let slow = || async {
        Body::from_stream(stream::iter(0..3).then(|_| async {
            tokio::time::sleep(QUIET * 2).await;
            Ok::<_, std::io::Error>("part")
        }))
    };
    let router = Router::new()
        .route("/", get(|| async { "done" }))
        .route("/slow", get(slow))
        .route("/long", get(|| async { vec![b'x'; LONG] }));
    let stop = CancellationToken::new();
    let links = Links::new(tcp, at_once, true);
    let ended = tokio::spawn(connections::serve(links, router, quiet, stop.clone()));
    Server { address, stop, ended }
}

impl Server {
    /// A connection that has sent this.
    async fn sent(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream
    }
}

/// What comes until the other end closes.
async fn rest(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    // A reset is an end too.
    drop(stream.read_to_end(&mut all).await);
    String::from_utf8(all).unwrap()
}

#[tokio::test]
async fn con_02_a_connection_without_a_request_is_closed_whatever_it_has_sent() {
    let server = serve(100, QUIET).await;
    let idle = [REQUEST, REQUEST].concat();
    let cases: [(&str, &[u8], usize); 6] = [
        ("nothing", b"", 0),
        ("half a head", b"GET / HTTP/1.1\r\nhost: lo", 0),
        ("half of what opens HTTP/2", b"PRI * HTTP/2.0\r\n", 0),
        ("all of it", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", 0),
        ("one request", REQUEST, 1),
        ("two, and half of a third", &[&idle[..], b"GET "].concat(), 2),
    ];
    join_all(cases.iter().map(async |(what, bytes, answers)| {
        let mut stream = server.sent(bytes).await;
        let mut all = Vec::new();
        drop(stream.read_to_end(&mut all).await);
        let answered = all.windows(4).filter(|window| window == b"done").count();
        assert_eq!(answered, *answers, "{what}");
    }))
    .await;
}

#[tokio::test]
async fn con_02_a_head_that_comes_byte_by_byte_is_cut_off() {
    let server = serve(100, QUIET).await;
    let mut stream = server.sent(b"GET / HTTP/1.1\r\nx: ").await;
    let mut pace = tokio::time::interval(QUIET / 10);
    let (mut sent, mut part) = (0, [0; 16]);
    loop {
        tokio::select! {
            _ = pace.tick() => {
                sent += 1;
                if stream.write_all(b"x").await.is_err() { break }
            }
            read = stream.read(&mut part) => {
                assert!(!matches!(read, Ok(1..)), "there is nothing to answer");
                break;
            }
        }
        assert!(sent < 1000, "it is still open");
    }
}

#[tokio::test]
async fn con_02_answers_that_take_long_are_not_cut() {
    let server = serve(100, QUIET).await;
    let mut slow = server.sent(b"GET /slow HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await;
    let mut long = server.sent(b"GET /long HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await;
    let slow_reader = async {
        let (mut part, mut read) = (vec![0; 1 << 20], 0);
        let mut pace = tokio::time::interval(QUIET / 10);
        loop {
            pace.tick().await;
            match long.read(&mut part).await.unwrap() {
                0 => return read,
                count => read += count,
            }
        }
    };
    let (parts, read) = tokio::join!(rest(&mut slow), slow_reader);
    assert_eq!(parts.matches("part").count(), 3, "{parts}");
    assert!(read > LONG, "{read} bytes with the head");
}

#[tokio::test]
async fn con_01_a_connection_too_many_is_told_so_at_once() {
    let server = serve(2, Duration::from_secs(3600)).await;
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut stream = server.sent(REQUEST).await;
        stream.read_exact(&mut [0; 64]).await.unwrap();
        open.push(stream);
    }
    for _ in 0..100 {
        let answer = rest(&mut server.sent(REQUEST).await).await;
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("retry-after: "), "{answer}");
        let document = answer.split("\r\n\r\n").nth(1).unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(document).unwrap()["code"], "busy");
    }
    open.pop();
    let closing = [&REQUEST[..REQUEST.len() - 2], b"connection: close\r\n\r\n"].concat();
    let mut tries = 0;
    while !rest(&mut server.sent(&closing).await).await.contains("done") {
        tries += 1;
        assert!(tries < 1000, "no place has become free");
    }
}

#[tokio::test]
async fn con_03_at_the_end_requests_under_way_are_answered_and_idle_connections_closed() {
    let server = serve(100, Duration::from_secs(3600)).await;
    let mut idle = server.sent(REQUEST).await;
    let mut slow = server.sent(b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    // Both are being served.
    idle.read_exact(&mut [0; 64]).await.unwrap();
    slow.read_exact(&mut [0; 64]).await.unwrap();
    server.stop.cancel();
    rest(&mut idle).await;
    assert_eq!(rest(&mut slow).await.matches("part").count(), 3);
    server.ended.await.unwrap();
    TcpStream::connect(server.address).await.unwrap_err();
}
