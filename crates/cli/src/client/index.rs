//! `index`: asks the service, or, while it is down, its data folder.

use super::http::Request;
use super::output::cell;
use super::{Global, Output, Session};
use anyhow::{anyhow, bail};
use clap::Subcommand;
use scheduler_core::ports::{CatalogStore, Feed, Store};
use scheduler_store::{EmbeddedStore, OpenError};
use scheduler_worker::IndexHost;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The ImpactIndex: look at it, compare it with the catalog, build it anew.
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

impl IndexCommand {
    /// Carries it out.
    pub async fn run(self, global: &Global) -> anyhow::Result<()> {
        let out = Output::new(global);
        let (Self::Stats(place) | Self::Verify(place) | Self::Rebuild(place)) = &self;
        let (verb, text) = match &self {
            Self::Stats(_) => ("stats", "looking"),
            Self::Verify(_) => ("verify", "comparing with the catalog"),
            Self::Rebuild(_) => ("rebuild", "building from the catalog"),
        };
        let spinner = out.spinner(text);
        let answer = match &place.data_dir {
            Some(folder) => self.local(folder).await,
            None => {
                let session = Session::new(global)?;
                let request = match &self {
                    Self::Stats(_) => Request::get(&["admin", "index"]),
                    Self::Verify(_) | Self::Rebuild(_) => Request::post(&["admin", "index", verb]).patiently(),
                };
                session.client.call(request).await.map_err(anyhow::Error::from)
            }
        };
        spinner.finish_and_clear();
        self.show(&out, &answer?)
    }

    fn show(&self, out: &Output, answer: &Value) -> anyhow::Result<()> {
        match self {
            Self::Stats(_) => out.thing(answer, "/sequence", FIELDS),
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

    /// The same on the data folder of a service that is down.
    async fn local(&self, folder: &Path) -> anyhow::Result<Value> {
        let store = Arc::new(open_store(folder)?);
        let feed: Arc<dyn Feed> = store.clone();
        let catalog: Arc<dyn Store> = store.clone();
        // Without a folder the service keeps no checkpoints, and there is nothing but the catalog to look at.
        let index_folder = Some(folder.join("index")).filter(|path| path.is_dir());
        let host = tokio::task::spawn_blocking(move || IndexHost::open(catalog, feed, index_folder)).await??;
        if matches!(self, Self::Stats(_)) {
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
            Self::Stats(_) | Self::Rebuild(_) => {
                host.rebuild().await?;
                stats(&host, &store).await?
            }
        };
        stop.cancel();
        follow.await?;
        Ok(answer)
    }
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
fn open_store(folder: &Path) -> anyhow::Result<EmbeddedStore> {
    let path = folder.join("store");
    if !path.join("CURRENT").exists() {
        bail!("{} is no data folder of a stella-scheduler: it has no store", folder.display());
    }
    EmbeddedStore::open(&path).map_err(|error| match error {
        OpenError::InUse { .. } => {
            anyhow!("the service runs on {}; leave --data-dir out to ask it", folder.display())
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
