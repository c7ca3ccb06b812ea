use super::form::{Form, FormOf, is_distro, match_form, match_form_of, match_version};
use super::mend::Judge;
use super::parse::settled;
use super::plain::{Piece, Plain};
use super::rules::rules_of;
use super::{Purl, PurlError};
use std::borrow::Cow;
use std::fmt;

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
        let SourceRef { name, version } = SourceRef::parse(ty, text)?;
        Some(Self { name: name.to_owned(), version: version.map(str::to_owned) })
    }
}

/// A source package as it is recorded, borrowed.
#[derive(Clone, Copy)]
struct SourceRef<'a> {
    name: &'a str,
    version: Option<&'a str>,
}

impl<'a> SourceRef<'a> {
    fn parse(ty: &str, text: &'a str) -> Option<Self> {
        let file = if ty == "rpm" { rpm_stem(text) } else { None };
        let (name, version) = match file {
            Some(stem) => {
                let (rest, _) = stem.rsplit_once('-').filter(|(_, release)| !release.is_empty())?;
                let (name, _) = rest.rsplit_once('-').filter(|(_, version)| !version.is_empty())?;
                (name, stem.get(name.len() + 1..))
            }
            None => match text.split_once('@') {
                Some((name, version)) => (name, Some(version).filter(|version| !version.is_empty())),
                None => (text, None),
            },
        };
        (!name.is_empty()).then_some(Self { name, version })
    }
}

fn rpm_stem(file: &str) -> Option<&str> {
    file.strip_suffix(".src.rpm").or_else(|| file.strip_suffix(".nosrc.rpm"))
}

/// A package of the catalog in match form: what an index stores of it.
///
/// Two purls that differ only in what keys cannot tell apart (architecture, distribution, the spelling of an epoch)
/// give equal components. All parts lie in one text, so that a component costs one allocation; the order of components
/// is that of these texts, fixed but of no meaning.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Component {
    text: Box<str>,
    /// Where each [`Part`] ends; one that is absent is empty.
    ends: [u32; Part::COUNT],
}

#[derive(Clone, Copy)]
enum Part {
    Type,
    Namespace,
    Name,
    Version,
    Source,
    SourceVersion,
}

impl Part {
    const COUNT: usize = 6;
}

impl Component {
    /// The component of a purl. `recorded` is what the document says of its source package beside the purl; of
    /// types other than `deb`, `rpm` and `apk` it is ignored, as the `upstream` qualifier is.
    ///
    /// Where both speak, the qualifier names the source; the version comes from the one that has it for that name.
    pub fn from_purl(purl: &Purl, recorded: Option<&Source>) -> Self {
        let recorded = recorded.map(|source| SourceRef { name: &source.name, version: source.version.as_deref() });
        Self::of(&match_form(purl), purl.qualifier("upstream"), recorded)
    }

    /// The component of a purl's text, read leniently, without making the purl: equal to [`Component::from_purl`] of
    /// [`Purl::parse_lenient`]. `recorded` is the recorded source's name and version.
    ///
    /// # Errors
    /// See [`PurlError`].
    pub fn parse(raw: &str, recorded: Option<(&str, Option<&str>)>) -> Result<Self, PurlError> {
        let recorded = recorded.map(|(name, version)| SourceRef { name, version });
        if let Some(plain) = Plain::read(raw) {
            let (namespace, name) = (plain.namespace.map(Piece::value), plain.name.value());
            let version = plain.version.map(Piece::value);
            let qualifier =
                |key: &str| plain.qualifiers().find(|(own, _)| own.text == key).map(|(_, value)| value.value());
            let (epoch, upstream) = (qualifier("epoch"), qualifier("upstream"));
            let parts = FormOf {
                ty: plain.ty,
                namespace: namespace.as_deref(),
                name: &name,
                version: version.as_deref(),
                epoch: epoch.as_deref(),
            };
            return Ok(Self::of(&match_form_of(parts), upstream.as_deref(), recorded));
        }
        // Encoding makes three bytes of one at most, so that only a longer text may be too long in canonical form.
        if raw.len() > Purl::LEN_MAX / 3 {
            let purl = Purl::parse_lenient(raw)?.purl;
            return Ok(Self::of(&match_form(&purl), purl.qualifier("upstream"), recorded));
        }
        let parts = settled(raw, &mut Judge::lenient())?;
        let qualifier =
            |key: &str| parts.qualifiers.iter().find(|(own, _)| own == key).map(|(_, value)| value.as_ref());
        let form = match_form_of(FormOf {
            ty: &parts.ty,
            namespace: parts.namespace.as_deref(),
            name: &parts.name,
            version: parts.version.as_deref(),
            epoch: qualifier("epoch"),
        });
        Ok(Self::of(&form, qualifier("upstream"), recorded))
    }

