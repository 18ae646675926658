//! Lists and statistics of topics.

use std::collections::BTreeMap;

use redstart_client::admin::{DEAD_LETTER_PREFIX, RETRY_PREFIX};
use redstart_wire::remoting::body::{QueueData, StatisticsData};

use super::{
    context::{Context, Outcome, say},
    json,
    text::{double, front, map, millisecond},
};

fn is_of_group(topic: &str) -> bool {
    topic.starts_with(RETRY_PREFIX) || topic.starts_with(DEAD_LETTER_PREFIX)
}

pub async fn list(c: &Context) -> Outcome {
    let topics = c.admin.topic_names().await?;
    if !c.has("c") {
        for topic in topics {
            say!(c, "{topic}");
        }
        return Ok(());
    }
    say!(c, "{:<20}  {:<48}  {:<48}", "#Cluster Name", "#Topic", "#Consumer Group");
    for topic in topics.iter().filter(|topic| !is_of_group(topic)) {
        // A topic may be deleted while the list is printed.
        let (cluster, mut groups) = match c.admin.brokers_of_topic(topic).await {
            Ok(brokers) => match brokers.first() {
                Some(broker) => (
                    broker.cluster.clone(),
                    c.admin.groups_of_topic(&broker.address, topic).await.unwrap_or_default(),
                ),
                None => Default::default(),
            },
            Err(_) => Default::default(),
        };
        if groups.is_empty() {
            groups.push(String::new());
        }
        for group in groups {
            say!(c, "{:<20}  {:<64}  {:<64}", front(&cluster, 20), front(topic, 64), front(&group, 64));
        }
    }
    Ok(())
}

pub async fn route(c: &Context) -> Outcome {
    let mut route = c.admin.route(c.text("t")?).await?;
    if !c.has("l") {
        say!(c, "{}", json::pretty(&serde_json::to_value(&route)?));
        return Ok(());
    }
    let queues: BTreeMap<&str, &QueueData> =
        route.queue_datas.iter().map(|queues| (queues.broker_name.as_str(), queues)).collect();
    route.broker_datas.sort_by(|a, b| a.broker_name.cmp(&b.broker_name));
    let row = |cells: [String; 6]| {
        let [cluster, broker, addresses, read, write, perm] = cells;
        format!("{cluster:<45} {broker:<32} {addresses:<50} {read:<10} {write:<11} {perm:<5}")
    };
    let heads = ["#ClusterName", "#BrokerName", "#BrokerAddrs", "#ReadQueue", "#WriteQueue", "#Perm"];
    say!(c, "{}", row(heads.map(str::to_owned)));
    let (mut read, mut write) = (0, 0);
    for broker in &route.broker_datas {
        let Some(queues) = queues.get(broker.broker_name.as_str()) else { continue };
        read += queues.read_queue_nums;
        write += queues.write_queue_nums;
        let cells = [
            broker.cluster.clone(),
            broker.broker_name.clone(),
            map(&broker.broker_addrs),
            queues.read_queue_nums.to_string(),
            queues.write_queue_nums.to_string(),
            queues.perm.to_string(),
        ];
        say!(c, "{}", row(cells));
    }
    say!(c, "{}", "-".repeat(158));
    let totals = [
        "Total:".to_owned(),
        queues.len().to_string(),
        String::new(),
        read.to_string(),
        write.to_string(),
        String::new(),
    ];
    say!(c, "{}", row(totals));
    Ok(())
}

pub async fn status(c: &Context) -> Outcome {
    let topic = c.text("t")?;
    // A lite topic has no route of its own: -c names its parent.
    let brokers = c.admin.brokers_of_topic(c.get("c").unwrap_or(topic)).await?;
    let (mut queues, mut per_second) = (Vec::new(), 0.0);
    for broker in brokers {
        let stats = c.admin.topic_stats(&broker.address, topic).await?;
        queues.extend(stats.queues);
        per_second += stats.put_per_second;
    }
    anyhow::ensure!(!queues.is_empty(), "Not found the topic stats info");
    queues.sort_by(|(a, _), (b, _)| (&a.broker_name, a.queue_id).cmp(&(&b.broker_name, b.queue_id)));
    say!(
        c,
        "{:<32}  {:<4}  {:<20}  {:<20}    {}",
        "#Broker Name",
        "#QID",
        "#Min Offset",
        "#Max Offset",
        "#Last Updated"
    );
    for (queue, row) in queues {
        let updated = match row.last_update_timestamp {
            at if at > 0 => millisecond(at),
            _ => String::new(),
        };
        say!(
            c,
            "{:<32}  {:<4}  {:<20}  {:<20}    {updated}",
            front(&queue.broker_name, 32),
            queue.queue_id,
            row.min_offset,
            row.max_offset
        );
    }
    say!(c);
    say!(c, "Topic Put TPS: {}", double(per_second));
    Ok(())
}

