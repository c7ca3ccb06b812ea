//! From text to decoded components.

use super::build::{Decoded, Pairs, qualifier_key, type_of};
use super::mend::{Judge, Mend, Mends};
use super::percent::{decode, has_byte};
use super::plain::Plain;
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
    match Plain::read(raw) {
        Some(plain) => Ok(plain.into_purl(raw)),
        None => settled(raw, &mut Judge::Strict)?.into_purl(),
    }
}

pub(super) fn lenient(raw: &str) -> Result<Parsed, PurlError> {
    if let Some(plain) = Plain::read(raw) {
        return Ok(Parsed { purl: plain.into_purl(raw), mended: Mends::default() });
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near_canonical() -> impl Strategy<Value = String> {
        let part = "[a-zA-Z0-9._~:/@+ -]{0,4}(%2B|%2F|%40|%20|%2b|%41|%5F|%C3%A9|%0A|%|%7F)?[a-z]{0,2}";
        let ty = prop::sample::select(vec![
            "npm",
            "deb",
            "rpm",
            "apk",
            "alpine",
            "pypi",
            "golang",
            "maven",
            "pub",
            "cpan",
            "git",
            "swid",
            "oci",
            "x",
            "Npm",
            "huggingface",
            "x-1.y",
            "1x",
            "x_",
            "hex",
            "gem",
            "julia",
        ]);
        let qualifiers = prop::collection::vec(
            (prop::sample::select(vec!["arch", "epoch", "upstream", "A", "", "a_b", "z~"]), part),
            0..4,
        );
        (ty, prop::option::of(part), part, prop::option::of(part), qualifiers, prop::option::of("[#?&=]?[a-z]?"))
            .prop_map(|(ty, namespace, name, version, qualifiers, tail)| {
                let namespace = namespace.map(|text| format!("{text}/")).unwrap_or_default();
                let version = version.map(|text| format!("@{text}")).unwrap_or_default();
                let pairs: Vec<String> = qualifiers.iter().map(|(key, value)| format!("{key}={value}")).collect();
                let mark = if pairs.is_empty() { "" } else { "?" };
                format!("pkg:{ty}/{namespace}{name}{version}{mark}{}{}", pairs.join("&"), tail.unwrap_or_default())
            })
    }

    fn parts(purl: &Purl) -> Vec<Option<String>> {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let qualifiers = purl.qualifiers().flat_map(|(key, value)| [Some(key.to_owned()), Some(value.to_owned())]);
        [owned(Some(purl.as_str())), owned(Some(purl.ty())), owned(purl.namespace()), owned(Some(purl.name()))]
            .into_iter()
            .chain([owned(purl.version()), owned(purl.subpath())])
            .chain(qualifiers)
            .collect()
    }

    /// PURL-E, of a text and of its canonical form.
    fn check(raw: &str) -> Result<bool, TestCaseError> {
        let mut judge = Judge::lenient();
        let full = settled(raw, &mut judge).and_then(Settled::into_purl);
        let Some(plain) = Plain::read(raw) else { return Ok(false) };
        let full = full.map_err(|error| TestCaseError::fail(format!("{raw} is taken, and is no purl: {error}")))?;
        prop_assert!(judge.mends().is_empty(), "{} needs mending", raw);
        prop_assert_eq!(parts(&plain.into_purl(raw)), parts(&full));
        prop_assert!(matches!(Purl::canonical(raw), Ok((Cow::Borrowed(_), _))), "{} is copied", raw);
        prop_assert_eq!(raw, full.as_str());
        Ok(true)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_short_way_gives_what_the_full_parser_gives(raw in near_canonical()) {
            check(&raw)?;
            if let Ok(purl) = settled(&raw, &mut Judge::lenient()).and_then(Settled::into_purl) {
                check(purl.as_str())?;
            }
        }
    }

    #[test]
    fn ordinary_purls_go_the_short_way() {
        for raw in [
            "pkg:npm/%40babel/core@7.1.0",
            "pkg:deb/debian/libssl3@3.0.11-1%2Bdeb12u2?arch=amd64&upstream=openssl%403.0.11",
            "pkg:golang/github.com/a/b@v1.0.0",
            "pkg:pypi/requests@2.31.0",
            "pkg:rpm/redhat/openssl-libs@3.0.7?arch=x86_64&epoch=1",
        ] {
            assert!(check(raw).unwrap(), "{raw}");
        }
    }
}
