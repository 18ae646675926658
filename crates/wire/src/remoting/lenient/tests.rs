//! Every body reads the same however a client writes its numbers, truth values, quotes and commas.

use std::fmt::Write;

use proptest::prelude::*;
use serde::Serialize;
use serde_json::Value;

use super::*;
use crate::remoting::body::*;

/// A way in which the same value may be written.
type Writing = fn(&Value) -> String;

const WRITINGS: [(&str, Writing); 8] = [
    ("numbers and truth values as text", |value| match value {
        Value::Number(_) | Value::Bool(_) => format!("\"{value}\""),
        other => other.to_string(),
    }),
    ("integers as fractions", |value| match value.as_i64() {
        Some(number) => format!("{number}.0"),
        None => value.to_string(),
    }),
    ("truth values as numbers", |value| match value {
        Value::Bool(truth) => u8::from(*truth).to_string(),
        other => other.to_string(),
    }),
    ("single quotes", |value| match value {
        Value::String(text) => format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'")),
        other => other.to_string(),
    }),
    ("Java's letter behind a long", |value| match value.as_i64() {
        Some(number) => format!("{number}L"),
        None => value.to_string(),
    }),
    ("comments and whitespace", |value| format!("/* a */ {value} // b\n")),
    ("every character escaped", |value| match value {
        Value::String(text) => {
            let units = text.encode_utf16().map(|unit| format!("\\u{unit:04X}"));
            format!("\"{}\"", units.collect::<String>())
        }
        other => other.to_string(),
    }),
    ("as it is", Value::to_string),
];

/// Writes a value with other scalars and, if asked, bare keys and trailing commas.
fn write(value: &Value, writing: Writing, odd: bool) -> String {
    let comma = if odd { "," } else { "" };
    match value {
        Value::Object(members) => {
            let mut text = "{".to_owned();
            for (name, value) in members {
                let bare = odd && name.chars().all(char::is_alphanumeric) && !name.is_empty();
                let name = if bare { name.clone() } else { Value::from(name.as_str()).to_string() };
                let _ = write!(text, "{name}:{},", write(value, writing, odd));
            }
            if !odd {
                text.truncate(text.trim_end_matches(',').len());
            }
            text + "}"
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| write(item, writing, odd)).collect();
            format!("[{}{comma}]", items.join(","))
        }
        scalar => writing(scalar),
    }
}

fn check<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(json: &str) {
    let name = std::any::type_name::<T>();
    let plain: T = from_slice(json.as_bytes()).unwrap_or_else(|error| panic!("{name}: {error}: {json}"));
    let value = serde_json::to_value(&plain).unwrap();
    let given: Value = serde_json::from_str(json).unwrap();
    for (member, given) in given.as_object().unwrap() {
        assert_eq!(&value[member], given, "{name}: all members of the sample are known");
    }
    for (what, writing) in WRITINGS {
        for odd in [false, true] {
            let mut text = write(&value, writing, odd);
            if odd {
                text.insert_str(1, "\"unknown\":[{1:2},null,'x'],");
                text.push_str(" trailing \0");
            }
            assert_eq!(from_slice::<T>(text.as_bytes()).as_ref(), Ok(&plain), "{name}, {what}: {text}");
        }
    }
    // Without members, with null members, with nothing at all.
    let empty: T = from_slice(b"{}").unwrap_or_else(|error| panic!("{name}: {error}"));
    let nulls =
        value.as_object().unwrap().keys().fold(String::new(), |all, key| all + &format!("{key:?}:null,"));
    assert_eq!(from_slice::<T>(format!("{{{nulls}}}").as_bytes()).as_ref(), Ok(&empty), "{name}");
    assert_eq!(from_slice::<T>(b"null").as_ref(), Ok(&empty), "{name}");
}

