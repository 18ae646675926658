//! Answers with message bodies. One is in memory for each until the client takes it, so only so many of a connection
//! are written at a time: a client that does not read holds up itself.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use tokio::sync::OwnedSemaphorePermit;
use tokio_stream::Stream;

use super::{io::Peer, service::Answers};

struct Held<T> {
    answers: Answers<T>,
    _place: Option<OwnedSemaphorePermit>,
}

impl<T> Stream for Held<T> {
    type Item = Result<T, tonic::Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.answers.as_mut().poll_next(cx)
    }
}

/// Waits for a place among the answers of the connection; it is free again when the answer has been written.
pub(super) async fn in_turn<T: 'static>(peer: Option<Peer>, answers: Answers<T>) -> Answers<T> {
    // Never closed.
    let place = match peer {
        Some(peer) => peer.answers.acquire_owned().await.ok(),
        None => None,
    };
    Box::pin(Held { answers, _place: place })
}
