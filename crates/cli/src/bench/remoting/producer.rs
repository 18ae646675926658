use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use bytes::{Bytes, BytesMut};
use redstart_wire::remoting::{BatchEntry, Command, code, encode_properties};

use super::client::{Client, For, Queue, TIMEOUT, succeeded};
use crate::bench::produce::Messages;

const GROUP: &str = "bench-producer";

/// Sends as the Java producer does: to one queue after the other, or to the queue of a message group.
#[derive(Debug)]
pub struct Producer {
    client: Client,
    topics: Vec<Vec<Queue>>,
    id_prefix: String,
    sent: AtomicU64,
}

impl Producer {
    pub async fn open(mut client: Client, topics: &[String], number: usize) -> anyhow::Result<Producer> {
        let mut queues = Vec::with_capacity(topics.len());
        for topic in topics {
            queues.push(client.queues(topic, For::Sending).await?);
        }
        // Ids differ between runs, programs and clients.
        let run = now_ms() & 0xFFFF_FFFF;
        let id_prefix = format!("{run:08X}{:06X}{number:04X}", std::process::id() & 0xFF_FFFF);
        Ok(Producer { client, topics: queues, id_prefix, sent: AtomicU64::new(0) })
    }

    pub async fn send(&self, messages: &Messages, body: Bytes, count: u64) -> anyhow::Result<()> {
        let first = self.sent.fetch_add(count, Ordering::Relaxed);
        let queue = self.queue(messages, first, first / count.max(1));
        let request = if count == 1 {
            let request = self.request(code::SEND_MESSAGE_V2, queue);
            let properties = self.properties(messages, first, first);
            Command { body, ..request.with_field("i", properties).with_field("m", false) }
        } else {
            let request = self.request(code::SEND_BATCH_MESSAGE, queue);
            let body = self.batch(messages, first, count, &body);
            Command { body, ..request.with_field("i", "WAIT\u{1}true\u{2}").with_field("m", true) }
        };
        succeeded(queue.connection.call(request, TIMEOUT).await?).map(drop)
    }

    /// Where a call goes: its topic by turns, and there the queue by turns or by the message group.
    fn queue(&self, messages: &Messages, first: u64, call: u64) -> &Queue {
        let topics = self.topics.len() as u64;
        let queues = &self.topics[(call % topics) as usize];
        let at = messages.group(first).unwrap_or(call / topics);
        &queues[(at % queues.len() as u64) as usize]
    }

    fn request(&self, code: i32, queue: &Queue) -> Command {
        self.client
            .request(code)
            .with_field("a", GROUP)
            .with_field("b", &queue.topic)
            .with_field("c", "TBW102")
            .with_field("d", 4)
            .with_field("e", queue.id)
            .with_field("f", 0)
            .with_field("g", now_ms())
            .with_field("h", 0)
            .with_field("j", 0)
            .with_field("k", false)
            .with_field("n", &queue.broker)
    }

    /// Properties of the n-th message. A batch belongs to one queue, so all its messages have the first one's group.
    fn properties(&self, messages: &Messages, n: u64, first: u64) -> String {
        let id = format!("{}{n:014X}", self.id_prefix);
        let keys: Vec<String> = messages.keys(n).collect();
        let keys = keys.join(" ");
        let delay = messages.delay_ms.map(|ms| ms.to_string()).unwrap_or_default();
        let group = messages.group(first).map(|group| format!("group-{group}")).unwrap_or_default();
        encode_properties([
            ("UNIQ_KEY", id.as_str()),
            ("KEYS", keys.as_str()),
            ("__SHARDINGKEY", group.as_str()),
            ("TIMER_DELAY_MS", delay.as_str()),
            ("WAIT", "true"),
        ])
    }

    fn batch(&self, messages: &Messages, first: u64, count: u64, body: &Bytes) -> Bytes {
        let mut out = BytesMut::with_capacity(count as usize * (body.len() + 128));
        for n in first..first + count {
            let properties = self.properties(messages, n, first);
            BatchEntry { flag: 0, properties, body: body.clone() }.encode(&mut out);
        }
        out.freeze()
    }
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
