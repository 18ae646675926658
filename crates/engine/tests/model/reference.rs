//! A broker in plain vectors and maps, searched from end to end: slow, and simple enough to be believed.
//!
//! Topics, groups and messages are known by their number; a number is never used again.

use std::collections::{BTreeMap, VecDeque};

use redstart_engine::*;
use redstart_log::Position;

use super::progress::{LEVELS, Progress};

#[derive(Debug)]
pub struct Topic {
    pub name: TopicName,
    pub config: TopicConfig,
    pub alive: bool,
    /// The engine's number, once the topic is there.
    pub id: Option<TopicId>,
    pub queues: Vec<Vec<Visible>>,
    /// Where each message group went, by the number of write queues then.
    pub homes: BTreeMap<(u32, String), u32>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Visible {
    pub message: usize,
    pub stored_at: u64,
    pub attempt: u16,
}

#[derive(Debug)]
pub struct Group {
    pub name: GroupName,
    pub config: GroupConfig,
    pub alive: bool,
    pub id: Option<GroupId>,
}

/// A message as it was stored, once.
#[derive(Debug)]
pub struct Stored {
    pub message: Message,
    pub topic: usize,
    /// Unknown for dead letters until they are read.
    pub position: Option<Position>,
}

#[derive(Debug, Default)]
pub struct Subscription {
    /// `None` for a queue that the group has nothing to do with.
    pub queues: Vec<Option<Progress>>,
    /// The group has received, so that it also consumes queues that are added later.
    pub popped: bool,
    /// Of a retry topic: receives of other topics have looked into it.
    pub by_topic: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Phase {
    Waiting,
    Firing,
    Recalling,
    Fired,
    Recalled,
}

#[derive(Debug)]
pub struct Timer {
    pub due: u64,
    pub topic: usize,
    pub queue: u32,
    pub message: usize,
    pub attempt: u16,
    pub phase: Phase,
    /// How its sender may recall it.
    pub key: Option<TimerKey>,
}

#[derive(Debug)]
pub struct Half {
    pub id: Position,
    pub message: usize,
    pub topic: usize,
    pub queue: u32,
    pub opened_at: u64,
    pub next_check: u64,
    pub checks: u32,
    pub ending: bool,
    pub open: bool,
}

#[derive(Debug, Clone)]
pub struct First {
    pub receipt: SendReceipt,
    pub expires: u64,
}

/// The message of a queue that a dead letter was made of.
#[derive(Debug, Clone, Copy)]
pub struct Dead {
    pub group: usize,
    pub topic: usize,
    pub queue: u32,
    pub offset: usize,
}

#[derive(Debug)]
pub struct Proposal {
    pub ticket: Option<Ticket>,
    pub what: What,
}

#[derive(Debug)]
pub enum What {
    Store(Box<Store>),
    Link { timer: usize, visible_at: u64, counts: bool },
    End { half: usize, commit: bool, at: u64 },
    PutTopic { name: TopicName, config: TopicConfig },
    DeleteTopic { topic: usize },
    PutGroup { name: GroupName, config: GroupConfig },
    DeleteGroup { group: usize },
    Recall { timer: usize },
    SendBack { timer: Timer, left: Option<Dead> },
}

#[derive(Debug)]
pub struct Store {
    pub topic: usize,
    pub message: Message,
    /// The queue if it is decided, else how many there are to choose from.
    pub queue: Result<u32, u32>,
    /// `Some` for a half message: when its producer is asked.
    pub half: Option<u64>,
    pub stored_at: u64,
    pub dead: Option<Dead>,
    /// The message of the same batch before this one.
    pub after: Option<usize>,
}

impl Store {
    pub fn dedup(&self) -> Option<(usize, String)> {
        Some((self.topic, self.message.dedup_key().filter(|_| self.dead.is_none())?.to_owned()))
    }

    pub fn carries(&self, key: &(usize, String)) -> bool {
        self.dedup().as_ref() == Some(key)
    }
}

pub struct Reference {
    pub now: u64,
    pub config: Config,
    pub topics: Vec<Topic>,
    pub groups: Vec<Group>,
    pub stored: Vec<Stored>,
    pub subscriptions: BTreeMap<(usize, usize), Subscription>,
    pub timers: Vec<Timer>,
    pub halves: Vec<Half>,
    pub firsts: BTreeMap<(usize, String), First>,
    /// Dedup keys on their way, and under which ticket.
    pub keyed: BTreeMap<(usize, String), Ticket>,
    pub batch: Vec<Proposal>,
    pub frames: VecDeque<Vec<Proposal>>,
    /// The queue of the message stored last.
    pub last_queue: u32,
}

impl Reference {
    pub fn new(config: Config, now: u64) -> Reference {
        Reference {
            now,
            config,
            topics: Vec::new(),
            groups: Vec::new(),
            stored: Vec::new(),
            subscriptions: BTreeMap::new(),
            timers: Vec::new(),
            halves: Vec::new(),
            firsts: BTreeMap::new(),
            keyed: BTreeMap::new(),
            batch: Vec::new(),
            frames: VecDeque::new(),
            last_queue: 0,
        }
    }

    pub fn topic(&self, name: &TopicName) -> Option<usize> {
        self.topics.iter().position(|topic| topic.alive && topic.name == *name)
    }

    pub fn group(&self, name: &GroupName) -> Option<usize> {
        self.groups.iter().position(|group| group.alive && group.name == *name)
    }

