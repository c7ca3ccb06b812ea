use super::Purl;
use super::form::{is_distro, match_form, match_version};
use super::rules::rules_of;
use std::borrow::Cow;

/// The source package that a binary package was built from, as it is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// Its version, where one is recorded; without it the component's own counts.
    pub version: Option<String>,
}

impl Source {
    /// Reads `NAME`, `NAME@VERSION` and, for `rpm`, `NAME-VERSION-RELEASE.src.rpm`. `None` when there is no name in it.
    ///
    /// ```
    /// use scheduler_model::purl::Source;
    ///
    /// let source = Source::parse("rpm", "gcc-toolset-14-14.1.1-4.fc40.src.rpm");
    /// assert_eq!(source.map(|s| (s.name, s.version)), Some(("gcc-toolset-14".into(), Some("14.1.1-4.fc40".into()))));
    /// ```
    pub fn parse(ty: &str, text: &str) -> Option<Self> {
        let file = if ty == "rpm" { rpm_stem(text) } else { None };
        let (name, version) = match file {
            Some(stem) => {
                let (rest, release) = stem.rsplit_once('-').filter(|(_, release)| !release.is_empty())?;
                let (name, version) = rest.rsplit_once('-').filter(|(_, version)| !version.is_empty())?;
                (name, Some(format!("{version}-{release}")))
            }
            None => match text.split_once('@') {
                Some((name, version)) => (name, Some(version.to_owned()).filter(|version| !version.is_empty())),
                None => (text, None),
            },
        };
        (!name.is_empty()).then(|| Self { name: name.to_owned(), version })
    }
}

fn rpm_stem(file: &str) -> Option<&str> {
    file.strip_suffix(".src.rpm").or_else(|| file.strip_suffix(".nosrc.rpm"))
}

/// A package of the catalog in match form: what an index stores of it.
///
/// Two purls that differ only in what keys cannot tell apart (architecture, distribution, the spelling of an epoch)
/// give equal components.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Component {
    ty: String,
    namespace: Option<String>,
    name: String,
    version: Option<String>,
    source: Option<Source>,
}

impl Component {
    /// The component of a purl. `recorded` is what the document says of its source package beside the purl; of
    /// types other than `deb`, `rpm` and `apk` it is ignored, as the `upstream` qualifier is.
    ///
    /// Where both speak, the qualifier names the source; the version comes from the one that has it for that name.
    pub fn from_purl(purl: &Purl, recorded: Option<&Source>) -> Self {
        let form = match_form(purl);
        let own = form.version.as_deref();
        let source = if is_distro(form.ty) { source_of(form.ty, purl.qualifier("upstream"), recorded) } else { None };
        let differs = |source: &Source| source.version.is_some() && source.version.as_deref() != own;
        let source = source.filter(|source| source.name != form.name || differs(source));
        Self {
            source,
            ty: form.ty.to_owned(),
            namespace: form.namespace.map(str::to_owned),
            version: form.version.map(Cow::into_owned),
            name: form.name.into_owned(),
        }
    }

    /// The type; `apk` for the old `alpine`.
    pub fn ty(&self) -> &str {
        &self.ty
    }

    /// The namespace.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version; of `deb` and `rpm` with the epoch as prefix, unless it is zero.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// The source package, unless it is no other than the component itself.
    pub fn source(&self) -> Option<&Source> {
        self.source.as_ref()
    }

    /// The names under which keys find the component, each with its version: its own, then its source's. A key
    /// without namespace, of a type where [`ProductKey::any_namespace`](super::ProductKey::any_namespace) holds, is
    /// not spread here: that is the index's part.
    pub fn names(&self) -> impl Iterator<Item = (MatchName<'_>, Option<&str>)> {
        let name = |name| MatchName { ty: &self.ty, namespace: self.namespace(), name };
        let source = self.source.iter();
        std::iter::once((name(self.name.as_str()), self.version()))
            .chain(source.map(move |source| (name(source.name.as_str()), source.version.as_deref().or(self.version()))))
    }
}

/// What a key without version is looked up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MatchName<'a> {
    /// The type, in match form.
    pub ty: &'a str,
    /// The namespace.
    pub namespace: Option<&'a str>,
    /// The name, in match form.
    pub name: &'a str,
}

fn source_of(ty: &str, upstream: Option<&str>, recorded: Option<&Source>) -> Option<Source> {
    let upstream = upstream.and_then(|text| Source::parse(ty, text)).map(|source| settle(ty, &source));
    let recorded = recorded.filter(|source| !source.name.is_empty()).map(|source| settle(ty, source));
    match (upstream, recorded) {
        (Some(Source { name, version: None }), Some(recorded)) if recorded.name == name => Some(recorded),
        (Some(upstream), _) => Some(upstream),
        (None, recorded) => recorded,
    }
}

/// A source under the rules of its binary packages' type.
fn settle(ty: &str, source: &Source) -> Source {
    let version = source.version.as_deref().filter(|version| !version.is_empty());
    Source {
        name: rules_of(ty).name_fold.apply(Cow::Borrowed(&source.name)).into_owned(),
        version: version.map(|version| match_version(ty, version, None).into_owned()),
    }
}
