use std::collections::BTreeMap;

use clap::Args;
use redstart_client::admin::{Admin, DEAD_LETTER_PREFIX, RETRY_PREFIX};
use redstart_wire::remoting::body::TopicEntry;
use serde::Serialize;

use super::Settings;
use crate::admin::{
    Session, all,
    output::{Style, View},
    table::Table,
    target::Where,
};

#[derive(Debug, Args)]
pub struct List {
    /// Also topics for retries and dead letters, and the server's own
    #[arg(short, long)]
    all: bool,
    #[command(flatten)]
    at: Where,
}

impl List {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let admin = &session.admin;
        let brokers = admin.masters(&self.at.target()).await?;
        // By topic: what it is, and the brokers that have it.
        let mut found: BTreeMap<String, (TopicEntry, Vec<usize>)> = BTreeMap::new();
        for (at, broker) in brokers.iter().enumerate() {
            for (name, entry) in admin.topic_configs(&broker.address).await? {
                found.entry(name).or_insert((entry, Vec::new())).1.push(at);
            }
        }
        let internal = |name: &str| {
            name.starts_with(RETRY_PREFIX)
                || name.starts_with(DEAD_LETTER_PREFIX)
                || Admin::is_own_topic(name, &brokers)
        };
        let before = found.len();
        if !self.all {
            found.retain(|name, _| !internal(name));
        }
        let hidden = before - found.len();
        let row = async |(name, (entry, at)): (&String, &(TopicEntry, Vec<usize>))| {
            let mut messages = Some(0);
            for broker in at.iter().map(|at| &brokers[*at]) {
                let stats = admin.topic_stats(&broker.address, name).await.ok();
                let held = stats.map(|stats| {
                    stats.queues.iter().map(|(_, row)| row.max_offset - row.min_offset).sum::<i64>()
                });
                messages = messages.zip(held).map(|(sum, held)| sum + held);
            }
            let names = at.iter().map(|at| brokers[*at].name.clone()).collect();
            Row { settings: Settings::new(entry, names), messages }
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
    /// `None` when a broker did not say.
    messages: Option<i64>,
}

impl View for Topics {
    fn text(&self, style: Style) -> String {
        if self.topics.is_empty() {
            let all = if self.hidden > 0 { " (the server's own are shown with --all)" } else { "" };
            return format!("no topics yet{all}; create one with: redstart topic create NAME");
        }
        let mut table = Table::new()
            .left("TOPIC")
            .left("TYPE")
            .right("QUEUES")
            .left("PERM")
            .right("MESSAGES")
            .left("BROKERS");
        for row in &self.topics {
            table.row([
                row.settings.topic.clone(),
                row.settings.r#type.clone(),
                row.settings.queues(),
                row.settings.permission.to_owned(),
                row.messages.map_or_else(|| "?".to_owned(), |messages| messages.to_string()),
                row.settings.brokers.join(" "),
            ]);
        }
        table.render(style)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_listed_and_none_is_said_in_words() {
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
        };
        let topics = Topics { topics: vec![row("orders", Some(1200)), row("t", None)], hidden: 0 };
        let expected = concat!(
            "TOPIC   TYPE    QUEUES  PERM  MESSAGES  BROKERS\n",
            "orders  NORMAL       8  rw        1200  a\n",
            "t       NORMAL       8  rw           ?  a\n",
        );
        assert_eq!(topics.text(Style::default()), expected);
        let none = Topics { topics: vec![], hidden: 2 }.text(Style::default());
        assert!(none.starts_with("no topics yet (the server's own"), "{none}");
    }
}
