//! `application/problem+json` (RFC 9457), known to this crate alone. Codes are part of the interface: `docs/reference/errors.md`.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use scheduler_core::ports::StoreError;
use serde::Serialize;
use tracing::{error, warn};

/// Where in the input something is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// A JSON pointer (RFC 6901) into the body, or the name of a query parameter behind `?`.
    pub pointer: String,
    /// What is wrong there.
    pub detail: String,
}

/// The most places that one answer names.
const FIELD_ERRORS_MAX: usize = 100;

/// An error as a caller sees it. Causes are logged where they are handled and never sent out.
#[derive(Debug, Clone)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    errors: Vec<FieldError>,
    retry_after_seconds: Option<u32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    code: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [FieldError],
}

impl Problem {
    /// A problem with a status, a code of the reference and a sentence.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), errors: Vec::new(), retry_after_seconds: None }
    }

    /// The input cannot be understood (400), at a place.
    pub fn bad_input(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::at(StatusCode::BAD_REQUEST, "bad-input", pointer, detail)
    }

    /// The input is well-formed but impossible (422), at a place.
    pub fn impossible(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::at(StatusCode::UNPROCESSABLE_ENTITY, "impossible-input", pointer, detail)
    }

    /// Several places of the input cannot be understood (400).
    pub fn bad_places(detail: impl Into<String>, errors: Vec<FieldError>) -> Self {
        let mut problem = Self::new(StatusCode::BAD_REQUEST, "bad-input", detail);
        problem.errors = errors;
        problem.errors.truncate(FIELD_ERRORS_MAX);
        problem
    }

    /// There is no such thing here; also when it is another tenant's.
    pub fn not_found(what: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", format!("there is no {what}"))
    }

    /// A problem with one place of the input.
    pub fn at(status: StatusCode, code: &'static str, pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        let (pointer, detail) = (pointer.into(), detail.into());
        let sentence = if pointer.is_empty() { detail.clone() } else { format!("{pointer}: {detail}") };
        let mut problem = Self::new(status, code, sentence);
        problem.errors.push(FieldError { pointer, detail });
        problem
    }

    /// Tells when to try again.
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after_seconds = Some(seconds);
        self
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The document of RFC 9457.
    pub fn document(&self) -> serde_json::Value {
        let body = Body {
            r#type: format!("urn:stella-scheduler:problem:{}", self.code),
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            detail: &self.detail,
            code: self.code,
            errors: &self.errors,
        };
        serde_json::to_value(body).unwrap_or_default()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, self.document().to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Signature"));
        }
        response
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::NotFound { what } => Self::not_found(what),
            StoreError::Conflict { what } => {
                Self::new(StatusCode::CONFLICT, "conflict", format!("{what} has changed meanwhile"))
            }
            StoreError::NameTaken { name } => {
                Self::new(StatusCode::CONFLICT, "name-taken", format!("the name `{name}` is taken"))
            }
            StoreError::Full { what, limit } => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, "limit-reached", format!("{what} is full ({limit})"))
                    .retry_after(5)
            }
            StoreError::BadCursor => Self::bad_input("?cursor", "this is no cursor of this list"),
            StoreError::Unavailable { .. } => {
                warn!(error = %chain(&error), "the store is unavailable");
                Self::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "store-unavailable",
                    "the store cannot be reached or written just now; nothing was done",
                )
                .retry_after(5)
            }
            StoreError::Corrupt { .. } | StoreError::Fenced { .. } => {
                error!(error = %chain(&error), "a request met a broken invariant");
                Self::internal()
            }
        }
    }
}

impl Problem {
    /// Something that should not happen; the cause is in the log.
    pub fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the service met an error of its own; see its log")
    }
}

/// An error with its causes, for the log.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
