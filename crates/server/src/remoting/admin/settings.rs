//! Settings under RocketMQ's names. A setting that is changed while the broker runs is stored in the log and wins over the
//! command line after a restart.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use redstart_engine::{Config as EngineConfig, Engine};
use redstart_wire::remoting::{CHANGED_KEYS, code};

use super::{page, properties};
use crate::{
    remoting::{
        AUTO_CREATE_QUEUES, AUTO_CREATE_TOPIC, Config, Context,
        auto_create::TRACE_TOPIC,
        refusal::Refusal,
        request::{Answer, Request},
    },
    shard::{Flush, Unavailable},
    shards::ShardNumber,
};

const BROKER: &str = "broker";
const NAMES: &str = "namesrv";

const AUTO_CREATE_TOPICS: &str = "autoCreateTopicEnable";
const FILE_RESERVED_TIME: &str = "fileReservedTime";
const TRANSACTION_TIMEOUT: &str = "transactionTimeOut";
const TRANSACTION_CHECK_INTERVAL: &str = "transactionCheckInterval";
const TRANSACTION_CHECK_MAX: &str = "transactionCheckMax";
const ORDER_MESSAGES: &str = "orderMessageEnable";

/// Settings that name files. RocketMQ refuses to change them too; here they do not exist.
const PROTECTED: [&str; 5] =
    ["brokerConfigPath", "configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"];

const HOURS_MAX: u64 = 24 * 3650;
const MILLIS_MAX: u64 = 24 * 3600 * 1000;
const CHECKS_MAX: u64 = 1000;

/// The settings that the front end itself uses.
#[derive(Debug)]
pub(crate) struct Settings {
    auto_create_topics: AtomicBool,
    order_messages: AtomicBool,
}

impl Settings {
    pub fn new(config: &Config) -> Settings {
        Settings { auto_create_topics: config.auto_create_topics.into(), order_messages: false.into() }
    }

    pub fn auto_create_topics(&self) -> bool {
        self.auto_create_topics.load(Ordering::Relaxed)
    }

    /// Whether routes carry the queue numbers of ordered topics that tools have stored.
    pub fn order_messages(&self) -> bool {
        self.order_messages.load(Ordering::Relaxed)
    }
}

/// One setting and its new value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    AutoCreateTopics(bool),
    Keep(Duration),
    TransactionTimeout(Duration),
    TransactionCheckInterval(Duration),
    TransactionCheckMax(u32),
    OrderMessages(bool),
}

impl Change {
    fn read(namespace: &str, key: &str, value: &str) -> Result<Change, Refusal> {
        let number = |max: u64| {
            let number = value.parse::<u64>().ok().filter(|number| (1..=max).contains(number));
            number.ok_or_else(|| {
                Refusal::invalid(format!("{key} is {value:?}; it must be a number from 1 to {max}"))
            })
        };
        let truth = || {
            let why = || Refusal::invalid(format!("{key} is {value:?}; it must be true or false"));
            value.to_ascii_lowercase().parse::<bool>().map_err(|_| why())
        };
        Ok(match (namespace, key) {
            (BROKER, AUTO_CREATE_TOPICS) => Change::AutoCreateTopics(truth()?),
            (BROKER, FILE_RESERVED_TIME) => Change::Keep(Duration::from_secs(number(HOURS_MAX)? * 3600)),
            (BROKER, TRANSACTION_TIMEOUT) => {
                Change::TransactionTimeout(Duration::from_millis(number(MILLIS_MAX)?))
            }
            (BROKER, TRANSACTION_CHECK_INTERVAL) => {
                Change::TransactionCheckInterval(Duration::from_millis(number(MILLIS_MAX)?))
            }
            (BROKER, TRANSACTION_CHECK_MAX) => Change::TransactionCheckMax(number(CHECKS_MAX)? as u32),
            (NAMES, ORDER_MESSAGES) => Change::OrderMessages(truth()?),
            (_, key) if PROTECTED.contains(&key) => {
                return Err(Refusal::new(code::NO_PERMISSION, format!("{key} cannot be changed")));
            }
            _ => return Err(Refusal::invalid(unchangeable(namespace, key))),
        })
    }

