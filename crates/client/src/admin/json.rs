//! Bodies of answers: RocketMQ writes JSON with numbers and objects as keys.

use std::collections::BTreeMap;

use redstart_wire::remoting::{
    Command,
    body::{self, Queue},
};
use serde::de::DeserializeOwned;

use super::Error;

pub(super) fn read<T: DeserializeOwned>(address: &str, request: i32, answer: &Command) -> Result<T, Error> {
    let text = body::standard(&answer.body).ok_or_else(|| malformed(address, request, "no JSON"))?;
    serde_json::from_str(&text).map_err(|error| malformed(address, request, &error.to_string()))
}

pub(super) fn malformed(address: &str, request: i32, why: &str) -> Error {
    Error::Malformed { address: address.to_owned(), request, why: why.to_owned() }
}

/// A table by queue, in the order of the queues.
pub(super) fn by_queue<V>(
    address: &str,
    request: i32,
    table: BTreeMap<String, V>,
) -> Result<Vec<(Queue, V)>, Error> {
    let row = |(key, value): (String, V)| {
        let queue: Queue = serde_json::from_str(&key)
            .map_err(|error| malformed(address, request, &format!("{key:?} is no queue: {error}")))?;
        Ok((queue, value))
    };
    let mut rows: Vec<(Queue, V)> = table.into_iter().map(row).collect::<Result<_, _>>()?;
    rows.sort_by(|(one, _), (other, _)| order(one).cmp(&order(other)));
    Ok(rows)
}

pub(super) fn order(queue: &Queue) -> (&str, &str, i32) {
    (&queue.topic, &queue.broker_name, queue.queue_id)
}
