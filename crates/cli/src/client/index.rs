//! `index`: asks the service, or, while it is down, its data folder.

use super::http::Request;
use super::output::cell;
use super::{Global, Output, Session};
use anyhow::{Context, anyhow, bail};
use clap::Subcommand;
use scheduler_core::ports::{CatalogStore, Feed, Store};
use scheduler_impact_index::SnapshotInfo;
use scheduler_store::{EmbeddedStore, OpenError};
use scheduler_worker::IndexHost;
use serde_json::{Value, json};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::NamedTempFile;
use tokio_util::sync::CancellationToken;

/// The ImpactIndex: look at it, compare it with the catalog, keep it, build it anew.
#[derive(Subcommand, Debug)]
pub enum IndexCommand {
    /// How large the index is and how far it is.
    #[command(after_help = "Examples:
  stella-scheduler index stats
  stella-scheduler index stats --data-dir ./data")]
    Stats(Place),
    /// Compares the index with one that is built from the catalog now; exit code 1 when they differ.
    #[command(after_help = "Examples:
  stella-scheduler index verify
  stella-scheduler index verify --data-dir ./data")]
    Verify(Place),
    /// Writes the index into one file, compressed and with a checksum.
    #[command(after_help = "Examples:
  stella-scheduler index snapshot index.snapshot
  stella-scheduler index snapshot index.snapshot --data-dir ./data")]
    Snapshot {
        /// The file; one that is there is replaced when the new one is whole.
        file: PathBuf,
        #[command(flatten)]
        place: Place,
    },
    /// Puts the index of a snapshot in the place of that of a service that is not running, and brings it up to the catalog.
    #[command(after_help = "Examples:
  stella-scheduler index restore index.snapshot --data-dir ./data")]
    Restore {
        /// The snapshot.
        file: PathBuf,
        /// The data folder.
        #[arg(long, value_name = "DIR")]
        data_dir: PathBuf,
    },
    /// Builds the index anew from the catalog and puts it in the old one's place.
    #[command(after_help = "Examples:
  stella-scheduler index rebuild
  stella-scheduler index rebuild --data-dir ./data")]
    Rebuild(Place),
}

/// Where the index is.
#[derive(clap::Args, Debug)]
pub struct Place {
    /// The data folder of a service that is not running, instead of asking one that is.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// Members that the index's figures have.
const STATS: [&str; 2] = ["state", "sequence"];

const FIELDS: &[(&str, &str)] = &[
    ("state", "/state"),
    ("storage", "/storage"),
    ("images", "/images"),
    ("packages", "/packages"),
    ("postings", "/postings"),
    ("bytes", "/bytes"),
    ("sequence", "/sequence"),
    ("checkpointed", "/checkpointedSequence"),
    ("catalog head", "/catalogHead"),
    ("generation", "/generation"),
];

const SNAPSHOT_FIELDS: &[(&str, &str)] = &[
    ("file", "/file"),
    ("sequence", "/sequence"),
    ("images", "/images"),
    ("postings", "/postings"),
    ("bytes", "/bytes"),
];

impl IndexCommand {
    /// Carries it out.
    pub async fn run(self, global: &Global) -> anyhow::Result<()> {
        let out = Output::new(global);
        let spinner = out.spinner(match &self {
            Self::Stats(_) => "looking",
            Self::Verify(_) => "comparing with the catalog",
            Self::Snapshot { .. } => "writing",
            Self::Restore { .. } => "reading",
            Self::Rebuild(_) => "building from the catalog",
        });
        let answer = match self.folder() {
            Some(folder) => self.local(folder).await,
            None => self.remote(&Session::new(global)?).await,
        };
        spinner.finish_and_clear();
        self.show(&out, &answer?)
    }

    /// The data folder to work on, without a service.
    fn folder(&self) -> Option<&Path> {
        match self {
            Self::Stats(place) | Self::Verify(place) | Self::Snapshot { place, .. } | Self::Rebuild(place) => {
                place.data_dir.as_deref()
            }
            Self::Restore { data_dir, .. } => Some(data_dir),
        }
    }

