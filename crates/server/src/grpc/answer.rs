//! What goes back to the client: one message or many, and how the call went.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::Stream;
use h2::{SendStream, server::SendResponse};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header::CONTENT_TYPE};
use prost::Message;
use tonic::{Code, Status};

use super::{request::PREFIX_LEN, timing::Timing};

/// Messages of a stream are gathered up to this before they are written.
const CHUNK_BYTES: usize = 32 << 10;

/// The answer to a call. Errors of sending it mean that the peer has gone, and end it silently.
#[derive(Debug)]
pub(super) struct Answer {
    respond: SendResponse<Bytes>,
    timing: Timing,
}

impl Answer {
    pub fn new(respond: SendResponse<Bytes>, timing: Timing) -> Answer {
        Answer { respond, timing }
    }

    fn begin(&mut self) -> Result<SendStream<Bytes>, h2::Error> {
        self.timing.ended(Code::Ok);
        self.respond.send_response(head(), false)
    }

    pub fn message(&mut self, message: &impl Message) {
        let Ok(mut body) = self.begin() else { return };
        let mut buffer = BytesMut::with_capacity(PREFIX_LEN + message.encoded_len());
        put(message, &mut buffer);
        if body.send_data(buffer.freeze(), false).is_ok() {
            end(&mut body, Ok(()));
        }
    }

    /// Ends the call with nothing but its status.
    pub fn refuse(&mut self, status: &Status) {
        self.timing.ended(status.code());
        let mut response = head();
        if status.add_header(response.headers_mut()).is_ok() {
            drop(self.respond.send_response(response, true));
        }
    }

    /// The peer speaks HTTP/2 but not gRPC.
    pub fn refuse_content_type(&mut self) {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        drop(self.respond.send_response(response, true));
    }

    /// The outcome of `future`, unless the client cancels the call before.
    pub async fn unless_reset<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
            Poll::Pending => self.respond.poll_reset(cx).map(|_| None),
        })
        .await
    }

    /// Writes messages as they come and as the client takes them. Says whether HTTP/2 has accepted all of the answer, its
    /// end included, under the client's flow-control window; `false` when the client has cancelled the call or is gone.
    pub async fn stream<M: Message>(&mut self, messages: impl Stream<Item = Result<M, Status>>) -> bool {
        let Ok(mut body) = self.begin() else { return false };
        let mut messages = pin!(messages);
        let mut buffer = BytesMut::new();
        loop {
            let step = poll_fn(|cx| {
                if let Poll::Ready(next) = messages.as_mut().poll_next(cx) {
                    return Poll::Ready(Step::Next(next));
                }
                if !buffer.is_empty() {
                    return Poll::Ready(Step::Write);
                }
                body.poll_reset(cx).map(|_| Step::Gone)
            });
            let (write, ended) = match step.await {
                Step::Next(Some(Ok(message))) => {
                    put(&message, &mut buffer);
                    (buffer.len() >= CHUNK_BYTES, None)
                }
                Step::Next(Some(Err(status))) => (true, Some(Err(status))),
                Step::Next(None) => (true, Some(Ok(()))),
                Step::Write => (true, None),
                Step::Gone => return false,
            };
            if write && write_all(&mut body, &mut buffer).await.is_err() {
                return false;
            }
            if let Some(outcome) = ended {
                return end(&mut body, outcome);
            }
        }
    }
}

enum Step<M> {
    Next(Option<Result<M, Status>>),
    /// There is nothing more at the moment.
    Write,
    Gone,
}

fn head() -> Response<()> {
    let mut response = Response::new(());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

fn end(body: &mut SendStream<Bytes>, outcome: Result<(), Status>) -> bool {
    let mut trailers = HeaderMap::with_capacity(2);
    let told = match outcome {
        Ok(()) => {
            trailers.insert("grpc-status", HeaderValue::from_static("0"));
            Ok(())
        }
        Err(status) => status.add_header(&mut trailers),
    };
    told.is_ok() && body.send_trailers(trailers).is_ok()
}

fn put(message: &impl Message, buffer: &mut BytesMut) {
    let length = message.encoded_len();
    buffer.reserve(PREFIX_LEN + length);
    buffer.put_u8(0);
    buffer.put_u32(length as u32);
    message.encode_raw(buffer);
}

/// Writes as the peer's window opens.
async fn write_all(body: &mut SendStream<Bytes>, buffer: &mut BytesMut) -> Result<(), h2::Error> {
    while !buffer.is_empty() {
        body.reserve_capacity(buffer.len());
        let Some(room) = poll_fn(|cx| body.poll_capacity(cx)).await.transpose()? else {
            return Err(h2::Reason::CANCEL.into());
        };
        let data = buffer.split_to(room.min(buffer.len())).freeze();
        body.send_data(data, false)?;
    }
    Ok(())
}
