//! Real handshakes against the listener: who is let in, and what a slow client can hold up.

#![expect(clippy::unwrap_used, reason = "certificates that cannot be made have to stop their test")]

use axum::Router;
use axum::routing::get;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use scheduler_web::connections::{self, Links};
use scheduler_web::tls::{Certificates, HandshakeLimits, PeerCertificate, TlsError, TlsFiles, TlsListener};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

struct Ca {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Ca {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self { pem: params.self_signed(&key).unwrap().pem(), issuer: Issuer::new(params, key) }
    }

    /// Certificate and key in PEM.
    fn issue(&self, name: &str) -> (String, String) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

fn write(folder: &Path, server: &(String, String), client_ca: &Ca) -> TlsFiles {
    let files = TlsFiles {
        certificate: folder.join("server.pem"),
        key: folder.join("server.key"),
        client_ca: Some(folder.join("ca.pem")),
    };
    std::fs::write(&files.certificate, &server.0).unwrap();
    std::fs::write(&files.key, &server.1).unwrap();
    std::fs::write(folder.join("ca.pem"), &client_ca.pem).unwrap();
    files
}

/// Serves the subject of whoever asks.
async fn serve(certificates: &Certificates, limits: HandshakeLimits) -> SocketAddr {
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = tcp.local_addr().unwrap();
    let listener = TlsListener::new(Links::new(tcp, 100, false), certificates, limits).unwrap();
    let who = |peer: PeerCertificate| async move {
        peer.subject.map_or_else(|| "nobody".to_owned(), |subject| subject.to_string())
    };
    let router = Router::new().route("/", get(who));
    tokio::spawn(connections::serve(listener, router, connections::QUIET_MAX, CancellationToken::new()));
    address
}

async fn connect(
    address: SocketAddr,
    root: &Ca,
    client: Option<&(String, String)>,
    alpn: &[&str],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(root.pem.as_bytes()).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match client {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => builder
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
            )
            .unwrap(),
    };
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let tcp = TcpStream::connect(address).await?;
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), tcp).await
}

/// The subject that the server sees.
async fn seen(address: SocketAddr, root: &Ca, client: Option<&(String, String)>) -> std::io::Result<String> {
    let mut stream = connect(address, root, client, &["http/1.1"]).await?;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned())
}

#[tokio::test]
async fn client_certificates_are_optional_and_of_the_configured_ca() {
    let (ca, foreign) = (Ca::new("ca"), Ca::new("foreign"));
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::load(write(folder.path(), &ca.issue("server"), &ca)).unwrap();
    let address = serve(&certificates, HandshakeLimits::default()).await;
    assert_eq!(seen(address, &ca, None).await.unwrap(), "nobody");
    assert_eq!(seen(address, &ca, Some(&ca.issue("feedser"))).await.unwrap(), "CN=feedser");
    seen(address, &ca, Some(&foreign.issue("feedser"))).await.unwrap_err();
    // Without a CA nobody is asked, and what is shown nevertheless is not seen.
    let files = TlsFiles { client_ca: None, ..write(folder.path(), &ca.issue("server"), &ca) };
    let address = serve(&Certificates::load(files).unwrap(), HandshakeLimits::default()).await;
    assert_eq!(seen(address, &ca, Some(&ca.issue("feedser"))).await.unwrap(), "nobody");
}

#[tokio::test]
async fn both_http_versions_are_offered() {
    let ca = Ca::new("ca");
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::load(write(folder.path(), &ca.issue("server"), &ca)).unwrap();
    let address = serve(&certificates, HandshakeLimits::default()).await;
    for (offered, taken) in [(&["h2", "http/1.1"][..], Some("h2")), (&["http/1.1"], Some("http/1.1")), (&[], None)] {
        let stream = connect(address, &ca, None, offered).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), taken.map(str::as_bytes), "{offered:?}");
    }
}

#[tokio::test]
async fn slow_handshakes_hold_up_no_others_until_they_are_too_many() {
    let ca = Ca::new("ca");
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::load(write(folder.path(), &ca.issue("server"), &ca)).unwrap();
    let limits = HandshakeLimits { timeout: Duration::from_millis(1500), in_flight: 2 };
    let address = serve(&certificates, limits).await;
    let start = Instant::now();
    let mut one = TcpStream::connect(address).await.unwrap();
    assert_eq!(seen(address, &ca, None).await.unwrap(), "nobody");
    let beside = start.elapsed();
    let _two = TcpStream::connect(address).await.unwrap();
    assert_eq!(seen(address, &ca, None).await.unwrap(), "nobody");
    let after = start.elapsed();
    assert!(after >= limits.timeout && beside < after, "{beside:?} beside one, {after:?} after two");
    // The one that said nothing was cut off.
    assert_eq!(one.read(&mut [0; 16]).await.unwrap(), 0);
}

#[tokio::test]
async fn new_certificates_are_used_and_bad_ones_are_not() {
    let (old, new) = (Ca::new("old"), Ca::new("new"));
    let folder = tempfile::tempdir().unwrap();
    let files = write(folder.path(), &old.issue("server"), &old);
    let mut certificates = Certificates::load(files.clone()).unwrap();
    let address = serve(&certificates, HandshakeLimits::default()).await;
    assert!(!certificates.reload().unwrap(), "nothing has changed");
    seen(address, &old, Some(&old.issue("a"))).await.unwrap();

    // Half of a rotation: the key has not come yet.
    let next = new.issue("server");
    std::fs::write(&files.certificate, &next.0).unwrap();
    assert!(matches!(certificates.reload(), Err(TlsError::Key { .. })));
    assert!(!certificates.reload().unwrap(), "what was tried is not tried again");
    seen(address, &old, None).await.unwrap();

    write(folder.path(), &next, &new);
    assert!(certificates.reload().unwrap());
    assert_eq!(seen(address, &new, Some(&new.issue("b"))).await.unwrap(), "CN=b");
    seen(address, &old, None).await.unwrap_err();
    seen(address, &new, Some(&old.issue("a"))).await.unwrap_err();

    std::fs::remove_file(&files.certificate).unwrap();
    assert!(matches!(certificates.reload(), Err(TlsError::Certificate { .. })));
    seen(address, &new, None).await.unwrap();
}

#[tokio::test]
async fn con_02_a_quiet_connection_is_closed_over_tls_too() {
    let ca = Ca::new("ca");
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::load(write(folder.path(), &ca.issue("server"), &ca)).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = tcp.local_addr().unwrap();
    let listener = TlsListener::new(Links::new(tcp, 1, false), &certificates, HandshakeLimits::default()).unwrap();
    let quiet = Duration::from_millis(300);
    tokio::spawn(connections::serve(listener, Router::new(), quiet, CancellationToken::new()));
    for (protocol, sent) in
        [("http/1.1", &b""[..]), ("http/1.1", b"GET / HT"), ("h2", b""), ("h2", b"PRI * HTTP/2.0\r\n")]
    {
        // The one place is free again each time.
        let mut stream = connect(address, &ca, None, &[protocol]).await.unwrap();
        stream.write_all(sent).await.unwrap();
        let mut all = Vec::new();
        drop(stream.read_to_end(&mut all).await);
        // One too many is closed before its handshake.
        assert!(stream.get_ref().1.alpn_protocol().is_some());
    }
}
