//! `startMonitoring`: reports every minute which groups lag and which consumers are stuck, until it is stopped.

use std::{collections::BTreeMap, time::Duration};

use redstart_client::admin::RETRY_PREFIX;
use redstart_wire::remoting::body::ConsumeStatsRow;

use super::{
    clients::{self, same_subscriptions, stuck},
    context::{Context, Outcome, say},
    progress,
    text::{now, second},
};

const ROUND: Duration = Duration::from_secs(60);

pub async fn run(c: &Context) -> Outcome {
    loop {
        say!(c, "{} =========================================beginRound", second(now()));
        for topic in c.admin.topic_names().await? {
            if let Some(group) = topic.strip_prefix(RETRY_PREFIX) {
                of_group(c, group).await?;
            }
        }
        say!(c, "{} =========================================endRound", second(now()));
        c.flush()?;
        tokio::time::sleep(ROUND).await;
    }
}

/// Reports on a group; groups without online consumers are skipped.
async fn of_group(c: &Context, group: &str) -> Outcome {
    let Ok((broker, connected)) = clients::connection(c, group, None).await else { return Ok(()) };
    let progress = progress::of_group(c, group, None).await.unwrap_or_default();
    let mut topics: BTreeMap<&str, Vec<&ConsumeStatsRow>> = BTreeMap::new();
    for (queue, row) in &progress.queues {
        topics.entry(&queue.topic).or_default().push(row);
    }
    for (topic, rows) in topics {
        let total: i64 = rows.iter().map(|row| row.lag().max(0)).sum();
        let worst = rows.iter().map(|row| row.lag()).max().unwrap_or(0).max(0);
        let waited = rows.iter().filter(|row| row.lag() > 0 && row.last_timestamp > 0);
        let delay = waited.map(|row| now() - row.last_timestamp).max().unwrap_or(0);
        say!(
            c,
            "reportUndoneMsgs: UndoneMsgs [consumerGroup={group}, topic={topic}, undoneMsgsTotal={total}, \
             undoneMsgsSingleMQ={worst}, undoneMsgsDelayTimeMills={delay}]"
        );
    }
    let mut infos = BTreeMap::new();
    for client in connected.connection_set {
        if let Ok(info) = c.admin.running_info(&broker, group, &client.client_id, false).await {
            infos.insert(client.client_id, info);
        }
    }
    if !same_subscriptions(&infos, now()) {
        say!(c, "reportConsumerRunningInfo: ConsumerGroup: {group}, Subscription different");
    }
    for (client, info) in &infos {
        for line in stuck(client, info, now()) {
            say!(c, "reportConsumerRunningInfo: ConsumerGroup: {group}, ClientId: {client}, {line}");
        }
    }
    Ok(())
}
