use redstart_wire::remoting::{
    body::{
        Acl, BatchAcks, CheckClient, DataVersion, GroupConfig, GroupConfigs, Heartbeat, LockQueues,
        QueryAssignment, Registration, RequestMode, TopicConfigList, TopicEntry, TopicRoute, User,
    },
    from_slice,
};
use serde_json::Value;

/// A JSON body as one of those that clients send: the first byte says which.
pub fn body(data: &[u8]) {
    const ACKS_MAX: usize = 100;
    let Some((kind, json)) = data.split_first() else { return };
    match kind {
        b'a' => drop(from_slice::<Heartbeat>(json)),
        b'b' => drop(from_slice::<LockQueues>(json)),
        b'c' => {
            let Ok(acks) = from_slice::<BatchAcks>(json) else { return };
            for ack in &acks.acks {
                assert!(ack.offsets(ACKS_MAX).is_none_or(|offsets| offsets.len() <= ACKS_MAX));
            }
        }
        b'd' => drop(from_slice::<QueryAssignment>(json)),
        b'e' => drop(from_slice::<Registration>(json)),
        b'f' => drop(from_slice::<TopicConfigList>(json)),
        b'g' => drop(from_slice::<GroupConfig>(json)),
        b'h' => drop(from_slice::<CheckClient>(json)),
        b'i' => drop(from_slice::<RequestMode>(json)),
        b'j' => drop(from_slice::<TopicRoute>(json)),
        b'k' => drop(from_slice::<DataVersion>(json)),
        b'l' => drop(from_slice::<Acl>(json)),
        b'm' => drop(from_slice::<User>(json)),
        b'n' => drop(from_slice::<GroupConfigs>(json)),
        b'o' => drop(from_slice::<TopicEntry>(json)),
        _ => lenient(json),
    }
}

/// What is JSON is read as such.
fn lenient(json: &[u8]) {
    let read = from_slice::<Value>(json);
    if let Ok(value) = serde_json::from_slice::<Value>(json) {
        // Numbers are read by other means, and nesting has another limit: only their presence is compared.
        assert!(read.is_ok() || depth(&value) > 60);
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
