//! The keys of an event run: what the mentions of each key in its exports say together.

use scheduler_impact_index::QueryKey;
use scheduler_model::purl::{ProductKey, PurlError};
use scheduler_model::{ChangedKey, Priority};
use scheduler_versions::Ranges;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Keys with their urgency.
pub type Keys = Vec<(QueryKey, Priority)>;

/// A text that is no key.
#[derive(Debug, thiserror::Error)]
#[error("the key `{key}` cannot be read")]
pub struct KeyError {
    key: String,
    #[source]
    source: PurlError,
}

/// A key of a run.
pub(crate) fn query_key(key: &str, subcomponent: Option<&str>) -> Result<QueryKey, KeyError> {
    let parse = |text: &str| {
        ProductKey::parse(text).map(|(key, _)| key).map_err(|source| KeyError { key: text.to_owned(), source })
    };
    Ok(QueryKey::new(parse(key)?, subcomponent.map(parse).transpose()?))
}

/// Gathers the mentions of keys.
#[derive(Debug, Default)]
pub struct Mentions {
    by_key: BTreeMap<(String, Option<String>), Said>,
}

/// What the mentions of a key say together.
#[derive(Debug)]
struct Said {
    /// The highest urgency.
    priority: Priority,
    /// The ranges of affected versions; `None` when one mention gives none, and so speaks of any version.
    affected: Option<Vec<String>>,
}

impl Mentions {
    /// A further mention.
    pub fn add(&mut self, mentioned: ChangedKey) {
        let ChangedKey { key, priority, subcomponent, affected } = mentioned;
        let first = || Said { priority, affected: Some(Vec::new()) };
        let said = self.by_key.entry((key, subcomponent)).or_insert_with(first);
        said.priority = said.priority.max(priority);
        match &mut said.affected {
            Some(ranges) if !affected.is_empty() => ranges.extend(affected),
            ranges => *ranges = None,
        }
    }

    /// The keys; with their ranges only when these may narrow.
    ///
    /// # Errors
    /// A text that is no key.
    pub fn keys(self, narrow: bool) -> Result<Keys, KeyError> {
        let mut keys = Keys::new();
        // Spellings of one key select the same, so that their ranges are one list; else each would find all versions again.
        let mut narrowed: BTreeMap<(String, Priority), (QueryKey, Vec<String>)> = BTreeMap::new();
        for ((key, subcomponent), said) in self.by_key {
            let key = query_key(&key, subcomponent.as_deref())?;
            let may_narrow = narrow && key.subcomponent.is_none() && key.image.is_none();
            match said.affected.filter(|_| may_narrow) {
                None => keys.push((key, said.priority)),
                Some(ranges) => {
                    let form = (key.key.to_string(), said.priority);
                    narrowed.entry(form).or_insert_with(|| (key, Vec::new())).1.extend(ranges);
                }
            }
        }
        for ((_, priority), (key, mut ranges)) in narrowed {
            ranges.sort_unstable();
            ranges.dedup();
            let affected = Ranges::parse(ranges.iter().map(String::as_str)).map(Arc::new);
            keys.push((QueryKey { affected, ..key }, priority));
        }
        Ok(keys)
    }
}
