use super::form::{is_distro, is_own_form, match_form};
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
    /// The match form, where it is not that of the purl itself; most keys need none, and cost one allocation.
    own: Option<Box<OwnForm>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct OwnForm {
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
        match &self.own {
            None => MatchName { ty: self.purl.ty(), namespace: self.purl.namespace(), name: self.purl.name() },
            Some(own) => MatchName { ty: &own.ty, namespace: own.namespace.as_deref(), name: &own.name },
        }
    }

    /// The version, when the key names one; of `deb` and `rpm` with the epoch as prefix, unless it is zero.
    pub fn version(&self) -> Option<&str> {
        match &self.own {
            None => self.purl.version(),
            Some(own) => own.version.as_deref(),
        }
    }

    /// Whether the key stands for every namespace: one of `deb`, `rpm` or `apk` that names none.
    pub fn any_namespace(&self) -> bool {
        let name = self.match_name();
        name.namespace.is_none() && is_distro(name.ty)
    }

    /// Whether the key selects the component (PURL-D).
    pub fn matches(&self, component: &Component) -> bool {
        let MatchName { ty, namespace, name } = self.match_name();
        let version_fits = |version: Option<&str>| self.version().is_none_or(|own| Some(own) == version);
        let same_type = ty == component.ty();
        let same_namespace = self.any_namespace() || namespace == component.namespace();
        let own = name == component.name() && version_fits(component.version());
        let source = component
            .source()
            .is_some_and(|(source, version)| name == source && version_fits(version.or(component.version())));
        same_type && same_namespace && (own || source)
    }
}

impl From<Purl> for ProductKey {
    fn from(purl: Purl) -> Self {
        if is_own_form(&purl) {
            return Self { own: None, purl };
        }
        let form = match_form(&purl);
        let is_same = form.ty == purl.ty()
            && form.namespace == purl.namespace()
            && form.name == purl.name()
            && form.version.as_deref() == purl.version();
        let own = || OwnForm {
            ty: form.ty.to_owned(),
            namespace: form.namespace.map(str::to_owned),
            name: form.name.clone().into_owned(),
            version: form.version.clone().map(Cow::into_owned),
        };
        let own = (!is_same).then(|| Box::new(own()));
        Self { own, purl }
    }
}

/// The match form as a purl: equal texts select the same components.
impl fmt::Display for ProductKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MatchName { ty, namespace, name } = self.match_name();
        write!(f, "pkg:{ty}/")?;
        if let Some(namespace) = namespace {
            encode(f, namespace, Slash::Kept)?;
            f.write_str("/")?;
        }
        encode(f, name, if name_is_path(ty) { Slash::Kept } else { Slash::Encoded })?;
        if let Some(version) = self.version() {
            f.write_str("@")?;
            encode(f, version, Slash::Encoded)?;
        }
        Ok(())
    }
}
