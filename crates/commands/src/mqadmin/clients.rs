//! Connected producers and consumers, and the state that consumers report.

use std::collections::BTreeMap;

use anyhow::Context as _;
use redstart_client::admin::{Error, QueueInfo, RETRY_PREFIX, RunningInfo};
use redstart_wire::remoting::body::{ConsumerConnection, Queue};

use super::{
    context::{Context, Outcome, say},
    text::{self, digits, now, version},
};

const MINUTE_MS: i64 = 60_000;

/// The consumers of a group and the address of the broker that they are connected to: `broker`, or one that has the group's
/// retry topic. A group without consumers is an error.
pub async fn connection(
    c: &Context,
    group: &str,
    broker: Option<&str>,
) -> Result<(String, ConsumerConnection), Error> {
    let broker = match broker {
        Some(broker) => broker.to_owned(),
        None => {
            let brokers = c.admin.brokers_of_topic(&format!("{RETRY_PREFIX}{group}")).await?;
            let first = brokers.into_iter().next();
            first.ok_or_else(|| Error::NotOnline { group: group.to_owned() })?.address
        }
    };
    let connected = c.admin.consumers(&broker, group).await?;
    if connected.connection_set.is_empty() {
        return Err(Error::NotOnline { group: group.to_owned() });
    }
    Ok((broker, connected))
}

pub async fn consumers(c: &Context) -> Outcome {
    let (_, connected) = connection(c, c.text("g")?, c.get("b")).await?;
    say!(c, "{:<36} {:<22} {:<10} {}", "#ClientId", "#ClientAddr", "#Language", "#Version");
    for client in &connected.connection_set {
        let version = version(client.version);
        say!(c, "{:<36} {:<22} {:<10} {version}", client.client_id, client.client_addr, client.language);
    }
    say!(c);
    say!(c, "Below is subscription:");
    say!(c, "{:<20} {}", "#Topic", "#SubExpression");
    for subscription in connected.subscription_table.values() {
        say!(c, "{:<20} {}", subscription.topic, subscription.sub_string);
    }
    say!(c);
    say!(c, "ConsumeType: {}", connected.consume_type);
    say!(c, "MessageModel: {}", connected.message_model);
    say!(c, "ConsumeFromWhere: {}", connected.consume_from_where);
    Ok(())
}

pub async fn producers(c: &Context) -> Outcome {
    let group = c.text("g")?;
    let broker = c.admin.brokers_of_topic(c.text("t")?).await?.into_iter().next();
    let broker =
        broker.with_context(|| format!("no broker has the topic {}", c.get("t").unwrap_or_default()))?;
    let connected = c.admin.producers(&broker.address, group).await?;
    anyhow::ensure!(!connected.connection_set.is_empty(), "Not found the producer group connection");
    for (index, client) in connected.connection_set.iter().enumerate() {
        say!(
            c,
            "{:04}  {:<32} {:<22} {:<8} {}",
            index + 1,
            client.client_id,
            client.client_addr,
            client.language,
            version(client.version)
        );
    }
    Ok(())
}

pub async fn all_producers(c: &Context) -> Outcome {
    for (group, clients) in c.admin.all_producers(c.text("b")?).await?.data {
        if clients.is_empty() {
            say!(c, "producer group ({group}) instances are empty");
        }
        for client in clients {
            say!(
                c,
                "producer group ({group}) instance : clientId={},remoteIP={}, language={}, version={}, lastUpdateTimestamp={}",
                client.client_id,
                client.remote_ip,
                client.language,
                client.version,
                client.last_update_timestamp
            );
        }
    }
    Ok(())
}

pub async fn status(c: &Context) -> Outcome {
    let group = c.text("g")?;
    let stacks = c.has("s");
    let (broker, connected) = connection(c, group, c.get("b")).await?;
    if let Some(client) = c.get("i") {
        let info = c.admin.running_info(&broker, group, client, stacks).await?;
        c.print(format_args!("{}", running(&info)))?;
        return Ok(());
    }
    say!(c, "{:<10} {:<40} {:<20} {}", "#Index", "#ClientId", "#Version", "#ConsumerRunningInfoFile");
    let folder = now().to_string();
    let mut infos: BTreeMap<String, RunningInfo> = BTreeMap::new();
    for client in &connected.connection_set {
        let info = match c.admin.running_info(&broker, group, &client.client_id, stacks).await {
            Ok(info) => info,
            Err(error) => {
                eprintln!("mqadmin consumerStatus: {}: {error}", client.client_id);
                continue;
            }
        };
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create the directory {folder}"))?;
        // The client chose this name: a slash in it must not lead out of the directory.
        let path = format!("{folder}/{}", client.client_id.replace('/', "_"));
        std::fs::write(&path, running(&info)).with_context(|| format!("cannot write {path}"))?;
        let version = version(client.version);
        say!(c, "{:<10} {:<40} {version:<20} {path}", infos.len() + 1, client.client_id);
        infos.insert(client.client_id.clone(), info);
    }
    if infos.is_empty() {
        return Ok(());
    }
    if same_subscriptions(&infos, now()) {
        say!(c, "\n\nSame subscription in the same group of consumer\n\nRebalance OK");
        for (client, info) in &infos {
            for line in stuck(client, info, now()) {
                say!(c, "{line}");
            }
        }
    } else {
        say!(c, "\n\nWARN: Different subscription in the same group of consumer!!!");
    }
    Ok(())
}

