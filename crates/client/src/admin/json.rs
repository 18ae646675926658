//! Bodies of answers: RocketMQ writes JSON with numbers and objects as keys.

use std::collections::BTreeMap;

use redstart_wire::remoting::{Command, body::Queue, from_slice};
use serde::de::DeserializeOwned;

use super::Error;

pub(super) fn read<T: DeserializeOwned>(address: &str, request: i32, answer: &Command) -> Result<T, Error> {
    from_slice(&answer.body).map_err(|error| malformed(address, request, &error.to_string()))
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
        let queue: Queue = from_slice(key.as_bytes())
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

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Table {
        offset_table: BTreeMap<String, i64>,
    }

    fn answer(body: &str) -> Command {
        Command { body: body.to_owned().into(), ..Command::default() }
    }

    #[test]
    fn tables_by_queue_are_read_in_the_order_of_the_queues() {
        let row = |queue: i32| format!(r#"{{"brokerName":"b","queueId":{queue},"topic":"t"}}:{queue}"#);
        let body = format!(r#"{{"offsetTable":{{{},{},{}}}}}"#, row(10), row(9), row(0));
        let table: Table = read("a", 1, &answer(&body)).unwrap();
        let queues: Vec<i64> =
            by_queue("a", 1, table.offset_table).unwrap().into_iter().map(|(_, at)| at).collect();
        assert_eq!(queues, [0, 9, 10]);
    }

    #[test]
    fn what_is_something_else_is_an_error_that_names_the_server() {
        for body in ["", "{", "[]", r#"{"offsetTable":{"no queue":1}}"#] {
            let error = read::<Table>("a:1", 202, &answer(body))
                .and_then(|table| by_queue("a:1", 202, table.offset_table))
                .unwrap_err();
            assert!(error.to_string().starts_with("a:1 answered request 202 with something else"), "{error}");
        }
    }
}
