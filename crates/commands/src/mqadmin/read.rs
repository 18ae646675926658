//! Prints the messages and entries of queues.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, bail, ensure};
use redstart_client::admin::{Boundary, Expression, Message, PullRequest, PullStatus, Pulled};
use redstart_wire::remoting::{Command, body::Queue, code};

use super::{
    context::{Context, Outcome, say},
    json, message,
    text::{self, now, point_in_time},
    topics,
};

/// Messages of one pull.
const BATCH: u32 = 32;

/// The address of a broker with this name that has the topic.
pub async fn address(c: &Context, topic: &str, broker: &str) -> anyhow::Result<String> {
    let brokers = c.admin.brokers_of_topic(topic).await?;
    let found = brokers.into_iter().find(|known| known.name == broker);
    Ok(found
        .with_context(|| format!("The broker[{broker}] not exist: topic {topic} has no queues there"))?
        .address)
}

fn expression(c: &Context) -> Expression {
    match c.get("s") {
        None | Some("" | "*") => Expression::All,
        Some(tags) => Expression::Tags(tags.to_owned()),
    }
}

/// The first and the end offset to read: the whole queue, or the messages stored between two times.
async fn bounds(
    c: &Context,
    address: &str,
    queue: &Queue,
    from: Option<i64>,
    to: Option<i64>,
) -> anyhow::Result<(i64, i64)> {
    let (topic, id) = (queue.topic.as_str(), queue.queue_id);
    let first = match from {
        Some(at) => c.admin.offset_at(address, topic, id, at, Boundary::First).await?,
        None => c.admin.min_offset(address, topic, id).await?,
    };
    let last = match to {
        Some(at) => c.admin.offset_at(address, topic, id, at, Boundary::First).await?,
        None => c.admin.max_offset(address, topic, id).await?,
    };
    Ok((first, last))
}

async fn pull(
    c: &Context,
    address: &str,
    queue: &Queue,
    offset: i64,
    max: u32,
    expression: &Expression,
) -> anyhow::Result<Pulled> {
    let request = PullRequest {
        group: c.get("g").filter(|group| !group.is_empty()),
        topic: &queue.topic,
        queue: queue.queue_id,
        offset,
        max,
        expression,
        wait: Duration::ZERO,
    };
    let mut pulled = c.admin.pull(address, &queue.broker_name, &request).await?;
    // A broker that returns the same offset again would cause an endless loop.
    let stays = pulled.status == PullStatus::NoMatch && pulled.next <= offset;
    ensure!(!stays, "{address} does not get past offset {offset} of {}", text::queue(queue));
    // Java clients add the bounds of the queue to the properties of each message.
    for message in &mut pulled.messages {
        message.properties.insert("MIN_OFFSET".to_owned(), pulled.min.to_string());
        message.properties.insert("MAX_OFFSET".to_owned(), pulled.max.to_string());
    }
    Ok(pulled)
}

fn show(c: &Context, messages: &[Message], with_body: bool) -> Outcome {
    for message in messages {
        let body = match with_body {
            true => String::from_utf8_lossy(&message::body(message)).into_owned(),
            false => "NOT PRINT BODY".to_owned(),
        };
        say!(c, "MSGID: {} {} BODY: {body}", message.id(), message::line(message));
    }
    Ok(())
}

fn ended(status: PullStatus) -> &'static str {
    match status {
        PullStatus::Found => "FOUND",
        PullStatus::NoNewMessage => "NO_NEW_MSG",
        PullStatus::NoMatch => "NO_MATCHED_MSG",
        PullStatus::OffsetMoved => "OFFSET_ILLEGAL",
    }
}

fn time(c: &Context, option: &str) -> anyhow::Result<Option<i64>> {
    c.get(option).map(point_in_time).transpose()
}

pub async fn print(c: &Context) -> Outcome {
    let topic = c.text("t")?;
    let with_body = c.is_true_or("d", true);
    let (from, to, expression) = (time(c, "b")?, time(c, "e")?, expression(c));
    // A lite topic is read from the queues of its parent.
    let place = c.get("l").unwrap_or(topic);
    let route = c.admin.route(place).await?;
    for queue in topics::readable(topic, &route) {
        let address = address(c, place, &queue.broker_name).await?;
        let (first, last) = bounds(c, &address, &queue, from, to).await?;
        let name = text::queue(&queue);
        say!(c, "minOffset={first}, maxOffset={last}, {name}");
        let mut offset = first;
        while offset < last {
            let pulled = pull(c, &address, &queue, offset, BATCH, &expression).await?;
            let status = ended(pulled.status);
            offset = pulled.next;
            match pulled.status {
                PullStatus::Found => show(c, &pulled.messages, with_body)?,
                PullStatus::NoMatch => say!(c, "{name} no matched msg. status={status}, offset={offset}"),
                PullStatus::NoNewMessage | PullStatus::OffsetMoved => {
                    say!(c, "{name} print msg finished. status={status}, offset={offset}");
                    break;
                }
            }
        }
        say!(c, "--------------------------------------------------------");
    }
    Ok(())
}

pub async fn print_queue(c: &Context) -> Outcome {
    let (topic, broker) = (c.text("t")?, c.text("a")?);
    let queue = Queue { topic: topic.to_owned(), broker_name: broker.to_owned(), queue_id: c.number("i")? };
    let address = address(c, topic, broker).await?;
    let (first, last) = bounds(c, &address, &queue, time(c, "b")?, time(c, "e")?).await?;
    let expression = expression(c);
    let mut tags: BTreeMap<String, u64> = BTreeMap::new();
    let mut offset = first;
    while offset < last {
        let pulled = pull(c, &address, &queue, offset, BATCH, &expression).await?;
        offset = pulled.next;
        match pulled.status {
            PullStatus::Found => {
                for tag in pulled.messages.iter().filter_map(Message::tag).filter(|_| c.is_true("f")) {
                    *tags.entry(tag.to_owned()).or_default() += 1;
                }
                if c.is_true("p") {
                    show(c, &pulled.messages, c.is_true("d"))?;
                }
            }
            // Messages that do not match may precede others that do.
            PullStatus::NoMatch => {}
            PullStatus::NoNewMessage | PullStatus::OffsetMoved => break,
        }
    }
    let mut tags: Vec<(String, u64)> = tags.into_iter().collect();
    tags.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (tag, count) in tags {
        say!(c, "Tag: {tag:<30} Count: {count}");
    }
    Ok(())
}

