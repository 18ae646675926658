//! Exports settings and metrics to JSON files.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::Context as _;
use redstart_client::admin::{DEAD_LETTER_PREFIX, RETRY_PREFIX, is_system_group, is_system_topic};
use redstart_wire::remoting::{
    VERSION,
    body::{GroupConfig, StatisticsData, TopicEntry},
};
use serde_json::{Value, json};

use super::{
    clients,
    context::{Context, Outcome},
    json::pretty,
    text::{now, version},
    topic_views::of_day,
};

const FOLDER: &str = "/tmp/rocketmq/export";
/// The settings of a broker that the export includes.
const SETTINGS: [&str; 16] = [
    "brokerClusterName",
    "brokerId",
    "brokerName",
    "brokerRole",
    "fileReservedTime",
    "filterServerNums",
    "flushDiskType",
    "maxMessageSize",
    "messageDelayLevel",
    "msgTraceTopicName",
    "slaveReadEnable",
    "traceOn",
    "traceTopicEnable",
    "useTLS",
    "autoCreateTopicEnable",
    "autoCreateSubscriptionGroup",
];

fn write(c: &Context, name: &str, value: &Value) -> Outcome {
    let folder = c.get("f").unwrap_or(FOLDER);
    fs::create_dir_all(folder).with_context(|| format!("cannot create the directory {folder}"))?;
    let path = Path::new(folder).join(name);
    fs::write(&path, pretty(value)).with_context(|| format!("cannot write {}", path.display()))?;
    c.print(format_args!("export {} success\n", path.display()))?;
    Ok(())
}

/// The topics of users; retry and dead-letter topics only if they are wanted.
async fn topics(c: &Context, broker: &str, of_groups: bool) -> anyhow::Result<BTreeMap<String, TopicEntry>> {
    let own = c.admin.system_topics(broker).await?;
    let mut topics = c.admin.topic_configs(broker).await?;
    topics.retain(|name, _| {
        let of_group = name.starts_with(RETRY_PREFIX) || name.starts_with(DEAD_LETTER_PREFIX);
        !own.contains(name) && !is_system_topic(name) && (of_groups || !of_group)
    });
    Ok(topics)
}

async fn groups(c: &Context, broker: &str) -> anyhow::Result<BTreeMap<String, GroupConfig>> {
    let mut groups = c.admin.groups(broker).await?;
    groups.retain(|name, _| !is_system_group(name));
    Ok(groups)
}

pub async fn metadata(c: &Context) -> Outcome {
    let masters = c.masters().await?;
    let mut all_topics: BTreeMap<String, TopicEntry> = BTreeMap::new();
    let mut all_groups: BTreeMap<String, GroupConfig> = BTreeMap::new();
    for address in masters {
        // The queues of a topic in the cluster are the sum of those on its brokers.
        for (name, mut topic) in topics(c, &address, c.has("s")).await? {
            if let Some(known) = all_topics.get(&name) {
                topic.read_queue_nums += known.read_queue_nums;
                topic.write_queue_nums += known.write_queue_nums;
            }
            all_topics.insert(name, topic);
        }
        for (name, mut group) in groups(c, &address).await? {
            if let Some(known) = all_groups.get(&name) {
                group.extras.retry_queue_nums += known.extras.retry_queue_nums;
            }
            all_groups.insert(name, group);
        }
    }
    if c.has("t") {
        return write(c, "topic.json", &json!({ "topicConfigTable": all_topics, "exportTime": now() }));
    }
    if c.has("g") {
        let table = json!({ "subscriptionGroupTable": all_groups, "exportTime": now() });
        return write(c, "subscriptionGroup.json", &table);
    }
    let tables =
        json!({ "topicConfigTable": all_topics, "subscriptionGroupTable": all_groups, "exportTime": now() });
    write(c, "metadata.json", &tables)
}

pub async fn configs(c: &Context) -> Outcome {
    let brokers = c.of_cluster(c.text("c")?).await?;
    let mut configs = serde_json::Map::new();
    for broker in brokers.iter().filter(|broker| broker.id == 0) {
        let mut settings = c.admin.broker_config(&broker.address).await?;
        settings.retain(|name, _| SETTINGS.contains(&name.as_str()));
        configs.insert(broker.name.clone(), json!(settings));
    }
    let masters = brokers.iter().filter(|broker| broker.id == 0).count();
    let scale = json!({
        "namesrvSize": c.admin.names().len(),
        "masterBrokerSize": masters,
        "slaveBrokerSize": brokers.len() - masters,
    });
    write(c, "configs.json", &json!({ "brokerConfigs": configs, "clusterScale": scale }))
}