    /// Queues that can be read: the configured ones, and older ones that hold messages.
    pub fn readable(&self, topic: usize) -> u32 {
        let topic = &self.topics[topic];
        let used = topic.queues.iter().rposition(|queue| !queue.is_empty()).map_or(0, |last| last + 1);
        topic.config.read_queues.max(used as u32)
    }

    pub fn entries(&self, topic: usize, queue: u32) -> &[Visible] {
        self.topics[topic].queues.get(queue as usize).map_or(&[], Vec::as_slice)
    }

    pub fn level(&self, topic: usize, queue: u32, offset: usize) -> usize {
        let message = self.entries(topic, queue)[offset].message;
        usize::from(self.stored[message].message.priority.unwrap_or(0)).min(LEVELS - 1)
    }

    pub fn levels(&self, topic: usize, queue: u32) -> Vec<usize> {
        (0..self.entries(topic, queue).len()).map(|offset| self.level(topic, queue, offset)).collect()
    }

    pub fn progress(&self, group: usize, topic: usize, queue: u32) -> Option<&Progress> {
        self.subscriptions.get(&(group, topic))?.queues.get(queue as usize)?.as_ref()
    }

    /// The progress in a queue, made if there is none.
    pub fn progress_mut(&mut self, group: usize, topic: usize, queue: u32) -> &mut Progress {
        let len = self.entries(topic, queue).len();
        let queues = &mut self.subscriptions.entry((group, topic)).or_default().queues;
        if queues.len() <= queue as usize {
            queues.resize(queue as usize + 1, None);
        }
        let progress = queues[queue as usize].get_or_insert_with(|| Progress::starting_at(0));
        progress.grow(len);
        progress
    }

    /// Proposals that are not durable yet, in order.
    pub fn underway(&self) -> impl Iterator<Item = &What> {
        self.frames.iter().flatten().chain(&self.batch).map(|proposal| &proposal.what)
    }

    pub fn is_creating(&self, name: &str) -> bool {
        self.underway().any(|what| match what {
            What::PutTopic { name: found, .. } => found.as_str() == name && self.topic(found).is_none(),
            What::PutGroup { name: found, .. } => found.as_str() == name && self.group(found).is_none(),
            _ => false,
        })
    }

    pub fn is_deleting(&self, name: &str) -> bool {
        self.underway().any(|what| match what {
            What::DeleteTopic { topic } => self.topics[*topic].name.as_str() == name,
            What::DeleteGroup { group } => self.groups[*group].name.as_str() == name,
            _ => false,
        })
    }

    pub fn is_deleting_topic(&self, topic: usize) -> bool {
        self.underway().any(|what| matches!(what, What::DeleteTopic { topic: found } if *found == topic))
    }

    /// A group that is not being deleted.
    pub fn lasting_group(&self, name: &GroupName) -> Option<usize> {
        let group = self.group(name)?;
        let deletes = |what: &What| matches!(what, What::DeleteGroup { group: found } if *found == group);
        (!self.underway().any(deletes)).then_some(group)
    }

    /// Where a message is visible in the topic it was sent to; `None` when that is not known any more.
    pub fn home_of(&self, message: usize, group: usize) -> Option<Dead> {
        let topic = self.stored[message].topic;
        // Where one is that became visible later is looked up in its queue, which goes with the topic.
        let later = self.timers.iter().any(|timer| timer.message == message && timer.attempt == 0)
            || self.halves.iter().any(|half| half.message == message);
        if later && !self.topics[topic].alive {
            return None;
        }
        self.topics[topic].queues.iter().enumerate().find_map(|(queue, entries)| {
            let offset = entries.iter().position(|entry| entry.message == message)?;
            Some(Dead { group, topic, queue: queue as u32, offset })
        })
    }

    pub fn propose(&mut self, ticket: Option<Ticket>, what: What) {
        self.batch.push(Proposal { ticket, what });
    }

    /// The whole batch was refused: what it had reserved is free again. Returns the tickets.
    pub fn withdraw(&mut self) -> Vec<Ticket> {
        let batch = std::mem::take(&mut self.batch);
        for proposal in &batch {
            match &proposal.what {
                What::Store(store) => {
                    self.keyed.retain(|key, _| !store.carries(key));
                    let flight = store.dead.and_then(|dead| self.flight_mut(dead));
                    if let Some(flight) = flight.filter(|flight| flight.ending) {
                        (flight.ending, flight.given_back) = (false, true);
                    }
                }
                What::SendBack { left: Some(left), .. } => {
                    if let Some(flight) = self.flight_mut(*left).filter(|flight| flight.ending) {
                        (flight.ending, flight.given_back) = (false, true);
                    }
                }
                What::Link { timer, .. } | What::Recall { timer } => {
                    self.timers[*timer].phase = Phase::Waiting;
                }
                What::End { half, .. } => self.halves[*half].ending = false,
                _ => {}
            }
        }
        batch.into_iter().filter_map(|proposal| proposal.ticket).collect()
    }

    pub fn flight_mut(&mut self, dead: Dead) -> Option<&mut super::progress::Flight> {
        let subscription = self.subscriptions.get_mut(&(dead.group, dead.topic))?;
        subscription.queues.get_mut(dead.queue as usize)?.as_mut()?.flight_mut(dead.offset)
    }

    /// The message is done for the group, if the group holds it.
    pub fn finish(&mut self, dead: Dead) {
        if !self.topics[dead.topic].alive || self.flight_mut(dead).is_none() {
            return;
        }
        let level = self.level(dead.topic, dead.queue, dead.offset);
        self.progress_mut(dead.group, dead.topic, dead.queue).done(dead.offset, level);
    }
}
