//! From decoded components to a purl: the rules that do not depend on how it was written.

use super::mend::{Judge, Mend};
use super::percent::has_byte;
use super::rules::{Fold, Namespace, name_is_path, name_is_segment, rules_of, violation};
use super::value::Settled;
use super::{Purl, PurlError};
use std::borrow::Cow;

/// Decoded components to build a purl from; what is empty counts as absent.
#[derive(Debug, Clone, Default)]
pub struct PurlParts<'a> {
    /// The type, in any case.
    pub ty: &'a str,
    /// The namespace, its segments separated by `/`.
    pub namespace: Option<&'a str>,
    /// The name.
    pub name: &'a str,
    /// The version.
    pub version: Option<&'a str>,
    /// Keys and values, in any order.
    pub qualifiers: Vec<(&'a str, &'a str)>,
    /// The subpath, its segments separated by `/`.
    pub subpath: Option<&'a str>,
}

pub(super) fn strict(parts: &PurlParts<'_>) -> Result<Purl, PurlError> {
    let mut judge = Judge::Strict;
    let texts = [Some(parts.name), parts.namespace, parts.version, parts.subpath];
    let values = parts.qualifiers.iter().map(|(_, value)| *value);
    if texts.into_iter().flatten().chain(values).any(|text| has_byte(text, |byte| byte.is_ascii_control())) {
        return Err(PurlError::ControlCharacter);
    }
    let mut qualifiers = Vec::with_capacity(parts.qualifiers.len());
    for (key, value) in &parts.qualifiers {
        if let Some(key) = qualifier_key(key, &mut judge)? {
            qualifiers.push((key, Cow::Borrowed(*value)));
        }
    }
    let decoded = Decoded {
        ty: type_of(parts.ty)?,
        namespace: Cow::Borrowed(parts.namespace.unwrap_or_default()),
        name: Cow::Borrowed(parts.name),
        version: Cow::Borrowed(parts.version.unwrap_or_default()),
        qualifiers,
        subpath: Cow::Borrowed(parts.subpath.unwrap_or_default()),
    };
    decoded.settle(&mut judge)?.into_purl()
}

/// Qualifiers: keys and decoded values.
pub(super) type Pairs<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

/// Decoded components, not yet held against the type's rules; absent ones are empty.
pub(super) struct Decoded<'a> {
    pub(super) ty: Cow<'a, str>,
    pub(super) namespace: Cow<'a, str>,
    pub(super) name: Cow<'a, str>,
    pub(super) version: Cow<'a, str>,
    /// Keys are canonical.
    pub(super) qualifiers: Pairs<'a>,
    pub(super) subpath: Cow<'a, str>,
}

impl<'a> Decoded<'a> {
    pub(super) fn settle(mut self, judge: &mut Judge) -> Result<Settled<'a>, PurlError> {
        if name_is_segment(&self.ty) && self.name.contains('/') {
            judge.defect(Mend::EncodedSlash, || PurlError::EncodedSlash { part: "name" })?;
            let path = format!("{}/{}", self.namespace, self.name);
            let (namespace, name) = path.rsplit_once('/').unwrap_or_default();
            self.namespace = Cow::Owned(namespace.to_owned());
            self.name = Cow::Owned(name.to_owned());
        }
        if name_is_path(&self.ty) {
            let path = segments(Cow::Owned(format!("{}/{}", self.namespace, self.name)), |_| true);
            let (namespace, name) = path.split_once('/').unwrap_or(("", &path));
            self.namespace = Cow::Owned(namespace.to_owned());
            self.name = Cow::Owned(name.to_owned());
        }
        let rules = rules_of(&self.ty);
        let name = present(rules.name_fold.apply(self.name)).ok_or(PurlError::MissingName)?;
        let namespace = present(rules.namespace_fold.apply(segments(self.namespace, |_| true)));
        let ty = || self.ty.clone().into_owned();
        match (rules.namespace, &namespace) {
            (Namespace::Required, None) => {
                judge.defect(Mend::MissingNamespace, || PurlError::MissingNamespace { ty: ty() })?;
            }
            (Namespace::Forbidden, Some(_)) => {
                judge.defect(Mend::ForbiddenNamespace, || PurlError::ForbiddenNamespace { ty: ty() })?;
            }
            (Namespace::Required, Some(_)) | (Namespace::Forbidden, None) | (Namespace::Optional, _) => {}
        }
        let version = present(rules.version_fold.apply(self.version));
        let qualifiers = unique(self.qualifiers, judge)?;
        let has_qualifier = |key: &str| qualifiers.iter().any(|(own, _)| own == key);
        if let Some(rule) = violation(&self.ty, &name, version.as_deref(), has_qualifier) {
            judge.defect(Mend::TypeRule, || PurlError::TypeRule { ty: ty(), rule })?;
        }
        let subpath = present(segments(self.subpath, |segment| segment != "." && segment != ".."));
        Ok(Settled { ty: self.ty, namespace, name, version, qualifiers, subpath })
    }
}

