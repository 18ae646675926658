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

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::watch,
    time::Sleep,
};

use super::{Limits, Router};
use crate::listen::Activity;

/// An answer that is being written when the broker stops gets this long.
const GRACE: Duration = Duration::from_secs(1);

/// Serves one connection: requests one after the other, each within its bounds.
pub(super) async fn serve(
    stream: TcpStream,
    router: Arc<Router>,
    limits: Arc<Limits>,
    activity: Arc<Activity>,
    mut stopped: watch::Receiver<bool>,
) {
    let body_bytes_max = limits.body_bytes_max;
    let work = Arc::new(Work { activity, answering: AtomicBool::new(false) });
    let asked = work.clone();
    let service = service_fn(move |request| {
        let (router, work) = (router.clone(), asked.clone());
        async move {
            work.begin();
            let answer = router.answer(request, body_bytes_max).await;
            work.answering.store(false, Ordering::Relaxed);
            Ok::<_, Infallible>(answer)
        }
    });
    let io = TokioIo::new(Paced { stream, time: limits.write_timeout, stuck: None, work });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // It runs from the end of one request to the end of the next one's headers.
        .header_read_timeout(limits.idle_timeout)
        .max_headers(limits.headers_max)
        .max_buf_size(limits.header_bytes_max)
        .serve_connection(io, service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        _ = stopped.changed() => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(GRACE, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an HTTP connection ended");
    }
}

/// A request is under way from its headers until its answer is written.
struct Work {
    activity: Arc<Activity>,
    /// The answer is being made.
    answering: AtomicBool,
}

impl Work {
    fn begin(&self) {
        self.answering.store(true, Ordering::Relaxed);
        self.activity.requested();
        self.activity.set_busy(true);
    }

    fn flushed(&self) {
        if !self.answering.load(Ordering::Relaxed) {
            self.activity.set_busy(false);
        }
    }
}

/// A stream whose peer has to read what it is sent.
struct Paced {
    stream: TcpStream,
    time: Duration,
    /// Runs while nothing can be written.
    stuck: Option<Pin<Box<Sleep>>>,
    work: Arc<Work>,
}

impl Paced {
    fn wrote<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stuck = None;
            return written;
        }
        let time = self.time;
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(tokio::time::sleep(time)));
        stuck.as_mut().poll(cx).map(|()| {
            let why = format!("the peer has read nothing for {} ms", time.as_millis());
            Err(io::Error::new(io::ErrorKind::TimedOut, why))
        })
    }
}

impl AsyncRead for Paced {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Paced {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.wrote(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if let Poll::Ready(Ok(())) = flushed {
            self.work.flushed();
        }
        self.wrote(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.wrote(cx, ended)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.wrote(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
