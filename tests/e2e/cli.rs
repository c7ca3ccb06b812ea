//! The program at a terminal, in a pipe, and where something is wrong: exit codes, sentences with the way out, no colours in files.

use crate::service::{Service, write_private};
use serde_json::json;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stella-scheduler"));
    command.stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// It fails with this code, with nothing on stdout, and says all of this.
fn fails(output: &Output, code: i32, said: &[&str]) {
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!((output.status.code(), stdout.as_str()), (Some(code), ""), "{stderr}");
    for part in said {
        assert!(stderr.contains(part), "`{part}` is not in: {stderr}");
    }
    assert!(stderr.starts_with("error: "), "{stderr}");
}

fn serve(folder: &Path, yaml: &str, variables: &[(&str, &str)]) -> Output {
    let config = folder.join("config.yaml");
    std::fs::write(&config, yaml).unwrap();
    let mut command = program();
    command.args(["--config", config.to_str().unwrap(), "serve"]).envs(variables.iter().copied()).current_dir(folder);
    command.output().unwrap()
}

#[test]
fn a_configuration_that_is_wrong_is_answered_with_the_key_and_the_way_out() {
    let folder = TempDir::new().unwrap();
    for (yaml, variables, said) in [
        ("scheduler: { lstien: x }", vec![], ["lstien", "did you mean `listen`?"]),
        ("scheduler: { limits: { maxJobsPerRun: many } }", vec![], ["limits.maxJobsPerRun", "wanted a whole number"]),
        ("scheduler:\n  listen: '127.0.0.1:1'\n  listen: '127.0.0.1:2'", vec![], ["`listen` is there twice", "line 3"]),
        ("scheduler: { telemetry: 5 }", vec![], ["telemetry", "keys with values"]),
        (
            "scheduler: { integrates: { scannerUrl: 'http://a:hunter2@h/?q' } }",
            vec![],
            ["integrates.scannerUrl", "query"],
        ),
        (
            "scheduler: {}",
            vec![("SCHEDULER__LIMITS__MAXJOBPERRUN", "5")],
            ["SCHEDULER__LIMITS__MAXJOBPERRUN", "did you mean SCHEDULER__LIMITS__MAXJOBSPERRUN?"],
        ),
        (
            "scheduler: {}",
            vec![("SCHEDULER__LIMITS__MAXJOBSPERRUN", "many")],
            ["limits.maxJobsPerRun", "the variable SCHEDULER__LIMITS__MAXJOBSPERRUN says so"],
        ),
    ] {
        let output = serve(folder.path(), yaml, &variables);
        fails(&output, 1, &said);
        assert!(!text(&output.stderr).contains("hunter2"), "{yaml}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_service_is_told_what_the_first_one_holds() {
    let service = Service::start(json!({})).await;
    let folder = TempDir::new().unwrap();
    let address = service.url().trim_start_matches("http://").to_owned();
    let output = serve(folder.path(), &format!("scheduler: {{ listen: '{address}' }}"), &[]);
    fails(&output, 1, &[&address, "in use", "SCHEDULER__LISTEN"]);
    let metrics =
        json!({ "scheduler": { "listen": "127.0.0.1:0", "telemetry": { "metricsListen": address } } }).to_string();
    fails(&serve(folder.path(), &metrics, &[]), 1, &[&address, "in use", "telemetry.metricsListen"]);
    let held = json!({ "scheduler": { "listen": "127.0.0.1:0", "dataDir": service.data() } }).to_string();
    fails(&serve(folder.path(), &held, &[]), 1, &["is in use by another process", "--data-dir"]);
}

#[test]
fn wrong_usage_is_2_and_tells_the_possible_values() {
    for (arguments, said) in [
        (&["schedule", "create", "--name", "a", "--on", "nobody"][..], &["feedser", "vexer"][..]),
        (&["run", "images", "r", "--outcome", "good"], &["delta", "unchanged", "failed", "skipped"]),
        (&["run", "list", "--state", "gone"], &["planning", "cancelled"]),
        (&["event", "post", "--source", "feedser", "--key-id", "k", "-"], &["--secret-file", "--private-key-file"]),
        (&["image", "list", "--limit", "0"], &["--limit", "from 1"]),
        (&["run", "list", "--limit", "0"], &["--limit", "from 1"]),
        (&["run", "start", "--file", "f", "--key", "pkg:npm/a"], &["--file", "--key", "cannot be used with"]),
        (&["run", "start", "--file", "f", "--namespace", "n"], &["--file", "--namespace", "cannot be used with"]),
        (&["run", "start", "--file", "f", "--reason", "r"], &["--file", "--reason", "cannot be used with"]),
        (&["schedule", "create", "--file", "f", "--namespace", "n"], &["--file", "cannot be used with"]),
        (&["--tenant", "a b", "image", "list"], &["--tenant", "1 to 64"]),
    ] {
        fails(&program().args(arguments).output().unwrap(), 2, said);
    }
    let nowhere = program().args(["--server", "http://me:hunter2@127.0.0.1:9", "run", "list"]).output().unwrap();
    fails(&nowhere, 1, &["cannot reach http://127.0.0.1:9", "stella-scheduler serve"]);
    let folder = TempDir::new().unwrap();
    let nothing = program().args(["image", "import"]).arg(folder.path()).output().unwrap();
    fails(&nothing, 1, &["nothing to import", ".json"]);
}

#[test]
fn a_file_that_asks_for_nothing_is_no_question() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file");
    for (content, arguments, said) in [
        ("[1]", &["preview", "--export"][..], "no export"),
        ("{\"foo\": 1}", &["preview", "--export"], "no export"),
        ("{\"changedClaims\": []}", &["preview", "--export"], "Vexer"),
        ("", &["preview", "--keys-file"], "no key"),
        ("# none\n\n", &["run", "start", "--keys-file"], "no key"),
    ] {
        std::fs::write(&file, content).unwrap();
        fails(&program().args(arguments).arg(&file).output().unwrap(), 1, &[said, "file"]);
    }
}

#[test]
fn the_demo_is_one_document_when_it_is_asked_for_one() {
    let output = program().args(["demo", "--images", "24", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let figures: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(figures["images"], json!(24));
    assert!(text(&output.stderr).contains("[6/6]"), "{}", text(&output.stderr));
}

#[test]
fn a_reader_that_has_enough_is_no_failure_and_a_full_disk_is_one() {
    let shell = |script: &str| {
        let program = env!("CARGO_BIN_EXE_stella-scheduler");
        Command::new("bash").args(["-c", &script.replace("PROGRAM", program)]).output().unwrap()
    };
    for command in ["openapi", "completions bash", "--help"] {
        let output = shell(&format!("PROGRAM {command} | head -1 > /dev/null; exit ${{PIPESTATUS[0]}}"));
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{command}");
    }
    let full = shell("PROGRAM openapi > /dev/full");
    assert_eq!(full.status.code(), Some(1));
    assert!(text(&full.stderr).contains("No space left"), "{}", text(&full.stderr));
}

#[test]
fn completions_know_commands_options_and_values() {
    for shell in ["bash", "zsh", "fish"] {
        let output = program().args(["completions", shell]).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        let script = text(&output.stdout);
        for word in ["schedule", "doctor", "keys-file", "content-refresh", "unchanged", "vexer"] {
            assert!(script.contains(word), "{shell} does not complete {word}");
        }
        if shell == "bash" {
            let folder = TempDir::new().unwrap();
            std::fs::write(folder.path().join("c"), script).unwrap();
            assert!(Command::new("bash").arg("-n").arg(folder.path().join("c")).status().unwrap().success());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_to_files_has_no_colours() {
    let mut service = Service::start(json!({ "telemetry": { "logFormat": "pretty" } })).await;
    assert_eq!(service.stop().await, Some(0));
    assert!(service.log().contains("draining") && !service.log().contains('\u{1b}'), "{}", service.log());
    let help = program().arg("--help").output().unwrap();
    assert!(!text(&help.stdout).contains('\u{1b}'));
}

/// What `doctor` says of one subject.
fn doctor_line(subject: &str, folder: &Path, settings: serde_json::Value) -> String {
    let config = folder.join("config.yaml");
    std::fs::write(&config, json!({ "scheduler": settings }).to_string()).unwrap();
    let output = program().arg("--config").arg(&config).arg("doctor").output().unwrap();
    let said = text(&output.stdout);
    said.lines().find(|line| line.contains(&format!("  {subject}  "))).unwrap_or_else(|| panic!("{said}")).to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_fails_a_port_that_another_program_has_and_passes_the_services_own() {
    let folder = TempDir::new().unwrap();
    let other = crate::foreign::yes_sayer().replace("http://", "");
    let metrics = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let service = Service::start(json!({ "telemetry": { "metricsListen": metrics } })).await;
    let own = service.url().trim_start_matches("http://").to_owned();
    let data = folder.path().join("data");
    for (listen, metrics, words) in [
        ("127.0.0.1:0", "127.0.0.1:0", ["PASS", "can be had"]),
        (own.as_str(), metrics.as_str(), ["PASS", "running service's"]),
        (&other, "", ["FAIL", "configuration key listen"]),
        ("127.0.0.1:0", &other, ["FAIL", "configuration key telemetry.metricsListen"]),
        (&own, &other, ["FAIL", "configuration key telemetry.metricsListen"]),
        ("127.0.0.1:0", &metrics, ["FAIL", "configuration key telemetry.metricsListen"]),
    ] {
        let line = doctor_line(
            "ports",
            folder.path(),
            json!({ "listen": listen, "dataDir": data, "telemetry": { "metricsListen": metrics } }),
        );
        assert!(words.iter().all(|word| line.contains(word)), "{listen} {metrics}: {line}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_tells_what_the_next_start_does_with_the_index() {
    let folder = TempDir::new().unwrap();
    let mut services = Vec::new();
    for _ in 0..2 {
        let mut service = Service::start(json!({})).await;
        let put = format!("/images/{}/bom-index", crate::catalog::digest(1));
        assert!(service.client("default").put(&put, &crate::catalog::sidecar(1)).await.is_success());
        assert_eq!(service.stop().await, Some(0));
        services.push(service);
    }
    let [own, other] = [0, 1].map(|at: usize| services[at].data().join("index"));
    let settings = json!({ "listen": "127.0.0.1:0", "dataDir": services[0].data() });
    let check = |words: &[&str]| {
        let line = doctor_line("index", folder.path(), settings.clone());
        assert!(words.iter().all(|word| line.contains(word)), "{line}");
    };
    check(&["PASS", "1 images, 0 changes"]);
    std::fs::remove_dir_all(&own).unwrap();
    check(&["PASS", "there is none yet"]);
    // That of another catalog with the same image.
    std::fs::rename(&other, &own).unwrap();
    check(&["WARN", "not of this catalog", "builds it anew"]);
    std::fs::remove_dir_all(&own).unwrap();
    std::os::unix::fs::symlink(folder.path().join("nowhere"), &own).unwrap();
    check(&["FAIL", "is no folder"]);
    let refused = program().args(["serve", "--data-dir"]).arg(services[0].data()).output().unwrap();
    let said = text(&refused.stderr);
    assert!(!refused.status.success() && said.contains("of the impact index cannot be made"), "{said}");
}

#[test]
fn p12_doctor_shows_no_secret() {
    let folder = TempDir::new().unwrap();
    let secret = folder.path().join("secret");
    write_private(&secret, "doctor-secret-0a1b2c3d4e5f");
    let config = folder.path().join("config.yaml");
    let settings = json!({ "scheduler": {
        "listen": "127.0.0.1:9", "dataDir": folder.path().join("data"),
        "integrates": { "scannerUrl": "http://me:hunter2@127.0.0.1:9", "timeoutSeconds": 1, "auth": { "tokenFile": secret } },
        "telemetry": { "otlpEndpoint": "http://me:hunter3@127.0.0.1:9" },
        "webhooks": { "keys": [{ "id": "f", "source": "feedser", "algorithm": "hmac-sha256", "secretFile": secret }] },
    } });
    std::fs::write(&config, settings.to_string()).unwrap();
    for form in [&["doctor"][..], &["doctor", "--json"]] {
        let output = program().arg("--config").arg(&config).args(form).output().unwrap();
        let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(1), "the scanner is away: {said}");
        for word in ["hunter", "doctor-secret"] {
            assert!(!said.contains(word), "{word} is in {said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_drains_and_a_second_one_ends_at_once() {
    // A scanner that takes a call and never answers holds the drain up for the whole grace.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let scanner = format!("http://{}", silent.local_addr().unwrap());
    let settings = json!({
        "integrates": { "scannerUrl": scanner, "timeoutSeconds": 500 }, "queue": { "leaseSeconds": 600 },
        "shutdown": { "graceSeconds": 300 },
    });
    let mut service = Service::start(settings).await;
    let client = service.client("default");
    client.put(&format!("/images/{}/bom-index", crate::catalog::digest(1)), &crate::catalog::sidecar(1)).await;
    client.start_run(&json!({})).await;
    let (_call, _) = silent.accept().unwrap();
    service.signal("INT");
    crate::client::eventually("the drain", async || service.log().contains("once more").then_some(())).await;
    service.signal("INT");
    let ended = tokio::time::timeout(Duration::from_secs(60), service.ended()).await;
    assert_eq!(ended.unwrap(), Some(1), "{}", service.log());
    assert!(service.log().contains("interrupted twice"), "{}", service.log());
}