    fn of(form: &Form<'_>, upstream: Option<&str>, recorded: Option<SourceRef<'_>>) -> Self {
        let own = form.version.as_deref();
        let source = if is_distro(form.ty) { source_of(form.ty, upstream, recorded) } else { None };
        let differs = |version: &Option<Cow<'_, str>>| version.is_some() && version.as_deref() != own;
        let source = source.filter(|(name, version)| *name != form.name || differs(version));
        let (source, source_version) = source.map_or((None, None), |(name, version)| (Some(name), version));
        let parts = [
            form.ty,
            form.namespace.unwrap_or_default(),
            &form.name,
            own.unwrap_or_default(),
            source.as_deref().unwrap_or_default(),
            source_version.as_deref().unwrap_or_default(),
        ];
        let mut text = String::with_capacity(parts.iter().map(|part| part.len()).sum());
        let ends = parts.map(|part| {
            text.push_str(part);
            // A document is far smaller than what this can count.
            u32::try_from(text.len()).unwrap_or(u32::MAX)
        });
        Self { text: text.into_boxed_str(), ends }
    }

    fn part(&self, part: Part) -> &str {
        let at = part as usize;
        let start = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or_default();
        let end = self.ends.get(at).copied().unwrap_or_default();
        self.text.get(start as usize..end as usize).unwrap_or_default()
    }

    fn present(&self, part: Part) -> Option<&str> {
        Some(self.part(part)).filter(|text| !text.is_empty())
    }

    /// The type; `apk` for the old `alpine`.
    pub fn ty(&self) -> &str {
        self.part(Part::Type)
    }

    /// The namespace.
    pub fn namespace(&self) -> Option<&str> {
        self.present(Part::Namespace)
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.part(Part::Name)
    }

    /// The version; of `deb` and `rpm` with the epoch as prefix, unless it is zero.
    pub fn version(&self) -> Option<&str> {
        self.present(Part::Version)
    }

    /// The source package's name, and its version where one is recorded; `None` when it is no other than the component
    /// itself.
    pub fn source(&self) -> Option<(&str, Option<&str>)> {
        Some((self.present(Part::Source)?, self.present(Part::SourceVersion)))
    }

    /// The names under which keys find the component, each with its version: its own, then its source's. A key
    /// without namespace, of a type where [`ProductKey::any_namespace`](super::ProductKey::any_namespace) holds, is
    /// not spread here: that is the index's part.
    pub fn names(&self) -> impl Iterator<Item = (MatchName<'_>, Option<&str>)> {
        let (ty, namespace) = (self.ty(), self.namespace());
        let name = move |name| MatchName { ty, namespace, name };
        let source = self.source().into_iter();
        std::iter::once((name(self.name()), self.version()))
            .chain(source.map(move |(source, version)| (name(source), version.or(self.version()))))
    }
}

impl fmt::Debug for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Component")
            .field("ty", &self.ty())
            .field("namespace", &self.namespace())
            .field("name", &self.name())
            .field("version", &self.version())
            .field("source", &self.source())
            .finish()
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

/// A source's name and version under the rules of its binary packages' type.
type SettledSource<'a> = (Cow<'a, str>, Option<Cow<'a, str>>);

fn source_of<'a>(ty: &str, upstream: Option<&'a str>, recorded: Option<SourceRef<'a>>) -> Option<SettledSource<'a>> {
    let upstream = upstream.and_then(|text| SourceRef::parse(ty, text)).map(|source| settle(ty, source));
    let recorded = recorded.filter(|source| !source.name.is_empty()).map(|source| settle(ty, source));
    match (upstream, recorded) {
        (Some((name, None)), Some(recorded)) if recorded.0 == name => Some(recorded),
        (Some(upstream), _) => Some(upstream),
        (None, recorded) => recorded,
    }
}

fn settle<'a>(ty: &str, source: SourceRef<'a>) -> SettledSource<'a> {
    let version = source.version.filter(|version| !version.is_empty());
    let name = rules_of(ty).name_fold.apply(Cow::Borrowed(source.name));
    (name, version.map(|version| match_version(ty, version, None)))
}
