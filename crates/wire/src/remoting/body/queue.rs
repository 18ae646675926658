use serde::{Deserialize, Serialize};

/// One queue of a topic on a broker.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Queue {
    pub broker_name: String,
    pub queue_id: i32,
    pub topic: String,
}

/// A map with queues as keys, as clients expect it: each key an object. No JSON library writes that, so this is text.
pub fn by_queue<V: Serialize>(map: impl IntoIterator<Item = (Queue, V)>) -> String {
    let pairs = map.into_iter().map(|(queue, value)| format!("{}:{}", json(&queue), json(&value)));
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
}

/// Only maps with keys that are no text can fail, and there are none here.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Queues that an ordered consumer wants for itself, or gives back.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LockQueues {
    pub consumer_group: String,
    pub client_id: String,
    pub mq_set: Vec<Queue>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LockedQueues {
    #[serde(rename = "lockOKMQSet")]
    pub locked: Vec<Queue>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_as_a_key_is_an_object() {
        let queue = Queue { broker_name: "b".to_owned(), queue_id: 1, topic: "t".to_owned() };
        assert_eq!(by_queue([(queue, 5)]), r#"{{"brokerName":"b","queueId":1,"topic":"t"}:5}"#);
    }
}
