use std::{collections::BTreeMap, hash::Hasher};

use redstart_wire::remoting::{FRAME_BYTES_MAX, body::DataVersion, code};
use rustc_hash::FxHasher;
use serde::Serialize;

use crate::remoting::{
    refusal::Refusal,
    request::{Answer, Request},
};

/// An answer must fit into one frame, with its header.
const BODY_BYTES_MAX: usize = FRAME_BYTES_MAX - (1 << 20);

/// The part of a long table that a request asks for. Older tools ask for all of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Page {
    from: usize,
    max: usize,
}

impl Page {
    pub fn read(request: &Request, from: &'static str, max: &'static str) -> Result<Page, Refusal> {
        let from = request.number_or::<i64>(from, 0)?;
        let max = request.optional_number::<i64>(max)?;
        Ok(Page {
            from: usize::try_from(from).unwrap_or(0),
            max: max.and_then(|max| usize::try_from(max).ok()).unwrap_or(usize::MAX),
        })
    }

    pub fn of<V>(self, table: BTreeMap<String, V>) -> BTreeMap<String, V> {
        table.into_iter().skip(self.from).take(self.max).collect()
    }
}

/// A version that changes exactly when the table changes: tools that read page by page then begin again.
pub(super) fn version(table: &impl Serialize) -> DataVersion {
    let bytes = serde_json::to_vec(table).unwrap_or_default();
    let mut hasher = FxHasher::default();
    hasher.write(&bytes);
    // Go clients read 32 bits of it.
    DataVersion { counter: (hasher.finish() >> 33) as i64, ..DataVersion::default() }
}

/// A body, unless it is too long for a frame.
pub(super) fn answer(body: impl Into<bytes::Bytes>) -> Result<Answer, Refusal> {
    let body = body.into();
    if body.len() > BODY_BYTES_MAX {
        let why = format!("the answer has {} bytes, the limit is {BODY_BYTES_MAX}", body.len());
        return Err(Refusal::new(code::SYSTEM_ERROR, why));
    }
    Ok(Answer::ok().with_body(body))
}

pub(super) fn json(body: &impl Serialize) -> Result<Answer, Refusal> {
    answer(serde_json::to_vec(body).unwrap_or_default())
}
