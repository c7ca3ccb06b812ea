//! The whole service behind TLS: what its configuration refuses, and who may deliver webhooks.

use crate::config::{self, Config};
use crate::doctor::{Verdict, certificates};
use crate::serve;
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
use scheduler_auth::SigningKey;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Files of a folder: a CA, a server, and clients.
struct Folder {
    home: tempfile::TempDir,
    ca: Issuer<'static, KeyPair>,
}

impl Folder {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "ca");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        std::fs::write(home.path().join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        let folder = Self { home, ca: Issuer::new(params, key) };
        folder.issue("server");
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn private(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    /// `NAME.pem` and `NAME.key`; returns both in one text.
    fn issue(&self, name: &str) -> String {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.ca).unwrap().pem();
        std::fs::write(self.path(&format!("{name}.pem")), &certificate).unwrap();
        self.private(&format!("{name}.key"), &key.serialize_pem());
        format!("{certificate}{}", key.serialize_pem())
    }

    /// Reads a configuration in which `@` stands for the folder.
    fn config(&self, yaml: &str) -> Result<Config, String> {
        let path = self.path("config.yaml");
        let home = self.home.path().display().to_string();
        std::fs::write(&path, format!("scheduler: {{ listen: '127.0.0.1:0', {} }}", yaml.replace('@', &home))).unwrap();
        config::read(Some(&path), Some(&self.path("data"))).map_err(|error| error.to_string())
    }
}

const TLS: &str = "tls: { certFile: '@/server.pem', keyFile: '@/server.key', clientCaFile: '@/ca.pem' }";

#[test]
fn a_tls_configuration_that_cannot_work_stops_the_start() {
    let folder = Folder::new();
    folder.issue("other");
    std::fs::write(folder.path("open.key"), "").unwrap();
    folder.private("empty.key", "");
    std::fs::write(folder.path("empty.pem"), "").unwrap();
    for (yaml, key, reason) in [
        ("tls: { certFile: '@/server.pem' }", "tls.keyFile", "private key"),
        ("tls: { keyFile: '@/server.key' }", "tls.certFile", "certificate"),
        ("tls: { clientCaFile: '@/ca.pem' }", "tls.certFile", "certificate"),
        ("tls: { certFile: '@/away.pem', keyFile: '@/server.key' }", "tls.certFile", "cannot be read"),
        ("tls: { certFile: '@/server.pem', keyFile: '@/away.key' }", "tls.keyFile", "cannot be read"),
        ("tls: { certFile: '@/server.pem', keyFile: '@/open.key' }", "tls.keyFile", "chmod 600"),
        ("tls: { certFile: '@/empty.pem', keyFile: '@/server.key' }", "tls.certFile", "no certificate"),
        ("tls: { certFile: '@/server.pem', keyFile: '@/empty.key' }", "tls.keyFile", "no private key"),
        ("tls: { certFile: '@/server.pem', keyFile: '@/other.key' }", "tls.keyFile", "another certificate"),
        (
            "tls: { certFile: '@/server.pem', keyFile: '@/server.key', clientCaFile: '@/empty.pem' }",
            "tls.clientCaFile",
            "no certificate",
        ),
        ("webhooks: { clients: [ { subject: CN=a, source: feedser } ] }", "webhooks.clients", "tls.clientCaFile"),
        (
            "tls: { certFile: '@/server.pem', keyFile: '@/server.key' }, \
             webhooks: { clients: [ { subject: CN=a, source: feedser } ] }",
            "webhooks.clients",
            "tls.clientCaFile",
        ),
    ] {
        let said = folder.config(yaml).err().unwrap_or_else(|| panic!("{yaml} is taken"));
        assert!(said.contains(&format!("key {key}:")) && said.contains(reason), "{yaml}: {said}");
    }
    for (client, key, reason) in [
        ("subject: a, source: feedser", "webhooks.clients[0].subject", "no `=`"),
        ("subject: CN=a, source: notify", "webhooks.clients[0].source", "notify"),
        ("subject: CN=a, source: feedser, tenants: ['a b']", "webhooks.clients[0].tenants", "a b"),
        ("subject: CN=a, source: feedser, tenants: []", "webhooks.clients[0].subject", "tenants is empty"),
    ] {
        let said = folder.config(&format!("{TLS}, webhooks: {{ clients: [ {{ {client} }} ] }}")).unwrap_err();
        assert!(said.contains(&format!("key {key}:")) && said.contains(reason), "{client}: {said}");
    }
    let files = folder.config(TLS).unwrap().tls.unwrap();
    assert_eq!(files.client_ca.as_deref(), Some(folder.path("ca.pem").as_path()));
    assert!(folder.config("dataDir: x").unwrap().tls.is_none());
}

