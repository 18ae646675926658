//! Reads the body of a request: bounded in size and time, and counted from its first byte.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::{call::Caller, refusal::Refusal};
use crate::byte_budget::Grant;

/// A body whose length is not known takes this much at a time.
const STEP: usize = 64 << 10;

/// What a body may use.
#[derive(Debug, Clone, Copy)]
pub(super) struct BodyLimits {
    pub bytes_max: usize,
    /// For the whole body, so that one byte at a time does not keep it open.
    pub timeout: Duration,
}

/// Reads a whole body.
pub(super) async fn read(
    body: Incoming,
    caller: &Caller,
    limits: BodyLimits,
) -> Result<(Bytes, Grant), Refusal> {
    let reading = collect(body, caller, limits.bytes_max);
    tokio::time::timeout(limits.timeout, reading).await.unwrap_or_else(|_| {
        let why = format!("the body did not arrive within {} ms", limits.timeout.as_millis());
        Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "body_too_slow", why))
    })
}

async fn collect(mut body: Incoming, caller: &Caller, bytes_max: usize) -> Result<(Bytes, Grant), Refusal> {
    let hint = body.size_hint();
    // What the header says: nothing has been read yet.
    let told = usize::try_from(hint.lower()).unwrap_or(usize::MAX);
    if told > bytes_max {
        return Err(too_large(&told, bytes_max));
    }
    // Granted before it is read: a request that waits for bytes must not be in memory.
    let mut grant = caller.account.grant(told).await?;
    let mut read = Vec::with_capacity(told);
    while let Some(frame) = body.frame().await {
        let frame = frame
            .map_err(|error| Refusal::bad("body_unreadable", format!("the body cannot be read: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        let length = read.len() + data.len();
        if length > bytes_max {
            return Err(too_large(&format_args!("more than {bytes_max}"), bytes_max));
        }
        if length > grant.bytes() {
            let step = length.next_multiple_of(STEP).min(bytes_max).max(length);
            let more = caller.account.grant(step - grant.bytes()).await?;
            grant.merge(more);
        }
        read.extend_from_slice(&data);
    }
    Ok((read.into(), grant))
}

fn too_large(size: &impl std::fmt::Display, bytes_max: usize) -> Refusal {
    let why = format!("the body has {size} bytes, the limit is {bytes_max}");
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", why)
}
