//! The answer to a call: one message or a stream, and the status in the trailers.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures_util::Stream;
use h2::{SendStream, server::SendResponse};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header::CONTENT_TYPE};
use prost::Message;

use super::{
    refusal::Refusal,
    request::{PREFIX_LEN, Rejected},
    status::{Code, Status},
    timing::Timing,
};
use crate::{
    byte_budget::{Account, Grant},
    stall_detector::StallDetector,
};

/// Messages of a stream are collected up to this size before they are written.
const CHUNK_BYTES: usize = 32 << 10;

/// A part of an answer's body. HTTP/2 drops it when it is written, which releases the grant for everything up to here.
#[derive(Debug)]
pub(super) struct Chunk {
    data: Bytes,
    _grant: Option<Grant>,
}

impl Buf for Chunk {
    fn remaining(&self) -> usize {
        self.data.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.data
    }

    fn advance(&mut self, bytes: usize) {
        self.data.advance(bytes);
    }
}

/// A message of a streamed answer.
#[derive(Debug)]
pub(super) struct Part<M> {
    pub message: M,
    /// Bytes that were granted before the message was read or queued.
    pub grant: Option<Grant>,
}

impl<M> Part<M> {
    /// A small message, which needs no grant of its own.
    pub fn small(message: M) -> Part<M> {
        Part { message, grant: None }
    }

    pub fn map<N>(self, change: impl FnOnce(M) -> N) -> Part<N> {
        Part { message: change(self.message), grant: self.grant }
    }
}

/// Encoded messages and the grant for them.
#[derive(Debug)]
pub(super) struct Body {
    buffer: BytesMut,
    grant: Grant,
}

/// The answer to a call. An error while it is sent means that the peer is gone, and ends it without a log line.
#[derive(Debug)]
pub(super) struct Answer {
    respond: SendResponse<Chunk>,
    timing: Timing,
    account: Arc<Account>,
    /// How long a peer may leave an answer unread.
    stuck_max: Duration,
}

impl Answer {
    pub fn new(
        respond: SendResponse<Chunk>,
        timing: Timing,
        account: Arc<Account>,
        stuck_max: Duration,
    ) -> Answer {
        Answer { respond, timing, account, stuck_max }
    }

    fn begin(&mut self) -> Result<SendStream<Chunk>, h2::Error> {
        self.timing.ended(Code::Ok);
        self.respond.send_response(head(), false)
    }

    /// The body of an answer with one message. The grant is not refused, because the request has been carried out.
    pub fn body_of(&self, message: &impl Message) -> Body {
        let len = PREFIX_LEN + message.encoded_len();
        let mut buffer = BytesMut::with_capacity(len);
        put(message, &mut buffer);
        Body { buffer, grant: self.account.grant_anyway(len) }
    }

    pub async fn send(&mut self, body: Body) {
        let Ok(mut stream) = self.begin() else { return };
        if self.write_all(&mut stream, body).await.is_ok() {
            end(&mut stream, Ok(()));
        }
    }

    /// Ends a call whose request was not read.
    pub async fn reject(&mut self, rejected: Rejected) {
        match rejected {
            Rejected::Status(status) => self.refuse(&status),
            // Every answer of the protocol has its status in the same field.
            Rejected::Spent(spent) => {
                let status = Some(Refusal::from(spent).status());
                let body = self.body_of(&redstart_wire::v2::HeartbeatResponse { status });
                self.send(body).await;
            }
        }
    }

    /// Ends the call with a gRPC status only.
    pub fn refuse(&mut self, status: &Status) {
        self.timing.ended(status.code());
        let mut response = head();
        status.add_to(response.headers_mut());
        drop(self.respond.send_response(response, true));
    }

    /// The peer speaks HTTP/2 but not gRPC.
    pub fn refuse_content_type(&mut self) {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        drop(self.respond.send_response(response, true));
    }