pub async fn clusters(c: &Context) -> Outcome {
    let brokers = c.admin.brokers_of_topic(c.text("t")?).await?;
    let info = c.admin.cluster_info().await?;
    if let Some(broker) = brokers.first() {
        for (cluster, names) in &info.cluster_addr_table {
            if names.contains(&broker.name) {
                say!(c, "{cluster}");
            }
        }
    }
    Ok(())
}

/// The number over the last day, or over as much of it as the broker has run.
pub fn of_day(statistics: &StatisticsData) -> u64 {
    let sums = [statistics.stats_day.sum, statistics.stats_hour.sum, statistics.stats_minute.sum];
    sums.into_iter().find(|sum| *sum != 0).unwrap_or(0)
}

pub async fn statistics(c: &Context) -> Outcome {
    say!(
        c,
        "{:<64}  {:<64} {:>12} {:>11} {:>11} {:>14} {:>14}",
        "#Topic",
        "#Consumer Group",
        "#Accumulation",
        "#InTPS",
        "#OutTPS",
        "#InMsg24Hour",
        "#OutMsg24Hour"
    );
    let wanted = c.get("t").filter(|topic| !topic.is_empty());
    for topic in c.admin.topic_names().await? {
        if is_of_group(&topic) || wanted.is_some_and(|wanted| wanted != topic) {
            continue;
        }
        // As with Apache, an error for one topic does not end the list.
        if let Err(error) = of_topic(c, &topic, c.has("a")).await {
            anyhow::ensure!(error.downcast_ref::<std::io::Error>().is_none(), error);
        }
    }
    Ok(())
}

async fn of_topic(c: &Context, topic: &str, active_only: bool) -> Outcome {
    let brokers = c.admin.brokers_of_topic(topic).await?;
    let (mut in_tps, mut in_day) = (0.0, 0);
    for broker in &brokers {
        if let Ok(Some(counted)) = c.admin.statistics(&broker.address, "TOPIC_PUT_NUMS", topic).await {
            in_tps += counted.stats_minute.tps;
            in_day += of_day(&counted);
        }
    }
    let groups = match brokers.first() {
        Some(broker) => c.admin.groups_of_topic(&broker.address, topic).await?,
        None => Vec::new(),
    };
    let name = front(topic, 64);
    if groups.is_empty() && (!active_only || in_day > 0) {
        say!(
            c,
            "{name:<64}  {:<64} {:>12} {in_tps:>11.2} {:>11} {in_day:>14} {:>14}",
            "",
            0,
            "",
            "NO_CONSUMER"
        );
    }
    for group in groups {
        let (mut out_tps, mut out_day, mut lag) = (0.0, 0, 0);
        for broker in &brokers {
            let key = format!("{topic}@{group}");
            if let Ok(Some(counted)) = c.admin.statistics(&broker.address, "GROUP_GET_NUMS", &key).await {
                out_tps += counted.stats_minute.tps;
                out_day += of_day(&counted);
            }
            if let Ok(stats) = c.admin.consume_stats(&broker.address, &group, Some(topic)).await {
                lag += stats.queues.iter().map(|(_, row)| row.lag()).sum::<i64>();
            }
        }
        if !active_only || in_day > 0 || out_day > 0 {
            let group = front(&group, 64);
            let lag = lag.max(0);
            say!(
                c,
                "{name:<64}  {group:<64} {lag:>12} {in_tps:>11.2} {out_tps:>11.2} {in_day:>14} {out_day:>14}"
            );
        }
    }
    Ok(())
}