    fn show(&self, out: &Output, answer: &Value) -> anyhow::Result<()> {
        match self {
            Self::Stats(_) => out.thing(answer, "/sequence", FIELDS),
            Self::Snapshot { .. } => out.thing(answer, "/sequence", SNAPSHOT_FIELDS),
            Self::Restore { .. } => {
                out.say("the index was restored and brought up to the catalog")?;
                out.thing(answer, "/sequence", FIELDS)
            }
            Self::Rebuild(_) => {
                out.say("the index was built anew")?;
                out.thing(answer, "/sequence", FIELDS)
            }
            Self::Verify(_) => {
                if out.json {
                    out.document(answer)?;
                }
                if answer.get("equal").and_then(Value::as_bool) == Some(true) {
                    return out.say("the index equals the catalog");
                }
                bail!(
                    "the index differs from the catalog: {}; `stella-scheduler index rebuild` makes it anew",
                    cell(answer, "/firstDifference")
                );
            }
        }
    }

    /// Asks the service.
    async fn remote(&self, session: &Session) -> anyhow::Result<Value> {
        let work = |verb| Request::post(&["admin", "index", verb]).patiently();
        let (request, members) = match self {
            Self::Snapshot { file, .. } => {
                let file = target_of(file)?;
                let mut part = part_of(&file)?;
                session.client.download(work("snapshot"), &mut part).await?;
                return keep(part, &file);
            }
            Self::Verify(_) => (work("verify"), ["equal"].as_slice()),
            Self::Rebuild(_) => (work("rebuild"), STATS.as_slice()),
            // It has a folder.
            Self::Stats(_) | Self::Restore { .. } => (Request::get(&["admin", "index"]), STATS.as_slice()),
        };
        Ok(session.client.call(request, members).await?)
    }

