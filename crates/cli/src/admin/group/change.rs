use std::time::Duration;

use anyhow::bail;
use clap::Args;
use redstart_client::admin::{Broker, DEAD_LETTER_PREFIX, Error, RETRY_PREFIX};
use redstart_wire::remoting::body::{CustomizedRetry, GroupConfig, GroupRetryPolicy};
use serde::Serialize;

use super::{dead_letters, members::Members};
use crate::admin::{
    Session,
    confirm::Consent,
    output::{Style, View, count, listed},
    target::Where,
    time,
};

const RETRIES_DEFAULT: i32 = 16;

/// `1s,10s,1m`.
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

#[derive(Debug, Args)]
pub struct Create {
    name: String,
    /// Messages of a message group are consumed in order
    #[arg(long)]
    ordered: bool,
    /// How often a message is tried again before it is a dead letter
    #[arg(long, value_name = "N", default_value_t = RETRIES_DEFAULT, value_parser = clap::value_parser!(i32).range(0..))]
    max_retries: i32,
    /// When a message is tried again, such as 1s,10s,1m
    #[arg(long, value_name = "DELAYS", value_parser = delays)]
    retry_delays: Option<Delays>,
    #[command(flatten)]
    at: Where,
}

impl Create {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let masters = session.admin.masters(&self.at.target()).await?;
        for broker in &masters {
            match session.admin.group(&broker.address, &self.name).await {
                Err(Error::UnknownGroup { .. }) => {}
                Err(error) => return Err(error.into()),
                Ok(_) => bail!(
                    "there is a consumer group {0} on {1} already; change it with: redstart group update {0}",
                    self.name,
                    broker.name
                ),
            }
        }
        let config = GroupConfig {
            group_name: self.name.clone(),
            consume_enable: true,
            consume_message_orderly: self.ordered,
            retry_max_times: self.max_retries,
            group_retry_policy: self.retry_delays.as_ref().map(Delays::policy),
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
    name: String,
    /// Messages of a message group are consumed in order, or not
    #[arg(long, value_name = "BOOL")]
    ordered: Option<bool>,
    /// Whether consumers of the group get messages
    #[arg(long, value_name = "BOOL")]
    enabled: Option<bool>,
    /// How often a message is tried again before it is a dead letter
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    max_retries: Option<i32>,
    /// When a message is tried again, such as 1s,10s,1m
    #[arg(long, value_name = "DELAYS", value_parser = delays)]
    retry_delays: Option<Delays>,
    #[command(flatten)]
    at: Where,
}

impl Update {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        if self.ordered.is_none()
            && self.enabled.is_none()
            && self.max_retries.is_none()
            && self.retry_delays.is_none()
        {
            bail!("nothing to change: give --ordered, --enabled, --max-retries or --retry-delays");
        }
        let having = having(session, &self.name, &self.at).await?;
        let mut last = None;
        for (broker, old) in &having {
            let config = GroupConfig {
                consume_enable: self.enabled.unwrap_or(old.consume_enable),
                consume_message_orderly: self.ordered.unwrap_or(old.consume_message_orderly),
                retry_max_times: self.max_retries.unwrap_or(old.retry_max_times),
                group_retry_policy: match &self.retry_delays {
                    Some(delays) => Some(delays.policy()),
                    None => old.group_retry_policy.clone(),
                },
                // These are changes, and there are none.
                attributes: None,
                ..old.clone()
            };
            session.admin.put_group(&broker.address, &config).await?;
            last = Some(config);
        }
        let brokers: Vec<Broker> = having.into_iter().map(|(broker, _)| broker).collect();
        session.output.show(&Changed::new(&last.unwrap_or_default(), &brokers, "changed"))
    }
}

/// The brokers that have the group, and what it is there.
pub async fn having(
    session: &Session,
    group: &str,
    at: &Where,
) -> anyhow::Result<Vec<(Broker, GroupConfig)>> {
    let mut found = Vec::new();
    for broker in session.admin.masters(&at.target()).await? {
        match session.admin.group(&broker.address, group).await {
            Err(Error::UnknownGroup { .. }) => {}
            other => found.push((broker, other?)),
        }
    }
    if found.is_empty() {
        return Err(Error::UnknownGroup { group: group.to_owned() }.into());
    }
    Ok(found)
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
    fn new(config: &GroupConfig, brokers: &[Broker], done: &'static str) -> Changed {
        Changed {
            group: config.group_name.clone(),
            enabled: config.consume_enable,
            ordered: config.consume_message_orderly,
            max_retries: config.retry_max_times,
            brokers: brokers.iter().map(|broker| broker.name.clone()).collect(),
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
    name: String,
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    consent: Consent,
}

impl Delete {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let admin = &session.admin;
        let brokers: Vec<Broker> =
            having(session, &self.name, &self.at).await?.into_iter().map(|(broker, _)| broker).collect();
        let (mut lag, mut dead) = (0, 0);
        for broker in &brokers {
            let stats = admin.consume_stats(&broker.address, &self.name, None).await?;
            lag += stats.queues.iter().map(|(_, row)| row.lag()).sum::<i64>();
            dead += dead_letters(admin, &broker.address, &self.name).await?;
        }
        let online = Members::of(session, &brokers, &self.name).await?.members.len();
        let names: Vec<String> = brokers.iter().map(|broker| broker.name.clone()).collect();
        let members =
            if online > 0 { format!(" ({} online)", count(online, "consumer")) } else { String::new() };
        let what = format!(
            "delete consumer group {}{members} on {} with its progress ({} not consumed) and {}",
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
    fn a_change_is_told_in_one_line() {
        let config = GroupConfig { group_name: "g".to_owned(), retry_max_times: 1, ..GroupConfig::default() };
        let broker = Broker { cluster: "c".to_owned(), name: "a".to_owned(), id: 0, address: String::new() };
        let text = Changed::new(&config, &[broker], "changed").text(Style::default());
        assert_eq!(text, "consumer group g changed: concurrent, 1 retry, disabled on a");
    }
}
