//! The ImpactIndex at full scale: 1 M versioned packages × 100,000 images, and × 1 M images.
//!
//! `BENCH_IMAGES` and `BENCH_PURLS` make it smaller, `BENCH_ONLY` names what is measured (`resolve,union,open,million,ingest`).
//! What is measured by the memory of a process, or from its start, runs in a process of its own: this program again, with
//! `--part NAME FOLDER`. For a profiler, `--part build FOLDER` and then `--part profile FOLDER` parse and resolve over and over
//! (`BENCH_REPEAT`, 20).

mod build;
mod ingest;
mod resolve;

use scheduler_benches::{Catalog, Outcome, figure, time_ms, union};
use scheduler_impact_index::{ImpactIndex, Thresholds};
use std::path::Path;
use std::process::Command;

fn number(name: &str, default: u32) -> u32 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn wanted(part: &str) -> bool {
    std::env::var("BENCH_ONLY").map_or(true, |only| only.split(',').any(|name| name == part))
}

fn catalog() -> Catalog {
    Catalog { purls: number("BENCH_PURLS", 1_000_000), images: number("BENCH_IMAGES", 100_000) }
}

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--part", "build", folder, ..] => build::into_folder(&catalog(), Path::new(folder)),
        ["--part", "open", folder, ..] => open(&catalog(), Path::new(folder)),
        ["--part", "profile", folder, ..] => resolve::repeat(&catalog(), Path::new(folder)),
        ["--part", "million", ..] => resolve::at_a_million(&catalog()),
        ["--part", "ingest", folder, ..] => ingest::through_the_store(&catalog(), Path::new(folder)),
        _ => all(&catalog()),
    }
}

fn all(catalog: &Catalog) -> Outcome {
    let folder = tempfile::tempdir()?;
    let index_folder = folder.path().join("index");
    if wanted("open") || wanted("resolve") || wanted("union") || wanted("readers") {
        part("build", &index_folder)?;
        part("open", &index_folder)?;
        let index = ImpactIndex::open(&index_folder, Thresholds::default())?;
        if wanted("resolve") {
            resolve::all(catalog, &index)?;
        }
        if wanted("union") {
            union::all(catalog, &index)?;
        }
        if wanted("readers") {
            build::beside_readers(catalog, &index)?;
        }
    }
    if wanted("ingest") {
        part("ingest", &folder.path().join("store"))?;
    }
    if wanted("million") {
        part("million", folder.path())?;
    }
    Ok(())
}

fn part(name: &str, folder: &Path) -> Outcome {
    let status = Command::new(std::env::current_exe()?).args(["--part", name]).arg(folder).status()?;
    if status.success() { Ok(()) } else { Err(format!("the part {name} failed").into()) }
}

/// From a process that has nothing to the first right answer.
fn open(catalog: &Catalog, folder: &Path) -> Outcome {
    let (ms, found) = time_ms(|| {
        let index = ImpactIndex::open(folder, Thresholds::default())?;
        resolve::finds_image(catalog, &index, catalog.images / 3)
    });
    if !found? {
        return Err("the first answer after opening is wrong".into());
    }
    figure("warm-start", ms / 1e3, "s");
    Ok(())
}
