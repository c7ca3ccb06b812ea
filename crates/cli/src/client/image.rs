//! `image`.

use super::Session;
use super::http::Request;
use super::import::ImportArgs;
use super::output::{Listing, at_least_one};
use clap::Subcommand;
use reqwest::Method;

/// The catalog: which images there are and what is in them.
#[derive(Subcommand, Debug)]
pub enum ImageCommand {
    /// Puts BOM-Index sidecars and SBOMs into the catalog, files or whole folders.
    #[command(after_help = "Examples:
  stella-scheduler image import sboms/
  syft registry.example.com/shop/cart:1.4 -o syft-json | stella-scheduler image import -
  stella-scheduler image import --repository shop/cart --tag prod-1.4.2 cart.spdx.json.gz

The format is told by content: BOM-Index, CycloneDX, SPDX and Syft JSON, plain or packed by gzip or zstd. The image's digest is \
the one that the document names, else the SHA-256 of the document. A document that names no repository gets the file's name. Of a \
folder, files ending in .json, .gz and .zst are read.")]
    Import(ImportArgs),
    /// Lists the images.
    #[command(after_help = "Examples:
  stella-scheduler image list
  stella-scheduler image list --limit 20 --json")]
    List {
        /// At most so many.
        #[arg(long, value_name = "N", value_parser = at_least_one)]
        limit: Option<usize>,
    },
    /// Prints an image.
    #[command(after_help = "Examples:
  stella-scheduler image get $DIGEST")]
    Get {
        /// The image's digest, `sha256:…`.
        digest: String,
    },
    /// Lists what an image got in the runs that asked about it, the newest first.
    #[command(after_help = "Examples:
  stella-scheduler image history $DIGEST")]
    History {
        /// The image's digest, `sha256:…`.
        digest: String,
        /// At most so many.
        #[arg(long, value_name = "N", value_parser = at_least_one)]
        limit: Option<usize>,
    },
    /// Takes images out of the catalog.
    #[command(after_help = "Examples:
  stella-scheduler image remove $DIGEST")]
    Remove {
        /// The images' digests.
        #[arg(required = true, value_name = "DIGEST")]
        digests: Vec<String>,
    },
}

const COLUMNS: &[(&str, &str)] = &[
    ("DIGEST", "/imageDigest"),
    ("REPOSITORY", "/image/repository"),
    ("TAGS", "/image/tags"),
    ("NAMESPACES", "/image/namespaces"),
    ("COMPONENTS", "/components"),
    ("USED", "/used"),
    ("UPDATED", "/updatedAt"),
];

const HISTORY: &[(&str, &str)] = &[
    ("RUN", "/runId"),
    ("TRIGGER", "/trigger"),
    ("EXPORTS", "/reason/exportIds"),
    ("OUTCOME", "/outcome/outcome"),
    ("VERDICT", "/outcome/verdict"),
    ("NEW", "/outcome/delta/newFindings"),
    ("KEV", "/outcome/delta/kevHits"),
    ("WHY", "/outcome/reason /outcome/error/message"),
    ("AT", "/outcome/finishedAt"),
];

const FIELDS: &[(&str, &str)] = &[
    ("digest", "/imageDigest"),
    ("registry", "/image/registry"),
    ("repository", "/image/repository"),
    ("namespaces", "/image/namespaces"),
    ("tags", "/image/tags"),
    ("labels", "/image/labels"),
    ("components", "/components"),
    ("used", "/used"),
    ("without purl", "/noPurl"),
    ("generated", "/generatedAt"),
    ("updated", "/updatedAt"),
];

impl ImageCommand {
    /// Carries it out.
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let Session { client, out } = session;
        match self {
            Self::Import(args) => args.run(session).await,
            Self::List { limit } => {
                let mut listing = Listing::new(*out, "/imageDigest", COLUMNS, "no images");
                client.each(Request::get(&["images"]), limit, |item| listing.push(&item)).await?;
                listing.end()
            }
            Self::Get { digest } => {
                let image = client.call(Request::get(&["images", &digest]), &["imageDigest"]).await?;
                out.thing(&image, "/imageDigest", FIELDS)
            }
            Self::History { digest, limit } => {
                let mut listing = Listing::new(*out, "/runId", HISTORY, "no run has asked about it");
                let asked = Request::get(&["images", &digest, "history"]);
                client.each(asked, limit, |item| listing.push(&item)).await?;
                listing.end()
            }
            Self::Remove { digests } => {
                for digest in digests {
                    client.call(Request::new(Method::DELETE, &["images", &digest]), &[]).await?;
                    out.say(&format!("removed {digest}"))?;
                }
                Ok(())
            }
        }
    }
}
