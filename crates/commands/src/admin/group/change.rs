//! `redstart group create`, `update` and `delete`.

use std::{collections::BTreeMap, time::Duration};

use clap::Args;
use redstart_client::admin::{Broker, DEAD_LETTER_PREFIX, RETRY_PREFIX};
use redstart_engine::{CONSUME_FROM, ConsumeFrom};
use redstart_wire::remoting::body::{CustomizedRetry, GroupConfig, GroupRetryPolicy};
use serde::Serialize;

use super::{dead_letters, members::Members};
use crate::admin::{
    Session,
    confirm::Consent,
    output::{Style, View, count, listed},
    resource::{attribute, broker_names, holders, nothing_to_change, refuse_existing},
    target::Where,
    time,
};

const RETRIES_DEFAULT: i32 = 16;

/// Reads `1s,10s,1m`.
fn delays(text: &str) -> Result<Delays, String> {
    text.split(',').map(|word| time::duration(word.trim())).collect::<Result<_, _>>().map(Delays)
}

#[derive(Debug, Clone)]
struct Delays(Vec<Duration>);

impl Delays {
    fn policy(&self) -> GroupRetryPolicy {
        let next = self.0.iter().map(|delay| delay.as_millis() as u64).collect();
        GroupRetryPolicy {
            r#type: Some("CUSTOMIZED".to_owned()),
            customized_retry_policy: Some(CustomizedRetry { next }),
            ..GroupRetryPolicy::default()
        }
    }
}

/// The protocol sends changes of attributes, not their new state: `+` before a key sets it, the others stay.
fn attribute_changes(
    set: &[(String, String)],
    from: Option<ConsumeFrom>,
) -> Option<BTreeMap<String, String>> {
    let set = set.iter().map(|(key, value)| (format!("+{key}"), value.clone()));
    let from = from.map(|from| (format!("+{CONSUME_FROM}"), from.to_string()));
    let changes: BTreeMap<String, String> = set.chain(from).collect();
    (!changes.is_empty()).then_some(changes)
}

#[derive(Debug, Args)]
pub struct Create {
    /// Name of the consumer group
    name: String,
    /// Deliver the messages of a message group in order
    #[arg(long)]
    ordered: bool,
    /// Number of retries after which a message becomes a dead letter
    #[arg(long, value_name = "N", default_value_t = RETRIES_DEFAULT, value_parser = clap::value_parser!(i32).range(0..))]
    max_retries: i32,
    /// Delays before the retries, such as 1s,10s,1m
    #[arg(long, value_name = "DELAYS", value_parser = delays)]
    retry_delays: Option<Delays>,
    /// First message that the group gets of a topic: the earliest stored one, or the next one that arrives (latest). Without
    /// it, the server's setting `new_groups_from` decides
    #[arg(long, value_name = "earliest|latest")]
    from: Option<ConsumeFrom>,
    /// Further attributes, such as lite.bind.topic=orders; may be given several times
    #[arg(long = "attribute", value_name = "KEY=VALUE", value_parser = attribute)]
    attributes: Vec<(String, String)>,
    #[command(flatten)]
    at: Where,
}

impl Create {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let masters = session.admin.masters(&self.at.target()).await?;
        refuse_existing::<GroupConfig>(session, &masters, &self.name).await?;
        let config = GroupConfig {
            group_name: self.name.clone(),
            consume_enable: true,
            consume_message_orderly: self.ordered,
            retry_max_times: self.max_retries,
            group_retry_policy: self.retry_delays.as_ref().map(Delays::policy),
            attributes: attribute_changes(&self.attributes, self.from),
            ..GroupConfig::default()
        };
        for broker in &masters {
            session.admin.put_group(&broker.address, &config).await?;
        }
        session.output.show(&Changed::new(&config, &masters, "created"))
    }
}

#[derive(Debug, Args)]
pub struct Update {
    /// Name of the consumer group
    name: String,
    /// Deliver the messages of a message group in order, or not
    #[arg(long, value_name = "BOOL")]
    ordered: Option<bool>,
    /// Deliver messages to consumers of the group, or not
    #[arg(long, value_name = "BOOL")]
    enabled: Option<bool>,
    /// Number of retries after which a message becomes a dead letter
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    max_retries: Option<i32>,
    /// Delays before the retries, such as 1s,10s,1m
    #[arg(long, value_name = "DELAYS", value_parser = delays)]
    retry_delays: Option<Delays>,
    /// Where the group begins in topics that it has not consumed yet
    #[arg(long, value_name = "earliest|latest")]
    from: Option<ConsumeFrom>,
    /// Attributes to set, such as lite.bind.topic=orders; may be given several times
    #[arg(long = "attribute", value_name = "KEY=VALUE", value_parser = attribute)]
    attributes: Vec<(String, String)>,
    #[command(flatten)]
    at: Where,
}

