//! Which of two versions is older, by the rules of each ecosystem.

use std::cmp::Ordering;
use std::str::FromStr;

/// A longer version is not compared: some comparisons take time by length.
const VERSION_LEN_MAX: usize = 256;

/// Compares two versions of one package type; `None` when the type or one of the versions is not understood.
pub fn compare(ty: &str, left: &str, right: &str) -> Option<Ordering> {
    let plain = |text: &str| (1..=VERSION_LEN_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
    if !(plain(left) && plain(right)) {
        return None;
    }
    match ty {
        "deb" => ordered::<debversion::Version>(left, right),
        "rpm" => Some(rpm_version::rpm_evr_compare(left, right)),
        "apk" => Some(Apk::parse(left)?.cmp(&Apk::parse(right)?)),
        "npm" | "cargo" | "golang" => Some(semantic(left)?.cmp_precedence(&semantic(right)?)),
        "pypi" => ordered::<pep440_rs::Version>(left, right),
        "maven" => maven_version::compare_version(left, right).ok(),
        _ => None,
    }
}

fn ordered<T: FromStr + Ord>(left: &str, right: &str) -> Option<Ordering> {
    Some(left.parse::<T>().ok()?.cmp(&right.parse().ok()?))
}

/// Semantic versions, also as Go writes them (`v1.2.3+incompatible`) and for its standard library (`go1.21`, `1.21`).
fn semantic(text: &str) -> Option<semver::Version> {
    let text = text.strip_prefix("go").unwrap_or(text);
    let text = text.strip_prefix('v').unwrap_or(text);
    let core = text.split(['-', '+']).next().unwrap_or_default();
    let missing = 2usize.checked_sub(core.matches('.').count())?;
    semver::Version::parse(&format!("{core}{}{}", ".0".repeat(missing), text.strip_prefix(core)?)).ok()
}

/// A version of Alpine: `1.2.3b_rc1_p2-r4`. No well-kept crate compares them.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Apk {
    numbers: Vec<u64>,
    letter: Option<char>,
    suffixes: Vec<(ApkSuffix, u64)>,
    revision: u64,
}

/// What may follow the numbers, in order; `End` is where nothing follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ApkSuffix {
    Alpha,
    Beta,
    Pre,
    Rc,
    End,
    Cvs,
    Svn,
    Git,
    Hg,
    P,
}

impl Apk {
    fn parse(text: &str) -> Option<Self> {
        let (text, revision) = match text.rsplit_once("-r") {
            Some((text, revision)) => (text, revision.parse().ok()?),
            None => (text, 0),
        };
        // A commit after `~` says where it comes from, not how old it is.
        let mut parts = text.split('~').next()?.split('_');
        let numbers = parts.next()?;
        let letter = numbers.chars().last().filter(char::is_ascii_lowercase);
        let numbers = numbers.strip_suffix(|c: char| Some(c) == letter).unwrap_or(numbers);
        let numbers = numbers.split('.').map(|number| number.parse().ok()).collect::<Option<_>>()?;
        let mut suffixes = parts.map(suffix).collect::<Option<Vec<_>>>()?;
        suffixes.push((ApkSuffix::End, 0));
        Some(Self { numbers, letter, suffixes, revision })
    }
}

fn suffix(text: &str) -> Option<(ApkSuffix, u64)> {
    let digits = text.find(|c: char| c.is_ascii_digit()).unwrap_or(text.len());
    let (word, number) = text.split_at_checked(digits)?;
    let word = match word {
        "alpha" => ApkSuffix::Alpha,
        "beta" => ApkSuffix::Beta,
        "pre" => ApkSuffix::Pre,
        "rc" => ApkSuffix::Rc,
        "cvs" => ApkSuffix::Cvs,
        "svn" => ApkSuffix::Svn,
        "git" => ApkSuffix::Git,
        "hg" => ApkSuffix::Hg,
        "p" => ApkSuffix::P,
        _ => return None,
    };
    Some((word, if number.is_empty() { 0 } else { number.parse().ok()? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ty: &str, ascending: &[&str]) {
        for (at, left) in ascending.iter().enumerate() {
            for (other, right) in ascending.iter().enumerate() {
                assert_eq!(compare(ty, left, right), Some(at.cmp(&other)), "{ty}: {left} and {right}");
            }
        }
    }

    #[test]
    fn each_ecosystem_orders_versions_its_own_way() {
        check("deb", &["1.0~rc1-1", "1.0-1", "1.0-1+deb12u1", "1.0-1+deb12u10", "1.0.1-1", "1:0.9-1"]);
        check("rpm", &["1.0~rc1-1", "1.0-1.el9", "1.0-1.el9_2", "1.0-10.el9", "1.0a-1", "1.1-1", "1:0.9-1"]);
        check(
            "apk",
            &["1.2_alpha1", "1.2_rc2-r1", "1.2-r0", "1.2-r10", "1.2_git20230717-r4", "1.2_p1", "1.2b", "1.2.3", "1.10"],
        );
        check("npm", &["1.0.0-alpha.2", "1.0.0-alpha.10", "1.0.0", "1.2.0", "1.10.0"]);
        check("golang", &["v0.0.0-20220101000000-abcdefabcdef", "0.7.0", "v0.17.0", "v24.0.5+incompatible"]);
        check("golang", &["go1.20", "1.20.5", "1.21"]);
        check("cargo", &["0.9.9", "1.0.0-rc.1", "1.0.0"]);
        check("pypi", &["1.0.dev1", "1.0a2", "1.0rc1", "1.0", "1.0.post1", "1.0.1", "1!0.1"]);
        check("maven", &["1.0-alpha-1", "1.0-rc1", "1.0-SNAPSHOT", "1.0", "1.0-sp", "1.0.1", "31.1-jre", "32.0.0-jre"]);
    }

    #[test]
    fn spellings_of_one_version_are_equal() {
        for (ty, left, right) in [
            ("deb", "0:1.0-1", "1.0-1"),
            ("rpm", "0:1.0-1", "1.0-1"),
            ("golang", "v1.2.0", "1.2"),
            ("golang", "v24.0.5+incompatible", "24.0.5"),
            ("pypi", "1.0", "1.0.0"),
            ("maven", "1.0.0", "1"),
            ("maven", "4.1.100.Final", "4.1.100"),
            ("apk", "1.2.3-r1", "1.2.3~0abcdef-r1"),
        ] {
            assert_eq!(compare(ty, left, right), Some(Ordering::Equal), "{ty}: {left} and {right}");
        }
    }

    #[test]
    fn what_is_not_understood_is_not_guessed() {
        for (ty, left, right) in [
            ("npm", "latest", "1.0.0"),
            ("npm", "1.2.3.4", "1.0.0"),
            ("apk", "1.2_weird1", "1.0"),
            ("apk", "x", "1.0"),
            ("pypi", "2004d?", "1.0"),
            ("swift", "1.0", "2.0"),
            ("maven", "١.0", "1.0"),
            ("deb", "", "1.0"),
        ] {
            assert_eq!(compare(ty, left, right), None, "{ty}: {left} and {right}");
        }
    }
}
