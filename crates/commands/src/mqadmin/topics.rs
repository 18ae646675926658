//! Creates, changes and deletes topics.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail, ensure};
use redstart_client::admin::{Admin, ORDER_NAMESPACE, TopicSpec};
use redstart_wire::remoting::body::{BrokerData, Queue, TopicEntry, TopicRoute};

use super::{
    context::{Context, Outcome, say},
    text,
};

/// Default number of queues of a new topic.
const QUEUES: u32 = 8;
const UNIT: i32 = 1;
const UNIT_SUBSCRIBED: i32 = 2;
const READ: u8 = 4;

pub async fn update(c: &Context) -> Outcome {
    let changes = text::attributes(c.get("a").unwrap_or_default())?;
    let order = c.is_true("o");
    let flag = if c.is_true("u") { UNIT } else { 0 } | if c.is_true("s") { UNIT_SUBSCRIBED } else { 0 };
    let topic = TopicEntry {
        topic_name: c.text("t")?.to_owned(),
        read_queue_nums: c.number_or("r", QUEUES)?,
        write_queue_nums: c.number_or("w", QUEUES)?,
        perm: c.number_or("p", TopicEntry::default().perm)?,
        topic_sys_flag: flag,
        order,
        attributes: changes,
        ..TopicEntry::default()
    };
    let spec = TopicSpec { attributes: c.get("a").unwrap_or_default().to_owned(), ..TopicSpec::of(&topic) };
    let masters = c.masters().await?;
    if c.has("b") {
        for address in masters {
            c.admin.put_topic(&address, &spec).await?;
            if order {
                let queues = format!("{}:{}", broker_name(c, &address).await?, topic.write_queue_nums);
                merge_order(&c.admin, &topic.topic_name, &queues).await?;
                say!(c, "set broker orderConf. isOrder=true, orderConf=[{queues}]");
            }
            say!(c, "create topic to {address} success.");
        }
    } else {
        for address in masters {
            c.admin.put_topic(&address, &spec).await?;
            say!(c, "create topic to {address} success.");
        }
        if order {
            let mut names: Vec<String> =
                c.of_cluster(c.text("c")?).await?.into_iter().map(|broker| broker.name).collect();
            names.dedup();
            let queues = names.iter().map(|name| format!("{name}:{}", topic.write_queue_nums));
            let queues = queues.collect::<Vec<_>>().join(";");
            c.admin.put_value(ORDER_NAMESPACE, &topic.topic_name, &queues).await?;
            say!(c, "set cluster orderConf. isOrder=true, orderConf=[{queues}]");
        }
    }
    say!(c, "{}", text::topic_config(&topic));
    Ok(())
}

/// The name of the broker at an address.
async fn broker_name(c: &Context, address: &str) -> anyhow::Result<String> {
    let brokers = c.admin.brokers().await?;
    let broker = brokers.into_iter().find(|broker| broker.address == address);
    Ok(broker.with_context(|| format!("the name server knows no broker at {address}"))?.name)
}

/// Adds a broker to the order configuration of a topic.
async fn merge_order(admin: &Admin, topic: &str, queues: &str) -> Outcome {
    let old = admin.value(ORDER_NAMESPACE, topic).await?.unwrap_or_default();
    let of_broker =
        |queues: &str| (queues.split(':').next().unwrap_or_default().to_owned(), queues.to_owned());
    let mut all: BTreeMap<String, String> =
        old.split(';').filter(|part| !part.is_empty()).map(of_broker).collect();
    all.extend([of_broker(queues)]);
    admin.put_value(ORDER_NAMESPACE, topic, &all.into_values().collect::<Vec<_>>().join(";")).await?;
    Ok(())
}

pub async fn update_list(c: &Context) -> Outcome {
    let topics: Vec<TopicEntry> = super::groups::read_list(c.text("f")?)?;
    if topics.is_empty() {
        return Ok(());
    }
    for address in c.masters().await? {
        c.admin.put_topics(&address, &topics).await?;
        say!(c, "submit batch of topic config to {address} success, please check the result later.");
    }
    Ok(())
}

pub async fn delete(c: &Context) -> Outcome {
    let (topic, cluster) = (c.text("t")?, c.text("c")?);
    for address in c.masters().await? {
        c.admin.delete_topic_in_broker(&address, topic).await?;
    }
    say!(c, "delete topic [{topic}] from cluster [{cluster}] success.");
    c.admin.delete_topic_in_names(topic, Some(cluster)).await?;
    say!(c, "delete topic [{topic}] from NameServer success.");
    Ok(())
}

