//! How many files the process may have open, and what of them connections get.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The most connections, however many files there may be.
const CONNECTIONS_MAX: u64 = 16_384;

/// Fewer files than this make `doctor` warn.
pub const FILES_WARN: u64 = 4096;

/// The open files that the process may have, after its own limit is raised to the most that it may set.
pub fn raised() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current < maximum || (current.is_some() && maximum.is_none()) {
        // Where it is not let, it stays as it is, and the connections with it.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The connections that so many files allow: half, since the databases, the scanner and the logs need some too.
pub fn connections(files: u64) -> usize {
    usize::try_from((files / 2).min(CONNECTIONS_MAX)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_the_rest() {
        for (files, expected) in [(256, 128), (1024, 512), (32_768, 16_384), (1 << 20, 16_384), (u64::MAX, 16_384)] {
            assert_eq!(connections(files), expected, "of {files} files");
        }
    }

    #[test]
    fn the_limit_is_as_high_as_it_may_be() {
        let files = raised();
        assert_eq!(files, getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX));
    }
}
