//! A document of 300 MB passes through, packed or not, in bounded memory.

use crate::catalog::digest;
use crate::client::{Client, eventually};
use crate::service::Service;
use bytes::Bytes;
use reqwest::Method;
use serde_json::{Value, json};
use std::io::Read;

const DOCUMENT_BYTES: usize = 300 << 20;
const COMPONENTS: usize = 60_000;

/// What one upload may add to the service's memory, in MiB.
const GROWTH_MIB_MAX: u64 = 150;

/// A CycloneDX document that is made while it is read: components with much that does not matter.
struct Generated {
    part: Vec<u8>,
    read: usize,
    next: usize,
    text: String,
}

impl Generated {
    fn new(bytes: usize, components: usize) -> Self {
        // A licence's text; not one letter over and over, so that packing it is some work.
        let length = bytes / components;
        let text = (0..length).map(|at| char::from(b'a' + u8::try_from(at * at % 23).unwrap())).collect();
        Self {
            part: br#"{"bomFormat":"CycloneDX","specVersion":"1.6","components":["#.to_vec(),
            read: 0,
            next: 0,
            text,
        }
    }

    /// The next part; empty at the end.
    fn refill(&mut self, components: usize) {
        self.read = 0;
        self.part = match self.next {
            number if number < components => {
                let comma = if number == 0 { "" } else { "," };
                let text = &self.text;
                format!(
                    r#"{comma}{{"type":"library","name":"n{number}","purl":"pkg:npm/p{number}@1.0.0","licenses":[{{"license":{{"text":{{"content":"{number}{text}"}}}}}}]}}"#
                )
                .into_bytes()
            }
            number if number == components => b"]}".to_vec(),
            _ => Vec::new(),
        };
        self.next += 1;
    }
}

impl Read for Generated {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.read == self.part.len() {
            self.refill(COMPONENTS);
        }
        let count = (&self.part[self.read..]).read(buffer)?;
        self.read += count;
        Ok(count)
    }
}

/// What a reader gives, as a body that is sent while it is read.
fn body(mut reader: impl Read + Send + 'static) -> reqwest::Body {
    let (sender, receiver) = tokio::sync::mpsc::channel::<std::io::Result<Bytes>>(4);
    std::thread::spawn(move || {
        loop {
            let mut part = vec![0; 256 << 10];
            let count = reader.read(&mut part).unwrap();
            part.truncate(count);
            // The service has answered before the end.
            if count == 0 || sender.blocking_send(Ok(part.into())).is_err() {
                return;
            }
        }
    });
    let parts = futures::stream::unfold(receiver, async |mut parts| Some((parts.recv().await?, parts)));
    reqwest::Body::wrap_stream(parts)
}

async fn service(max_body_bytes: usize) -> (Service, Client) {
    let service = Service::start(json!({ "limits": { "maxBodyBytes": max_body_bytes } })).await;
    let client = service.client("default");
    (service, client)
}

