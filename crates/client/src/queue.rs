use std::fmt;

/// One queue of a topic, on one broker.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Queue {
    /// The topic.
    pub topic: String,
    /// Name of the broker that has the queue.
    pub broker: String,
    /// Number of the queue on that broker, from 0.
    pub id: i32,
}

impl Queue {
    /// The queue `id` of a topic on a broker.
    pub fn new(topic: impl Into<String>, broker: impl Into<String>, id: i32) -> Queue {
        Queue { topic: topic.into(), broker: broker.into(), id }
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}:{}", self.topic, self.broker, self.id)
    }
}
