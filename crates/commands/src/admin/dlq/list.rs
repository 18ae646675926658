//! `redstart dlq list`.

use std::collections::BTreeMap;

use clap::Args;
use redstart_client::admin::{DEAD_LETTER_PREFIX, Target};
use serde::Serialize;

use crate::admin::{
    Session,
    output::{Style, View},
    resource::stored_messages,
    table::Table,
    time::Time,
};

#[derive(Debug, Args)]
pub struct List {}

impl List {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let admin = &session.admin;
        let mut found: BTreeMap<String, (i64, i64)> = BTreeMap::new();
        for broker in admin.masters(&Target::Everywhere).await? {
            let topics = admin.topic_configs(&broker.address).await?;
            for topic in topics.keys().filter(|topic| topic.starts_with(DEAD_LETTER_PREFIX)) {
                let group = &topic[DEAD_LETTER_PREFIX.len()..];
                let stats = admin.topic_stats(&broker.address, topic).await?;
                let (letters, last) = found.entry(group.to_owned()).or_default();
                *letters += stored_messages(&stats);
                let stored = stats.queues.iter().map(|(_, row)| row.last_update_timestamp);
                *last = stored.max().unwrap_or_default().max(*last);
            }
        }
        found.retain(|_, (letters, _)| *letters > 0);
        let row = |(group, (dead_letters, last)): (String, (i64, i64))| Row {
            group,
            dead_letters,
            last_at: Time(last),
        };
        session.output.show(&Groups { groups: found.into_iter().map(row).collect() })
    }
}

#[derive(Debug, Serialize)]
struct Groups {
    groups: Vec<Row>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    group: String,
    dead_letters: i64,
    last_at: Time,
}

impl View for Groups {
    fn text(&self, style: Style) -> String {
        if self.groups.is_empty() {
            return "no group has dead letters".to_owned();
        }
        let mut table = Table::new().left("GROUP").right("DEAD LETTERS").left("LAST");
        for row in &self.groups {
            table.row([row.group.clone(), row.dead_letters.to_string(), style.time(row.last_at)]);
        }
        table.render(style)
    }
}
