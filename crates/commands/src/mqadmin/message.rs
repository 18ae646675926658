//! Messages in the layout of mqadmin.

use std::{fs, io, path::PathBuf};

use bytes::Bytes;
use redstart_client::admin::{self, Message, Receipt, SendStatus};
use redstart_wire::remoting::body::Queue;

use super::{
    clients,
    context::{Context, Outcome, say},
    progress,
    text::{self, map, millisecond},
};

/// mqadmin writes the bodies of messages to this directory.
const BODIES: &str = "/tmp/rocketmq/msgbodys";

pub fn status(status: SendStatus) -> &'static str {
    match status {
        SendStatus::Stored => "SEND_OK",
        SendStatus::FlushDiskTimeout => "FLUSH_DISK_TIMEOUT",
        SendStatus::FlushSlaveTimeout => "FLUSH_SLAVE_TIMEOUT",
        SendStatus::SlaveNotAvailable => "SLAVE_NOT_AVAILABLE",
    }
}

pub fn receipt(topic: &str, receipt: &Receipt) -> String {
    let queue =
        Queue { topic: topic.to_owned(), broker_name: receipt.broker.clone(), queue_id: receipt.queue };
    format!(
        "SendResult [sendStatus={}, msgId={}, offsetMsgId={}, messageQueue={}, queueOffset={}, recallHandle={}]",
        status(receipt.status),
        receipt.message_id,
        receipt.offset_id,
        text::queue(&queue),
        receipt.queue_offset,
        text::optional(receipt.recall_handle.as_ref())
    )
}

/// The decompressed body, or the stored bytes if they cannot be decompressed.
pub fn body(message: &Message) -> Bytes {
    message.body().unwrap_or_else(|_| message.stored.body.clone())
}

/// The whole message on one line, as Java's `MessageExt.toString()` writes it.
pub fn line(message: &Message) -> String {
    let stored = &message.stored;
    let mut record = Vec::new();
    // Cannot fail: the message was decoded from a record, so it fits into one.
    let _ = stored.encode(&mut record);
    let crc = record.get(8..12).and_then(|crc| crc.try_into().ok()).map_or(0, u32::from_be_bytes);
    let body: Vec<i8> = body(message).iter().map(|byte| *byte as i8).collect();
    format!(
        "MessageExt [brokerName={}, queueId={}, storeSize={}, queueOffset={}, sysFlag={}, bornTimestamp={}, bornHost=/{}, \
         storeTimestamp={}, storeHost=/{}, msgId={}, commitLogOffset={}, bodyCRC={crc}, reconsumeTimes={}, \
         preparedTransactionOffset={}, toString()=Message{{topic='{}', flag={}, properties={}, body={}, transactionId='null'}}]",
        message.broker,
        stored.queue_id,
        record.len(),
        stored.queue_offset,
        stored.system_flag,
        stored.born_at,
        stored.born_host,
        stored.stored_at,
        stored.store_host,
        message.offset_id(),
        stored.physical_offset,
        stored.reconsume_times,
        stored.prepared_transaction_offset,
        stored.topic,
        stored.flag,
        map(&message.properties),
        text::list(&body)
    )
}

/// Writes the body to a file; returns its path, or why it was not written.
fn write_body(message: &Message, index: usize) -> String {
    let mut name = message.id().replace('/', "_");
    if index > 0 {
        name.push_str(&format!("_{index}"));
    }
    let path = PathBuf::from(BODIES).join(name);
    let written: io::Result<()> = fs::create_dir_all(BODIES).and_then(|()| fs::write(&path, body(message)));
    match written {
        Ok(()) => path.display().to_string(),
        Err(error) => format!("(not written to {}: {error})", path.display()),
    }
}

