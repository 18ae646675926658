//! Finds messages by id, key or offset.

use anyhow::bail;
use redstart_client::admin::{Error, KeyQuery, Message, OutgoingMessage, TRACE_TOPIC, Trace, TraceKind};
use redstart_wire::remoting::{decode_properties, read_offset_message_id};

use super::{
    clients,
    context::{Context, Outcome, say},
    message::{self, Detail},
    text::{self, second},
};

/// Largest number of messages with one id.
const SAME_ID_MAX: u32 = 32;
const FOUND_MAX: u32 = 64;
const HOUR_MS: i64 = 3_600_000;

/// Checks the charset of `-c`. Only UTF-8 is supported.
fn check_charset(name: Option<&str>) -> Outcome {
    match name.map(str::to_ascii_uppercase).as_deref() {
        None | Some("UTF-8" | "UTF8" | "US-ASCII" | "ASCII") => Ok(()),
        Some(other) => bail!("bodies are shown in UTF-8 only, not in {other}"),
    }
}

/// Finds messages by offset id or by the producer's id. Both are hexadecimal; an id that starts with a broker's address is an
/// offset id.
async fn find(c: &Context, topic: &str, id: &str) -> Result<Message, Error> {
    let Some((host, _)) = read_offset_message_id(id) else {
        return c.admin.message_by_unique_key(topic, id).await;
    };
    if c.admin.brokers().await?.iter().any(|broker| broker.address == host.to_string()) {
        return c.admin.message_by_offset_id(topic, id).await;
    }
    match c.admin.message_by_unique_key(topic, id).await {
        // A broker may be registered with another address than the one in its offset ids.
        Err(Error::NoMessage { what }) => {
            c.admin.message_by_offset_id(topic, id).await.map_err(|_| Error::NoMessage { what })
        }
        other => other,
    }
}

pub async fn by_id(c: &Context) -> Outcome {
    let topic = c.text("t")?;
    check_charset(c.get("f"))?;
    let ids: Vec<&str> = c.text("i")?.split(',').map(str::trim).filter(|id| !id.is_empty()).collect();
    for id in ids {
        let found = find(c, topic, id).await?;
        if let (Some(group), Some(client)) = (c.get("g"), c.get("d")) {
            hand_over(c, &found, group, client).await?;
        } else if c.has("s") {
            if c.is_true("s") {
                resend(c, &found, id).await?;
            }
        } else {
            message::detail(c, &found, Detail { offset_id: true, body: c.has("f"), ..Detail::default() })
                .await?;
        }
    }
    Ok(())
}

/// Asks a consumer to consume a message directly.
async fn hand_over(c: &Context, message: &Message, group: &str, client: &str) -> Outcome {
    let (broker, _) = clients::connection(c, group, None).await?;
    let info = c.admin.running_info(&broker, group, client, false).await?;
    anyhow::ensure!(info.is_push(), "this {client} client is not push consumer ,not support direct push");
    let result = c.admin.consume_directly(message, group, client).await?;
    say!(
        c,
        "ConsumeMessageDirectlyResult [order={}, autoCommit={}, consumeResult={}, remark={}, spentTimeMills={}]",
        result.order,
        result.auto_commit,
        result.result(),
        text::optional(result.remark.as_ref()),
        result.spent_time_mills
    );
    Ok(())
}

async fn resend(c: &Context, message: &Message, id: &str) -> Outcome {
    let again = OutgoingMessage {
        topic: message.stored.topic.to_string(),
        body: message.stored.body.clone(),
        properties: decode_properties(&message.stored.properties),
        flag: message.stored.flag,
        system_flag: message.stored.system_flag,
    };
    let receipt = c.admin.send(&again).await?;
    say!(c, "prepare resend msg. originalMsgId={id}{}", message::receipt(&again.topic, &receipt));
    Ok(())
}

pub async fn by_unique_key(c: &Context) -> Outcome {
    let (topic, id) = (c.text("t")?, c.text("i")?);
    let query = KeyQuery { unique: true, max: SAME_ID_MAX, ..KeyQuery::new(topic, id) };
    let found = c.admin.messages_by_key(query).await?;
    if found.is_empty() {
        return Err(Error::NoMessage { what: format!("{id} in topic {topic}") }.into());
    }
    if let (Some(group), Some(client)) = (c.get("g"), c.get("d")) {
        return hand_over(c, &found[0], group, client).await;
    }
    let shown = if c.has("a") { found.len() } else { 1 };
    for (index, found) in found.iter().take(shown).enumerate() {
        message::detail(c, found, Detail { index, ..Detail::default() }).await?;
    }
    Ok(())
}

