//! SBOM-13: a document of 300 MB is streamed, and what stays is what the catalog needs.

use std::io::Read;

use scheduler_sbom::{Limits, read};

const DOCUMENT_BYTES: usize = 300 << 20;

/// Growth of the process's highest memory use that is tolerated, in KiB.
const GROWTH_KIB_MAX: u64 = 64 << 10;

/// Writes an SPDX document as it is read: many files and relations, some packages, and the version at the very end.
struct Generated {
    pending: Vec<u8>,
    position: usize,
    written: usize,
    number: usize,
    state: State,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Start,
    Files,
    Packages,
    End,
}

impl Generated {
    fn refill(&mut self) {
        self.position = 0;
        self.pending.clear();
        while self.pending.len() < 32 << 10 && self.state != State::End {
            let number = self.number;
            self.number += 1;
            let text = match self.state {
                State::Start => {
                    self.state = State::Files;
                    r#"{"name":"large","files":[{}"#.to_owned()
                }
                State::Files if self.written + self.pending.len() > DOCUMENT_BYTES => {
                    self.state = State::Packages;
                    self.number = 0;
                    r#"],"packages":[{}"#.to_owned()
                }
                State::Files => format!(
                    r#",{{"SPDXID":"SPDXRef-File-{number}","fileName":"usr/share/doc/package-{number}/copyright","checksums":[{{"algorithm":"SHA256","checksumValue":"{number:064}"}}]}}"#
                ),
                State::Packages if number == 100_000 => {
                    self.state = State::End;
                    r#"],"spdxVersion":"SPDX-2.3"}"#.to_owned()
                }
                State::Packages => format!(
                    r#",{{"SPDXID":"SPDXRef-{number}","externalRefs":[{{"referenceType":"purl","referenceLocator":"pkg:npm/package-{number}@1.0.0"}}]}}"#
                ),
                State::End => String::new(),
            };
            self.pending.extend_from_slice(text.as_bytes());
        }
        self.written += self.pending.len();
    }
}

impl Read for Generated {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.position == self.pending.len() {
            self.refill();
        }
        let count = self.pending.get(self.position..).unwrap_or_default().read(buffer)?;
        self.position += count;
        Ok(count)
    }
}

/// The highest memory use of this process so far, where the system tells.
fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

#[test]
fn sbom_13_a_document_of_300_mb_needs_memory_for_its_purls_alone() {
    let mut source = Generated { pending: Vec::new(), position: 0, written: 0, number: 0, state: State::Start };
    let before = peak_kib();
    let document = read(&mut source, &Limits::default()).unwrap();
    assert!(source.written > DOCUMENT_BYTES);
    assert_eq!((document.components.len(), document.no_purl), (100_000, 1));
    if let (Some(before), Some(after)) = (before, peak_kib()) {
        assert!(after - before < GROWTH_KIB_MAX, "memory grew by {} KiB", after - before);
    }
}
