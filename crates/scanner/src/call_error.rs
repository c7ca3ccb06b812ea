//! Sorts what can go wrong with a call into the classes of the contract.

use crate::answer::AnswerError;
use reqwest::StatusCode;
use scheduler_core::ports::ScannerError;
use scheduler_model::ErrorClass;
use std::error::Error;
use std::time::Duration;

/// An answer of a status that is no success. `place` is the call's address as it may be shown.
pub(crate) fn of_status(place: &str, status: StatusCode, retry_after: Option<Duration>) -> ScannerError {
    let (class, retryable) = match status.as_u16() {
        408 => (ErrorClass::Timeout, true),
        429 => (ErrorClass::Throttled, true),
        // "Too early" is the server's state, not the image's.
        425 | 500..=599 => (ErrorClass::ServerError, true),
        400..=499 => (ErrorClass::Rejected, false),
        _ => (ErrorClass::BadResponse, true),
    };
    ScannerError {
        class,
        message: format!("{place} answered {status}"),
        retryable,
        retry_after: retry_after.filter(|_| retryable),
        refused: false,
        source: None,
    }
}

/// A call that came to no answer, or to half of one.
pub(crate) fn of_transport(place: &str, error: reqwest::Error) -> ScannerError {
    // The error would show the URL with the password that may be in it.
    let error = error.without_url();
    let refused = error.is_connect() && !error.is_timeout();
    let (class, message) = if error.is_timeout() {
        (ErrorClass::Timeout, format!("{place} gave no answer in time"))
    } else if refused {
        (ErrorClass::Connect, format!("no connection to {place}: {}", root_cause(&error)))
    } else if causes(&error).any(|cause| cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse)) {
        (ErrorClass::BadResponse, format!("the answer of {place} is no HTTP: {}", root_cause(&error)))
    } else {
        (ErrorClass::Connect, format!("the connection to {place} was lost: {}", root_cause(&error)))
    };
    ScannerError { class, message, retryable: true, retry_after: None, refused, source: Some(Box::new(error)) }
}

/// No whole answer within the time that a call may take.
pub(crate) fn of_timeout(place: &str, timeout: Duration) -> ScannerError {
    ScannerError {
        class: ErrorClass::Timeout,
        message: format!("{place} gave no answer within {timeout:?}"),
        retryable: true,
        retry_after: None,
        refused: false,
        source: None,
    }
}

/// An answer that cannot be understood.
pub(crate) fn of_answer(place: &str, error: AnswerError) -> ScannerError {
    ScannerError {
        class: ErrorClass::BadResponse,
        message: format!("the answer of {place} cannot be understood: {error}"),
        retryable: true,
        retry_after: None,
        refused: false,
        source: Some(Box::new(error)),
    }
}

/// An error and what is behind it, the deepest last.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

fn root_cause(error: &(dyn Error + 'static)) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_its_class() {
        let wait = Some(Duration::from_secs(7));
        let check = |status: u16, class: ErrorClass, retryable: bool| {
            let error = of_status("http://scanner/reports", StatusCode::from_u16(status).unwrap(), wait);
            assert_eq!((error.class, error.retryable, error.refused), (class, retryable, false), "{status}");
            assert_eq!(error.retry_after, wait.filter(|_| retryable), "{status}");
            assert!(error.message.contains(&status.to_string()), "{}", error.message);
        };
        check(408, ErrorClass::Timeout, true);
        check(425, ErrorClass::ServerError, true);
        check(429, ErrorClass::Throttled, true);
        for status in [500, 502, 503, 504, 599] {
            check(status, ErrorClass::ServerError, true);
        }
        for status in [400, 401, 403, 404, 409, 410, 413, 422, 451] {
            check(status, ErrorClass::Rejected, false);
        }
        for status in [301, 302, 304, 307, 308, 600] {
            check(status, ErrorClass::BadResponse, true);
        }
    }
}
