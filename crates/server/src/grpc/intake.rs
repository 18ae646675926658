//! Requests that are on their way in. A message is held in memory until its last byte has come, so the bytes of
//! unfinished ones are counted, for each connection and for all, and they must be finished in time.

use std::{
    future::Future as _,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::Sleep;
use tonic::{
    Status,
    body::Body,
    codegen::{Body as HttpBody, Service, http},
    server::NamedService,
};

use super::io::Peer;

/// Bytes of unfinished requests of one connection, and of all.
const CONNECTION_BYTES_MAX: usize = 256 << 20;
const ALL_BYTES_MAX: usize = 1 << 30;
/// The path of the one call on which a client may be silent for as long as it likes.
const TELEMETRY: &str = "/apache.rocketmq.v2.MessagingService/Telemetry";

/// What the unfinished requests of a connection take.
#[derive(Debug)]
pub(super) struct Intake {
    connection: AtomicUsize,
    all: Arc<AtomicUsize>,
}

impl Intake {
    pub fn new(all: Arc<AtomicUsize>) -> Intake {
        Intake { connection: AtomicUsize::new(0), all }
    }

    fn take(&self, bytes: usize) -> Result<(), Status> {
        let connection = self.connection.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let all = self.all.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let full = |what, used, limit| {
            Status::resource_exhausted(format!(
                "unfinished requests of {what} take {used} bytes, the limit is {limit}"
            ))
        };
        if connection > CONNECTION_BYTES_MAX {
            return Err(full("this connection", connection, CONNECTION_BYTES_MAX));
        }
        if all > ALL_BYTES_MAX {
            return Err(full("all connections", all, ALL_BYTES_MAX));
        }
        Ok(())
    }

    fn give_back(&self, bytes: usize) {
        self.connection.fetch_sub(bytes, Ordering::Relaxed);
        self.all.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Counts what comes in before it gets to the service.
#[derive(Debug, Clone)]
pub(super) struct Counted<S> {
    pub service: S,
    /// How long a request may take to come in.
    pub time: Duration,
}

impl<S: NamedService> NamedService for Counted<S> {
    const NAME: &'static str = S::NAME;
}

impl<S: Service<http::Request<Body>>> Service<http::Request<Body>> for Counted<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> S::Future {
        let (parts, body) = request.into_parts();
        let Some(peer) = parts.extensions.get::<Peer>() else {
            return self.service.call(http::Request::from_parts(parts, body));
        };
        let counted = CountedBody {
            body,
            intake: peer.intake.clone(),
            message: Framing::default(),
            taken: 0,
            time: self.time,
            patient: parts.uri.path() == TELEMETRY,
            deadline: None,
        };
        self.service.call(http::Request::from_parts(parts, Body::new(counted)))
    }
}

struct CountedBody {
    body: Body,
    intake: Arc<Intake>,
    message: Framing,
    taken: usize,
    time: Duration,
    patient: bool,
    /// Runs while a message is awaited.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl CountedBody {
    fn count(&mut self, data: &[u8]) -> Result<(), Status> {
        let unfinished = self.message.follow(data);
        if unfinished < self.taken {
            self.intake.give_back(self.taken - unfinished);
            self.taken = unfinished;
            return Ok(());
        }
        let more = unfinished - self.taken;
        self.taken = unfinished;
        self.intake.take(more)
    }

    /// Nothing has come yet: whether there is still time.
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<Status> {
        if self.patient && self.taken == 0 {
            self.deadline = None;
            return Poll::Pending;
        }
        let time = self.time;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(time)));
        deadline.as_mut().poll(cx).map(|()| {
            Status::deadline_exceeded(format!(
                "the request did not come in whole within {} ms",
                time.as_millis()
            ))
        })
    }
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        let frame = match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(frame) => frame,
            Poll::Pending => return this.wait(cx).map(|status| Some(Err(status))),
        };
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
            && let Err(status) = this.count(data)
        {
            return Poll::Ready(Some(Err(status)));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

impl Drop for CountedBody {
    fn drop(&mut self) {
        self.intake.give_back(self.taken);
    }
}

/// Where the messages of a gRPC stream end: compressed u8, length u32 big-endian, then `length` bytes, again and again.
#[derive(Debug, Default)]
struct Framing {
    header: [u8; 5],
    header_len: usize,
    /// Of the current message, still to come and come already.
    left: usize,
    come: usize,
}

impl Framing {
    /// Takes the next bytes and says how many belong to a message that is not finished.
    fn follow(&mut self, mut bytes: &[u8]) -> usize {
        while !bytes.is_empty() {
            if self.left > 0 {
                let taken = self.left.min(bytes.len());
                self.left -= taken;
                self.come = if self.left == 0 { 0 } else { self.come + taken };
                bytes = &bytes[taken..];
                continue;
            }
            let taken = (self.header.len() - self.header_len).min(bytes.len());
            self.header[self.header_len..self.header_len + taken].copy_from_slice(&bytes[..taken]);
            self.header_len += taken;
            bytes = &bytes[taken..];
            if self.header_len == self.header.len() {
                let [_, length @ ..] = self.header;
                self.left = u32::from_be_bytes(length) as usize;
                self.header_len = 0;
            }
        }
        self.come + self.header_len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unfinished_messages_count_wherever_the_bytes_are_cut() {
        let mut stream = Vec::new();
        for len in [0_u32, 1, 300, 5, 0, 70_000] {
            stream.push(0);
            stream.extend(len.to_be_bytes());
            stream.extend(vec![7; len as usize]);
        }
        for step in [1, 3, 5, 6, 64, 4096] {
            let mut framing = Framing::default();
            let mut most = 0;
            for bytes in stream.chunks(step) {
                most = most.max(framing.follow(bytes));
            }
            assert_eq!(framing.follow(&[]), 0, "all are finished");
            assert!((60_000..70_005).contains(&most), "{most} in steps of {step}");
        }
    }

    #[test]
    fn a_connection_past_its_bound_is_refused_and_what_is_given_back_counts_no_more() {
        let intake = Intake::new(Arc::default());
        assert!(intake.take(CONNECTION_BYTES_MAX).is_ok());
        assert!(intake.take(1).is_err());
        intake.give_back(CONNECTION_BYTES_MAX + 1);
        assert!(intake.take(1).is_ok());
        assert_eq!(intake.all.load(Ordering::Relaxed), 1);
    }
}
