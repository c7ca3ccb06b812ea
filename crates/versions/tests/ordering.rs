//! How each ecosystem orders its versions, what is not understood, and that any text may come.

use proptest::prelude::*;
use scheduler_versions::{Scheme, Version};
use std::cmp::Ordering;

const SCHEMES: [Scheme; 11] = [
    Scheme::Deb,
    Scheme::Rpm,
    Scheme::Apk,
    Scheme::Npm,
    Scheme::Cargo,
    Scheme::Golang,
    Scheme::Pypi,
    Scheme::Maven,
    Scheme::Gem,
    Scheme::NuGet,
    Scheme::Composer,
];

fn order(scheme: Scheme, left: &str, right: &str) -> Option<Ordering> {
    Version::parse(scheme, left)?.order(&Version::parse(scheme, right)?)
}

fn check(scheme: Scheme, ascending: &[&str]) {
    for (at, left) in ascending.iter().enumerate() {
        for (other, right) in ascending.iter().enumerate() {
            assert_eq!(order(scheme, left, right), Some(at.cmp(&other)), "{scheme:?}: {left} and {right}");
        }
    }
}

#[test]
fn each_ecosystem_orders_versions_its_own_way() {
    check(Scheme::Deb, &["1.0~rc1-1", "1.0-1", "1.0-1+deb12u1", "1.0-1+deb12u10", "1.0.1-1", "1:0.9-1"]);
    check(
        Scheme::Rpm,
        &["1.0~rc1-1", "1.0-1.el9", "1.0-1.el9_2", "1.0-10.el9", "1.0^git1-1", "1.0a-1", "1.1-1", "1:0.9-1"],
    );
    check(
        Scheme::Apk,
        &[
            "1.2_alpha",
            "1.2_alpha1",
            "1.2_rc2-r1",
            "1.2",
            "1.2-r0",
            "1.2-r10",
            "1.2_git20230717-r4",
            "1.2_p",
            "1.2_p1",
            "1.2b",
            "1.2.0",
            "1.2.3",
            "1.10",
        ],
    );
    check(Scheme::Npm, &["1.0.0-alpha.2", "1.0.0-alpha.10", "1.0.0", "1.2.0", "1.10.0"]);
    check(Scheme::Golang, &["v0.0.0-20220101000000-abcdefabcdef", "0.7.0", "v0.17.0", "v24.0.5+incompatible"]);
    check(Scheme::Golang, &["go1.20", "1.20.5", "1.21"]);
    check(Scheme::Cargo, &["0.9.9", "1.0.0-rc.1", "1.0.0"]);
    check(Scheme::Pypi, &["1.0.dev1", "1.0a2", "1.0rc1", "1.0", "1.0+cu118", "1.0.post1", "1.0.1", "1!0.1"]);
    check(
        Scheme::Maven,
        &[
            "1.0-alpha-1",
            "1.0.beta2",
            "1.0-rc1",
            "1.0-SNAPSHOT",
            "1.0",
            "1.0-sp",
            "1.0-jre",
            "1.0-1",
            "1.0.1",
            "31.1-jre",
            "32.0.0-jre",
        ],
    );
    check(Scheme::Gem, &["1.0.0.a", "1.0.0.rc1", "1.0.0.rc1.1", "1.0", "1.0.1.pre", "1.0.1", "1.10"]);
    check(Scheme::NuGet, &["1.0.0-alpha.2", "1.0.0-alpha.10", "1.0.0-Beta", "1.0.0", "1.0.0.1", "1.10"]);
    check(
        Scheme::Composer,
        &["1.0.0-alpha", "1.0.0-alpha1", "1.0.0-beta2", "1.0.0-RC1", "1.0", "1.0.0-patch1", "1.0.0.1", "1.10"],
    );
}

