//! From text to decoded components.

use super::build::{Decoded, Pairs, qualifier_key, type_of};
use super::mend::{Judge, Mend, Mends};
use super::percent::{decode, has_byte};
use super::rules::name_is_path;
use super::value::Settled;
use super::{Purl, PurlError};
use std::borrow::Cow;

/// A purl that was read leniently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    /// The purl.
    pub purl: Purl,
    /// What had to be put right.
    pub mended: Mends,
}

pub(super) fn strict(raw: &str) -> Result<Purl, PurlError> {
    settled(raw, &mut Judge::Strict)?.into_purl()
}

pub(super) fn lenient(raw: &str) -> Result<Parsed, PurlError> {
    let mut judge = Judge::lenient();
    let purl = settled(raw, &mut judge)?.into_purl()?;
    Ok(Parsed { purl, mended: judge.mends() })
}

/// The parts of a purl, borrowed from its text where that is possible.
pub(super) fn settled<'a>(raw: &'a str, judge: &mut Judge) -> Result<Settled<'a>, PurlError> {
    if raw.len() > Purl::LEN_MAX {
        return Err(PurlError::TooLong { len: raw.len() });
    }
    let text = raw.trim();
    let rest = strip_scheme(text).ok_or(PurlError::MissingScheme)?;
    if text.len() != raw.len() {
        judge.defect(Mend::SurroundingSpace, || PurlError::UnescapedCharacter)?;
    }
    if has_byte(text, |byte| !byte.is_ascii_graphic()) {
        if has_byte(text, |byte| byte.is_ascii_control()) {
            return Err(PurlError::ControlCharacter);
        }
        judge.defect(Mend::UnescapedCharacter, || PurlError::UnescapedCharacter)?;
    }
    // The first `#` and the first `?` separate, as in every URL; a second one would have to be percent-encoded.
    let (rest, subpath) = rest.split_once('#').unwrap_or((rest, ""));
    let (path, qualifiers) = rest.split_once('?').unwrap_or((rest, ""));
    spare_separator(subpath, '#', judge)?;
    spare_separator(subpath, '?', judge)?;
    spare_separator(qualifiers, '?', judge)?;

    let path = path.trim_matches('/');
    let (ty, path) = path.split_once('/').unwrap_or((path, ""));
    if path.is_empty() && ty.contains('@') {
        return Err(PurlError::MissingName);
    }
    let ty = type_of(ty)?;
    let (path, version) = split_version(path.trim_start_matches('/'));
    spare_separator(path, '@', judge)?;
    let split = if name_is_path(&ty) { path.split_once('/') } else { path.rsplit_once('/') };
    let (namespace, name) = split.unwrap_or(("", path));
    if name.is_empty() {
        return Err(PurlError::MissingName);
    }
    let namespace = decode_path(namespace, "namespace", judge)?;
    let name = decode(name, judge)?;
    let version = decode(version, judge)?;
    let qualifiers = split_qualifiers(qualifiers, judge)?;
    let subpath = decode_path(subpath, "subpath", judge)?;
    Decoded { ty, namespace, name, version, qualifiers, subpath }.settle(judge)
}

fn strip_scheme(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_at_checked(4)?;
    scheme.eq_ignore_ascii_case("pkg:").then_some(rest)
}

/// `text` lies where `separator` separates nothing more: one in it is data that was not encoded.
fn spare_separator(text: &str, separator: char, judge: &mut Judge) -> Result<(), PurlError> {
    if has_byte(text, |byte| char::from(byte) == separator) {
        return judge.defect(Mend::UnescapedCharacter, || PurlError::UnescapedSeparator { separator });
    }
    Ok(())
}

/// The last `@` begins the version, unless it begins the whole path and a name follows: then it is an npm scope.
fn split_version(path: &str) -> (&str, &str) {
    match path.rsplit_once('@') {
        Some(("", scoped)) if scoped.contains('/') => (path, ""),
        Some(parts) => parts,
        None => (path, ""),
    }
}

/// Decodes a path of segments; an encoded `/` is none of the specification's, but can only be a separator.
fn decode_path<'a>(raw: &'a str, part: &'static str, judge: &mut Judge) -> Result<Cow<'a, str>, PurlError> {
    let slashes = |text: &str| text.bytes().filter(|byte| *byte == b'/').count();
    let path = decode(raw, judge)?;
    if let Cow::Owned(path) = &path
        && slashes(path) != slashes(raw)
    {
        judge.defect(Mend::EncodedSlash, || PurlError::EncodedSlash { part })?;
    }
    Ok(path)
}

fn split_qualifiers<'a>(raw: &'a str, judge: &mut Judge) -> Result<Pairs<'a>, PurlError> {
    let mut qualifiers = Vec::new();
    for pair in raw.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if let Some(key) = qualifier_key(key, judge)? {
            qualifiers.push((key, decode(value, judge)?));
        }
    }
    Ok(qualifiers)
}
