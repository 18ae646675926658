//! The consumers of a group that are online.

use redstart_client::admin::{Broker, Error};
use redstart_wire::remoting::body::ConsumerConnection;
use serde::Serialize;

use crate::admin::Session;

/// RocketMQ numbers its releases from 4.0.0 on: a step of two for each, ten releases to a minor version.
const FIRST_VERSION: i32 = 213;
const NUMBERS_PER_RELEASE: i32 = 2;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    pub client_id: String,
    pub address: String,
    pub language: String,
    pub version: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Subscription {
    pub topic: String,
    pub expression: String,
    pub kind: String,
}

/// The online consumers of a group on all brokers, and what they subscribe to.
#[derive(Debug, Default)]
pub struct Members {
    pub members: Vec<Member>,
    pub subscriptions: Vec<Subscription>,
    /// In RocketMQ's words; empty when no consumer is online.
    pub consume_type: String,
    pub message_model: String,
}

impl Members {
    pub async fn of(session: &Session, brokers: &[Broker], group: &str) -> Result<Members, Error> {
        let mut all = Members::default();
        for broker in brokers {
            match session.admin.consumers(&broker.address, group).await {
                Err(Error::NotOnline { .. }) => {}
                other => all.add(other?),
            }
        }
        all.members.sort_unstable();
        // A client is connected to every broker and counts once.
        all.members.dedup_by(|one, other| one.client_id == other.client_id);
        all.subscriptions.sort_unstable();
        all.subscriptions.dedup();
        Ok(all)
    }

    fn add(&mut self, found: ConsumerConnection) {
        self.members.extend(found.connection_set.into_iter().map(|client| Member {
            client_id: client.client_id,
            address: client.client_addr,
            language: client.language,
            version: version(client.version),
        }));
        self.subscriptions.extend(found.subscription_table.into_values().map(|wanted| Subscription {
            topic: wanted.topic,
            expression: wanted.sub_string,
            kind: wanted.expression_type.unwrap_or_else(|| "TAG".to_owned()),
        }));
        self.consume_type = found.consume_type;
        self.message_model = found.message_model;
    }
}

/// `5.3.1` for 475.
fn version(number: i32) -> String {
    let Some(release) = number.checked_sub(FIRST_VERSION).filter(|release| *release >= 0) else {
        return number.to_string();
    };
    let release = release / NUMBERS_PER_RELEASE;
    format!("{}.{}.{}", 4 + release / 100, release / 10 % 10, release % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_rocketmq() {
        let known =
            [(213, "4.0.0"), (409, "4.9.8"), (413, "5.0.0"), (475, "5.3.1"), (513, "5.5.0"), (7, "7")];
        for (number, name) in known {
            assert_eq!(version(number), name);
        }
        assert_eq!(version(i32::MIN), i32::MIN.to_string());
    }
}
