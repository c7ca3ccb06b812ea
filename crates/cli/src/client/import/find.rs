//! The files of an import, in an order that does not depend on the machine.

use super::document::is_stdin;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Levels of folders below a given one.
const DEPTH_MAX: usize = 64;

/// What names of documents end with; of a folder, only such files are read.
const ENDINGS: [&str; 3] = ["json", "gz", "zst"];

/// What was found below the given paths.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Documents to read.
    pub files: Vec<PathBuf>,
    /// Files of folders that were passed over, since their names do not look like documents.
    pub passed_over: usize,
    /// What cannot be looked at, and why.
    pub failures: Vec<(PathBuf, String)>,
}

/// Finds documents: `-` is standard input, a given file is taken whatever its name, a folder is walked in the order of names. Hidden entries and
/// links to folders are not followed.
pub fn find(paths: &[PathBuf]) -> Found {
    let mut found = Found::default();
    for path in paths {
        if is_stdin(path) {
            found.files.push(path.clone());
            continue;
        }
        match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => found.walk(path, 0),
            Ok(_) => found.files.push(path.clone()),
            Err(error) => found.failures.push((path.clone(), error.to_string())),
        }
    }
    found
}

impl Found {
    fn walk(&mut self, folder: &Path, depth: usize) {
        if depth > DEPTH_MAX {
            self.failures.push((folder.to_path_buf(), format!("folders are nested over {DEPTH_MAX} levels")));
            return;
        }
        let mut entries: Vec<PathBuf> = match fs::read_dir(folder) {
            Ok(entries) => entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect(),
            Err(error) => return self.failures.push((folder.to_path_buf(), error.to_string())),
        };
        entries.sort();
        for path in entries {
            if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".")) {
                continue;
            }
            let Ok(meta) = fs::symlink_metadata(&path) else { continue };
            if meta.is_dir() {
                self.walk(&path, depth + 1);
            } else if fs::metadata(&path).is_ok_and(|target| target.is_file()) {
                if ENDINGS.iter().any(|ending| path.extension() == Some(OsStr::new(ending))) {
                    self.files.push(path);
                } else {
                    self.passed_over += 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_walked_by_name_and_other_files_passed_over() {
        let root = tempfile::tempdir().unwrap();
        for name in ["b.json", "a/z.json.gz", "a/c.json.zst", "README.md", ".hidden/x.json", ".y.json", "odd"] {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "{}").unwrap();
        }
        std::os::unix::fs::symlink(root.path(), root.path().join("a/loop")).unwrap();
        let missing = root.path().join("missing");
        let found = find(&[root.path().to_path_buf(), root.path().join("odd"), missing.clone()]);
        let names: Vec<_> = found.files.iter().map(|path| path.strip_prefix(root.path()).unwrap()).collect();
        assert_eq!(names, ["a/c.json.zst", "a/z.json.gz", "b.json", "odd"].map(Path::new));
        assert_eq!(found.passed_over, 2);
        assert_eq!(found.failures.len(), 1);
        assert_eq!(found.failures[0].0, missing);
    }
}
