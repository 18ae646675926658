//! The send requests of a producer.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use redstart_wire::remoting::{BatchEntry, Command, Serialization, code, encode_properties};

use super::client::Queue;
use crate::{driver::Sending, produce::Messages};

const GROUP: &str = "bench-producer";

/// Builds the requests of a Java producer: to the queues in turn, or to the queue of a message group.
#[derive(Debug)]
pub struct Requests {
    serialization: Serialization,
    topics: Vec<Vec<Queue>>,
    messages: Messages,
    /// Messages in one request.
    batch: u64,
    id_prefix: String,
    sent: u64,
}

impl Requests {
    /// For the `number`th client, with these queues of each topic.
    pub fn new(
        sending: &Sending,
        serialization: Serialization,
        number: usize,
        topics: Vec<Vec<Queue>>,
    ) -> Requests {
        // Message ids must differ between runs, processes and clients.
        let run = now_ms() & 0xFFFF_FFFF;
        let id_prefix = format!("{run:08X}{:06X}{number:04X}", std::process::id() & 0xFF_FFFF);
        let (messages, batch) = (sending.messages.clone(), sending.batch);
        Requests { serialization, topics, messages, batch, id_prefix, sent: 0 }
    }

    pub fn batch(&self) -> u64 {
        self.batch
    }

    pub fn next(&mut self, body: Bytes) -> Command {
        let first = self.sent;
        self.sent += self.batch;
        let queue = self.queue(first);
        if self.batch == 1 {
            let properties = self.properties(first, first);
            let request = self.request(code::SEND_MESSAGE_V2, queue);
            Command { body, ..request.and("i", properties).and("m", false) }
        } else {
            let request = self.request(code::SEND_BATCH_MESSAGE, queue);
            let body = self.entries(first, &body);
            Command { body, ..request.and("i", "WAIT\u{1}true\u{2}").and("m", true) }
        }
    }

    /// The queue of a call: topics take turns, and within a topic the queues take turns or the message group decides.
    fn queue(&self, first: u64) -> &Queue {
        let (call, topics) = (first / self.batch, self.topics.len() as u64);
        let queues = &self.topics[(call % topics) as usize];
        let at = self.messages.group(first).unwrap_or(call / topics);
        &queues[(at % queues.len() as u64) as usize]
    }

    fn request(&self, code: i32, queue: &Queue) -> Command {
        Command { serialization: self.serialization, ..Command::request(code) }
            .and("a", GROUP)
            .and("b", &queue.topic)
            .and("c", "TBW102")
            .and("d", 4)
            .and("e", queue.id)
            .and("f", 0)
            .and("g", now_ms())
            .and("h", 0)
            .and("j", 0)
            .and("k", false)
            .and("n", &queue.broker)
    }

    /// Properties of the n-th message. A batch goes to one queue, so all its messages have the message group of the first.
    fn properties(&self, n: u64, first: u64) -> String {
        let messages = &self.messages;
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

    fn entries(&self, first: u64, body: &Bytes) -> Bytes {
        let mut out = BytesMut::with_capacity(self.batch as usize * (body.len() + 128));
        for n in first..first + self.batch {
            let properties = self.properties(n, first);
            BatchEntry { flag: 0, properties, body: body.clone() }.encode(&mut out);
        }
        out.freeze()
    }
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
