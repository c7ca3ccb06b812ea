//! Files of the repository that the code writes: tests hold them against it.

use std::path::{Path, PathBuf};

/// A file of the repository.
pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

/// Fails when the file does not say what the code says; with `UPDATE_DOCS=1` writes it instead.
pub fn golden(name: &str, expected: &str) {
    let path = path(name);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, expected).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    if written != expected {
        let line = written.lines().zip(expected.lines()).position(|(a, b)| a != b);
        let line = line.unwrap_or_else(|| written.lines().count().min(expected.lines().count()));
        panic!(
            "{name} differs from the code at line {}: `{}` should be `{}`; `UPDATE_DOCS=1 cargo test -p stella-scheduler` \
             writes it",
            line + 1,
            written.lines().nth(line).unwrap_or_default(),
            expected.lines().nth(line).unwrap_or_default()
        );
    }
}
