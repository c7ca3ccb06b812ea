//! Replays exports of real advisories against catalogs of real images: how many images are asked for, with and without
//! narrowing by ranges, of those that the exports are about.
//!
//! `study FOLDER` reads what `prepare.py` made there and writes `NAME-asked.csv`, a row for each export, and
//! `NAME-checks.csv`, what the ranges say of each version beside what was found independently.

use scheduler_impact_index::{Change, ImpactIndex, PutImage, Query, QueryKey, Thresholds, Want};
use scheduler_model::purl::{Component, ProductKey};
use scheduler_model::{ChangedKey, ImageDigest, ImagePlace, Priority, Selection, TenantId};
use scheduler_versions::Ranges;
use scheduler_worker::Mentions;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

type Fallible<T> = Result<T, Box<dyn Error>>;

const CATALOGS: [&str; 2] = ["real", "debian"];

#[derive(Deserialize)]
struct Image {
    digest: ImageDigest,
    repository: String,
    packages: Vec<Package>,
}

#[derive(Deserialize, PartialEq, Eq, Hash, Clone)]
struct Package {
    purl: String,
    source: Option<String>,
}

/// The changes of a day that are published or modified, all of them or those of one ecosystem.
#[derive(Deserialize)]
struct Export {
    day: String,
    kind: String,
    group: String,
    changes: Vec<KeyChange>,
    /// The images that have an affected package, as lines of the catalog.
    relevant: BTreeSet<u32>,
}

#[derive(Deserialize)]
struct KeyChange {
    key: String,
    /// None: it cannot be said which versions.
    affected: Option<Vec<String>>,
}

/// A version, ranges, and whether the version is affected; `None`: nobody can tell.
#[derive(Deserialize)]
struct Check {
    #[serde(rename = "type")]
    ty: String,
    version: String,
    vers: Vec<String>,
    affected: Option<bool>,
}

fn main() -> Fallible<()> {
    let folder = std::env::args().nth(1).ok_or("study FOLDER")?;
    for name in CATALOGS {
        replay(Path::new(&folder), name)?;
        check(Path::new(&folder), name)?;
    }
    Ok(())
}

fn read<T: DeserializeOwned>(path: &Path) -> Fallible<impl Iterator<Item = Fallible<T>>> {
    let file = std::fs::File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(BufReader::new(file).lines().map(|line| Ok(serde_json::from_str(&line?)?)))
}

fn replay(folder: &Path, name: &str) -> Fallible<()> {
    let tenant: TenantId = "default".parse()?;
    let images: Vec<Image> = read(&folder.join(format!("{name}-images.jsonl")))?.collect::<Fallible<_>>()?;
    let index = index_of(&tenant, &images)?;
    let lines: HashMap<&ImageDigest, u32> = images.iter().map(|image| &image.digest).zip(0..).collect();
    let mut out = std::fs::File::create(folder.join(format!("{name}-asked.csv")))?;
    writeln!(out, "images,day,kind,group,keys,asked,narrowed,relevant,hit,hit_narrowed")?;
    for export in read::<Export>(&folder.join(format!("{name}-exports.jsonl")))? {
        let export = export?;
        let ask = |narrow| -> Fallible<(usize, BTreeSet<u32>)> {
            let keys = keys_of(&export.changes, narrow)?;
            let query =
                Query { tenant: &tenant, selection: &Selection::default(), keys: Some(&keys), usage_only: false };
            let found = index.resolve(&query, Want { digests: true, ..Want::default() });
            let asked = found.digests.iter().filter_map(|image| lines.get(&image.digest).copied()).collect();
            Ok((keys.len(), asked))
        };
        let ((keys, asked), (_, narrowed)) = (ask(false)?, ask(true)?);
        let hit = |asked: &BTreeSet<u32>| asked.intersection(&export.relevant).count();
        let Export { day, kind, group, relevant, .. } = &export;
        writeln!(
            out,
            "{},{day},{kind},{group},{keys},{},{},{},{},{}",
            images.len(),
            asked.len(),
            narrowed.len(),
            relevant.len(),
            hit(&asked),
            hit(&narrowed)
        )?;
    }
    Ok(())
}

fn index_of(tenant: &TenantId, images: &[Image]) -> Fallible<ImpactIndex> {
    let mut numbers: HashMap<&Package, Option<u32>> = HashMap::new();
    let mut packages: Vec<Component> = Vec::new();
    let mut of_images: Vec<Vec<u32>> = Vec::new();
    for image in images {
        let mut number = |package| {
            *numbers.entry(package).or_insert_with(|| {
                let source = package.source.as_deref().map(|name| (name, None));
                packages.push(Component::parse(&package.purl, source).ok()?);
                u32::try_from(packages.len() - 1).ok()
            })
        };
        of_images.push(image.packages.iter().filter_map(&mut number).collect());
    }
    let places: Vec<ImagePlace> = images
        .iter()
        .map(|image| ImagePlace { repository: image.repository.clone(), ..ImagePlace::default() })
        .collect();
    let changes: Vec<Change<'_>> = (1..)
        .zip(images.iter().zip(&places).zip(&of_images))
        .map(|(sequence, ((image, place), components))| Change {
            sequence,
            timeline: 1,
            tenant,
            digest: &image.digest,
            put: Some(PutImage { place, components, used: None }),
        })
        .collect();
    let index = ImpactIndex::in_memory(Thresholds::default());
    index.apply(&packages, &changes)?;
    Ok(index)
}

/// The keys of an export as the planner makes them.
fn keys_of(changes: &[KeyChange], narrow: bool) -> Fallible<Vec<QueryKey>> {
    let mut mentions = Mentions::default();
    for change in changes {
        let (key, _) = ProductKey::parse(&change.key)?;
        mentions.add(ChangedKey {
            key: key.purl().as_str().to_owned(),
            priority: Priority::Normal,
            subcomponent: None,
            affected: change.affected.clone().unwrap_or_default(),
        });
    }
    Ok(mentions.keys(narrow)?.into_iter().map(|(key, _)| key).collect())
}

fn check(folder: &Path, name: &str) -> Fallible<()> {
    let mut counts: BTreeMap<(String, bool, Option<bool>), u64> = BTreeMap::new();
    for one in read::<Check>(&folder.join(format!("{name}-verdicts.jsonl")))? {
        let Check { ty, version, vers, affected } = one?;
        let ranges = Ranges::parse(vers.iter().map(String::as_str));
        let excluded = ranges.is_some_and(|ranges| ranges.surely_exclude(&ty, Some(&version)));
        if excluded && affected == Some(true) {
            println!("{name}: {ty} {version} is affected by {vers:?} and left out");
        }
        *counts.entry((ty, excluded, affected)).or_default() += 1;
    }
    let mut out = std::fs::File::create(folder.join(format!("{name}-checks.csv")))?;
    writeln!(out, "type,left_out,affected,count")?;
    for ((ty, excluded, affected), count) in counts {
        let affected = affected.map_or("unknown", |affected| if affected { "yes" } else { "no" });
        writeln!(out, "{ty},{excluded},{affected},{count}")?;
    }
    Ok(())
}
