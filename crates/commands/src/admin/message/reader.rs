//! Reads a topic's messages in the order in which they were stored, up to its end at the start.

use std::{collections::VecDeque, time::Duration};

use redstart_client::admin::{
    Admin, Boundary, Broker, Error, Expression, Message, PullRequest, PullStatus, Pulled,
};

use crate::admin::{all, time::Moment};

/// Messages of one pull.
const BATCH: u32 = 32;

/// Where reading begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    At(Moment),
    /// This many messages before the end of each queue.
    Last(u32),
}

/// One queue and the position in it.
#[derive(Debug)]
pub struct QueueReader {
    pub broker: Broker,
    pub queue: i32,
    pub next: i64,
    /// Where the queue ended when reading began.
    end: i64,
    buffer: VecDeque<Message>,
}

/// A topic that is read, queue by queue and merged by store time.
#[derive(Debug)]
pub struct Reader {
    topic: String,
    expression: Expression,
    queues: Vec<QueueReader>,
}

impl Reader {
    pub async fn open(
        admin: &Admin,
        topic: &str,
        start: Start,
        expression: Expression,
    ) -> Result<Reader, Error> {
        let mut queues = Vec::new();
        for broker in admin.brokers_of_topic(topic).await? {
            let stats = admin.topic_stats(&broker.address, topic).await?;
            let open = async |queue: i32, min: i64, max: i64| {
                let next = match start {
                    Start::At(Moment::Earliest) => min,
                    Start::At(Moment::Latest) => max,
                    Start::At(Moment::At(ms)) => {
                        admin.offset_at(&broker.address, topic, queue, ms, Boundary::First).await?
                    }
                    Start::Last(count) => (max - i64::from(count)).max(min),
                };
                Ok::<_, Error>(QueueReader {
                    broker: broker.clone(),
                    queue,
                    next,
                    end: max,
                    buffer: VecDeque::new(),
                })
            };
            let opened =
                stats.queues.iter().map(|(queue, row)| open(queue.queue_id, row.min_offset, row.max_offset));
            for queue in all(opened).await {
                queues.push(queue?);
            }
        }
        Ok(Reader { topic: topic.to_owned(), expression, queues })
    }

    /// The next message, the oldest of those at the heads of the queues.
    pub async fn next(&mut self, admin: &Admin) -> Result<Option<Message>, Error> {
        for queue in &mut self.queues {
            while queue.buffer.is_empty() && queue.next < queue.end {
                let pulled = pull(admin, &self.topic, &self.expression, queue, Duration::ZERO).await?;
                queue.take(pulled);
            }
        }
        let heads = self.queues.iter_mut().filter(|queue| !queue.buffer.is_empty());
        let oldest = heads.min_by_key(|queue| queue.buffer.front().map(|message| message.stored.stored_at));
        Ok(oldest.and_then(|queue| queue.buffer.pop_front()))
    }

    /// The queues at their ends, to be followed from there.
    pub fn into_queues(self) -> (String, Expression, Vec<QueueReader>) {
        (self.topic, self.expression, self.queues)
    }
}

impl QueueReader {
    fn take(&mut self, pulled: Pulled) {
        // Messages behind the end are left to `follow`, which reads them again.
        let end = self.end;
        self.buffer.extend(pulled.messages.into_iter().filter(|message| message.stored.queue_offset < end));
        let stuck = pulled.next <= self.next || pulled.status == PullStatus::NoNewMessage;
        self.next = if stuck { self.end } else { pulled.next.min(self.end) };
    }
}

/// Pulls the next messages of one queue; waits up to `wait` for one.
pub async fn pull(
    admin: &Admin,
    topic: &str,
    expression: &Expression,
    queue: &QueueReader,
    wait: Duration,
) -> Result<Pulled, Error> {
    let request = PullRequest {
        group: None,
        topic,
        queue: queue.queue,
        offset: queue.next,
        max: BATCH,
        expression,
        wait,
    };
    let mut pulled = admin.pull(&queue.broker.address, &queue.broker.name, &request).await?;
    // Servers compare hashes of tags only, so that others may come, too.
    if let Expression::Tags(tags) = expression {
        pulled.messages.retain(|message| has_tag(tags, message.tag()));
    }
    Ok(pulled)
}

/// Whether a tag is one of `a || b`.
fn has_tag(tags: &str, tag: Option<&str>) -> bool {
    let tags = tags.trim();
    tags == "*" || tags.split("||").any(|wanted| tag == Some(wanted.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_compared_in_full() {
        assert!(has_tag("a || b", Some("b")) && has_tag("*", None));
        assert!(!has_tag("a||b", Some("ab")) && !has_tag("a", None));
    }
}