pub async fn update_permission(c: &Context) -> Outcome {
    let topic = c.text("t")?;
    let perm: u8 = c.number("p")?;
    let route = c.admin.route(topic).await?;
    let first = route.queue_datas.first().with_context(|| format!("topic {topic} has no queues"))?;
    let mut entry = TopicEntry {
        topic_name: topic.to_owned(),
        read_queue_nums: first.read_queue_nums,
        write_queue_nums: first.write_queue_nums,
        topic_sys_flag: first.topic_sys_flag,
        perm,
        ..TopicEntry::default()
    };
    if let Some(address) = c.get("b") {
        let queues = master_of(&route, address).and_then(|broker| {
            route.queue_datas.iter().find(|queues| queues.broker_name == broker.broker_name)
        });
        let Some(queues) = queues else {
            bail!("updateTopicPerm error: topic {topic} has no master broker at {address}");
        };
        if queues.perm == perm {
            say!(c, "new perm equals to the old one!");
            return Ok(());
        }
        entry.read_queue_nums = queues.read_queue_nums;
        entry.write_queue_nums = queues.write_queue_nums;
        put_permission(c, address, &entry).await?;
        say!(c, "update topic perm from {} to {perm} in {address} success.", queues.perm);
        say!(c, "{}.", text::topic_config(&entry));
        return Ok(());
    }
    for address in c.masters().await? {
        put_permission(c, &address, &entry).await?;
        say!(c, "update topic perm from {} to {perm} in {address} success.", first.perm);
    }
    Ok(())
}

/// Changes only the permission. The route does not say whether a topic is ordered, so that flag stays as it is.
async fn put_permission(c: &Context, address: &str, entry: &TopicEntry) -> Outcome {
    let now = c.admin.topic_config(address, &entry.topic_name).await?;
    let spec = TopicSpec { permission: entry.perm, ..TopicSpec::of(&now) };
    c.admin.put_topic(address, &spec).await?;
    Ok(())
}

fn master_of<'a>(route: &'a TopicRoute, address: &str) -> Option<&'a BrokerData> {
    let is_master =
        |broker: &&BrokerData| broker.broker_addrs.get("0").is_some_and(|master| master == address);
    route.broker_datas.iter().find(is_master)
}

pub async fn update_order(c: &Context) -> Outcome {
    let topic = c.text("t")?;
    match c.text("m")? {
        "get" => {
            let Some(queues) = c.admin.value(ORDER_NAMESPACE, topic).await? else {
                bail!("No config item, Namespace: {ORDER_NAMESPACE} Key: {topic}");
            };
            c.print(format_args!("get orderConf success. topic=[{topic}], orderConf=[{queues}] "))?;
        }
        "put" => {
            let queues = c.get("v").unwrap_or_default();
            ensure!(!queues.is_empty(), "please set orderConf with option -v.");
            c.admin.put_value(ORDER_NAMESPACE, topic, queues).await?;
            c.print(format_args!("update orderConf success. topic=[{topic}], orderConf=[{queues}]"))?;
        }
        "delete" => {
            c.admin.delete_value(ORDER_NAMESPACE, topic).await?;
            c.print(format_args!("delete orderConf success. topic=[{topic}]"))?;
        }
        other => bail!("the option -m is one of get, put and delete, not {other:?}"),
    }
    say!(c);
    Ok(())
}

/// The readable queues of a topic, in the order in which clients number them.
pub fn readable(topic: &str, route: &TopicRoute) -> Vec<Queue> {
    let mut queues: Vec<Queue> = route
        .queue_datas
        .iter()
        .filter(|queues| queues.perm & READ != 0)
        .flat_map(|queues| {
            (0..queues.read_queue_nums).map(|queue| Queue {
                topic: topic.to_owned(),
                broker_name: queues.broker_name.clone(),
                queue_id: queue as i32,
            })
        })
        .collect();
    queues.sort();
    queues
}

pub async fn allocate(c: &Context) -> Outcome {
    let topic = c.text("t")?;
    let consumers: Vec<&str> = c.text("i")?.split(',').collect();
    let queues = readable(topic, &c.admin.route(topic).await?);
    let mut result = serde_json::Map::new();
    for (index, consumer) in consumers.iter().enumerate() {
        let share: Vec<serde_json::Value> = share(&queues, consumers.len(), index)
            .iter()
            .map(serde_json::to_value)
            .collect::<Result<_, _>>()?;
        result.insert((*consumer).to_owned(), share.into());
    }
    say!(c, "{}", serde_json::json!({ "result": result }));
    Ok(())
}

/// RocketMQ's default allocation of queues: contiguous runs of equal length; the first ones have one queue more if needed.
fn share(queues: &[Queue], consumers: usize, index: usize) -> &[Queue] {
    let (each, rest) = (queues.len() / consumers, queues.len() % consumers);
    let start = index * each + index.min(rest);
    let len = each + usize::from(index < rest);
    &queues[start..start + len]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_runs_that_cover_every_queue_once() {
        let queue = |queue_id| Queue { topic: "t".into(), broker_name: "b".into(), queue_id };
        for count in 0..9 {
            let queues: Vec<Queue> = (0..count).map(queue).collect();
            for consumers in 1..5 {
                let shares: Vec<&[Queue]> =
                    (0..consumers).map(|index| share(&queues, consumers, index)).collect();
                assert_eq!(shares.concat(), queues, "{count} queues, {consumers} consumers");
                let sizes: Vec<usize> = shares.iter().map(|share| share.len()).collect();
                assert!(
                    sizes.is_sorted_by(|a, b| a >= b) && sizes[0] - sizes[consumers - 1] <= 1,
                    "{sizes:?}"
                );
            }
        }
    }
}
