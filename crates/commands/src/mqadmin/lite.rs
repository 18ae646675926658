//! Lite topics and their subscriptions.

use redstart_wire::remoting::Command;
use serde_json::Value;

use super::{
    context::{Context, Outcome, say},
    text::{millisecond, now},
};

const BROKER_INFO: i32 = 200_074;
const PARENT_INFO: i32 = 200_075;
const TOPIC_INFO: i32 = 200_076;
const CLIENT_INFO: i32 = 200_077;
const GROUP_INFO: i32 = 200_078;
const DISPATCH: i32 = 200_079;
/// Largest number of lite topics that are printed for a client.
const SHOWN_MAX: i32 = 1000;
const TOP_DEFAULT: i32 = 20;

fn number(value: &Value, name: &str) -> i64 {
    value[name].as_i64().unwrap_or(0)
}

fn time(value: &Value, name: &str) -> String {
    match number(value, name) {
        at if at > 0 => millisecond(at),
        _ => "N/A".to_owned(),
    }
}

pub async fn broker(c: &Context) -> Outcome {
    let row = |cells: [&str; 9]| {
        let [broker, store, max, current, subscriptions, orders, queues, offsets, events] = cells;
        format!(
            "{broker:<30} {store:<17} {max:<10} {current:<14} {subscriptions:<20} {orders:<17} {queues:<15} {offsets:<18} {events:<15}"
        )
    };
    let addresses = c.masters().await?;
    let mut infos = Vec::new();
    for address in addresses {
        infos.push((address.clone(), c.admin.ask_json(&address, Command::request(BROKER_INFO)).await?));
    }
    let heads = [
        "#Broker",
        "#Store Type",
        "#Max LMQ",
        "#Current LMQ",
        "#SubscriptionCount",
        "#OrderInfoCount",
        "#CQTableSize",
        "#OffsetTableSize",
        "#eventMapSize",
    ];
    say!(c, "{}", row(heads));
    for (address, info) in infos {
        let counts = [
            "maxLmqNum",
            "currentLmqNum",
            "liteSubscriptionCount",
            "orderInfoCount",
            "cqTableSize",
            "offsetTableSize",
            "eventMapSize",
        ]
        .map(|name| number(&info, name).to_string());
        let store = info["storeType"].as_str().unwrap_or("null");
        let [a, b, d, e, f, g, h] = counts.each_ref().map(String::as_str);
        say!(c, "{}", row([&address, store, a, b, d, e, f, g, h]));
        if c.has("d") {
            say!(c, "Topic Meta: {}\nGroup Meta: {}\n", info["topicMeta"], info["groupMeta"]);
        }
    }
    Ok(())
}

/// The answers of all brokers that have queues of the parent topic.
async fn of_parent(c: &Context, request: impl Fn() -> Command) -> anyhow::Result<Vec<(String, Value)>> {
    let mut answers = Vec::new();
    for broker in c.admin.brokers_of_topic(c.text("p")?).await? {
        let answer = c.admin.ask_json(&broker.address, request()).await?;
        answers.push((broker.name, answer));
    }
    Ok(answers)
}

pub async fn parent(c: &Context) -> Outcome {
    let parent = c.text("p")?;
    let infos = of_parent(c, || Command::request(PARENT_INFO).with_field("topic", parent)).await?;
    say!(c, "Parent Topic Info: [{parent}]");
    say!(
        c,
        "{:<50} {:<8} {:<14} {:<14} {:<100} ",
        "#Broker Name",
        "#TTL",
        "#Lite Count",
        "#LMQ NUM",
        "#GROUPS"
    );
    for (broker, info) in infos {
        let groups = info["groups"].to_string();
        let (ttl, lite, lmq) =
            (number(&info, "ttl"), number(&info, "liteTopicCount"), number(&info, "lmqNum"));
        say!(c, "{broker:<50} {ttl:<8} {lite:<14} {lmq:<14} {groups:<100} ");
    }
    Ok(())
}

pub async fn topic(c: &Context) -> Outcome {
    let (parent, lite) = (c.text("p")?, c.text("l")?);
    let request =
        || Command::request(TOPIC_INFO).with_field("parentTopic", parent).with_field("liteTopic", lite);
    let infos = of_parent(c, request).await?;
    say!(c, "Lite Topic Info: [{parent}] [{lite}]");
    say!(
        c,
        "{:<50} {:<14} {:<14} {:<30} {:<12} {:<18} ",
        "#Broker Name",
        "#MinOffset",
        "#MaxOffset",
        "#LastUpdate",
        "#Sharding",
        "#SubClientCount"
    );
    for (broker, info) in infos {
        let offsets = &info["topicOffset"];
        let subscribers = info["subscriber"].as_array().cloned().unwrap_or_default();
        say!(
            c,
            "{broker:<50} {:<14} {:<14} {:<30} {:<12} {:<18} ",
            number(offsets, "minOffset"),
            number(offsets, "maxOffset"),
            time(offsets, "lastUpdateTimestamp"),
            info["shardingToBroker"].as_bool().unwrap_or(false),
            subscribers.len()
        );
        for subscriber in subscribers.iter().filter(|_| c.has("s")) {
            let text = |name: &str| subscriber[name].as_str().unwrap_or("null").to_owned();
            say!(c, "{}@{}", text("clientId"), text("group"));
        }
    }
    Ok(())
}

