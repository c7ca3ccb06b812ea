//! The keys of an export, each once.

use super::{EXCERPT_LEN_MAX, SkippedKey};
use crate::problem::{FieldError, Problem};
use indexmap::IndexMap;
use scheduler_model::purl::Purl;
use scheduler_model::{ChangedKey, Priority};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// The most skipped keys that an answer names.
const SKIPPED_NAMED_MAX: usize = 1000;

/// A longer range of affected versions, or more of one key, do not narrow it.
pub(super) const AFFECTED_LEN_MAX: usize = 4096;
pub(super) const RANGES_PER_KEY_MAX: usize = 1000;

/// What the mentions of a key say together.
#[derive(Default)]
pub struct Mentioned {
    /// The highest urgency.
    priority: Priority,
    /// Its versions.
    pub affected: Affected,
}

/// Which versions the mentions of a key are about.
#[derive(Default)]
pub enum Affected {
    /// Nothing is said.
    #[default]
    Unsaid,
    /// Those of the ranges.
    Ranges(BTreeSet<String>),
    /// Any: one change has no range that could narrow the key.
    Any,
}

impl Affected {
    /// A change of the key.
    pub fn add(&mut self, range: Option<&str>) {
        let Some(range) = range.filter(|text| (1..=AFFECTED_LEN_MAX).contains(&text.len())) else {
            *self = Self::Any;
            return;
        };
        if matches!(self, Self::Unsaid) {
            *self = Self::Ranges(BTreeSet::new());
        }
        if let Self::Ranges(ranges) = self {
            ranges.insert(range.to_owned());
            if ranges.len() > RANGES_PER_KEY_MAX {
                *self = Self::Any;
            }
        }
    }

    fn ranges(self) -> Vec<String> {
        match self {
            Self::Ranges(ranges) => ranges.into_iter().collect(),
            Self::Unsaid | Self::Any => Vec::new(),
        }
    }
}

/// Gathers keys, each once with what is said of it, and what is wrong with the others.
#[derive(Default)]
pub struct Gatherer<'a> {
    /// In the order of their first mention.
    keys: IndexMap<(Cow<'a, str>, Option<Cow<'a, str>>), Mentioned>,
    skipped: Vec<SkippedKey>,
    errors: Vec<FieldError>,
    mended: u64,
}

impl<'a> Gatherer<'a> {
    /// For at most so many keys.
    pub fn with_capacity(keys: usize) -> Self {
        Self { keys: IndexMap::with_capacity(keys), ..Self::default() }
    }

    /// Leaves something out; `pointer` is where it stands.
    pub fn skip(&mut self, pointer: impl FnOnce() -> String, key: &str, reason: impl Into<String>) {
        if self.skipped.len() < SKIPPED_NAMED_MAX {
            let reason = reason.into();
            self.skipped.push(SkippedKey { key: key.chars().take(EXCERPT_LEN_MAX).collect(), reason: reason.clone() });
            self.errors.push(FieldError { pointer: pointer(), detail: reason });
        }
    }

    /// The canonical key of a text; otherwise it is skipped.
    pub fn key(&mut self, pointer: impl FnOnce() -> String, text: Cow<'a, str>) -> Option<Cow<'a, str>> {
        let read = match &text {
            // Nearly every text is canonical, and stays where it is.
            Cow::Borrowed(text) => Purl::canonical(text),
            Cow::Owned(text) => Purl::canonical(text).map(|(key, mends)| (Cow::Owned(key.into_owned()), mends)),
        };
        match read {
            Ok((key, mends)) => {
                self.mended += u64::from(!mends.is_empty());
                Some(key)
            }
            Err(error) => {
                self.skip(pointer, &text, error.to_string());
                None
            }
        }
    }

    /// A mention of a key.
    pub fn add(&mut self, key: Cow<'a, str>, subcomponent: Option<Cow<'a, str>>, priority: Priority) -> &mut Mentioned {
        let mentioned = self.keys.entry((key, subcomponent)).or_default();
        mentioned.priority = mentioned.priority.max(priority);
        mentioned
    }

    /// What was gathered, and what was left out. An export of which nothing is left is refused.
    pub fn finish(self) -> Result<(Vec<ChangedKey>, Vec<SkippedKey>), Problem> {
        if self.mended > 0 {
            metrics::counter!("scheduler_purls_mended_total").increment(self.mended);
        }
        if self.keys.is_empty() {
            return Err(Problem::bad_places("no usable key is left in the export", self.errors));
        }
        let keys = self.keys.into_iter().map(|((key, subcomponent), Mentioned { priority, affected })| ChangedKey {
            key: key.into_owned(),
            priority,
            subcomponent: subcomponent.map(Cow::into_owned),
            affected: affected.ranges(),
        });
        Ok((keys.collect(), self.skipped))
    }
}
