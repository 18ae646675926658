use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Queue, names};

/// A consumer asks which queues are its own.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueryAssignment {
    pub topic: String,
    pub consumer_group: String,
    pub client_id: String,
    pub strategy_name: Option<String>,
    #[serde(deserialize_with = "names::message_model")]
    pub message_model: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Assignments {
    /// Absent: no opinion. Empty: give everything back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_queue_assignments: Option<Vec<Assignment>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Assignment {
    pub message_queue: Queue,
    #[serde(deserialize_with = "names::request_mode")]
    pub mode: String,
    pub attachments: BTreeMap<String, String>,
}

/// How a group is to consume a topic.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestMode {
    pub topic: String,
    pub consumer_group: String,
    #[serde(deserialize_with = "names::request_mode")]
    pub mode: String,
    pub pop_share_queue_num: i32,
}

/// Acks of several batches.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BatchAcks {
    pub broker_name: String,
    pub acks: Vec<BatchAck>,
}

/// Acks of one batch out of one queue. Bit n of the set stands for the n-th offset from the start.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BatchAck {
    #[serde(rename = "c", alias = "consumerGroup")]
    pub group: String,
    #[serde(rename = "t", alias = "topic")]
    pub topic: String,
    #[serde(rename = "r", alias = "retry")]
    pub mark: String,
    #[serde(rename = "so", alias = "startOffset")]
    pub start_offset: i64,
    #[serde(rename = "q", alias = "queueId")]
    pub queue_id: i32,
    #[serde(rename = "rq", alias = "reviveQueueId")]
    pub revive_queue: i32,
    #[serde(rename = "pt", alias = "popTime")]
    pub pop_time: i64,
    #[serde(rename = "it", alias = "invisibleTime")]
    pub invisible_time: i64,
    #[serde(rename = "b", alias = "bitSet")]
    pub bits: String,
}

impl BatchAck {
    /// The offsets whose bits are set, at most `limit`; `None` when the set cannot be read or names more.
    pub fn offsets(&self, limit: usize) -> Option<Vec<i64>> {
        use base64::{Engine, engine::general_purpose::STANDARD};
        let bytes = STANDARD.decode(&self.bits).ok()?;
        let mut offsets = Vec::new();
        for (at, byte) in bytes.iter().enumerate() {
            for bit in (0..8).filter(|bit| byte >> bit & 1 == 1) {
                if offsets.len() >= limit {
                    return None;
                }
                offsets.push(self.start_offset.checked_add(at as i64 * 8 + bit)?);
            }
        }
        Some(offsets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_set_counts_from_its_lowest_bit_and_is_bounded() {
        let ack = BatchAck { start_offset: 100, bits: "BYA=".to_owned(), ..BatchAck::default() };
        assert_eq!(ack.offsets(10), Some(vec![100, 102, 115]), "bytes 05 80");
        assert_eq!(ack.offsets(2), None);
        assert_eq!(BatchAck { bits: "%".to_owned(), ..ack.clone() }.offsets(10), None);
        assert_eq!(BatchAck { start_offset: i64::MAX, ..ack }.offsets(10), None);
    }

    #[test]
    fn both_spellings_of_an_ack_are_read() {
        let short = r#"{"acks":[{"c":"g","t":"t","r":"0","so":1,"q":2,"rq":3,"pt":4,"it":5,"b":"AQ=="}]}"#;
        let long = r#"{"acks":[{"consumerGroup":"g","topic":"t","retry":"0","startOffset":1,"queueId":2,
            "reviveQueueId":3,"popTime":4,"invisibleTime":5,"bitSet":"AQ=="}]}"#;
        let (short, long): (BatchAcks, BatchAcks) =
            (serde_json::from_str(short).unwrap(), serde_json::from_str(long).unwrap());
        assert_eq!(short, long);
        assert_eq!(short.acks[0].pop_time, 4);
    }
}
