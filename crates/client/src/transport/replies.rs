//! Requests that wait for their answers.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::oneshot;

use crate::Received;

/// The requests of a client, by the text that their answers carry.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    waiting: Mutex<HashMap<String, oneshot::Sender<Received>>>,
    answered: AtomicU64,
    late: AtomicU64,
}

/// A request that waits. It is forgotten when this is dropped.
#[derive(Debug)]
pub(crate) struct Expected {
    replies: Arc<Replies>,
    correlation: String,
    answer: Option<oneshot::Receiver<Received>>,
}

impl Replies {
    fn waiting(&self) -> MutexGuard<'_, HashMap<String, oneshot::Sender<Received>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn expect(self: &Arc<Replies>, correlation: &str) -> Expected {
        let (sender, answer) = oneshot::channel();
        self.waiting().insert(correlation.to_owned(), sender);
        Expected { replies: self.clone(), correlation: correlation.to_owned(), answer: Some(answer) }
    }

    /// An answer came. One that nobody waits for is counted and dropped.
    pub fn put(&self, correlation: &str, answer: Received) {
        let waiting = self.waiting().remove(correlation);
        let taken = waiting.is_some_and(|waiting| waiting.send(answer).is_ok());
        let counter = if taken { &self.answered } else { &self.late };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Answers that were waited for, and those that were not.
    pub fn counts(&self) -> (u64, u64) {
        (self.answered.load(Ordering::Relaxed), self.late.load(Ordering::Relaxed))
    }
}

impl Expected {
    pub async fn wait(mut self) -> Option<Received> {
        match self.answer.take() {
            Some(answer) => answer.await.ok(),
            None => None,
        }
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.replies.waiting().remove(&self.correlation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::received::tests::message;

    #[tokio::test]
    async fn an_answer_finds_its_request_and_a_late_one_is_counted() {
        let replies = Arc::new(Replies::default());
        let (one, two) = (replies.expect("1"), replies.expect("2"));
        replies.put("2", message("two"));
        assert_eq!(two.wait().await.expect("an answer").id(), "two");
        drop(one);
        replies.put("1", message("one"));
        replies.put("3", message("three"));
        assert_eq!(replies.counts(), (1, 2));
        assert!(replies.waiting().is_empty(), "nothing is kept");
    }
}
