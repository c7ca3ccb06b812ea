//! P12: after good and bad use, no secret and no signature is in a log line, an answer or a file.

use crate::catalog::{export, sidecar};
use crate::client::{Client, sign, unix_now};
use crate::durability::unhurried;
use crate::scanner::Promises;
use crate::service::{SECRET, Service, write_private};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

const SCANNER_TOKEN: &str = "scanner-token-9d1e4c8ab37f";
const COLLECTOR_PASSWORD: &str = "collector-password-41d7e05c";
const SENT_BY_MISTAKE: &str = "Bearer caller-token-77aa01bc23de";

/// What was sent, and every answer to it.
struct Talk {
    client: Client,
    answers: Vec<String>,
    signatures: Vec<String>,
}

impl Talk {
    async fn send(&mut self, request: reqwest::RequestBuilder, status: u16) {
        let answer = self.client.send(request.header("authorization", SENT_BY_MISTAKE)).await;
        assert_eq!(answer.status, status, "{}", answer.text);
        self.answers.push(format!("{:?} {}", answer.headers, answer.text));
    }

    /// A delivery with this header.
    async fn deliver(&mut self, body: &[u8], name: &str, value: String, status: u16) {
        let signature = value.rsplit(['=', ',']).find(|part| part.len() > 20).unwrap_or(&value).to_owned();
        self.signatures.push(signature);
        let request = self.client.request(Method::POST, "/events/feedser-export").header(name, value);
        self.send(request.header("content-type", "application/json").body(body.to_vec()), status).await;
    }
}

/// Every file below a folder, as bytes.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push((path.display().to_string(), std::fs::read(&path).unwrap()));
        }
    }
    found
}

fn contains(content: &[u8], wanted: &[u8]) -> bool {
    content.windows(wanted.len()).any(|window| window == wanted)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p12_no_secret_token_or_signature_is_in_logs_answers_or_files() {
    let kept = TempDir::new().unwrap();
    let token_file = kept.path().join("token");
    write_private(&token_file, SCANNER_TOKEN);
    let promises = Promises::start(Duration::ZERO);
    let mut settings = unhurried(&promises.server.url());
    settings["integrates"]["auth"] = json!({ "tokenFile": token_file });
    settings["telemetry"] = json!({ "otlpEndpoint": format!("http://me:{COLLECTOR_PASSWORD}@127.0.0.1:9") });
    let mut service = Service::prepare(settings);
    service.logs_everything();
    service.spawn().await;
    let client = service.client("default");
    client.put(&format!("/images/{}/bom-index", crate::catalog::digest(1)), &sidecar(1)).await;
    client.subscribe("all").await;
    let mut talk = Talk { client: client.clone(), answers: Vec::new(), signatures: Vec::new() };
    let now = unix_now();
    let body = |id: &str| export(id, &["pkg:npm/common".to_owned()]).to_string().into_bytes();
    let own = "x-scheduler-signature";
    let good = body("good");
    talk.deliver(&good, own, sign("feedser-1", &good, now), 202).await;
    talk.deliver(&good, own, sign("feedser-1", &good, now), 200).await;
    talk.deliver(&body("other"), own, sign("feedser-1", &good, now), 401).await;
    talk.deliver(&good, own, sign("feedser-1", &good, now - 4000), 401).await;
    talk.deliver(&good, own, sign("vexer-1", &good, now), 401).await;
    talk.deliver(&good, own, sign("nobody", &good, now), 401).await;
    talk.deliver(&good, own, format!("keyId=feedser-1,t={now},alg=none,sig={}", STANDARD.encode(SECRET)), 401).await;
    // Somebody puts the secret where it does not belong.
    talk.deliver(&good, own, format!("keyId={SECRET},t={now},alg=hmac-sha256,sig={}", STANDARD.encode([7; 32])), 401)
        .await;
    talk.deliver(&good, own, SECRET.to_owned(), 401).await;
    talk.deliver(&good, "webhook-signature", format!("v1,{}", STANDARD.encode(SECRET)), 401).await;
    let unusable = br#"{"exportId":"bad","changedProductKeys":["no key"]}"#;
    talk.deliver(unusable, own, sign("feedser-1", unusable, now), 400).await;
    talk.deliver(b"no json", own, sign("feedser-1", b"no json", now), 400).await;
    let run = client.all("/runs").await;
    let run = match run.first() {
        Some(run) => run["id"].as_str().unwrap().to_owned(),
        None => client.start_run(&json!({})).await,
    };
    client.ended(&run).await;
    for path in
        ["/runs", &format!("/runs/{run}/images"), "/images", "/schedules", "/admin/index", "/metrics", "/readyz"]
    {
        talk.send(client.request(Method::GET, path), 200).await;
    }
    let asked = promises.server.calls();
    assert!(asked.iter().any(|call| call.header("authorization").contains(SCANNER_TOKEN)), "the token is in use");
    assert_eq!(service.stop().await, Some(0));

    let mut secrets: Vec<(String, Vec<u8>)> = Vec::new();
    let collector = format!("me:{COLLECTOR_PASSWORD}");
    let sent = SENT_BY_MISTAKE.trim_start_matches("Bearer ");
    for secret in [SECRET, SCANNER_TOKEN, COLLECTOR_PASSWORD, &collector, sent] {
        let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
        let base64 = STANDARD.encode(secret).trim_end_matches('=').to_owned();
        secrets.extend([secret.to_owned(), hex, base64].map(|form| (form.clone(), form.into_bytes())));
    }
    for signature in &talk.signatures {
        let signature = signature.trim_end_matches('=');
        secrets.push((signature.to_owned(), signature.as_bytes().to_vec()));
        if let Ok(raw) = STANDARD.decode(format!("{signature}=")) {
            secrets.push((format!("the bytes of {signature}"), raw));
        }
    }
    let mut places = files(service.data());
    places.push(("the log".to_owned(), service.log().into_bytes()));
    places.push(("the answers".to_owned(), talk.answers.join("\n").into_bytes()));
    assert!(places.iter().map(|(_, content)| content.len()).sum::<usize>() > 10_000, "there is something to look at");
    for (place, content) in &places {
        for (name, secret) in &secrets {
            assert!(!contains(content, secret), "{name} is in {place}");
        }
    }
}
