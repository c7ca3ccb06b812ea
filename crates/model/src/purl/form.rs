//! The match form: what of a purl two spellings of one package share beyond the canonical form.

use super::Purl;
use std::borrow::Cow;

/// What of a purl the match form is made of.
pub(super) struct FormOf<'a> {
    pub(super) ty: &'a str,
    pub(super) namespace: Option<&'a str>,
    pub(super) name: &'a str,
    pub(super) version: Option<&'a str>,
    /// The qualifier of this name.
    pub(super) epoch: Option<&'a str>,
}

/// A purl as keys and components are compared.
pub(super) struct Form<'a> {
    pub(super) ty: &'a str,
    pub(super) namespace: Option<&'a str>,
    pub(super) name: Cow<'a, str>,
    pub(super) version: Option<Cow<'a, str>>,
}

/// Whether the match form is made of the purl's own parts, as far as a glance tells.
pub(super) fn is_own_form(purl: &Purl) -> bool {
    match purl.ty() {
        "alpine" => false,
        "pypi" => matches!(pypi_name(purl.name()), Cow::Borrowed(_)),
        ty if has_epoch(ty) => {
            purl.qualifier("epoch").is_none() && purl.version().is_none_or(|version| !version.contains(':'))
        }
        _ => true,
    }
}

pub(super) fn match_form(purl: &Purl) -> Form<'_> {
    match_form_of(FormOf {
        ty: purl.ty(),
        namespace: purl.namespace(),
        name: purl.name(),
        version: purl.version(),
        epoch: if has_epoch(purl.ty()) { purl.qualifier("epoch") } else { None },
    })
}

pub(super) fn match_form_of(of: FormOf<'_>) -> Form<'_> {
    let (ty, namespace) = match (of.ty, of.namespace) {
        ("alpine", namespace) => ("apk", namespace.or(Some("alpine"))),
        other => other,
    };
    let name = if ty == "pypi" { pypi_name(of.name) } else { Cow::Borrowed(of.name) };
    let version = of.version.map(|version| match_version(ty, version, of.epoch));
    Form { ty, namespace, name, version }
}

/// Whether the type is a distribution's: namespaces are optional in keys, and source packages count.
pub(super) fn is_distro(ty: &str) -> bool {
    matches!(ty, "deb" | "rpm" | "apk")
}

fn has_epoch(ty: &str) -> bool {
    matches!(ty, "deb" | "rpm")
}

/// The version with its epoch as prefix, none when it is zero. A prefix speaks before the qualifier does.
pub(super) fn match_version<'a>(ty: &str, version: &'a str, qualifier: Option<&str>) -> Cow<'a, str> {
    if !has_epoch(ty) {
        return Cow::Borrowed(version);
    }
    let (prefix, rest) = match split_epoch(version) {
        Some((prefix, rest)) => (Some(prefix), rest),
        None => (None, version),
    };
    let epoch = prefix.or(qualifier.filter(|text| is_number(text))).unwrap_or_default().trim_start_matches('0');
    match (epoch, split_epoch(rest)) {
        // `0:1:2` is not `1:2`: here the zero tells that the `1` is no epoch.
        ("", Some(_)) => Cow::Owned(format!("0:{rest}")),
        ("", None) => Cow::Borrowed(rest),
        _ if prefix == Some(epoch) => Cow::Borrowed(version),
        _ => Cow::Owned(format!("{epoch}:{rest}")),
    }
}

fn split_epoch(version: &str) -> Option<(&str, &str)> {
    version.split_once(':').filter(|(epoch, rest)| is_number(epoch) && !rest.is_empty())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// PyPI takes runs of `-`, `_` and `.` as one `-`; the purl specification folds only `_`.
fn pypi_name(name: &str) -> Cow<'_, str> {
    let is_separator = |byte: u8| matches!(byte, b'-' | b'_' | b'.');
    let bytes = name.as_bytes();
    let settled = !bytes.iter().any(|byte| matches!(byte, b'_' | b'.'))
        && !bytes.windows(2).any(|pair| pair.iter().all(|byte| is_separator(*byte)));
    if settled {
        return Cow::Borrowed(name);
    }
    let mut folded = String::with_capacity(name.len());
    let mut after_separator = false;
    for character in name.chars() {
        let separator = matches!(character, '-' | '_' | '.');
        if !separator {
            folded.push(character);
        } else if !after_separator {
            folded.push('-');
        }
        after_separator = separator;
    }
    Cow::Owned(folded)
}
