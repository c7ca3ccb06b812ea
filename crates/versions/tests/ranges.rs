//! What ranges leave out, and that in doubt they leave out nothing.
#![expect(clippy::indexing_slicing, reason = "test code; what is there, is there")]

use proptest::prelude::*;
use scheduler_versions::Range;

/// Whether the range leaves the version out.
fn excludes(range: &str, ty: &str, version: &str) -> bool {
    Range::parse(range).is_some_and(|range| range.surely_excludes(ty, Some(version)))
}

#[test]
fn ranges_are_read_as_the_notation_says() {
    for (range, affected, not) in [
        ("vers:npm/<1.2.3", vec!["1.2.2", "0.1.0", "1.2.3-rc.1"], vec!["1.2.3", "2.0.0"]),
        ("vers:npm/<=1.2.3", vec!["1.2.3"], vec!["1.2.4"]),
        (
            "vers:npm/>=1.0.0|<1.2.3|>=2.0.0|<2.1.0",
            vec!["1.0.0", "1.2.2", "2.0.5"],
            vec!["0.9.0", "1.2.3", "1.9.0", "2.1.0", "1.0.0-rc.1"],
        ),
        (" vers:npm/ <2.1.0 | >=2.0.0 | >=1.0.0 | <1.2.3 ", vec!["1.0.0", "2.0.5"], vec!["0.9.0", "1.9.0", "2.1.0"]),
        ("vers:npm/>1.0.0", vec!["1.0.1"], vec!["1.0.0", "0.9.0"]),
        ("vers:npm/1.0.0|=1.1.0", vec!["1.0.0", "1.1.0"], vec!["1.0.5"]),
        ("vers:npm/1.0.0|>=2.0.0|<3.0.0", vec!["1.0.0", "2.5.0"], vec!["0.9.0", "1.5.0", "3.0.0"]),
        ("vers:npm/<2.0.0|!=1.5.0", vec!["1.4.0"], vec!["1.5.0", "2.0.0"]),
        ("vers:npm/!=1.5.0", vec!["1.4.0"], vec!["1.5.0"]),
        ("vers:npm/<2.0.0|>=2.0.0|<3.0.0", vec!["1.0.0", "2.0.0", "2.5.0"], vec!["3.0.0"]),
        ("vers:npm/<2.0.0|>2.0.0", vec!["1.0.0", "3.0.0"], vec!["2.0.0"]),
    ] {
        for version in affected {
            assert!(!excludes(range, "npm", version), "{version} is in {range}");
        }
        for version in not {
            assert!(excludes(range, "npm", version), "{version} is not in {range}");
        }
    }
    assert!(excludes("vers:deb/<1%3A1.0-1", "deb", "2:1.0-1"));
    assert!(!excludes("vers:deb/<1%3A1.0-1", "deb", "2.0-1"));
    assert!(excludes("vers:alpine/<1.2.3-r0", "apk", "1.2.3-r0"));
}

#[test]
fn in_doubt_nothing_is_left_out() {
    for (range, ty, version) in [
        // Nothing to go by.
        ("vers:npm/*", "npm", "1.0.0"),
        ("vers:npm/", "npm", "1.0.0"),
        ("below 1.2", "npm", "9.0.0"),
        ("vers:swift/<1.0.0", "swift", "2.0.0"),
        ("vers:none/*", "npm", "2.0.0"),
        // Versions or bounds that are not understood, one of many too.
        ("vers:npm/<1.2.3", "npm", "latest"),
        ("vers:npm/<1.2", "npm", "9.0.0"),
        ("vers:npm/<1.2.3|>=2.0.0|<soon", "npm", "1.5.0"),
        ("vers:npm/<1.2%2", "npm", "9.0.0"),
        ("vers:npm/=<1.2.3", "npm", "9.0.0"),
        // Of another ecosystem.
        ("vers:npm/<1.2.3", "pypi", "9.0.0"),
        // Beginnings and ends that do not alternate.
        ("vers:npm/<1.0.0|<2.0.0", "npm", "1.5.0"),
        ("vers:npm/>=1.0.0|>=2.0.0", "npm", "1.5.0"),
        ("vers:npm/1.0.0|!=2.0.0", "npm", "3.0.0"),
        // A revision that only one of the two has; an epoch of RPM that the version may have lost.
        ("vers:deb/<=1.2", "deb", "1.2-3"),
        ("vers:deb/>=1.2-3|<2.0-1", "deb", "1.2"),
        ("vers:rpm/<=1.2", "rpm", "1.2-3.el9"),
        ("vers:rpm/1.2", "rpm", "1.2-3.el9"),
        ("vers:apk/<=1.2", "apk", "1.2-r3"),
        ("vers:rpm/>=1:1.0-1|<1:1.1.1k-12", "rpm", "1.1.1k-9"),
        // A local build of what is affected.
        ("vers:pypi/<=2.0", "pypi", "2.0+cu118"),
        ("vers:pypi/2.0", "pypi", "2.0+cu118"),
    ] {
        assert!(!excludes(range, ty, version), "{version} is not surely outside of {range}");
    }
    assert!(!Range::parse("vers:npm/<1.0.0").unwrap().surely_excludes("npm", None));
}

