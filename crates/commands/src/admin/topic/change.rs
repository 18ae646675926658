//! `redstart topic create`, `update` and `delete`.

use clap::Args;
use redstart_client::admin::{Broker, TopicSpec};
use redstart_engine::TopicName;
use redstart_wire::remoting::body::TopicEntry;
use serde::Serialize;

use super::{Kind, MESSAGE_TYPE, Permission, Settings};
use crate::admin::{
    Session,
    confirm::Consent,
    output::{Style, View, count, listed},
    resource::{attribute, broker_names, holders, nothing_to_change, refuse_existing, stored_messages},
    target::Where,
};
use crate::failure::Failure;

/// The protocol sends changes of attributes: `+key=value` sets one, the others stay.
fn attributes(kind: Option<Kind>, others: &[(String, String)]) -> String {
    let kind = kind.map(|kind| format!("+{MESSAGE_TYPE}={}", kind.name()));
    let others = others.iter().map(|(key, value)| format!("+{key}={value}"));
    kind.into_iter().chain(others).collect::<Vec<_>>().join(",")
}

#[derive(Debug, Args)]
pub struct Create {
    /// Name of the topic
    name: String,
    /// Type of its messages
    #[arg(long, value_enum, default_value_t = Kind::Normal)]
    r#type: Kind,
    /// Queues on each broker
    #[arg(long, default_value_t = 8, value_name = "N")]
    queues: u32,
    /// What clients may do: read and write, read, write, or nothing
    #[arg(long, value_enum, default_value_t = Permission::Rw)]
    permission: Permission,
    /// Further attributes, such as lite.topic.expiration=60; may be given several times
    #[arg(long = "attribute", value_name = "KEY=VALUE", value_parser = attribute)]
    attributes: Vec<(String, String)>,
    #[command(flatten)]
    at: Where,
}

