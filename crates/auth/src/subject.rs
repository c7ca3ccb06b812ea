//! The subject of a certificate, as it is configured (RFC 4514) and as it stands in the certificate (X.509).

use crate::SubjectError;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use x509_cert::Certificate;
use x509_cert::der::asn1::Any;
use x509_cert::der::{Decode, Encode, Tag, Tagged};

/// Attribute types that have a name: those of RFC 4514, and what certificate authorities use besides.
const NAMES: [(&str, &str); 11] = [
    ("CN", "2.5.4.3"),
    ("L", "2.5.4.7"),
    ("ST", "2.5.4.8"),
    ("O", "2.5.4.10"),
    ("OU", "2.5.4.11"),
    ("C", "2.5.4.6"),
    ("STREET", "2.5.4.9"),
    ("DC", "0.9.2342.19200300.100.1.25"),
    ("UID", "0.9.2342.19200300.100.1.1"),
    ("serialNumber", "2.5.4.5"),
    ("emailAddress", "1.2.840.113549.1.9.1"),
];

/// The distinguished name that a certificate is about.
///
/// Two are equal when they have the same relative names in the same order, whatever string types the certificate uses;
/// letters differ by case. So a name never stands for a longer one, and no text inside a value can pass for a separator.
///
/// ```
/// use scheduler_auth::Subject;
/// let subject: Subject = "CN=feedser, OU=Advisories+DC=eu, O=Example\\, Inc.".parse()?;
/// assert_eq!(subject.to_string(), r"CN=feedser,DC=eu+OU=Advisories,O=Example\, Inc.");
/// assert_ne!(subject, "CN=feedser".parse()?);
/// # Ok::<(), scheduler_auth::SubjectError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// In the order of RFC 4514: the most particular first, the reverse of the certificate's.
    parts: Vec<BTreeSet<Attribute>>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Attribute {
    /// Dotted.
    kind: String,
    value: Value,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    Text(String),
    /// What is no string in the certificate, as it stands there.
    Der(Vec<u8>),
}

impl Subject {
    /// The subject of a certificate in DER. It may be empty, and then equals none that was parsed from text.
    ///
    /// # Errors
    /// [`SubjectError::Certificate`] for what is no certificate.
    pub fn of_certificate(der: &[u8]) -> Result<Self, SubjectError> {
        let certificate = Certificate::from_der(der).map_err(SubjectError::Certificate)?;
        let mut parts = Vec::new();
        for relative in certificate.tbs_certificate().subject().iter_rdn() {
            let mut part = BTreeSet::new();
            for attribute in relative.iter() {
                let value = value_of(&attribute.value).map_err(SubjectError::Certificate)?;
                part.insert(Attribute { kind: attribute.oid.to_string(), value });
            }
            parts.push(part);
        }
        parts.reverse();
        Ok(Self { parts })
    }
}

/// From when to when a certificate in DER is valid, in Unix seconds; both ends included.
///
/// # Errors
/// [`SubjectError::Certificate`] for what is no certificate.
pub fn validity(der: &[u8]) -> Result<(u64, u64), SubjectError> {
    let certificate = Certificate::from_der(der).map_err(SubjectError::Certificate)?;
    let validity = certificate.tbs_certificate().validity();
    Ok((validity.not_before.to_unix_duration().as_secs(), validity.not_after.to_unix_duration().as_secs()))
}

/// Decodes the string types of X.520, so that a name is the same in each of them.
fn value_of(any: &Any) -> Result<Value, x509_cert::der::Error> {
    let bytes = any.value();
    let utf16 = || {
        let units = bytes.chunks_exact(2).filter_map(|pair| pair.try_into().ok().map(u16::from_be_bytes));
        char::decode_utf16(units).collect::<Result<String, _>>().ok().filter(|_| bytes.len().is_multiple_of(2))
    };
    let text = match any.tag() {
        Tag::Utf8String | Tag::PrintableString | Tag::Ia5String => String::from_utf8(bytes.to_vec()).ok(),
        // In practice Latin-1.
        Tag::TeletexString => Some(bytes.iter().copied().map(char::from).collect()),
        Tag::BmpString => utf16(),
        _ => None,
    };
    Ok(match text {
        Some(text) => Value::Text(text),
        None => Value::Der(any.to_der()?),
    })
}

impl FromStr for Subject {
    type Err = SubjectError;