#[test]
fn doubt_about_a_revision_or_an_epoch_is_none_where_the_rest_decides() {
    for (range, ty, version) in [
        ("vers:deb/<=1.2", "deb", "1.3-1"),
        ("vers:deb/<1.2-3", "deb", "1.2-3+b1"),
        ("vers:rpm/<=1.2", "rpm", "1.3-1.el9"),
        ("vers:rpm/<1:1.0-1.el9", "rpm", "1:1.0-1.el9_2"),
        ("vers:rpm/<0:1.0-1.el9", "rpm", "1.0-2.el9"),
        ("vers:rpm/<3.0-1", "rpm", "1:2.0-1"),
        ("vers:deb/<3.0-1", "deb", "1:2.0-1"),
        ("vers:deb/>=1:1.0-1", "deb", "2.0-1"),
        ("vers:apk/<=1.2", "apk", "1.3-r0"),
        ("vers:pypi/<2.0", "pypi", "2.0+cu118"),
        ("vers:pypi/<2.0+cu118", "pypi", "2.0+cu118"),
        ("vers:golang/<24.0.5", "golang", "v24.0.5+incompatible"),
        ("vers:golang/>=1.2.0|<1.5.0", "golang", "v0.0.0-20220101000000-abcdefabcdef"),
    ] {
        assert!(excludes(range, ty, version), "{version} is surely outside of {range}");
    }
}

#[test]
fn a_range_has_at_most_a_thousand_constraints() {
    let of = |count: usize| (0..count).map(|n| format!("{n}.0.0")).collect::<Vec<_>>().join("|");
    assert!(excludes(&format!("vers:npm/{}", of(1000)), "npm", "5.5.0"));
    assert!(!excludes(&format!("vers:npm/{}", of(1001)), "npm", "5.5.0"));
}

#[test]
fn fixed_versions_bound_what_is_affected() {
    let below = |ty, fixed, version| Range::below(ty, fixed).is_some_and(|r| r.surely_excludes(ty, Some(version)));
    for (ty, version, fixed, excluded) in [
        ("deb", "3.0.11-1~deb12u2", "3.0.13-1~deb12u1", false),
        ("deb", "3.0.13-1~deb12u1", "3.0.13-1~deb12u1", true),
        ("rpm", "1:3.0.7-25.el9_3", "1:3.0.7-27.el9", false),
        ("rpm", "1:3.0.7-28.el9_4", "1:3.0.7-27.el9", true),
        ("apk", "3.1.4-r2", "3.1.4-r5", false),
        ("apk", "3.1.6-r0", "3.1.4-r5", true),
        ("npm", "14.2.10", "14.2.25", false),
        ("npm", "15.0.0", "14.2.25", true),
        ("pypi", "4.2.16rc1", "4.2.16", false),
        ("pypi", "4.2.16", "4.2.16", true),
        ("maven", "31.1-jre", "32.0.0-jre", false),
        ("maven", "33.0.0-jre", "32.0.0-jre", true),
        ("golang", "v0.17.0", "0.31.0", false),
        ("golang", "v0.31.0", "0.31.0", true),
        ("cargo", "0.2.0", "0.2.1", false),
        ("swift", "9.0", "1.0", false),
    ] {
        assert_eq!(below(ty, fixed, version), excluded, "{ty} {version}, fixed in {fixed}");
    }
}

