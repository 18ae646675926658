//! `redstart group list`.

use std::collections::BTreeMap;

use clap::Args;
use redstart_client::admin::{Broker, Error, is_system_group};
use redstart_wire::remoting::body::GroupConfig;
use serde::Serialize;

use super::{dead_letters, members::Members, retry_delays};
use crate::admin::{
    Session, all,
    output::{Style, View},
    resource::{hide_internal, none_yet},
    table::Table,
    target::Where,
};

#[derive(Debug, Args)]
pub struct List {
    /// Include the groups that the server uses itself
    #[arg(short, long)]
    all: bool,
    #[command(flatten)]
    at: Where,
}

impl List {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let brokers = session.admin.masters(&self.at.target()).await?;
        let mut found: BTreeMap<String, (GroupConfig, Vec<String>)> = BTreeMap::new();
        for broker in &brokers {
            for (name, config) in session.admin.groups(&broker.address).await? {
                found.entry(name).or_insert((config, Vec::new())).1.push(broker.name.clone());
            }
        }
        let hidden = hide_internal(&mut found, self.all, is_system_group);
        let groups = found.values().map(|(config, holders)| row(session, &brokers, config, holders));
        let groups = all(groups).await;
        let groups = groups.into_iter().collect::<Result<_, _>>()?;
        session.output.show(&Groups { groups, hidden })
    }
}

async fn row(
    session: &Session,
    brokers: &[Broker],
    config: &GroupConfig,
    holders: &[String],
) -> Result<Row, Error> {
    let name = &config.group_name;
    let (mut lag, mut dead) = (0, 0);
    for broker in brokers {
        let stats = session.admin.consume_stats(&broker.address, name, None).await?;
        lag += stats.queues.iter().map(|(_, row)| row.lag()).sum::<i64>();
        dead += dead_letters(&session.admin, &broker.address, name).await?;
    }
    Ok(Row {
        group: name.clone(),
        enabled: config.consume_enable,
        ordered: config.consume_message_orderly,
        max_retries: config.retry_max_times,
        members: Members::of(session, brokers, name).await?.members.len(),
        lag,
        dead_letters: dead,
        retry_delays: config.group_retry_policy.as_ref().and_then(retry_delays),
        brokers: holders.to_vec(),
    })
}

#[derive(Debug, Serialize)]
struct Groups {
    groups: Vec<Row>,
    #[serde(skip)]
    hidden: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    group: String,
    enabled: bool,
    ordered: bool,
    max_retries: i32,
    members: usize,
    lag: i64,
    dead_letters: i64,
    #[serde(skip)]
    retry_delays: Option<String>,
    #[serde(skip)]
    brokers: Vec<String>,
}

impl View for Groups {
    fn text(&self, style: Style) -> String {
        if self.groups.is_empty() {
            let hint = "a consumer creates its own when it first connects";
            return none_yet("consumer groups", self.hidden, hint);
        }
        let mut table = Table::new()
            .left("GROUP")
            .left("ORDER")
            .right("RETRIES")
            .right("MEMBERS")
            .right("LAG")
            .right("DEAD LETTERS")
            .wide("RETRY DELAYS")
            .wide("BROKERS")
            .left("");
        for row in &self.groups {
            table.row([
                row.group.clone(),
                if row.ordered { "ordered" } else { "concurrent" }.to_owned(),
                row.max_retries.to_string(),
                row.members.to_string(),
                row.lag.to_string(),
                row.dead_letters.to_string(),
                row.retry_delays.clone().unwrap_or_else(|| "server default".to_owned()),
                row.brokers.join(" "),
                if row.enabled { "" } else { "disabled" }.to_owned(),
            ]);
        }
        table.render(style)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_listed_and_an_empty_list_is_a_sentence() {
        let row = |group: &str, enabled| Row {
            group: group.to_owned(),
            enabled,
            ordered: !enabled,
            max_retries: 16,
            members: 2,
            lag: 1234,
            dead_letters: 0,
            retry_delays: None,
            brokers: vec!["broker-a".to_owned()],
        };
        let groups = Groups { groups: vec![row("billing", true), row("g", false)], hidden: 0 };
        let expected = concat!(
            "GROUP    ORDER       RETRIES  MEMBERS   LAG  DEAD LETTERS\n",
            "billing  concurrent       16        2  1234             0\n",
            "g        ordered          16        2  1234             0  disabled\n",
        );
        assert_eq!(groups.text(Style::default()), expected);
        let wide = groups.text(Style::wide());
        assert!(wide.lines().nth(1).is_some_and(|line| line.ends_with("server default  broker-a")), "{wide}");
        let none = Groups { groups: vec![], hidden: 0 }.text(Style::default());
        assert!(none.starts_with("no consumer groups yet;"), "{none}");
    }
}
