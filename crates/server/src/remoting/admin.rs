use std::{collections::BTreeMap, time::Duration};

use redstart_engine::{
    AdminError, GroupConfig, GroupName, MessageType, NameError, Permission, RetryPolicy, TopicConfig,
    TopicName, UnknownMessageType,
};
use redstart_wire::remoting::{Command, code};
use serde::Deserialize;

use super::{
    Context,
    attributes::{BadAttribute, Changes},
};
use crate::shard::{ChangeError, Unavailable};

const MESSAGE_TYPE: &str = "message.type";

/// A request of an administrator that was refused.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("the field {0} is missing or no number")]
    Field(&'static str),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Attribute(#[from] BadAttribute),
    #[error(transparent)]
    MessageType(#[from] UnknownMessageType),
    #[error("the body is not what it should be: {0}")]
    Body(#[from] serde_json::Error),
    #[error(transparent)]
    Change(#[from] ChangeError<AdminError>),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Refused {
    fn code(&self) -> i32 {
        match self {
            Refused::Field(_) | Refused::Name(_) | Refused::Attribute(_) | Refused::MessageType(_) => {
                code::INVALID_PARAMETER
            }
            Refused::Change(ChangeError::Refused(_)) | Refused::Body(_) => code::INVALID_PARAMETER,
            Refused::Change(_) | Refused::Unavailable(_) => code::SYSTEM_ERROR,
        }
    }
}

fn answer(request: &Command, result: Result<(), Refused>) -> Command {
    match result {
        Ok(()) => request.answer(code::SUCCESS, None),
        Err(refused) => request.answer(refused.code(), Some(refused.to_string())),
    }
}

pub(super) async fn put_topic(context: &Context, request: &Command) -> Command {
    answer(request, try_put_topic(context, request).await)
}

async fn try_put_topic(context: &Context, request: &Command) -> Result<(), Refused> {
    let number = |name: &'static str| -> Result<u32, Refused> {
        request.field(name).and_then(|text| text.parse().ok()).ok_or(Refused::Field(name))
    };
    let name = TopicName::new(request.field("topic").unwrap_or_default())?;
    name.not_reserved()?;
    let changes = Changes::parse(request.field("attributes").unwrap_or_default())?;
    let message_type = changes.value(MESSAGE_TYPE).map(str::parse::<MessageType>).transpose()?;
    let (read_queues, write_queues, permission) =
        (number("readQueueNums")?, number("writeQueueNums")?, number("perm")?);
    let put = context.shard.change(move |engine, _| {
        // What is not named stays as it was.
        let mut old = engine.topic(&name).map(|topic| topic.config).unwrap_or_default();
        changes.apply(&mut old.attributes);
        let config = TopicConfig {
            message_type: message_type.unwrap_or(old.message_type),
            read_queues,
            write_queues,
            permission: Permission::from_bits(permission as u8),
            dedup_window: old.dedup_window,
            attributes: old.attributes,
        };
        engine.put_topic(&name, config)
    })?;
    Ok(put.await??)
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

pub(super) async fn put_group(context: &Context, request: &Command) -> Command {
    answer(request, try_put_group(context, request).await)
}

async fn try_put_group(context: &Context, request: &Command) -> Result<(), Refused> {
    let group: SubscriptionGroup = serde_json::from_slice(&request.body)?;
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
    let put = context.shard.change(move |engine, _| {
        config.attributes = engine.group_config(&name).map(|old| old.attributes.clone()).unwrap_or_default();
        changes.apply(&mut config.attributes);
        engine.put_group(&name, config)
    })?;
    Ok(put.await??)
}

/// One cluster with one broker.
pub(super) fn cluster(context: &Context, request: &Command) -> Command {
    let config = &context.config;
    let body = serde_json::json!({
        "brokerAddrTable": {
            &config.broker: {
                "brokerAddrs": { "0": config.listen.to_string() },
                "brokerName": &config.broker,
                "cluster": &config.cluster,
                "enableActingMaster": false,
            }
        },
        "clusterAddrTable": { &config.cluster: [&config.broker] },
    });
    Command { body: body.to_string().into(), ..request.answer(code::SUCCESS, None) }
}
