//! A small file system of its own, for tests of a full disk.

#![expect(clippy::unwrap_used, reason = "a disk that cannot be made has to stop the test")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A mounted tmpfs; goes when dropped.
pub struct Disk(TempDir);

impl Disk {
    /// One of so many MiB; `None` where none can be mounted: that takes root.
    pub fn mount(size_mib: u32) -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size_mib}m"), "tmpfs"]).arg(folder.path());
        mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success()).then_some(Self(folder))
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Takes all the room; gives the file that does.
    pub fn fill(&self) -> PathBuf {
        let path = self.0.path().join("filler");
        let mut file = std::fs::File::create(&path).unwrap();
        for size in [1 << 16, 1 << 10, 1] {
            let block = vec![1; size];
            while file.write_all(&block).is_ok() {}
        }
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(self.0.path()).status());
    }
}