    fn apply(self, settings: &Settings, engine: &mut Engine) {
        let mut transactions = engine.config().transactions.clone();
        match self {
            Change::AutoCreateTopics(create) => settings.auto_create_topics.store(create, Ordering::Relaxed),
            Change::OrderMessages(order) => settings.order_messages.store(order, Ordering::Relaxed),
            Change::Keep(keep) => engine.set_retention(keep),
            Change::TransactionTimeout(after) => transactions.first_check_after = after,
            Change::TransactionCheckInterval(interval) => transactions.check_interval = interval,
            Change::TransactionCheckMax(max) => transactions.checks_max = max,
        }
        engine.set_transactions(transactions);
    }
}

fn unchangeable(namespace: &str, key: &str) -> String {
    let changeable = match namespace {
        BROKER => &[
            AUTO_CREATE_TOPICS,
            FILE_RESERVED_TIME,
            TRANSACTION_TIMEOUT,
            TRANSACTION_CHECK_INTERVAL,
            TRANSACTION_CHECK_MAX,
        ][..],
        _ => &[ORDER_MESSAGES][..],
    };
    format!(
        "{key} is no setting that can be changed while the broker runs; there are {}",
        changeable.join(", ")
    )
}

impl Context {
    /// Applies the settings that were changed before the last stop.
    pub(in crate::remoting) async fn restore_settings(self: Arc<Self>) -> Result<(), Unavailable> {
        let restored = self.clone();
        let restore = self.shard.ask(move |engine, _| {
            for namespace in [BROKER, NAMES] {
                for (key, value) in engine.settings(namespace) {
                    match Change::read(namespace, &key, &value) {
                        Ok(change) => {
                            tracing::info!(
                                key,
                                value,
                                "set at run time by updateBrokerConfig, overrides the configuration"
                            );
                            change.apply(&restored.settings, engine);
                        }
                        Err(refusal) => {
                            tracing::warn!(key, remark = refusal.remark, "a stored setting is ignored");
                        }
                    }
                }
            }
        })?;
        restore.await
    }
}

/// Parses all settings of a request; one that is invalid refuses all.
async fn change(request: &Request, namespace: &'static str) -> Result<Answer, Refusal> {
    let wanted = properties::read(&request.body)?;
    let read = |(key, value): (&String, &String)| Change::read(namespace, key, value);
    let changes = wanted.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let node = request.context.node.clone();
    // Those of the name service are with the first broker.
    let number = if namespace == NAMES { ShardNumber::FIRST } else { request.context.number };
    let context = Context { node, number };
    let shard = context.shard.clone();
    for (key, value) in wanted {
        tracing::info!(namespace, key, value, "an operator changed a setting");
        shard.change(move |engine, _| engine.put_setting(namespace, &key, Some(&value)))?.await??;
    }
    let apply = move |engine: &mut Engine, _| {
        changes.into_iter().for_each(|change| change.apply(&context.settings, engine));
    };
    shard.ask(apply)?.await?;
    Ok(Answer::ok())
}

pub(crate) async fn put_broker_config(request: &Request) -> Result<Answer, Refusal> {
    change(request, BROKER).await
}

pub(crate) async fn put_names_config(request: &Request) -> Result<Answer, Refusal> {
    change(request, NAMES).await
}

pub(crate) async fn broker_config(request: &Request) -> Result<Answer, Refusal> {
    let (engine, changed) =
        request.ask(|engine, _| (engine.config().clone(), engine.settings(BROKER))).await?;
    let shown = shown(request, &engine);
    let changed: Vec<String> = changed.into_keys().collect();
    let version = page::version(&shown);
    Ok(Answer::ok()
        .with_body(properties::write(&shown))
        .with(CHANGED_KEYS, changed.join(","))
        .with("version", serde_json::to_string(&version).unwrap_or_default()))
}

pub(crate) fn names_config(request: &Request) -> Result<Answer, Refusal> {
    let context = &request.context;
    let shown = [
        ("listenPort", context.node.names_at.to_string()),
        (ORDER_MESSAGES, context.node.brokers[0].settings.order_messages().to_string()),
        ("enableAllTopicList", true.to_string()),
        ("returnOrderTopicConfigToBroker", true.to_string()),
    ];
    Ok(Answer::ok().with_body(properties::write(&shown)))
}