/// Whether all consumers have the same subscriptions. Always true in the first two minutes of the first consumer, which may
/// still be changing its own, and for pull consumers.
pub fn same_subscriptions(infos: &BTreeMap<String, RunningInfo>, now: i64) -> bool {
    let Some(first) = infos.values().next() else { return true };
    let is_stable = first.started_at().is_some_and(|at| now - at > 2 * MINUTE_MS);
    let wanted = |info: &RunningInfo| {
        let mut wanted: Vec<(String, String)> = info
            .subscriptions
            .iter()
            .map(|subscription| (subscription.topic.clone(), subscription.sub_string.clone()))
            .collect();
        wanted.sort();
        wanted
    };
    !(first.is_push() && is_stable) || infos.values().all(|info| wanted(info) == wanted(first))
}

/// One line for each queue in which a consumer is stuck.
pub fn stuck(client: &str, info: &RunningInfo, now: i64) -> Vec<String> {
    let told = |(queue, state): &(Queue, QueueInfo)| {
        let queue = text::queue(queue);
        if info.is_ordered() {
            if !state.locked {
                let ms = now - state.last_lock_timestamp;
                return Some(format!("{client} {queue} can't lock for a while, {ms}ms"));
            }
            let times = state.try_unlock_times;
            return (state.droped && times > 0)
                .then(|| format!("{client} {queue} unlock {times} times, still failed"));
        }
        let ms = now - state.last_consume_timestamp;
        (ms > MINUTE_MS && state.cached_msg_count > 0)
            .then(|| format!("{client} {queue} can't consume for a while, maybe blocked, {ms}ms"))
    };
    if info.is_push() { info.queues.iter().filter_map(told).collect() } else { Vec::new() }
}

/// The state that a consumer reports, in the layout of the file that `consumerStatus` writes.
fn running(info: &RunningInfo) -> String {
    let mut out = vec!["#Consumer Properties#".to_owned()];
    out.extend(info.properties.iter().map(|(name, value)| format!("{name:<40}: {value}")));
    out.push("\n\n#Consumer Subscription#".to_owned());
    out.extend(info.subscriptions.iter().enumerate().map(|(index, subscription)| {
        format!(
            "{:03} Topic: {:<40} ClassFilter: {:<8} SubExpression: {}",
            index + 1,
            subscription.topic,
            subscription.class_filter_mode,
            subscription.sub_string
        )
    }));
    out.push("\n\n#Consumer Offset#".to_owned());
    out.push(heads(64, "#Consumer Offset"));
    out.extend(
        info.queues.iter().map(|(queue, state)| place(32, queue, &format!("{:<20}", state.commit_offset))),
    );
    out.push("\n\n#Consumer MQ Detail#".to_owned());
    out.push(heads(64, "#ProcessQueueInfo"));
    out.extend(info.queues.iter().map(|(queue, state)| place(64, queue, &process_queue(state))));
    out.push("\n\n#Consumer Pop Detail#".to_owned());
    out.push(heads(32, "#ProcessQueueInfo"));
    out.extend(info.pop_queues.iter().map(|(queue, state)| {
        let state = format!(
            "PopProcessQueueInfo [waitAckCount:{}, droped:{}, lastPopTimestamp:{}]",
            state.wait_ack_count, state.droped, state.last_pop_timestamp
        );
        place(32, queue, &state)
    }));
    out.push("\n\n#Consumer RT&TPS#".to_owned());
    out.push(format!(
        "{:<64}  {:>14} {:>14} {:>14} {:>14} {:>18} {:>25}",
        "#Topic",
        "#Pull RT",
        "#Pull TPS",
        "#Consume RT",
        "#ConsumeOK TPS",
        "#ConsumeFailed TPS",
        "#ConsumeFailedMsgsInHour"
    ));
    out.extend(info.rates.iter().map(|(topic, rates)| {
        format!(
            "{topic:<32}  {:>14.2} {:>14.2} {:>14.2} {:>14.2} {:>18.2} {:>25}",
            rates.pull_rt,
            rates.pull_tps,
            rates.consume_rt,
            rates.consume_ok_tps,
            rates.consume_failed_tps,
            rates.consume_failed_msgs
        )
    }));
    out.push("\n\n#User Consume Info#".to_owned());
    out.extend(info.user_info.iter().map(|(name, value)| format!("{name:<40}: {value}")));
    if let Some(stacks) = &info.stacks {
        out.push(format!("\n\n#Consumer jstack#\n{stacks}"));
    }
    out.join("\n") + "\n"
}

fn heads(width: usize, last: &str) -> String {
    format!("{:<width$}  {:<32}  {:<4}  {last:<20}", "#Topic", "#Broker Name", "#QID")
}

fn place(width: usize, queue: &Queue, state: &str) -> String {
    format!("{:<width$}  {:<32}  {:<4}  {state}", queue.topic, queue.broker_name, queue.queue_id)
}

fn process_queue(state: &QueueInfo) -> String {
    format!(
        "ProcessQueueInfo [commitOffset={}, cachedMsgMinOffset={}, cachedMsgMaxOffset={}, cachedMsgCount={}, \
         cachedMsgSizeInMiB={}, transactionMsgMinOffset={}, transactionMsgMaxOffset={}, transactionMsgCount={}, locked={}, \
         tryUnlockTimes={}, lastLockTimestamp={}, droped={}, lastPullTimestamp={}, lastConsumeTimestamp={}]",
        state.commit_offset,
        state.cached_msg_min_offset,
        state.cached_msg_max_offset,
        state.cached_msg_count,
        state.cached_msg_size_in_mi_b,
        state.transaction_msg_min_offset,
        state.transaction_msg_max_offset,
        state.transaction_msg_count,
        state.locked,
        state.try_unlock_times,
        digits(state.last_lock_timestamp),
        state.droped,
        digits(state.last_pull_timestamp),
        digits(state.last_consume_timestamp)
    )
}