pub async fn client(c: &Context) -> Outcome {
    let (parent, group, client) = (c.text("p")?, c.text("g")?, c.text("c")?);
    let request = || {
        Command::request(CLIENT_INFO)
            .with_field("parentTopic", parent)
            .with_field("group", group)
            .with_field("clientId", client)
            .with_field("maxCount", SHOWN_MAX)
    };
    let infos = of_parent(c, request).await?;
    say!(c, "Lite Client Info: [{parent}] [{group}] [{client}]");
    say!(
        c,
        "{:<30} {:<20} {:<30} {:<30} ",
        "#Broker",
        "#LiteTopicCount",
        "#LastAccessTime",
        "#LastConsumeTime"
    );
    for (broker, info) in infos {
        let (access, consume) = (time(&info, "lastAccessTime"), time(&info, "lastConsumeTime"));
        say!(c, "{broker:<30} {:<20} {access:<30} {consume:<30} ", number(&info, "liteTopicCount"));
        if c.has("s") {
            say!(c, "Lite Topics: {}\n", info["liteTopicSet"]);
        }
    }
    Ok(())
}

pub async fn group(c: &Context) -> Outcome {
    let (parent, group) = (c.text("p")?, c.text("g")?);
    let top: i32 = c.number_or("k", TOP_DEFAULT)?;
    let lite = c.get("l").unwrap_or_default();
    let request = || {
        let request = Command::request(GROUP_INFO).with_field("group", group).with_field("topK", top);
        if lite.is_empty() { request } else { request.with_field("liteTopic", lite) }
    };
    let infos = of_parent(c, request).await?;
    say!(c, "Lite Group Info: [{group}] [{parent}]");
    if !lite.is_empty() {
        say!(
            c,
            "{:<50} {:<16} {:<16} {:<16} {:<30}",
            "#Broker Name",
            "#BrokerOffset",
            "#ConsumeOffset",
            "#LagCount",
            "#LastUpdate"
        );
        for (broker, info) in infos {
            let stands = &info["liteTopicOffsetWrapper"];
            let (end, at) = (number(stands, "brokerOffset"), number(stands, "consumerOffset"));
            let last = time(stands, "lastTimestamp");
            say!(c, "{broker:<50} {end:<16} {at:<16} {:<16} {last:<30}", end - at);
        }
        return Ok(());
    }
    let lag: i64 = infos.iter().map(|(_, info)| number(info, "totalLagCount").max(0)).sum();
    let oldest =
        infos.iter().map(|(_, info)| number(info, "earliestUnconsumedTimestamp")).filter(|at| *at > 0).min();
    say!(c, "Total Lag Count: {lag}");
    if let Some(oldest) = oldest {
        say!(c, "Min Unconsumed Timestamp: {oldest} ({} s ago)", (now() - oldest) / 1000);
    }
    for (title, list, by) in [
        ("------TopK by lag count-----", "lagCountTopK", "lagCount"),
        ("------TopK by lag time------", "lagTimestampTopK", "earliestUnconsumedTimestamp"),
    ] {
        let mut rows: Vec<Value> =
            infos.iter().flat_map(|(_, info)| info[list].as_array().cloned().unwrap_or_default()).collect();
        rows.sort_by_key(|row| if by == "lagCount" { -number(row, by) } else { number(row, by) });
        say!(
            c,
            "\n{title}\n{:<6} {:<40} {:<12} {:<30}",
            "NO",
            "Lite Topic",
            "Lag Count",
            "UnconsumedTimestamp"
        );
        for (index, row) in rows.iter().enumerate() {
            let name = row["liteTopic"].as_str().unwrap_or_default();
            let oldest = time(row, "earliestUnconsumedTimestamp");
            say!(c, "{:<6} {name:<40} {:<12} {oldest:<30}", index + 1, number(row, "lagCount"));
        }
    }
    Ok(())
}

pub async fn dispatch(c: &Context) -> Outcome {
    let (parent, group) = (c.text("p")?, c.text("g")?);
    let mut brokers = c.admin.brokers_of_topic(parent).await?;
    brokers.retain(|broker| c.get("b").is_none_or(|name| name == broker.name));
    let mut told = Vec::new();
    for broker in brokers {
        let mut request = Command::request(DISPATCH).with_field("group", group);
        if let Some(client) = c.get("c") {
            request = request.with_field("clientId", client);
        }
        c.admin.ask(&broker.address, request).await?;
        told.push(broker.name);
    }
    say!(c, "Group And Topic Info: [{group}] [{parent}]\n");
    for broker in told {
        say!(c, "{broker:<30} {:<12}", "dispatched");
    }
    Ok(())
}