#[test]
fn every_body_is_read_in_every_way_in_which_clients_write_it() {
    check::<Heartbeat>(
        r#"{"clientID":"c@1","producerDataSet":[{"groupName":"p"}],"consumerDataSet":[{"groupName":"g","consumeType":"CONSUME_PASSIVELY",
        "messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","subscriptionDataSet":[{"topic":"t","subString":"a || b",
        "tagsSet":["a","b"],"codeSet":[97,-98],"subVersion":1700000000000000000,"classFilterMode":false,"expressionType":"TAG"}],"unitMode":true}],
        "heartbeatFingerprint":-5,"withoutSub":true}"#,
    );
    check::<CheckClient>(r#"{"clientId":"c","group":"g"}"#);
    check::<ConsumerIds>(r#"{"consumerIdList":["a","b"]}"#);
    check::<ClientSubscription>(r#"{"group":"g","topic":"t"}"#);
    check::<LockQueues>(
        r#"{"consumerGroup":"g","clientId":"c","mqSet":[{"brokerName":"b","queueId":3,"topic":"t"}]}"#,
    );
    check::<LockedQueues>(r#"{"lockOKMQSet":[{"brokerName":"b","queueId":3,"topic":"t"}]}"#);
    check::<QueryAssignment>(
        r#"{"topic":"t","consumerGroup":"g","clientId":"c","strategyName":"AVG","messageModel":"BROADCASTING"}"#,
    );
    check::<Assignments>(
        r#"{"messageQueueAssignments":[{"messageQueue":{"brokerName":"b","queueId":3,"topic":"t"},"mode":"POP","attachments":{"a":"b"}}]}"#,
    );
    check::<RequestMode>(r#"{"topic":"t","consumerGroup":"g","mode":"POP","popShareQueueNum":2}"#);
    check::<BatchAcks>(
        r#"{"brokerName":"b","acks":[{"c":"g","t":"t","r":"0","so":1,"q":2,"rq":3,"pt":1700000000000,"it":5,"b":"AQ=="}]}"#,
    );
    check::<GroupConfig>(
        r#"{"groupName":"g","consumeEnable":false,"consumeMessageOrderly":true,"retryMaxTimes":3,"retryQueueNums":2,"brokerId":1,
        "consumeFromMinEnable":false,"whichBrokerWhenConsumeSlowly":4,"groupSysFlag":1,"consumeTimeoutMinute":9,
        "groupRetryPolicy":{"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":5,"max":6,"multiplier":2}}}"#,
    );
    check::<GroupConfigs>(
        r#"{"groupConfigList":[{"groupName":"g","consumeEnable":true,"consumeMessageOrderly":false,"retryMaxTimes":16,
        "attributes":null,"brokerId":0,"consumeBroadcastEnable":true,"consumeFromMinEnable":true,"consumeTimeoutMinute":15,"groupSysFlag":0,
        "notifyConsumerIdsChangedEnable":true,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1}]}"#,
    );
    check::<TopicEntry>(
        r#"{"topicName":"t","readQueueNums":4,"writeQueueNums":5,"perm":6,"topicFilterType":"MULTI_TAG","topicSysFlag":1,"order":true,
        "attributes":{"message.type":"FIFO"}}"#,
    );
    check::<TopicConfigList>(
        r#"{"topicConfigList":[{"topicName":"t","readQueueNums":4,"writeQueueNums":5,"perm":6,"topicFilterType":"SINGLE_TAG","topicSysFlag":1,
        "order":true,"attributes":{}}]}"#,
    );
    check::<Registration>(
        r#"{"topicConfigSerializeWrapper":{"topicConfigTable":{"t":{"topicName":"t","readQueueNums":4,"writeQueueNums":5,"perm":6,
        "topicFilterType":"SINGLE_TAG","topicSysFlag":1,"order":true,"attributes":{}}},"dataVersion":{"counter":1,"stateVersion":2,"timestamp":3}}}"#,
    );
    check::<DataVersion>(r#"{"counter":1,"stateVersion":2,"timestamp":1700000000000}"#);
    check::<TopicRoute>(
        r#"{"queueDatas":[{"brokerName":"b","readQueueNums":8,"writeQueueNums":8,"perm":6,"topicSysFlag":0}],
        "brokerDatas":[{"cluster":"c","brokerName":"b","brokerAddrs":{"0":"127.0.0.1:10911"},"enableActingMaster":false}]}"#,
    );
    check::<ClusterInfo>(r#"{"clusterAddrTable":{"c":["b"]}}"#);
    check::<KeyValues>(r#"{"table":{"a":"1"}}"#);
    check::<User>(r#"{"username":"u","password":"p","userType":"Super","userStatus":"enable"}"#);
    check::<Acl>(
        r#"{"subject":"User:u","policies":[{"policyType":"Custom","entries":[{"resource":"Topic:t","actions":["Pub"],"sourceIps":["1.1.1.1"],"decision":"Allow"}]}]}"#,
    );
    check::<ConsumerConnection>(
        r#"{"connectionSet":[{"clientId":"c","clientAddr":"1.1.1.1:2","language":"CPP","version":475}],"consumeType":"CONSUME_POP","messageModel":"CLUSTERING"}"#,
    );
}

/// As the C++ client (2.x) writes it, and with it the Python and Node.js clients that are made of it: enumerations by
/// their numbers, `null` for what is empty.
#[test]
fn enumerations_are_read_by_their_numbers_too() {
    let text = br#"{"clientID":"10.0.0.1@7","consumerDataSet":[{"consumeFromWhere":0,"consumeType":1,"groupName":"g","messageModel":1,
        "subscriptionDataSet":[{"codeSet":["42"],"subString":"*","subVersion":"1700000000000","tagsSet":null,"topic":"t"}]}],
        "producerDataSet":null}
