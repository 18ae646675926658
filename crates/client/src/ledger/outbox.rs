//! Messages that are written in a transaction of a database, and sent after it has committed.

use std::{collections::HashMap, future::Future, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use tokio::task::{JoinHandle, JoinSet};

use super::Ledger;
use crate::{
    DeliveryTime, InvalidMessage, Message, Producer,
    message::{BODY_BYTES_MAX, DEDUP_KEY},
    message_id::{now_ms, unique_text},
    received::time_of_ms,
};

/// A message that waits in the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxRow {
    /// Its number; lower ones are sent first.
    pub id: i64,
    /// The message, as [`encode_message`] writes it.
    pub message: String,
}

/// A ledger that keeps messages until they are sent.
pub trait Outbox: Ledger {
    /// Writes a message in a transaction: it is sent once the transaction has committed.
    fn enqueue(
        &self,
        tx: &mut Self::Tx,
        message: &Message,
    ) -> impl Future<Output = Result<(), OutboxError<Self::Error>>> + Send;

    /// Takes the lock that only one relay has, until the transaction ends; `false` if another has it.
    fn lock_relay(&self, tx: &mut Self::Tx) -> impl Future<Output = Result<bool, Self::Error>> + Send;

    /// The oldest messages.
    fn oldest(
        &self,
        tx: &mut Self::Tx,
        max: u32,
    ) -> impl Future<Output = Result<Vec<OutboxRow>, Self::Error>> + Send;

    /// Removes messages that are sent.
    fn remove(&self, tx: &mut Self::Tx, ids: &[i64]) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// Why a message was not written to the outbox.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutboxError<L> {
    /// The message could never be sent.
    #[error(transparent)]
    Invalid(#[from] InvalidMessage),
    /// The database failed.
    #[error("{0}")]
    Ledger(L),
}

#[derive(Serialize, Deserialize)]
struct Written {
    topic: String,
    body: String,
    tag: Option<String>,
    keys: Vec<String>,
    group: Option<String>,
    deliver_at: Option<i64>,
    priority: Option<u8>,
    properties: Vec<(String, String)>,
}

/// A message as text, for a table. Without a dedup key it gets one, so that a message that is sent twice by a relay is stored once by
/// Redstart where the topic has a window for duplicates. A delay counts from now.
pub fn encode_message(message: &Message) -> Result<String, InvalidMessage> {
    message.check(BODY_BYTES_MAX)?;
    let mut message = message.clone();
    if message.get(DEDUP_KEY).is_none() {
        message = message.dedup_key(unique_text());
    }
    let written = Written {
        topic: message.topic,
        body: STANDARD.encode(&message.body),
        tag: message.tag,
        keys: message.keys,
        group: message.group,
        deliver_at: message.delivery.map(|delivery| delivery.to_ms(now_ms())),
        priority: message.priority,
        properties: message.properties,
    };
    // Texts, numbers and lists of them can always be written.
    Ok(serde_json::to_string(&written).unwrap_or_default())
}

/// Reads what [`encode_message`] has written.
pub fn decode_message(text: &str) -> Option<Message> {
    let written: Written = serde_json::from_str(text).ok()?;
    let mut message = Message::new(written.topic, STANDARD.decode(written.body).ok()?);
    message.tag = written.tag;
    message.keys = written.keys;
    message.group = written.group;
    message.delivery = written.deliver_at.map(|ms| DeliveryTime::At(time_of_ms(ms)));
    message.priority = written.priority;
    message.properties = written.properties;
    Some(message)
}

/// How a relay works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelayPolicy {
    /// The wait when there was nothing to send.
    pub every: Duration,
    /// The most messages of one round.
    pub batch: u32,
}

impl Default for RelayPolicy {
    /// 200 ms, 200 messages.
    fn default() -> RelayPolicy {
        RelayPolicy { every: Duration::from_millis(200), batch: 200 }
    }
}

/// Sends the messages of an outbox until it is dropped. Of several relays one works at a time, so that messages of one message group
/// are sent in the order in which they were written.
#[derive(Debug)]
pub struct Relay {
    task: JoinHandle<()>,
}