const SIGNS: [&str; 6] = ["<", "<=", "=", "!=", ">=", ">"];

/// A constraint: a sign by its number, and a version.
type Constraint = (usize, u8);

fn vers(constraints: &[Constraint]) -> String {
    let parts: Vec<String> = constraints.iter().map(|(sign, at)| format!("{}{at}.0.0", SIGNS[*sign])).collect();
    format!("vers:npm/{}", parts.join("|"))
}

fn holds((sign, at): Constraint, version: u8) -> bool {
    match SIGNS[sign] {
        "<" => version < at,
        "<=" => version <= at,
        "=" => version == at,
        "!=" => version != at,
        ">=" => version >= at,
        _ => version > at,
    }
}

/// The notation's own rule, over constraints in the order of their versions: single versions, then pairs of neighbours.
fn is_within(constraints: &[Constraint], version: u8) -> bool {
    let of = |signs: &[&str]| -> Vec<Constraint> {
        constraints.iter().copied().filter(|(sign, _)| signs.contains(&SIGNS[*sign])).collect()
    };
    if of(&["=", "<=", ">="]).iter().any(|(_, at)| *at == version) {
        return true;
    }
    if of(&["!="]).iter().any(|(_, at)| *at == version) {
        return false;
    }
    let bounds = of(&["<", "<=", ">", ">="]);
    if bounds.is_empty() {
        return of(&["="]).is_empty();
    }
    let is_end = |(sign, _): &Constraint| *sign < 2;
    let before_all = bounds.first().is_some_and(|first| is_end(first) && holds(*first, version));
    let after_all = bounds.last().is_some_and(|last| !is_end(last) && holds(*last, version));
    let between = bounds
        .windows(2)
        .any(|pair| !is_end(&pair[0]) && is_end(&pair[1]) && holds(pair[0], version) && holds(pair[1], version));
    before_all || after_all || between
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    /// VER-1, over ranges of any make.
    #[test]
    fn ver1_what_is_left_out_is_outside_by_the_notations_rule(
        constraints in prop::collection::vec((0usize..6, 0u8..12), 1..7),
        seed in any::<u64>(),
    ) {
        let mut ordered = constraints.clone();
        // Each version once, as the notation wants it.
        ordered.sort_by_key(|(_, at)| *at);
        ordered.dedup_by_key(|(_, at)| *at);
        let mut shuffled = ordered.clone();
        let turns = usize::try_from(seed % 7).unwrap() % shuffled.len();
        shuffled.rotate_left(turns);
        for version in 0..13 {
            let ours = excludes(&vers(&shuffled), "npm", &format!("{version}.0.0"));
            prop_assert!(!(ours && is_within(&ordered, version)), "{version} is in {}", vers(&ordered));
        }
    }

    /// Of a range that is written as the notation wants it, everything outside is left out.
    #[test]
    fn intervals_that_alternate_leave_out_exactly_what_is_outside(
        ats in prop::collection::btree_set(0u8..30, 1..8),
        begins in any::<bool>(),
        inclusive in prop::collection::vec(any::<bool>(), 8),
    ) {
        let constraints: Vec<Constraint> = ats
            .iter()
            .enumerate()
            .map(|(number, at)| {
                let begin = begins == (number % 2 == 0);
                (match (begin, inclusive[number]) { (true, true) => 4, (true, false) => 5, (false, true) => 1, _ => 0 }, *at)
            })
            .collect();
        for version in 0..31 {
            let ours = excludes(&vers(&constraints), "npm", &format!("{version}.0.0"));
            prop_assert_eq!(ours, !is_within(&constraints, version), "{} in {}", version, vers(&constraints));
        }
    }

    #[test]
    fn any_text_may_come(range in "vers:(deb|rpm|apk|npm|golang|pypi|maven|gem|nuget|composer)/[ -~]{0,30}", version in "\\PC{0,20}") {
        if let Some(range) = Range::parse(&range) {
            for ty in ["deb", "rpm", "apk", "npm", "golang", "pypi", "maven", "gem", "nuget", "composer"] {
                range.surely_excludes(ty, Some(&version));
            }
        }
    }
}
