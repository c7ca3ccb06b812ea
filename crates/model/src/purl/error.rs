use super::Purl;

/// Why a text is not the purl it claims to be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PurlError {
    /// More bytes than [`Purl::LEN_MAX`], as written or in canonical form.
    #[error("purl of {len} bytes is longer than {} bytes", Purl::LEN_MAX)]
    TooLong {
        /// How many bytes it has.
        len: usize,
    },
    /// It does not begin with `pkg:`.
    #[error("purl does not begin with `pkg:`")]
    MissingScheme,
    /// Nothing follows the scheme.
    #[error("purl has no type")]
    MissingType,
    /// The type is not a letter followed by letters, digits, `.` and `-`.
    #[error("purl type is not a letter followed by letters, digits, `.` or `-`")]
    BadType,
    /// The name is absent or empty.
    #[error("purl has no name")]
    MissingName,
    /// The type asks for a namespace.
    #[error("purl of type {ty} has no namespace")]
    MissingNamespace {
        /// The type, canonical.
        ty: String,
    },
    /// The type has no namespaces.
    #[error("purl of type {ty} cannot have a namespace")]
    ForbiddenNamespace {
        /// The type, canonical.
        ty: String,
    },
    /// A qualifier's key is not a lower-case letter followed by lower-case letters, digits, `.`, `-` and `_`.
    #[error("purl qualifier key is not a lower-case letter followed by lower-case letters, digits, `.`, `-` or `_`")]
    BadQualifierKey,
    /// The same key twice; when lenient, only with two values.
    #[error("purl qualifier {key} occurs more than once")]
    DuplicateQualifier {
        /// The key, canonical.
        key: String,
    },
    /// A `%` that two hexadecimal digits do not follow.
    #[error("purl has a percent sign without two hexadecimal digits after it")]
    BadEscape,
    /// Percent-encoded bytes that are not UTF-8.
    #[error("purl has percent-encoded bytes that are not utf-8")]
    NotUtf8,
    /// An ASCII control character, plain or percent-encoded.
    #[error("purl contains a control character")]
    ControlCharacter,
    /// A space or a character outside ASCII that is not percent-encoded.
    #[error("purl contains a space or a character outside ascii that is not percent-encoded")]
    UnescapedCharacter,
    /// `@`, `?` or `#` where it does not separate and is not percent-encoded.
    #[error("purl contains a `{separator}` that separates nothing and is not percent-encoded")]
    UnescapedSeparator {
        /// The character.
        separator: char,
    },
    /// A percent-encoded `/` where a component cannot contain one.
    #[error("purl has a percent-encoded slash in its {part}")]
    EncodedSlash {
        /// Which component.
        part: &'static str,
    },
    /// A rule that only this type has is broken.
    #[error("purl of type {ty} {rule}")]
    TypeRule {
        /// The type, canonical.
        ty: String,
        /// What is wrong, as the rest of a sentence.
        rule: &'static str,
    },
}
