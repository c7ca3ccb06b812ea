//! A started binary and the ways to end it.

use crate::client::Client;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// The secret of the webhook keys that every service here has.
pub const SECRET: &str = "e2e-secret-5f0c2f7b9a614e0d";

/// How long a start may take; the machine may be busy.
const START_MAX: Duration = Duration::from_secs(60);

/// A service with its folder, which outlives its processes.
pub struct Service {
    folder: TempDir,
    data: PathBuf,
    config: PathBuf,
    child: Option<Child>,
    address: String,
    log_filter: &'static str,
}

impl Service {
    /// Starts one with these members of `scheduler:`, as JSON (which is YAML).
    pub async fn start(settings: serde_json::Value) -> Self {
        let mut service = Self::prepare(settings);
        service.spawn().await;
        service
    }

    /// A service that is configured and not started.
    pub fn prepare(settings: serde_json::Value) -> Self {
        let folder = TempDir::new().unwrap();
        let data = folder.path().join("data");
        Self::prepare_at(folder, data, settings)
    }

    /// The same with its data elsewhere.
    pub fn prepare_at(folder: TempDir, data: PathBuf, mut settings: serde_json::Value) -> Self {
        let secret = folder.path().join("secret");
        write_private(&secret, SECRET);
        settings["listen"] = "127.0.0.1:0".into();
        let key = |id: &str, source: &str| serde_json::json!({ "id": id, "source": source, "algorithm": "hmac-sha256", "secretFile": secret });
        settings["webhooks"]["keys"] = serde_json::json!([key("feedser-1", "feedser"), key("vexer-1", "vexer")]);
        let config = folder.path().join("config.yaml");
        std::fs::write(&config, serde_json::json!({ "scheduler": settings }).to_string()).unwrap();
        Self { folder, data, config, child: None, address: String::new(), log_filter: "info" }
    }

    /// Lets its next processes log all that they can.
    pub fn logs_everything(&mut self) {
        self.log_filter = "trace";
    }

    /// Where it keeps its data.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// All that its processes have said so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Starts the process; returns when it answers.
    pub async fn spawn(&mut self) {
        self.spawn_as(&[]).await;
    }

    /// Starts it under another program, such as a tracer; returns when it answers.
    pub async fn spawn_as(&mut self, wrapper: &[&str]) {
        let said_before = self.log().len();
        self.begin(wrapper);
        self.ready(said_before).await;
    }

    /// Starts the process and does not wait.
    pub fn begin(&mut self, wrapper: &[&str]) {
        let log = File::options().create(true).append(true).open(self.log_path()).unwrap();
        let binary = env!("CARGO_BIN_EXE_stella-scheduler");
        let mut words = wrapper.iter().copied().chain([binary]);
        let mut command = Command::new(words.next().unwrap());
        command.args(words).arg("--config").arg(&self.config).arg("serve").arg("--data-dir").arg(&self.data);
        command.env("RUST_LOG", self.log_filter).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.child = Some(command.spawn().unwrap());
    }

    /// Starts the process, which ends by itself; gives what it said.
    pub async fn fails_to_start(&mut self) -> String {
        let said_before = self.log().len();
        self.begin(&[]);
        let mut child = self.child.take().unwrap();
        let ended = tokio::task::spawn_blocking(move || {
            let ended = child.wait().unwrap();
            (child, ended)
        });
        let (_, ended) = tokio::time::timeout(START_MAX, ended).await.unwrap().unwrap();
        assert_eq!(ended.code(), Some(1));
        self.log().split_off(said_before)
    }

    async fn ready(&mut self, said_before: usize) {
        let deadline = tokio::time::Instant::now() + START_MAX;
        self.address = loop {
            let log = self.log();
            let said = log.get(said_before..).unwrap_or_default();
            // A line without its end is still being written.
            let whole = said.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
            if let Some(line) = whole.into_iter().find_map(|line| line.strip_prefix("listening on ")) {
                break line.to_owned();
            }
            let ended = self.child.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none() && tokio::time::Instant::now() < deadline, "it does not start ({ended:?}): {said}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let health = self.client("default").get("/healthz").await;
        assert_eq!(health.status, 200);
    }

    /// Host and port.
    pub fn socket(&self) -> &str {
        self.address.trim_start_matches("http://")
    }

    /// Who speaks for a tenant.
    pub fn client(&self, tenant: &str) -> Client {
        Client::new(&self.address, tenant)
    }

    /// The process's id.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// kill -9, at once.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Where it is reached.
    pub fn url(&self) -> &str {
        &self.address
    }

    /// Sends a signal, as `TERM`, and does not wait.
    pub fn signal(&self, name: &str) {
        // `kill` and not a system call of ours: that would be unsafe code.
        drop(Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]).status());
    }

    /// Sends SIGTERM and does not wait.
    pub fn ask_to_end(&self) {
        self.signal("TERM");
    }

    /// SIGTERM; gives the exit code.
    pub async fn stop(&mut self) -> Option<i32> {
        self.ask_to_end();
        self.ended().await
    }

    /// Waits for the process to end; gives the exit code.
    pub async fn ended(&mut self) -> Option<i32> {
        let mut child = self.child.take().unwrap();
        let ended = tokio::task::spawn_blocking(move || child.wait().unwrap());
        tokio::time::timeout(START_MAX, ended).await.unwrap().unwrap().code()
    }

    /// Resident memory now, in MiB.
    pub fn resident_mib(&self) -> u64 {
        self.status_kib("VmRSS:") / 1024
    }

    /// The highest resident memory since the start, in MiB.
    pub fn peak_mib(&self) -> u64 {
        self.status_kib("VmHWM:") / 1024
    }

    fn status_kib(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A file that only its owner may read.
pub fn write_private(path: &Path, content: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, content).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}
