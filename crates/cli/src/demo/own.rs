//! The user's own files as a scenario: SBOMs and sidecars of a folder, and an export.
//!
//! The demo scanner then knows of vulnerabilities what the export says: an image is affected when a changed key matches and,
//! where the export gives a range or a fixed version, by its version.

use super::intel::{Advisory, Affected, KnownImage, Package};
use super::scenario::{Scenario, Upload, distinct};
use crate::client::name_of;
use anyhow::{Context, bail, ensure};
use scheduler_model::purl::{ProductKey, Purl, Source};
use scheduler_model::{ImageDigest, Severity};
use scheduler_sbom::{Document, Format, Limits, Usage};
use serde::Deserialize;
use std::collections::{BTreeMap, HashSet};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The most files that are looked at, and levels of folders.
const FILES_MAX: usize = 20_000;
const DEPTH_MAX: usize = 16;

/// The longest document, in bytes, unpacked.
pub const DOCUMENT_LEN_MAX: u64 = 256 << 20;

/// Endings of files that may be documents.
const ENDINGS: [&str; 6] = [".json", ".json.zst", ".json.gz", ".jsonld", ".jsonld.zst", ".jsonld.gz"];

/// Left-out files that are named one by one.
const REMARKS_MAX: usize = 10;

/// Makes a scenario of a folder and an export.
pub fn scenario(folder: &Path, export: &Path) -> anyhow::Result<Scenario> {
    let (body, read) = read_export(export)?;
    let mut files = Vec::new();
    collect(folder, 0, &mut files)?;
    files.sort();
    let mut images: BTreeMap<ImageDigest, KnownImage> = BTreeMap::new();
    let (mut uploads, mut left_out) = (Vec::new(), Vec::new());
    for path in files {
        let name = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
        match read_document(&path) {
            Ok((image, upload)) => {
                images.insert(image.digest.clone(), image);
                uploads.push(upload);
            }
            Err(error) => left_out.push(format!("left out: {name}: {error:#}")),
        }
    }
    ensure!(!images.is_empty(), "no SBOM that can be read lies in {}", folder.display());
    let packages: usize = images.values().map(|image| image.packages.len()).sum();
    let more = left_out.len().saturating_sub(REMARKS_MAX);
    left_out.truncate(REMARKS_MAX);
    if more > 0 {
        left_out.push(format!("left out: {more} more files"));
    }
    Ok(Scenario {
        catalog: format!(
            "Your files: {} documents of {} images with {packages} packages.",
            uploads.len(),
            images.len()
        ),
        images: images.into_values().collect(),
        uploads,
        before: Vec::new(),
        after: read.advisories,
        export: body,
        export_id: read.export_id,
        keys: read.keys,
        remarks: left_out,
    })
}

fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if depth > DEPTH_MAX {
        return Ok(());
    }
    let entries = std::fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, depth + 1, files)?;
        } else if path.to_str().is_some_and(|name| ENDINGS.iter().any(|ending| name.ends_with(ending))) {
            ensure!(files.len() < FILES_MAX, "{} holds more than {FILES_MAX} documents", folder.display());
            files.push(path);
        }
    }
    Ok(())
}

/// A file's content, unpacked by its ending.
pub fn unpacked(path: &Path) -> anyhow::Result<Vec<u8>> {
    let file = std::fs::File::open(path)?;
    let reader: Box<dyn Read> = match path.extension().and_then(|ending| ending.to_str()) {
        Some("zst") => Box::new(zstd::stream::read::Decoder::new(file)?),
        Some("gz") => Box::new(flate2::read::MultiGzDecoder::new(file)),
        _ => Box::new(file),
    };
    let mut content = Vec::new();
    reader.take(DOCUMENT_LEN_MAX + 1).read_to_end(&mut content)?;
    ensure!(content.len() as u64 <= DOCUMENT_LEN_MAX, "the document is longer than {DOCUMENT_LEN_MAX} bytes");
    Ok(content)
}

fn read_document(path: &Path) -> anyhow::Result<(KnownImage, Upload)> {
    let content = unpacked(path)?;
    let document = scheduler_sbom::read_slice(&content, &Limits::default())?;
    // As everywhere, an image that its document does not name is named by the file.
    let own = document.image.digest.clone().and_then(|text| ImageDigest::try_from(text).ok());
    let digest = match own {
        Some(digest) => digest,
        None => ImageDigest::of(&content),
    };
    let sidecar = document.format == Format::BomIndex;
    let own_name = document.image.repository.clone().filter(|name| !name.is_empty());
    ensure!(own_name.is_some() || !sidecar, "a sidecar names its image's repository");
    let repository = if own_name.is_some() { None } else { name_of(path) };
    let name = match (own_name.as_ref().or(repository.as_ref()), document.image.tags.first()) {
        (Some(name), Some(tag)) => format!("{name}:{tag}"),
        (Some(name), None) => name.clone(),
        (None, _) => digest.as_str().to_owned(),
    };
    let image = KnownImage { digest: digest.clone(), name, packages: packages(&document) };
    Ok((image, Upload::File { path: path.to_owned(), digest, repository, sidecar }))
}