/// The type in lower case.
pub(super) fn type_of(raw: &str) -> Result<Cow<'_, str>, PurlError> {
    let first = raw.bytes().next().ok_or(PurlError::MissingType)?;
    let rest_fits = !has_byte(raw, |byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-')));
    if !first.is_ascii_alphabetic() || !rest_fits {
        return Err(PurlError::BadType);
    }
    Ok(Fold::Lower.apply(Cow::Borrowed(raw)))
}

/// The key in lower case; `None` when it can be none and is dropped.
pub(super) fn qualifier_key<'a>(raw: &'a str, judge: &mut Judge) -> Result<Option<Cow<'a, str>>, PurlError> {
    let first_fits = raw.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
    let rest_fits = !has_byte(raw, |byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_')));
    if !first_fits || !rest_fits {
        judge.defect(Mend::QualifierDropped, || PurlError::BadQualifierKey)?;
        return Ok(None);
    }
    let key = Fold::Lower.apply(Cow::Borrowed(raw));
    if key != raw {
        judge.defect(Mend::QualifierCase, || PurlError::BadQualifierKey)?;
    }
    Ok(Some(key))
}

/// Sorts by key and drops empty values. Which of two values of one key is meant would be a guess.
fn unique<'a>(mut pairs: Pairs<'a>, judge: &mut Judge) -> Result<Pairs<'a>, PurlError> {
    pairs.retain(|(_, value)| !value.is_empty());
    if pairs.is_sorted_by(|(left, _), (right, _)| left < right) {
        return Ok(pairs);
    }
    pairs.sort();
    let mut kept: Pairs<'a> = Vec::with_capacity(pairs.len());
    for (key, value) in pairs {
        match kept.last() {
            Some((last, other)) if *last == key => {
                let error = || PurlError::DuplicateQualifier { key: key.clone().into_owned() };
                if *other != value {
                    return Err(error());
                }
                judge.defect(Mend::QualifierRepeated, error)?;
            }
            _ => kept.push((key, value)),
        }
    }
    Ok(kept)
}

fn present(text: Cow<'_, str>) -> Option<Cow<'_, str>> {
    (!text.is_empty()).then_some(text)
}

/// The path without its empty segments and those that `keeps` drops.
fn segments<'a>(path: Cow<'a, str>, keeps: impl Fn(&str) -> bool) -> Cow<'a, str> {
    let stays = |segment: &&str| !segment.is_empty() && keeps(segment);
    if path.is_empty() || path.split('/').all(|segment| stays(&segment)) {
        return path;
    }
    let mut kept = String::with_capacity(path.len());
    for segment in path.split('/').filter(stays) {
        if !kept.is_empty() {
            kept.push('/');
        }
        kept.push_str(segment);
    }
    Cow::Owned(kept)
}
