use std::{collections::BTreeMap, time::Duration};

use redstart_engine::{GroupConfig, GroupName, MessageType, Permission, RetryPolicy, TopicConfig, TopicName};
use serde::Deserialize;

use super::{
    attributes::Changes,
    refusal::Refusal,
    request::{Answer, Request},
};

const MESSAGE_TYPE: &str = "message.type";

pub(super) async fn put_topic(request: &Request) -> Result<Answer, Refusal> {
    let name = TopicName::new(request.required("topic")?)?;
    name.not_reserved()?;
    let changes = Changes::parse(request.field("attributes").unwrap_or_default())?;
    let message_type = changes.value(MESSAGE_TYPE).map(str::parse::<MessageType>).transpose()?;
    let (read_queues, write_queues) = (request.number("readQueueNums")?, request.number("writeQueueNums")?);
    let permission = request.number::<u8>("perm")?;
    let put = request.change(move |engine, _| {
        // What is not named stays as it was.
        let mut old = engine.topic(&name).map(|topic| topic.config).unwrap_or_default();
        changes.apply(&mut old.attributes);
        let config = TopicConfig {
            message_type: message_type.unwrap_or(old.message_type),
            read_queues,
            write_queues,
            permission: Permission::from_bits(permission),
            dedup_window: old.dedup_window,
            attributes: old.attributes,
        };
        engine.put_topic(&name, config)
    });
    put.await?;
    Ok(Answer::ok())
}

/// RocketMQ's description of a consumer group, as far as it means something here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SubscriptionGroup {
    group_name: String,
    #[serde(default = "yes")]
    consume_enable: bool,
    #[serde(default)]
    consume_message_orderly: bool,
    #[serde(default = "default_retries")]
    retry_max_times: i32,
    group_retry_policy: Option<GroupRetryPolicy>,
    attributes: Option<BTreeMap<String, String>>,
}

fn yes() -> bool {
    true
}

fn default_retries() -> i32 {
    GroupConfig::default().retries_max as i32
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GroupRetryPolicy {
    r#type: Option<String>,
    exponential_retry_policy: Option<Exponential>,
    customized_retry_policy: Option<Customized>,
}

#[derive(Debug, Deserialize)]
struct Exponential {
    initial: u64,
    max: u64,
    multiplier: u32,
}

#[derive(Debug, Deserialize)]
struct Customized {
    next: Vec<u64>,
}

impl GroupRetryPolicy {
    fn policy(self) -> Option<RetryPolicy> {
        let exponential = self.r#type.as_deref() == Some("EXPONENTIAL");
        match (exponential, self.exponential_retry_policy, self.customized_retry_policy) {
            (true, Some(policy), _) => Some(RetryPolicy::Exponential {
                initial: Duration::from_millis(policy.initial),
                max: Duration::from_millis(policy.max),
                multiplier: policy.multiplier,
            }),
            (false, _, Some(policy)) => {
                Some(RetryPolicy::Ladder(policy.next.into_iter().map(Duration::from_millis).collect()))
            }
            _ => None,
        }
    }
}

pub(super) async fn put_group(request: &Request) -> Result<Answer, Refusal> {
    let group: SubscriptionGroup = request.json()?;
    let name = GroupName::new(&group.group_name)?;
    let default = if group.consume_message_orderly { GroupConfig::ordered() } else { GroupConfig::default() };
    let changes = Changes::of_map(group.attributes.unwrap_or_default())?;
    let mut config = GroupConfig {
        enabled: group.consume_enable,
        ordered: group.consume_message_orderly,
        retries_max: u32::try_from(group.retry_max_times).unwrap_or(default.retries_max),
        retry: group.group_retry_policy.and_then(GroupRetryPolicy::policy).unwrap_or(default.retry),
        attributes: BTreeMap::new(),
    };
    let put = request.change(move |engine, _| {
        config.attributes = engine.group_config(&name).map(|old| old.attributes.clone()).unwrap_or_default();
        changes.apply(&mut config.attributes);
        engine.put_group(&name, config)
    });
    put.await?;
    Ok(Answer::ok())
}
