//! Messages that 4.x consumers send back: they come again through the group's retry topic.

use std::time::Duration;

use redstart_log::Position;

use super::{
    Engine,
    dead_letters::{DeadLetter, GIVEN_UP, Move},
    record_size_max,
};
use crate::{
    Entry, GroupName, QueueId, QueueKey, Ticket, Timestamp, TopicName,
    message_ref::MessageRef,
    pop::FlightKey,
    record::{Decision, Placement, fetch_at},
};

/// A message that a 4.x consumer could not process, named as the client names it: by where it is stored.
#[derive(Debug, Clone)]
pub struct SendBack<'a> {
    pub group: &'a GroupName,
    pub position: Position,
    /// Deliveries before the one that failed.
    pub attempt: u16,
    /// `None`: as the group's policy says.
    pub delay: Option<Duration>,
    /// The client's own limit; `None`: the group's.
    pub retries_max: Option<u32>,
    /// No further retries, however many are left.
    pub give_up: bool,
    /// Why the consumer gives the message up, in its own words.
    pub reason: Option<&'a str>,
    /// Properties that its dead letter gets, unless the message has them.
    pub properties: Vec<(String, String)>,
}

/// A message that could not be sent back.
#[derive(Debug, thiserror::Error)]
pub enum SendBackError {
    #[error("consumer group {group} does not exist")]
    UnknownGroup { group: GroupName },
    #[error("the retry topic {topic} does not exist; create it first")]
    NoRetryTopic { topic: TopicName },
    #[error("the dead-letter topic {topic} is being created, try again")]
    NoDeadLetterTopic { topic: TopicName },
    #[error("there is no message at log position {position}")]
    UnknownPosition { position: Position },
    #[error("the message at log position {position} could not be read, try again")]
    Unread { position: Position },
}

impl Engine {
    /// Schedules a message for the group's retry topic, or moves it to the dead-letter topic when its retries are used up. Its body is not
    /// written again for a retry.
    pub fn send_back(&mut self, back: &SendBack<'_>, now: Timestamp) -> Result<Ticket, SendBackError> {
        let now = self.advance(now);
        let unknown = || SendBackError::UnknownPosition { position: back.position };
        let unread = || SendBackError::Unread { position: back.position };
        let Some(group) = self.lasting_group(back.group) else {
            return Err(SendBackError::UnknownGroup { group: back.group.clone() });
        };
        let retries_max = back.retries_max.unwrap_or(group.config.retries_max);
        let (group_id, policy) = (group.id, group.config.retry.clone());
        self.indexes.segment_of(back.position).ok_or_else(unknown)?;
        if back.position < self.log_start() {
            return Err(unknown());
        }
        let fetched = fetch_at(&*self.reader, back.position, record_size_max(&self.config));
        let fetched = fetched.map_err(|error| if error.proof().is_some() { unknown() } else { unread() })?;
        let stored = fetched.stored().map_err(|_| unknown())?;
        let offset = match stored.placement {
            // Its queue may no longer list it; the message is there for its retries.
            Placement::Visible(offset) => offset,
            // Only what was visible can be sent back: no delayed or half message.
            _ => self.place_of(&fetched, &stored).map_err(|_| unread())?.ok_or_else(unknown)?.offset,
        };
        let home = stored.queue;
        if back.give_up || u32::from(back.attempt) >= retries_max {
            let dead = DeadLetter {
                flight: FlightKey { group: group_id, queue: home, offset },
                attempts: back.attempt.saturating_add(1),
                reason: match back.reason {
                    Some(reason) if back.give_up => reason,
                    None if back.give_up => GIVEN_UP,
                    _ => "retries exhausted",
                },
            };
            let mut message = stored.message.to_message();
            let new = back.properties.iter().filter(|(name, _)| stored.message.property(name).is_none());
            message.properties.extend(new.cloned());
            let ticket = self.ticket();
            return match self.propose_dead_letter(Some(ticket), dead, home.topic, message) {
                Move::Proposed => Ok(ticket),
                Move::NeedsTopic(topic) => Err(SendBackError::NoDeadLetterTopic { topic }),
                Move::Gone | Move::Unread | Move::Cold(_) => Err(unknown()),
            };
        }
        let entry = Entry {
            position: back.position,
            size: fetched.size(),
            stored_at: stored.stored_at,
            tag_hash: stored.message.tag.map_or(0, crate::filter::tag_hash),
            group_hash: stored.message.group.map_or(0, crate::group_hash),
            attempt: back.attempt,
            priority: stored.message.priority.unwrap_or(0),
        };
        let delay = back.delay.unwrap_or_else(|| policy.delay(u32::from(back.attempt) + 1));
        self.retry_later(back.group, entry, now.after(delay))
    }

    fn retry_later(
        &mut self,
        group: &GroupName,
        entry: Entry,
        due: Timestamp,
    ) -> Result<Ticket, SendBackError> {
        let retry_topic = group.retry_topic();
        let Some(to) = self.lasting_topic(&retry_topic) else {
            return Err(SendBackError::NoRetryTopic { topic: retry_topic });
        };
        let queue = QueueKey { topic: to, queue: QueueId(0) };
        let message = MessageRef::moved(entry, queue, entry.attempt.saturating_add(1));
        let ticket = self.ticket();
        self.propose(Some(ticket), Decision::SendBack { due, message, id: Position(0), left: None });
        Ok(ticket)
    }
}