    /// Reads RFC 4514. Blanks around names, values and separators do not count; a dotted type may have a plain value.
    fn from_str(text: &str) -> Result<Self, SubjectError> {
        let mut rest = text.trim_start_matches(' ');
        if rest.is_empty() {
            return Err(SubjectError::Empty);
        }
        let mut parts = vec![];
        let mut part = BTreeSet::new();
        loop {
            let (name, after) = rest.split_once('=').ok_or_else(|| SubjectError::NoValue(rest.to_owned()))?;
            let kind = kind(name.trim_matches(' '))?;
            let (value, separator, after) = value(after.trim_start_matches(' '))?;
            part.insert(Attribute { kind, value });
            rest = after;
            if separator != Some('+') {
                parts.push(std::mem::take(&mut part));
            }
            if separator.is_none() {
                return Ok(Self { parts });
            }
        }
    }
}

/// The dotted form of an attribute type.
fn kind(name: &str) -> Result<String, SubjectError> {
    if let Some((_, dotted)) = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        return Ok((*dotted).to_owned());
    }
    let number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if name.contains('.') && name.split('.').all(number) {
        return Ok(name.to_owned());
    }
    Err(SubjectError::UnknownType(name.to_owned()))
}

/// The value at the beginning of a text, the separator after it, and what follows that.
fn value(text: &str) -> Result<(Value, Option<char>, &str), SubjectError> {
    let mut bytes: Vec<u8> = vec![];
    // Escaped blanks at the end stay; others go.
    let mut keep = 0;
    let mut chars = text.char_indices();
    let mut end = (None, "");
    while let Some((at, char)) = chars.next() {
        match char {
            ',' | '+' => {
                end = (Some(char), text.get(at + 1..).unwrap_or_default());
                break;
            }
            '\\' => {
                bytes.push(escaped(&mut chars)?);
                keep = bytes.len();
            }
            '"' | ';' | '<' | '>' | '\0' => return Err(SubjectError::Unescaped(char)),
            _ => {
                bytes.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
                if char != ' ' {
                    keep = bytes.len();
                }
            }
        }
    }
    bytes.truncate(keep);
    let value = match text.strip_prefix('#') {
        Some(_) => {
            let der = bytes.get(1..).and_then(unhex).ok_or(SubjectError::Hex)?;
            let any = Any::from_der(&der).map_err(|_| SubjectError::Hex)?;
            value_of(&any).map_err(|_| SubjectError::Hex)?
        }
        None => Value::Text(String::from_utf8(bytes).map_err(|_| SubjectError::Hex)?),
    };
    Ok((value, end.0, end.1.trim_start_matches(' ')))
}

/// The byte that an escape stands for: a special character, or two hexadecimal digits.
fn escaped(chars: &mut std::str::CharIndices<'_>) -> Result<u8, SubjectError> {
    let mut next = || chars.next().map(|(_, char)| char);
    let first = next().ok_or(SubjectError::Escape)?;
    if matches!(first, ' ' | '"' | '#' | '+' | ',' | ';' | '<' | '=' | '>' | '\\') {
        return u8::try_from(first).map_err(|_| SubjectError::Escape);
    }
    let digits = [Some(first), next()].map(|char| char.and_then(|c| c.to_digit(16)).and_then(|d| u8::try_from(d).ok()));
    match digits {
        [Some(high), Some(low)] => Ok(high << 4 | low),
        _ => Err(SubjectError::Escape),
    }
}

fn unhex(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
    if digits.is_empty() || !digits.len().is_multiple_of(2) {
        return None;
    }
    digits
        .chunks_exact(2)
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect()
}

/// RFC 4514, each subject in one form only.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, part) in self.parts.iter().enumerate() {
            for (place, attribute) in part.iter().enumerate() {
                match (number, place) {
                    (0, 0) => {}
                    (_, 0) => f.write_str(",")?,
                    _ => f.write_str("+")?,
                }
                write!(f, "{attribute}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, dotted)| *dotted == self.kind).map_or(self.kind.as_str(), |(name, _)| *name);
        write!(f, "{name}=")?;
        match &self.value {
            Value::Der(bytes) => {
                f.write_str("#")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Value::Text(text) => {
                let last = text.chars().count().saturating_sub(1);
                for (at, char) in text.chars().enumerate() {
                    match char {
                        '"' | '+' | ',' | ';' | '<' | '>' | '\\' => write!(f, "\\{char}")?,
                        '#' if at == 0 => f.write_str("\\#")?,
                        ' ' if at == 0 || at == last => f.write_str("\\ ")?,
                        char if char.is_control() => {
                            char.encode_utf8(&mut [0; 4]).bytes().try_for_each(|byte| write!(f, "\\{byte:02x}"))?;
                        }
                        char => write!(f, "{char}")?,
                    }
                }
                Ok(())
            }
        }
    }
}
