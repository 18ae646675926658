//! Topics and groups: created, changed, deleted and looked up.

use super::Engine;
use crate::{
    GroupConfig, GroupId, GroupName, QueueId, QueueKey, QueueOffset, Ticket, TopicConfig, TopicId, TopicName,
    group::{self, Group},
    name,
    record::Decision,
    topic,
};

/// A change of configuration that was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    #[error(transparent)]
    Name(#[from] name::Error),
    #[error(transparent)]
    Topic(#[from] topic::InvalidConfig),
    #[error(transparent)]
    Group(#[from] group::InvalidConfig),
    #[error("topic {topic} does not exist")]
    UnknownTopic { topic: TopicName },
    #[error("consumer group {group} does not exist")]
    UnknownGroup { group: GroupName },
    #[error("{name} is being created, try again")]
    Creating { name: String },
    #[error("{name} is being deleted, try again")]
    Deleting { name: String },
    #[error("there are {value} {what}, the limit is {limit}")]
    TooMany { what: &'static str, value: usize, limit: usize },
}

/// A topic as callers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicView {
    pub id: TopicId,
    pub name: TopicName,
    pub config: TopicConfig,
    /// Queues that can be read, with the offsets of their first message and after their last one.
    pub queues: Vec<(QueueId, QueueOffset, QueueOffset)>,
}

/// A consumer group as callers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupView {
    pub id: GroupId,
    pub name: GroupName,
    pub config: GroupConfig,
}

impl Engine {
    /// Creates a topic, or changes its configuration. Callers check reserved names: protocols may create those.
    pub fn put_topic(&mut self, name: &TopicName, config: TopicConfig) -> Result<Ticket, AdminError> {
        config.validate(&self.config.limits)?;
        let (value, limit) = (self.state.topics.len(), self.config.limits.topics_max);
        if value >= limit && !self.state.topic_names.contains_key(name) {
            return Err(AdminError::TooMany { what: "topics", value, limit });
        }
        check_unchanging(
            self.speculation.creating_topics.contains(name),
            self.deletes_topic(name),
            name.as_str(),
        )?;
        let ticket = self.ticket();
        self.propose_topic(Some(ticket), name.clone(), config);
        Ok(ticket)
    }

    pub(super) fn propose_topic(&mut self, ticket: Option<Ticket>, name: TopicName, config: TopicConfig) {
        let id = match self.state.topic_names.get(&name) {
            Some(id) => *id,
            None => {
                if !self.speculation.creating_topics.insert(name.clone()) {
                    return;
                }
                self.speculation.topic_id(self.state.topic_next)
            }
        };
        self.propose(ticket, Decision::TopicPut { id, name, config });
    }

    pub fn delete_topic(&mut self, name: &TopicName) -> Result<Ticket, AdminError> {
        let Some(id) = self.state.topic_names.get(name).copied() else {
            return Err(AdminError::UnknownTopic { topic: name.clone() });
        };
        check_unchanging(false, !self.speculation.deleting_topics.insert(id), name.as_str())?;
        let ticket = self.ticket();
        self.propose(Some(ticket), Decision::TopicDelete { id });
        Ok(ticket)
    }

    fn deletes_topic(&self, name: &TopicName) -> bool {
        self.state.topic_names.get(name).is_some_and(|id| self.speculation.deleting_topics.contains(id))
    }

    fn deletes_group(&self, name: &GroupName) -> bool {
        self.state.group_names.get(name).is_some_and(|id| self.speculation.deleting_groups.contains(id))
    }

    pub fn put_group(&mut self, name: &GroupName, config: GroupConfig) -> Result<Ticket, AdminError> {
        config.validate()?;
        check_unchanging(false, self.deletes_group(name), name.as_str())?;
        let (value, limit) = (self.state.groups.len(), self.config.limits.groups_max);
        let id = match self.state.group_names.get(name) {
            Some(id) => *id,
            None if value >= limit => return Err(AdminError::TooMany { what: "groups", value, limit }),
            None if !self.speculation.creating_groups.insert(name.clone()) => {
                return Err(AdminError::Creating { name: name.to_string() });
            }
            None => self.speculation.group_id(self.state.group_next),
        };
        let ticket = self.ticket();
        self.propose(Some(ticket), Decision::GroupPut { id, name: name.clone(), config });
        Ok(ticket)
    }

    pub fn delete_group(&mut self, name: &GroupName) -> Result<Ticket, AdminError> {
        let Some(id) = self.state.group_names.get(name).copied() else {
            return Err(AdminError::UnknownGroup { group: name.clone() });
        };
        check_unchanging(false, !self.speculation.deleting_groups.insert(id), name.as_str())?;
        let ticket = self.ticket();
        self.propose(Some(ticket), Decision::GroupDelete { id });
        Ok(ticket)
    }

    /// A group that is not being deleted: a change to one that is would be lost with it.
    pub(super) fn lasting_group(&self, name: &GroupName) -> Option<&Group> {
        self.state.group_by_name(name).filter(|group| !self.speculation.deleting_groups.contains(&group.id))
    }

    /// A topic that is not being deleted.
    pub(super) fn lasting_topic(&self, name: &TopicName) -> Option<TopicId> {
        self.topic_id(name).filter(|id| !self.speculation.deleting_topics.contains(id))
    }

    pub fn topic_id(&self, name: &TopicName) -> Option<TopicId> {
        self.state.topic_names.get(name).copied()
    }

    pub fn group_id(&self, name: &GroupName) -> Option<GroupId> {
        self.state.group_names.get(name).copied()
    }

    pub fn topic_name_of(&self, id: TopicId) -> Option<TopicName> {
        self.topic_name(id).cloned()
    }

    pub fn group_name_of(&self, id: GroupId) -> Option<GroupName> {
        self.state.groups.get(&id).map(|group| group.name.clone())
    }

    pub fn topic(&self, name: &TopicName) -> Option<TopicView> {
        self.state.topic_by_name(name).map(|topic| TopicView {
            id: topic.id,
            name: topic.name.clone(),
            config: topic.config.clone(),
            queues: (0..topic.readable())
                .map(|n| {
                    let queue = topic.queue(QueueId(n));
                    let (min, end) =
                        queue.map_or((QueueOffset(0), QueueOffset(0)), |queue| (queue.min(), queue.end()));
                    (QueueId(n), min, end)
                })
                .collect(),
        })
    }

    pub fn topic_config(&self, name: &TopicName) -> Option<&TopicConfig> {
        self.state.topic_by_name(name).map(|topic| &topic.config)
    }

    pub fn group_config(&self, name: &GroupName) -> Option<&GroupConfig> {
        self.state.group_by_name(name).map(|group| &group.config)
    }

    pub fn group(&self, name: &GroupName) -> Option<GroupView> {
        self.state.group_by_name(name).map(|group| GroupView {
            id: group.id,
            name: group.name.clone(),
            config: group.config.clone(),
        })
    }

    /// All topic names but those of lite topics, sorted.
    pub fn topic_names(&self) -> Vec<TopicName> {
        let mut names: Vec<_> =
            self.state.topic_names.keys().filter(|name| !name.is_lite()).cloned().collect();
        names.sort_unstable();
        names
    }

    /// All lite topics, as the engine names them, sorted.
    pub fn lite_topic_names(&self) -> Vec<TopicName> {
        let mut names: Vec<_> =
            self.state.topic_names.keys().filter(|name| name.is_lite()).cloned().collect();
        names.sort_unstable();
        names
    }

    /// All group names, sorted.
    pub fn group_names(&self) -> Vec<GroupName> {
        let mut names: Vec<_> = self.state.group_names.keys().cloned().collect();
        names.sort_unstable();
        names
    }

    /// The groups that have consumed a topic, sorted.
    pub fn groups_of(&self, topic: &TopicName) -> Vec<GroupName> {
        let Some(id) = self.state.topic_names.get(topic) else { return Vec::new() };
        let mut names: Vec<_> = self
            .state
            .subscriptions
            .keys()
            .filter(|(_, topic)| topic == id)
            .filter_map(|(group, _)| Some(self.state.groups.get(group)?.name.clone()))
            .collect();
        names.sort_unstable();
        names
    }

    /// The topics that a group has consumed, without lite topics, sorted.
    pub fn topics_of(&self, group: &GroupName) -> Vec<TopicName> {
        let Some(id) = self.state.group_names.get(group) else { return Vec::new() };
        let mut names: Vec<_> = self
            .state
            .subscriptions
            .keys()
            .filter(|(group, _)| group == id)
            .filter_map(|(_, topic)| self.topic_name(*topic).filter(|name| !name.is_lite()).cloned())
            .collect();
        names.sort_unstable();
        names
    }

    pub(super) fn queue_key(&self, topic: &TopicName, queue: QueueId) -> Option<QueueKey> {
        Some(QueueKey { topic: *self.state.topic_names.get(topic)?, queue })
    }
}

/// A name can be used again when its deletion is durable. Until then it belongs to what is being deleted, whose id must not
/// be used again.
fn check_unchanging(creating: bool, deleting: bool, name: &str) -> Result<(), AdminError> {
    let name = name.to_owned();
    match (creating, deleting) {
        (true, _) => Err(AdminError::Creating { name }),
        (_, true) => Err(AdminError::Deleting { name }),
        _ => Ok(()),
    }
}
