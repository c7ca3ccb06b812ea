//! The world of the demo, read from `universe.yaml`.

use super::intel::{Advisory, Affected};
use anyhow::{Context, ensure};
use scheduler_model::Severity;
use scheduler_model::purl::ProductKey;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Packages, what images are made of, and what becomes known of them.
#[derive(Debug)]
pub struct Universe {
    /// Operating systems.
    pub bases: Vec<Layer>,
    /// What runs on them.
    pub stacks: Vec<Layer>,
    /// Advisories that were there before the demo begins.
    pub known: Vec<Advisory>,
    /// Advisories that the demo's export brings.
    pub news: Vec<Advisory>,
}

/// A set of packages that come together.
#[derive(Debug)]
pub struct Layer {
    /// Its name, such as `debian-12`.
    pub name: String,
    /// How often it is drawn, in proportion.
    pub weight: u32,
    /// The package type.
    pub ty: String,
    /// The namespace of its purls, where all have one.
    pub namespace: Option<String>,
    /// The qualifiers of its purls.
    pub qualifiers: BTreeMap<String, String>,
    /// Packages in every image of it.
    pub required: Vec<Entry>,
    /// Packages that some have.
    pub extras: Vec<Entry>,
}

/// A package.
#[derive(Debug)]
pub struct Entry {
    /// Its name; of languages with its namespace in front.
    pub name: String,
    /// Its source package, of a distribution; its own name when it is the same.
    pub source: Option<String>,
    /// Its versions, from old to new; never empty.
    pub versions: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    bases: Vec<LayerText>,
    stacks: Vec<LayerText>,
    known: Vec<String>,
    news: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LayerText {
    name: String,
    weight: u32,
    #[serde(rename = "type")]
    ty: String,
    namespace: Option<String>,
    #[serde(default)]
    qualifiers: BTreeMap<String, String>,
    required: Vec<String>,
    extras: Vec<String>,
}

impl Universe {
    /// The one that comes with the binary.
    pub fn bundled() -> anyhow::Result<Self> {
        let file: File = serde_yaml_ng::from_str(include_str!("universe.yaml"))?;
        let layers = |texts: Vec<LayerText>| texts.into_iter().map(layer).collect::<anyhow::Result<Vec<_>>>();
        let advisories = |lines: Vec<String>| {
            lines.iter().map(|line| advisory(line).with_context(|| line.clone())).collect::<anyhow::Result<_>>()
        };
        Ok(Self {
            bases: layers(file.bases)?,
            stacks: layers(file.stacks)?,
            known: advisories(file.known)?,
            news: advisories(file.news)?,
        })
    }
}

fn layer(text: LayerText) -> anyhow::Result<Layer> {
    let with_source = text.namespace.is_some();
    let entries = |lines: Vec<String>| {
        lines.iter().map(|line| entry(line, with_source).with_context(|| line.clone())).collect::<anyhow::Result<_>>()
    };
    Ok(Layer {
        required: entries(text.required)?,
        extras: entries(text.extras)?,
        name: text.name,
        weight: text.weight,
        ty: text.ty,
        namespace: text.namespace,
        qualifiers: text.qualifiers,
    })
}

fn entry(line: &str, with_source: bool) -> anyhow::Result<Entry> {
    let mut words = line.split_whitespace().map(str::to_owned);
    let name = words.next().context("a package has a name")?;
    let source = if with_source { words.next().map(|s| if s == "=" { name.clone() } else { s }) } else { None };
    let versions: Vec<String> = words.collect();
    ensure!(!versions.is_empty(), "a package has versions");
    Ok(Entry { name, source, versions })
}

fn advisory(line: &str) -> anyhow::Result<Advisory> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [vuln_id, severity, kev, key, fixed] = words.as_slice() else {
        anyhow::bail!("an advisory has an id, a severity, `kev` or `-`, a key, and a fixed version");
    };
    let key = ProductKey::parse(key)?.0;
    Ok(Advisory {
        vuln_id: (*vuln_id).to_owned(),
        severity: Severity::of_word(severity),
        kev: *kev == "kev",
        affected: Affected::below(key.match_name().ty, fixed),
        key,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use scheduler_versions::{Range, Scheme, Version};
    use std::cmp::Ordering;

    fn compare(ty: &str, left: &str, right: &str) -> Option<Ordering> {
        let scheme = Scheme::of_type(ty)?;
        Version::parse(scheme, left)?.order(&Version::parse(scheme, right)?)
    }

    #[test]
    fn versions_of_the_bundled_universe_ascend_in_their_ecosystem() {
        let universe = Universe::bundled().unwrap();
        for layer in universe.bases.iter().chain(&universe.stacks) {
            for entry in layer.required.iter().chain(&layer.extras) {
                for pair in entry.versions.windows(2) {
                    assert_eq!(
                        compare(&layer.ty, &pair[0], &pair[1]),
                        Some(Ordering::Less),
                        "{} {}: {pair:?}",
                        layer.ty,
                        entry.name
                    );
                }
            }
        }
    }

    #[test]
    fn fixed_versions_of_the_bundled_universe_are_understood() {
        let universe = Universe::bundled().unwrap();
        for advisory in universe.known.iter().chain(&universe.news) {
            let range = advisory.affected.vers().and_then(Range::parse);
            assert!(range.is_some(), "{} {:?}", advisory.key, advisory.affected);
        }
    }
}
