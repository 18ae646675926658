//! `redstart topic list`.

use std::collections::BTreeMap;

use clap::Args;
use redstart_wire::remoting::body::TopicEntry;
use serde::Serialize;

use super::Settings;
use crate::admin::{
    Session, all,
    output::{self, Style, View},
    resource::{hide_internal, is_internal_topic, none_yet, stored_messages},
    table::Table,
    target::Where,
};

#[derive(Debug, Args)]
pub struct List {
    /// Include the topics for retries and dead letters, and those that the server uses itself
    #[arg(short, long)]
    all: bool,
    #[command(flatten)]
    at: Where,
}

impl List {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let admin = &session.admin;
        let brokers = admin.masters(&self.at.target()).await?;
        // By topic: its settings, and the positions in `brokers` of those that have it.
        let mut found: BTreeMap<String, (TopicEntry, Vec<usize>)> = BTreeMap::new();
        for (at, broker) in brokers.iter().enumerate() {
            for (name, entry) in admin.topic_configs(&broker.address).await? {
                found.entry(name).or_insert((entry, Vec::new())).1.push(at);
            }
        }
        let hidden = hide_internal(&mut found, self.all, |name| is_internal_topic(name, &brokers));
        let row = async |(name, (entry, at)): (&String, &(TopicEntry, Vec<usize>))| {
            let mut messages = Some(0);
            for broker in at.iter().map(|at| &brokers[*at]) {
                let stats = admin.topic_stats(&broker.address, name).await.ok();
                let stored = stats.as_ref().map(stored_messages);
                messages = messages.zip(stored).map(|(sum, stored)| sum + stored);
            }
            let names = at.iter().map(|at| brokers[*at].name.clone()).collect();
            let attributes = output::attributes(&entry.attributes);
            Row { settings: Settings::new(entry, names), messages, attributes }
        };
        let topics = all(found.iter().map(row)).await;
        session.output.show(&Topics { topics, hidden })
    }
}

#[derive(Debug, Serialize)]
struct Topics {
    topics: Vec<Row>,
    #[serde(skip)]
    hidden: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    #[serde(flatten)]
    settings: Settings,
    /// `None` when a broker did not answer.
    messages: Option<i64>,
    #[serde(skip)]
    attributes: String,
}

impl View for Topics {
    fn text(&self, style: Style) -> String {
        if self.topics.is_empty() {
            return none_yet("topics", self.hidden, "create one with: redstart topic create NAME");
        }
        let mut table = Table::new()
            .left("TOPIC")
            .left("TYPE")
            .right("QUEUES")
            .left("PERM")
            .right("MESSAGES")
            .left("BROKERS")
            .wide("ATTRIBUTES");
        for row in &self.topics {
            table.row([
                row.settings.topic.clone(),
                row.settings.r#type.clone(),
                row.settings.queues(),
                row.settings.permission.to_owned(),
                row.messages.map_or_else(|| "?".to_owned(), |messages| messages.to_string()),
                row.settings.brokers.join(" "),
                row.attributes.clone(),
            ]);
        }
        table.render(style)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_listed_and_an_empty_list_is_a_sentence() {
        let row = |topic: &str, messages| Row {
            settings: Settings {
                topic: topic.to_owned(),
                r#type: "NORMAL".to_owned(),
                read_queues: 8,
                write_queues: 8,
                permission: "rw",
                brokers: vec!["a".to_owned()],
            },
            messages,
            attributes: "a=b".to_owned(),
        };
        let topics = Topics { topics: vec![row("orders", Some(1200)), row("t", None)], hidden: 0 };
        let expected = concat!(
            "TOPIC   TYPE    QUEUES  PERM  MESSAGES  BROKERS\n",
            "orders  NORMAL       8  rw        1200  a\n",
            "t       NORMAL       8  rw           ?  a\n",
        );
        assert_eq!(topics.text(Style::default()), expected);
        let wide = topics.text(Style::wide());
        assert!(wide.contains("BROKERS  ATTRIBUTES\n") && wide.contains("a        a=b\n"), "{wide}");
        let none = Topics { topics: vec![], hidden: 2 }.text(Style::default());
        assert!(none.starts_with("no topics yet (internal ones"), "{none}");
    }
}
