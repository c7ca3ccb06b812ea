//! Problem documents (RFC 9457) as a sentence and the places that it is about.

use super::output::clean;
use serde::Deserialize;
use std::fmt;

/// The most places that are shown.
const PLACES_SHOWN_MAX: usize = 10;

/// An error as the service tells it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ProblemDocument {
    /// The HTTP status.
    pub status: u16,
    /// The machine's name of the error.
    pub code: String,
    title: String,
    detail: String,
    errors: Vec<Place>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Place {
    pointer: String,
    detail: String,
}

impl ProblemDocument {
    fn way_out(&self) -> Option<&'static str> {
        match (self.status, self.code.as_str()) {
            (401, "bad-signature") => Some("check --key-id and the key against webhooks.keys of the service"),
            (401, _) => Some("pass an access token with --token-file"),
            (412, _) => Some("read it again and repeat the change"),
            (413, _) => Some("send less at once, or raise the limit in the service's configuration"),
            (429 | 503, _) => Some("try again in a few seconds"),
            _ => None,
        }
    }
}

impl fmt::Display for ProblemDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sentence = if self.detail.is_empty() { &self.title } else { &self.detail };
        let code = if self.code.is_empty() { String::new() } else { format!(" {}", self.code) };
        write!(f, "{} ({}{})", clean(sentence), self.status, clean(&code))?;
        if let Some(way_out) = self.way_out() {
            write!(f, "; {way_out}")?;
        }
        // One place is told in the sentence already.
        let news: Vec<&Place> = self.errors.iter().filter(|place| !sentence.contains(&place.detail)).collect();
        for place in news.iter().take(PLACES_SHOWN_MAX) {
            write!(f, "\n  {}: {}", clean(&place.pointer), clean(&place.detail))?;
        }
        if news.len() > PLACES_SHOWN_MAX {
            write!(f, "\n  … and {} more", news.len() - PLACES_SHOWN_MAX)?;
        }
        Ok(())
    }
}
