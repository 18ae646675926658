//! Values in the notation of Java's mqadmin, because scripts parse its output.

use std::{collections::BTreeMap, fmt::Display};

use anyhow::{Context as _, bail};
use jiff::{Timestamp, Zoned, civil::DateTime, tz::TimeZone};
use redstart_wire::remoting::body::{GroupConfig, GroupRetryPolicy, Queue, TopicEntry};

/// The first `width` characters of a text.
pub fn front(text: &str, width: usize) -> String {
    text.chars().take(width).collect()
}

pub fn map<'a>(entries: impl IntoIterator<Item = (&'a String, &'a String)>) -> String {
    let entries: Vec<String> = entries.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("{{{}}}", entries.join(", "))
}

pub fn list<T: Display>(items: &[T]) -> String {
    format!("[{}]", items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
}

pub fn optional<T: Display>(value: Option<&T>) -> String {
    value.map_or_else(|| "null".to_owned(), ToString::to_string)
}

pub fn queue(queue: &Queue) -> String {
    format!(
        "MessageQueue [topic={}, brokerName={}, queueId={}]",
        queue.topic, queue.broker_name, queue.queue_id
    )
}

/// A number as Java's `Double.toString` writes it.
pub fn double(value: f64) -> String {
    if value != 0.0 && (value.abs() < 1e-3 || value.abs() >= 1e7) {
        let text = format!("{value:E}");
        let (digits, exponent) = text.split_once('E').unwrap_or((&text, "0"));
        let point = if digits.contains('.') { "" } else { ".0" };
        return format!("{digits}{point}E{exponent}");
    }
    format!("{value:?}")
}

fn permission(perm: u8) -> String {
    let letter = |bit: u8, letter| if perm & bit != 0 { letter } else { '-' };
    [letter(4, 'R'), letter(2, 'W'), letter(1, 'X')].into_iter().collect()
}

pub fn topic_config(topic: &TopicEntry) -> String {
    format!(
        "TopicConfig [topicName={}, readQueueNums={}, writeQueueNums={}, perm={}, topicFilterType={}, topicSysFlag={}, \
         order={}, attributes={}]",
        topic.topic_name,
        topic.read_queue_nums,
        topic.write_queue_nums,
        permission(topic.perm),
        topic.topic_filter_type,
        topic.topic_sys_flag,
        topic.order,
        map(&topic.attributes)
    )
}

/// The settings of a group, with Java's names and in the order of Java's class.
pub fn group_fields(group: &GroupConfig) -> Vec<(&'static str, String)> {
    let extras = &group.extras;
    vec![
        ("groupName", group.group_name.clone()),
        ("consumeEnable", group.consume_enable.to_string()),
        ("consumeFromMinEnable", extras.consume_from_min_enable.to_string()),
        ("consumeBroadcastEnable", extras.consume_broadcast_enable.to_string()),
        ("consumeMessageOrderly", group.consume_message_orderly.to_string()),
        ("retryQueueNums", extras.retry_queue_nums.to_string()),
        ("retryMaxTimes", group.retry_max_times.to_string()),
        ("groupRetryPolicy", retry_policy(group.group_retry_policy.as_ref())),
        ("brokerId", extras.broker_id.to_string()),
        ("whichBrokerWhenConsumeSlowly", extras.which_broker_when_consume_slowly.to_string()),
        ("notifyConsumerIdsChangedEnable", extras.notify_consumer_ids_changed_enable.to_string()),
        ("groupSysFlag", extras.group_sys_flag.to_string()),
        ("consumeTimeoutMinute", extras.consume_timeout_minute.to_string()),
        ("subscriptionDataSet", "null".to_owned()),
        ("attributes", group.attributes.as_ref().map_or_else(|| "{}".to_owned(), map)),
    ]
}

pub fn group_config(group: &GroupConfig) -> String {
    let fields = group_fields(group).into_iter().map(|(name, value)| format!("{name}={value}"));
    format!("SubscriptionGroupConfig{{{}}}", fields.collect::<Vec<_>>().join(", "))
}

fn retry_policy(policy: Option<&GroupRetryPolicy>) -> String {
    let default = GroupRetryPolicy::default();
    let policy = policy.unwrap_or(&default);
    let exponential = policy.exponential_retry_policy.as_ref().map(|retry| {
        format!(
            "ExponentialRetryPolicy{{initial={}, max={}, multiplier={}}}",
            retry.initial, retry.max, retry.multiplier
        )
    });
    let customized = policy
        .customized_retry_policy
        .as_ref()
        .map(|retry| format!("CustomizedRetryPolicy{{next={}}}", list(&retry.next)));
    format!(
        "GroupRetryPolicy{{type={}, exponentialRetryPolicy={}, customizedRetryPolicy={}}}",
        policy.r#type.as_deref().unwrap_or("CUSTOMIZED"),
        optional(exponential.as_ref()),
        optional(customized.as_ref())
    )
}

/// The name of a RocketMQ version. From 4.0.0 on every release has two numbers, the first for its snapshot.
pub fn version(number: i32) -> String {
    const FIRST: i32 = 212;
    const RELEASES: i32 = 200;
    let Some(after) = number.checked_sub(FIRST).filter(|after| *after >= 0) else {
        return format!("V3({number})");
    };
    let release = after / 2;
    if release >= RELEASES {
        return "HIGHER_VERSION".to_owned();
    }
    let (major, minor, patch) = (4 + release / 100, release / 10 % 10, release % 10);
    format!("V{major}_{minor}_{patch}{}", if after % 2 == 0 { "_SNAPSHOT" } else { "" })
}

/// Reads changes of attributes: `+key=value,-key`.
pub fn attributes(text: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let mut changes = BTreeMap::new();
    for change in text.split(',').map(str::trim).filter(|change| !change.is_empty()) {
        let (key, value) = match change.split_once('=') {
            Some((key, value)) if key.starts_with('+') && key.len() > 1 && !value.is_empty() => (key, value),
            Some(_) => bail!("{change:?} is not a valid change of an attribute: write +key=value to set one"),
            None if change.starts_with('-') && change.len() > 1 => (change, ""),
            None => bail!("{change:?} is not a valid change of an attribute: write -key to remove one"),
        };
        if changes.insert(key.to_owned(), value.to_owned()).is_some() {
            bail!("the attribute {key} is changed twice");
        }
    }
    Ok(changes)
}

fn local(millis: i64) -> Option<Zoned> {
    Some(Timestamp::from_millisecond(millis).ok()?.to_zoned(TimeZone::system()))
}

fn time(millis: i64, pattern: &str) -> String {
    local(millis).map_or_else(|| millis.to_string(), |time| time.strftime(pattern).to_string())
}

/// `2026-01-31 12:00:00` in local time.
pub fn second(millis: i64) -> String {
    time(millis, "%Y-%m-%d %H:%M:%S")
}

/// `2026-01-31 12:00:00,000` in local time.
pub fn millisecond(millis: i64) -> String {
    time(millis, "%Y-%m-%d %H:%M:%S,%3f")
}

/// `20260131120000000` in local time.
pub fn digits(millis: i64) -> String {
    time(millis, "%Y%m%d%H%M%S%3f")
}

pub fn now() -> i64 {
    Timestamp::now().as_millisecond()
}

/// Reads a time: milliseconds since 1970, or `yyyy-MM-dd#HH:mm:ss:SSS` in local time.
pub fn point_in_time(text: &str) -> anyhow::Result<i64> {
    if let Ok(millis) = text.parse() {
        return Ok(millis);
    }
    let wrong =
        || format!("{text:?} is not a time: write milliseconds since 1970, or yyyy-MM-dd#HH:mm:ss:SSS");
    let (seconds, millis) = text.rsplit_once(':').with_context(wrong)?;
    let millis: i16 = millis.parse().ok().filter(|millis| (0..1000).contains(millis)).with_context(wrong)?;
    let time = DateTime::strptime("%Y-%m-%d#%H:%M:%S", seconds).ok().with_context(wrong)?;
    let time = time.to_zoned(TimeZone::system()).with_context(wrong)?;
    Ok(time.timestamp().as_millisecond() + i64::from(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_the_names_of_their_numbers() {
        for (number, name) in
            [(213, "V4_0_0"), (317, "V4_5_2"), (399, "V4_9_3"), (413, "V5_0_0"), (475, "V5_3_1")]
        {
            assert_eq!(version(number), name);
        }
        assert_eq!(version(474), "V5_3_1_SNAPSHOT");
        assert_eq!(version(9999), "HIGHER_VERSION");
    }

    #[test]
    fn doubles_look_like_those_of_java() {
        for (value, text) in
            [(0.0, "0.0"), (1.5, "1.5"), (100.0, "100.0"), (0.0001, "1.0E-4"), (2.5e7, "2.5E7")]
        {
            assert_eq!(double(value), text);
        }
    }

    #[test]
    fn changes_of_attributes_are_read_and_others_are_refused() {
        let changes = attributes("+message.type=FIFO,-x").expect("both kinds");
        assert_eq!(map(&changes), "{+message.type=FIFO, -x=}");
        for wrong in ["message.type=FIFO", "+message.type", "x", "+a=b,+a=c", "+=b", "+a="] {
            assert!(attributes(wrong).is_err(), "{wrong}");
        }
        assert!(attributes("").expect("nothing to change").is_empty());
    }

    #[test]
    fn a_time_is_read_back() {
        let millis = 1_700_000_000_123;
        let text = time(millis, "%Y-%m-%d#%H:%M:%S:%3f");
        assert_eq!(point_in_time(&text).expect("a time"), millis);
        assert_eq!(point_in_time("1700000000123").expect("millis"), millis);
        for wrong in ["yesterday", "2023-01-01", "2023-13-01#00:00:00:000", "2023-01-01#00:00:00:1000"] {
            assert!(point_in_time(wrong).is_err(), "{wrong}");
        }
    }
}
