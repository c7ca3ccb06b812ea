use crate::seeds;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use roaring::RoaringBitmap;
use scheduler_impact_index::{ImpactIndex, Query, QueryKey, SnapshotError, Thresholds, Want};
use scheduler_model::purl::{Component, Mend, ProductKey, Purl};
use scheduler_model::{ImageDigest, Selection, TenantId};
use scheduler_sbom::{Limits, Usage, read, read_bom_index, read_slice};
use std::io::Cursor;
use xxhash_rust::xxh3::xxh3_64;

/// What comes before and after the compressed part of a snapshot.
const SNAPSHOT_HEAD: &[u8] = b"SIIXSNAP\x01\0\0\0";
const CHECKSUM_LEN: usize = 8;

const LIMITS: Limits = Limits { components_max: 500, depth_max: 20, purl_bytes_max: 300 };

/// A reader, with inputs to begin with.
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Panics when a promise is broken.
    pub check: fn(&[u8]),
    /// Inputs that are right, or nearly.
    pub seeds: Vec<Vec<u8>>,
    /// What is worth putting in.
    pub words: &'static [&'static [u8]],
    /// How many inputs a short run makes, so that all targets take about the same time.
    pub short: u32,
}

/// Every target.
pub fn all() -> Vec<Target> {
    let purls = seeds::PURLS.iter().map(|purl| purl.as_bytes().to_vec()).collect();
    let target = |name, check, seeds, words, short| Target { name, check, seeds, words, short };
    vec![
        target("purl", purl, purls, seeds::PURL_WORDS, 40_000),
        target("sidecar", sidecar, seeds::sidecars(), seeds::JSON_WORDS, 20_000),
        target("sbom", sbom, seeds::sboms(), seeds::JSON_WORDS, 15_000),
        target("bitmap", bitmap, seeds::bitmaps(), &[], 10_000),
        target("snapshot", snapshot, seeds::snapshots(), &[SNAPSHOT_HEAD], 4_000),
        target("snapshot-body", snapshot_body, bodies(), &[], 4_000),
    ]
}

/// A purl is refused, or has one canonical form that every reader understands in the same way.
fn purl(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(purl) = Purl::parse_strict(&text) {
        let again = Purl::parse_strict(purl.as_str()).expect("a canonical purl parses");
        assert_eq!(again.as_str(), purl.as_str());
        let lenient = Purl::parse_lenient(&text).expect("what is right is taken leniently too");
        assert_eq!(lenient.purl, purl);
    }
    let component = Component::parse(&text, None);
    match Purl::parse_lenient(&text) {
        Ok(parsed) => {
            // A purl against the rules of its type stays one, but in canonical spelling.
            let again = Purl::parse_lenient(parsed.purl.as_str()).expect("what was mended parses");
            assert_eq!(again.purl, parsed.purl);
            let is_rule = |mend| matches!(mend, Mend::MissingNamespace | Mend::ForbiddenNamespace | Mend::TypeRule);
            assert!(again.mended.iter().all(is_rule), "{:?} was not mended", again.mended);
            let whole = Component::from_purl(&parsed.purl, None);
            assert_eq!(component.as_ref(), Ok(&whole));
            assert_eq!(Purl::canonical(&text), Ok((parsed.purl.as_str().into(), parsed.mended)));
            assert!(ProductKey::from(parsed.purl).matches(&whole), "a purl's key does not find it");
        }
        Err(_) => assert!(component.is_err()),
    }
    let _ = ProductKey::parse(&text);
}

/// A sidecar is refused, or says of what is there which part is used.
fn sidecar(bytes: &[u8]) {
    let Ok(document) = read_bom_index(bytes, &LIMITS) else { return };
    assert!(document.components.len() <= LIMITS.components_max);
    if let Usage::Known(used) = &document.usage {
        assert!(used.max().is_none_or(|last| (last as usize) < document.components.len()));
    }
}

