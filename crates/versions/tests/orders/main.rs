//! All pairs of versions in the shared data against what each ecosystem's own tools say of them (`oracle/orders.py`).
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "test code; what is there, is there")]

mod gather;

use gather::gather;
use scheduler_versions::{Scheme, Version};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const GOLDEN: &[u8] = include_bytes!("../golden/orders.txt.zst");

fn shared_data() -> Option<PathBuf> {
    let shared = std::env::var_os("SCHEDULER_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let data = shared.join("data");
    if !data.join("advisories").is_dir() {
        println!("skipped: no shared data");
        return None;
    }
    Some(data)
}

/// What came of the pairs of an ecosystem.
#[derive(Debug, Default)]
struct Count {
    pairs: usize,
    /// Pairs of which we say nothing though the tool orders them.
    unknown: usize,
    /// Pairs that we order though the tool refuses one of the two.
    refused: usize,
}

fn hash(ecosystem: &str, name: &str, versions: &[&str]) -> String {
    let parts = [&[ecosystem, name], versions].concat();
    Sha256::digest(parts.join("\0")).iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn every_pair_of_versions_is_ordered_as_the_ecosystems_own_tools_order_it() {
    let Some(data) = shared_data() else { return };
    let golden = String::from_utf8(zstd::stream::decode_all(GOLDEN).unwrap()).unwrap();
    let mut ranks: BTreeMap<(&str, &str), Vec<Option<u32>>> = BTreeMap::new();
    for line in golden.lines() {
        let mut words = line.split(' ');
        let key = (words.next().unwrap(), words.next().unwrap());
        ranks.insert(key, words.map(|rank| rank.parse().ok()).collect());
    }
    let groups = gather(&data);
    let mut counts: BTreeMap<&str, Count> = BTreeMap::new();
    let mut wrong = Vec::new();
    for ((ecosystem, name), versions) in &groups {
        let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
        let key = (ecosystem.as_str(), hash(ecosystem, name, &versions));
        let Some(ranks) = ranks.get(&(key.0, key.1.as_str())) else {
            panic!("{ecosystem}/{name} is not in the golden file: make it anew with oracle/orders.py");
        };
        let scheme = Scheme::of_type(ecosystem).unwrap();
        let parsed: Vec<_> = versions.iter().map(|text| Version::parse(scheme, text)).collect();
        let count = counts.entry(ecosystem).or_default();
        for left in 0..versions.len() {
            for right in left + 1..versions.len() {
                count.pairs += 1;
                let ours = parsed[left].as_ref().zip(parsed[right].as_ref()).and_then(|(a, b)| a.order(b));
                match (ours, ranks[left].zip(ranks[right])) {
                    (Some(ours), Some((a, b))) if ours != a.cmp(&b) => {
                        wrong.push(format!("{ecosystem}/{name}: {} {ours:?} {}", versions[left], versions[right]));
                    }
                    (Some(_), Some(_)) | (None, None) => {}
                    (None, Some(_)) => count.unknown += 1,
                    (Some(_), None) => count.refused += 1,
                }
            }
        }
    }
    println!("{counts:#?}");
    let shown = &wrong[..wrong.len().min(40)];
    assert!(wrong.is_empty(), "{} pairs are ordered otherwise, such as {shown:#?}", wrong.len());
    for (ecosystem, count) in &counts {
        // Gems of a platform, Maven's named releases; `_git` of Alpine, which the other comparator lacks.
        assert!(count.unknown * 500 <= count.pairs, "{ecosystem}: {count:?}");
        assert!(count.refused == 0 || *ecosystem == "apk", "{ecosystem}: {count:?}");
    }
    assert_eq!(ranks.len(), groups.len(), "the golden file tells of more names than the data has");
}

#[test]
fn dpkg_says_the_same_where_it_is() {
    let Some(data) = shared_data() else { return };
    if Command::new("dpkg").arg("--version").output().is_err() {
        println!("skipped: no dpkg");
        return;
    }
    // Neighbours in our order; the golden file has the rest. A spread of names, since each pair is a process.
    let groups = gather(&data);
    let debian = groups.iter().filter(|((ecosystem, _), _)| ecosystem == "deb");
    for ((_, name), versions) in debian.step_by(40) {
        let mut versions: Vec<_> =
            versions.iter().filter_map(|text| Some((Version::parse(Scheme::Deb, text)?, text))).collect();
        versions.sort_by(|(a, _), (b, _)| a.order(b).unwrap());
        for pair in versions.windows(2).take(4) {
            let [(a, left), (b, right)] = pair else { unreachable!() };
            let relation = if a.order(b).unwrap().is_eq() { "eq" } else { "lt" };
            let said = Command::new("dpkg").args(["--compare-versions", left, relation, right]).status().unwrap();
            assert!(said.success(), "{name}: {left} {relation} {right}");
        }
    }
}
