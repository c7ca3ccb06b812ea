//! Which images of a tenant a schedule, a run or a preview is about.

use crate::ImageDigest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Says which filter of a [`Selection`] is required; every filter that is given must hold, whatever the scope.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Every image of the tenant.
    #[default]
    AllImages,
    /// Images in one of `namespaces`.
    ByNamespace,
    /// Images of one of `repositories`.
    ByRepo,
    /// Images with one of `digests`.
    ByDigest,
    /// Images with all of `labels`.
    ByLabels,
}

/// A conjunction of filters over the images of one tenant. An empty list filters nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Selection {
    /// Which filter has to be there.
    pub scope: Scope,
    /// An image passes when it is in one of them.
    pub namespaces: Vec<String>,
    /// An image passes when it is of one of them.
    pub repositories: Vec<String>,
    /// An image passes when its digest is one of them.
    pub digests: Vec<ImageDigest>,
    /// An image passes when it has all of them, with equal values.
    pub labels: BTreeMap<String, String>,
    /// Globs (`*`, `?`); an image passes when one of its tags matches one of them.
    pub include_tags: Vec<String>,
    /// In an analysis-only run: ask what the tags point to now.
    pub resolves_tags: bool,
}

/// The scope asks for a filter that is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the scope needs a list in `{member}` that is not empty")]
pub struct SelectionError {
    /// The member that has to be there.
    pub member: &'static str,
}

impl Selection {
    /// Whether the filter that the scope requires is there.
    ///
    /// ```
    /// use scheduler_model::{Scope, Selection};
    /// let lacking = Selection { scope: Scope::ByRepo, ..Selection::default() };
    /// assert_eq!(lacking.validate().unwrap_err().member, "repositories");
    /// ```
    pub fn validate(&self) -> Result<(), SelectionError> {
        let lacking = match self.scope {
            Scope::AllImages => None,
            Scope::ByNamespace => self.namespaces.is_empty().then_some("namespaces"),
            Scope::ByRepo => self.repositories.is_empty().then_some("repositories"),
            Scope::ByDigest => self.digests.is_empty().then_some("digests"),
            Scope::ByLabels => self.labels.is_empty().then_some("labels"),
        };
        lacking.map_or(Ok(()), |member| Err(SelectionError { member }))
    }
}

/// Whether `text` matches `pattern`, in which `*` stands for any characters and `?` for one.
///
/// Greedy with one point of return, hence linear in practice and never exponential.
pub fn glob_matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while let Some(&c) = text.get(t) {
        match pattern.get(p) {
            Some('*') => {
                retry = Some((p, t));
                p += 1;
            }
            Some('?') => {
                p += 1;
                t += 1;
            }
            Some(&literal) if literal == c => {
                p += 1;
                t += 1;
            }
            _ => match retry {
                // The star takes one character more, and the rest is tried again.
                Some((star, taken)) => {
                    retry = Some((star, taken + 1));
                    p = star + 1;
                    t = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern.get(p..).unwrap_or_default().iter().all(|&c| c == '*')
}
