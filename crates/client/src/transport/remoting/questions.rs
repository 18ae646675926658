//! Requests of brokers to this client.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use redstart_wire::remoting::{Command, StoredMessage, code, read_properties};
use tokio::sync::{mpsc, watch};

use super::convert::received;
use crate::{
    Question, Received,
    transport::{Check, Replies, Role, Transaction},
};

/// Requests that may wait to be answered; further ones get no answer.
pub(super) const QUESTIONS_MAX: usize = 1024;

/// The parts of the application that brokers ask.
#[derive(Debug, Clone, Default)]
pub(super) struct Answering {
    /// Counts up whenever the members of a group have changed.
    pub membership: Arc<watch::Sender<u64>>,
    pub members: Arc<Mutex<HashMap<u64, Role>>>,
    pub replies: Arc<Replies>,
}

/// Answers until the client is gone.
pub(super) async fn answer_all(answering: Answering, mut asked: mpsc::Receiver<Question>) {
    while let Some(question) = asked.recv().await {
        match question.command.code {
            code::NOTIFY_CONSUMER_IDS_CHANGED => answering.membership.send_modify(|changes| *changes += 1),
            code::CHECK_TRANSACTION_STATE => {
                if answering.check(&question).is_none() {
                    tracing::warn!(address = question.address, "a check of a transaction was not answered");
                }
            }
            code::PUSH_REPLY_MESSAGE_TO_CLIENT => {
                let answer = match reply(&question) {
                    Some((correlation, message)) => {
                        answering.replies.put(&correlation, message);
                        question.command.answer(code::SUCCESS, None)
                    }
                    None => question.command.answer(code::SYSTEM_ERROR, Some("no reply".to_owned())),
                };
                question.answer(&answer);
            }
            other => {
                let why = Some("not offered by this client".to_owned());
                tracing::debug!(request = other, "a broker asked for what this client does not offer");
                question.answer(&question.command.answer(code::REQUEST_CODE_NOT_SUPPORTED, why));
            }
        }
    }
}

impl Answering {
    /// Hands a check to the producer of its group. `None` if there is none, or it has too many: the broker asks again.
    fn check(&self, question: &Question) -> Option<()> {
        let Question { command, address, .. } = question;
        let stored = StoredMessage::decode(&mut command.body.clone())?;
        let properties = read_properties(&stored.properties);
        let group = properties.iter().find(|(name, _)| *name == "PGROUP").map(|(_, value)| *value)?;
        let checks = {
            let members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
            members.values().find_map(|role| match role {
                Role::Producer { group: known, checks: Some(checks), .. } if known == group => {
                    Some(checks.clone())
                }
                _ => None,
            })?
        };
        let text = |name: &str| command.field(name).unwrap_or_default().to_owned();
        let address: Arc<str> = address.as_str().into();
        let broker = text("bname");
        let message = received(&address, &broker, &stored);
        let transaction = Transaction {
            address,
            topic: message.topic().to_owned(),
            broker,
            message_id: message.id().to_owned(),
            id: text("transactionId"),
            half_offset: command.number("tranStateTableOffset").ok()?,
            physical_offset: command.number("commitLogOffset").ok()?,
        };
        checks.try_send(Check { message, transaction }).ok()
    }
}

/// The answer to a request, and what says to which.
fn reply(question: &Question) -> Option<(String, Received)> {
    let Question { command, address, .. } = question;
    let text = |name: &str| command.field(name);
    let stored = StoredMessage {
        topic: text("topic")?.into(),
        queue_id: command.number("queueId").ok()?,
        flag: command.number("flag").unwrap_or(0),
        queue_offset: 0,
        physical_offset: 0,
        system_flag: command.number("sysFlag").ok()?,
        born_at: command.number("bornTimestamp").ok()?,
        born_host: host(command, "bornHost")?,
        stored_at: command.number("storeTimestamp").ok()?,
        store_host: host(command, "storeHost")?,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        properties: text("properties").unwrap_or_default().into(),
        body: command.body.clone(),
    };
    let properties = read_properties(&stored.properties);
    let correlation = properties.iter().find(|(name, _)| *name == "CORRELATION_ID")?.1.to_owned();
    let mut message = received(&address.as_str().into(), "", &stored);
    message.reply_to = None;
    Some((correlation, message))
}

/// `ip:port`; Java writes a `/` before it.
fn host(command: &Command, field: &str) -> Option<std::net::SocketAddr> {
    command.field(field)?.trim_start_matches('/').parse().ok()
}
