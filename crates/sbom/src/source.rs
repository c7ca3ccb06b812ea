//! The source package of a distribution's component, from whatever the document records.

use crate::SourceRecord;

/// What was seen of a component's source; the purl decides which of it counts.
#[derive(Default)]
pub(crate) struct SourceHints {
    trivy: TrivySource,
    source: Option<String>,
    source_version: Option<String>,
    source_rpm: Option<String>,
    origin_package: Option<String>,
    built_from: Option<String>,
    ancestor: Option<Ancestor>,
}

#[derive(Default)]
struct TrivySource {
    name: Option<String>,
    version: Option<String>,
    release: Option<String>,
    epoch: Option<String>,
}

/// A component that another one descends from, as CycloneDX pedigrees list them.
#[derive(Default)]
pub(crate) struct Ancestor {
    pub(crate) name: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) purl: Option<String>,
}

impl SourceHints {
    /// Takes a CycloneDX property of Trivy or Syft.
    pub(crate) fn property(&mut self, name: &str, value: &str) {
        if let Some(field) = name.strip_prefix("aquasecurity:trivy:") {
            let slot = match field {
                "SrcName" => &mut self.trivy.name,
                "SrcVersion" => &mut self.trivy.version,
                "SrcRelease" => &mut self.trivy.release,
                "SrcEpoch" => &mut self.trivy.epoch,
                _ => return,
            };
            *slot = filled(value);
        } else if let Some(field) = name.strip_prefix("syft:metadata:") {
            self.syft(field, value);
        }
    }

    /// Takes a field of Syft's package metadata.
    pub(crate) fn syft(&mut self, field: &str, value: &str) {
        let slot = match field {
            "source" => &mut self.source,
            "sourceVersion" => &mut self.source_version,
            "sourceRpm" => &mut self.source_rpm,
            "originPackage" => &mut self.origin_package,
            _ => return,
        };
        *slot = filled(value);
    }

    /// Takes SPDX's `sourceInfo`, free text in which Trivy writes `built package from: NAME VERSION`.
    pub(crate) fn source_info(&mut self, text: &str) {
        self.built_from = text.strip_prefix("built package from:").and_then(filled);
    }

    /// Takes a pedigree's ancestor; the first one of a distribution wins.
    pub(crate) fn ancestor(&mut self, ancestor: Ancestor) {
        if self.ancestor.is_none() && ancestor.purl.as_deref().and_then(Distro::of).is_some() {
            self.ancestor = Some(ancestor);
        }
    }

    /// The source package of the component with this purl. Only `deb`, `rpm` and `apk` have one: the same fields mean
    /// other things elsewhere (a cargo package's `source` is its registry).
    pub(crate) fn resolve(&self, purl: &str) -> Option<SourceRecord> {
        let distro = Distro::of(purl)?;
        let own = match distro {
            Distro::Deb => named(self.source.as_deref(), self.source_version.as_deref()),
            Distro::Rpm => self.source_rpm.as_deref().and_then(source_rpm),
            Distro::Apk => named(self.origin_package.as_deref(), None),
        };
        self.trivy
            .record()
            .or(own)
            .or_else(|| self.built_from.as_deref().and_then(built_from))
            .or_else(|| self.ancestor.as_ref().and_then(|ancestor| ancestor.record(distro)))
    }
}

impl TrivySource {
    fn record(&self) -> Option<SourceRecord> {
        let version = self.version.as_ref().map(|version| {
            let epoch = self.epoch.as_deref().filter(|epoch| *epoch != "0");
            let epoch = epoch.map(|epoch| format!("{epoch}:")).unwrap_or_default();
            let release = self.release.as_ref().map(|release| format!("-{release}")).unwrap_or_default();
            format!("{epoch}{version}{release}")
        });
        named(self.name.as_deref(), version.as_deref())
    }
}

