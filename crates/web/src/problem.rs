//! `application/problem+json` (RFC 9457), known to this crate alone. Codes are part of the interface: `docs/reference/errors.md`.

use crate::code::Code;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use scheduler_core::ports::StoreError;
use serde::Serialize;
use tracing::{error, warn};
use utoipa::ToSchema;

/// Where in the input something is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
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
    code: Code,
    detail: String,
    errors: Vec<FieldError>,
    retry_after_seconds: Option<u32>,
}

/// An error (RFC 9457).
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemDocument<'a> {
    /// A name of the code that is unique in the world.
    #[schema(format = "uri")]
    r#type: String,
    /// The status in words.
    title: &'a str,
    /// The status.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// What went wrong, for people.
    detail: &'a str,
    /// What went wrong, for programs.
    #[schema(value_type = Code)]
    code: &'a str,
    /// Where, of input that is wrong.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [FieldError],
}

impl Problem {
    /// A problem with a code and a sentence.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), errors: Vec::new(), retry_after_seconds: None }
    }

    /// The input cannot be understood (400), at a place.
    pub fn bad_input(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::at(Code::BadInput, pointer, detail)
    }

    /// The input is well-formed but impossible (422), at a place.
    pub fn impossible(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::at(Code::ImpossibleInput, pointer, detail)
    }

    /// Several places of the input cannot be understood (400).
    pub fn bad_places(detail: impl Into<String>, errors: Vec<FieldError>) -> Self {
        let mut problem = Self::new(Code::BadInput, detail);
        problem.errors = errors;
        problem.errors.truncate(FIELD_ERRORS_MAX);
        problem
    }

    /// There is no such thing here; also when it is another tenant's.
    pub fn not_found(what: impl std::fmt::Display) -> Self {
        Self::new(Code::NotFound, format!("there is no {what}"))
    }

    /// A problem with one place of the input.
    pub fn at(code: Code, pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        let (pointer, detail) = (pointer.into(), detail.into());
        let sentence = if pointer.is_empty() { detail.clone() } else { format!("{pointer}: {detail}") };
        let mut problem = Self::new(code, sentence);
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
        self.code.status()
    }

    /// The document of RFC 9457.
    pub fn document(&self) -> serde_json::Value {
        let body = ProblemDocument {
            r#type: format!("urn:stella-scheduler:problem:{}", self.code.as_str()),
            title: self.status().canonical_reason().unwrap_or("Error"),
            status: self.status().as_u16(),
            detail: &self.detail,
            code: self.code.as_str(),
            errors: &self.errors,
        };
        serde_json::to_value(body).unwrap_or_default()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status(), self.document().to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.status() == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Signature"));
        }
        response
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::NotFound { what } => Self::not_found(what),
            StoreError::Conflict { what } => Self::new(Code::Conflict, format!("{what} has changed meanwhile")),
            StoreError::NameTaken { name } => Self::new(Code::NameTaken, format!("the name `{name}` is taken")),
            StoreError::Full { what, limit } => {
                Self::new(Code::LimitReached, format!("{what} is full ({limit})")).retry_after(5)
            }
            StoreError::BadCursor => Self::bad_input("?cursor", "this is no cursor of this list"),
            StoreError::Unavailable { .. } => {
                warn!(error = %chain(&error), "the store is unavailable");
                Self::new(Code::StoreUnavailable, "the store cannot be reached or written just now; nothing was done")
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
        Self::new(Code::Internal, "the service met an error of its own; see its log")
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
