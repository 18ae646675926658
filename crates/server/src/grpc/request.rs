//! The request messages of a call. Each is framed: `compressed u8, length u32 big-endian`, then `length` bytes.

use std::{future::poll_fn, time::Duration};

use bytes::{Buf, Bytes, BytesMut};
use h2::RecvStream;
use prost::Message;
use tokio::time::{Instant, timeout_at};

use super::status::Status;
use crate::byte_budget::{Grant, Spent};

/// Largest request: a body of 4 MiB or a batch of that size, with properties.
const REQUEST_BYTES_MAX: usize = 16 << 20;
pub(super) const PREFIX_LEN: usize = 5;
/// Memory of a decoded field of a request, even if it is empty: a message of a batch, an entry of an ack.
const MESSAGE_BYTES: usize = size_of::<redstart_wire::v2::Message>();
const ENTRY_BYTES: usize = 128;
/// A large request without bodies may consist of many small fields, which take this many times their bytes when decoded.
const LARGE_BYTES: usize = 64 << 10;
const LARGE_FACTOR: usize = 16;

/// Why a request was not read.
#[derive(Debug)]
pub(super) enum Rejected {
    Status(Status),
    /// The byte budget has no room for it.
    Spent(Spent),
}

impl From<Status> for Rejected {
    fn from(status: Status) -> Self {
        Rejected::Status(status)
    }
}

/// What the request messages of a call mostly consist of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// Message bodies. They are slices of the request and are not copied.
    Bodies,
    Fields,
}

/// The stream of request messages of one call.
#[derive(Debug)]
pub(super) struct Incoming {
    body: RecvStream,
    content: Content,
    /// Bytes that have arrived and belong to no complete message yet.
    gathered: BytesMut,
    /// Covers the call itself and all bytes that have arrived, until the call ends.
    grant: Grant,
    /// Bytes of the grant for the call itself, and for the bytes that have arrived.
    call: usize,
    arrived: usize,
    /// Time for a message to arrive completely.
    time: Duration,
    until: Option<Instant>,
    /// The client may pause between messages for any time.
    may_pause: bool,
}

impl Incoming {
    /// `grant` covers the call itself.
    pub fn new(body: RecvStream, content: Content, grant: Grant, time: Duration) -> Incoming {
        Incoming {
            body,
            content,
            gathered: BytesMut::new(),
            call: grant.bytes(),
            arrived: 0,
            grant,
            time,
            until: None,
            may_pause: false,
        }
    }

    /// Allows any time between messages.
    pub fn without_pause_limit(mut self) -> Incoming {
        self.may_pause = true;
        self
    }

    /// The message of a call that has exactly one.
    pub async fn only<M: Message + Default>(&mut self) -> Result<M, Rejected> {
        let Some(message) = self.next_whole().await? else {
            return Err(Status::invalid_argument("the request is missing").into());
        };
        if !self.body.is_end_stream() && self.next_whole().await?.is_some() {
            return Err(Status::invalid_argument("the call has more than one request").into());
        }
        self.decode(message)
    }

    /// The next message of a call that has many. The bytes of earlier messages are no longer counted.
    pub async fn next<M: Message + Default>(&mut self) -> Result<Option<M>, Rejected> {
        self.arrived = self.gathered.len();
        self.grant.resize_anyway(self.call + self.arrived);
        match self.next_whole().await? {
            Some(message) => self.decode(message).map(Some),
            None => Ok(None),
        }
    }

    /// Counts the bytes that HTTP/2 may buffer while nothing is read. `false` when the byte budget has no room.
    pub fn count_window(&mut self, bytes: usize) -> bool {
        self.grant.try_resize(self.call + self.arrived + bytes).is_ok()
    }

    async fn next_whole(&mut self) -> Result<Option<Bytes>, Rejected> {
        self.until = None;
        loop {
            if let Some(length) = length(&self.gathered)?
                && self.gathered.len() >= PREFIX_LEN + length
            {
                self.gathered.advance(PREFIX_LEN);
                return Ok(Some(self.gathered.split_to(length).freeze()));
            }
            let Some(mut data) = self.data().await? else {
                return match self.gathered.is_empty() {
                    true => Ok(None),
                    false => {
                        Err(Status::invalid_argument("the request ends in the middle of a message").into())
                    }
                };
            };
            // A message mostly arrives in one piece and is not copied then.
            if self.gathered.is_empty()
                && length(&data)?.is_some_and(|length| data.len() == PREFIX_LEN + length)
            {
                data.advance(PREFIX_LEN);
                return Ok(Some(data));
            }
            self.gathered.extend_from_slice(&data);
        }
    }

    async fn data(&mut self) -> Result<Option<Bytes>, Rejected> {
        let (body, time) = (&mut self.body, self.time);
        let data = poll_fn(|cx| body.poll_data(cx));
        let data = if self.may_pause && self.gathered.is_empty() {
            data.await
        } else {
            let until = *self.until.get_or_insert_with(|| Instant::now() + time);
            timeout_at(until, data).await.map_err(|_| {
                let ms = time.as_millis();
                Status::deadline_exceeded(format!("the request did not arrive completely within {ms} ms"))
            })?
        };
        let Some(data) = data.transpose().map_err(|error| Status::cancelled(error.to_string()))? else {
            return Ok(None);
        };
        self.arrived += data.len();
        self.grant.try_resize(self.call + self.arrived).map_err(Rejected::Spent)?;
        // The grant bounds what is read, not the window. An error means that the stream has ended.
        drop(self.body.flow_control().release_capacity(data.len()));
        Ok(Some(data))
    }

    fn decode<M: Message + Default>(&mut self, message: Bytes) -> Result<M, Rejected> {
        let count = fields(&message).saturating_sub(1);
        let decoded = match self.content {
            Content::Bodies => count * MESSAGE_BYTES,
            Content::Fields if message.len() > LARGE_BYTES => {
                (count * ENTRY_BYTES).max(message.len() * LARGE_FACTOR)
            }
            Content::Fields => count * ENTRY_BYTES,
        };
        if decoded > LARGE_BYTES {
            self.grant.try_resize(self.call + self.arrived + decoded).map_err(Rejected::Spent)?;
        }
        M::decode(message)
            .map_err(|error| Status::internal(format!("the request is malformed: {error}")).into())
    }
}

/// The number of fields of a message, without nested ones, up to the first malformed one.
fn fields(mut message: &[u8]) -> usize {
    let mut count = 0;
    while let Ok((tag, wire_type)) = prost::encoding::decode_key(&mut message) {
        let skipped = prost::encoding::skip_field(wire_type, tag, &mut message, Default::default());
        if skipped.is_err() {
            break;
        }
        count += 1;
    }
    count
}

/// The length of the message that `bytes` begins with, if its prefix is complete.
fn length(bytes: &[u8]) -> Result<Option<usize>, Status> {
    let Some([compressed, length @ ..]) = bytes.first_chunk::<PREFIX_LEN>() else { return Ok(None) };
    if *compressed != 0 {
        return Err(Status::unimplemented(
            "compressed requests are not supported; message bodies may be compressed",
        ));
    }
    let length = u32::from_be_bytes(*length) as usize;
    if length > REQUEST_BYTES_MAX {
        let why = format!("a request of {length} bytes is over the limit of {REQUEST_BYTES_MAX}");
        return Err(Status::out_of_range(why));
    }
    Ok(Some(length))
}