impl Ancestor {
    fn record(&self, distro: Distro) -> Option<SourceRecord> {
        let same = self.purl.as_deref().and_then(Distro::of) == Some(distro);
        named(self.name.as_deref().filter(|_| same), self.version.as_deref())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Distro {
    Deb,
    Rpm,
    Apk,
}

impl Distro {
    fn of(purl: &str) -> Option<Self> {
        let (scheme, rest) = purl.trim_start().split_once(':')?;
        let (kind, _) = rest.trim_start_matches('/').split_once('/')?;
        let is = |name: &str| kind.eq_ignore_ascii_case(name);
        match () {
            () if !scheme.eq_ignore_ascii_case("pkg") => None,
            () if is("deb") => Some(Self::Deb),
            () if is("rpm") => Some(Self::Rpm),
            () if is("apk") || is("alpine") => Some(Self::Apk),
            () => None,
        }
    }
}

fn filled(value: &str) -> Option<String> {
    let value = value.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

fn named(name: Option<&str>, version: Option<&str>) -> Option<SourceRecord> {
    Some(SourceRecord { name: filled(name?)?, version: version.and_then(filled) })
}

/// `glibc-2.34-60.el9.src.rpm`: name, version and release, none of the last two with a dash.
fn source_rpm(file: &str) -> Option<SourceRecord> {
    let stem = file.strip_suffix(".src.rpm").or_else(|| file.strip_suffix(".nosrc.rpm"))?;
    let (rest, release) = stem.rsplit_once('-')?;
    let (name, version) = rest.rsplit_once('-')?;
    named(Some(name), Some(&format!("{version}-{release}")))
}

fn built_from(text: &str) -> Option<SourceRecord> {
    match text.split_once(char::is_whitespace) {
        Some((name, version)) => named(Some(name), Some(version)),
        None => named(Some(text), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEB: &str = "pkg:deb/debian/libssl3@3.0.11-1?arch=amd64";
    const RPM: &str = "pkg:rpm/redhat/glibc-common@2.34-60.el9";
    const APK: &str = "pkg:apk/alpine/libcrypto3@3.1.4-r5";

    fn check(fields: &[(&str, &str)], purl: &str, expected: Option<(&str, Option<&str>)>) {
        let mut hints = SourceHints::default();
        for (name, value) in fields {
            match *name {
                "sourceInfo" => hints.source_info(value),
                name => hints.property(name, value),
            }
        }
        let found = hints.resolve(purl);
        let found = found.as_ref().map(|record| (record.name.as_str(), record.version.as_deref()));
        assert_eq!(found, expected, "{fields:?} of {purl}");
    }

    #[test]
    fn trivy_properties_give_epoch_version_and_release() {
        let name = ("aquasecurity:trivy:SrcName", "openssl");
        let version = ("aquasecurity:trivy:SrcVersion", "1.0.2k");
        let release = ("aquasecurity:trivy:SrcRelease", "16.el7");
        let epoch = ("aquasecurity:trivy:SrcEpoch", "1");
        let zero = ("aquasecurity:trivy:SrcEpoch", "0");
        check(&[name], DEB, Some(("openssl", None)));
        check(&[name, version], DEB, Some(("openssl", Some("1.0.2k"))));
        check(&[name, version, release, zero], RPM, Some(("openssl", Some("1.0.2k-16.el7"))));
        check(&[name, version, release, epoch], RPM, Some(("openssl", Some("1:1.0.2k-16.el7"))));
        check(&[version, release, epoch], RPM, None);
    }

    #[test]
    fn syft_metadata_counts_for_its_own_package_kind() {
        let deb = [("syft:metadata:source", "openssl"), ("syft:metadata:sourceVersion", "3.0.11-1+src")];
        check(&deb, DEB, Some(("openssl", Some("3.0.11-1+src"))));
        check(&deb, "PKG:DEB/debian/libssl3", Some(("openssl", Some("3.0.11-1+src"))));
        check(&deb, RPM, None);
        check(&deb, "pkg:cargo/openssl@1", None);
        check(&deb, "not a purl", None);
        check(&[("syft:metadata:source", " ")], DEB, None);
        let rpm = [("syft:metadata:sourceRpm", "glibc-2.34-60.el9.src.rpm")];
        check(&rpm, RPM, Some(("glibc", Some("2.34-60.el9"))));
        check(&rpm, DEB, None);
        check(&[("syft:metadata:sourceRpm", "(none)")], RPM, None);
        let apk = [("syft:metadata:originPackage", "openssl")];
        check(&apk, APK, Some(("openssl", None)));
        check(&apk, "pkg:alpine/libcrypto3@3.1.4-r5", Some(("openssl", None)));
    }

    #[test]
    fn spdx_source_info_names_the_source_only_in_trivys_form() {
        check(&[("sourceInfo", "built package from: bash 4.2.46-31.el7")], RPM, Some(("bash", Some("4.2.46-31.el7"))));
        check(&[("sourceInfo", "built package from: bash")], DEB, Some(("bash", None)));
        check(&[("sourceInfo", "acquired package info from DPKG DB: /var/lib/dpkg/status")], DEB, None);
        check(&[("sourceInfo", "built package from: ")], DEB, None);
    }

    #[test]
    fn first_ancestor_of_the_same_kind_is_the_source() {
        let ancestor = |purl: &str| {
            let mut hints = SourceHints::default();
            hints.ancestor(Ancestor {
                name: Some("openssl".to_owned()),
                version: Some("3.0.11-1".to_owned()),
                purl: Some(purl.to_owned()),
            });
            hints.resolve(DEB).map(|record| record.name)
        };
        assert_eq!(ancestor("pkg:deb/debian/openssl@3.0.11-1?arch=source").as_deref(), Some("openssl"));
        assert_eq!(ancestor("pkg:github/openssl/openssl@3.0.11"), None);
    }
}
