//! One HTTP/2 connection and its calls, in one task: a wake-up serves all calls that are ready, and their answers are written
//! with one system call.

use std::{
    future::poll_fn,
    sync::{Arc, atomic::Ordering},
    task::Poll,
    time::Instant,
};

use futures_util::{FutureExt as _, StreamExt as _, future::Either, stream::FuturesUnordered};
use h2::{Ping, PingPong, server};
use tokio::sync::watch;

use super::{
    Limits,
    answer::Chunk,
    call,
    connection::{Connection, Peer, open},
    service::Service,
};
use crate::{
    byte_budget::Account,
    listen::{Accepted, Activity},
    stall_detector::StallDetector,
};

/// Calls of one connection at a time. Clients keep one long poll per queue and one stream.
const STREAMS_MAX: u32 = 1024;
const HEADER_BYTES_MAX: u32 = 32 << 10;
pub(super) const WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 8 << 20;
/// Calls that were cancelled before they were begun; past it the connection is ended.
const RESETS_MAX: usize = 20;

/// How a future of the connection's task ends.
enum Event {
    Answered,
    /// The server goes down.
    Stopping,
    /// The peer does not answer pings, or does not read.
    Dead,
}

/// Does the handshakes, and serves the connection until its peer leaves, or the server stops and the calls under way have ended.
pub(super) async fn serve(
    stream: Accepted,
    service: Arc<Service>,
    activity: Arc<Activity>,
    account: Arc<Account>,
) {
    let limits = &service.config.limits;
    let opening =
        tokio::time::timeout(limits.handshake_timeout, open(stream, &service.config.transport, account));
    let mut stopped = service.stopped.clone();
    let opened = tokio::select! {
        opened = opening => opened,
        // The sender is gone only when the server is.
        _ = stopped.wait_for(|stopped| *stopped) => return,
    };
    match opened {
        Ok(Ok(connection)) => serve_open(connection, &service, &activity).await,
        Ok(Err(error)) => tracing::debug!(%error, "a gRPC connection did not open"),
        Err(_) => tracing::debug!("a gRPC connection did not open in time"),
    }
}

async fn serve_open(connection: Connection, service: &Arc<Service>, activity: &Activity) {
    let peer = connection.peer().clone();
    let limits = &service.config.limits;
    let handshake = server::Builder::new()
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX)
        .initial_window_size(WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_pending_accept_reset_streams(RESETS_MAX)
        .handshake::<_, Chunk>(connection);
    let Ok(Ok(mut http)) = tokio::time::timeout(limits.handshake_timeout, handshake).await else { return };

    // `FuturesUnordered` polls only the futures that were woken.
    let mut running = FuturesUnordered::new();
    running.push(Either::Right(stopping(service.stopped.clone()).boxed()));
    if let Some(pings) = http.ping_pong() {
        running.push(Either::Right(keep_alive(pings, limits).boxed()));
    }
    running.push(Either::Right(watch_writes(peer.clone(), limits).boxed()));
    let beside_calls = running.len();
    poll_fn(|cx| {
        loop {
            let mut begun = false;
            // Reads requests that have come, and writes answers of the round before.
            while let Poll::Ready(accepted) = http.poll_accept(cx) {
                let Some(Ok((request, respond))) = accepted else { return Poll::Ready(()) };
                let call = call::serve(service.clone(), request, respond, peer.clone());
                running.push(Either::Left(call.map(|()| Event::Answered)));
                activity.requested();
                begun = true;
            }
            peer.unflushed.confirm_written();
            while let Poll::Ready(Some(event)) = running.poll_next_unpin(cx) {
                match event {
                    Event::Answered => {}
                    Event::Stopping => http.graceful_shutdown(),
                    Event::Dead => return Poll::Ready(()),
                }
                begun = true;
            }
            if !begun {
                let waiting = beside_calls + peer.telemetry.load(Ordering::Relaxed);
                activity.set_busy(running.len() > waiting);
                return Poll::Pending;
            }
        }
    })
    .await;
}

async fn stopping(mut stopped: watch::Receiver<bool>) -> Event {
    // The sender is gone only when the server is.
    drop(stopped.wait_for(|stopped| *stopped).await);
    Event::Stopping
}

async fn keep_alive(mut pings: PingPong, limits: &Limits) -> Event {
    let (interval, timeout) = (limits.ping_interval, limits.ping_timeout);
    loop {
        tokio::time::sleep(interval).await;
        if pings.send_ping(Ping::opaque()).is_err() {
            return Event::Dead;
        }
        match tokio::time::timeout(timeout, poll_fn(|cx| pings.poll_pong(cx))).await {
            Ok(Ok(_)) => {}
            Ok(Err(_)) | Err(_) => return Event::Dead,
        }
    }
}

/// Ends when the peer has stopped reading from its socket. Calls whose answers wait for the peer's window end by themselves.
async fn watch_writes(peer: Arc<Peer>, limits: &Limits) -> Event {
    let mut stall = StallDetector::new(Instant::now());
    let mut before = 0;
    loop {
        tokio::time::sleep(limits.stuck_timeout / 2).await;
        peer.account.trim();
        let (written, now) = (peer.written.load(Ordering::Relaxed), Instant::now());
        if peer.unflushed.is_blocked() {
            stall.peer_read((written - before) as usize, now);
        } else {
            stall.reset(now);
        }
        before = written;
        if stall.is_stuck(now, limits.stuck_timeout, peer.account.budget().is_scarce()) {
            return Event::Dead;
        }
    }
}
