//! The documentation: commands on its pages work, links lead somewhere.
//!
//! Blocks of the language `sh` are run, in the order of the page, in one folder, in which `docs` lies as in the clone. A word behind
//! `sh` says more: `background` starts the block and goes on, `eventually` repeats it until it succeeds. Blocks of the language
//! `console` are for what a test cannot run (building the clone, tools of others). A page that starts no service gets one that is
//! configured as in the README, with the sample SBOMs in its catalog.

use crate::markdown::{Block, anchors, blocks, links};
use std::fs::File;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::Instant;

/// How long anything may take that a page waits for.
const PATIENCE: Duration = Duration::from_secs(90);

/// What a block may be.
const LANGUAGES: [&str; 9] = ["sh", "console", "text", "mermaid", "json", "yaml", "http", "python", "toml"];

/// The service as the README configures it.
const CONFIGURE: &str = "stella-scheduler keys generate --out keys > scheduler.yaml
echo '  integrates: { scannerUrl: \"http://127.0.0.1:9090\" }' >> scheduler.yaml";
const SCANNER: &str = "python3 docs/howto/scanner.py";
const SERVE: &str = "stella-scheduler --config scheduler.yaml serve";
const FILL: &str = "stella-scheduler image import docs/start/sboms";

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn readme() -> PathBuf {
    root().join("README.md")
}

/// Every page, by its path in the clone.
fn pages() -> Vec<PathBuf> {
    fn below(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                below(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    let mut found = vec![readme(), root().join("tests/README.md")];
    below(&root().join("docs"), &mut found);
    found.sort();
    found
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Where the commands of a page run.
struct Stage {
    folder: TempDir,
    service_port: u16,
    scanner_port: u16,
    background: Vec<Child>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        for mut child in self.background.drain(..) {
            // With whatever the block has started.
            drop(Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]).status());
            drop(child.wait());
        }
    }
}

impl Stage {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let stage = Self { folder, service_port: free_port(), scanner_port: free_port(), background: Vec::new() };
        stage.copy(&root().join("docs"), &stage.path("docs"));
        std::fs::create_dir(stage.path("bin")).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_stella-scheduler"), stage.path("bin/stella-scheduler")).unwrap();
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The ports of the pages may be taken on the machine of the tests; these are the stage's own.
    fn here(&self, text: &str) -> String {
        text.replace("8585", &self.service_port.to_string()).replace("9090", &self.scanner_port.to_string())
    }

    fn copy(&self, from: &Path, to: &Path) {
        std::fs::create_dir(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            let target = to.join(path.file_name().unwrap());
            if path.is_dir() {
                self.copy(&path, &target);
            } else {
                std::fs::write(target, self.here(&std::fs::read_to_string(path).unwrap())).unwrap();
            }
        }
    }