    /// The same on the data folder of a service that is down.
    async fn local(&self, folder: &Path) -> anyhow::Result<Value> {
        let way_out = match self {
            Self::Restore { .. } => "stop it first, or have it build its index anew by `index rebuild`",
            _ => "leave --data-dir out to ask it",
        };
        let store = Arc::new(open_store(folder, way_out)?);
        let feed: Arc<dyn Feed> = store.clone();
        let catalog: Arc<dyn Store> = store.clone();
        // Without a folder the service keeps no checkpoints, and there is nothing but the catalog to look at.
        let index_folder = Some(folder.join("index"));
        let index_folder = index_folder.filter(|path| path.is_dir() || matches!(self, Self::Restore { .. }));
        let host = tokio::task::spawn_blocking(move || IndexHost::open(catalog, feed, index_folder)).await??;
        if matches!(self, Self::Stats(_)) {
            return stats(&host, &store).await;
        }
        if let Self::Restore { file, .. } = self {
            host.restore(file.clone()).await?;
            return stats(&host, &store).await;
        }
        let stop = CancellationToken::new();
        let follow = tokio::spawn(host.clone().follow(stop.clone()));
        host.warm().await;
        let answer = match self {
            Self::Verify(_) => {
                let difference = host.verify().await?;
                json!({ "equal": difference.is_none(), "firstDifference": difference.map(|d| d.to_string()) })
            }
            Self::Snapshot { file, .. } => {
                let file = target_of(file)?;
                let part = part_of(&file)?;
                host.snapshot(part.reopen()?)?.await??;
                keep(part, &file)?
            }
            Self::Stats(_) | Self::Restore { .. } | Self::Rebuild(_) => {
                host.rebuild().await?;
                stats(&host, &store).await?
            }
        };
        stop.cancel();
        follow.await?;
        Ok(answer)
    }
}

/// Where a snapshot goes. Links are followed, and what is no ordinary file, such as a device, is not replaced by one.
fn target_of(file: &Path) -> anyhow::Result<PathBuf> {
    if file == Path::new("-") {
        bail!("a snapshot goes to a file, not to standard output");
    }
    match std::fs::metadata(file) {
        Ok(found) if found.is_file() => Ok(file.canonicalize()?),
        Ok(_) => bail!("{} is no ordinary file; name a file, there or new", file.display()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(file.to_owned()),
        Err(error) => Err(error).with_context(|| format!("{} cannot be written", file.display())),
    }
}

fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file beside `file` that takes its place when it is whole.
fn part_of(file: &Path) -> anyhow::Result<NamedTempFile> {
    let folder = folder_of(file);
    let made = tempfile::Builder::new().prefix(".snapshot-").tempfile_in(folder);
    made.with_context(|| format!("no file can be written in {}", folder.display()))
}

/// Checks a snapshot and puts it in its place.
fn keep(part: NamedTempFile, file: &Path) -> anyhow::Result<Value> {
    let info = SnapshotInfo::read(part.as_file())?;
    let bytes = part.as_file().metadata()?.len();
    if let Ok(before) = std::fs::metadata(file) {
        part.as_file().set_permissions(before.permissions())?;
    }
    part.as_file().sync_all()?;
    part.persist(file).with_context(|| format!("{} cannot be written", file.display()))?;
    // The name has to survive as the content does.
    std::fs::File::open(folder_of(file))?.sync_all()?;
    Ok(json!({
        "file": file.display().to_string(),
        "sequence": info.sequence,
        "images": info.images,
        "postings": info.postings,
        "bytes": bytes,
    }))
}

async fn stats(host: &IndexHost, store: &EmbeddedStore) -> anyhow::Result<Value> {
    let stats = host.index().stats();
    Ok(json!({
        "state": host.state().as_str(),
        "storage": if host.is_persistent() { "rocksdb" } else { "memory" },
        "images": stats.images,
        "retired": stats.retired,
        "packages": stats.components,
        "postings": stats.postings,
        "bytes": stats.bytes,
        "generation": stats.generation,
        "sequence": stats.sequence,
        "checkpointedSequence": stats.checkpointed,
        "catalogHead": store.catalog_head().await?,
    }))
}

/// Opens the store of a data folder that is there; a look makes no new one.
fn open_store(folder: &Path, way_out: &str) -> anyhow::Result<EmbeddedStore> {
    let path = folder.join("store");
    if !path.join("CURRENT").exists() {
        bail!("{} is no data folder of a stella-scheduler: it has no store", folder.display());
    }
    EmbeddedStore::open(&path).map_err(|error| match error {
        OpenError::InUse { .. } => {
            anyhow!("the service runs on {}; {way_out}", folder.display())
        }
        other => other.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use scheduler_model::{CatalogComponent, Image, ImageDigest, ImagePlace, Timestamp};

    fn image(name: &str) -> Image {
        Image {
            tenant: "acme".to_owned().try_into().unwrap(),
            digest: ImageDigest::of(name.as_bytes()),
            place: ImagePlace { repository: name.to_owned(), ..ImagePlace::default() },
            components: vec![CatalogComponent { purl: "pkg:npm/a@1".to_owned(), source: None }],
            used: None,
            no_purl: 0,
            generated_at: None,
            updated_at: Timestamp::from_millis(0),
            sequence: 0,
        }
    }

    fn command(make: fn(Place) -> IndexCommand) -> IndexCommand {
        make(Place { data_dir: None })
    }

    #[tokio::test]
    async fn p09_an_index_of_a_service_that_is_down_is_rebuilt_and_verified() {
        let folder = tempfile::tempdir().unwrap();
        let open = || EmbeddedStore::open(&folder.path().join("store")).unwrap();
        open().put_images(vec![image("a"), image("b")]).await.unwrap();
        std::fs::create_dir(folder.path().join("index")).unwrap();
        // A look changes nothing: the checkpoint is still at the beginning.
        let stats = command(IndexCommand::Stats).local(folder.path()).await.unwrap();
        assert_eq!((&stats["images"], &stats["catalogHead"]), (&json!(0), &json!(2)));
        let rebuilt = command(IndexCommand::Rebuild).local(folder.path()).await.unwrap();
        assert_eq!((&rebuilt["images"], &rebuilt["checkpointedSequence"]), (&json!(2), &json!(2)));
        open().put_images(vec![image("c")]).await.unwrap();
        let verified = command(IndexCommand::Verify).local(folder.path()).await.unwrap();
        assert_eq!(verified, json!({ "equal": true, "firstDifference": null }));
        // What a rebuild stored is what the next start loads.
        let again = command(IndexCommand::Stats).local(folder.path()).await.unwrap();
        assert_eq!(again["images"], json!(3));
        assert!(again["generation"].as_u64() > stats["generation"].as_u64());
    }

    #[tokio::test]
    async fn a_folder_without_a_store_is_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let said = command(IndexCommand::Verify).local(folder.path()).await.unwrap_err().to_string();
        assert!(said.contains("no data folder"), "{said}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_folder_that_a_service_has_open_says_how_to_ask_it() {
        let folder = tempfile::tempdir().unwrap();
        let _running = EmbeddedStore::open(&folder.path().join("store")).unwrap();
        let said = command(IndexCommand::Stats).local(folder.path()).await.unwrap_err().to_string();
        assert!(said.contains("leave --data-dir out"), "{said}");
    }
}
