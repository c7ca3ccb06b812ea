//! Keys and vulnerability ids that a person gives.

use crate::code::Code;
use crate::problem::{FieldError, Problem};
use crate::state::App;
use scheduler_impact_index::QueryKey;
use scheduler_model::TenantId;
use scheduler_model::purl::ProductKey;
use std::collections::HashSet;

/// Keys to look up, and at the same places the texts that they were sent as.
#[derive(Default)]
pub struct Sent {
    pub keys: Vec<QueryKey>,
    pub texts: Vec<String>,
}

impl Sent {
    fn push(&mut self, key: ProductKey, text: String) {
        self.keys.push(QueryKey::new(key, None));
        self.texts.push(text);
    }

    /// These, and others behind them.
    pub fn and(mut self, others: Self) -> Self {
        self.keys.extend(others.keys);
        self.texts.extend(others.texts);
        self
    }

    /// Each key once, in the spelling that came first. The keys of changes, which ranges may narrow, stand behind those that
    /// are asked for in all versions: of two equal ones the wider is kept, so that the same images are found.
    pub fn distinct(mut self) -> Self {
        let mut seen = HashSet::with_capacity(self.keys.len());
        let is_first: Vec<bool> = self.keys.iter().map(|key| seen.insert(key.key.purl().as_str())).collect();
        let mut of_keys = is_first.iter();
        self.keys.retain(|_| of_keys.next() == Some(&true));
        let mut of_texts = is_first.iter();
        self.texts.retain(|_| of_texts.next() == Some(&true));
        self
    }
}

/// The union of keys and of what exports have said of vulnerability ids; `None` when neither was given.
pub async fn resolve(
    app: &App,
    tenant: &TenantId,
    keys: Option<Vec<String>>,
    vuln_ids: Option<Vec<String>>,
) -> Result<Option<Sent>, Problem> {
    if keys.is_none() && vuln_ids.is_none() {
        return Ok(None);
    }
    let (keys, vuln_ids) = (keys.unwrap_or_default(), vuln_ids.unwrap_or_default());
    let most = app.limits.keys_per_event;
    count_within("keys", keys.len(), most)?;
    count_within("vulnIds", vuln_ids.len(), most)?;
    let mut sent = Sent::default();
    let mut errors = Vec::new();
    for (number, text) in keys.into_iter().enumerate() {
        match ProductKey::parse(&text) {
            Ok((key, _)) => sent.push(key, text),
            Err(error) => errors.push(FieldError { pointer: format!("/keys/{number}"), detail: error.to_string() }),
        }
    }
    if !errors.is_empty() {
        return Err(Problem::bad_places(not_purls(errors.len()), errors));
    }
    for vuln_id in &vuln_ids {
        for text in app.store.keys_of_vuln(tenant, vuln_id).await? {
            // What the inbox took parses.
            if let Ok((key, _)) = ProductKey::parse(&text) {
                sent.push(key, text);
            }
        }
    }
    Ok(Some(sent))
}

/// The sentence about keys that were given by hand and cannot be read.
pub fn not_purls(count: usize) -> String {
    let keys =
        if count == 1 { "1 key is no package URL".to_owned() } else { format!("{count} keys are no package URLs") };
    format!("{keys} such as pkg:npm/lodash or pkg:deb/debian/openssl@3.0.11")
}

/// Holds the length of a list against the limit.
pub fn count_within(member: &str, count: usize, keys_max: usize) -> Result<(), Problem> {
    if count <= keys_max {
        return Ok(());
    }
    Err(Problem::new(
        Code::TooManyKeys,
        format!("/{member} has {count} entries, over limits.maxKeysPerEvent ({keys_max})"),
    ))
}
