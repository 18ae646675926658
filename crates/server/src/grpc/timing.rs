//! How long calls take: from the first byte of the request to the answer's beginning.

use std::{sync::Arc, time::Instant};

use crate::{shard::Counters, statistics::Call};

/// The methods of the service, those that are called most first.
const METHODS: [&str; 17] = [
    "SendMessage",
    "ReceiveMessage",
    "AckMessage",
    "ChangeInvisibleDuration",
    "Heartbeat",
    "EndTransaction",
    "QueryRoute",
    "QueryAssignment",
    "ForwardMessageToDeadLetterQueue",
    "PullMessage",
    "UpdateOffset",
    "GetOffset",
    "QueryOffset",
    "RecallMessage",
    "SyncLiteSubscription",
    "NotifyClientTermination",
    "Telemetry",
];

/// The name of a method by its number; `None` for one that the service does not have.
pub(crate) fn method_name(number: u8) -> Option<&'static str> {
    METHODS.get(usize::from(number)).copied()
}

/// Whether the method may wait for messages, or for as long as the client likes.
pub(crate) fn may_wait(number: u8) -> bool {
    matches!(method_name(number), Some("ReceiveMessage" | "PullMessage" | "Telemetry"))
}

fn method_number(path: &str) -> u8 {
    let name = path.rsplit('/').next().unwrap_or_default();
    METHODS.iter().position(|method| *method == name).unwrap_or(METHODS.len()) as u8
}

/// A call that has begun; one that its client gives up is not counted.
#[derive(Debug)]
pub(super) struct Timing {
    method: u8,
    began: Instant,
    counters: Arc<Counters>,
}

impl Timing {
    pub fn begin(path: &str, counters: Arc<Counters>) -> Timing {
        Timing { method: method_number(path), began: Instant::now(), counters }
    }

    /// Its answer begins, or it is refused with this status.
    pub fn ended(&self, status: tonic::Code) {
        let call = Call::Grpc { method: self.method, status: status as u8 };
        self.counters.statistics().rpcs.took(call, self.began.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_found_by_its_path_and_a_strange_one_has_no_name() {
        for (number, name) in METHODS.iter().enumerate() {
            let path = format!("/apache.rocketmq.v2.MessagingService/{name}");
            assert_eq!(usize::from(method_number(&path)), number);
        }
        for path in ["", "/", "/a/Unknown", "SendMessageX"] {
            assert_eq!(method_name(method_number(path)), None, "{path}");
        }
    }
}
