//! Topics and groups that were created, changed or deleted, for the operator's log.

use super::Engine;
use crate::{GroupName, TopicConfig, TopicName, record::Decision};

/// Changes kept until the owner takes them; further ones take effect and are not listed.
const CHANGES_MAX: usize = 1024;

/// A topic or group that was created, changed or deleted. Lite topics are not listed: there are too many.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    TopicCreated { name: TopicName, config: TopicConfig },
    TopicChanged { name: TopicName, config: TopicConfig },
    TopicDeleted { name: TopicName },
    GroupCreated { name: GroupName, ordered: bool },
    GroupChanged { name: GroupName, ordered: bool },
    GroupDeleted { name: GroupName },
}

impl Engine {
    /// The changes since the last call; empties the list.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Takes note of a decision that is about to take effect.
    pub(super) fn note_change(&mut self, decision: &Decision) {
        if self.changes.len() < CHANGES_MAX
            && let Some(change) = self.change_of(decision)
        {
            self.changes.push(change);
        }
    }

    fn change_of(&self, decision: &Decision) -> Option<Change> {
        match decision {
            Decision::TopicPut { name, .. } if name.is_lite() => None,
            Decision::TopicPut { id, name, config } => {
                let (name, config) = (name.clone(), config.clone());
                Some(match self.state.topics.contains_key(id) {
                    true => Change::TopicChanged { name, config },
                    false => Change::TopicCreated { name, config },
                })
            }
            Decision::TopicDelete { id } => {
                let name = self.topic_name(*id).filter(|name| !name.is_lite())?;
                Some(Change::TopicDeleted { name: name.clone() })
            }
            Decision::GroupPut { id, name, config } => {
                let (name, ordered) = (name.clone(), config.ordered);
                Some(match self.state.groups.contains_key(id) {
                    true => Change::GroupChanged { name, ordered },
                    false => Change::GroupCreated { name, ordered },
                })
            }
            Decision::GroupDelete { id } => {
                let group = self.state.groups.get(id)?;
                Some(Change::GroupDeleted { name: group.name.clone() })
            }
            _ => None,
        }
    }
}
