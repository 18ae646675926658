//! Resets and clones offsets of consumer groups.

use redstart_client::admin::{Boundary, Broker, Error};
use redstart_wire::remoting::body::{ConsumeStatsRow, Queue};

use super::{
    context::{Context, Outcome, say},
    progress::{self, is_offline},
    text::{self, front},
};

/// The reset of a group in one queue.
struct Moved {
    queue: Queue,
    before: ConsumeStatsRow,
    /// The offset of the requested time.
    found: i64,
    /// The offset of the group after the reset.
    now: i64,
}

pub async fn reset(c: &Context) -> Outcome {
    let (group, topic, said) = (c.text("g")?, c.text("t")?, c.text("s")?);
    let timestamp = if said == "now" { text::now() } else { text::point_in_time(said)? };
    let queue: i32 = c.number_or("q", -1)?;
    if let Some(broker) = c.get("b").filter(|_| queue >= 0) {
        say!(
            c,
            "start reset consumer offset by specified, group[{group}], topic[{topic}], queueId[{queue}], broker[{broker}], \
             timestamp(string)[{said}], timestamp(long)[{timestamp}]"
        );
        let offset = match c.has("o") {
            true => c.number("o")?,
            false => c.admin.offset_at(broker, topic, queue, timestamp, Boundary::First).await?,
        };
        say!(c, "reset consumer offset to {offset}");
        if offset > 0 {
            c.admin.reset_queue(broker, group, (topic, queue), offset).await?;
        }
        return Ok(());
    }
    let force = c.is_true_or("f", true);
    match reset_online(c, group, topic, timestamp, force).await {
        Ok(offsets) => {
            say!(
                c,
                "start reset consumer offset by specified, group[{group}], topic[{topic}], force[{force}], \
                 timestamp(string)[{said}], timestamp(long)[{timestamp}]"
            );
            show_online(c, &offsets)
        }
        Err(error) if is_offline(&error) => {
            let moved = reset_queues(c, group, topic, timestamp, force).await?;
            say!(
                c,
                "reset consumer offset by specified consumerGroup[{group}], topic[{topic}], force[{force}], \
                 timestamp(string)[{said}], timestamp(long)[{timestamp}]"
            );
            show_offline(c, "#resetOffset", &moved)
        }
        Err(error) => Err(error.into()),
    }
}

pub async fn skip(c: &Context) -> Outcome {
    let (group, topic) = (c.text("g")?, c.text("t")?);
    let force = c.is_true_or("f", true);
    match reset_online(c, group, topic, -1, force).await {
        Ok(offsets) => show_online(c, &offsets),
        Err(error) if is_offline(&error) => {
            let moved = reset_queues(c, group, topic, -1, force).await?;
            show_offline(c, "#rollbackOffset", &moved)
        }
        Err(error) => Err(error.into()),
    }
}

/// The brokers of a topic. Light queues (`%LMQ%`) and the timer's topic have no route of their own: for them, -c names a topic
/// that has one.
async fn brokers(c: &Context, topic: &str) -> Result<Vec<Broker>, Error> {
    let without_route = topic.starts_with("%LMQ%") || topic == "rmq_sys_wheel_timer";
    c.admin.brokers_of_topic(c.get("c").filter(|_| without_route).unwrap_or(topic)).await
}

/// Resets a group through the broker, which moves all queues and notifies the consumers. A broker also moves forward; if
/// that is not wanted, the result is the same as for a group without consumers.
async fn reset_online(
    c: &Context,
    group: &str,
    topic: &str,
    timestamp: i64,
    force: bool,
) -> Result<Vec<(Queue, i64)>, Error> {
    if !force {
        return Err(Error::NotOnline { group: group.to_owned() });
    }
    let mut all = Vec::new();
    for broker in brokers(c, topic).await? {
        all.extend(c.admin.reset_offsets(&broker.address, group, topic, timestamp).await?);
    }
    Ok(all)
}

fn show_online(c: &Context, offsets: &[(Queue, i64)]) -> Outcome {
    say!(c, "{:<40}  {:<40}  {:<40}", "#brokerName", "#queueId", "#offset");
    for (queue, offset) in offsets {
        say!(c, "{:<40}  {:<40}  {offset:<40}", front(&queue.broker_name, 32), queue.queue_id);
    }
    Ok(())
}

/// Resets a group queue by queue, forward only with `force`, and notifies online consumers.
async fn reset_queues(
    c: &Context,
    group: &str,
    topic: &str,
    timestamp: i64,
    force: bool,
) -> anyhow::Result<Vec<Moved>> {
    let mut moved = Vec::new();
    for broker in brokers(c, topic).await? {
        let address = &broker.address;
        let mut queues = c.admin.consume_stats(address, group, None).await?.queues;
        queues.retain(|(queue, _)| queue.topic == topic);
        if queues.is_empty() {
            queues = c.admin.topic_stats(address, topic).await?.queues.into_iter().map(untouched).collect();
        }
        for (queue, before) in queues {
            let id = queue.queue_id;
            let found = match timestamp {
                -1 => c.admin.max_offset(address, topic, id).await?,
                at => c.admin.offset_at(address, topic, id, at, Boundary::First).await?,
            };
            let move_it = force || found <= before.consumer_offset;
            if move_it {
                match c.admin.reset_queue(address, group, (topic, id), found).await {
                    Err(error) if !is_offline(&error) => return Err(error.into()),
                    _ => {}
                }
            }
            let now = if move_it { found } else { before.consumer_offset };
            moved.push(Moved { queue, before, found, now });
        }
    }
    Ok(moved)
}

/// The offset of a group that has none: the first message.
fn untouched(
    (queue, row): (Queue, redstart_wire::remoting::body::TopicStatsRow),
) -> (Queue, ConsumeStatsRow) {
    let progress = ConsumeStatsRow {
        broker_offset: row.max_offset,
        consumer_offset: row.min_offset,
        pull_offset: 0,
        last_timestamp: 0,
    };
    (queue, progress)
}

fn show_offline(c: &Context, last: &str, moved: &[Moved]) -> Outcome {
    say!(
        c,
        "{:<20}  {:<20}  {:<20}  {:<20}  {:<20}  {last:<20}",
        "#brokerName",
        "#queueId",
        "#brokerOffset",
        "#consumerOffset",
        "#timestampOffset"
    );
    for Moved { queue, before, found, now } in moved {
        say!(
            c,
            "{:<20}  {:<20}  {:<20}  {:<20}  {found:<20}  {now:<20}",
            front(&queue.broker_name, 32),
            queue.queue_id,
            before.broker_offset,
            before.consumer_offset
        );
    }
    Ok(())
}

pub async fn clone(c: &Context) -> Outcome {
    let (from, to, topic) = (c.text("s")?, c.text("d")?, c.text("t")?);
    let progress = progress::of_group(c, from, None).await?;
    let brokers = c.admin.brokers_of_topic(topic).await?;
    for (queue, row) in progress.queues.iter().filter(|(_, row)| row.consumer_offset >= 0) {
        let Some(broker) = brokers.iter().find(|broker| broker.name == queue.broker_name) else { continue };
        let offset = row.consumer_offset;
        c.admin.set_consumer_offset(&broker.address, to, &queue.topic, queue.queue_id, offset).await?;
    }
    say!(c, "clone group offset success. srcGroup[{from}], destGroup=[{to}], topic[{topic}]");
    Ok(())
}
