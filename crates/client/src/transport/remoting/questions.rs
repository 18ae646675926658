//! Requests of brokers to this client.

use std::sync::Arc;

use redstart_wire::remoting::code;
use tokio::sync::{mpsc, watch};

use crate::Question;

/// Requests that may wait to be answered; further ones get no answer.
pub(super) const QUESTIONS_MAX: usize = 1024;

/// The parts of the application that brokers ask.
#[derive(Debug, Clone, Default)]
pub(super) struct Answering {
    /// Counts up whenever the members of a group have changed.
    pub membership: Arc<watch::Sender<u64>>,
}

/// Answers until the client is gone.
pub(super) async fn answer_all(answering: Answering, mut asked: mpsc::Receiver<Question>) {
    while let Some(question) = asked.recv().await {
        match question.command.code {
            code::NOTIFY_CONSUMER_IDS_CHANGED => answering.membership.send_modify(|changes| *changes += 1),
            other => {
                let why = Some("not offered by this client".to_owned());
                tracing::debug!(request = other, "a broker asked for what this client does not offer");
                question.answer(&question.command.answer(code::REQUEST_CODE_NOT_SUPPORTED, why));
            }
        }
    }
}
