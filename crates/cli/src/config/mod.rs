//! The configuration: read ([`load`]), checked ([`validate()`]), and only then used.

mod document;
pub mod load;
pub mod raw;
#[cfg(test)]
mod reference;
mod secrets;
#[cfg(test)]
mod tests;
mod tls;
mod urls;
mod validate;
mod wording;

pub use validate::{Config, IndexStorage, LogFormat, validate};

use std::path::Path;

/// A configuration that cannot be used, in a sentence that names the key's path.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

impl ConfigError {
    fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }

    /// Something is wrong with the value at a path.
    fn at(path: impl std::fmt::Display, what: impl std::fmt::Display) -> Self {
        Self(format!("configuration key {path}: {what}"))
    }
}

/// Reads and checks the configuration. `data_dir` overrides `dataDir`.
pub fn read(path: Option<&Path>, data_dir: Option<&Path>) -> Result<Config, ConfigError> {
    let mut file = load::load(path, std::env::vars_os())?.scheduler;
    if let Some(dir) = data_dir {
        file.data_dir = dir.display().to_string();
    }
    validate(file)
}
