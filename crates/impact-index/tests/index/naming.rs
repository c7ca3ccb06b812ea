use crate::catalog::{component, digests, tenants};
use crate::model::{ModelImage, Op, apply};
use scheduler_impact_index::{DifferenceKind, ImageRef, ImpactIndex, Query, QueryKey, Thresholds, Want};
use scheduler_model::purl::ProductKey;
use scheduler_model::{ImageDigest, ImagePlace, Selection};

pub fn put(at: usize, repository: &str, purls: &[&str]) -> Op {
    let place = ImagePlace {
        registry: "registry.example.com".to_owned(),
        repository: repository.to_owned(),
        ..ImagePlace::default()
    };
    let components = purls.iter().map(|purl| component(purl)).collect();
    Op {
        tenant: tenants()[0].clone(),
        digest: digests()[at].clone(),
        put: Some(ModelImage { place, components, used: Some(vec![]) }),
    }
}

fn candidates(index: &ImpactIndex, key: &str, part: Option<&str>) -> Vec<ImageDigest> {
    let parse = |raw: &str| ProductKey::parse(raw).unwrap().0;
    let keys = [QueryKey::new(parse(key), part.map(parse))];
    let (tenant, selection) = (&tenants()[0], &Selection::default());
    let query = Query { tenant, selection, keys: Some(&keys), usage_only: false };
    index
        .resolve(&query, Want { digests: true, ..Want::default() })
        .digests
        .into_iter()
        .map(|image| image.digest)
        .collect()
}

#[test]
fn an_oci_key_is_an_image_itself() {
    let digest = digests()[3].to_string();
    let check = |key: &str, expected: Option<ImageRef>| {
        assert_eq!(ImageRef::of(&ProductKey::parse(key).unwrap().0), expected, "{key}");
    };
    check("pkg:npm/cart", None);
    check("pkg:oci/cart", Some(ImageRef::Name("cart".into())));
    check("pkg:oci/cart@1.0?tag=latest", Some(ImageRef::Name("cart".into())));
    check(&format!("pkg:oci/cart@{digest}"), Some(ImageRef::Digest(digests()[3].clone())));
    check(
        &format!("pkg:oci/cart@{}?repository_url=a/b", digest.replace(':', "%3A")),
        Some(ImageRef::Digest(digests()[3].clone())),
    );
    check(
        "pkg:oci/cart?repository_url=https:%2F%2Fr.example.com%2Fshop%2Fcart%2F",
        Some(ImageRef::Location("r.example.com/shop/cart".into())),
    );
}

#[test]
fn an_oci_key_with_a_part_selects_images_that_have_it() {
    let index = ImpactIndex::in_memory(Thresholds::default());
    apply(
        &index,
        1,
        &[
            put(0, "shop/cart", &["pkg:npm/a@1"]),
            put(1, "shop/cart", &["pkg:npm/b@1"]),
            put(2, "other/cart", &["pkg:npm/a@2"]),
            put(3, "base", &["pkg:npm/a@2", "pkg:oci/cart@1"]),
        ],
    );
    let check = |key: &str, part: Option<&str>, expected: &[usize]| {
        let mut expected: Vec<_> = expected.iter().map(|&at| digests()[at].clone()).collect();
        expected.sort();
        assert_eq!(candidates(&index, key, part), expected, "{key} {part:?}");
    };
    check("pkg:oci/cart", None, &[0, 1, 2, 3]);
    check("pkg:oci/cart", Some("pkg:npm/a"), &[0, 2, 3]);
    check("pkg:oci/cart", Some("pkg:npm/a@2"), &[2, 3]);
    check("pkg:oci/cart?repository_url=registry.example.com/shop/cart", Some("pkg:npm/a"), &[0, 3]);
    check("pkg:oci/cart@2?repository_url=REGISTRY.example.com/shop/cart", None, &[0, 1]);
    check(&format!("pkg:oci/x@{}", digests()[2]), None, &[2]);
    check(&format!("pkg:oci/x@{}", digests()[8]), None, &[]);
}

#[test]
fn an_image_that_is_put_again_unchanged_keeps_its_ordinal() {
    let index = ImpactIndex::in_memory(Thresholds::default());
    let same = put(0, "shop/cart", &["pkg:npm/a@1", "pkg:npm/a@1", "pkg:npm/b@1"]);
    apply(&index, 1, &[same.clone(), same.clone(), put(0, "shop/cart", &["pkg:npm/b@1", "pkg:npm/a@1"])]);
    assert_eq!((index.stats().retired, index.stats().postings, index.sequence()), (0, 2, 3));
    apply(&index, 4, &[put(0, "shop/cart", &["pkg:npm/a@1", "pkg:npm/c@1"])]);
    assert_eq!(index.stats().retired, 1);
    assert!(candidates(&index, "pkg:npm/b", None).is_empty());
}

#[test]
fn a_key_may_select_many_versions_many_times() {
    let index = ImpactIndex::in_memory(Thresholds::default());
    let purls: Vec<String> = (0..300).map(|at| format!("pkg:deb/debian/lib{}@{at}?upstream=src", at % 7)).collect();
    apply(
        &index,
        1,
        &[put(0, "a", &purls.iter().map(String::as_str).collect::<Vec<_>>()), put(1, "b", &["pkg:npm/x@1"])],
    );
    let (tenant, selection) = (&tenants()[0], &Selection::default());
    let keys: Vec<_> = (0..200)
        .map(|at| QueryKey::new(ProductKey::parse(&format!("pkg:deb/src?spelling={at}")).unwrap().0, None))
        .collect();
    let answer = index.resolve(
        &Query { tenant, selection, keys: Some(&keys), usage_only: false },
        Want { sample: 5, ..Want::default() },
    );
    assert_eq!((answer.candidates, answer.keys_matched, answer.sample[0].matched_keys.len()), (1, 200, 200));
}

#[test]
fn p09_a_difference_is_named() {
    let of = |ops: &[Op]| {
        let index = ImpactIndex::in_memory(Thresholds::default());
        apply(&index, 1, ops);
        index
    };
    let base = [put(0, "a", &["pkg:deb/debian/a@1?upstream=s"]), put(1, "b", &["pkg:npm/b"])];
    let check = |other: &[Op], at: usize, kind: DifferenceKind| {
        let difference = of(&base).verify_against(&of(other)).unwrap_err();
        assert_eq!((difference.digest, difference.kind), (digests()[at].clone(), kind));
    };
    check(&base[..1], 1, DifferenceKind::Extra);
    check(&[base[0].clone(), base[1].clone(), put(2, "c", &[])], 2, DifferenceKind::Missing);
    check(&[base[0].clone(), put(1, "c", &["pkg:npm/b"])], 1, DifferenceKind::Place);
    check(&[base[0].clone(), put(1, "b", &[])], 1, DifferenceKind::ComponentExtra("npm/b".into()));
    let more = put(0, "a", &["pkg:deb/debian/a@1?upstream=s", "pkg:deb/debian/a@1?upstream=t%402"]);
    let name = "deb/debian/a@1 of source deb/debian/t@2".to_owned();
    check(&[more, base[1].clone()], 0, DifferenceKind::ComponentMissing(name));
}
