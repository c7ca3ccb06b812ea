use super::form::{is_distro, match_form};
use super::percent::{Slash, encode};
use super::rules::name_is_path;
use super::{Component, MatchName, Mends, Purl, PurlError};
use std::borrow::Cow;
use std::fmt;

/// A changed product key in match form. Qualifiers other than the epoch, and the subpath, do not narrow; they stay
/// readable in [`ProductKey::purl`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ProductKey {
    purl: Purl,
    ty: String,
    namespace: Option<String>,
    name: String,
    version: Option<String>,
}

impl ProductKey {
    /// Reads a key leniently, and says what had to be mended.
    ///
    /// # Errors
    /// See [`PurlError`].
    pub fn parse(raw: &str) -> Result<(Self, Mends), PurlError> {
        let parsed = Purl::parse_lenient(raw)?;
        Ok((Self::from(parsed.purl), parsed.mended))
    }

    /// The purl that the key was written as.
    pub fn purl(&self) -> &Purl {
        &self.purl
    }

    /// What the key is looked up by, besides its version.
    pub fn match_name(&self) -> MatchName<'_> {
        MatchName { ty: &self.ty, namespace: self.namespace.as_deref(), name: &self.name }
    }

    /// The version, when the key names one; of `deb` and `rpm` with the epoch as prefix, unless it is zero.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Whether the key stands for every namespace: one of `deb`, `rpm` or `apk` that names none.
    pub fn any_namespace(&self) -> bool {
        self.namespace.is_none() && is_distro(&self.ty)
    }

    /// Whether the key selects the component (PURL-D).
    pub fn matches(&self, component: &Component) -> bool {
        let version_fits = |version: Option<&str>| self.version.is_none() || self.version.as_deref() == version;
        let same_type = self.ty == component.ty();
        let same_namespace = self.any_namespace() || self.namespace.as_deref() == component.namespace();
        let own = self.name == component.name() && version_fits(component.version());
        let source = component.source().is_some_and(|source| {
            self.name == source.name && version_fits(source.version.as_deref().or(component.version()))
        });
        same_type && same_namespace && (own || source)
    }
}

impl From<Purl> for ProductKey {
    fn from(purl: Purl) -> Self {
        let form = match_form(&purl);
        let ty = form.ty.to_owned();
        let namespace = form.namespace.map(str::to_owned);
        let version = form.version.map(Cow::into_owned);
        let name = form.name.into_owned();
        Self { ty, namespace, name, version, purl }
    }
}

/// The match form as a purl: equal texts select the same components.
impl fmt::Display for ProductKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pkg:{}/", self.ty)?;
        if let Some(namespace) = &self.namespace {
            encode(f, namespace, Slash::Kept)?;
            f.write_str("/")?;
        }
        let slash = if name_is_path(&self.ty) { Slash::Kept } else { Slash::Encoded };
        encode(f, &self.name, slash)?;
        if let Some(version) = &self.version {
            f.write_str("@")?;
            encode(f, version, Slash::Encoded)?;
        }
        Ok(())
    }
}
