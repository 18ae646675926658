//! Who this client is: told to every broker at intervals, and untold when a part of the application ends.

use std::sync::{Arc, PoisonError, atomic::Ordering};

use redstart_wire::remoting::{
    Command,
    body::{ConsumerData, Heartbeat, ProducerData, Subscription},
    code,
};

use super::{Remoting, Session};
use crate::{
    Filter, java,
    message_id::now_ms,
    transport::{Consuming, Role},
};

impl Remoting {
    /// Tells all roles to these brokers. A broker that does not take it is told again at the next turn.
    pub async fn heartbeat(&self, addresses: &[Arc<str>]) {
        let Some(request) = self.heartbeat_request() else { return };
        for address in addresses {
            if let Err(error) = self.call(address, request.clone(), self.settings.timeout).await {
                tracing::debug!(%error, "a heartbeat was not taken");
            }
        }
    }

    pub(super) fn heartbeat_request(&self) -> Option<Command> {
        let body = self.heartbeat_body()?;
        Some(Command { body: body.into(), ..Command::request(code::HEART_BEAT) })
    }

    fn heartbeat_body(&self) -> Option<Vec<u8>> {
        let members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        if members.is_empty() {
            return None;
        }
        let mut heartbeat = Heartbeat { client_id: self.settings.client_id.clone(), ..Heartbeat::default() };
        for role in members.values() {
            match role {
                Role::Producer { group, .. } => {
                    heartbeat.producer_data_set.push(ProducerData { group_name: group.clone() });
                }
                Role::Consumer { consuming: Consuming::Assigned, .. } => {}
                Role::Consumer { group, subscriptions, consuming } => {
                    heartbeat.consumer_data_set.push(consumer(group, subscriptions, *consuming));
                }
            }
        }
        serde_json::to_vec(&heartbeat).ok()
    }
}

fn consumer(group: &str, subscriptions: &[(String, Filter)], consuming: Consuming) -> ConsumerData {
    let kind = match consuming {
        Consuming::Pushed | Consuming::Asked => "CONSUME_POP",
        Consuming::Balanced | Consuming::Broadcast | Consuming::Assigned => "CONSUME_ACTIVELY",
    };
    let model = if consuming == Consuming::Broadcast { "BROADCASTING" } else { "CLUSTERING" };
    ConsumerData {
        group_name: group.to_owned(),
        consume_type: Some(kind.to_owned()),
        message_model: Some(model.to_owned()),
        consume_from_where: Some("CONSUME_FROM_LAST_OFFSET".to_owned()),
        subscription_data_set: subscriptions
            .iter()
            .map(|(topic, filter)| subscription(topic, filter))
            .collect(),
        unit_mode: false,
    }
}

fn subscription(topic: &str, filter: &Filter) -> Subscription {
    let (kind, text) = filter.fields();
    let tags = filter.tag_list();
    Subscription {
        topic: topic.to_owned(),
        sub_string: text.to_owned(),
        tags_set: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        code_set: tags.iter().map(|tag| java::string_hash(tag)).collect(),
        sub_version: now_ms(),
        class_filter_mode: false,
        expression_type: Some(kind.to_owned()),
    }
}

impl Session {
    pub fn open(net: &Arc<Remoting>, role: Role) -> Session {
        let member = net.next_member.fetch_add(1, Ordering::Relaxed);
        net.members.lock().unwrap_or_else(PoisonError::into_inner).insert(member, role.clone());
        Session { net: net.clone(), member, role }
    }

    pub fn group(&self) -> &str {
        self.role.group()
    }

    pub(super) fn is_member(&self) -> bool {
        !matches!(self.role, Role::Consumer { consuming: Consuming::Assigned, .. })
    }

    fn leave(&self) {
        self.net.members.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.member);
    }

    pub async fn close(&self, addresses: &[Arc<str>]) {
        self.leave();
        if !self.is_member() {
            return;
        }
        let field = match &self.role {
            Role::Producer { .. } => "producerGroup",
            Role::Consumer { .. } => "consumerGroup",
        };
        for address in addresses {
            let request = Command::request(code::UNREGISTER_CLIENT)
                .with_field("clientID", &self.net.settings.client_id)
                .with_field(field, self.role.group());
            // A broker that is away forgets the client by itself.
            drop(self.net.call(address, request, self.net.settings.timeout).await);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.leave();
    }
}
