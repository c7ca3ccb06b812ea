//! Which versions an advisory speaks of.

use super::version::compare;
use std::cmp::Ordering;

/// The most constraints that are read of a range.
const CONSTRAINTS_MAX: usize = 1000;

/// The affected versions of a package. A version that cannot be compared counts as affected: better asked in vain than missed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Affected {
    /// All of them.
    Every,
    /// Those before the fixed one.
    Below(String),
    /// Those of a `vers:` range.
    Range(Vec<Constraint>),
}

/// One condition of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constraint {
    comparator: Comparator,
    version: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparator {
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    GreaterOrEqual,
    Greater,
}

impl Affected {
    /// Reads `vers:TYPE/CONSTRAINT|…`. What is no such range counts as every version.
    pub fn of_vers(text: &str) -> Self {
        let constraints = text.strip_prefix("vers:").and_then(|rest| rest.split_once('/')).map(|(_, list)| list);
        let Some(list) = constraints.filter(|list| *list != "*") else { return Self::Every };
        let parts: Vec<&str> = list.split('|').map(str::trim).filter(|part| !part.is_empty()).collect();
        if parts.is_empty() || parts.len() > CONSTRAINTS_MAX {
            return Self::Every;
        }
        Self::Range(parts.into_iter().map(constraint).collect())
    }

    /// Whether a version of a package of that type is affected.
    pub fn contains(&self, ty: &str, version: Option<&str>) -> bool {
        let Some(version) = version else { return true };
        match self {
            Self::Every => true,
            Self::Below(fixed) => compare(ty, version, fixed).is_none_or(Ordering::is_lt),
            Self::Range(constraints) => within(ty, version, constraints).unwrap_or(true),
        }
    }
}

fn constraint(text: &str) -> Constraint {
    use Comparator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    let signs =
        [("<=", LessOrEqual), (">=", GreaterOrEqual), ("!=", NotEqual), ("<", Less), (">", Greater), ("=", Equal)];
    let found = signs.iter().find_map(|(sign, comparator)| Some((text.strip_prefix(sign)?, *comparator)));
    let (version, comparator) = found.unwrap_or((text, Equal));
    let version = percent_decoded(version.trim());
    Constraint { comparator, version }
}

/// A range writes what has a meaning in it as `%7C`; so may a sender write a `+` or `:`.
fn percent_decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut decoded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let byte = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(u8::is_ascii_graphic);
        match byte {
            Some(byte) => {
                decoded.push(byte.into());
                decoded.push_str(part.get(2..).unwrap_or_default());
            }
            None => {
                decoded.push('%');
                decoded.push_str(part);
            }
        }
    }
    decoded
}