fn shown(request: &Request, engine: &EngineConfig) -> Vec<(&'static str, String)> {
    let (context, config) = (&request.context, &request.context.node.config);
    let (limits, retention, transactions) = (&engine.limits, &engine.retention, &engine.transactions);
    let flush = match context.shard.flush() {
        Flush::Sync => "SYNC_FLUSH",
        Flush::Async { .. } => "ASYNC_FLUSH",
    };
    let levels: Vec<String> = config.delay_levels.iter().copied().map(level).collect();
    vec![
        ("brokerClusterName", config.cluster.clone()),
        ("brokerName", context.name.clone()),
        ("brokerId", 0.to_string()),
        ("brokerRole", "ASYNC_MASTER".to_owned()),
        ("brokerIP1", request.broker_address().ip().to_string()),
        ("listenPort", context.port.to_string()),
        ("brokerPermission", 6.to_string()),
        (AUTO_CREATE_TOPICS, context.settings.auto_create_topics().to_string()),
        ("autoCreateSubscriptionGroup", config.auto_create_groups.to_string()),
        ("autoCreateTopicKeyValue", AUTO_CREATE_TOPIC.to_owned()),
        ("defaultTopicQueueNums", AUTO_CREATE_QUEUES.to_string()),
        ("flushDiskType", flush.to_owned()),
        (FILE_RESERVED_TIME, (retention.keep.as_secs() / 3600).to_string()),
        ("diskMaxUsedSpaceRatio", retention.clean_percent.to_string()),
        ("maxMessageSize", limits.body_bytes_max.to_string()),
        ("messageDelayLevel", levels.join(" ")),
        ("timerMaxDelaySec", limits.delay_max.as_secs().to_string()),
        ("timerWheelEnable", true.to_string()),
        (TRANSACTION_TIMEOUT, transactions.first_check_after.as_millis().to_string()),
        (TRANSACTION_CHECK_INTERVAL, transactions.check_interval.as_millis().to_string()),
        (TRANSACTION_CHECK_MAX, transactions.checks_max.to_string()),
        ("enablePropertyFilter", true.to_string()),
        ("enableMixedMessageType", true.to_string()),
        ("litePullMessageEnable", true.to_string()),
        ("recallMessageEnable", true.to_string()),
        ("useServerSideResetOffset", true.to_string()),
        ("slaveReadEnable", false.to_string()),
        ("traceOn", true.to_string()),
        ("traceTopicEnable", true.to_string()),
        ("msgTraceTopicName", TRACE_TOPIC.to_owned()),
        ("authenticationEnabled", false.to_string()),
        ("authorizationEnabled", false.to_string()),
    ]
}

/// A delay in RocketMQ's notation.
fn level(delay: Duration) -> String {
    let seconds = delay.as_secs();
    let unit = [(24 * 3600, 'd'), (3600, 'h'), (60, 'm')];
    let unit = unit
        .into_iter()
        .find(|(unit, _)| seconds >= *unit && seconds.is_multiple_of(*unit))
        .unwrap_or((1, 's'));
    format!("{}{}", seconds / unit.0, unit.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_within_their_limits() {
        let read = |key, value| Change::read(BROKER, key, value);
        assert_eq!(read(AUTO_CREATE_TOPICS, "TRUE"), Ok(Change::AutoCreateTopics(true)));
        assert_eq!(read(FILE_RESERVED_TIME, "2"), Ok(Change::Keep(Duration::from_secs(7200))));
        for (key, value) in [
            (AUTO_CREATE_TOPICS, "yes"),
            (FILE_RESERVED_TIME, "0"),
            (FILE_RESERVED_TIME, "-1"),
            (TRANSACTION_CHECK_MAX, "1001"),
            (TRANSACTION_TIMEOUT, "99999999999999999999"),
            ("brokerName", "x"),
            ("storePathRootDir", "/tmp"),
            (ORDER_MESSAGES, "true"),
        ] {
            assert_eq!(read(key, value).unwrap_err().code, code::INVALID_PARAMETER, "{key}={value}");
        }
        for key in PROTECTED {
            assert_eq!(read(key, "x").unwrap_err().code, code::NO_PERMISSION, "{key}");
        }
    }

    #[test]
    fn delays_have_their_shortest_notation() {
        let written: Vec<String> = [1, 60, 90, 7200, 86_400].map(|s| level(Duration::from_secs(s))).to_vec();
        assert_eq!(written, ["1s", "1m", "90s", "2h", "1d"]);
    }
}