impl Relay {
    /// Starts sending.
    pub fn start<L: Outbox>(ledger: L, producer: Producer, policy: RelayPolicy) -> Relay {
        Relay { task: tokio::spawn(relay_on(ledger, producer, policy)) }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn relay_on<L: Outbox>(ledger: L, producer: Producer, policy: RelayPolicy) {
    loop {
        match relay_once(&ledger, &producer, policy.batch).await {
            Ok(sent) if sent > 0 => continue,
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "the outbox was not sent"),
        }
        tokio::time::sleep(policy.every).await;
    }
}

/// Sends the oldest messages and removes those that were sent; how many.
async fn relay_once<L: Outbox>(ledger: &L, producer: &Producer, max: u32) -> Result<usize, L::Error> {
    let mut tx = ledger.begin().await?;
    if !ledger.lock_relay(&mut tx).await? {
        return Ok(0);
    }
    let rows = ledger.oldest(&mut tx, max).await?;
    let mut sending = JoinSet::new();
    for lane in lanes(rows) {
        let producer = producer.clone();
        sending.spawn(send_lane(producer, lane));
    }
    let mut sent: Vec<i64> = Vec::new();
    while let Some(lane) = sending.join_next().await {
        sent.extend(lane.unwrap_or_default());
    }
    if !sent.is_empty() {
        ledger.remove(&mut tx, &sent).await?;
        ledger.commit(tx).await?;
    }
    Ok(sent.len())
}

/// Messages that must go one after the other: those of one message group. All others are lanes of one.
fn lanes(rows: Vec<OutboxRow>) -> Vec<Vec<(i64, Option<Message>)>> {
    let mut lanes: Vec<Vec<(i64, Option<Message>)>> = Vec::new();
    let mut of_group: HashMap<(String, String), usize> = HashMap::new();
    for OutboxRow { id, message } in rows {
        let message = decode_message(&message);
        let key = message.as_ref().and_then(|message| Some((message.topic.clone(), message.group.clone()?)));
        match key.as_ref().and_then(|key| of_group.get(key)) {
            Some(lane) => lanes[*lane].push((id, message)),
            None => {
                of_group.extend(key.map(|key| (key, lanes.len())));
                lanes.push(vec![(id, message)]);
            }
        }
    }
    lanes
}

/// The numbers of those that were sent. After one that was not, the later ones of its group wait.
async fn send_lane(producer: Producer, lane: Vec<(i64, Option<Message>)>) -> Vec<i64> {
    let mut sent = Vec::new();
    for (id, message) in lane {
        let Some(message) = message else {
            tracing::error!(id, "a row of the outbox is no message; it stays there");
            continue;
        };
        match producer.send(message).await {
            Ok(_) => sent.push(id),
            Err(error) => {
                tracing::warn!(id, %error, "a message of the outbox was not sent");
                break;
            }
        }
    }
    sent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back_as_it_was_written() {
        let message = Message::new("t", vec![0, 255, 7]).tag("a").key("k").property("p", "é").dedup_key("d");
        let read = decode_message(&encode_message(&message).expect("valid")).expect("a message");
        assert_eq!(read, message);
        let delayed = Message::new("t", "x").after(Duration::from_secs(60));
        let read = decode_message(&encode_message(&delayed).expect("valid")).expect("a message");
        let Some(DeliveryTime::At(time)) = read.delivery else { panic!("{read:?}") };
        assert!(
            time > std::time::SystemTime::now() + Duration::from_secs(50),
            "it counts from when it was written"
        );
        assert!(read.get(DEDUP_KEY).is_some(), "every message can be told from its repetition");
        assert!(encode_message(&Message::new("t", "")).is_err());
        assert_eq!(decode_message("{}"), None);
    }

    #[test]
    fn messages_of_a_group_share_a_lane_in_their_order() {
        let row =
            |id: i64, message: Message| OutboxRow { id, message: encode_message(&message).expect("valid") };
        let rows = vec![
            row(1, Message::new("t", "x").group("a")),
            row(2, Message::new("t", "x")),
            row(3, Message::new("t", "x").group("b")),
            row(4, Message::new("t", "x").group("a")),
            row(5, Message::new("other", "x").group("a")),
            row(6, Message::new("t", "x")),
        ];
        let ids: Vec<Vec<i64>> =
            lanes(rows).iter().map(|lane| lane.iter().map(|(id, _)| *id).collect()).collect();
        assert_eq!(ids, [vec![1, 4], vec![2], vec![3], vec![5], vec![6]]);
    }
}