fn packages(document: &Document) -> Vec<Package> {
    let used = |position: u32| match &document.usage {
        Usage::Unknown => true,
        Usage::Known(positions) => positions.contains(position),
    };
    let readable = document.components.iter().zip(0u32..).filter(|(raw, _)| raw.problem.is_none());
    let packages = readable.filter_map(|(raw, position)| {
        let purl = Purl::parse_lenient(&raw.purl).ok()?.purl;
        let source = raw.source.as_ref().map(|s| Source { name: s.name.clone(), version: s.version.clone() });
        Some(Package::new(&purl, source.as_ref(), used(position)))
    });
    let mut seen = HashSet::new();
    packages.filter(|package| seen.insert((package.component.clone(), package.used))).collect()
}

/// What the demo takes of an export; the service reads it by itself.
#[derive(Debug)]
struct ReadExport {
    export_id: String,
    keys: Vec<ProductKey>,
    advisories: Vec<Advisory>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExportText {
    export_id: String,
    #[serde(default)]
    changed_product_keys: Vec<String>,
    #[serde(default)]
    kev: Vec<String>,
    #[serde(default)]
    changes: Vec<ChangeText>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChangeText {
    product_key: String,
    vuln_id: Option<String>,
    severity: Option<String>,
    affected: Option<String>,
    fixed: Option<String>,
}

fn read_export(path: &Path) -> anyhow::Result<(Vec<u8>, ReadExport)> {
    let body = unpacked(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let read = parse_export(&body).with_context(|| format!("{} is no export", path.display()))?;
    Ok((body, read))
}

fn parse_export(body: &[u8]) -> anyhow::Result<ReadExport> {
    let text: ExportText = serde_json::from_slice(body)?;
    let mut advisories = Vec::new();
    for change in text.changes {
        // What cannot be read is skipped by the service too, which says so in its answer.
        let Ok((key, _)) = ProductKey::parse(&change.product_key) else { continue };
        let vuln_id = change.vuln_id.unwrap_or_else(|| text.export_id.clone());
        advisories.push(Advisory {
            severity: change.severity.as_deref().map_or(Severity::Low, Severity::of_word),
            kev: text.kev.iter().any(|id| id.eq_ignore_ascii_case(&vuln_id)),
            affected: match (change.fixed, change.affected) {
                (Some(fixed), _) => Affected::below(key.match_name().ty, &fixed),
                (None, Some(range)) => Affected::of_vers(range),
                (None, None) => Affected::default(),
            },
            key,
            vuln_id,
        });
    }
    let detailed: HashSet<String> = advisories.iter().map(|advisory| advisory.key.to_string()).collect();
    let plain = text.changed_product_keys.iter().filter_map(|key| ProductKey::parse(key).ok()).map(|(key, _)| key);
    // A key without detail is a change that nobody has explained: it is named by its export.
    advisories.extend(plain.filter(|key| !detailed.contains(&key.to_string())).map(|key| Advisory {
        key,
        vuln_id: text.export_id.clone(),
        severity: Severity::Low,
        kev: false,
        affected: Affected::default(),
    }));
    let keys = distinct(advisories.iter().map(|advisory| advisory.key.clone()));
    if keys.is_empty() {
        bail!("it names no key that can be read");
    }
    Ok(ReadExport { export_id: text.export_id, keys, advisories })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exports_say_by_key_range_or_fixed_version_what_is_affected() {
        let export = parse_export(
            br#"{"exportId": "e-1", "changedProductKeys": ["pkg:npm/plain", "pkg:npm/ranged", "no key"],
                 "kev": ["CVE-2"], "window": {}, "changes": [
                 {"productKey": "pkg:npm/ranged", "vulnId": "CVE-1", "severity": "HIGH", "affected": "vers:npm/<2.0.0"},
                 {"productKey": "pkg:npm/fixed", "vulnId": "cve-2", "fixed": "3.0.0"}]}"#,
        )
        .unwrap();
        let shown: Vec<_> = export
            .advisories
            .iter()
            .map(|a| (a.key.to_string(), a.vuln_id.as_str(), a.kev, a.affected.contains("npm", Some("2.5.0"))))
            .collect();
        assert_eq!(
            shown,
            [
                ("pkg:npm/ranged".to_owned(), "CVE-1", false, false),
                ("pkg:npm/fixed".to_owned(), "cve-2", true, true),
                ("pkg:npm/plain".to_owned(), "e-1", false, true),
            ]
        );
        assert_eq!(export.keys.len(), 3);
        assert!(parse_export(br#"{"exportId": "e", "changedProductKeys": ["no key"]}"#).is_err());
    }
}
