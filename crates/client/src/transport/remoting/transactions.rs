//! The end of transactions, and the answers to requests.

use std::sync::Arc;

use bytes::Bytes;
use redstart_wire::remoting::{Command, code, flag, put_properties, read_offset_message_id};

use super::{Session, TEMPLATE_QUEUES, TEMPLATE_TOPIC};
use crate::{
    CallError,
    message_id::{self, now_ms},
    received::ReplyTo,
    route::Place,
    transport::{Outgoing, Transaction, Verdict},
};

impl Session {
    /// The transaction that a half message has begun, by the broker's answer to it.
    pub(super) fn transaction(to: &Place, message: &Outgoing, answer: &Command) -> Option<Transaction> {
        let (_, physical_offset) = read_offset_message_id(answer.field("msgId")?)?;
        Some(Transaction {
            address: to.address.clone(),
            topic: to.queue.topic.clone(),
            broker: to.queue.broker.clone(),
            message_id: message.id.clone(),
            id: answer.field("transactionId").unwrap_or(&message.id).to_owned(),
            half_offset: answer.number("queueOffset").ok()?,
            physical_offset,
        })
    }

    pub async fn end_transaction(
        &self,
        transaction: &Transaction,
        verdict: Verdict,
        checked: bool,
    ) -> Result<(), CallError> {
        let end = match verdict {
            Verdict::Commit => flag::TRANSACTION_COMMIT,
            Verdict::Rollback => flag::TRANSACTION_ROLLBACK,
        };
        let request = Command::request(code::END_TRANSACTION)
            .with_field("topic", &transaction.topic)
            .with_field("producerGroup", self.role.group())
            .with_field("tranStateTableOffset", transaction.half_offset)
            .with_field("commitLogOffset", transaction.physical_offset)
            .with_field("commitOrRollback", end)
            .with_field("fromTransactionCheck", checked)
            .with_field("msgId", &transaction.message_id)
            .with_field("transactionId", &transaction.id)
            .with_field("bname", &transaction.broker);
        self.net.call(&transaction.address, request, self.net.settings.timeout).await.map(drop)
    }

    /// Sends the answer to the broker that has the request, which hands it to the client that asked.
    pub async fn reply(&self, to: &ReplyTo, body: Bytes) -> Result<(), CallError> {
        let mut properties = String::with_capacity(256);
        let known = [
            ("UNIQ_KEY", Some(message_id::remoting())),
            ("WAIT", Some("true".to_owned())),
            ("MSG_TYPE", Some("reply".to_owned())),
            ("CORRELATION_ID", Some(to.correlation.clone())),
            ("REPLY_TO_CLIENT", Some(to.client.clone())),
            ("TTL", to.ttl.clone()),
        ];
        for (name, value) in known.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))) {
            put_properties([(name, value)], &mut properties);
        }
        let request = Command::request(code::SEND_REPLY_MESSAGE_V2)
            .and("a", self.role.group())
            .and("b", format!("{}_REPLY_TOPIC", to.cluster))
            .and("c", TEMPLATE_TOPIC)
            .and("d", TEMPLATE_QUEUES)
            .and("e", 0)
            .and("f", 0)
            .and("g", now_ms())
            .and("h", 0)
            .and("i", properties)
            .and("j", 0)
            .and("k", false)
            .and("m", false)
            .and("n", &to.broker);
        let address: &Arc<str> = &to.address;
        self.net.call(address, Command { body, ..request }, self.net.settings.timeout).await.map(drop)
    }
}