/// The rule of the range notation: single versions first, then the intervals between the ordered bounds. `None` when a version
/// cannot be compared.
fn within(ty: &str, version: &str, constraints: &[Constraint]) -> Option<bool> {
    use Comparator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    let mut bounds = Vec::with_capacity(constraints.len());
    for constraint in constraints {
        let order = compare(ty, version, &constraint.version)?;
        match (constraint.comparator, order) {
            (Equal | LessOrEqual | GreaterOrEqual, Ordering::Equal) => return Some(true),
            (NotEqual, Ordering::Equal) => return Some(false),
            (Equal | NotEqual, _) => {}
            (Less | LessOrEqual | Greater | GreaterOrEqual, order) => bounds.push((constraint, order)),
        }
    }
    if bounds.is_empty() {
        // Exceptions alone mean everything else; single versions alone mean nothing else.
        return Some(constraints.iter().all(|constraint| constraint.comparator == NotEqual));
    }
    // The nearest bound on either side decides: below it comes a `<`, above it a `>`.
    let (mut above, mut below): (Option<&Constraint>, Option<&Constraint>) = (None, None);
    for (constraint, order) in bounds {
        let slot = if order.is_gt() { &mut below } else { &mut above };
        let nearer = match slot {
            None => true,
            Some(held) => {
                let between = compare(ty, &constraint.version, &held.version)?;
                if order.is_gt() { between.is_gt() } else { between.is_lt() }
            }
        };
        if nearer {
            *slot = Some(constraint);
        }
    }
    let ends_above = above.is_none_or(|bound| matches!(bound.comparator, Less | LessOrEqual));
    let begins_below = below.is_none_or(|bound| matches!(bound.comparator, Greater | GreaterOrEqual));
    // A bound that the version equals excludes it: had it included it, it would have been found above.
    let on_a_bound = above.is_some_and(|bound| compare(ty, version, &bound.version) == Some(Ordering::Equal));
    Some(ends_above && begins_below && !on_a_bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_versions_bound_what_is_affected() {
        for (ty, version, fixed, affected) in [
            ("deb", Some("3.0.11-1~deb12u2"), "3.0.13-1~deb12u1", true),
            ("deb", Some("3.0.13-1~deb12u1"), "3.0.13-1~deb12u1", false),
            ("rpm", Some("1:3.0.7-25.el9_3"), "1:3.0.7-27.el9", true),
            ("rpm", Some("1:3.0.7-28.el9_4"), "1:3.0.7-27.el9", false),
            ("apk", Some("3.1.4-r2"), "3.1.4-r5", true),
            ("apk", Some("3.1.6-r0"), "3.1.4-r5", false),
            ("npm", Some("14.2.10"), "14.2.25", true),
            ("npm", Some("15.0.0"), "14.2.25", false),
            ("pypi", Some("4.2.16rc1"), "4.2.16", true),
            ("pypi", Some("4.2.16"), "4.2.16", false),
            ("maven", Some("31.1-jre"), "32.0.0-jre", true),
            ("maven", Some("33.0.0-jre"), "32.0.0-jre", false),
            ("golang", Some("v0.17.0"), "0.31.0", true),
            ("golang", Some("v0.31.0"), "0.31.0", false),
            ("cargo", Some("0.2.0"), "0.2.1", true),
            // Not understood, or not said.
            ("swift", Some("9.0"), "1.0", true),
            ("npm", Some("latest"), "1.0.0", true),
            ("npm", None, "1.0.0", true),
        ] {
            assert_eq!(
                Affected::Below(fixed.to_owned()).contains(ty, version),
                affected,
                "{ty} {version:?}, fixed in {fixed}"
            );
        }
    }

    #[test]
    fn ranges_are_read_as_the_notation_says() {
        for (range, affected, not) in [
            ("vers:npm/<1.2.3", vec!["1.2.2", "0.1.0"], vec!["1.2.3", "2.0.0"]),
            ("vers:npm/<=1.2.3", vec!["1.2.3"], vec!["1.2.4"]),
            (
                "vers:npm/>=1.0.0|<1.2.3|>=2.0.0|<2.1.0",
                vec!["1.0.0", "1.2.2", "2.0.5"],
                vec!["0.9.0", "1.2.3", "1.9.0", "2.1.0"],
            ),
            ("vers:npm/>1.0.0", vec!["1.0.1"], vec!["1.0.0", "0.9.0"]),
            ("vers:npm/1.0.0|1.1.0", vec!["1.0.0", "1.1.0"], vec!["1.0.5"]),
            ("vers:npm/<2.0.0|!=1.5.0", vec!["1.4.0"], vec!["1.5.0", "2.0.0"]),
            ("vers:npm/!=1.5.0", vec!["1.4.0"], vec!["1.5.0"]),
            ("vers:npm/*", vec!["1.0.0", "latest"], vec![]),
            ("vers:npm/<1.2.3", vec!["latest"], vec![]),
            ("below 1.2", vec!["9.0.0"], vec![]),
        ] {
            let affected_versions = Affected::of_vers(range);
            for version in affected {
                assert!(affected_versions.contains("npm", Some(version)), "{version} is in {range}");
            }
            for version in not {
                assert!(!affected_versions.contains("npm", Some(version)), "{version} is not in {range}");
            }
        }
        assert!(Affected::of_vers("vers:deb/<1%3A1.0").contains("deb", Some("2.0")));
    }
}
