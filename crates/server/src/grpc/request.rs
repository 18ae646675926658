//! The messages of a call, as they come in: `compressed u8, length u32 big-endian`, then `length` bytes, again and again.

use std::{future::poll_fn, sync::Arc, time::Duration};

use bytes::{Buf, Bytes, BytesMut};
use h2::RecvStream;
use prost::Message;
use tokio::time::{Instant, timeout_at};
use tonic::Status;

use super::intake::Intake;

/// Largest request: a body of 4 MiB or a batch of that size, with properties.
const REQUEST_BYTES_MAX: usize = 16 << 20;
pub(super) const PREFIX_LEN: usize = 5;

/// What a client sends in one call.
#[derive(Debug)]
pub(super) struct Incoming {
    body: RecvStream,
    /// The begin of a message that is not whole yet, or what came behind one.
    gathered: BytesMut,
    intake: Arc<Intake>,
    /// Counted in the intake.
    taken: usize,
    /// How long a message may take to come in.
    time: Duration,
    until: Option<Instant>,
    patient: bool,
}

impl Incoming {
    pub fn new(body: RecvStream, intake: Arc<Intake>, time: Duration) -> Incoming {
        Incoming { body, gathered: BytesMut::new(), intake, taken: 0, time, until: None, patient: false }
    }

    /// The client may be silent between messages for as long as it likes.
    pub fn patient(mut self) -> Incoming {
        self.patient = true;
        self
    }

    /// The message of a call that has one.
    pub async fn only<M: Message + Default>(&mut self) -> Result<M, Status> {
        let Some(message) = self.next_whole().await? else {
            return Err(Status::invalid_argument("the request is missing"));
        };
        if !self.body.is_end_stream() && self.next_whole().await?.is_some() {
            return Err(Status::invalid_argument("more than one request in a call that takes one"));
        }
        decode(message)
    }

    pub async fn next<M: Message + Default>(&mut self) -> Result<Option<M>, Status> {
        self.next_whole().await?.map(decode).transpose()
    }

    async fn next_whole(&mut self) -> Result<Option<Bytes>, Status> {
        self.until = None;
        loop {
            if let Some(length) = length(&self.gathered)?
                && self.gathered.len() >= PREFIX_LEN + length
            {
                self.gathered.advance(PREFIX_LEN);
                let message = self.gathered.split_to(length).freeze();
                self.count()?;
                return Ok(Some(message));
            }
            let Some(mut data) = self.data().await? else {
                return match self.gathered.is_empty() {
                    true => Ok(None),
                    false => Err(Status::invalid_argument("the request ends in the middle of a message")),
                };
            };
            // Mostly a message comes in one piece, and is not copied.
            if self.gathered.is_empty()
                && length(&data)?.is_some_and(|length| data.len() == PREFIX_LEN + length)
            {
                data.advance(PREFIX_LEN);
                return Ok(Some(data));
            }
            self.gathered.extend_from_slice(&data);
            self.count()?;
        }
    }

    async fn data(&mut self) -> Result<Option<Bytes>, Status> {
        let (body, time) = (&mut self.body, self.time);
        let data = poll_fn(|cx| body.poll_data(cx));
        let data = if self.patient && self.gathered.is_empty() {
            data.await
        } else {
            let until = *self.until.get_or_insert_with(|| Instant::now() + time);
            timeout_at(until, data).await.map_err(|_| {
                let ms = time.as_millis();
                Status::deadline_exceeded(format!("the request did not come in whole within {ms} ms"))
            })?
        };
        let Some(data) = data.transpose().map_err(|error| Status::cancelled(error.to_string()))? else {
            return Ok(None);
        };
        // What comes in is bounded by the intake, not by the window. An error: the stream has ended.
        drop(self.body.flow_control().release_capacity(data.len()));
        Ok(Some(data))
    }

    /// Tells the intake how much is held.
    fn count(&mut self) -> Result<(), Status> {
        let before = std::mem::replace(&mut self.taken, self.gathered.len());
        if before > self.taken {
            self.intake.give_back(before - self.taken);
            return Ok(());
        }
        self.intake.take(self.taken - before)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.intake.give_back(self.taken);
    }
}

/// The length of the message that `bytes` begins with, once it can be told.
fn length(bytes: &[u8]) -> Result<Option<usize>, Status> {
    let Some([compressed, length @ ..]) = bytes.first_chunk::<PREFIX_LEN>() else { return Ok(None) };
    if *compressed != 0 {
        return Err(Status::unimplemented("compressed requests are not taken; bodies may be compressed"));
    }
    let length = u32::from_be_bytes(*length) as usize;
    if length > REQUEST_BYTES_MAX {
        let why = format!("a request of {length} bytes is over the limit of {REQUEST_BYTES_MAX}");
        return Err(Status::out_of_range(why));
    }
    Ok(Some(length))
}

fn decode<M: Message + Default>(message: Bytes) -> Result<M, Status> {
    M::decode(message).map_err(|error| Status::internal(format!("the request is malformed: {error}")))
}
