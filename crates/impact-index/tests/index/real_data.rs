use crate::catalog::tenants;
use crate::model::{ModelImage, Op, apply};
use scheduler_impact_index::{ImpactIndex, Query, QueryKey, Thresholds, Want};
use scheduler_model::purl::{Component, ProductKey, Purl, PurlParts};
use scheduler_model::{ImageDigest, ImagePlace, Selection};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

fn shared(name: &str) -> Option<Vec<u8>> {
    let root = std::env::var_os("SCHEDULER_SHARED").map(PathBuf::from);
    let root = root.unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared").into());
    let file = std::fs::File::open(root.join("data/images").join(name)).ok()?;
    Some(zstd::decode_all(file).unwrap())
}

#[derive(Debug)]
struct Image {
    digest: ImageDigest,
    purls: Vec<usize>,
    used: BTreeSet<usize>,
}

fn images(lines: &[u8]) -> Vec<Image> {
    let read = |line: &[u8]| {
        let value: serde_json::Value = serde_json::from_slice(line).unwrap();
        let numbers = |name: &str| {
            value[name].as_array().unwrap().iter().map(|number| number.as_u64().unwrap() as usize).collect::<Vec<_>>()
        };
        let digest = value["digest"].as_str().unwrap().to_owned().try_into().unwrap();
        Image { digest, purls: numbers("purls"), used: numbers("usedBy").into_iter().collect() }
    };
    lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).map(read).collect()
}

/// A purl as a key: as it is, without version, or without version and namespace.
fn key(purl: &Purl, way: usize) -> ProductKey {
    let parts = PurlParts {
        ty: purl.ty(),
        namespace: if way == 2 { None } else { purl.namespace() },
        name: purl.name(),
        version: if way == 0 { purl.version() } else { None },
        qualifiers: Vec::new(),
        subpath: None,
    };
    match Purl::build(&parts) {
        Ok(short) if way != 0 => short.into(),
        _ => purl.clone().into(),
    }
}

#[test]
fn p01_real_images_are_found_as_by_the_naive_join() {
    let (Some(purls), Some(lines)) = (shared("purls-real.txt.zst"), shared("images-real.jsonl.zst")) else {
        println!("skipped: no shared data");
        return;
    };
    let purls: Vec<Option<Purl>> = String::from_utf8(purls)
        .unwrap()
        .lines()
        .map(|line| Purl::parse_lenient(line).ok().map(|parsed| parsed.purl))
        .collect();
    let components: Vec<_> =
        purls.iter().map(|purl| purl.as_ref().map(|purl| Component::from_purl(purl, None))).collect();
    let images = images(&lines);
    let tenant = &tenants()[0];
    let ops: Vec<Op> = images
        .iter()
        .map(|image| {
            let taken: Vec<_> = image.purls.iter().filter(|&&at| components[at].is_some()).collect();
            let used =
                (0_u32..).zip(&taken).filter(|(_, at)| image.used.contains(at)).map(|(position, _)| position).collect();
            let put = ModelImage {
                place: ImagePlace::default(),
                components: taken.iter().map(|&&at| components[at].clone().unwrap()).collect(),
                used: Some(used),
            };
            Op { tenant: tenant.clone(), digest: image.digest.clone(), put: Some(put) }
        })
        .collect();
    let index = ImpactIndex::in_memory(Thresholds::default());
    apply(&index, 1, &ops);

    let mut images_of: BTreeMap<usize, Vec<&Image>> = BTreeMap::new();
    images.iter().for_each(|image| image.purls.iter().for_each(|&at| images_of.entry(at).or_default().push(image)));
    // A stride without common factor: purls from all over the list.
    let drawn = (0..500).map(|at| (at * 7919 % purls.len(), at % 3));
    let keys: Vec<ProductKey> = drawn.filter_map(|(at, way)| Some(key(purls[at].as_ref()?, way))).collect();
    let mut total = 0;
    for key in &keys {
        let matching = (0..purls.len()).filter(|&at| components[at].as_ref().is_some_and(|found| key.matches(found)));
        let pairs: Vec<_> =
            matching.flat_map(|at| images_of.get(&at).into_iter().flatten().map(move |image| (at, *image))).collect();
        for usage_only in [false, true] {
            let expected: BTreeSet<_> = pairs
                .iter()
                .filter(|(at, image)| !usage_only || image.used.contains(at))
                .map(|(_, image)| &image.digest)
                .collect();
            // Matching by the image itself is not what is tried here.
            let query_key = QueryKey { image: None, ..QueryKey::new(key.clone(), None) };
            let query = Query { tenant, selection: &Selection::default(), keys: Some(&[query_key]), usage_only };
            let answer = index.resolve(&query, Want { digests: true, ..Want::default() });
            let found: BTreeSet<_> = answer.digests.iter().map(|image| &image.digest).collect();
            assert_eq!(found, expected, "{key} used {usage_only}");
            total += found.len();
        }
    }
    assert!(keys.len() > 490 && total > 5_000, "{} keys, {total} hits", keys.len());
}
