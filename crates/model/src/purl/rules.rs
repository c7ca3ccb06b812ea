//! The rules of the registered types. A type that is not listed is opaque: nothing is folded, nothing is asked.

use super::percent::has_byte;
use std::borrow::Cow;

/// Whether a purl of a type has a namespace.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Namespace {
    Required,
    Optional,
    Forbidden,
}

/// How a component is brought to its one spelling. ASCII only: no registry that folds has names beyond it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fold {
    Keep,
    Lower,
    Upper,
    /// Lower case, `_` as `-`.
    Pypi,
    /// Lower case, everything but letters and digits as `_`.
    Pub,
}

impl Fold {
    pub(super) fn apply(self, text: Cow<'_, str>) -> Cow<'_, str> {
        let settled = match self {
            Self::Keep => true,
            Self::Lower => !has_byte(&text, |byte| byte.is_ascii_uppercase()),
            Self::Upper => !has_byte(&text, |byte| byte.is_ascii_lowercase()),
            Self::Pypi => !has_byte(&text, |byte| byte.is_ascii_uppercase() || byte == b'_'),
            Self::Pub => !has_byte(&text, |byte| !matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_')),
        };
        if settled {
            return text;
        }
        Cow::Owned(match self {
            Self::Keep => text.into_owned(),
            Self::Lower => text.to_ascii_lowercase(),
            Self::Upper => text.to_ascii_uppercase(),
            Self::Pypi => text.to_ascii_lowercase().replace('_', "-"),
            Self::Pub => text.to_ascii_lowercase().replace(|character: char| !character.is_ascii_alphanumeric(), "_"),
        })
    }
}

/// What a type asks of its purls.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    pub(super) namespace: Namespace,
    pub(super) namespace_fold: Fold,
    pub(super) name_fold: Fold,
    pub(super) version_fold: Fold,
}

const fn rules(namespace: Namespace, namespace_fold: Fold, name_fold: Fold) -> Rules {
    Rules { namespace, namespace_fold, name_fold, version_fold: Fold::Keep }
}

/// The rules of the canonical type `ty`.
pub(super) fn rules_of(ty: &str) -> Rules {
    use Fold::{Keep, Lower, Pub, Pypi, Upper};
    use Namespace::{Forbidden, Optional, Required};
    match ty {
        "alpm" | "apk" | "bitbucket" | "composer" | "deb" | "github" => rules(Required, Lower, Lower),
        "qpkg" | "rpm" => rules(Required, Lower, Keep),
        "git" | "golang" | "maven" | "swift" => rules(Required, Keep, Keep),
        "huggingface" => Rules { version_fold: Lower, ..rules(Required, Keep, Keep) },
        "vscode-extension" => Rules { version_fold: Lower, ..rules(Required, Lower, Lower) },
        // Not registered: what scanners wrote before `apk` was, with the names of that type.
        "alpine" | "brew" | "hex" | "luarocks" => rules(Optional, Lower, Lower),
        "yocto" => rules(Optional, Lower, Keep),
        "cpan" => rules(Optional, Upper, Keep),
        "bazel" | "cargo" | "cocoapods" | "conda" | "cran" | "gem" | "hackage" | "julia" | "mlflow" | "nuget"
        | "opam" | "vcpkg" => rules(Forbidden, Keep, Keep),
        "bitnami" | "chrome-extension" | "oci" | "otp" => rules(Forbidden, Keep, Lower),
        "pub" => rules(Forbidden, Keep, Pub),
        "pypi" => Rules { version_fold: Lower, ..rules(Forbidden, Keep, Pypi) },
        _ => rules(Optional, Keep, Keep),
    }
}

/// Whether a name of this type is a whole path: `git` has the host as its namespace and the path there as its name.
pub(super) fn name_is_path(ty: &str) -> bool {
    ty == "git"
}

/// Whether names of this type never contain `/`, so that an encoded one can only be the namespace's separator.
pub(super) fn name_is_segment(ty: &str) -> bool {
    matches!(ty, "composer" | "golang" | "npm")
}

/// What is wrong under the rules that only this type has, as the rest of a sentence.
pub(super) fn violation(
    ty: &str,
    name: &str,
    version: Option<&str>,
    has_qualifier: impl Fn(&str) -> bool,
) -> Option<&'static str> {
    match ty {
        "chrome-extension" if name.len() != 32 || !name.bytes().all(|byte| matches!(byte, b'a'..=b'p')) => {
            Some("needs a name of 32 letters from a to p")
        }
        "chrome-extension" if !version.is_none_or(is_chrome_version) => Some("needs a version of one to four numbers"),
        "cpan" if name.contains("::") => Some("needs the name of a distribution, not of a module"),
        "julia" if !has_qualifier("uuid") => Some("needs the qualifier uuid"),
        "swid" if !has_qualifier("tag_id") => Some("needs the qualifier tag_id"),
        _ => None,
    }
}

fn is_chrome_version(version: &str) -> bool {
    version.split('.').count() <= 4
        && version.split('.').all(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}