    fn shell(&self, script: &str, output: &Path) -> Command {
        let log = File::options().create(true).append(true).open(output).unwrap();
        let mut command = Command::new("bash");
        // As in one terminal, variables of a block are there in later ones.
        let script =
            format!("set -a; [ ! -f .variables ] || . ./.variables\n{}\nexport -p > .variables", self.here(script));
        command.args(["-euo", "pipefail", "-c", &script]).current_dir(self.folder.path());
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        command.env("PATH", path).env("SCHEDULER__LISTEN", format!("127.0.0.1:{}", self.service_port));
        command.env("SCHEDULER_SERVER", format!("http://127.0.0.1:{}", self.service_port));
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).process_group(0);
        command
    }

    fn said(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Starts a block and goes on; a service, when it answers.
    async fn start(&mut self, script: &str) {
        let name = format!("background-{}", self.background.len());
        let child = self.shell(script, &self.path(&name)).spawn().unwrap();
        self.background.push(child);
        let began = Instant::now();
        while script.contains(" serve") && !self.said(&name).contains("listening on") {
            assert!(began.elapsed() < PATIENCE, "it does not listen: {script}\n{}", self.said(&name));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Runs a block, where that is asked for until it succeeds.
    async fn run(&self, script: &str, again: bool, place: &str) {
        let began = Instant::now();
        loop {
            drop(std::fs::remove_file(self.path("output")));
            if self.shell(script, &self.path("output")).status().unwrap().success() {
                return;
            }
            let given_up = !again || began.elapsed() >= PATIENCE;
            assert!(!given_up, "{place} fails:\n{script}\n{}", self.said("output"));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// What the blocks in the background have said so far.
    fn heard(&self) -> String {
        (0..self.background.len()).map(|number| self.said(&format!("background-{number}"))).collect()
    }
}

/// Runs the commands of a page; `None` when it has none.
async fn run_page(page: &Path) -> Option<Stage> {
    let text = std::fs::read_to_string(page).unwrap();
    let blocks: Vec<Block> = blocks(&text).into_iter().filter(|block| block.language() == "sh").collect();
    if blocks.is_empty() {
        return None;
    }
    let mut stage = Stage::new();
    if !blocks.iter().any(|block| block.text.contains(" serve") || block.text.contains("scheduler demo")) {
        stage.run(CONFIGURE, false, "the setup").await;
        stage.start(SCANNER).await;
        stage.start(SERVE).await;
        stage.run(FILL, false, "the setup").await;
    }
    for block in blocks {
        let place = format!("{}:{}", page.display(), block.line);
        match block.words.get(1).map(String::as_str) {
            None => stage.run(&block.text, false, &place).await,
            Some("eventually") => stage.run(&block.text, true, &place).await,
            Some("background") => stage.start(&block.text).await,
            Some(other) => panic!("{place}: `sh {other}`"),
        }
    }
    Some(stage)
}

#[tokio::test]
async fn the_first_steps_of_the_readme_lead_to_a_delta() {
    let stage = run_page(&readme()).await.unwrap();
    let began = Instant::now();
    loop {
        let heard = stage.heard();
        if heard.contains("event: rescan.delta") && heard.contains("\"newCriticals\":1") {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{heard}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn the_commands_of_every_page_work() {
    let mut with_commands = 0;
    for page in pages().iter().filter(|page| **page != readme()) {
        with_commands += usize::from(run_page(page).await.is_some());
    }
    assert!(with_commands >= 8, "{with_commands} pages with commands");
}

#[test]
fn blocks_say_what_they_are_and_commands_do_not_hide() {
    for page in pages() {
        for block in blocks(&std::fs::read_to_string(&page).unwrap()) {
            let place = format!("{}:{}", page.display(), block.line);
            let language = block.language();
            assert!(LANGUAGES.contains(&language), "{place}: `{language}` is none of {LANGUAGES:?}");
            let is_command = |line: &str| line.starts_with("stella-scheduler ") || line.starts_with("curl ");
            let hidden = language != "sh" && block.text.lines().any(is_command);
            // Help texts show commands as text; a test of their own parses them.
            assert!(!hidden || page.ends_with("reference/cli.md"), "{place}: a command that no test runs");
        }
    }
}

#[test]
fn every_link_leads_somewhere() {
    let mut count = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for (line, target) in links(&text) {
            if target.starts_with("http") {
                continue;
            }
            let (path, anchor) = target.split_once('#').map_or((target.as_str(), None), |(path, at)| (path, Some(at)));
            let to = if path.is_empty() { page.clone() } else { page.parent().unwrap().join(path) };
            assert!(to.exists(), "{}:{line}: {target} is not there", page.display());
            if let Some(anchor) = anchor {
                let there = anchors(&std::fs::read_to_string(&to).unwrap());
                assert!(there.contains(anchor), "{}:{line}: {target}: no such heading: {there:?}", page.display());
            }
            count += 1;
        }
    }
    assert!(count > 50, "{count} links");
}
