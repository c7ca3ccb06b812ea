//! Keys and vulnerability ids that a person gives.

use crate::code::Code;
use crate::problem::{FieldError, Problem};
use crate::state::App;
use scheduler_model::TenantId;
use scheduler_model::purl::ProductKey;

/// Keys, and at the same places the texts that they were read from.
#[derive(Default)]
pub struct Given {
    pub keys: Vec<ProductKey>,
    pub texts: Vec<String>,
}

impl Given {
    fn push(&mut self, key: ProductKey, text: String) {
        self.keys.push(key);
        self.texts.push(text);
    }
}

/// The union of keys and of what exports have said of vulnerability ids; `None` when neither was given.
pub async fn resolve(
    app: &App,
    tenant: &TenantId,
    keys: Option<Vec<String>>,
    vuln_ids: Option<Vec<String>>,
) -> Result<Option<Given>, Problem> {
    if keys.is_none() && vuln_ids.is_none() {
        return Ok(None);
    }
    let (keys, vuln_ids) = (keys.unwrap_or_default(), vuln_ids.unwrap_or_default());
    let most = app.limits.keys_per_event;
    count_within("keys", keys.len(), most)?;
    count_within("vulnIds", vuln_ids.len(), most)?;
    let mut given = Given::default();
    let mut errors = Vec::new();
    for (number, text) in keys.into_iter().enumerate() {
        match ProductKey::parse(&text) {
            Ok((key, _)) => given.push(key, text),
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
                given.push(key, text);
            }
        }
    }
    Ok(Some(given))
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
