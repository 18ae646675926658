use anyhow::bail;
use clap::Args;
use redstart_client::admin::{Broker, Error, TopicSpec};
use redstart_engine::TopicName;
use serde::Serialize;

use super::{Kind, MESSAGE_TYPE, Permission, Settings};
use crate::admin::{
    Session,
    confirm::Consent,
    output::{Style, View, count, listed},
    target::Where,
};

/// `key=value`.
fn attribute(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} is no attribute; write key=value")),
    }
}

/// In the words of the protocol.
fn attributes(kind: Option<Kind>, others: &[(String, String)]) -> String {
    let kind = kind.map(|kind| format!("+{MESSAGE_TYPE}={}", kind.name()));
    let others = others.iter().map(|(key, value)| format!("+{key}={value}"));
    kind.into_iter().chain(others).collect::<Vec<_>>().join(",")
}

#[derive(Debug, Args)]
pub struct Create {
    name: String,
    /// What kind of messages it takes
    #[arg(long, value_enum, default_value_t = Kind::Normal)]
    r#type: Kind,
    /// Queues on each broker
    #[arg(long, default_value_t = 8, value_name = "N")]
    queues: u32,
    /// Who may read and write
    #[arg(long, value_enum, default_value_t = Permission::Rw)]
    permission: Permission,
    /// Further attributes, such as lite.topic.expiration=60
    #[arg(long = "attribute", value_name = "KEY=VALUE", value_parser = attribute)]
    attributes: Vec<(String, String)>,
    #[command(flatten)]
    at: Where,
}

impl Create {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        if TopicName::new(&self.name).is_ok_and(|name| name.is_reserved()) {
            bail!("topic {} is the broker's own: it is made when it is needed", self.name);
        }
        let admin = &session.admin;
        let masters = admin.masters(&self.at.target()).await?;
        for broker in &masters {
            match admin.topic_config(&broker.address, &self.name).await {
                Err(Error::UnknownTopic { .. }) => {}
                Err(error) => return Err(error.into()),
                Ok(_) => bail!(
                    "there is a topic {0} on {1} already; change it with: redstart topic update {0}",
                    self.name,
                    broker.name
                ),
            }
        }
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
    name: String,
    /// What kind of messages it takes
    #[arg(long, value_enum)]
    r#type: Option<Kind>,
    /// Queues on each broker
    #[arg(long, value_name = "N")]
    queues: Option<u32>,
    /// Queues that are read, while the others are drained or added
    #[arg(long, value_name = "N", conflicts_with = "queues")]
    read_queues: Option<u32>,
    /// Queues that are written to
    #[arg(long, value_name = "N", conflicts_with = "queues")]
    write_queues: Option<u32>,
    /// Who may read and write
    #[arg(long, value_enum)]
    permission: Option<Permission>,
    /// Further attributes
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
            bail!("nothing to change: give --queues, --type, --permission or --attribute");
        }
        let having = having(session, &self.name, &self.at).await?;
        let brokers: Vec<Broker> = having.iter().map(|(broker, _)| broker.clone()).collect();
        let changed = |at: usize| {
            let old = &having[at].1;
            TopicSpec {
                read_queues: self.queues.or(self.read_queues).unwrap_or(old.read_queues),
                write_queues: self.queues.or(self.write_queues).unwrap_or(old.write_queues),
                permission: self.permission.map_or(old.permission, Permission::bits),
                attributes: attributes(self.r#type, &self.attributes),
                ..old.clone()
            }
        };
        session.output.show(&Changed { settings: put(session, &brokers, changed).await?, done: "changed" })
    }
}

/// The brokers that have the topic, and what it is there.
async fn having(session: &Session, topic: &str, at: &Where) -> anyhow::Result<Vec<(Broker, TopicSpec)>> {
    let mut found = Vec::new();
    for broker in session.admin.masters(&at.target()).await? {
        match session.admin.topic_config(&broker.address, topic).await {
            Err(Error::UnknownTopic { .. }) => {}
            other => found.push((broker, TopicSpec::of(&other?))),
        }
    }
    if found.is_empty() {
        return Err(Error::UnknownTopic { topic: topic.to_owned() }.into());
    }
    Ok(found)
}

/// Changes the topic on each broker, and reads what it then is.
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
    let names = brokers.iter().map(|broker| broker.name.clone()).collect();
    Ok(Settings::new(&last.unwrap_or_default(), names))
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
        let (mut messages, mut groups) = (0, Vec::new());
        for broker in &brokers {
            let stats = admin.topic_stats(&broker.address, &self.name).await?;
            messages += stats.queues.iter().map(|(_, row)| row.max_offset - row.min_offset).sum::<i64>();
            groups.extend(admin.groups_of_topic(&broker.address, &self.name).await.unwrap_or_default());
        }
        groups.sort_unstable();
        groups.dedup();
        let names: Vec<String> = brokers.iter().map(|broker| broker.name.clone()).collect();
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
        // While other brokers have the topic, the name servers keep its route there.
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
    fn attributes_are_written_as_the_protocol_wants_them() {
        assert_eq!(attributes(None, &[]), "");
        let expiration = attribute("lite.topic.expiration=60").unwrap();
        assert_eq!(
            attributes(Some(Kind::Lite), &[expiration]),
            "+message.type=LITE,+lite.topic.expiration=60"
        );
        for bad in ["", "a", "=b", "a="] {
            assert!(attribute(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_change_is_told_in_one_line() {
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
