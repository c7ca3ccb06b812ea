use scheduler_impact_index::QueryKey;
use scheduler_model::purl::ProductKey;
use serde::Deserialize;
use std::borrow::Cow;

/// A text that is borrowed where the JSON has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The keys of a JSON list.
///
/// # Errors
/// When it is none.
pub fn parse_keys(json: &str) -> Result<Vec<QueryKey>, serde_json::Error> {
    let texts: Vec<Text<'_>> = serde_json::from_str(json)?;
    Ok(texts.iter().filter_map(|text| Some(QueryKey::new(ProductKey::parse(&text.0).ok()?.0, None))).collect())
}
