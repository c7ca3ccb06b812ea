//! Every version that the shared data offers, by ecosystem and package name; `oracle/gather.py` gathers the same.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

const VERSION_LEN_MAX: usize = 128;
const LISTS: [&str; 2] = ["images/purls-real.txt.zst", "images/debian-purls.txt.zst"];

/// By ecosystem and name.
pub type Groups = BTreeMap<(String, String), BTreeSet<String>>;

fn content(path: &Path) -> Vec<u8> {
    let mut bytes = std::fs::read(path).unwrap();
    if path.extension().is_some_and(|ending| ending == "zst") {
        let mut decoder = zstd::stream::read::Decoder::new(&bytes[..]).unwrap();
        decoder.window_log_max(27).unwrap();
        let mut plain = Vec::new();
        decoder.read_to_end(&mut plain).unwrap();
        bytes = plain;
    }
    bytes
}

fn lines(path: &Path) -> Vec<String> {
    String::from_utf8(content(path)).unwrap().lines().map(str::to_owned).collect()
}

fn ecosystem(ty: &str) -> Option<&'static str> {
    Some(match ty {
        "alpine" => "apk",
        _ => ["deb", "rpm", "apk", "npm", "cargo", "golang", "pypi", "maven", "gem", "nuget", "composer"]
            .into_iter()
            .find(|known| *known == ty)?,
    })
}

fn percent_decoded(text: &str) -> String {
    let (bytes, mut decoded, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let escaped = text.get(at + 1..at + 3).filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
        match escaped.filter(|_| bytes[at] == b'%') {
            Some(hex) => {
                decoded.push(u8::from_str_radix(hex, 16).unwrap());
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// Ecosystem, name and version of a purl; `None` for one of no interest here.
fn split_purl(purl: &str) -> Option<(&'static str, String, String)> {
    let body = purl.strip_prefix("pkg:").unwrap_or(purl).split('#').next()?;
    let (body, qualifiers) = body.split_once('?').unwrap_or((body, ""));
    let (ty, path) = body.split_once('/')?;
    let ecosystem = ecosystem(&ty.to_lowercase())?;
    // The at sign of a scope is no version's: something stands before it, and no slash after it.
    let at = path.rfind('@').filter(|&at| at > 0 && path.as_bytes()[at - 1] != b'/' && !path[at..].contains('/'));
    let (name, version) = at.map_or((path, ""), |at| (&path[..at], &path[at + 1..]));
    let mut version = percent_decoded(version);
    let epoch = qualifiers.split('&').find_map(|pair| pair.strip_prefix("epoch="));
    if let Some(epoch) = epoch.filter(|_| ecosystem == "rpm" && !version.is_empty() && !version.contains(':')) {
        version = format!("{epoch}:{version}");
    }
    Some((ecosystem, percent_decoded(name), version))
}

fn add(groups: &mut Groups, purl: &str, version: Option<&str>) {
    let Some((ecosystem, name, own)) = split_purl(purl) else { return };
    let version = version.unwrap_or(&own);
    let good = !version.is_empty() && version.len() <= VERSION_LEN_MAX && version.bytes().any(|b| b.is_ascii_digit());
    if good {
        groups.entry((ecosystem.to_owned(), name)).or_default().insert(version.to_owned());
    }
}

/// The versions that an advisory speaks of, whatever the language of its ranges.
fn bounds(affected: &Value) -> Vec<String> {
    let mut texts: Vec<&str> = Vec::new();
    for range in affected["ranges"].as_array().into_iter().flatten().filter(|range| range["type"] != "GIT") {
        let events = range["events"].as_array().into_iter().flatten();
        texts.extend(events.flat_map(|event| event.as_object().unwrap().values()).filter_map(Value::as_str));
    }
    for member in ["patched", "unaffected", "fixed", "versions"] {
        let listed = &affected[member];
        texts.extend(listed.as_array().into_iter().flatten().chain(Some(listed)).filter_map(Value::as_str));
    }
    texts.extend(["range", "vulnerable"].iter().filter_map(|member| affected[member].as_str()));
    let is_between = |c: char| c.is_whitespace() || matches!(c, ',' | '|' | '(' | ')' | '[' | ']');
    let tokens = texts.iter().flat_map(|text| text.split(is_between));
    tokens.map(|token| token.trim_start_matches(['<', '>', '=', '!', '~', '^']).to_owned()).collect()
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files_below(&path, found) } else { found.push(path) }
    }
}

fn add_document(groups: &mut Groups, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for after in text.split("\"pkg:").skip(1) {
        let Some(end) = after.find(['"', '\\']).filter(|&end| after.as_bytes()[end] == b'"') else { continue };
        add(groups, &format!("pkg:{}", &after[..end]), None);
    }
}

/// The names that have more than one version.
pub fn gather(data: &Path) -> Groups {
    let mut groups = Groups::new();
    for list in LISTS {
        lines(&data.join(list)).iter().for_each(|purl| add(&mut groups, purl, None));
    }
    let mut files = Vec::new();
    files_below(&data.join("advisories"), &mut files);
    for file in files.iter().filter(|file| file.to_str().unwrap().ends_with(".jsonl.zst")) {
        for line in lines(file) {
            let advisory: Value = serde_json::from_str(&line).unwrap();
            for affected in advisory["affected"].as_array().unwrap() {
                let purls = affected["purls"].as_array().filter(|purls| !purls.is_empty());
                let purls = purls.map_or_else(|| vec![&affected["purl"]], |purls| purls.iter().collect());
                for purl in purls.into_iter().filter_map(Value::as_str) {
                    bounds(affected).iter().for_each(|version| add(&mut groups, purl, Some(version)));
                }
            }
        }
    }
    let mut documents = Vec::new();
    ["sbom", "vex"].iter().for_each(|folder| files_below(&data.join(folder), &mut documents));
    documents.iter().for_each(|file| add_document(&mut groups, &content(file)));
    groups.retain(|_, versions| versions.len() > 1);
    groups
}
