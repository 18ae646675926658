//! The derived state as one sequence of bytes, so that a start replays only what came after it.
//!
//! | part | layout |
//! |---|---|
//! | version | u8 |
//! | topics | next topic id u32, u32 count, then for each id u32, name, [`TopicConfig`], u32 count of queues, then their ends u64 |
//! | groups | next group id u32, u32 count, then for each id u32, name, [`GroupConfig`] |
//! | subscriptions | u32 count, then for each group u32, topic u32, u32 count of queues, then their [`Progress`] |
//! | timers | [`Timers`] |
//! | transactions | [`OpenTransactions`] |
//! | dedup keys | [`DedupKeys`] |
//! | last uses | u32 count, then for each segment u64, time u64 |
//! | lite topics, from version 2 on | [`LiteTopics`] |
//! | settings, from version 3 on | u32 count, then for each the namespace and its attributes |
//! | forgotten, from version 4 on | end u64 of the windows of dedup keys that were forgotten, the newest retired segment u64, all ones for none |
//!
//! A name is a u32 length and UTF-8. Queue entries and timers that have not fired are not in it: they come from the
//! segments' indexes.

#[cfg(test)]
mod tests;

use redstart_log::{Position, SegmentId};

use crate::{
    GroupConfig, GroupId, GroupName, QueueOffset, Timestamp, TopicConfig, TopicId, TopicName,
    codec::{Malformed, Put, Take},
    dedup::{DedupKeys, KeyCursor},
    group::Group,
    lite_topics::LiteTopics,
    open_transactions::OpenTransactions,
    pop::Progress,
    queue::Queue,
    state::{State, Subscription},
    timer::Timers,
    topic::{Topic, put_attributes, take_attributes},
};

const VERSION: u8 = 4;
/// Had no lite topics.
const VERSION_BEFORE_LITE_TOPICS: u8 = 1;
/// Had no settings.
const VERSION_BEFORE_SETTINGS: u8 = 2;
/// Had no segments with recalled timers, and did not say what was forgotten.
const VERSION_BEFORE_RETIREMENT: u8 = 3;

/// A checkpoint that is being encoded. What is small, or changes in place, is encoded at once. There may be millions of dedup
/// keys: the owner encodes them in steps and serves requests between two steps.
#[derive(Debug)]
pub(crate) struct Encoding {
    out: Vec<u8>,
    /// Where the number of keys goes.
    count_at: usize,
    count: u32,
    keys: Option<KeyCursor>,
    /// Where the log ended when the checkpoint was begun.
    end: Position,
    /// What comes behind the keys.
    rest: Vec<u8>,
}

impl Encoding {
    /// Encodes some more keys. Says whether the checkpoint is complete.
    pub fn step(&mut self, state: &State, keys_max: usize) -> bool {
        self.count += state.dedup.encode_some(&mut self.keys, self.end, keys_max, &mut self.out);
        self.keys.is_none()
    }

    /// The checkpoint, when it is complete.
    pub fn finish(mut self) -> Vec<u8> {
        let count = self.count_at..self.count_at + 4;
        if let Some(place) = self.out.get_mut(count) {
            place.copy_from_slice(&self.count.to_le_bytes());
        }
        self.out.append(&mut self.rest);
        self.out
    }
}

impl State {
    /// The whole checkpoint at once.
    pub fn encode(&self) -> Vec<u8> {
        let mut encoding = self.begin_encoding(Position(u64::MAX));
        while !encoding.step(self, usize::MAX) {}
        encoding.finish()
    }

    /// Begins a checkpoint of the state as it is now, with the log up to `end`.
    pub fn begin_encoding(&self, end: Position) -> Encoding {
        let mut out = Vec::new();
        out.put_u8(VERSION);
        self.encode_topics(&mut out);
        self.encode_groups(&mut out);
        self.encode_subscriptions(&mut out);
        self.timers.encode(&mut out);
        self.transactions.encode(&mut out);
        let count_at = out.len();
        out.put_u32(0);
        let mut rest = Vec::new();
        rest.put_u32(self.last_use.len() as u32);
        for (segment, at) in &self.last_use {
            rest.put_u64(segment.0);
            rest.put_u64(at.0);
        }
        self.lite_topics.encode(&mut rest);
        self.encode_settings(&mut rest);
        rest.put_u64(self.dedup.expired_until().0);
        rest.put_u64(self.retired.map_or(u64::MAX, |segment| segment.0));
        // So that it is not copied while it grows.
        out.reserve(self.dedup.encoded_len() + rest.len());
        Encoding { out, count_at, count: 0, keys: Some(KeyCursor::default()), end, rest }
    }

