//! Consumer groups: create, change, show, delete.

use std::{collections::BTreeMap, time::Duration};

use futures_util::future::try_join_all;
use redstart_engine::{Engine, GroupConfig, GroupName, GroupView, RetryPolicy, Ticket, TopicName};
use redstart_wire::remoting::body::{
    CustomizedRetry, ExponentialRetry, Forbidden, GroupConfig as WireGroup, GroupConfigs, GroupExtras,
    GroupPage, GroupRetryPolicy,
};

use super::{
    attributes,
    page::{self, Page},
};
use crate::remoting::{
    auto_create::ensure_retry_topic,
    refusal::Refusal,
    request::{Answer, Request},
};

/// Groups of one request.
const LIST_MAX: usize = 10_000;
const EXTRAS: &str = "extras";
const FORBIDDEN: &str = "forbidden.";
/// Bit that forbids a group to read a topic.
const READ_FORBIDDEN: i32 = 1 << 2;
const EXPONENTIAL: &str = "EXPONENTIAL";
const CUSTOMIZED: &str = "CUSTOMIZED";
/// RocketMQ's default retry policy. Without the first two delays it is the default of this broker.
const DEFAULT_NEXT: [u64; 18] = [
    1_000, 5_000, 10_000, 30_000, 60_000, 120_000, 180_000, 240_000, 300_000, 360_000, 420_000, 480_000,
    540_000, 600_000, 1_200_000, 1_800_000, 3_600_000, 7_200_000,
];

/// The delays of a policy; `None` for the broker's default.
fn policy(policy: GroupRetryPolicy) -> Option<RetryPolicy> {
    let exponential = policy.r#type.as_deref() == Some(EXPONENTIAL);
    match (exponential, policy.exponential_retry_policy, policy.customized_retry_policy) {
        (true, Some(policy), _) => Some(RetryPolicy::Exponential {
            initial: Duration::from_millis(policy.initial),
            max: Duration::from_millis(policy.max),
            multiplier: policy.multiplier,
        }),
        (false, _, Some(policy)) if policy.next != DEFAULT_NEXT => {
            Some(RetryPolicy::Ladder(policy.next.into_iter().map(Duration::from_millis).collect()))
        }
        _ => None,
    }
}

