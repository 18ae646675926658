//! The caller's end of a request.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::sync::oneshot;

use super::Unavailable;

/// The answer to a request, which may not be there yet: await it, or [`Reply::wait`] for it on a thread that may block.
#[derive(Debug)]
#[must_use = "the request runs either way, but its outcome is lost"]
pub struct Reply<T>(State<T>);

#[derive(Debug)]
enum State<T> {
    /// `None` once the answer was taken.
    Answered(Option<T>),
    Asked(oneshot::Receiver<T>),
}

impl<T> Reply<T> {
    pub(super) fn asked(answer: oneshot::Receiver<T>) -> Reply<T> {
        Reply(State::Asked(answer))
    }

    pub(super) fn answered(answer: T) -> Reply<T> {
        Reply(State::Answered(Some(answer)))
    }

    pub fn wait(self) -> Result<T, Unavailable> {
        match self.0 {
            State::Answered(answer) => answer.ok_or(Unavailable::Stopped),
            State::Asked(answer) => answer.blocking_recv().map_err(|_| Unavailable::Stopped),
        }
    }

    /// Stops waiting. Returns the answer if it has come and was not taken; no answer can come after this.
    pub(crate) fn abandon(&mut self) -> Option<T> {
        match &mut self.0 {
            State::Answered(answer) => answer.take(),
            State::Asked(answer) => {
                answer.close();
                answer.try_recv().ok()
            }
        }
    }
}

// No field is pinned.
impl<T> Unpin for Reply<T> {}

impl<T> Future for Reply<T> {
    type Output = Result<T, Unavailable>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            State::Answered(answer) => Poll::Ready(answer.take().ok_or(Unavailable::Stopped)),
            State::Asked(answer) => Pin::new(answer).poll(context).map_err(|_| Unavailable::Stopped),
        }
    }
}
