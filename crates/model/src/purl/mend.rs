use super::PurlError;
use std::fmt;

/// What [`Purl::parse_lenient`](super::Purl::parse_lenient) put right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Mend {
    /// White space around the purl is dropped.
    SurroundingSpace,
    /// A character that must be percent-encoded was not; it is taken as it stands.
    UnescapedCharacter,
    /// A percent-encoded `/` is taken as the separator that it stands for.
    EncodedSlash,
    /// A qualifier's key is put in lower case.
    QualifierCase,
    /// A qualifier that is given twice with one value is kept once.
    QualifierRepeated,
    /// A qualifier whose key cannot be one is dropped.
    QualifierDropped,
    /// The type asks for a namespace, and there is none.
    MissingNamespace,
    /// The type has no namespaces; the one given is kept.
    ForbiddenNamespace,
    /// A rule of this one type is broken; the purl is kept as it is.
    TypeRule,
}

impl Mend {
    /// Every mend, in the order of [`Mends::iter`].
    pub const ALL: [Self; 9] = [
        Self::SurroundingSpace,
        Self::UnescapedCharacter,
        Self::EncodedSlash,
        Self::QualifierCase,
        Self::QualifierRepeated,
        Self::QualifierDropped,
        Self::MissingNamespace,
        Self::ForbiddenNamespace,
        Self::TypeRule,
    ];

    /// A fixed word for it, fit for a metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SurroundingSpace => "surrounding-space",
            Self::UnescapedCharacter => "unescaped-character",
            Self::EncodedSlash => "encoded-slash",
            Self::QualifierCase => "qualifier-case",
            Self::QualifierRepeated => "qualifier-repeated",
            Self::QualifierDropped => "qualifier-dropped",
            Self::MissingNamespace => "missing-namespace",
            Self::ForbiddenNamespace => "forbidden-namespace",
            Self::TypeRule => "type-rule",
        }
    }

    fn bit(self) -> u16 {
        1 << (self as u8)
    }
}

/// A set of mends; empty when the strict parser accepts the text as well.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Mends(u16);

impl Mends {
    /// Whether nothing was put right.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `mend` was made, once or more often.
    pub fn contains(self, mend: Mend) -> bool {
        self.0 & mend.bit() != 0
    }

    /// Each mend that was made, once.
    pub fn iter(self) -> impl Iterator<Item = Mend> {
        Mend::ALL.into_iter().filter(move |mend| self.contains(*mend))
    }
}

impl fmt::Debug for Mends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Decides at every defect whether it is mended or refused, so that one parser serves both and the two cannot drift
/// apart (PURL-B).
pub(super) enum Judge {
    Strict,
    Lenient(Mends),
}

impl Judge {
    pub(super) fn lenient() -> Self {
        Self::Lenient(Mends::default())
    }

    /// The defect is noted when lenient, else it is the error.
    pub(super) fn defect(&mut self, mend: Mend, error: impl FnOnce() -> PurlError) -> Result<(), PurlError> {
        match self {
            Self::Strict => Err(error()),
            Self::Lenient(mends) => {
                mends.0 |= mend.bit();
                Ok(())
            }
        }
    }

    pub(super) fn mends(&self) -> Mends {
        match self {
            Self::Strict => Mends::default(),
            Self::Lenient(mends) => *mends,
        }
    }
}
