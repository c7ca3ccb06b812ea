use crate::version::{Scheme, Version};
use std::cmp::Ordering;

/// The most constraints that are read of a range, and its longest text.
const CONSTRAINTS_MAX: usize = 1000;
const RANGE_LEN_MAX: usize = 64 * 1024;

/// The affected versions of a package, in the `vers` notation: `vers:deb/>=1.0|<1.0.3-1`.
///
/// ```
/// use scheduler_versions::Range;
///
/// let range = Range::parse("vers:npm/<1.2.3|>=2.0.0|<2.1.0").unwrap();
/// assert!(range.surely_excludes("npm", Some("1.5.0")));
/// assert!(!range.surely_excludes("npm", Some("2.0.4")));
/// assert!(!range.surely_excludes("npm", Some("latest")), "what is not understood may be affected");
/// assert!(!range.surely_excludes("npm", None));
/// ```
#[derive(Debug, Clone)]
pub struct Range {
    scheme: Scheme,
    equal: Vec<Version>,
    unequal: Vec<Version>,
    bounds: Vec<Bound>,
}

/// Where an interval begins or ends.
#[derive(Debug, Clone)]
struct Bound {
    at: Version,
    begins: bool,
    /// Whether the bound itself is in the interval.
    inclusive: bool,
}

impl Range {
    /// Reads a range that can leave versions out. `None` for every version (`*`), for a scheme or a version that is not
    /// understood, for what is no range, and for one with more than 1,000 constraints.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > RANGE_LEN_MAX {
            return None;
        }
        let (scheme, list) = text.trim().strip_prefix("vers:")?.split_once('/')?;
        let scheme = Scheme::of_type(scheme)?;
        let constraints: Vec<&str> = list.split('|').map(str::trim).filter(|part| !part.is_empty()).collect();
        if constraints.is_empty() || constraints.len() > CONSTRAINTS_MAX {
            return None;
        }
        let mut range = Self { scheme, equal: Vec::new(), unequal: Vec::new(), bounds: Vec::new() };
        for constraint in constraints {
            range.add(constraint)?;
        }
        Some(range)
    }

    /// The versions before the one that is fixed.
    pub fn below(ty: &str, fixed: &str) -> Option<Self> {
        let scheme = Scheme::of_type(ty)?;
        let bound = Bound { at: Version::parse(scheme, fixed)?, begins: false, inclusive: false };
        Some(Self { scheme, equal: Vec::new(), unequal: Vec::new(), bounds: vec![bound] })
    }

    fn add(&mut self, constraint: &str) -> Option<()> {
        let end = constraint.find(|c| !matches!(c, '<' | '>' | '=' | '!')).unwrap_or(constraint.len());
        let (comparator, version) = constraint.split_at_checked(end)?;
        let at = Version::parse(self.scheme, &percent_decoded(version.trim())?)?;
        let (begins, inclusive) = match comparator {
            "" | "=" => {
                self.equal.push(at);
                return Some(());
            }
            "!=" => {
                self.unequal.push(at);
                return Some(());
            }
            "<" => (false, false),
            "<=" => (false, true),
            ">" => (true, false),
            ">=" => (true, true),
            _ => return None,
        };
        self.bounds.push(Bound { at, begins, inclusive });
        Some(())
    }

    /// Whether a version of a package of that type is not affected, beyond doubt. A package without a version may have any.
    pub fn surely_excludes(&self, ty: &str, version: Option<&str>) -> bool {
        all_exclude(std::slice::from_ref(self), ty, version)
    }

    /// Whether the version is outside; `None` when its order to one of the bounds is in doubt.
    ///
    /// The nearest bounds on either side decide. The notation wants beginnings and ends to alternate; where they do not, as in
    /// `<1|<2`, a version between them is in doubt, and not outside.
    fn lacks(&self, version: &Version) -> Option<bool> {
        for equal in &self.equal {
            if version.sure_order(equal)?.is_eq() {
                return Some(false);
            }
        }
        let mut excepted = false;
        for unequal in &self.unequal {
            excepted |= version.sure_order(unequal)?.is_eq();
        }
        if self.bounds.is_empty() {
            // Exceptions alone mean everything else, single versions alone nothing else; both together mean nothing clear.
            return Some(if self.unequal.is_empty() { true } else { excepted });
        }
        let (mut below, mut above): (Option<&Bound>, Option<&Bound>) = (None, None);
        for bound in &self.bounds {
            let order = version.sure_order(&bound.at)?;
            if order.is_eq() && bound.inclusive {
                return Some(excepted);
            }
            // On a bound that is not in its interval, a version is outside of it.
            let is_below = order.is_gt() || (order.is_eq() && !bound.begins);
            let (nearest, nearer) =
                if is_below { (&mut below, Ordering::Greater) } else { (&mut above, Ordering::Less) };
            let is_nearest = match nearest {
                None => true,
                // Of equal bounds the one that has the version in its interval.
                Some(held) => match bound.at.order(&held.at)? {
                    Ordering::Equal => bound.begins == is_below,
                    order => order == nearer,
                },
            };
            if is_nearest {
                *nearest = Some(bound);
            }
        }
        let outside = below.is_none_or(|bound| !bound.begins) && above.is_none_or(|bound| bound.begins);
        Some(outside || excepted)
    }
}

/// The affected versions of a package by several vulnerabilities: what one of them affects is affected.
///
/// ```
/// use scheduler_versions::Ranges;
///
/// let ranges = Ranges::parse(["vers:npm/<1.0.0", "vers:npm/>=2.0.0|<2.1.0"]).unwrap();
/// assert!(ranges.surely_exclude("npm", Some("1.5.0")));
/// assert!(!ranges.surely_exclude("npm", Some("2.0.0")));
/// assert!(Ranges::parse(["vers:npm/<1.0.0", "vers:npm/*"]).is_none());
/// ```
#[derive(Debug, Clone)]
pub struct Ranges(Vec<Range>);

impl Ranges {
    /// The most ranges of one package.
    pub const LEN_MAX: usize = 1000;

    /// Reads ranges that together can leave versions out. `None` when one of them cannot, when there is none, or when there are
    /// more than [`Self::LEN_MAX`].
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let ranges = texts.into_iter().take(Self::LEN_MAX + 1).map(Range::parse).collect::<Option<Vec<_>>>()?;
        (1..=Self::LEN_MAX).contains(&ranges.len()).then_some(Self(ranges))
    }

    /// Whether each of the ranges surely excludes the version.
    pub fn surely_exclude(&self, ty: &str, version: Option<&str>) -> bool {
        all_exclude(&self.0, ty, version)
    }
}

/// Reads the version once for all ranges of its scheme.
fn all_exclude(ranges: &[Range], ty: &str, version: Option<&str>) -> bool {
    let Some(scheme) = Scheme::of_type(ty) else { return false };
    if ranges.iter().any(|range| range.scheme != scheme) {
        return false;
    }
    let Some(version) = version.and_then(|text| Version::parse(scheme, text)) else { return false };
    ranges.iter().all(|range| range.lacks(&version) == Some(true))
}

/// A range writes what has a meaning in it as `%7C`; so may a sender write a `+` or `:`. `None` when a sequence is none.
fn percent_decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut decoded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.get(..2).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
        let byte = u8::from_str_radix(digits, 16).ok().filter(u8::is_ascii_graphic)?;
        decoded.push(byte.into());
        decoded.push_str(part.get(2..).unwrap_or_default());
    }
    Some(decoded)
}
