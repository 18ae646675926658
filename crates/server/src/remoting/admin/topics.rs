//! Topics: create, change, show, delete.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use redstart_engine::{
    AdminError, Engine, MessageType, Permission, Ticket, TopicConfig, TopicName, TopicView,
};
use redstart_wire::remoting::body::{DataVersion, TopicConfigList, TopicEntry, TopicPage};

use super::{
    attributes::{self, Changes, MESSAGE_TYPE},
    page::{self, Page},
};
use crate::remoting::{
    refusal::Refusal,
    request::{Answer, Request},
};

const PERMISSION_MAX: i32 = 7;
/// Topics of one request.
const LIST_MAX: usize = 10_000;
const ORDER: &str = "order";

/// A topic as a request describes it.
struct Wanted {
    name: TopicName,
    read_queues: u32,
    write_queues: u32,
    permission: Permission,
    order: bool,
    changes: Changes,
}

impl Wanted {
    /// Retry and dead-letter topics can be changed by operators; other reserved names cannot.
    fn name(text: &str) -> Result<TopicName, Refusal> {
        let name = TopicName::new(text)?;
        if !name.is_retry() && !name.is_dead_letter() {
            name.not_reserved()?;
        }
        Ok(name)
    }

    fn permission(bits: i32) -> Result<Permission, Refusal> {
        if !(0..=PERMISSION_MAX).contains(&bits) {
            return Err(Refusal::invalid(format!("perm is {bits}; it must be from 0 to {PERMISSION_MAX}")));
        }
        Ok(Permission::from_bits(bits as u8))
    }

    fn of_fields(request: &Request) -> Result<Wanted, Refusal> {
        Ok(Wanted {
            name: Wanted::name(request.required("topic")?)?,
            read_queues: request.number("readQueueNums")?,
            write_queues: request.number("writeQueueNums")?,
            permission: Wanted::permission(request.number("perm")?)?,
            order: request.truth("order").unwrap_or(false),
            changes: attributes::parse(request.field("attributes").unwrap_or_default())?,
        })
    }

    fn of_entry(entry: TopicEntry) -> Result<Wanted, Refusal> {
        Ok(Wanted {
            name: Wanted::name(&entry.topic_name)?,
            read_queues: entry.read_queue_nums,
            write_queues: entry.write_queue_nums,
            permission: Wanted::permission(entry.perm.into())?,
            order: entry.order,
            changes: attributes::of_object(entry.attributes)?,
        })
    }

    fn put(self, engine: &mut Engine) -> Result<Ticket, Refusal> {
        let old = engine.topic(&self.name).map(|topic| topic.config);
        let known = old.as_ref().map(|old| &old.attributes);
        let (mut attributes, message_type) = attributes::of_topic(known, self.changes)?;
        let order = attributes::hidden(ORDER);
        if self.order {
            attributes.insert(order, true.to_string());
        } else {
            attributes.remove(&order);
        }
        // What the request does not name stays as it is.
        let old = old.unwrap_or_default();
        let config = TopicConfig {
            message_type: message_type.unwrap_or(old.message_type),
            read_queues: self.read_queues,
            write_queues: self.write_queues,
            permission: self.permission,
            dedup_window: old.dedup_window,
            attributes,
        };
        Ok(engine.put_topic(&self.name, config)?)
    }
}

/// Creates or changes a topic on this broker. With `mqadmin -c` every broker is told so.
async fn put(request: &Request, wanted: Wanted) -> Result<(), Refusal> {
    let name = wanted.name.clone();
    let placing = request.context.node.shards.place(&name, request.context.number, true).await?;
    request.change(move |engine, _| wanted.put(engine)).await?;
    placing.done();
    Ok(())
}

pub(crate) async fn put_topic(request: &Request) -> Result<Answer, Refusal> {
    put(request, Wanted::of_fields(request)?).await?;
    Ok(Answer::ok())
}

pub(crate) async fn put_topics(request: &Request) -> Result<Answer, Refusal> {
    let list: TopicConfigList = request.json()?;
    if list.topic_config_list.len() > LIST_MAX {
        let why = format!("{} topics in one request, the limit is {LIST_MAX}", list.topic_config_list.len());
        return Err(Refusal::invalid(why));
    }
    let all = list.topic_config_list.into_iter().map(Wanted::of_entry);
    let all = all.collect::<Result<Vec<_>, _>>()?.into_iter();
    // Concurrently, so that they share a few flushes.
    try_join_all(all.map(|wanted| put(request, wanted))).await?;
    Ok(Answer::ok())
}

/// Deletes a topic with its messages and the progress in it. Deleting one that does not exist succeeds.
pub(crate) async fn delete_topic(request: &Request) -> Result<Answer, Refusal> {
    let name = Wanted::name(request.required("topic")?)?;
    let placing = request.context.node.shards.place(&name, request.context.number, false).await?;
    let removed = name.clone();
    let deleted = request.change(move |engine, _| match engine.delete_topic(&removed) {
        Err(AdminError::UnknownTopic { .. }) => Ok(engine.barrier()),
        other => other,
    });
    deleted.await?;
    placing.done();
    Ok(Answer::ok())
}

/// A topic as tools see it.
fn entry(topic: &TopicView) -> TopicEntry {
    let config = &topic.config;
    let mut attributes = attributes::shown(&config.attributes);
    // A topic that was not created by `mqadmin` has a type without the attribute.
    if config.message_type != MessageType::default() {
        attributes.insert(MESSAGE_TYPE.to_owned(), config.message_type.to_string());
    }
    TopicEntry {
        topic_name: topic.name.to_string(),
        read_queue_nums: config.read_queues,
        write_queue_nums: config.write_queues,
        perm: config.permission.bits(),
        order: is_ordered(config),
        attributes,
        ..TopicEntry::default()
    }
}

pub(crate) async fn topic(request: &Request) -> Result<Answer, Refusal> {
    let name = TopicName::new(request.required("topic")?)?;
    let unknown = Refusal::unknown_topic(name.as_str());
    let view = request.ask(move |engine, _| engine.topic(&name)).await?.ok_or(unknown)?;
    Ok(Answer::json(&entry(&view)))
}

pub(crate) async fn all_topics(request: &Request) -> Result<Answer, Refusal> {
    let page = Page::read(request, "topicSeq", "maxTopicNum")?;
    let table: BTreeMap<String, TopicEntry> = request
        .ask(|engine, _| {
            let names = engine.topic_names().into_iter();
            let views = names.filter_map(|name| engine.topic(&name));
            views.map(|view| (view.name.to_string(), entry(&view))).collect()
        })
        .await?;
    let (total, version) = (table.len(), page::version(&table));
    let body = TopicPage {
        topic_config_table: page.of(table),
        data_version: version,
        mapping_data_version: DataVersion::default(),
        ..TopicPage::default()
    };
    Ok(page::json(&body)?.with("totalTopicNum", total))
}

/// Refuses a request for a topic that does not exist.
pub(super) async fn known(request: &Request, topic: &TopicName) -> Result<TopicView, Refusal> {
    let name = topic.clone();
    let view = request.ask(move |engine, _| engine.topic(&name)).await?;
    view.ok_or_else(|| Refusal::unknown_topic(topic.as_str()))
}

/// Whether an operator has marked the topic as ordered, for 4.x clients.
pub(super) fn is_ordered(config: &TopicConfig) -> bool {
    config.attributes.contains_key(&attributes::hidden(ORDER))
}
