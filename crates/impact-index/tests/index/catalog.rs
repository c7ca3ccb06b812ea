//! Catalogs, keys and selections that are small and full of coincidences.

use crate::model::{ModelImage, Op};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use scheduler_impact_index::{QueryKey, Thresholds};
use scheduler_model::purl::{Component, ProductKey, Purl};
use scheduler_model::{ImageDigest, ImagePlace, Scope, Selection, TenantId};
use scheduler_versions::Ranges;
use std::sync::Arc;

const PURLS: &[&str] = &[
    "pkg:deb/debian/openssl@3.0.11-1",
    "pkg:deb/debian/openssl@3.0.13-1",
    "pkg:deb/debian/libssl3@3.0.11-1?arch=amd64&upstream=openssl",
    "pkg:deb/debian/libssl3@9.0-1?upstream=openssl%403.0.13-1",
    "pkg:deb/debian/openssl@9.0-1?upstream=openssl%403.0.13-1",
    "pkg:npm/openssl@2.0.0",
    "pkg:deb/debian/libssl3@3.0.11-1?arch=arm64",
    "pkg:deb/debian/libssl3@3.0.11-1?upstream=openssl%403.0.11",
    "pkg:deb/ubuntu/libssl3@3.0.11-1?upstream=openssl",
    "pkg:deb/ubuntu/openssl@1:3.0.11-1",
    "pkg:deb/debian/gcc@12",
    "pkg:deb/debian/gcc@12?upstream=gcc%4011",
    "pkg:rpm/redhat/openssl@3.0.7?epoch=1",
    "pkg:rpm/redhat/openssl-libs@3.0.7?epoch=1&upstream=openssl-3.0.7-1.src.rpm",
    "pkg:rpm/fedora/openssl@3.0.7",
    "pkg:apk/alpine/openssl@3.1.0",
    "pkg:apk/alpine/libcrypto3@3.1.0?upstream=openssl",
    "pkg:npm/%40scope/openssl@3.1.0",
    "pkg:npm/openssl@3.1.0",
    "pkg:npm/openssl",
    "pkg:pypi/%D0%BF%D0%B0%D0%BA%D0%B5%D1%82@1.0",
    "pkg:generic/a%20b@1%25",
    "pkg:golang/github.com/a/b@v1.0.0#sub",
    "pkg:oci/cart@1.0",
    "pkg:oci/base@sha256:4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a",
];

const KEYS: &[&str] = &[
    "pkg:deb/debian/openssl@3.0.11-1",
    "pkg:deb/debian/openssl@3.0.11",
    "pkg:deb/openssl",
    "pkg:deb/openssl@3.0.11-1",
    "pkg:deb/debian/openssl",
    "pkg:deb/ubuntu/openssl@3.0.11-1?epoch=1",
    "pkg:deb/debian/libssl3@3.0.11-1?arch=s390x",
    "pkg:deb/gcc@11",
    "pkg:deb/debian/gcc",
    "pkg:rpm/openssl",
    "pkg:rpm/openssl@1:3.0.7",
    "pkg:rpm/redhat/openssl@3.0.7-1",
    "pkg:apk/openssl",
    "pkg:alpine/openssl@3.1.0",
    "pkg:npm/openssl",
    "pkg:npm/openssl@3.1.0",
    "pkg:npm/%40scope/openssl",
    "pkg:pypi/%D0%BF%D0%B0%D0%BA%D0%B5%D1%82",
    "pkg:generic/a%20b@1%25",
    "pkg:golang/github.com/a/b",
    "pkg:cargo/nobody-has-it",
    "pkg:oci/cart",
    "pkg:oci/cart@1.0?repository_url=registry.example.com/shop/cart",
    "pkg:oci/cart?repository_url=shop/cart",
    "pkg:oci/cart?repository_url=registry.example.com/a/b",
    "pkg:oci/any@sha256:4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a",
    "pkg:oci/any@sha256:4bf5122f",
];

/// What changes may say of versions, by type; several of them may come together.
const RANGES: &[(&str, &[&str])] = &[
    (
        "deb",
        &[
            "vers:deb/<3.0.12-1",
            "vers:deb/>=3.0.12-1|<8.0-1",
            "vers:deb/>=9.0-1",
            "vers:deb/<1:3.0-1",
            "vers:deb/3.0.11-1",
            "vers:deb/<3.0.11",
            "vers:deb/!=3.0.13-1",
            "vers:deb/<12|<13",
        ],
    ),
    ("rpm", &["vers:rpm/<1:3.0.7", "vers:rpm/<=3.0.7", "vers:rpm/>1:3.0.7", "vers:rpm/<3.0.7-2"]),
    ("apk", &["vers:apk/<3.1.0", "vers:alpine/>=3.1.0-r1", "vers:apk/<=3.1.0"]),
    ("npm", &["vers:npm/<2.0.0", "vers:npm/>=2.0.0|<3.0.0", "vers:npm/>=3.0.0", "vers:npm/*", "vers:pypi/<2.0.0"]),
    ("golang", &["vers:golang/<1.0.0", "vers:golang/<=1.0.0"]),
];

pub fn tenants() -> Vec<TenantId> {
    ["default", "t-2", "t_3"].map(|name| TenantId::try_from(name.to_owned()).unwrap()).to_vec()
}

/// The second of them, the hash of the byte 1, is named by a key.
pub fn digests() -> Vec<ImageDigest> {
    (0..9_u8).map(|at| ImageDigest::of(&[at])).collect()
}

