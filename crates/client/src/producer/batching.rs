//! Several messages at once: which of them share a request.

use tokio::time::Instant;

use super::{Core, Sent};
use crate::{
    Message, SendError,
    message::DEDUP_KEY,
    transport::{Outgoing, Purpose},
};

/// Messages of one request, as the engine and Apache's brokers take them.
const COUNT_MAX: usize = 512;
/// Bytes of one request: a batch is one message to Apache's brokers, and must fit into one.
const BYTES_MAX: usize = 3 << 20;

/// Messages that share a request, by their places among all.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Batch {
    places: Vec<usize>,
    bytes: usize,
}

/// Puts messages of one topic, and of one message group, together. Within a message group the batches keep the order.
pub(super) fn plan(messages: &[Option<&Message>]) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    for (place, message) in messages.iter().enumerate() {
        let Some(message) = message else { continue };
        let bytes = message.weight();
        let fits = |batch: &&mut Batch| {
            let first = batch.places.first().and_then(|first| messages[*first]);
            first.is_some_and(|first| shares(first, message))
        };
        // The last batch of its kind: an earlier one that has room would change the order of a message group.
        let open = batches.iter_mut().rev().find(fits);
        match open.filter(|batch| batch.places.len() < COUNT_MAX && batch.bytes + bytes <= BYTES_MAX) {
            Some(batch) => {
                batch.places.push(place);
                batch.bytes += bytes;
            }
            None => batches.push(Batch { places: vec![place], bytes }),
        }
    }
    batches
}

/// Whether two messages may be in one request: one topic, one queue, and nothing that brokers refuse in a batch.
fn shares(one: &Message, other: &Message) -> bool {
    let plain = |message: &Message| {
        message.delivery.is_none() && message.priority.is_none() && message.get(DEDUP_KEY).is_none()
    };
    plain(one)
        && plain(other)
        && one.topic == other.topic
        && one.group == other.group
        && one.shard == other.shard
}

impl Core {
    pub(super) async fn send_many(&self, messages: Vec<Message>) -> Vec<Result<Sent, SendError>> {
        let mut results: Vec<Option<Result<Sent, SendError>>> = messages.iter().map(|_| None).collect();
        let limit = self.body_bytes_max();
        for (result, message) in results.iter_mut().zip(&messages) {
            *result = message.check(limit).err().map(|invalid| Err(invalid.into()));
        }
        let valid: Vec<Option<&Message>> = messages
            .iter()
            .zip(&results)
            .map(|(message, refused)| refused.is_none().then_some(message))
            .collect();
        let batches = plan(&valid);
        let mut messages: Vec<Option<Message>> = messages.into_iter().map(Some).collect();
        for Batch { places, bytes } in batches {
            let taken = places.iter().filter_map(|place| messages[*place].take()).collect();
            let sent = self.send_batch(taken, bytes).await;
            match sent {
                Ok(sent) => places.iter().zip(sent).for_each(|(place, sent)| results[*place] = Some(sent)),
                Err(error) => places.iter().for_each(|place| results[*place] = Some(Err(error.clone()))),
            }
        }
        results.into_iter().map(|result| result.unwrap_or(Err(SendError::ShutDown))).collect()
    }

    async fn send_batch(
        &self,
        messages: Vec<Message>,
        bytes: usize,
    ) -> Result<Vec<Result<Sent, SendError>>, SendError> {
        let deadline = Instant::now() + self.settings.timeout;
        let _permit = self.limit.take(messages.len(), bytes, deadline).await?;
        // Bodies of a batch are never compressed: consumers look at the flag of each message, and a batch has one for all.
        let several = messages.len() > 1;
        let outgoing: Vec<Outgoing> = messages
            .into_iter()
            .map(|message| match several {
                true => self.outgoing_plain(message),
                false => self.outgoing(message),
            })
            .collect();
        self.deliver(&outgoing, deadline).await
    }

    fn outgoing_plain(&self, message: Message) -> Outgoing {
        Outgoing {
            id: self.session.new_message_id(),
            packed: false,
            body: message.body.clone(),
            born_at: crate::message_id::now_ms(),
            purpose: Purpose::Plain,
            message,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn places(messages: &[Message]) -> Vec<Vec<usize>> {
        let messages: Vec<Option<&Message>> = messages.iter().map(Some).collect();
        plan(&messages).into_iter().map(|batch| batch.places).collect()
    }

    fn message(topic: &str) -> Message {
        Message::new(topic, "x")
    }

    #[test]
    fn messages_of_one_topic_and_one_group_share_a_request() {
        let messages =
            [message("a"), message("b"), message("a"), message("a").group("g"), message("a").group("g")];
        assert_eq!(places(&messages), [vec![0, 2], vec![1], vec![3, 4]]);
    }

    #[test]
    fn what_brokers_refuse_in_a_batch_goes_alone() {
        let later = || message("a").after(Duration::from_secs(1));
        let keyed = || message("a").dedup_key("k");
        assert_eq!(places(&[later(), later(), keyed(), keyed()]), [vec![0], vec![1], vec![2], vec![3]]);
        assert_eq!(places(&[message("a"), later(), message("a")]), [vec![0, 2], vec![1]]);
    }

    #[test]
    fn a_batch_is_bounded_and_a_full_one_is_never_gone_back_to() {
        let large = || Message::new("a", vec![0; BYTES_MAX - 10]);
        assert_eq!(places(&[message("a"), large(), large(), message("a")]), [vec![0, 1], vec![2, 3]]);
        let many: Vec<Message> = (0..COUNT_MAX + 1).map(|_| message("a")).collect();
        assert_eq!(places(&many).iter().map(Vec::len).collect::<Vec<_>>(), [COUNT_MAX, 1]);
        assert_eq!(plan(&[None, Some(&message("a"))]).len(), 1, "what was refused is left out");
    }
}