/// Metrics of a broker that are summed for the cluster.
#[derive(Debug, Clone, Copy, Default)]
struct Figures {
    in_tps: f64,
    out_tps: f64,
    transaction_tps: f64,
    delayed_tps: f64,
    in_day: i64,
    out_day: i64,
    transactions_day: u64,
    delayed_day: u64,
}

impl Figures {
    fn add(&mut self, other: &Figures) {
        self.in_tps += other.in_tps;
        self.out_tps += other.out_tps;
        self.transaction_tps += other.transaction_tps;
        self.delayed_tps += other.delayed_tps;
        self.in_day += other.in_day;
        self.out_day += other.out_day;
        self.transactions_day += other.transactions_day;
        self.delayed_day += other.delayed_day;
    }

    fn day(&self) -> Value {
        json!({
            "normalOneDayInNum": self.in_day,
            "normalOneDayOutNum": self.out_day,
            "transOneDayInNum": self.transactions_day,
            "scheduleOneDayInNum": self.delayed_day,
        })
    }
}

pub async fn metrics(c: &Context) -> Outcome {
    let mut report = serde_json::Map::new();
    let mut total = Figures::default();
    for broker in c.of_cluster(c.text("c")?).await?.iter().filter(|broker| broker.id == 0) {
        let (described, figures) = of_broker(c, &broker.address).await?;
        total.add(&figures);
        report.insert(broker.name.clone(), described);
    }
    let rates = json!({
        "totalNormalInTps": total.in_tps,
        "totalNormalOutTps": total.out_tps,
        "totalTransInTps": total.transaction_tps,
        "totalScheduleInTps": total.delayed_tps,
    });
    let totals = json!({ "totalTps": rates, "totalOneDayNum": total.day() });
    write(c, "metrics.json", &json!({ "evaluateReport": report, "totalData": totals }))
}

async fn of_broker(c: &Context, address: &str) -> anyhow::Result<(Value, Figures)> {
    let info = c.admin.runtime_info(address).await?;
    let settings = c.admin.broker_config(address).await?;
    let groups = groups(c, address).await?;
    let topics = topics(c, address, false).await?;
    let half = put_count(c, address, "RMQ_SYS_TRANS_HALF_TOPIC").await;
    let delayed = put_count(c, address, "SCHEDULE_TOPIC_XXXX").await;
    let rate =
        |name: &str| info.get(name).and_then(|rates| rates.split(' ').next()?.parse().ok()).unwrap_or(0.0);
    let count = |name: &str| info.get(name).and_then(|count| count.parse::<i64>().ok()).unwrap_or(0);
    let figures = Figures {
        in_tps: rate("putTps"),
        out_tps: rate("getTransferredTps"),
        transaction_tps: half.stats_minute.tps,
        delayed_tps: delayed.stats_minute.tps,
        in_day: count("msgPutTotalTodayMorning") - count("msgPutTotalYesterdayMorning"),
        out_day: count("msgGetTotalTodayMorning") - count("msgGetTotalYesterdayMorning"),
        transactions_day: of_day(&half),
        delayed_day: of_day(&delayed),
    };
    let described = json!({
        "runtimeEnv": {
            "cpuNum": settings.get("clientCallbackExecutorThreads"),
            "totalMemKBytes": info.get("totalMemKBytes"),
        },
        "runtimeQuota": {
            "diskRatio": {
                "commitLogDiskRatio": info.get("commitLogDiskRatio"),
                "consumeQueueDiskRatio": info.get("consumeQueueDiskRatio"),
            },
            "tps": {
                "normalInTps": figures.in_tps,
                "normalOutTps": figures.out_tps,
                "transInTps": figures.transaction_tps,
                "scheduleInTps": figures.delayed_tps,
            },
            "oneDayNum": figures.day(),
            "messageAverageSize": info.get("putMessageAverageSize"),
            "topicSize": topics.len(),
            "groupSize": groups.len(),
        },
        "runtimeVersion": { "rocketmqVersion": version(VERSION), "clientInfo": client_versions(c, &groups).await },
    });
    Ok((described, figures))
}

async fn put_count(c: &Context, address: &str, topic: &str) -> StatisticsData {
    c.admin.statistics(address, "TOPIC_PUT_NUMS", topic).await.ok().flatten().unwrap_or_default()
}

/// Languages and versions of the connected consumers.
async fn client_versions(c: &Context, groups: &BTreeMap<String, GroupConfig>) -> Vec<String> {
    let mut versions = std::collections::BTreeSet::new();
    for group in groups.keys() {
        let Ok((_, connected)) = clients::connection(c, group, None).await else { continue };
        let described = |client: &redstart_wire::remoting::body::Connection| {
            format!("{}%{}", client.language, version(client.version))
        };
        versions.extend(connected.connection_set.iter().map(described));
    }
    versions.into_iter().collect()
}