fn put(client: &Client, number: usize) -> reqwest::RequestBuilder {
    client.request(Method::PUT, &format!("/images/{}/sbom?repository=shop/large", digest(number)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sbom_13_a_document_of_300_mb_is_taken_in_bounded_memory() {
    let (service, client) = service(400 << 20).await;
    let generated = || Generated::new(DOCUMENT_BYTES, COMPONENTS);
    let small = put(&client, 0).body(r#"{"bomFormat":"CycloneDX","specVersion":"1.6","components":[]}"#);
    assert_eq!(client.send(small).await.status, 201);
    let before = service.resident_mib();
    let plain = client.send(put(&client, 1).body(body(generated()))).await;
    let packed = zstd::stream::read::Encoder::new(std::io::BufReader::new(generated()), 1).unwrap();
    let packed = client.send(put(&client, 2).header("content-encoding", "zstd").body(body(packed))).await;
    let gzip = flate2::read::GzEncoder::new(generated(), flate2::Compression::fast());
    let gzip = client.send(put(&client, 3).header("content-encoding", "gzip").body(body(gzip))).await;
    let growth = service.peak_mib().saturating_sub(before);
    println!("{growth} MiB more");
    for answer in [plain, packed, gzip] {
        assert_eq!((answer.status, &answer.body["components"]), (201, &json!(COMPONENTS)), "{}", answer.text);
    }
    assert!(growth < GROWTH_MIB_MAX, "{growth} MiB more");
    let preview = client.post("/preview/impact", &json!({ "keys": ["pkg:npm/p59999"] })).await;
    assert_eq!(preview.body["candidates"], 3, "the last component is in the index");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_document_over_the_limit_or_broken_is_refused_and_changes_nothing() {
    const LIMIT: usize = 8 << 20;
    let (_service, client) = service(LIMIT).await;
    let document = |bytes: usize| -> Vec<u8> {
        let text = r#"{"bomFormat":"CycloneDX","specVersion":"1.6","components":[{"purl":"pkg:npm/a@1"}]}"#;
        let mut content = text.as_bytes().to_vec();
        content.resize(bytes, b' ');
        content
    };
    let mut ends_early = document(6 << 20);
    ends_early[100] = b'x';
    let mut malformed = document(6 << 20);
    malformed[(6 << 20) - 1] = b'x';
    let zstd = |content: &[u8]| zstd::encode_all(content, 1).unwrap();
    let mut torn = zstd(&document(6 << 20));
    torn.truncate(torn.len() / 2);
    let noise: Vec<u8> = (0u32..6 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24).to_le_bytes()[0]).collect();
    let mut cases = vec![
        ("at the limit", None, document(LIMIT), 201, ""),
        ("over the limit", None, document(LIMIT + 1), 413, "body-too-large"),
        ("packed, at the limit", Some("zstd"), zstd(&document(LIMIT)), 201, ""),
        ("packed, over the limit", Some("zstd"), zstd(&document(LIMIT + 1)), 413, "body-too-large"),
        ("rubbish early", None, ends_early, 400, "malformed-json"),
        ("rubbish at the end", None, malformed, 400, "malformed-json"),
        ("a torn packing", Some("zstd"), torn, 400, "bad-encoding"),
        ("no packing at all", Some("gzip"), noise.clone(), 400, "bad-encoding"),
        ("no packing at all", Some("zstd"), noise, 400, "bad-encoding"),
        ("an unknown packing", Some("br"), document(6 << 20), 415, "unsupported-encoding"),
    ];
    for (number, (what, encoding, content, status, code)) in cases.drain(..).enumerate() {
        for announced in [true, false] {
            let path = number * 2 + usize::from(announced);
            let mut request = put(&client, path);
            if let Some(encoding) = encoding {
                request = request.header("content-encoding", encoding);
            }
            let request = if announced {
                request.body(content.clone())
            } else {
                request.body(body(std::io::Cursor::new(content.clone())))
            };
            // Where the service answers before the end, the connection may break before the answer is read.
            let Some(answer) = client.try_send(request).await else {
                assert!([413, 415].contains(&status), "{what}: no answer");
                continue;
            };
            assert_eq!((answer.status, answer.code()), (status, code), "{what}: {}", answer.text);
            // After a refusal in the middle of a body the connection closes, perhaps under the next request.
            let image = format!("/images/{}", digest(path));
            let look = async || client.try_send(client.request(Method::GET, &image)).await;
            let there = eventually("the image to be asked about", look).await.status;
            assert_eq!(there, if status == 201 { 200 } else { 404 }, "{what}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_that_is_cut_is_not_taken() {
    let (_service, client) = service(64 << 20).await;
    for bytes in [1 << 20, 20 << 20] {
        let parts: Vec<std::io::Result<Bytes>> =
            std::iter::once(r#"{"bomFormat":"CycloneDX","specVersion":"1.6"}"#.into())
                .chain((0..bytes / 1024).map(|_| Bytes::from(vec![b' '; 1024])))
                .map(Ok)
                .chain([Err(std::io::Error::other("cut"))])
                .collect();
        let request = put(&client, bytes).body(reqwest::Body::wrap_stream(futures::stream::iter(parts)));
        assert!(client.try_send(request).await.is_none(), "the sender broke off");
        let list: Value = client.get("/images").await.body;
        assert_eq!(list["items"], json!([]), "{bytes} bytes were enough of a document, and it was cut");
    }
}