fn show_policy(config: &GroupConfig) -> GroupRetryPolicy {
    let millis = |duration: &Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    match &config.retry {
        RetryPolicy::Exponential { initial, max, multiplier } => GroupRetryPolicy {
            r#type: Some(EXPONENTIAL.to_owned()),
            exponential_retry_policy: Some(ExponentialRetry {
                initial: millis(initial),
                max: millis(max),
                multiplier: *multiplier,
            }),
            ..GroupRetryPolicy::default()
        },
        ladder if *ladder == default(config.ordered).retry => {
            GroupRetryPolicy { r#type: Some(CUSTOMIZED.to_owned()), ..GroupRetryPolicy::default() }
        }
        RetryPolicy::Ladder(steps) => GroupRetryPolicy {
            r#type: Some(CUSTOMIZED.to_owned()),
            customized_retry_policy: Some(CustomizedRetry { next: steps.iter().map(millis).collect() }),
            ..GroupRetryPolicy::default()
        },
    }
}

fn default(ordered: bool) -> GroupConfig {
    if ordered { GroupConfig::ordered() } else { GroupConfig::default() }
}

fn put(engine: &mut Engine, name: &GroupName, wanted: WireGroup) -> Result<Ticket, Refusal> {
    let default = default(wanted.consume_message_orderly);
    let old = engine.group(name).map(|group| group.config.attributes).unwrap_or_default();
    let changes = attributes::of_object(wanted.attributes.unwrap_or_default())?;
    let mut attributes = attributes::of_group(&old, changes)?;
    let extras = attributes::hidden(EXTRAS);
    if wanted.extras == GroupExtras::default() {
        attributes.remove(&extras);
    } else {
        attributes.insert(extras, serde_json::to_string(&wanted.extras)?);
    }
    let config = GroupConfig {
        enabled: wanted.consume_enable,
        ordered: wanted.consume_message_orderly,
        retries_max: u32::try_from(wanted.retry_max_times).unwrap_or(default.retries_max),
        retry: wanted.group_retry_policy.and_then(policy).unwrap_or(default.retry),
        attributes,
    };
    Ok(engine.put_group(name, config)?)
}

async fn put_one(request: &Request, wanted: WireGroup) -> Result<(), Refusal> {
    let name = GroupName::new(&wanted.group_name)?;
    let named = name.clone();
    request.context.node.shards.put_group(&name, move |engine| put(engine, &named, wanted)).await?;
    // Tools find a group by the route of its retry topic.
    ensure_retry_topic(request, &name).await
}

pub(crate) async fn put_group(request: &Request) -> Result<Answer, Refusal> {
    put_one(request, request.json()?).await?;
    Ok(Answer::ok())
}

pub(crate) async fn put_groups(request: &Request) -> Result<Answer, Refusal> {
    let GroupConfigs { group_config_list: list } = request.json()?;
    if list.len() > LIST_MAX {
        let why = format!("{} groups in one request, the limit is {LIST_MAX}", list.len());
        return Err(Refusal::invalid(why));
    }
    for group in &list {
        GroupName::new(&group.group_name)?;
    }
    // Concurrently, so that they share a few flushes.
    try_join_all(list.into_iter().map(|group| put_one(request, group))).await?;
    Ok(Answer::ok())
}

/// A group as tools see it.
fn show(group: &GroupView) -> WireGroup {
    let config = &group.config;
    let extras = config.attributes.get(&attributes::hidden(EXTRAS));
    WireGroup {
        group_name: group.name.to_string(),
        consume_enable: config.enabled,
        consume_message_orderly: config.ordered,
        retry_max_times: i32::try_from(config.retries_max).unwrap_or(i32::MAX),
        group_retry_policy: Some(show_policy(config)),
        extras: extras.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default(),
        attributes: Some(attributes::shown(&config.attributes)),
    }
}

pub(crate) async fn group(request: &Request) -> Result<Answer, Refusal> {
    let name = request.group("group")?;
    let unknown = Refusal::unknown_group(name.as_str());
    let view = request.ask(move |engine, _| engine.group(&name)).await?.ok_or(unknown)?;
    Ok(Answer::json(&show(&view)))
}

pub(crate) async fn all_groups(request: &Request) -> Result<Answer, Refusal> {
    let page = Page::read(request, "groupSeq", "maxGroupNum")?;
    let views: Vec<GroupView> = request
        .ask(|engine, _| engine.group_names().iter().filter_map(|name| engine.group(name)).collect())
        .await?;
    let table: BTreeMap<String, WireGroup> =
        views.iter().map(|view| (view.name.to_string(), show(view))).collect();
    let (total, version) = (table.len(), page::version(&table));
    let forbidden = views.iter().map(|view| (view.name.to_string(), forbidden_topics(view)));
    let body = GroupPage {
        subscription_group_table: page.of(table),
        forbidden_table: forbidden.filter(|(_, topics)| !topics.is_empty()).collect(),
        data_version: version,
    };
    Ok(page::json(&body)?.with("totalGroupNum", total))
}

fn forbidden_topics(view: &GroupView) -> BTreeMap<String, i32> {
    let prefix = attributes::hidden(FORBIDDEN);
    let topics = view.config.attributes.keys().filter_map(|key| key.strip_prefix(&prefix));
    topics.map(|topic| (topic.to_owned(), READ_FORBIDDEN)).collect()
}

/// Deletes a group and its progress. Deleting one that does not exist succeeds.
pub(crate) async fn delete_group(request: &Request) -> Result<Answer, Refusal> {
    let name = request.group("groupName")?;
    request.context.node.shards.delete_group(&name).await?;
    Ok(Answer::ok())
}

/// Answers whether a group may read a topic, after changing it if the request says so.
pub(crate) async fn forbidden(request: &Request) -> Result<Answer, Refusal> {
    let (group, topic) = (request.group("group")?, TopicName::new(request.required("topic")?)?);
    let name = group.clone();
    let view = request.ask(move |engine, _| engine.group(&name)).await?;
    let view = view.ok_or_else(|| Refusal::unknown_group(group.as_str()))?;
    let key = attributes::hidden(&format!("{FORBIDDEN}{topic}"));
    let mut readable = !view.config.attributes.contains_key(&key);
    if let Some(wanted) = request.truth("readable").filter(|wanted| *wanted != readable) {
        let mut config = view.config;
        if wanted {
            config.attributes.remove(&key);
        } else {
            config.attributes.insert(key, true.to_string());
        }
        let name = group.clone();
        let put = move |engine: &mut Engine| engine.put_group(&name, config).map_err(Refusal::from);
        request.context.node.shards.put_group(&group, put).await?;
        readable = wanted;
    }
    Ok(Answer::json(&Forbidden { topic: topic.to_string(), group: group.to_string(), readable }))
}

/// Whether an operator has forbidden the group to read the topic.
pub(crate) fn is_forbidden(group: &GroupConfig, topic: &TopicName) -> bool {
    !group.attributes.is_empty()
        && group.attributes.contains_key(&attributes::hidden(&format!("{FORBIDDEN}{topic}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<RetryPolicy> {
        policy(serde_json::from_str(text).unwrap())
    }

    #[test]
    fn a_retry_policy_is_read_and_shown_as_it_was_given() {
        let custom = r#"{"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[1000,2000]}}"#;
        let exponential = concat!(
            r#"{"type":"EXPONENTIAL","exponentialRetryPolicy":"#,
            r#"{"initial":5000,"max":60000,"multiplier":2}}"#
        );
        for text in [custom, exponential] {
            let config = GroupConfig { retry: read(text).unwrap(), ..GroupConfig::default() };
            assert_eq!(serde_json::to_string(&show_policy(&config)).unwrap(), text);
        }
    }

    #[test]
    fn rocketmqs_default_is_this_brokers_default() {
        let next = serde_json::to_string(&DEFAULT_NEXT).unwrap();
        let written = format!(r#"{{"type":"CUSTOMIZED","customizedRetryPolicy":{{"next":{next}}}}}"#);
        for text in ["{}", r#"{"type":"CUSTOMIZED"}"#, r#"{"type":"EXPONENTIAL"}"#, &written] {
            assert_eq!(read(text), None, "{text}");
        }
        for config in [GroupConfig::default(), GroupConfig::ordered()] {
            assert_eq!(serde_json::to_string(&show_policy(&config)).unwrap(), r#"{"type":"CUSTOMIZED"}"#);
        }
    }
}
