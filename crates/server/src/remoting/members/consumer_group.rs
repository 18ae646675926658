//! A consumer group and its members. Members share out the queues among themselves, so every change is told to all of them.

use std::collections::BTreeMap;

use redstart_wire::remoting::{Command, body::ConsumerData, code};

use super::member::Member;
use crate::remoting::peer_text;

/// The texts are those of the last heartbeat.
#[derive(Debug, Clone, Default)]
pub(in crate::remoting) struct ConsumerGroup {
    pub consume_type: String,
    pub message_model: String,
    pub consume_from_where: String,
    pub members: BTreeMap<String, Member>,
}

impl ConsumerGroup {
    /// Adds or replaces a member, and notifies the group if its members or their topics have changed. `true` when the member's
    /// fingerprint is new.
    pub(super) fn put(&mut self, data: &ConsumerData, mut member: Member) -> bool {
        let text = |value: &Option<String>| peer_text::shown(value.as_deref().unwrap_or_default()).to_owned();
        self.consume_type = text(&data.consume_type);
        self.message_model = text(&data.message_model);
        self.consume_from_where = text(&data.consume_from_where);
        let old = self.members.remove(&member.client_id);
        let topics = |member: &Member| member.subscriptions.keys().cloned().collect::<Vec<_>>();
        let moved =
            old.as_ref().is_none_or(|old| old.peer.id != member.peer.id || topics(old) != topics(&member));
        let changed = old.as_ref().is_none_or(|old| old.fingerprint != member.fingerprint);
        for (topic, was) in old.into_iter().flat_map(|old| old.subscriptions) {
            if let Some(is) = member.subscriptions.get_mut(&topic)
                && was.subscription.sub_version > is.subscription.sub_version
            {
                *is = was;
            }
        }
        self.members.insert(member.client_id.clone(), member);
        if moved {
            self.notify(&data.group_name);
        }
        changed
    }

    /// Makes every member share out the queues again.
    pub(super) fn notify(&self, name: &str) {
        if self.message_model == "BROADCASTING" {
            return;
        }
        for member in self.members.values() {
            let changed =
                Command::question(code::NOTIFY_CONSUMER_IDS_CHANGED).with_field("consumerGroup", name);
            // A member that does not read finds out when it next asks for the group's members, every 20 s.
            member.peer.notify(changed);
        }
    }
}