    /// The output of `future`; `None` if the client cancels the call first.
    pub async fn unless_reset<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
            Poll::Pending => self.respond.poll_reset(cx).map(|_| None),
        })
        .await
    }

    /// Writes messages as they come and as the client's flow-control window allows. `true` when HTTP/2 has accepted the whole
    /// answer, trailers included; `false` when the client has cancelled the call or is gone.
    pub async fn stream<M: Message>(
        &mut self,
        messages: impl Stream<Item = Result<Part<M>, Status>>,
    ) -> bool {
        let Ok(mut stream) = self.begin() else { return false };
        let mut messages = pin!(messages);
        let mut body = Body { buffer: BytesMut::new(), grant: self.account.nothing() };
        loop {
            let step = poll_fn(|cx| {
                if let Poll::Ready(next) = messages.as_mut().poll_next(cx) {
                    return Poll::Ready(Step::Next(next));
                }
                if !body.buffer.is_empty() {
                    return Poll::Ready(Step::Write);
                }
                stream.poll_reset(cx).map(|_| Step::Gone)
            });
            let (write, ended) = match step.await {
                Step::Next(Some(Ok(Part { message, grant }))) => {
                    body.put(&message, grant);
                    (body.buffer.len() >= CHUNK_BYTES, None)
                }
                Step::Next(Some(Err(status))) => (true, Some(Err(status))),
                Step::Next(None) => (true, Some(Ok(()))),
                Step::Write => (true, None),
                Step::Gone => return false,
            };
            if write {
                let full = std::mem::replace(
                    &mut body,
                    Body { buffer: BytesMut::new(), grant: self.account.nothing() },
                );
                if self.write_all(&mut stream, full).await.is_err() {
                    return false;
                }
            }
            if let Some(outcome) = ended {
                return end(&mut stream, outcome);
            }
        }
    }

    /// Writes as the peer's window opens.
    async fn write_all(&self, stream: &mut SendStream<Chunk>, body: Body) -> Result<(), h2::Error> {
        let Body { mut buffer, grant } = body;
        stream.reserve_capacity(buffer.len());
        if stream.capacity() < buffer.len() {
            // Boxed, so that the futures of answers that fit into the window stay small.
            Box::pin(self.write_slowly(stream, &mut buffer)).await?;
        }
        if buffer.is_empty() {
            return Ok(());
        }
        // The chunks share one buffer, which is freed when the last of them is written.
        stream.send_data(Chunk { data: buffer.freeze(), _grant: Some(grant) }, false)
    }

    /// Writes until the rest fits into the peer's window. The call ends if the peer does not read in time.
    async fn write_slowly(
        &self,
        stream: &mut SendStream<Chunk>,
        buffer: &mut BytesMut,
    ) -> Result<(), h2::Error> {
        let mut stall = StallDetector::new(Instant::now());
        loop {
            stream.reserve_capacity(buffer.len());
            let mut room = stream.capacity();
            if room == 0 {
                let opened = poll_fn(|cx| stream.poll_capacity(cx));
                let opened = tokio::time::timeout(self.stuck_max, opened).await.ok().flatten().transpose()?;
                room = opened.ok_or(h2::Reason::CANCEL)?;
            }
            if room >= buffer.len() {
                return Ok(());
            }
            let now = Instant::now();
            stall.peer_read(room, now);
            if stall.is_stuck(now, self.stuck_max, self.account.budget().is_scarce()) {
                return Err(h2::Reason::CANCEL.into());
            }
            if room > 0 {
                let data = buffer.split_to(room).freeze();
                stream.send_data(Chunk { data, _grant: None }, false)?;
            }
        }
    }
}

impl Body {
    fn put(&mut self, message: &impl Message, grant: Option<Grant>) {
        put(message, &mut self.buffer);
        if let Some(grant) = grant {
            self.grant.merge(grant);
        }
        self.grant.resize_anyway(self.buffer.len());
    }
}

enum Step<M> {
    Next(Option<Result<Part<M>, Status>>),
    /// No message is ready; what was collected is written.
    Write,
    Gone,
}

fn head() -> Response<()> {
    let mut response = Response::new(());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

fn end(body: &mut SendStream<Chunk>, outcome: Result<(), Status>) -> bool {
    let mut trailers = HeaderMap::with_capacity(2);
    match outcome {
        Ok(()) => drop(trailers.insert("grpc-status", HeaderValue::from_static("0"))),
        Err(status) => status.add_to(&mut trailers),
    }
    body.send_trailers(trailers).is_ok()
}

fn put(message: &impl Message, buffer: &mut BytesMut) {
    let length = message.encoded_len();
    buffer.reserve(PREFIX_LEN + length);
    buffer.put_u8(0);
    buffer.put_u32(length as u32);
    message.encode_raw(buffer);
}