/// Prints one field per line, then the state of the message in each group.
pub async fn detail(c: &Context, message: &Message, options: Detail) -> Outcome {
    let stored = &message.stored;
    let path = write_body(message, options.index);
    let mut fields: Vec<(&str, String)> = Vec::new();
    if options.offset_id {
        fields.push(("OffsetID:", message.offset_id()));
    }
    let bracketed = |name: &str| format!("[{}]", message.property(name).unwrap_or("null"));
    fields.extend([
        ("Topic:", stored.topic.to_string()),
        ("Tags:", bracketed(admin::property::TAGS)),
        ("Keys:", bracketed(admin::property::KEYS)),
        ("Queue ID:", stored.queue_id.to_string()),
        ("Queue Offset:", stored.queue_offset.to_string()),
        ("CommitLog Offset:", stored.physical_offset.to_string()),
        ("Reconsume Times:", stored.reconsume_times.to_string()),
        ("Born Timestamp:", millisecond(stored.born_at)),
        ("Store Timestamp:", millisecond(stored.stored_at)),
        ("Born Host:", stored.born_host.to_string()),
        ("Store Host:", stored.store_host.to_string()),
        ("System Flag:", stored.system_flag.to_string()),
        ("Properties:", map(&message.properties)),
        ("Message Body Path:", path),
    ]);
    if options.body {
        fields.push(("Message Body:", String::from_utf8_lossy(&body(message)).into_owned()));
    }
    for (name, value) in fields {
        say!(c, "{name:<20} {value}");
    }
    say!(c, "\n");
    let tracks = tracks(c, message).await?;
    if tracks.is_empty() {
        say!(c, "WARN: No Consumer");
    }
    for track in tracks {
        say!(c, "{track}");
    }
    Ok(())
}

/// The parts of a message that are printed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Detail {
    /// Index among the messages with the same id; part of the file's name.
    pub index: usize,
    pub offset_id: bool,
    pub body: bool,
}

async fn tracks(c: &Context, message: &Message) -> anyhow::Result<Vec<String>> {
    let mut tracks = Vec::new();
    let Some(broker) = c.admin.brokers_of_topic(&message.stored.topic).await?.into_iter().next() else {
        return Ok(tracks);
    };
    for group in c.admin.groups_of_topic(&broker.address, &message.stored.topic).await? {
        let (kind, why) = track(c, message, &group).await;
        tracks.push(format!(
            "MessageTrack [consumerGroup={group}, trackType={kind}, exceptionDesc={}]",
            text::optional(why.as_ref())
        ));
    }
    Ok(tracks)
}

/// The state of a message in a group, and the error if it is not known.
async fn track(c: &Context, message: &Message, group: &str) -> (&'static str, Option<String>) {
    let connected = match clients::connection(c, group, None).await {
        Ok((_, connected)) => connected,
        Err(error) => {
            let why = match error.code() {
                Some(code) => format!("CODE:{code} DESC:{error}"),
                None => error.to_string(),
            };
            return (if progress::is_offline(&error) { "NOT_ONLINE" } else { "UNKNOWN" }, Some(why));
        }
    };
    if connected.consume_type == "CONSUME_ACTIVELY" {
        return ("PULL", None);
    }
    let Ok(progress) = progress::of_group(c, group, None).await else { return ("UNKNOWN", None) };
    let stored = &message.stored;
    let done = progress.queues.iter().any(|(queue, row)| {
        queue.topic == stored.topic
            && queue.queue_id == stored.queue_id
            && (message.broker.is_empty() || queue.broker_name == message.broker)
            && row.consumer_offset > stored.queue_offset
    });
    if !done {
        return ("NOT_CONSUME_YET", None);
    }
    let wanted = connected.subscription_table.get(&*stored.topic).is_none_or(|subscription| {
        let tags = &subscription.tags_set;
        let tag = message.tag().unwrap_or_default();
        tags.is_empty() || tags.iter().any(|wanted| wanted == tag || wanted == "*")
    });
    (if wanted { "CONSUMED" } else { "CONSUMED_BUT_FILTERED" }, None)
}
