use std::collections::BTreeMap;

use clap::Args;
use redstart_client::admin::{Error, Target};
use serde::Serialize;

use super::Settings;
use crate::admin::{
    Session, all,
    output::{Style, View, fields},
    table::Table,
    time,
};

#[derive(Debug, Args)]
pub struct Show {
    name: String,
}

impl Show {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let admin = &session.admin;
        let (mut entry, mut names) = (None, Vec::new());
        let (mut queues, mut groups, mut put_per_second) = (Vec::new(), Vec::new(), 0.0);
        for broker in admin.masters(&Target::Everywhere).await? {
            match admin.topic_config(&broker.address, &self.name).await {
                Err(Error::UnknownTopic { .. }) => continue,
                known => entry = Some(known?),
            }
            let stats = admin.topic_stats(&broker.address, &self.name).await?;
            put_per_second += stats.put_per_second;
            queues.extend(stats.queues.into_iter().map(|(queue, row)| Queue {
                broker: queue.broker_name,
                queue: queue.queue_id,
                min_offset: row.min_offset,
                max_offset: row.max_offset,
                messages: row.max_offset - row.min_offset,
                last_stored_at: time::iso(row.last_update_timestamp),
            }));
            groups.extend(admin.groups_of_topic(&broker.address, &self.name).await.unwrap_or_default());
            names.push(broker.name);
        }
        let entry = entry.ok_or_else(|| Error::UnknownTopic { topic: self.name.clone() })?;
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
    last_stored_at: Option<String>,
}

#[derive(Debug, Serialize)]
struct Group {
    group: String,
    lag: Option<i64>,
}

impl View for Topic {
    fn text(&self, style: Style) -> String {
        let attributes: Vec<String> =
            self.attributes.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let mut lines = vec![
            ("topic", self.settings.topic.clone()),
            ("type", self.settings.r#type.clone()),
            ("queues", self.settings.queues()),
            ("permission", self.settings.permission.to_owned()),
            ("brokers", self.settings.brokers.join(" ")),
            ("messages", format!("{}, {:.1} a second coming in", self.messages, self.put_per_second)),
        ];
        if !attributes.is_empty() {
            lines.push(("attributes", attributes.join(" ")));
        }
        let mut queues = Table::new()
            .left("BROKER")
            .right("QUEUE")
            .right("FIRST")
            .right("NEXT")
            .right("MESSAGES")
            .left("LAST STORED (UTC)");
        for queue in &self.queues {
            queues.row([
                queue.broker.clone(),
                queue.queue.to_string(),
                queue.min_offset.to_string(),
                queue.max_offset.to_string(),
                queue.messages.to_string(),
                time::shown(queue.last_stored_at.as_deref()),
            ]);
        }
        let mut text = fields(style, &lines) + "\n" + &queues.render(style) + "\n";
        if self.groups.is_empty() {
            return text + "no group has read it";
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
        let queue = |queue, max_offset, last: Option<&str>| Queue {
            broker: "broker-a".to_owned(),
            queue,
            min_offset: 0,
            max_offset,
            messages: max_offset,
            last_stored_at: last.map(str::to_owned),
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
            queues: vec![queue(0, 12, Some("2026-01-31T12:00:00.000Z")), queue(1, 0, None)],
            groups: vec![Group { group: "billing".to_owned(), lag: Some(3) }],
        };
        let expected = concat!(
            "topic       orders\n",
            "type        FIFO\n",
            "queues      2\n",
            "permission  rw\n",
            "brokers     broker-a\n",
            "messages    12, 0.2 a second coming in\n",
            "attributes  message.type=FIFO\n",
            "\n",
            "BROKER    QUEUE  FIRST  NEXT  MESSAGES  LAST STORED (UTC)\n",
            "broker-a      0      0    12        12  2026-01-31 12:00:00.000Z\n",
            "broker-a      1      0     0         0  -\n",
            "\n",
            "GROUP    LAG\n",
            "billing    3\n",
        );
        assert_eq!(topic.text(Style::default()), expected);
    }
}
