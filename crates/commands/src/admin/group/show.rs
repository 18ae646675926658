//! `redstart group show`.

use std::collections::BTreeMap;

use clap::Args;
use redstart_client::admin::{Broker, Target};
use redstart_engine::CONSUME_FROM;
use redstart_wire::remoting::body::GroupConfig;
use serde::Serialize;

use super::{
    dead_letters,
    members::{Member, Members, Subscription},
    retry_delays,
};
use crate::admin::{
    Session,
    offset::QueueProgress,
    output::{self, Style, View, fields},
    resource::{broker_names, holders},
    table::Table,
};

#[derive(Debug, Args)]
pub struct Show {
    /// Name of the consumer group
    name: String,
}

impl Show {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let admin = &session.admin;
        let held = holders::<GroupConfig>(session, &self.name, &Target::Everywhere).await?;
        let (brokers, mut configs): (Vec<Broker>, Vec<GroupConfig>) = held.into_iter().unzip();
        let config = configs.pop().unwrap_or_default();
        let progress = admin.progress(&self.name, None).await?;
        let members = Members::of(session, &brokers, &self.name).await?;
        let mut dead = 0;
        for broker in &brokers {
            dead += dead_letters(admin, &broker.address, &self.name).await?;
        }
        let attributes = config.attributes.unwrap_or_default();
        session.output.show(&Group {
            group: self.name.clone(),
            enabled: config.consume_enable,
            ordered: config.consume_message_orderly,
            max_retries: config.retry_max_times,
            retry_delays: config.group_retry_policy.as_ref().and_then(retry_delays),
            from: attributes.get(CONSUME_FROM).cloned(),
            attributes,
            brokers: broker_names(&brokers),
            consume_type: members.consume_type,
            message_model: members.message_model,
            members: members.members,
            subscriptions: members.subscriptions,
            lag: progress.lag(),
            per_second: progress.per_second,
            dead_letters: dead,
            queues: progress.queues.iter().map(QueueProgress::new).collect(),
        })
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    group: String,
    enabled: bool,
    ordered: bool,
    max_retries: i32,
    retry_delays: Option<String>,
    from: Option<String>,
    attributes: BTreeMap<String, String>,
    brokers: Vec<String>,
    consume_type: String,
    message_model: String,
    members: Vec<Member>,
    subscriptions: Vec<Subscription>,
    lag: i64,
    per_second: f64,
    dead_letters: i64,
    queues: Vec<QueueProgress>,
}

impl Group {
    fn fields(&self, style: Style) -> String {
        let mut lines = vec![
            ("group", self.group.clone()),
            ("order", if self.ordered { "ordered" } else { "concurrent" }.to_owned()),
            ("enabled", if self.enabled { "yes" } else { "no" }.to_owned()),
            ("retries", self.max_retries.to_string()),
            ("retry delays", self.retry_delays.clone().unwrap_or_else(|| "server default".to_owned())),
            ("starts from", self.from.clone().unwrap_or_else(|| "server default".to_owned())),
            ("brokers", self.brokers.join(" ")),
            ("lag", format!("{}, consuming {:.1}/s", self.lag, self.per_second)),
            ("dead letters", self.dead_letters.to_string()),
        ];
        if !self.attributes.is_empty() {
            lines.push(("attributes", output::attributes(&self.attributes)));
        }
        fields(style, &lines)
    }

    fn members(&self, style: Style) -> String {
        if self.members.is_empty() {
            return "no consumer is online\n".to_owned();
        }
        let mut members = Table::new().left("MEMBER").left("ADDRESS").left("LANGUAGE").left("VERSION");
        for member in &self.members {
            members.row([
                member.client_id.clone(),
                member.address.clone(),
                member.language.clone(),
                member.version.clone(),
            ]);
        }
        let mut subscriptions = Table::new().left("SUBSCRIBES TO").left("EXPRESSION").left("KIND");
        for subscription in &self.subscriptions {
            subscriptions.row([
                subscription.topic.clone(),
                subscription.expression.clone(),
                subscription.kind.clone(),
            ]);
        }
        members.render(style) + "\n" + &subscriptions.render(style)
    }
}

impl View for Group {
    fn text(&self, style: Style) -> String {
        let queues = match &self.queues[..] {
            [] => "the group has not consumed from any topic yet".to_owned(),
            queues => QueueProgress::table(queues, style),
        };
        [self.fields(style), self.members(style), queues].join("\n")
    }
}

#[cfg(test)]
mod tests {
    use redstart_wire::remoting::body::ConsumeStatsRow;

    use super::*;

    #[test]
    fn a_group_is_shown_with_its_members_and_its_lag() {
        let queue = redstart_wire::remoting::body::Queue {
            broker_name: "broker-a".to_owned(),
            queue_id: 3,
            topic: "orders".to_owned(),
        };
        let row =
            ConsumeStatsRow { broker_offset: 120, consumer_offset: 100, pull_offset: 110, last_timestamp: 0 };
        let group = Group {
            group: "billing".to_owned(),
            enabled: true,
            ordered: false,
            max_retries: 16,
            retry_delays: None,
            from: Some("earliest".to_owned()),
            attributes: BTreeMap::new(),
            brokers: vec!["broker-a".to_owned()],
            consume_type: "CONSUME_PASSIVELY".to_owned(),
            message_model: "CLUSTERING".to_owned(),
            members: vec![Member {
                client_id: "host@1".to_owned(),
                address: "10.0.0.1:5".to_owned(),
                language: "JAVA".to_owned(),
                version: "5.3.1".to_owned(),
            }],
            subscriptions: vec![Subscription {
                topic: "orders".to_owned(),
                expression: "*".to_owned(),
                kind: "TAG".to_owned(),
            }],
            lag: 20,
            per_second: 1.5,
            dead_letters: 0,
            queues: vec![QueueProgress::new(&(queue, row))],
        };
        let expected = concat!(
            "group         billing\n",
            "order         concurrent\n",
            "enabled       yes\n",
            "retries       16\n",
            "retry delays  server default\n",
            "starts from   earliest\n",
            "brokers       broker-a\n",
            "lag           20, consuming 1.5/s\n",
            "dead letters  0\n",
            "\n",
            "MEMBER  ADDRESS     LANGUAGE  VERSION\n",
            "host@1  10.0.0.1:5  JAVA      5.3.1\n",
            "\n",
            "SUBSCRIBES TO  EXPRESSION  KIND\n",
            "orders         *           TAG\n",
            "\n",
            "TOPIC   BROKER    QUEUE  CONSUMED  NEXT  LAG  IN FLIGHT  LAST CONSUMED\n",
            "orders  broker-a      3       100   120   20         10  -\n",
        );
        assert_eq!(group.text(Style::default()), expected);
    }
}
