//! The program against a server that is no stella-scheduler and says yes to everything.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};

/// A server that answers 200 and a document of its own to everything, until the test's process ends.
pub fn yes_sayer() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(&mut stream));
        }
    });
    format!("http://{address}")
}

/// Reads one request to its end and answers it.
fn answer(stream: &mut std::net::TcpStream) -> Option<()> {
    let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
    let body_from = loop {
        let read = stream.read(&mut buffer).ok().filter(|read| *read > 0)?;
        request.extend_from_slice(&buffer[..read]);
        if let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let head = String::from_utf8_lossy(&request[..body_from]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap());
    while request.len() < body_from + length {
        let read = stream.read(&mut buffer).ok().filter(|read| *read > 0)?;
        request.extend_from_slice(&buffer[..read]);
    }
    let said = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n{\"hello\":1}";
    stream.write_all(said.as_bytes()).ok()
}

#[test]
fn no_verb_takes_another_servers_yes_for_success() {
    let server = yes_sayer();
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    let digest = format!("sha256:{}", "a".repeat(64));
    let sbom = put(
        "sbom.json",
        r#"{"bomFormat": "CycloneDX", "specVersion": "1.5", "components": [{"type": "library", "name": "a", "purl": "pkg:npm/a@1"}]}"#,
    );
    let sidecar = put("sidecar.json", &crate::catalog::sidecar(1).to_string());
    let (patch, secret) = (put("patch.json", "{}"), put("secret", "0123456789abcdef0123456789abcdef"));
    let snapshot = folder.path().join("snapshot").display().to_string();
    let event = ["event", "post", "--source", "feedser", "--key-id", "k", "--secret-file", &secret, &patch];
    let verbs: [&[&str]; 23] = [
        &["schedule", "create", "--name", "a"],
        &["schedule", "list"],
        &["schedule", "get", "s"],
        &["schedule", "update", "s", "--file", &patch],
        &["schedule", "pause", "s"],
        &["schedule", "resume", "s"],
        &["schedule", "delete", "s"],
        &["schedule", "next", "--id", "s"],
        &["run", "start"],
        &["run", "start", "--watch"],
        &["run", "list"],
        &["run", "get", "r"],
        &["run", "watch", "r"],
        &["run", "cancel", "r"],
        &["image", "import", &sbom],
        &["image", "import", &sidecar],
        &["image", "list"],
        &["image", "get", &digest],
        &["image", "remove", &digest],
        &["preview", "--key", "pkg:npm/a"],
        &event,
        &["index", "stats"],
        &["doctor", "why", &digest, "CVE-1"],
    ];
    let index: [&[&str]; 2] = [&["index", "verify"], &["index", "rebuild"]];
    for form in [&[][..], &["--json"]] {
        for verb in verbs.iter().chain(&index) {
            let mut program = Command::new(env!("CARGO_BIN_EXE_stella-scheduler"));
            let output =
                program.args(["--server", &server]).args(form).args(*verb).stdin(Stdio::null()).output().unwrap();
            let (said, told) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
            assert_eq!((output.status.code(), &*told), (Some(1), ""), "{verb:?}: {said}");
            assert!(said.contains("is it a stella-scheduler?"), "{verb:?}: {said}");
        }
    }
    let mut program = Command::new(env!("CARGO_BIN_EXE_stella-scheduler"));
    let output = program.args(["--server", &server, "index", "snapshot", &snapshot]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!std::path::Path::new(&snapshot).exists());
}
