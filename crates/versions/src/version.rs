use crate::apk::Apk;
use crate::composer::Composer;
use crate::gem::Gem;
use crate::maven::Maven;
use crate::nuget::NuGet;
use crate::rpm::Rpm;
use crate::semantic;
use std::cmp::Ordering;

/// A longer version is not read: some comparisons take time by length.
const VERSION_LEN_MAX: usize = 256;

/// A way of ordering versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Debian and its kin.
    Deb,
    /// RPM.
    Rpm,
    /// Alpine.
    Apk,
    /// Semantic versions as npm has them.
    Npm,
    /// Semantic versions as Cargo has them.
    Cargo,
    /// Semantic versions as Go has them: shorter ones, `+incompatible`, pseudo-versions.
    Golang,
    /// PEP 440.
    Pypi,
    /// Maven.
    Maven,
    /// RubyGems.
    Gem,
    /// NuGet.
    NuGet,
    /// PHP's Composer.
    Composer,
}

impl Scheme {
    /// The scheme of a package type of purls.
    ///
    /// ```
    /// use scheduler_versions::Scheme;
    ///
    /// assert_eq!(Scheme::of_type("golang"), Some(Scheme::Golang));
    /// assert_eq!(Scheme::of_type("generic"), None);
    /// ```
    pub fn of_type(ty: &str) -> Option<Self> {
        Some(match ty {
            "deb" => Self::Deb,
            "rpm" => Self::Rpm,
            "apk" | "alpine" => Self::Apk,
            "npm" => Self::Npm,
            "cargo" => Self::Cargo,
            "golang" => Self::Golang,
            "pypi" => Self::Pypi,
            "maven" => Self::Maven,
            "gem" => Self::Gem,
            "nuget" => Self::NuGet,
            "composer" => Self::Composer,
            _ => return None,
        })
    }
}

/// A version that is understood.
#[derive(Debug, Clone)]
pub struct Version(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Deb(debversion::Version),
    Rpm(Rpm),
    Apk(Apk),
    Semantic(Scheme, semver::Version),
    Pypi(pep440_rs::Version),
    Maven(Maven),
    Gem(Gem),
    NuGet(NuGet),
    Composer(Composer),
}

impl Version {
    /// Reads a version; `None` when the scheme has no such version, or when it is longer than 256 bytes.
    pub fn parse(scheme: Scheme, text: &str) -> Option<Self> {
        let is_plain = (1..=VERSION_LEN_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_plain {
            return None;
        }
        Some(Self(match scheme {
            Scheme::Deb => Kind::Deb(text.parse().ok()?),
            Scheme::Rpm => Kind::Rpm(Rpm::parse(text)?),
            Scheme::Apk => Kind::Apk(Apk::parse(text)?),
            Scheme::Npm | Scheme::Cargo => Kind::Semantic(scheme, semantic::strict(text)?),
            Scheme::Golang => Kind::Semantic(scheme, semantic::golang(text)?),
            Scheme::Pypi => Kind::Pypi(text.parse().ok()?),
            Scheme::Maven => Kind::Maven(Maven::parse(text)?),
            Scheme::Gem => Kind::Gem(Gem::parse(text)?),
            Scheme::NuGet => Kind::NuGet(NuGet::parse(text)?),
            Scheme::Composer => Kind::Composer(Composer::parse(text)?),
        }))
    }

    /// The order of two versions of one scheme, as its own tools have it; `None` for two schemes.
    ///
    /// ```
    /// use scheduler_versions::{Scheme, Version};
    ///
    /// let of = |text| Version::parse(Scheme::Deb, text).unwrap();
    /// assert_eq!(of("1.0~rc1-1").order(&of("1.0-1")), Some(std::cmp::Ordering::Less));
    /// ```
    pub fn order(&self, other: &Self) -> Option<Ordering> {
        Some(match (&self.0, &other.0) {
            (Kind::Deb(own), Kind::Deb(other)) => own.cmp(other),
            (Kind::Rpm(own), Kind::Rpm(other)) => own.cmp(other),
            (Kind::Apk(own), Kind::Apk(other)) => return own.order(other),
            (Kind::Semantic(own_scheme, own), Kind::Semantic(scheme, other)) if own_scheme == scheme => {
                own.cmp_precedence(other)
            }
            (Kind::Pypi(own), Kind::Pypi(other)) => own.cmp(other),
            (Kind::Maven(own), Kind::Maven(other)) => own.cmp(other),
            (Kind::Gem(own), Kind::Gem(other)) => own.cmp(other),
            (Kind::NuGet(own), Kind::NuGet(other)) => own.cmp(other),
            (Kind::Composer(own), Kind::Composer(other)) => own.cmp(other),
            _ => return None,
        })
    }

    /// The order of a package's version and a bound of a range, where both say enough to be sure.
    ///
    /// A distribution's revision that one of the two lacks leaves open which of several it is. So does an epoch of RPM that the
    /// bound has and the version lacks: it may come from the file name of a source package, which never has one.
    /// The local part of a Python version is a build of the same code.
    pub(crate) fn sure_order(&self, bound: &Self) -> Option<Ordering> {
        match (&self.0, &bound.0) {
            (Kind::Deb(own), Kind::Deb(other)) => {
                if own.debian_revision.is_some() == other.debian_revision.is_some() {
                    return Some(own.cmp(other));
                }
                let upstream = |version: &debversion::Version| debversion::Version {
                    epoch: version.epoch,
                    upstream_version: version.upstream_version.clone(),
                    debian_revision: None,
                };
                Some(upstream(own).cmp(&upstream(other))).filter(|order| order.is_ne())
            }
            (Kind::Rpm(own), Kind::Rpm(other)) => own.sure_order(other),
            (Kind::Apk(own), Kind::Apk(other)) => own.sure_order(other),
            (Kind::Pypi(own), Kind::Pypi(other)) if other.local().is_empty() => {
                Some(own.clone().without_local().cmp(other))
            }
            _ => self.order(bound),
        }
    }
}
