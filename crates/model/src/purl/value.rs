use super::percent::{Slash, encode};
use super::plain::{Piece, Plain};
use super::rules::name_is_path;
use super::{Mends, Parsed, PurlError, PurlParts, build, parse};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

/// A package URL, valid and canonical (PURL-A). Ordered and compared by its canonical text.
///
/// One text holds everything: the canonical form, then the decoded form of those components that differ from it.
/// So a purl costs one allocation, and one more when it has qualifiers.
#[derive(Clone)]
pub struct Purl {
    text: String,
    canonical_len: u16,
    ty: Span,
    namespace: Option<Span>,
    name: Span,
    version: Option<Span>,
    qualifiers: Box<[(Span, Span)]>,
    subpath: Option<Span>,
}

/// The text is twice [`Purl::LEN_MAX`] long at most, so that two bytes will do.
#[derive(Clone, Copy)]
struct Span {
    start: u16,
    end: u16,
}

impl Span {
    fn new(start: usize, end: usize) -> Self {
        Self { start: short(start), end: short(end) }
    }
}

fn short(at: usize) -> u16 {
    u16::try_from(at).unwrap_or(u16::MAX)
}

impl Purl {
    /// The longest purl that is taken, in bytes, as written and in canonical form.
    pub const LEN_MAX: usize = 4096;

    /// Parses what the specification allows, in any of its spellings.
    ///
    /// # Errors
    /// See [`PurlError`].
    pub fn parse_strict(raw: &str) -> Result<Self, PurlError> {
        parse::strict(raw)
    }

    /// Parses what can be understood without guessing, and says what had to be mended.
    ///
    /// ```
    /// use scheduler_model::purl::{Mend, Purl};
    ///
    /// let parsed = Purl::parse_lenient("pkg:npm/@babel/core#lib")?;
    /// assert_eq!(parsed.purl.to_string(), "pkg:npm/%40babel/core#lib");
    /// assert!(parsed.mended.contains(Mend::UnescapedCharacter));
    /// # Ok::<(), scheduler_model::purl::PurlError>(())
    /// ```
    ///
    /// # Errors
    /// See [`PurlError`].
    pub fn parse_lenient(raw: &str) -> Result<Parsed, PurlError> {
        parse::lenient(raw)
    }

    /// The canonical form of a text that is read leniently, without making the purl: what [`Purl::parse_lenient`] gives as text.
    ///
    /// ```
    /// use scheduler_model::purl::{Mends, Purl};
    ///
    /// assert_eq!(Purl::canonical("pkg:npm/a@1"), Ok(("pkg:npm/a@1".into(), Mends::default())));
    /// assert_eq!(Purl::canonical("pkg:NPM/@x/a").map(|(text, _)| text), Ok("pkg:npm/%40x/a".into()));
    /// ```
    ///
    /// # Errors
    /// See [`PurlError`].
    pub fn canonical(raw: &str) -> Result<(Cow<'_, str>, Mends), PurlError> {
        if Plain::read(raw).is_some() {
            return Ok((Cow::Borrowed(raw), Mends::default()));
        }
        let Parsed { purl, mended } = parse::lenient(raw)?;
        Ok((Cow::Owned(purl.as_str().to_owned()), mended))
    }

    /// Builds a purl from decoded components, under the rules of [`Purl::parse_strict`].
    ///
    /// # Errors
    /// See [`PurlError`].
    pub fn build(parts: &PurlParts<'_>) -> Result<Self, PurlError> {
        build::strict(parts)
    }

    /// The canonical form.
    pub fn as_str(&self) -> &str {
        self.text.get(..usize::from(self.canonical_len)).unwrap_or_default()
    }

    /// The type, in lower case.
    pub fn ty(&self) -> &str {
        self.part(self.ty)
    }

    /// The namespace, decoded; its segments are separated by `/`.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.map(|span| self.part(span))
    }

    /// The name, decoded.
    pub fn name(&self) -> &str {
        self.part(self.name)
    }

    /// The version, decoded.
    pub fn version(&self) -> Option<&str> {
        self.version.map(|span| self.part(span))
    }

    /// The qualifiers, values decoded, sorted by key; each key occurs once and no value is empty.
    pub fn qualifiers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.qualifiers.iter().map(|(key, value)| (self.part(*key), self.part(*value)))
    }

    /// The decoded value of one qualifier; `key` in lower case.
    pub fn qualifier(&self, key: &str) -> Option<&str> {
        self.qualifiers().find(|(own, _)| *own == key).map(|(_, value)| value)
    }

    /// The subpath, decoded; its segments are separated by `/`.
    pub fn subpath(&self) -> Option<&str> {
        self.subpath.map(|span| self.part(span))
    }

    fn part(&self, span: Span) -> &str {
        self.text.get(usize::from(span.start)..usize::from(span.end)).unwrap_or_default()
    }
}

/// Decoded components that are known to be valid, in their one spelling.
pub(super) struct Settled<'a> {
    pub(super) ty: Cow<'a, str>,
    pub(super) namespace: Option<Cow<'a, str>>,
    pub(super) name: Cow<'a, str>,
    pub(super) version: Option<Cow<'a, str>>,
    pub(super) qualifiers: build::Pairs<'a>,
    pub(super) subpath: Option<Cow<'a, str>>,
}