pub async fn consume(c: &Context) -> Outcome {
    let topic = c.text("t")?;
    let mut left: i64 = c.number_or("c", 128)?;
    ensure!(left > 0, "Please input a positive messageNumber!");
    let (from, to) = (time(c, "s")?, time(c, "e")?);
    ensure!(from.is_none_or(|at| at <= now()), "Please set the beginTimestamp before now!");
    ensure!(to.is_none_or(|at| at <= now()), "Please set the endTimestamp before now!");
    if let (Some(from), Some(to)) = (from, to) {
        ensure!(
            from <= to,
            "Please make sure that the beginTimestamp is less than or equal to the endTimestamp"
        );
    }
    let Some(id) = c.get("i") else {
        ensure!(!c.has("o"), "Please set queueId before offset!");
        let route = c.admin.route(topic).await?;
        for queue in topics::readable(topic, &route) {
            if left <= 0 {
                break;
            }
            let address = address(c, topic, &queue.broker_name).await?;
            let (first, mut last) = bounds(c, &address, &queue, from, to).await?;
            if last - first > left {
                say!(c, "The older {left} message of the {} queue will be provided", queue.queue_id);
                last = first + left;
            }
            left -= last - first;
            drain(c, &address, &queue, first, last).await?;
        }
        return Ok(());
    };
    let Some(broker) = c.get("b") else { bail!("Please set the brokerName before queueId!") };
    let queue_id = id.parse().ok().with_context(|| format!("the option -i needs a number, not {id:?}"))?;
    let queue = Queue { topic: topic.to_owned(), broker_name: broker.to_owned(), queue_id };
    let address = address(c, topic, broker).await?;
    let (first, mut last) = bounds(c, &address, &queue, from, to).await?;
    let offset: i64 = c.number_or("o", 0)?;
    if offset > last {
        say!(c, "{} no matched msg, offset={offset}", text::queue(&queue));
        return Ok(());
    }
    let first = first.max(offset);
    if last - first > left {
        say!(c, "The oldler {left} message will be provided");
        last = first + left;
    }
    drain(c, &address, &queue, first, last).await
}

/// Prints the messages from `first` to `last`, and a line if that is the end of the queue.
async fn drain(c: &Context, address: &str, queue: &Queue, first: i64, last: i64) -> Outcome {
    let name = text::queue(queue);
    let mut offset = first;
    loop {
        let wanted = (last - offset).clamp(1, BATCH.into());
        let pulled = pull(c, address, queue, offset, wanted as u32, &Expression::All).await?;
        offset = pulled.next;
        let status = ended(pulled.status);
        match pulled.status {
            PullStatus::Found => {
                say!(c, "Consume ok");
                show(c, &pulled.messages, true)?;
            }
            PullStatus::NoMatch => say!(c, "{name} no matched msg. status={status}, offset={offset}"),
            PullStatus::NoNewMessage | PullStatus::OffsetMoved => {
                say!(c, "{name} print msg finished. status={status}, offset={offset}");
                return Ok(());
            }
        }
        // At the end of the queue one more pull prints the line that says so.
        if offset >= last && last < pulled.max {
            return Ok(());
        }
    }
}

pub async fn queue_entries(c: &Context) -> Outcome {
    let topic = c.text("t")?;
    let index: i64 = c.number("i")?;
    let address = match c.get("b").filter(|broker| !broker.is_empty()) {
        Some(broker) => broker.to_owned(),
        None => {
            let broker = c.admin.brokers_of_topic(topic).await?.into_iter().next();
            broker.context("No topic route data!")?.address
        }
    };
    let mut request = Command::request(code::QUERY_CONSUME_QUEUE)
        .with_field("topic", topic)
        .with_field("queueId", c.number::<i32>("q")?)
        .with_field("index", index)
        .with_field("count", c.number_or::<i32>("c", 10)?);
    if let Some(group) = c.get("g") {
        request = request.with_field("consumerGroup", group);
    }
    let found = c.admin.ask_json(&address, request).await?;
    let line = "======================================";
    if !found["subscriptionData"].is_null() {
        say!(c, "Subscription data: \n{}\n{line}", json::pretty(&found["subscriptionData"]));
    }
    if let Some(filter) = found["filterData"].as_str() {
        say!(c, "Filter data: \n{filter}\n{line}");
    }
    say!(c, "Queue data: \nmax: {}, min: {}\n{line}", found["maxQueueIndex"], found["minQueueIndex"]);
    for (at, entry) in found["queueData"].as_array().into_iter().flatten().enumerate() {
        let text = |name: &str| entry[name].as_str().unwrap_or("null");
        say!(
            c,
            "idx: {}\nConsumeQueueData{{physicOffset={}, physicSize={}, tagsCode={}, extendDataJson='{}', bitMap='{}', eval={}, \
             msg='{}'}}\n{line}",
            index + at as i64,
            entry["physicOffset"],
            entry["physicSize"],
            entry["tagsCode"],
            text("extendDataJson"),
            text("bitMap"),
            entry["eval"],
            text("msg")
        );
    }
    Ok(())
}
