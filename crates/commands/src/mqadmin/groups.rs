//! Creates, changes, lists and deletes consumer groups.

use anyhow::{Context as _, bail};
use redstart_client::admin::{DEAD_LETTER_PREFIX, Error, RETRY_PREFIX};
use redstart_wire::remoting::{
    body::{GroupConfig, GroupExtras, GroupRetryPolicy, RequestMode},
    code,
};
use serde::de::DeserializeOwned;

use super::{
    context::{Context, Outcome, say},
    text,
};

/// Largest file with a list of topics or groups, in bytes.
const LIST_BYTES_MAX: u64 = 64 << 20;

pub async fn update(c: &Context) -> Outcome {
    let defaults = GroupExtras::default();
    let policy = match c.get("p") {
        Some(policy) => serde_json::from_str(policy)
            .with_context(|| format!("the option -p needs a retry policy as JSON, not {policy:?}"))?,
        None => GroupRetryPolicy::default(),
    };
    let group = GroupConfig {
        group_name: c.text("g")?.to_owned(),
        consume_enable: c.is_true_or("s", true),
        consume_message_orderly: c.is_true("o"),
        retry_max_times: c.number_or("r", 16)?,
        group_retry_policy: Some(policy),
        extras: GroupExtras {
            // mqadmin has its own defaults, which differ from the server's.
            consume_from_min_enable: c.is_true("m"),
            consume_broadcast_enable: c.is_true("d"),
            retry_queue_nums: c.number_or("q", defaults.retry_queue_nums)?,
            broker_id: c.number_or("i", defaults.broker_id)?,
            which_broker_when_consume_slowly: c.number_or("w", defaults.which_broker_when_consume_slowly)?,
            notify_consumer_ids_changed_enable: c.is_true_or("a", true),
            ..defaults
        },
        attributes: Some(text::attributes(c.get("attributes").unwrap_or_default())?),
    };
    for address in c.masters().await? {
        c.admin.put_group(&address, &group).await?;
        say!(c, "create subscription group to {address} success.");
    }
    say!(c, "{}", text::group_config(&group));
    Ok(())
}

/// Reads a JSON array from a file.
pub fn read_list<T: DeserializeOwned>(path: &str) -> anyhow::Result<Vec<T>> {
    let size =
        std::fs::metadata(path).with_context(|| format!("the file path {path} does not exists"))?.len();
    anyhow::ensure!(size <= LIST_BYTES_MAX, "{path} has {size} bytes, the limit is {LIST_BYTES_MAX}");
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    serde_json::from_str(&text).with_context(|| format!("{path} is not a JSON array of such settings"))
}

pub async fn update_list(c: &Context) -> Outcome {
    let groups: Vec<GroupConfig> = read_list(c.text("f")?)?;
    if groups.is_empty() {
        return Ok(());
    }
    let what = if c.has("b") { "group" } else { "subscription group" };
    for address in c.masters().await? {
        c.admin.put_groups(&address, &groups).await?;
        say!(c, "submit batch of {what} config to {address} success, please check the result later.");
    }
    Ok(())
}

pub async fn delete(c: &Context) -> Outcome {
    let group = c.text("g")?;
    let clean = c.is_true("r");
    let masters = c.masters().await?;
    for address in &masters {
        c.admin.delete_group(address, group, clean).await?;
        match c.get("c").filter(|_| !c.has("b")) {
            Some(cluster) => {
                say!(
                    c,
                    "delete subscription group [{group}] from broker [{address}] in cluster [{cluster}] success."
                );
            }
            None => say!(c, "delete subscription group [{group}] from broker [{address}] success."),
        }
    }
    if let Some(cluster) = c.get("c").filter(|_| !c.has("b")) {
        for prefix in [RETRY_PREFIX, DEAD_LETTER_PREFIX] {
            let topic = format!("{prefix}{group}");
            for address in &masters {
                ignore_refusal(c.admin.delete_topic_in_broker(address, &topic).await)?;
            }
            ignore_refusal(c.admin.delete_topic_in_names(&topic, Some(cluster)).await)?;
        }
    }
    Ok(())
}

/// Ignores the refusal of a server to delete a topic of the group: it may be gone already, or reserved by the server.
fn ignore_refusal(deleted: Result<(), Error>) -> Outcome {
    match deleted {
        Err(error) if error.code().is_none() => Err(error.into()),
        _ => Ok(()),
    }
}

pub async fn config(c: &Context) -> Outcome {
    let group = c.text("g")?;
    let mut brokers = c.admin.brokers().await?;
    brokers.retain(|broker| broker.id == 0);
    for broker in brokers {
        let config = match c.admin.group(&broker.address, group).await {
            Err(error) if error.code() == Some(code::SUBSCRIPTION_GROUP_NOT_EXIST) => continue,
            other => other?,
        };
        let line = "=".repeat(29);
        say!(c, "{line}{}:{}{line}", broker.cluster, broker.name);
        for (name, value) in text::group_fields(&config) {
            let value = if value == "null" { "" } else { &value };
            say!(c, "{name:<40}=  {value}");
        }
    }
    Ok(())
}

pub async fn set_mode(c: &Context) -> Outcome {
    let mode = RequestMode {
        topic: c.text("t")?.to_owned(),
        consumer_group: c.text("g")?.to_owned(),
        mode: c.text("m")?.to_owned(),
        pop_share_queue_num: c.number_or("q", 0)?,
    };
    if !matches!(mode.mode.as_str(), "PULL" | "POP") {
        bail!("the option -m is PULL or POP, not {:?}", mode.mode);
    }
    for address in c.masters().await? {
        c.admin.set_request_mode(&address, &mode).await?;
        say!(c, "set consume mode to {address} success.");
    }
    let RequestMode { topic, consumer_group, mode, pop_share_queue_num } = mode;
    say!(
        c,
        "topic[{topic}] group[{consumer_group}] consume mode[{mode}] popShareQueueNum[{pop_share_queue_num}]"
    );
    Ok(())
}
