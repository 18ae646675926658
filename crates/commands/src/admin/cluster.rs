//! `redstart cluster`: the brokers that the name server knows.

use std::collections::BTreeMap;

use redstart_client::admin::{Admin, Broker};
use serde::Serialize;

use super::{
    Session, all,
    output::{Style, View, fields},
    resource::{is_internal_topic, user_groups},
    table::Table,
    time::Time,
};

/// A rate is given over 10 s, 60 s and 10 min; the first is the most recent.
const NOW: usize = 0;

pub async fn run(session: &Session) -> anyhow::Result<()> {
    let admin = &session.admin;
    let brokers = admin.brokers().await?;
    let rows = all(brokers.iter().map(|broker| row(admin, broker))).await;
    let topics = admin.topic_names().await?.iter().filter(|name| !is_internal_topic(name, &brokers)).count();
    session.output.show(&Cluster {
        name_servers: admin.names().to_vec(),
        topics,
        groups: user_groups(session, &brokers).await,
        messages_in: rows.iter().filter_map(|row| row.messages_in).sum(),
        messages_out: rows.iter().filter_map(|row| row.messages_out).sum(),
        brokers: rows,
    })
}

async fn row(admin: &Admin, broker: &Broker) -> Row {
    let unanswered = Row {
        cluster: broker.cluster.clone(),
        broker: broker.name.clone(),
        id: broker.id,
        address: broker.address.clone(),
        ..Row::default()
    };
    match admin.runtime_info(&broker.address).await {
        Ok(info) => unanswered.with(&info),
        Err(error) => Row { error: Some(error.to_string()), ..unanswered },
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Cluster {
    name_servers: Vec<String>,
    topics: usize,
    groups: usize,
    /// Since the brokers started; `messages_out`, too.
    messages_in: i64,
    messages_out: i64,
    brokers: Vec<Row>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    cluster: String,
    broker: String,
    id: u64,
    address: String,
    version: Option<String>,
    started_at: Time,
    in_per_second: Option<f64>,
    out_per_second: Option<f64>,
    messages_in: Option<i64>,
    messages_out: Option<i64>,
    /// Share of the disk that is used, 0 to 1.
    disk_used: Option<f64>,
    /// Why the other fields are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Row {
    fn with(self, info: &BTreeMap<String, String>) -> Row {
        let number = |key: &str| info.get(key).and_then(|text| text.parse::<i64>().ok());
        let rate = |key: &str| info.get(key)?.split_whitespace().nth(NOW)?.parse::<f64>().ok();
        Row {
            version: info
                .get("brokerVersionDesc")
                .map(|version| version.trim_start_matches('V').replace('_', ".")),
            started_at: Time(number("bootTimestamp").unwrap_or_default()),
            in_per_second: rate("putTps"),
            out_per_second: rate("getTransferredTps"),
            messages_in: number("msgPutTotalTodayNow"),
            messages_out: number("msgGetTotalTodayNow"),
            disk_used: info.get("commitLogDiskRatio").and_then(|text| text.parse().ok()),
            ..self
        }
    }
}

impl View for Cluster {
    fn text(&self, style: Style) -> String {
        let mut table = Table::new()
            .left("CLUSTER")
            .left("BROKER")
            .right("ID")
            .left("ADDRESS")
            .left("VERSION")
            .right("IN/S")
            .right("OUT/S")
            .right("IN")
            .right("OUT")
            .right("DISK")
            .left("STARTED");
        let unknown = || "?".to_owned();
        let rate = |rate: Option<f64>| rate.map_or_else(unknown, |rate| format!("{rate:.1}"));
        let number = |number: Option<i64>| number.map_or_else(unknown, |number| number.to_string());
        for row in &self.brokers {
            table.row([
                row.cluster.clone(),
                row.broker.clone(),
                row.id.to_string(),
                row.address.clone(),
                row.version.clone().unwrap_or_else(unknown),
                rate(row.in_per_second),
                rate(row.out_per_second),
                number(row.messages_in),
                number(row.messages_out),
                row.disk_used.map_or_else(unknown, |used| format!("{:.0}%", used * 100.0)),
                row.error.clone().unwrap_or_else(|| style.time(row.started_at)),
            ]);
        }
        let lines = [
            ("name server", self.name_servers.join(" ")),
            ("topics", self.topics.to_string()),
            ("groups", self.groups.to_string()),
            ("messages", format!("{} in, {} out since start", self.messages_in, self.messages_out)),
        ];
        fields(style, &lines) + "\n" + &table.render(style)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_does_not_answer_has_a_row() {
        let info = [
            ("brokerVersionDesc", "V5_3_1"),
            ("bootTimestamp", "1769860800000"),
            ("putTps", "12.5 3.0 1.0"),
            ("getTransferredTps", "nonsense"),
            ("msgPutTotalTodayNow", "700"),
            ("commitLogDiskRatio", "0.42"),
        ];
        let info = info.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let row = |broker: &str| Row {
            cluster: "c".to_owned(),
            broker: broker.to_owned(),
            address: "127.0.0.1:10911".to_owned(),
            ..Row::default()
        };
        let cluster = Cluster {
            name_servers: vec!["127.0.0.1:9876".to_owned()],
            topics: 3,
            groups: 2,
            messages_in: 700,
            messages_out: 0,
            brokers: vec![row("a").with(&info), Row { error: Some("gone".to_owned()), ..row("b") }],
        };
        let expected = concat!(
            "name server  127.0.0.1:9876\n",
            "topics       3\n",
            "groups       2\n",
            "messages     700 in, 0 out since start\n",
            "\n",
            "CLUSTER  BROKER  ID  ADDRESS          VERSION  IN/S  OUT/S   IN  OUT  DISK  STARTED\n",
            "c        a        0  127.0.0.1:10911  5.3.1    12.5      ?  700    ?   42%  2026-01-31 12:00:00.000Z\n",
            "c        b        0  127.0.0.1:10911  ?           ?      ?    ?    ?     ?  gone\n",
        );
        assert_eq!(cluster.text(Style::default()), expected);
    }
}