impl Update {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        if self.ordered.is_none()
            && self.enabled.is_none()
            && self.max_retries.is_none()
            && self.retry_delays.is_none()
            && self.from.is_none()
            && self.attributes.is_empty()
        {
            return Err(nothing_to_change(
                "--ordered, --enabled, --max-retries, --retry-delays, --from or --attribute",
            ));
        }
        let held = holders::<GroupConfig>(session, &self.name, &self.at.target()).await?;
        let mut last = None;
        for (broker, old) in &held {
            let config = GroupConfig {
                consume_enable: self.enabled.unwrap_or(old.consume_enable),
                consume_message_orderly: self.ordered.unwrap_or(old.consume_message_orderly),
                retry_max_times: self.max_retries.unwrap_or(old.retry_max_times),
                group_retry_policy: match &self.retry_delays {
                    Some(delays) => Some(delays.policy()),
                    None => old.group_retry_policy.clone(),
                },
                attributes: attribute_changes(&self.attributes, self.from),
                ..old.clone()
            };
            session.admin.put_group(&broker.address, &config).await?;
            last = Some(config);
        }
        let brokers = held.iter().map(|(broker, _)| broker);
        session.output.show(&Changed::new(&last.unwrap_or_default(), brokers, "changed"))
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Changed {
    group: String,
    enabled: bool,
    ordered: bool,
    max_retries: i32,
    brokers: Vec<String>,
    #[serde(skip)]
    done: &'static str,
}

impl Changed {
    fn new<'a>(
        config: &GroupConfig,
        brokers: impl IntoIterator<Item = &'a Broker>,
        done: &'static str,
    ) -> Changed {
        Changed {
            group: config.group_name.clone(),
            enabled: config.consume_enable,
            ordered: config.consume_message_orderly,
            max_retries: config.retry_max_times,
            brokers: broker_names(brokers),
            done,
        }
    }
}

impl View for Changed {
    fn text(&self, _: Style) -> String {
        let order = if self.ordered { "ordered" } else { "concurrent" };
        let disabled = if self.enabled { "" } else { ", disabled" };
        let retries = match self.max_retries {
            1 => "1 retry".to_owned(),
            retries => format!("{retries} retries"),
        };
        let brokers = listed(&self.brokers);
        format!("consumer group {} {}: {order}, {retries}{disabled} on {brokers}", self.group, self.done)
    }
}

#[derive(Debug, Args)]
pub struct Delete {
    /// Name of the consumer group
    name: String,
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    consent: Consent,
}

impl Delete {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let admin = &session.admin;
        let held = holders::<GroupConfig>(session, &self.name, &self.at.target()).await?;
        let brokers: Vec<Broker> = held.into_iter().map(|(broker, _)| broker).collect();
        let (mut lag, mut dead) = (0, 0);
        for broker in &brokers {
            let stats = admin.consume_stats(&broker.address, &self.name, None).await?;
            lag += stats.queues.iter().map(|(_, row)| row.lag()).sum::<i64>();
            dead += dead_letters(admin, &broker.address, &self.name).await?;
        }
        let online = Members::of(session, &brokers, &self.name).await?.members.len();
        let names = broker_names(&brokers);
        let members =
            if online > 0 { format!(" ({} online)", count(online, "consumer")) } else { String::new() };
        let what = format!(
            "delete consumer group {}{members} on {} with its offsets ({} not consumed) and {}",
            self.name,
            listed(&names),
            count(lag, "message"),
            count(dead, "dead letter")
        );
        self.consent.ask(&what)?;
        for broker in &brokers {
            admin.delete_group(&broker.address, &self.name, true).await?;
            for prefix in [RETRY_PREFIX, DEAD_LETTER_PREFIX] {
                let topic = format!("{prefix}{}", self.name);
                admin.delete_topic_in_broker(&broker.address, &topic).await?;
                admin.delete_topic_in_names(&topic, Some(&broker.cluster)).await?;
            }
        }
        session.output.show(&Deleted { group: self.name.clone(), dead_letters: dead, brokers: names })
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Deleted {
    group: String,
    dead_letters: i64,
    brokers: Vec<String>,
}

impl View for Deleted {
    fn text(&self, _: Style) -> String {
        let dead = count(self.dead_letters, "dead letter");
        format!("consumer group {} deleted with {dead} on {}", self.group, listed(&self.brokers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_a_list() {
        let policy = delays("1s, 2m").unwrap().policy();
        assert_eq!(policy.customized_retry_policy.unwrap().next, [1000, 120_000]);
        assert!(delays("1s,x").is_err() && delays("").is_err());
    }

    #[test]
    fn attributes_are_sent_as_changes() {
        assert_eq!(attribute_changes(&[], None), None);
        let bound = [attribute("lite.bind.topic=orders").unwrap()];
        let changes = attribute_changes(&bound, Some(ConsumeFrom::Earliest)).unwrap();
        let expected = [("+lite.bind.topic", "orders"), ("+consume.from", "earliest")];
        assert_eq!(changes, expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    }

    #[test]
    fn a_change_is_reported_in_one_line() {
        let config = GroupConfig { group_name: "g".to_owned(), retry_max_times: 1, ..GroupConfig::default() };
        let broker = Broker { cluster: "c".to_owned(), name: "a".to_owned(), id: 0, address: String::new() };
        let text = Changed::new(&config, &[broker], "changed").text(Style::default());
        assert_eq!(text, "consumer group g changed: concurrent, 1 retry, disabled on a");
    }
}