impl Create {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        if TopicName::new(&self.name).is_ok_and(|name| name.is_reserved()) {
            let message = format!("topic {} is reserved: the broker creates it when it needs it", self.name);
            return Err(Failure::new("reservedTopic", message).into());
        }
        let masters = session.admin.masters(&self.at.target()).await?;
        refuse_existing::<TopicEntry>(session, &masters, &self.name).await?;
        let spec = TopicSpec {
            permission: self.permission.bits(),
            attributes: attributes(Some(self.r#type), &self.attributes),
            ..TopicSpec::new(&self.name, self.queues)
        };
        session
            .output
            .show(&Changed { settings: put(session, &masters, |_| spec.clone()).await?, done: "created" })
    }
}

#[derive(Debug, Args)]
pub struct Update {
    /// Name of the topic
    name: String,
    /// Type of its messages
    #[arg(long, value_enum)]
    r#type: Option<Kind>,
    /// Queues on each broker
    #[arg(long, value_name = "N")]
    queues: Option<u32>,
    /// Queues that consumers read; differs from --write-queues while queues are added or drained
    #[arg(long, value_name = "N", conflicts_with = "queues")]
    read_queues: Option<u32>,
    /// Queues that producers write to
    #[arg(long, value_name = "N", conflicts_with = "queues")]
    write_queues: Option<u32>,
    /// What clients may do: read and write, read, write, or nothing
    #[arg(long, value_enum)]
    permission: Option<Permission>,
    /// Attributes to set, such as lite.topic.expiration=60; may be given several times
    #[arg(long = "attribute", value_name = "KEY=VALUE", value_parser = attribute)]
    attributes: Vec<(String, String)>,
    #[command(flatten)]
    at: Where,
}

impl Update {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let nothing = self.r#type.is_none()
            && self.queues.is_none()
            && self.read_queues.is_none()
            && self.write_queues.is_none()
            && self.permission.is_none()
            && self.attributes.is_empty();
        if nothing {
            return Err(nothing_to_change("--queues, --type, --permission or --attribute"));
        }
        let held = holders::<TopicEntry>(session, &self.name, &self.at.target()).await?;
        let brokers: Vec<Broker> = held.iter().map(|(broker, _)| broker.clone()).collect();
        let changed = |at: usize| {
            let old = TopicSpec::of(&held[at].1);
            TopicSpec {
                read_queues: self.queues.or(self.read_queues).unwrap_or(old.read_queues),
                write_queues: self.queues.or(self.write_queues).unwrap_or(old.write_queues),
                permission: self.permission.map_or(old.permission, Permission::bits),
                attributes: attributes(self.r#type, &self.attributes),
                ..old
            }
        };
        session.output.show(&Changed { settings: put(session, &brokers, changed).await?, done: "changed" })
    }
}

/// Changes the topic on each broker, and reads its new settings.
async fn put(
    session: &Session,
    brokers: &[Broker],
    spec: impl Fn(usize) -> TopicSpec,
) -> anyhow::Result<Settings> {
    let mut last = None;
    for (at, broker) in brokers.iter().enumerate() {
        let spec = spec(at);
        session.admin.put_topic(&broker.address, &spec).await?;
        last = Some(session.admin.topic_config(&broker.address, &spec.name).await?);
    }
    Ok(Settings::new(&last.unwrap_or_default(), broker_names(brokers)))
}

#[derive(Debug, Serialize)]
struct Changed {
    #[serde(flatten)]
    settings: Settings,
    #[serde(skip)]
    done: &'static str,
}

impl View for Changed {
    fn text(&self, _: Style) -> String {
        let settings = &self.settings;
        let queues = match settings.read_queues == settings.write_queues {
            true => count(settings.read_queues, "queue"),
            false => format!("queues: {}", settings.queues()),
        };
        format!(
            "topic {} {}: {}, {queues}, {} on {}",
            settings.topic,
            self.done,
            settings.r#type,
            settings.permission,
            listed(&settings.brokers)
        )
    }
}

#[derive(Debug, Args)]
pub struct Delete {
    /// Name of the topic
    name: String,
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    consent: Consent,
}

impl Delete {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let admin = &session.admin;
        let held = holders::<TopicEntry>(session, &self.name, &self.at.target()).await?;
        let brokers: Vec<Broker> = held.into_iter().map(|(broker, _)| broker).collect();
        let (mut messages, mut groups) = (0, Vec::new());
        for broker in &brokers {
            messages += stored_messages(&admin.topic_stats(&broker.address, &self.name).await?);
            groups.extend(admin.groups_of_topic(&broker.address, &self.name).await.unwrap_or_default());
        }
        groups.sort_unstable();
        groups.dedup();
        let names = broker_names(&brokers);
        let read = if groups.is_empty() { String::new() } else { format!(", read by {}", listed(&groups)) };
        let what = format!(
            "delete topic {} with {} on {}{read}",
            self.name,
            count(messages, "message"),
            listed(&names)
        );
        self.consent.ask(&what)?;
        let mut clusters: Vec<&str> = Vec::new();
        for broker in &brokers {
            admin.delete_topic_in_broker(&broker.address, &self.name).await?;
            if !clusters.contains(&broker.cluster.as_str()) {
                clusters.push(&broker.cluster);
            }
        }
        // The name servers keep the route while another broker has the topic.
        if admin.topic_config_anywhere(&self.name).await?.is_none() {
            for cluster in clusters {
                admin.delete_topic_in_names(&self.name, Some(cluster)).await?;
            }
        }
        session.output.show(&Deleted { topic: self.name.clone(), messages, brokers: names })
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Deleted {
    topic: String,
    messages: i64,
    brokers: Vec<String>,
}

impl View for Deleted {
    fn text(&self, _: Style) -> String {
        let messages = count(self.messages, "message");
        format!("topic {} deleted with {messages} on {}", self.topic, listed(&self.brokers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_sent_as_changes() {
        assert_eq!(attributes(None, &[]), "");
        let expiration = attribute("lite.topic.expiration=60").unwrap();
        assert_eq!(
            attributes(Some(Kind::Lite), &[expiration]),
            "+message.type=LITE,+lite.topic.expiration=60"
        );
    }

    #[test]
    fn a_change_is_reported_in_one_line() {
        let settings = Settings {
            topic: "orders".to_owned(),
            r#type: "FIFO".to_owned(),
            read_queues: 8,
            write_queues: 8,
            permission: "rw",
            brokers: vec!["a".to_owned(), "b".to_owned()],
        };
        let text = |settings| Changed { settings, done: "created" }.text(Style::default());
        assert_eq!(text(settings.clone()), "topic orders created: FIFO, 8 queues, rw on a and b");
        let shrinking = Settings { write_queues: 4, ..settings };
        assert_eq!(text(shrinking), "topic orders created: FIFO, queues: 8 read, 4 written, rw on a and b");
    }
}