impl Settled<'_> {
    /// Writes the text once; fails only on its length.
    pub(super) fn into_purl(self) -> Result<Purl, PurlError> {
        let name_slash = if name_is_path(&self.ty) { Slash::Kept } else { Slash::Encoded };
        let mut writer = Writer { text: String::with_capacity(self.capacity()) };
        let ty = writer.put("pkg:", &self.ty, Slash::Encoded);
        let mut namespace = self.namespace.as_deref().map(|text| writer.put("/", text, Slash::Kept));
        let mut name = writer.put("/", &self.name, name_slash);
        let mut version = self.version.as_deref().map(|text| writer.put("@", text, Slash::Encoded));
        let mut separator = "?";
        let mut qualifiers = Vec::with_capacity(self.qualifiers.len());
        for (key, value) in &self.qualifiers {
            let key = writer.put(separator, key, Slash::Encoded);
            qualifiers.push((key, writer.put("=", value, Slash::Encoded)));
            separator = "&";
        }
        let mut subpath = self.subpath.as_deref().map(|text| writer.put("#", text, Slash::Kept));
        let canonical_len = writer.text.len();
        if canonical_len > Purl::LEN_MAX {
            return Err(PurlError::TooLong { len: canonical_len });
        }
        writer.settle(namespace.as_mut(), self.namespace.as_deref());
        writer.settle(Some(&mut name), Some(&self.name));
        writer.settle(version.as_mut(), self.version.as_deref());
        for ((_, span), (_, value)) in qualifiers.iter_mut().zip(&self.qualifiers) {
            writer.settle(Some(span), Some(value));
        }
        writer.settle(subpath.as_mut(), self.subpath.as_deref());
        let qualifiers = qualifiers.into_boxed_slice();
        Ok(Purl {
            text: writer.text,
            canonical_len: short(canonical_len),
            ty,
            namespace,
            name,
            version,
            qualifiers,
            subpath,
        })
    }

    fn capacity(&self) -> usize {
        let len = |part: &Option<Cow<'_, str>>| part.as_ref().map_or(0, |text| text.len() + 1);
        let qualifiers: usize = self.qualifiers.iter().map(|(key, value)| key.len() + value.len() + 2).sum();
        5 + self.ty.len()
            + self.name.len()
            + len(&self.namespace)
            + len(&self.version)
            + len(&self.subpath)
            + qualifiers
    }
}

impl Plain<'_> {
    /// The purl that was taken apart; `raw` is its text, the canonical one.
    pub(super) fn into_purl(self, raw: &str) -> Purl {
        let parts = || self.namespace.into_iter().chain([self.name]).chain(self.version);
        let values = self.qualifiers().map(|(_, value)| value);
        let escaped = parts().chain(values).filter(|piece| piece.is_escaped()).map(|piece| piece.text.len());
        let mut writer = Writer { text: String::with_capacity(raw.len() + escaped.sum::<usize>()) };
        writer.text.push_str(raw);
        let span = |start: usize, len: usize| Span::new(start, start + len);
        let namespace = self.namespace.map(|piece| writer.piece(piece));
        let name = writer.piece(self.name);
        let version = self.version.map(|piece| writer.piece(piece));
        let qualifiers = self.qualifiers().map(|(key, value)| (span(key.start, key.text.len()), writer.piece(value)));
        let qualifiers = qualifiers.collect();
        let ty = span(4, self.ty.len());
        let canonical_len = short(raw.len());
        Purl { text: writer.text, canonical_len, ty, namespace, name, version, qualifiers, subpath: None }
    }
}

struct Writer {
    text: String,
}

impl Writer {
    /// Appends a component in canonical form; the span is that of the form.
    fn put(&mut self, separator: &str, text: &str, slash: Slash) -> Span {
        self.text.push_str(separator);
        let start = self.text.len();
        // Writing to a string cannot fail.
        let _ = encode(&mut self.text, text, slash);
        Span::new(start, self.text.len())
    }

    /// Where the decoded form of a part of the canonical text is; it is appended when it differs.
    fn piece(&mut self, piece: Piece<'_>) -> Span {
        if !piece.is_escaped() {
            return Span::new(piece.start, piece.start + piece.text.len());
        }
        let start = self.text.len();
        piece.decode_to(&mut self.text);
        Span::new(start, self.text.len())
    }

    /// Points the span at the decoded text. Encoding only lengthens: equal lengths mean equal texts.
    fn settle(&mut self, span: Option<&mut Span>, decoded: Option<&str>) {
        if let (Some(span), Some(decoded)) = (span, decoded)
            && usize::from(span.end - span.start) != decoded.len()
        {
            let start = self.text.len();
            self.text.push_str(decoded);
            *span = Span::new(start, self.text.len());
        }
    }
}

impl fmt::Display for Purl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Purl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Purl").field(&self.as_str()).finish()
    }
}

impl PartialEq for Purl {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Purl {}

impl PartialOrd for Purl {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Purl {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Hash for Purl {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl Serialize for Purl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Leniently: a purl that was taken with a mend, such as one without the namespace that its type asks for, is read back.
impl<'de> Deserialize<'de> for Purl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = String::deserialize(deserializer)?;
        Self::parse_lenient(&raw).map(|parsed| parsed.purl).map_err(de::Error::custom)
    }
}
