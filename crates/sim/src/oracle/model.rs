//! The model: every message, every place in a queue, every subscription of a group, as far as clients have answers.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use redstart_engine::{
    GroupId, Message, QueueId, QueueKey, QueueOffset, SendReceipt, Timestamp, TopicId, TopicName,
};
use redstart_log::Position;

use super::{configs::Configs, turn::Turn};
use crate::ops::filters::FilterKind;

/// What became of a proposal, as far as its client knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Proposed,
    /// Acknowledged, or seen to be there.
    Stored,
    /// Said not to have happened.
    Refused,
    /// The process died before it answered.
    Unknown,
    /// Was unknown, and a restart has shown that it did not happen.
    Gone,
}

/// The end of a half message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// No client has asked for an end.
    Open,
    Proposed {
        commit: bool,
    },
    Acknowledged {
        commit: bool,
    },
    /// Asked for, and not known whether it took effect.
    Unknown {
        commit: bool,
    },
}

/// A message that a producer sent.
#[derive(Debug, Clone)]
pub struct Known {
    pub number: usize,
    pub topic: TopicId,
    pub topic_name: TopicName,
    pub message: Message,
    pub sent_at: Timestamp,
    pub fate: Fate,
    pub receipt: Option<SendReceipt>,
    /// `None` for messages that are no half messages.
    pub end: Option<End>,
    pub recall: Option<Fate>,
    /// Where it is in its own topic.
    pub place: Option<(QueueKey, QueueOffset)>,
}

impl Known {
    /// Visible as soon as it is stored.
    pub fn immediate(&self) -> bool {
        self.end.is_none() && self.message.deliver_at.is_none_or(|at| at <= self.sent_at)
    }

    /// Clients have the answer that consumers get it, and none has asked for anything else.
    pub fn promised(&self) -> bool {
        self.fate == Fate::Stored
            && matches!(self.end, None | Some(End::Acknowledged { commit: true }))
            && matches!(self.recall, None | Some(Fate::Refused | Fate::Gone))
    }
}

/// A message that a 4.x consumer sent back.
#[derive(Debug, Clone)]
pub struct SentBack {
    pub number: usize,
    pub to: TopicId,
    pub due: Timestamp,
    pub attempt: u16,
    pub fate: Fate,
    pub seen: bool,
}

/// What was found at one offset of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    pub number: usize,
    pub position: Position,
    pub size: u32,
    pub stored_at: Timestamp,
    /// Deliveries before the first one from this queue.
    pub attempt: u16,
    /// The lock under which ordered groups deliver it.
    pub lock: u32,
}

#[derive(Debug, Default)]
pub struct QueueLog {
    pub seen: BTreeMap<u64, Seen>,
    /// Everything below has been looked at.
    pub next: u64,
    pub min: u64,
}

/// A group's place in a topic.
#[derive(Debug, Default)]
pub struct Subscription {
    /// Where the group starts; queues that are not listed start at 0.
    pub start: BTreeMap<QueueId, u64>,
    /// The subscription cannot be lost any more.
    pub durable: bool,
    pub turns: BTreeMap<(QueueId, u64), Turn>,
    pub filters: Vec<FilterKind>,
    /// Of the group's retry topic: receives of other topics have looked into it.
    pub received_by_topic: bool,
    /// Offsets below were there when the group was moved: their order is not checked.
    pub order_from: BTreeMap<QueueId, u64>,
}

impl Subscription {
    pub fn start_of(&self, queue: QueueId) -> u64 {
        self.start.get(&queue).copied().unwrap_or(0)
    }

    /// Whether some subscription of the group may have passed over the message.
    pub fn may_skip(&self, message: &Message) -> bool {
        self.filters.iter().any(|filter| !filter.accepts(message))
    }
}

/// What a group is set to, over its whole life.
#[derive(Debug, Clone)]
pub struct GroupLimits {
    pub name: String,
    pub attempts_low: u32,
    pub attempts_high: u32,
    pub always_ordered: bool,
    pub ever_ordered: bool,
}

#[derive(Debug, Default)]
pub struct Model {
    pub messages: Vec<Known>,
    pub sent_back: Vec<SentBack>,
    pub queues: BTreeMap<QueueKey, QueueLog>,
    pub subscriptions: BTreeMap<(GroupId, TopicId), Subscription>,
    pub groups: BTreeMap<GroupId, GroupLimits>,
    pub topic_names: BTreeMap<TopicId, String>,
    pub lites: BTreeSet<TopicId>,
    pub configs: Configs,
    pub keep: Duration,
    /// A segment was removed before its time because the disk was full.
    pub forced: bool,
    /// Messages that a consumer that pulls sent back past its retries, by group and message.
    pub dead_lettered_by_pulls: BTreeMap<(String, usize), u32>,
    pub deliveries: u64,
    /// Bodies before this are no longer stored.
    pub log_start: Position,
}

impl Model {
    pub fn is_lite(&self, topic: TopicId) -> bool {
        self.lites.contains(&topic)
    }

    pub fn known(&self, id: &str) -> Option<&Known> {
        usize::from_str_radix(id, 16).ok().and_then(|number| self.messages.get(number))
    }

    pub fn subscription(&mut self, group: GroupId, topic: TopicId) -> &mut Subscription {
        self.subscriptions.entry((group, topic)).or_default()
    }

    pub fn seen(&self, queue: QueueKey, offset: QueueOffset) -> Option<&Seen> {
        self.queues.get(&queue)?.seen.get(&offset.0)
    }

    /// Where a message is visible: in the queue it was sent to, and in retry topics.
    pub fn places_of(&self, number: usize) -> Vec<(QueueKey, QueueOffset)> {
        let places = self.queues.iter().flat_map(|(key, log)| {
            let seen = log.seen.iter().filter(move |(_, seen)| seen.number == number);
            seen.map(|(offset, _)| (*key, QueueOffset(*offset)))
        });
        places.collect()
    }

    /// The turn of a message for a group, made on its first mention.
    pub fn turn(&mut self, group: GroupId, queue: QueueKey, offset: QueueOffset) -> &mut Turn {
        let base = self.seen(queue, offset).map_or(0, |seen| seen.attempt);
        let turns = &mut self.subscription(group, queue.topic).turns;
        turns.entry((queue.queue, offset.0)).or_insert_with(|| Turn::new(base))
    }

    /// The process died: what was not acknowledged may or may not have happened.
    pub fn process_died(&mut self) {
        for known in &mut self.messages {
            if known.fate == Fate::Proposed {
                known.fate = Fate::Unknown;
            }
            if let Some(End::Proposed { commit }) = known.end {
                known.end = Some(End::Unknown { commit });
            }
            if known.recall == Some(Fate::Proposed) {
                known.recall = Some(Fate::Unknown);
            }
        }
        for back in &mut self.sent_back {
            if back.fate == Fate::Proposed {
                back.fate = Fate::Unknown;
            }
        }
        for subscription in self.subscriptions.values_mut() {
            subscription.turns.values_mut().for_each(Turn::process_died);
        }
    }

    /// All queues have been read since the start: what is unknown and should be there, is not and will not be.
    pub fn settle_unknown(&mut self) {
        for known in &mut self.messages {
            if known.fate == Fate::Unknown && known.immediate() && known.place.is_none() {
                known.fate = Fate::Gone;
            }
        }
    }
}
