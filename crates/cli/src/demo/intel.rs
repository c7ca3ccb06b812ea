//! What is known of vulnerabilities, and what of it stands against an image.

use scheduler_model::purl::{Component, ProductKey, Purl, Source};
use scheduler_model::{ImageDigest, Severity};
use scheduler_versions::Range;
use std::collections::{BTreeMap, HashMap};

/// One vulnerability of one package.
#[derive(Debug, Clone)]
pub struct Advisory {
    /// The package, as an export names it.
    pub key: ProductKey,
    /// The vulnerability's id.
    pub vuln_id: String,
    /// How bad it is.
    pub severity: Severity,
    /// Known to be exploited.
    pub kev: bool,
    /// Which versions have it.
    pub affected: Affected,
}

/// The affected versions of a package, as an export says it. A version that cannot be compared counts as affected: better asked
/// in vain than missed.
#[derive(Debug, Clone, Default)]
pub struct Affected {
    vers: Option<String>,
    /// What of it can leave versions out.
    range: Option<Range>,
}

impl Affected {
    /// Those of a `vers:` range.
    pub fn of_vers(text: String) -> Self {
        Self { range: Range::parse(&text), vers: Some(text) }
    }

    /// Those before the fixed one.
    pub fn below(ty: &str, fixed: &str) -> Self {
        Self::of_vers(format!("vers:{ty}/<{fixed}"))
    }

    /// The range as an export has it; `None`: every version.
    pub fn vers(&self) -> Option<&str> {
        self.vers.as_deref()
    }

    /// Whether a version of a package of that type is affected.
    pub fn contains(&self, ty: &str, version: Option<&str>) -> bool {
        !self.range.as_ref().is_some_and(|range| range.surely_excludes(ty, version))
    }
}

/// A package of an image.
#[derive(Debug, Clone)]
pub struct Package {
    /// Its purl, canonical.
    pub purl: String,
    /// What keys match on.
    pub component: Component,
    /// Whether the entrypoint uses it.
    pub used: bool,
}

impl Package {
    /// The package of a purl; `source` is what the document records beside it.
    pub fn new(purl: &Purl, source: Option<&Source>, used: bool) -> Self {
        Self { purl: purl.as_str().to_owned(), component: Component::from_purl(purl, source), used }
    }
}

/// An image as the demo scanner knows it.
#[derive(Debug, Clone)]
pub struct KnownImage {
    /// Its name.
    pub digest: ImageDigest,
    /// What people call it.
    pub name: String,
    /// Everything in it.
    pub packages: Vec<Package>,
}

impl KnownImage {
    /// Whether one of the keys selects the image: the matching rule, pair by pair, without any index.
    pub fn is_selected(&self, keys: &[ProductKey], usage_only: bool) -> bool {
        let mut packages = self.packages.iter().filter(|package| package.used || !usage_only);
        packages.any(|package| keys.iter().any(|key| key.matches(&package.component)))
    }
}

/// What an advisory says of a package of an image, by purl and vulnerability.
pub type Findings = BTreeMap<(String, String), Weight>;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weight {
    /// How bad it is.
    pub severity: Severity,
    /// Known to be exploited.
    pub kev: bool,
}

/// Advisories, to be looked up by package name.
#[derive(Debug, Default)]
pub struct Intel {
    by_name: HashMap<(String, String), Vec<Advisory>>,
}

impl Intel {
    /// What these advisories say together.
    pub fn new(advisories: impl IntoIterator<Item = Advisory>) -> Self {
        let mut by_name: HashMap<_, Vec<Advisory>> = HashMap::new();
        for advisory in advisories {
            let name = advisory.key.match_name();
            by_name.entry((name.ty.to_owned(), name.name.to_owned())).or_default().push(advisory);
        }
        Self { by_name }
    }

