//! The requests of the official clients, as they were recorded, sent to this broker: its answers have the shape of the
//! reference server's. See `interop/README.md` for how they were recorded.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use bytes::BytesMut;
use redstart_wire::remoting::{Command, code, decode, from_slice};
use serde_json::Value;

use crate::remoting_support::{Broker, Client};

const CLIENTS: &[&str] = &["java49", "java5r", "go4", "mqadmin"];

/// What the answers of Apache RocketMQ 5.5.0 hold and ours do not, or the other way: request, member, reason.
const DIFFERENCES: &[(i32, &str, &str)] = &[
    (10, "ext.recallHandle", "the recorded time of delivery has passed"),
    (310, "ext.recallHandle", "the recorded time of delivery has passed"),
    (12, "ext.indexLastUpdate", "when nothing was found nobody reads it"),
    (305, "body.brokerAddr", "the name service's list and the broker's are one"),
    (320, "ext.transactionId", "ours is the id that the broker gave the first message"),
    (324, "ext.", "a refusal says where the reply is in Apache; nobody reads it"),
    (370, "ext.MSG_REGION", "a refusal names the region in Apache; nobody reads it"),
    (400, "body.messageQueueAssignments", "the client has not joined its group here"),
    (907, "body.haClientRuntimeInfo", "there are no slaves"),
];

/// Members whose own members are data: names, addresses, numbers.
const TABLES: &[&str] = &[
    "attributes",
    "brokerAddrs",
    "brokerAddrTable",
    "clusterAddrTable",
    "data",
    "filterServerTable",
    "offsetTable",
    "subscriptionGroupTable",
    "subscriptionTable",
    "table",
    "topicConfigTable",
];

/// Requests that take something away come last.
fn is_destructive(code: i32) -> bool {
    matches!(
        code,
        code::DELETE_TOPIC_IN_BROKER
            | code::DELETE_TOPIC_IN_NAMESRV
            | code::DELETE_SUBSCRIPTIONGROUP
            | code::WIPE_WRITE_PERM_OF_BROKER
            | code::UNREGISTER_CLIENT
            | code::UPDATE_BROKER_CONFIG
    )
}

fn exchanges(client: &str) -> Vec<(Command, Command)> {
    let path = format!("../wire/tests/golden/{client}.frames");
    let bytes = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let mut input = BytesMut::from(&bytes[..]);
    let mut all = Vec::new();
    let mut asked: Option<Command> = None;
    while let Some(command) = decode(&mut input).unwrap() {
        if command.is_response() {
            all.push((asked.take().unwrap(), command));
        } else {
            asked = Some(command);
        }
    }
    all.sort_by_key(|(request, _)| is_destructive(request.code));
    all
}

/// Topics and groups as the programs of `interop/` had them.
async fn prepare(client: &mut Client, exchanges: &[(Command, Command)]) {
    let named = |names: &[&str]| -> BTreeSet<String> {
        let fields = exchanges
            .iter()
            .flat_map(|(request, _)| names.iter().filter_map(move |name| request.field(name)));
        fields.filter(|name| !name.starts_with('%') && !name.is_empty()).map(str::to_owned).collect()
    };
    for topic in named(&["topic", "b"]) {
        let fields =
            [("topic", topic.as_str()), ("readQueueNums", "8"), ("writeQueueNums", "8"), ("perm", "6")];
        // Names of the broker's own are refused.
        client.call(code::UPDATE_AND_CREATE_TOPIC, &fields).await;
    }
    for group in named(&["group", "consumerGroup", "srcGroup"]) {
        let body = serde_json::json!({ "groupName": group }).to_string();
        client.call_json(code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, &body).await;
    }
}

/// The same request, but one that waits for nothing.
fn at_once(mut request: Command) -> Command {
    for (name, value) in [("suspendTimeoutMillis", "0"), ("pollTime", "0"), ("bornTime", "0")] {
        if request.field(name).is_some() {
            request.fields.insert(name, value);
        }
    }
    request
}

/// All members of an answer by their paths: `ext.msgId`, `body.queueDatas.perm`. An element stands for its array, a value
/// for its table.
struct Shape {
    members: BTreeSet<String>,
    /// Arrays and tables with nothing in them: what their elements would hold is not known.
    empty: Vec<String>,
}

impl Shape {
    /// Members that the other one should have and does not.
    fn missing_in<'a>(&'a self, other: &'a Shape) -> impl Iterator<Item = &'a String> {
        let unknown = move |member: &str| other.empty.iter().any(|empty| member.starts_with(empty.as_str()));
        self.members.difference(&other.members).filter(move |member| !unknown(member))
    }
}

fn shape(answer: &Command) -> Shape {
    let fields = answer.fields.iter().map(|(name, _)| format!("ext.{name}"));
    let mut shape = Shape { members: fields.collect(), empty: Vec::new() };
    if answer.body.starts_with(b"{")
        && let Ok(value) = from_slice(&answer.body)
    {
        members("body", false, &value, &mut shape);
    }
    shape
}

fn members(path: &str, table: bool, value: &Value, shape: &mut Shape) {
    match value {
        Value::Object(object) if table && object.is_empty() => shape.empty.push(format!("{path}.")),
        Value::Array(all) if all.is_empty() => shape.empty.push(format!("{path}.")),
        Value::Object(object) => {
            for (name, value) in object {
                let path = if table { format!("{path}.*") } else { format!("{path}.{name}") };
                members(&path, TABLES.contains(&name.as_str()) && !table, value, shape);
                shape.members.insert(path);
            }
        }
        Value::Array(all) => all.iter().for_each(|one| members(path, false, one, shape)),
        _ => {}
    }
}

#[tokio::test]
async fn answers_have_the_members_of_the_reference_servers() {
    let mut unlike: BTreeMap<(i32, String), String> = BTreeMap::new();
    let mut compared: BTreeSet<i32> = BTreeSet::new();
    let mut asked: BTreeSet<i32> = BTreeSet::new();
    for name in CLIENTS {
        let broker = Broker::start_named("interop", |config, _| config.cluster = "interop".to_owned()).await;
        let mut client = broker.client().await;
        let exchanges = exchanges(name);
        prepare(&mut client, &exchanges).await;
        for (request, theirs) in exchanges {
            let code = request.code;
            asked.insert(code);
            let ours = client.call_with(at_once(request)).await;
            if ours.code != theirs.code {
                eprintln!("{name}: {code} is answered {} {:?}, not {}", ours.code, ours.remark, theirs.code);
                continue;
            }
            compared.insert(code);
            let (ours, theirs) = (shape(&ours), shape(&theirs));
            for member in theirs.missing_in(&ours) {
                unlike.insert((code, member.clone()), format!("{name}: missing"));
            }
            for member in ours.missing_in(&theirs) {
                unlike.insert((code, member.clone()), format!("{name}: ours alone"));
            }
        }
    }
    unlike.retain(|(code, member), _| {
        !DIFFERENCES.iter().any(|(of, known, _)| of == code && member.starts_with(known))
    });
    assert!(compared.len() > 50, "of {} requests only {compared:?} were answered alike", asked.len());
    assert!(unlike.is_empty(), "{unlike:#?}");
}