#[test]
fn spellings_of_one_version_are_equal() {
    for (scheme, left, right) in [
        (Scheme::Deb, "0:1.0-1", "1.0-1"),
        (Scheme::Rpm, "0:1.0-1", "1.0-1"),
        (Scheme::Golang, "v1.2.0", "1.2"),
        (Scheme::Golang, "v24.0.5+incompatible", "24.0.5"),
        (Scheme::Pypi, "1.0", "1.0.0"),
        (Scheme::Maven, "1.0.0", "1"),
        (Scheme::Maven, "4.1.100.Final", "4.1.100"),
        (Scheme::Maven, "9.0.0.M1", "9.0.0-milestone-1"),
        (Scheme::Apk, "1.2.3-r1", "1.2.3~0abcdef-r1"),
        (Scheme::Gem, "1.0.0", "1"),
        (Scheme::NuGet, "1.0-BETA+build", "1.0.0-beta"),
        (Scheme::Composer, "v1.0.0-stable", "1"),
        (Scheme::Composer, "1.0.beta2", "1.0.0-b2"),
    ] {
        assert_eq!(order(scheme, left, right), Some(Ordering::Equal), "{scheme:?}: {left} and {right}");
    }
}

#[test]
fn what_is_not_understood_is_not_guessed() {
    for (scheme, text) in [
        (Scheme::Npm, "latest"),
        (Scheme::Npm, "1.2"),
        (Scheme::Npm, "1.2.3.4"),
        (Scheme::Golang, "(devel)"),
        (Scheme::Golang, "1.20rc1"),
        (Scheme::Golang, "1.2-rc.1"),
        (Scheme::Apk, "1.2_weird1"),
        (Scheme::Apk, "x"),
        (Scheme::Apk, "1.+2"),
        (Scheme::Rpm, "a:1-1"),
        (Scheme::Rpm, "1-2-3"),
        (Scheme::Rpm, "none"),
        (Scheme::Pypi, "2004d?"),
        (Scheme::Maven, "Finchley.SR1"),
        (Scheme::Maven, "١.0"),
        (Scheme::Gem, "1.13.9-x86_64-linux"),
        (Scheme::Composer, "dev-main"),
        (Scheme::Composer, "1.x-dev"),
        (Scheme::NuGet, "1.2.3.4.5"),
        (Scheme::Deb, ""),
        (Scheme::Deb, "1.0 "),
    ] {
        assert!(Version::parse(scheme, text).is_none(), "{scheme:?}: {text}");
    }
    // A number with a zero before it is a fraction for some versions of apk.
    assert_eq!(order(Scheme::Apk, "1.02", "1.1"), None);
    assert_eq!(order(Scheme::Apk, "1.02-r1", "1.02-r2"), Some(Ordering::Less));
    assert!(Version::parse(Scheme::Deb, &"1".repeat(256)).is_some());
    assert!(Version::parse(Scheme::Deb, &"1".repeat(257)).is_none());
    let of = |scheme| Version::parse(scheme, "1.0.0").unwrap();
    assert_eq!(of(Scheme::Npm).order(&of(Scheme::Cargo)), None);
}

fn text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "[0-9]{1,3}",
        "[.]",
        "-",
        "_",
        "[+~^:!]",
        "[a-c]",
        "rc",
        "alpha",
        "beta",
        "snapshot",
        "final",
        "r",
        "p",
        "v",
        "go",
        "0"
    ];
    prop::collection::vec(part, 1..8).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_texts_are_ordered_without_contradiction(a in text(), b in text(), c in text()) {
        for scheme in SCHEMES {
            let of = |text: &str| Version::parse(scheme, text);
            let (Some(a), Some(b), Some(c)) = (of(&a), of(&b), of(&c)) else { continue };
            prop_assert_eq!(a.order(&a), Some(Ordering::Equal));
            prop_assert_eq!(a.order(&b), b.order(&a).map(Ordering::reverse));
            // Maven's own order contradicts itself on some texts; what is in doubt has no order.
            let ascending = [a.order(&b), b.order(&c)].iter().all(|order| *order == Some(Ordering::Less));
            if ascending && !matches!(scheme, Scheme::Maven) {
                prop_assert!(matches!(a.order(&c), Some(Ordering::Less) | None), "{:?}: {:?} {:?} {:?}", scheme, a, b, c);
            }
        }
    }
}