    /// Everything that stands against an image, whether its entrypoint uses it or not.
    pub fn findings(&self, image: &KnownImage) -> Findings {
        let mut findings = Findings::new();
        for package in &image.packages {
            for (name, version) in package.component.names() {
                let advisories = self.by_name.get(&(name.ty.to_owned(), name.name.to_owned()));
                for advisory in advisories.into_iter().flatten() {
                    // A key with a version names one; the range then says nothing more.
                    let hit = advisory.key.matches(&package.component)
                        && (advisory.key.version().is_some() || advisory.affected.contains(name.ty, version));
                    if !hit {
                        continue;
                    }
                    let finding = (package.purl.clone(), advisory.vuln_id.clone());
                    let weight = findings.entry(finding).or_insert(Weight { severity: Severity::Low, kev: false });
                    weight.severity = weight.severity.max(advisory.severity);
                    weight.kev |= advisory.kev;
                }
            }
        }
        findings
    }
}

/// What of `now` is new after `before`: unknown then, worse than then, or exploited only since.
pub fn news(before: &Findings, now: &Findings) -> Findings {
    let is_new = |finding: &(String, String), weight: &Weight| match before.get(finding) {
        None => true,
        Some(old) => weight.severity > old.severity || (weight.kev && !old.kev),
    };
    now.iter().filter(|(finding, weight)| is_new(finding, weight)).map(|(f, w)| (f.clone(), *w)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advisory(vuln_id: &str, key: &str, fixed: &str) -> Advisory {
        let key = ProductKey::parse(key).unwrap().0;
        Advisory {
            affected: Affected::below(key.match_name().ty, fixed),
            key,
            vuln_id: vuln_id.to_owned(),
            severity: Severity::High,
            kev: false,
        }
    }

    fn image(purls: &[(&str, bool)]) -> KnownImage {
        let package = |(purl, used): &(&str, bool)| Package::new(&Purl::parse_strict(purl).unwrap(), None, *used);
        KnownImage {
            digest: ImageDigest::of(b"image"),
            name: "shop/cart:1".to_owned(),
            packages: purls.iter().map(package).collect(),
        }
    }

    #[test]
    fn source_packages_are_judged_by_the_sources_version() {
        let intel = Intel::new([advisory("CVE-1", "pkg:deb/debian/openssl", "3.0.13-1")]);
        for (purl, hit) in [
            ("pkg:deb/debian/libssl3@3.0.11-1?upstream=openssl", true),
            ("pkg:deb/debian/libssl3@3.0.13-1?upstream=openssl", false),
            ("pkg:deb/debian/libssl3@9.0?upstream=openssl%403.0.11-1", true),
            ("pkg:deb/debian/libssl3@3.0.11-1", false),
            ("pkg:deb/ubuntu/libssl3@3.0.11-1?upstream=openssl", false),
        ] {
            assert_eq!(!intel.findings(&image(&[(purl, true)])).is_empty(), hit, "{purl}");
        }
    }

    #[test]
    fn only_what_was_not_reported_before_is_new() {
        let one = Weight { severity: Severity::High, kev: false };
        let finding = |vuln: &str, weight| (("pkg:npm/a@1".to_owned(), vuln.to_owned()), weight);
        let before = Findings::from([finding("same", one), finding("worse", one), finding("exploited", one)]);
        let now = Findings::from([
            finding("same", one),
            finding("worse", Weight { severity: Severity::Critical, kev: false }),
            finding("exploited", Weight { severity: Severity::High, kev: true }),
            finding("fresh", one),
        ]);
        let new: Vec<String> = news(&before, &now).into_keys().map(|(_, vuln)| vuln).collect();
        assert_eq!(new, ["exploited", "fresh", "worse"]);
    }

    #[test]
    fn unused_packages_select_no_image_when_only_use_counts() {
        let image = image(&[("pkg:npm/used@1.0.0", true), ("pkg:npm/idle@1.0.0", false)]);
        for (key, usage_only, selected) in [
            ("pkg:npm/used", true, true),
            ("pkg:npm/idle", true, false),
            ("pkg:npm/idle", false, true),
            ("pkg:npm/used@2.0.0", false, false),
        ] {
            let keys = [ProductKey::parse(key).unwrap().0];
            assert_eq!(image.is_selected(&keys, usage_only), selected, "{key}, only used: {usage_only}");
        }
    }
}