pub async fn by_key(c: &Context) -> Outcome {
    let (topic, key) = (c.text("t")?, c.text("k")?);
    if let Some(kind) = c.get("p").filter(|kind| !kind.eq_ignore_ascii_case("K")) {
        bail!("messages are found by their keys (-p K) only, not by {kind:?}");
    }
    let query = KeyQuery {
        from: c.number_or("b", 0)?,
        to: c.number_or("e", i64::MAX)?,
        max: c.number_or("m", FOUND_MAX)?,
        ..KeyQuery::new(topic, key)
    };
    let found = c.admin.messages_by_key(query).await?;
    if found.is_empty() {
        return Err(Error::NoMessage { what: format!("with key {key} in topic {topic}") }.into());
    }
    say!(c, "{:<50} {:>4} {:>40} {:<200}", "#Message ID", "#QID", "#Offset", "#IndexKey");
    for message in found {
        let (stored, id) = (&message.stored, message.id());
        // The index key: the hour, and a suffix that is unique within it.
        let hour = stored.stored_at - stored.stored_at % HOUR_MS;
        let index = format!("{hour}@{topic}@K@{key}@{id}@{}", stored.physical_offset);
        say!(c, "{id:<50} {:>4} {:>40} {index:<200}", stored.queue_id, stored.queue_offset);
    }
    Ok(())
}

pub async fn by_offset(c: &Context) -> Outcome {
    let (topic, broker) = (c.text("t")?, c.text("b")?);
    check_charset(c.get("f"))?;
    let address = super::read::address(c, topic, broker).await?;
    let mut found = c.admin.message_at(&address, topic, c.number("i")?, c.number("o")?).await?;
    found.broker = broker.to_owned();
    message::detail(c, &found, Detail { offset_id: true, body: c.has("f"), ..Detail::default() }).await
}

pub async fn trace(c: &Context) -> Outcome {
    let id = c.text("i")?;
    let query = KeyQuery {
        from: c.number_or("b", 0)?,
        to: c.number_or("e", i64::MAX)?,
        max: c.number_or("c", FOUND_MAX)?,
        ..KeyQuery::new(c.get("t").unwrap_or(TRACE_TOPIC), id)
    };
    let traces = c.admin.trace(query).await?;
    if traces.is_empty() {
        return Err(Error::NoMessage { what: format!("with key {id} in topic {}", query.topic) }.into());
    }
    for sent in traces.iter().filter(|trace| trace.kind == TraceKind::Sent) {
        heads(c, "#ProducerGroup", "#SendTime")?;
        row(c, "Pub", sent)?;
        say!(c);
    }
    let mut groups: Vec<&str> = Vec::new();
    let consumed: Vec<&Trace> = traces.iter().filter(|trace| trace.kind == TraceKind::Consumed).collect();
    for trace in &consumed {
        if !groups.contains(&trace.group.as_str()) {
            groups.push(&trace.group);
        }
    }
    for group in groups {
        heads(c, "#ConsumerGroup", "#ConsumerTime")?;
        for trace in consumed.iter().filter(|trace| trace.group == group) {
            row(c, "Sub", trace)?;
        }
        say!(c);
    }
    Ok(())
}

fn heads(c: &Context, group: &str, time: &str) -> Outcome {
    say!(
        c,
        "{:<10} {group:<20} {:<20} {time:<20} {:<10} {:<10}",
        "#Type",
        "#ClientHost",
        "#CostTimes",
        "#Status"
    );
    Ok(())
}

fn row(c: &Context, kind: &str, trace: &Trace) -> Outcome {
    say!(
        c,
        "{kind:<10} {:<20} {:<20} {:<20} {:<10} {:<10}",
        trace.group,
        trace.client,
        second(trace.at),
        format!("{}ms", trace.took_ms),
        if trace.success == Some(true) { "success" } else { "failed" }
    );
    Ok(())
}