"#;
    let heartbeat: Heartbeat = from_slice(text).unwrap();
    let consumer = &heartbeat.consumer_data_set[0];
    assert_eq!(consumer.consume_type.as_deref(), Some("CONSUME_PASSIVELY"));
    assert_eq!(consumer.message_model.as_deref(), Some("CLUSTERING"));
    assert_eq!(consumer.consume_from_where.as_deref(), Some("CONSUME_FROM_LAST_OFFSET"));
    assert_eq!(consumer.subscription_data_set[0].code_set, [42]);
    assert_eq!(consumer.subscription_data_set[0].sub_version, 1_700_000_000_000);
    let mode: RequestMode = from_slice(br#"{"mode":1}"#).unwrap();
    assert_eq!(mode.mode, "POP");
    let topic: TopicEntry = from_slice(br#"{"topicFilterType":1}"#).unwrap();
    assert_eq!(topic.topic_filter_type, "MULTI_TAG");
    let unknown: RequestMode = from_slice(br#"{"mode":9}"#).unwrap();
    assert_eq!(unknown.mode, "9", "not one of them");
}

#[test]
fn keys_may_be_numbers_and_objects() {
    let read = |text: &str| from_slice::<Value>(text.as_bytes()).map(|value| value.to_string());
    for (text, expected) in [
        (r#"{"a":{0:"x",-1:"y"}}"#, r#"{"a":{"-1":"y","0":"x"}}"#),
        (r#"{"t":{{"q":1,"b":"}"}:5,{"q":2}:6}}"#, r#"{"t":{"{\"q\":1,\"b\":\"}\"}":5,"{\"q\":2}":6}}"#),
        (r#"{'a':[{"b":1},-2,"{0:1}"],}"#, r#"{"a":[{"b":1},-2,"{0:1}"]}"#),
        (r#"["\ud83d\ude00","\ud83d","\x41","\'"] {"#, "[\"😀\",\"\u{fffd}\",\"A\",\"'\"]"),
        ("[1e3,18446744073709551615,-0.5,null,true]", "[1000.0,18446744073709551615,-0.5,null,true]"),
    ] {
        assert_eq!(read(text).as_deref(), Ok(expected), "{text}");
    }
    for bad in [
        "",
        "}",
        "{",
        "\"",
        r#"{{"a""#,
        "{\"a\"}",
        "{\"a\":}",
        "[1",
        "[nonsense]",
        "[inf]",
        "[NaN]",
        "[\"\\q\"]",
    ] {
        assert!(read(bad).is_err(), "{bad}");
    }
}

#[test]
fn what_is_no_number_or_no_truth_is_told_with_its_place() {
    let error = from_slice::<LockQueues>(br#"{"mqSet":[{"queueId":"x"}]}"#).unwrap_err();
    assert_eq!(error.to_string(), "no integer at byte 24");
    assert!(from_slice::<TopicEntry>(br#"{"order":"perhaps"}"#).is_err());
    assert!(from_slice::<TopicEntry>(br#"{"readQueueNums":-1}"#).is_err());
    assert!(from_slice::<Heartbeat>(br#"{"consumerDataSet":7}"#).is_err());
    assert!(from_slice::<Heartbeat>(b"[]").is_ok(), "empty, of the other kind");
}

#[test]
fn values_within_each_other_have_a_limit() {
    for open in ["[", "{\"a\":", "{[", "{\"unknown\":["] {
        let deep = open.repeat(100_000);
        assert!(from_slice::<Value>(deep.as_bytes()).is_err());
        assert!(from_slice::<Heartbeat>(deep.as_bytes()).is_err());
    }
}

proptest! {
    #[test]
    fn what_is_json_is_read_as_such(text in r#"[{}\[\]":,0-9a\\tru-]{0,60}"#) {
        let read = from_slice::<Value>(text.as_bytes());
        if let Ok(value) = serde_json::from_str::<Value>(&text) {
            prop_assert_eq!(read.ok(), Some(value));
        }
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = from_slice::<Value>(&bytes);
        let _ = from_slice::<Heartbeat>(&bytes);
        let _ = from_slice::<GroupConfig>(&bytes);
    }

    #[test]
    fn damaged_bodies_are_read_without_panic(
        at in any::<proptest::sample::Index>(),
        with in r#"[{}\[\]":,'\\/*0a ]{1,3}"#,
        cut in any::<proptest::sample::Index>(),
    ) {
        let sample = r#"{"clientID":"c","consumerDataSet":[{"groupName":"g","consumeType":1,"subscriptionDataSet":[{"topic":"t","codeSet":["1"]}]}]}"#;
        let mut text = sample.to_owned();
        text.insert_str(at.index(sample.len()), &with);
        text.truncate(cut.index(text.len()) + 1);
        let _ = from_slice::<Heartbeat>(text.as_bytes());
        let _ = from_slice::<Value>(text.as_bytes());
    }
}
