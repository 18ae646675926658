//! `redstart topic show`.

use std::collections::BTreeMap;

use clap::Args;
use redstart_client::admin::Target;
use redstart_wire::remoting::body::TopicEntry;
use serde::Serialize;

use super::Settings;
use crate::admin::{
    Session, all,
    output::{self, Style, View, fields},
    resource::holders,
    table::Table,
    time::Time,
};

#[derive(Debug, Args)]
pub struct Show {
    /// Name of the topic
    name: String,
}

impl Show {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let admin = &session.admin;
        let (mut entry, mut names) = (TopicEntry::default(), Vec::new());
        let (mut queues, mut groups, mut put_per_second) = (Vec::new(), Vec::new(), 0.0);
        for (broker, held) in holders::<TopicEntry>(session, &self.name, &Target::Everywhere).await? {
            entry = held;
            let stats = admin.topic_stats(&broker.address, &self.name).await?;
            put_per_second += stats.put_per_second;
            queues.extend(stats.queues.into_iter().map(|(queue, row)| Queue {
                broker: queue.broker_name,
                queue: queue.queue_id,
                min_offset: row.min_offset,
                max_offset: row.max_offset,
                messages: row.max_offset - row.min_offset,
                last_stored_at: Time(row.last_update_timestamp),
            }));
            groups.extend(admin.groups_of_topic(&broker.address, &self.name).await.unwrap_or_default());
            names.push(broker.name);
        }
        groups.sort_unstable();
        groups.dedup();
        let group = async |group: &String| {
            let progress = admin.progress(group, Some(&self.name)).await.ok();
            Group { group: group.clone(), lag: progress.map(|progress| progress.lag()) }
        };
        let groups = all(groups.iter().map(group)).await;
        session.output.show(&Topic {
            settings: Settings::new(&entry, names),
            order: entry.order,
            attributes: entry.attributes,
            messages: queues.iter().map(|queue| queue.messages).sum(),
            put_per_second,
            queues,
            groups,
        })
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Topic {
    #[serde(flatten)]
    settings: Settings,
    order: bool,
    attributes: BTreeMap<String, String>,
    messages: i64,
    put_per_second: f64,
    queues: Vec<Queue>,
    groups: Vec<Group>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Queue {
    broker: String,
    queue: i32,
    min_offset: i64,
    max_offset: i64,
    messages: i64,
    last_stored_at: Time,
}

#[derive(Debug, Serialize)]
struct Group {
    group: String,
    lag: Option<i64>,
}

impl View for Topic {
    fn text(&self, style: Style) -> String {
        let mut lines = vec![
            ("topic", self.settings.topic.clone()),
            ("type", self.settings.r#type.clone()),
            ("queues", self.settings.queues()),
            ("permission", self.settings.permission.to_owned()),
            ("brokers", self.settings.brokers.join(" ")),
            ("messages", format!("{}, receiving {:.1}/s", self.messages, self.put_per_second)),
        ];
        if !self.attributes.is_empty() {
            lines.push(("attributes", output::attributes(&self.attributes)));
        }
        let mut queues = Table::new()
            .left("BROKER")
            .right("QUEUE")
            .right("FIRST")
            .right("NEXT")
            .right("MESSAGES")
            .left("LAST STORED");
        for queue in &self.queues {
            queues.row([
                queue.broker.clone(),
                queue.queue.to_string(),
                queue.min_offset.to_string(),
                queue.max_offset.to_string(),
                queue.messages.to_string(),
                style.time(queue.last_stored_at),
            ]);
        }
        let mut text = fields(style, &lines) + "\n" + &queues.render(style) + "\n";
        if self.groups.is_empty() {
            return text + "no group has consumed it";
        }
        let mut groups = Table::new().left("GROUP").right("LAG");
        for group in &self.groups {
            groups
                .row([group.group.clone(), group.lag.map_or_else(|| "?".to_owned(), |lag| lag.to_string())]);
        }
        text += &groups.render(style);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_shown_with_its_queues_and_readers() {
        let queue = |queue, max_offset, last| Queue {
            broker: "broker-a".to_owned(),
            queue,
            min_offset: 0,
            max_offset,
            messages: max_offset,
            last_stored_at: Time(last),
        };
        let topic = Topic {
            settings: Settings {
                topic: "orders".to_owned(),
                r#type: "FIFO".to_owned(),
                read_queues: 2,
                write_queues: 2,
                permission: "rw",
                brokers: vec!["broker-a".to_owned()],
            },
            order: false,
            attributes: [("message.type".to_owned(), "FIFO".to_owned())].into(),
            messages: 12,
            put_per_second: 0.25,
            queues: vec![queue(0, 12, 1_769_860_800_000), queue(1, 0, 0)],
            groups: vec![Group { group: "billing".to_owned(), lag: Some(3) }],
        };
        let expected = concat!(
            "topic       orders\n",
            "type        FIFO\n",
            "queues      2\n",
            "permission  rw\n",
            "brokers     broker-a\n",
            "messages    12, receiving 0.2/s\n",
            "attributes  message.type=FIFO\n",
            "\n",
            "BROKER    QUEUE  FIRST  NEXT  MESSAGES  LAST STORED\n",
            "broker-a      0      0    12        12  2026-01-31 12:00:00.000Z\n",
            "broker-a      1      0     0         0  -\n",
            "\n",
            "GROUP    LAG\n",
            "billing    3\n",
        );
        assert_eq!(topic.text(Style::default()), expected);
    }
}