    pub fn decode(bytes: &[u8]) -> Result<State, Malformed> {
        let mut take = Take::new(bytes, "checkpoint");
        let version = take.u8()?;
        if version > VERSION {
            return Err(Malformed::Newer { what: "checkpoint version", found: version });
        }
        if version < VERSION_BEFORE_LITE_TOPICS {
            return Err(take.malformed());
        }
        let mut state = State::default();
        state.decode_topics(&mut take)?;
        state.decode_groups(&mut take)?;
        state.decode_subscriptions(&mut take)?;
        state.timers = Timers::decode(&mut take, version > VERSION_BEFORE_RETIREMENT)?;
        state.transactions = OpenTransactions::decode(&mut take)?;
        state.dedup = DedupKeys::decode(&mut take)?;
        for _ in 0..take.count(16)? {
            state.last_use.insert(SegmentId(take.u64()?), Timestamp(take.u64()?));
        }
        if version > VERSION_BEFORE_LITE_TOPICS {
            state.lite_topics =
                LiteTopics::decode(&mut take, |id| state.topics.get(&id).map(|topic| &topic.name))?;
        }
        if version > VERSION_BEFORE_SETTINGS {
            state.decode_settings(&mut take)?;
        }
        if version > VERSION_BEFORE_RETIREMENT {
            state.dedup.expire(Timestamp(take.u64()?));
            state.retired = Some(take.u64()?).filter(|segment| *segment != u64::MAX).map(SegmentId);
        }
        take.end()?;
        state.restore_final_attempts(None);
        let retries: Vec<TopicName> =
            state.topic_names.keys().filter(|name| name.is_retry()).cloned().collect();
        retries.iter().for_each(|name| state.note_retry_topic(name));
        Ok(state)
    }

    fn encode_topics(&self, out: &mut Vec<u8>) {
        out.put_u32(self.topic_next);
        out.put_u32(self.topics.len() as u32);
        let mut topics: Vec<&Topic> = self.topics.values().collect();
        topics.sort_unstable_by_key(|topic| topic.id);
        for topic in topics {
            out.put_u32(topic.id.0);
            out.put_str(topic.name.as_str());
            topic.config.encode(out);
            out.put_u32(topic.queues.len() as u32);
            for queue in &topic.queues {
                out.put_u64(queue.end().0);
            }
        }
    }

    fn decode_topics(&mut self, take: &mut Take<'_>) -> Result<(), Malformed> {
        self.topic_next = take.u32()?;
        for _ in 0..take.count(20)? {
            let id = TopicId(take.u32()?);
            let name = TopicName::stored(take.str()?).map_err(|_| take.malformed())?;
            let mut topic = Topic::new(id, name.clone(), TopicConfig::decode(take)?);
            for _ in 0..take.count(8)? {
                topic.queues.push(Queue::restored(QueueOffset(take.u64()?)));
            }
            self.topic_names.insert(name, id);
            self.topics.insert(id, topic);
        }
        Ok(())
    }

    fn encode_groups(&self, out: &mut Vec<u8>) {
        out.put_u32(self.group_next);
        out.put_u32(self.groups.len() as u32);
        let mut groups: Vec<&Group> = self.groups.values().collect();
        groups.sort_unstable_by_key(|group| group.id);
        for group in groups {
            out.put_u32(group.id.0);
            out.put_str(group.name.as_str());
            group.config.encode(out);
        }
    }

    fn decode_groups(&mut self, take: &mut Take<'_>) -> Result<(), Malformed> {
        self.group_next = take.u32()?;
        for _ in 0..take.count(16)? {
            let id = GroupId(take.u32()?);
            let name = GroupName::new(take.str()?).map_err(|_| take.malformed())?;
            let config = GroupConfig::decode(take)?;
            self.group_names.insert(name.clone(), id);
            self.groups.insert(id, Group { id, name, config });
        }
        Ok(())
    }

    fn encode_subscriptions(&self, out: &mut Vec<u8>) {
        let mut keys: Vec<_> = self.subscriptions.keys().copied().collect();
        keys.sort_unstable();
        out.put_u32(keys.len() as u32);
        for (group, topic) in keys {
            let subscription = &self.subscriptions[&(group, topic)];
            out.put_u32(group.0);
            out.put_u32(topic.0);
            out.put_u32(subscription.queues.len() as u32);
            for progress in &subscription.queues {
                progress.encode(out);
            }
        }
    }

    fn decode_subscriptions(&mut self, take: &mut Take<'_>) -> Result<(), Malformed> {
        for _ in 0..take.count(12)? {
            let (group, topic) = (GroupId(take.u32()?), TopicId(take.u32()?));
            let mut subscription = Subscription::default();
            for _ in 0..take.count(22)? {
                subscription.queues.push(Progress::decode(take)?);
            }
            self.subscriptions.insert((group, topic), subscription);
        }
        Ok(())
    }

    fn encode_settings(&self, out: &mut Vec<u8>) {
        out.put_u32(self.settings.len() as u32);
        for (namespace, settings) in &self.settings {
            out.put_str(namespace);
            put_attributes(settings, out);
        }
    }

    fn decode_settings(&mut self, take: &mut Take<'_>) -> Result<(), Malformed> {
        for _ in 0..take.count(8)? {
            let namespace = take.str()?.to_owned();
            self.settings.insert(namespace, take_attributes(take)?);
        }
        Ok(())
    }
}
