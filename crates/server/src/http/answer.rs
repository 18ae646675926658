//! What a request is answered with.

use std::fmt;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde::Serialize;

use crate::{byte_budget::Grant, handover::Handover};

pub type Answer = Response<Content>;

pub(super) const PLAIN: &str = "text/plain; charset=utf-8";
pub(super) const JSON: &str = "application/json";

/// The body of an answer, and what is held until the peer has it.
#[derive(Debug, Default)]
pub struct Content {
    pub(super) bytes: Bytes,
    pub(super) held: Option<Held>,
}

/// What an answer holds until the socket has taken all of it. If it is dropped before [`Held::arrived`], the deliveries go back to
/// their queues.
#[derive(Debug)]
pub(super) struct Held {
    pub grant: Grant,
    pub handover: Option<Handover>,
}

impl Held {
    pub fn arrived(mut self) {
        if let Some(handover) = &mut self.handover {
            handover.complete();
        }
        drop(self.grant);
    }
}

/// One line of text.
pub(super) fn text(status: StatusCode, line: &str) -> Answer {
    content(status, PLAIN, Bytes::from(format!("{line}\n")))
}

/// A value as JSON.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    match serde_json::to_vec(value) {
        Ok(bytes) => content(status, JSON, bytes.into()),
        // Only a map with keys that are no strings, and no type here has one.
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// An answer that is not to be cached: it shows the state of this moment.
pub(super) fn content(status: StatusCode, kind: &'static str, bytes: Bytes) -> Answer {
    let mut answer = Response::new(Content { bytes, held: None });
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    answer.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// A header whose value is made from what the broker knows. A value that no header can hold is left out.
pub(super) fn set(answer: &mut Answer, name: header::HeaderName, value: &impl fmt::Display) {
    if let Ok(value) = HeaderValue::from_str(&value.to_string()) {
        answer.headers_mut().insert(name, value);
    }
}
