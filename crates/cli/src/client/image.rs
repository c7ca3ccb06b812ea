//! `image`.

use super::Session;
use super::http::Request;
use super::import::ImportArgs;
use super::output::Listing;
use clap::Subcommand;
use reqwest::Method;

/// The catalog: which images there are and what is in them.
#[derive(Subcommand, Debug)]
pub enum ImageCommand {
    /// Puts BOM-Index sidecars and SBOMs into the catalog, files or whole folders.
    #[command(after_help = "Examples:
  stella-scheduler image import sboms/
  syft registry.example.com/shop/cart:1.4 -o cyclonedx-json=cart.json; stella-scheduler image import cart.json
  stella-scheduler image import --repository shop/cart --tag prod-1.4.2 --label team=cart cart.spdx.json.gz

The format is told by content: BOM-Index, CycloneDX, SPDX and Syft JSON, plain or packed by gzip or zstd. The image's digest is
the one that the document names, else the SHA-256 of the document. Of a folder, files ending in .json, .gz and .zst are read.")]
    Import(ImportArgs),
    /// Lists the images.
    List {
        /// At most so many.
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
    },
    /// Prints an image.
    Get {
        /// The image's digest, `sha256:…`.
        digest: String,
    },
    /// Takes images out of the catalog.
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
                let image = client.call(Request::get(&["images", &digest])).await?;
                out.thing(&image, "/imageDigest", FIELDS)
            }
            Self::Remove { digests } => {
                for digest in digests {
                    client.call(Request::new(Method::DELETE, &["images", &digest])).await?;
                    out.say(&format!("removed {digest}"))?;
                }
                Ok(())
            }
        }
    }
}
