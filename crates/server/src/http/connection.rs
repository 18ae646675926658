//! One HTTP connection: its requests one after the other, each within its limits.

use std::{
    convert::Infallible,
    future::Future as _,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::watch,
    time::Sleep,
};

use super::{
    Limits, Router,
    answer::{Content, Held},
    call::Caller,
};
use crate::{
    access::Access,
    byte_budget::{Account, ByteBudget},
    listen::{Accepted, Activity},
    stream::Stream,
    tls::Protocol,
    transport::Transport,
};

/// How long an answer may take that is being written when the broker stops.
const STOP_TIME_MAX: Duration = Duration::from_secs(1);
/// Bytes of requests and answers of one connection, which has one request at a time.
const CONNECTION_BYTES_MAX: usize = 64 << 20;

/// What every connection is served with.
pub(super) struct Served {
    pub router: Arc<Router>,
    pub access: Access,
    pub limits: Limits,
    pub transport: Transport,
    pub bytes: ByteBudget,
}

/// Serves one connection.
pub(super) async fn serve(
    stream: Accepted,
    served: Arc<Served>,
    activity: Arc<Activity>,
    mut stopped: watch::Receiver<bool>,
) {
    let opening = served.transport.open(stream, Protocol::Http);
    let opened = tokio::select! {
        opened = tokio::time::timeout(served.limits.idle_timeout, opening) => opened,
        _ = stopped.changed() => return,
    };
    match opened {
        Ok(Ok(stream)) => serve_open(stream, served, activity, stopped).await,
        Ok(Err(error)) => tracing::debug!(%error, "an HTTP connection did not open"),
        Err(_) => tracing::debug!("an HTTP connection did not open in time"),
    }
}

async fn serve_open(
    stream: Stream,
    served: Arc<Served>,
    activity: Arc<Activity>,
    mut stopped: watch::Receiver<bool>,
) {
    let account = served.bytes.account(CONNECTION_BYTES_MAX);
    let caller = Arc::new(Caller {
        remote: stream.remote,
        account: account.clone(),
        certified_user: stream.certified_user(),
        lacks_certificate: served.transport.requires_certificate() && stream.certificate.is_none(),
    });
    let limits = served.limits.clone();
    let request = Arc::new(RequestState {
        activity,
        answering: AtomicBool::new(false),
        unflushed: Mutex::default(),
        account,
    });
    let state = request.clone();
    let service = service_fn(move |request| {
        let (served, caller, state) = (served.clone(), caller.clone(), state.clone());
        async move {
            state.begin();
            let answer = served.router.answer(request, &served.access, &caller, &served.limits).await;
            state.answering.store(false, Ordering::Relaxed);
            Ok::<_, Infallible>(answer.map(|content| Sending::new(content, state)))
        }
    });
    let io = TokioIo::new(TimedStream { stream, timeout: limits.write_timeout, blocked: None, request });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // The timeout runs from the end of one request to the end of the next one's headers.
        .header_read_timeout(limits.idle_timeout)
        .max_headers(limits.headers_max)
        .max_buf_size(limits.header_bytes_max)
        .serve_connection(io, service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        _ = stopped.changed() => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(STOP_TIME_MAX, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an HTTP connection ended");
    }
}

/// Whether a request is under way: from its headers until its answer is written.
struct RequestState {
    activity: Arc<Activity>,
    /// The answer is being computed.
    answering: AtomicBool,
    /// What answers hold that are written and may not have reached the socket. Dropped with the connection, it gives deliveries back.
    unflushed: Mutex<Vec<Held>>,
    account: Arc<Account>,
}

impl RequestState {
    fn begin(&self) {
        self.answering.store(true, Ordering::Relaxed);
        self.activity.requested();
        self.activity.set_busy(true);
    }

    /// The socket has taken all that was written.
    fn flushed(&self) {
        let arrived = std::mem::take(&mut *self.unflushed.lock());
        arrived.into_iter().for_each(Held::arrived);
        if !self.answering.load(Ordering::Relaxed) {
            self.activity.set_busy(false);
            // A connection without a request holds nothing.
            self.account.trim();
        }
    }
}

/// An answer on its way. Once its bytes are with hyper, what it holds is kept until they are written: hyper flushes the stream only
/// when it has nothing left to write.
struct Sending {
    bytes: Option<Bytes>,
    held: Option<Held>,
    request: Arc<RequestState>,
}

impl Sending {
    fn new(content: Content, request: Arc<RequestState>) -> Sending {
        let bytes = Some(content.bytes).filter(|bytes| !bytes.is_empty());
        Sending { bytes, held: content.held, request }
    }
}

impl Body for Sending {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(bytes) = self.bytes.take() else { return Poll::Ready(None) };
        let held = self.held.take();
        self.request.unflushed.lock().extend(held);
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

/// A stream with a timeout for writes: a write fails when the peer reads nothing for that long.
struct TimedStream {
    stream: Stream,
    timeout: Duration,
    /// Runs while nothing can be written.
    blocked: Option<Pin<Box<Sleep>>>,
    request: Arc<RequestState>,
}

impl TimedStream {
    /// Starts or stops the timeout by the result of a write.
    fn timed<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.blocked = None;
            return written;
        }
        let timeout = self.timeout;
        let blocked = self.blocked.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        blocked.as_mut().poll(cx).map(|()| {
            let why = format!("the peer has read nothing for {} ms", timeout.as_millis());
            Err(io::Error::new(io::ErrorKind::TimedOut, why))
        })
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.timed(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if let Poll::Ready(Ok(())) = flushed {
            self.request.flushed();
        }
        self.timed(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.timed(cx, ended)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.timed(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