pub fn component(purl: &str) -> Component {
    Component::from_purl(&Purl::parse_lenient(purl).unwrap().purl, None)
}

fn place() -> impl Strategy<Value = ImagePlace> {
    let words = |from: &'static [&'static str], max| subsequence(from, 0..=max).prop_map(|texts| owned(&texts));
    let labels = subsequence(&[("team", "cart"), ("team", "pay"), ("tea", "mcart"), ("tier", "1")][..], 0..=3);
    (
        select(&["", "registry.example.com", "registry.example.com/a"][..]),
        select(&["shop/cart", "shop/pay", "cart", "b", "a/b", "магазин/cart"][..]),
        words(&["prod", "test", "prod-1"], 3),
        words(&["prod-1.4.2", "prod-1", "latest", "1.0", "тег"], 4),
        labels,
    )
        .prop_map(|(registry, repository, namespaces, tags, labels)| ImagePlace {
            registry: registry.to_owned(),
            repository: repository.to_owned(),
            namespaces,
            tags,
            labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        })
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn image() -> impl Strategy<Value = ModelImage> {
    let components = prop::collection::vec(select(PURLS), 0..8);
    (place(), components, prop::option::of(prop::collection::vec(0..8_u32, 0..5))).prop_map(|(place, purls, used)| {
        let components: Vec<_> = purls.iter().map(|purl| component(purl)).collect();
        let used = used.map(|used| used.into_iter().filter(|&at| (at as usize) < components.len()).collect());
        ModelImage { place, components, used }
    })
}

pub fn ops(max: usize) -> impl Strategy<Value = Vec<Op>> {
    let op = (select(tenants()), select(digests()), prop::option::weighted(0.8, image()))
        .prop_map(|(tenant, digest, put)| Op { tenant, digest, put });
    prop::collection::vec(op, 0..max)
}

fn key() -> impl Strategy<Value = QueryKey> {
    let parse = |raw: &str| ProductKey::parse(raw).unwrap().0;
    (select(KEYS), prop::option::weighted(0.2, select(KEYS)))
        .prop_map(move |(raw, part)| QueryKey::new(parse(raw), part.map(parse)))
        .prop_flat_map(|key| {
            let of_type = RANGES.iter().find(|(ty, _)| *ty == key.key.match_name().ty);
            let some = of_type.map_or_else(
                || Just(Vec::new()).boxed(),
                |(_, ranges)| prop_oneof![Just(Vec::new()), subsequence(*ranges, 1..=2)].boxed(),
            );
            (Just(key), some)
        })
        .prop_map(|(key, ranges)| QueryKey { affected: Ranges::parse(ranges).map(Arc::new), ..key })
}

pub fn keys() -> impl Strategy<Value = Option<Vec<QueryKey>>> {
    prop::option::weighted(0.9, prop::collection::vec(key(), 0..6))
}

/// Some filters, or all of them at once.
pub fn selection() -> impl Strategy<Value = Selection> {
    let some = |from: &'static [&'static str]| subsequence(from, 1..=from.len()).prop_map(|texts| owned(&texts));
    let given = prop_oneof![3 => prop::array::uniform5(prop::bool::weighted(0.25)), 1 => Just([true; 5])];
    let filters = (
        some(&["prod", "test", "prod-1", "none"]),
        some(&["shop/cart", "b", "none"]),
        subsequence(digests(), 1..=8),
        subsequence(&[("team", "cart"), ("tier", "1"), ("tier", "2")][..], 1..=2),
        some(&["prod-*", "1.?", "т*", "latest"]),
    );
    (select(&[Scope::AllImages, Scope::ByRepo, Scope::ByLabels][..]), given, filters).prop_map(
        |(scope, given, (namespaces, repositories, digests, labels, include_tags))| {
            let [by_namespace, by_repository, by_digest, by_label, by_tag] = given;
            let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            Selection {
                scope,
                namespaces: if by_namespace { namespaces } else { Vec::new() },
                repositories: if by_repository { repositories } else { Vec::new() },
                digests: if by_digest { digests } else { Vec::new() },
                labels: labels.filter(|_| by_label).collect(),
                include_tags: if by_tag { include_tags } else { Vec::new() },
                resolves_tags: false,
            }
        },
    )
}

/// Thresholds at which small catalogs take every path.
pub fn thresholds() -> impl Strategy<Value = Thresholds> {
    (
        any::<bool>(),
        1_u32..6,
        select(&[1_u32, 2, 4, 32][..]),
        1_u32..8,
        select(&[0_u32, 25, 60][..]),
        1_usize..5,
        1_usize..80,
        // From 4 bytes on; an arena of 64 bytes is among them.
        select(&[1_u32, 16, 100][..]),
        select(&[2_u32, 64][..]),
        select(&[1_usize, 3, 64][..]),
    )
        .prop_map(
            |(
                one_in_place,
                dense_min,
                one_in,
                compact_min,
                percent,
                segments_max,
                chunk_bytes,
                piece_len,
                page_words,
                changes,
            )| {
                Thresholds {
                    one_in_place,
                    dense_len_min: dense_min,
                    dense_one_in: one_in,
                    compact_retired_min: compact_min,
                    compact_percent: percent,
                    segments_max,
                    chunk_bytes,
                    piece_len,
                    page_words,
                    changes_per_edition: changes,
                }
            },
        )
}
