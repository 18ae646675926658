use std::{collections::BTreeMap, time::Duration};

use clap::Args;
use redstart_client::admin::{Broker, Error, Target};
use redstart_wire::remoting::body::{GroupConfig, GroupRetryPolicy};
use serde::Serialize;

use super::{
    dead_letters,
    members::{Member, Members, Subscription},
};
use crate::admin::{
    Session,
    offset::QueueProgress,
    output::{Style, View, fields},
    table::Table,
};

#[derive(Debug, Args)]
pub struct Show {
    name: String,
}

impl Show {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let admin = &session.admin;
        let (mut config, mut brokers) = (None::<GroupConfig>, Vec::<Broker>::new());
        for broker in admin.masters(&Target::Everywhere).await? {
            match admin.group(&broker.address, &self.name).await {
                Err(Error::UnknownGroup { .. }) => continue,
                known => config = Some(known?),
            }
            brokers.push(broker);
        }
        let config = config.ok_or_else(|| Error::UnknownGroup { group: self.name.clone() })?;
        let progress = admin.progress(&self.name, None).await?;
        let members = Members::of(session, &brokers, &self.name).await?;
        let mut dead = 0;
        for broker in &brokers {
            dead += dead_letters(admin, &broker.address, &self.name).await?;
        }
        session.output.show(&Group {
            group: self.name.clone(),
            enabled: config.consume_enable,
            ordered: config.consume_message_orderly,
            max_retries: config.retry_max_times,
            retry_delays: config.group_retry_policy.as_ref().and_then(retry_delays),
            attributes: config.attributes.unwrap_or_default(),
            brokers: brokers.into_iter().map(|broker| broker.name).collect(),
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

/// `1s 5s 10s`, `from 5s to 2h, times 2`; nothing where the server has its own.
fn retry_delays(policy: &GroupRetryPolicy) -> Option<String> {
    let exponential = policy.r#type.as_deref() == Some("EXPONENTIAL");
    match (exponential, &policy.exponential_retry_policy, &policy.customized_retry_policy) {
        (true, Some(policy), _) => {
            let (from, to) = (length(policy.initial), length(policy.max));
            Some(format!("from {from} to {to}, times {}", policy.multiplier))
        }
        (false, _, Some(policy)) => {
            Some(policy.next.iter().map(|ms| length(*ms)).collect::<Vec<_>>().join(" "))
        }
        _ => None,
    }
}

fn length(ms: u64) -> String {
    let length = Duration::from_millis(ms);
    match (length.as_secs(), length.subsec_millis()) {
        (seconds, 0) if seconds >= 3600 && seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
        (seconds, 0) if seconds >= 60 && seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        (seconds, 0) => format!("{seconds}s"),
        _ => format!("{ms}ms"),
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
            ("retry delays", self.retry_delays.clone().unwrap_or_else(|| "the server's".to_owned())),
            ("brokers", self.brokers.join(" ")),
            ("lag", format!("{}, {:.1} a second consumed", self.lag, self.per_second)),
            ("dead letters", self.dead_letters.to_string()),
        ];
        let attributes: Vec<String> =
            self.attributes.iter().map(|(key, value)| format!("{key}={value}")).collect();
        if !attributes.is_empty() {
            lines.push(("attributes", attributes.join(" ")));
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
        let mut wanted = Table::new().left("SUBSCRIBES TO").left("EXPRESSION").left("KIND");
        for subscription in &self.subscriptions {
            wanted.row([
                subscription.topic.clone(),
                subscription.expression.clone(),
                subscription.kind.clone(),
            ]);
        }
        members.render(style) + "\n" + &wanted.render(style)
    }
}

impl View for Group {
    fn text(&self, style: Style) -> String {
        let queues = match &self.queues[..] {
            [] => "it has read no topic yet".to_owned(),
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
            "retry delays  the server's\n",
            "brokers       broker-a\n",
            "lag           20, 1.5 a second consumed\n",
            "dead letters  0\n",
            "\n",
            "MEMBER  ADDRESS     LANGUAGE  VERSION\n",
            "host@1  10.0.0.1:5  JAVA      5.3.1\n",
            "\n",
            "SUBSCRIBES TO  EXPRESSION  KIND\n",
            "orders         *           TAG\n",
            "\n",
            "TOPIC   BROKER    QUEUE  CONSUMED  NEXT  LAG  IN FLIGHT  LAST CONSUMED (UTC)\n",
            "orders  broker-a      3       100   120   20         10  -\n",
        );
        assert_eq!(group.text(Style::default()), expected);
    }

    #[test]
    fn delays_are_short() {
        let lengths = [500, 1000, 60_000, 90_000, 7_200_000].map(length);
        assert_eq!(lengths, ["500ms", "1s", "1m", "90s", "2h"]);
    }
}