fn client(ca: &Path, identity: Option<&str>) -> reqwest::Client {
    let root = reqwest::Certificate::from_pem(&std::fs::read(ca).unwrap()).unwrap();
    let builder = reqwest::Client::builder().tls_certs_only([root]);
    match identity {
        Some(pem) => builder.identity(reqwest::Identity::from_pem(pem.as_bytes()).unwrap()),
        None => builder,
    }
    .build()
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listed_client_certificate_replaces_the_signature() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = Folder::new();
    let secret = "a secret of thirty-two characters";
    folder.private("secret", secret);
    let config = folder
        .config(&format!(
            "{TLS}, webhooks: {{ keys: [ {{ id: k, source: feedser, algorithm: hmac-sha256, secretFile: '@/secret' }} ], \
             clients: [ {{ subject: CN=feedser, source: feedser }} ] }}"
        ))
        .unwrap();
    let running = serve::start(config).await.unwrap();
    let url =
        |source: &str| format!("https://localhost:{}/api/v1/scheduler/events/{source}-export", running.address.port());
    let body = |id: &str| format!(r#"{{"exportId":"{id}","changedProductKeys":["pkg:npm/a"]}}"#);
    #[expect(clippy::disallowed_methods, reason = "the service under test has the real clock")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let key = SigningKey::hmac("k".parse().unwrap(), secret.as_bytes()).unwrap();
    let (listed, other) = (folder.issue("feedser"), folder.issue("other"));
    let vexer =
        r#"{"exportId":"v","changedClaims":[{"productKey":"pkg:npm/a","vulnId":"CVE-1","status":"none->affected"}]}"#;
    for (what, identity, source, body, signed, status, word) in [
        ("a listed certificate", Some(&listed), "feedser", body("a"), false, 202, "accepted"),
        ("the same again", Some(&listed), "feedser", body("a"), false, 200, "duplicate"),
        ("the same by a key, another sender", None, "feedser", body("a"), true, 202, "accepted"),
        ("a certificate for another source", Some(&listed), "vexer", vexer.to_owned(), false, 401, "`CN=feedser`"),
        ("a certificate that is not listed", Some(&other), "feedser", body("b"), false, 401, "`CN=other`"),
        ("that one with a signature", Some(&other), "feedser", body("b"), true, 202, "accepted"),
        ("nothing", None, "feedser", body("c"), false, 401, "no signature header"),
    ] {
        let mut request = client(&folder.path("ca.pem"), identity.map(String::as_str)).post(url(source));
        if signed {
            request = request.header("x-scheduler-signature", key.scheduler_header(body.as_bytes(), now));
        }
        let answer = request.body(body).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{what}");
        let text = answer.text().await.unwrap();
        assert!(text.contains(word), "{what}: {text}");
    }
    running.stop().await.unwrap();
}

#[test]
fn doctor_tells_how_long_certificates_are_good() {
    const DAY: u64 = 86_400;
    let folder = Folder::new();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    (params.not_before, params.not_after) = (rcgen::date_time_ymd(2026, 1, 1), rcgen::date_time_ymd(2027, 1, 1));
    let key = KeyPair::generate().unwrap();
    std::fs::write(folder.path("server.pem"), params.signed_by(&key, &folder.ca).unwrap().pem()).unwrap();
    folder.private("server.key", &key.serialize_pem());
    let config = folder.config("tls: { certFile: '@/server.pem', keyFile: '@/server.key' }").unwrap();
    let shown = certificates::configured(&config).unwrap();
    let ends = u64::try_from(year_2027()).unwrap();
    for (now, verdict, words) in [
        (ends - 366 * DAY, Verdict::Fail, "not valid yet"),
        (ends - 15 * DAY, Verdict::Pass, "good for 15 days"),
        (ends - 14 * DAY, Verdict::Pass, "good for 14 days"),
        (ends - 14 * DAY + 1, Verdict::Warn, "good for 13 days; renew it"),
        (ends, Verdict::Warn, "good for 0 days"),
        (ends + 1, Verdict::Fail, "expired 0 days ago"),
    ] {
        let (found, text) = certificates::check(&config, Some(&shown), now);
        assert!(found == verdict && text.contains(words), "{now}: {found:?} {text}");
    }
    let (found, text) = certificates::check(&config, Some(b"another"), ends - 100 * DAY);
    assert!(found == Verdict::Warn && text.contains("another certificate"), "{text}");
    let plain = folder.config("dataDir: x").unwrap();
    assert_eq!(certificates::check(&plain, None, 0).0, Verdict::Pass);
}

/// The beginning of 2027, in Unix seconds.
fn year_2027() -> i64 {
    chrono::NaiveDate::from_ymd_opt(2027, 1, 1).unwrap().and_hms_opt(0, 0, 0).unwrap().and_utc().timestamp()
}
