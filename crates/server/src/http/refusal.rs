//! A request that is not served, and how that is said.

use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

use super::answer::{self, Answer, json, text};

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub status: StatusCode,
    /// Names the reason for programs; it does not change from one release to the next.
    pub code: &'static str,
    pub message: String,
    /// What the caller can do about it.
    pub hint: Option<String>,
}

/// How a part says that it refuses a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A line of text, for people.
    Text,
    /// `{"code", "message", "hint"}`, for programs.
    Json,
}

/// A refusal as JSON.
#[derive(Debug, Serialize)]
pub(super) struct Shown<'a> {
    code: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
}

/// After how many seconds a caller that was told to slow down may try again.
const RETRY_AFTER_S: u32 = 1;

impl Refusal {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { status, code, message: message.into(), hint: None }
    }

    pub fn bad(code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// The caller is to slow down.
    pub fn busy(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", message)
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Refusal {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn shown(&self) -> Shown<'_> {
        Shown { code: self.code, message: &self.message, hint: self.hint.as_deref() }
    }

    pub(super) fn answer(&self, form: Form) -> Answer {
        let mut answer = match form {
            Form::Text => text(self.status, &self.message),
            Form::Json => json(self.status, &self.shown()),
        };
        let headers = answer.headers_mut();
        match self.status {
            StatusCode::UNAUTHORIZED => {
                let challenge = HeaderValue::from_static("Basic realm=\"redstart\", charset=\"UTF-8\"");
                headers.insert(header::WWW_AUTHENTICATE, challenge);
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                answer::set(&mut answer, header::RETRY_AFTER, &RETRY_AFTER_S);
            }
            // What is left of the request cannot be told from the next one.
            StatusCode::REQUEST_TIMEOUT => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        answer
    }
}
