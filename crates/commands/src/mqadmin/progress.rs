//! Offsets and lag of consumer groups.

use std::{collections::HashMap, time::Duration};

use redstart_client::admin::{Error, Progress, RETRY_PREFIX};
use redstart_wire::remoting::{
    body::{ConsumeStatsRow, ConsumerConnection, Queue},
    code,
};

use super::{
    context::{Context, Outcome, say},
    text::{front, second, version},
};

/// The progress of a group in a topic or in all topics, from the brokers that have its retry topic, or else those of the topic.
/// As with Apache, it is an error if the group has consumed nothing and has no online consumer.
pub async fn of_group(c: &Context, group: &str, topic: Option<&str>) -> anyhow::Result<Progress> {
    let retry = format!("{RETRY_PREFIX}{group}");
    let parent = c.get("c").filter(|_| topic.is_some());
    let mut found = Err(Error::UnknownGroup { group: group.to_owned() });
    for place in [Some(retry.as_str()), topic, parent].into_iter().flatten() {
        found = c.admin.brokers_of_topic(place).await;
        if found.is_ok() {
            break;
        }
    }
    let mut progress = Progress::default();
    for broker in found? {
        let stats = c.admin.consume_stats(&broker.address, group, topic).await?;
        progress.per_second += stats.per_second;
        progress.queues.extend(stats.queues);
    }
    let order = |queue: &Queue| (queue.topic.clone(), queue.broker_name.clone(), queue.queue_id);
    progress.queues.sort_by_key(|(queue, _)| order(queue));
    if progress.queues.is_empty() {
        let connected = super::clients::connection(c, group, None).await;
        connected.map_err(|_| Error::NotOnline { group: group.to_owned() })?;
    }
    Ok(progress)
}

pub async fn show(c: &Context) -> Outcome {
    match c.get("g") {
        Some(group) => detail(c, group).await,
        None => overview(c).await,
    }
}

async fn detail(c: &Context, group: &str) -> Outcome {
    let progress = of_group(c, group, c.get("t")).await?;
    let owners = if c.is_true("s") { Some(owners(c, group).await) } else { None };
    let shown_owner = |queue: &Queue| {
        let owner = owners.as_ref()?.get(queue).map_or("N/A", String::as_str);
        Some(format!("{owner:<20} "))
    };
    say!(
        c,
        "{:<64}  {:<32}  {:<4}  {:<20}  {:<20}  {}{:<20} {:<20}{}",
        "#Topic",
        "#Broker Name",
        "#QID",
        "#Broker Offset",
        "#Consumer Offset",
        if owners.is_some() { format!("{:<20} ", "#Client IP") } else { String::new() },
        "#Diff",
        "#Inflight",
        "#LastTime"
    );
    let mut in_flight_total = 0;
    for (queue, row) in &progress.queues {
        let in_flight = row.pull_offset - row.consumer_offset;
        in_flight_total += in_flight;
        let last = if row.last_timestamp == 0 { "N/A".to_owned() } else { second(row.last_timestamp) };
        say!(
            c,
            "{:<64}  {:<32}  {:<4}  {:<20}  {:<20}  {}{:<20} {in_flight:<20} {last}",
            front(&queue.topic, 64),
            front(&queue.broker_name, 32),
            queue.queue_id,
            row.broker_offset,
            row.consumer_offset,
            shown_owner(queue).unwrap_or_default(),
            row.lag()
        );
    }
    say!(c);
    say!(c, "Consume TPS: {:.2}", progress.per_second);
    say!(c, "Consume Diff Total: {}", progress.lag());
    say!(c, "Consume Inflight Total: {in_flight_total}");
    Ok(())
}

/// The host that consumes each queue, as the consumers report it. Consumers that do not answer are skipped.
async fn owners(c: &Context, group: &str) -> HashMap<Queue, String> {
    let mut owners = HashMap::new();
    let Ok((broker, connected)) = super::clients::connection(c, group, None).await else { return owners };
    for client in connected.connection_set {
        let Ok(info) = c.admin.running_info(&broker, group, &client.client_id, false).await else { continue };
        let host = client.client_id.split('@').next().unwrap_or_default();
        owners.extend(info.queues.into_iter().map(|(queue, _)| (queue, host.to_owned())));
    }
    owners
}

async fn overview(c: &Context) -> Outcome {
    say!(
        c,
        "{:<64}  {:<6}  {:<24} {:<5}  {:<14}  {:<7}  {}",
        "#Group",
        "#Count",
        "#Version",
        "#Type",
        "#Model",
        "#TPS",
        "#Diff Total"
    );
    for topic in c.admin.topic_names().await? {
        let Some(group) = topic.strip_prefix(RETRY_PREFIX) else { continue };
        let progress = of_group(c, group, None).await.unwrap_or_default();
        let connected = super::clients::connection(c, group, None).await.map(|(_, connected)| connected);
        let connected = connected.unwrap_or_default();
        let (version, kind, model) = describe(&connected);
        say!(
            c,
            "{:<64}  {:<6}  {version:<24} {kind:<5}  {model:<14}  {:<7}  {}",
            front(group, 64),
            connected.connection_set.len(),
            progress.per_second as i64,
            progress.lag()
        );
    }
    Ok(())
}

/// The oldest version among the consumers, and the consume type and message model of the group.
fn describe(connected: &ConsumerConnection) -> (String, &str, &str) {
    let Some(oldest) = connected.connection_set.iter().map(|client| client.version).min() else {
        return ("OFFLINE".to_owned(), "", "");
    };
    let pull = connected.consume_type == "CONSUME_ACTIVELY";
    let kind = if pull { "PULL" } else { "PUSH" };
    let model =
        if connected.consume_type == "CONSUME_PASSIVELY" { connected.message_model.as_str() } else { "" };
    (version(oldest), kind, model)
}

pub async fn of_broker(c: &Context) -> Outcome {
    let timeout = Duration::from_millis(c.number_or("t", 50_000)?);
    let level: i64 = c.number_or("l", 0)?;
    let stats = c.admin.broker_consume_stats(c.text("b")?, c.is_true("o"), timeout).await?;
    let row = |cells: [&str; 8]| {
        let [topic, group, broker, queue, offset, consumer, diff, last] = cells;
        format!(
            "{topic:<64}  {group:<64}  {broker:<32}  {queue:<4}  {offset:<20}  {consumer:<20}  {diff:<20}  {last}"
        )
    };
    let heads = [
        "#Topic",
        "#Group",
        "#Broker Name",
        "#QID",
        "#Broker Offset",
        "#Consumer Offset",
        "#Diff",
        "#LastTime",
    ];
    say!(c, "{}", row(heads));
    for (group, stats) in &stats.groups {
        let shown = |row: &ConsumeStatsRow| row.lag() >= level && row.last_timestamp > 0;
        for (queue, stands) in stats.queues.iter().filter(|(_, row)| shown(row)) {
            let cells = [
                &front(&queue.topic, 64),
                group,
                &front(&queue.broker_name, 32),
                &queue.queue_id.to_string(),
                &stands.broker_offset.to_string(),
                &stands.consumer_offset.to_string(),
                &stands.lag().to_string(),
                &second(stands.last_timestamp),
            ];
            say!(c, "{}", row(cells.map(String::as_str)));
        }
    }
    say!(c);
    say!(c, "Diff Total: {}", stats.lag);
    Ok(())
}

/// Whether an error means that the group has no online consumer.
pub fn is_offline(error: &Error) -> bool {
    error.code() == Some(code::CONSUMER_NOT_ONLINE)
}
