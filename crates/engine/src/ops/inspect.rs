//! What operators look at: the entries of a queue, and the extent of the log.

use redstart_log::{Position, Usage};

use super::Engine;
use crate::{Entry, OffsetError, QueueId, QueueOffset, Timestamp, TopicName};

/// The log from its oldest to its newest byte. What has been retired does not count, also if it is not deleted yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    pub start: Position,
    pub end: Position,
    /// When the oldest frame that is still there was written; `None` while there is none.
    pub oldest: Option<Timestamp>,
    /// Of the volume; `None` before it was first looked at.
    pub usage: Option<Usage>,
}

impl Engine {
    /// Entries of a queue from an offset on. An offset outside the queue has none.
    pub fn entries(
        &self,
        topic: &TopicName,
        queue: QueueId,
        from: QueueOffset,
        max: usize,
    ) -> Result<Vec<(QueueOffset, Entry)>, OffsetError> {
        let (min, end) = self.offset_range(topic, queue)?;
        let Some(key) = self.queue_key(topic, queue) else { return Ok(Vec::new()) };
        let Some(queue) = self.state.topics.get(&key.topic).and_then(|topic| topic.queue(key.queue)) else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        let mut offset = from;
        while offset >= min && offset < end && found.len() < max {
            match self.indexes.entry(key, queue, offset)? {
                Some(entry) => found.push((offset, entry)),
                None => break,
            }
            offset = offset.next();
        }
        Ok(found)
    }

    pub fn extent(&self) -> Extent {
        let segments = self.log.segments();
        let first = segments.iter().find(|segment| Some(segment.id) > self.state.retired);
        let start = Position(first.map_or(0, |segment| segment.id.0));
        let first = self.reader.frame(start).ok().flatten();
        Extent {
            start,
            end: segments.last().map_or(Position(0), |segment| segment.end),
            oldest: first.map(|frame| Timestamp(frame.timestamp_ms)),
            usage: self.usage,
        }
    }
}