/// A document says the same whether it comes whole or in parts.
fn sbom(bytes: &[u8]) {
    let (whole, parts) = (read_slice(bytes, &LIMITS), read(Slow(bytes), &LIMITS));
    match (whole, parts) {
        (Ok(whole), Ok(parts)) => {
            assert_eq!(whole, parts);
            assert!(whole.components.len() <= LIMITS.components_max);
        }
        (Err(_), Err(_)) => {}
        (whole, parts) => panic!("whole: {:?}, in parts: {:?}", whole.err(), parts.err()),
    }
}

/// Gives a few bytes at a time.
struct Slow<'a>(&'a [u8]);

impl std::io::Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let len = self.0.len().min(buffer.len()).min(7);
        let (now, later) = self.0.split_at(len);
        if let Some(place) = buffer.get_mut(..len) {
            place.copy_from_slice(now);
        }
        self.0 = later;
        Ok(len)
    }
}

/// A bitmap of used packages is refused, or is what the library reads.
fn bitmap(bytes: &[u8]) {
    let digest = ImageDigest::of(b"cart");
    let purls: Vec<String> = (0..100).map(|at| format!("\"pkg:npm/a@{at}\"")).collect();
    let document = format!(
        r#"{{"schema":"bom-index@1","imageDigest":"{digest}","image":{{"repository":"b"}},"purls":[{}],"usedByEntrypoint":"{}"}}"#,
        purls.join(","),
        STANDARD.encode(bytes)
    );
    if let Ok(read) = read_bom_index(document.as_bytes(), &LIMITS) {
        let expected = RoaringBitmap::deserialize_from(bytes).expect("what was taken is a bitmap");
        assert!(matches!(&read.usage, Usage::Known(used) if *used == expected));
        assert!(expected.max().is_none_or(|last| last < 100));
    }
}

/// A snapshot is refused, or holds an index that answers and can be written again.
fn snapshot(bytes: &[u8]) {
    let (index, info) = match ImpactIndex::from_snapshot(Cursor::new(bytes), Thresholds::default()) {
        Ok(read) => read,
        Err(error) => {
            assert!(!matches!(error, SnapshotError::Io(_)), "reading from memory failed: {error:?}");
            return assert!(!error.to_string().is_empty());
        }
    };
    assert_eq!((index.stats().images, index.stats().postings), (info.images, info.postings));
    let keys: Vec<QueryKey> = ["pkg:npm/%40babel/core", "pkg:deb/openssl", "pkg:oci/cart"]
        .into_iter()
        .filter_map(|raw| Some(QueryKey::new(ProductKey::parse(raw).ok()?.0, None)))
        .collect();
    let selection = Selection { include_tags: vec!["1.*".to_owned()], ..Selection::default() };
    for tenant in ["default", "acme"] {
        let tenant = TenantId::try_from(tenant.to_owned()).unwrap();
        for selection in [&Selection::default(), &selection] {
            let query = Query { tenant: &tenant, selection, keys: Some(&keys), usage_only: true };
            let want = Want { sample: 5, by_repository: 5, digests: true, ..Want::default() };
            let answer = index.resolve(&query, want);
            assert!(answer.candidates <= answer.total && answer.total <= info.images);
        }
    }
    let mut again = Vec::new();
    assert_eq!(index.snapshot(&mut again).expect("what was read can be written"), info);
    let (again, _) = ImpactIndex::from_snapshot(Cursor::new(&again), Thresholds::default()).expect("and read again");
    assert_eq!(index.verify_against(&again), Ok(()));
}

/// The same behind the checksum: the bytes are what a snapshot has inside.
fn snapshot_body(bytes: &[u8]) {
    let mut file = SNAPSHOT_HEAD.to_vec();
    file.extend(zstd::encode_all(bytes, 1).unwrap());
    file.extend_from_slice(&xxh3_64(&file).to_le_bytes());
    snapshot(&file);
}

fn bodies() -> Vec<Vec<u8>> {
    let body = |file: Vec<u8>| {
        let compressed = file.get(SNAPSHOT_HEAD.len()..file.len() - CHECKSUM_LEN).unwrap_or_default().to_vec();
        zstd::decode_all(Cursor::new(compressed)).unwrap()
    };
    seeds::snapshots().into_iter().map(body).collect()
}
