//! Options that choose images and keys, as previews and runs take them.

use super::ClientError;
use super::files::read_lines;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// Which images: all options given must hold; each may be given several times.
#[derive(clap::Args, Debug, Default)]
#[command(next_help_heading = "Images (all of the tenant, if none is given)")]
pub struct SelectionArgs {
    /// Images in this namespace.
    #[arg(long = "namespace", value_name = "NAME")]
    namespaces: Vec<String>,
    /// Images of this repository.
    #[arg(long = "repository", value_name = "NAME")]
    repositories: Vec<String>,
    /// This image.
    #[arg(long = "digest", value_name = "DIGEST")]
    digests: Vec<String>,
    /// Images with this label.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Images with a tag like this (`*` and `?`).
    #[arg(long = "tag", value_name = "GLOB")]
    tags: Vec<String>,
}

/// `name=value`.
pub fn label(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    pair.map(|(name, value)| (name.to_owned(), value.to_owned())).ok_or_else(|| "give it as NAME=VALUE".to_owned())
}

impl SelectionArgs {
    /// The selection of a request; `None`: all images.
    pub fn selection(&self) -> Option<Value> {
        let labels: Map<String, Value> = self.labels.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let lists = [
            ("by-digest", "digests", !self.digests.is_empty(), json!(self.digests)),
            ("by-repo", "repositories", !self.repositories.is_empty(), json!(self.repositories)),
            ("by-namespace", "namespaces", !self.namespaces.is_empty(), json!(self.namespaces)),
            ("by-labels", "labels", !labels.is_empty(), Value::Object(labels)),
            ("all-images", "includeTags", !self.tags.is_empty(), json!(self.tags)),
        ];
        let mut selection = Map::new();
        for (scope, member, is_given, value) in lists {
            if is_given {
                selection.entry("scope").or_insert_with(|| json!(scope));
                selection.insert(member.to_owned(), value);
            }
        }
        (!selection.is_empty()).then_some(Value::Object(selection))
    }
}

/// Which changed packages.
#[derive(clap::Args, Debug, Default)]
#[command(next_help_heading = "Keys (every image of the selection, if none is given)")]
pub struct KeyArgs {
    /// Images with this package: a purl with or without version; may be given several times.
    #[arg(long = "key", value_name = "PURL")]
    keys: Vec<String>,
    /// A file of such keys, one a line; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    keys_file: Option<PathBuf>,
    /// Images with packages that exports named for this vulnerability; may be given several times.
    #[arg(long = "vuln", value_name = "ID")]
    vuln_ids: Vec<String>,
    /// Count components that the entrypoint does not use too.
    #[arg(long)]
    all_components: bool,
}

impl KeyArgs {
    /// Writes the keys into a request's body.
    pub fn write(&self, body: &mut Map<String, Value>) -> Result<(), ClientError> {
        let mut keys = self.keys.clone();
        if let Some(path) = &self.keys_file {
            let read = read_lines(path)?;
            // Whoever made the file meant some; without any the question would be another one.
            if read.is_empty() {
                let why = "there is no key in it, such as pkg:npm/lodash".to_owned();
                return Err(ClientError::Input { path: path.clone(), why });
            }
            keys.extend(read);
        }
        if !keys.is_empty() {
            body.insert("keys".to_owned(), json!(keys));
        }
        if !self.vuln_ids.is_empty() {
            body.insert("vulnIds".to_owned(), json!(self.vuln_ids));
        }
        if self.all_components {
            body.insert("usageOnly".to_owned(), json!(false));
        }
        Ok(())
    }
}
