//! Frames of the official clients, and the reference server's answers to them, as `interop/run --record` kept them.
//!
//! Each file is one client's exchanges: a request and, unless it is one-way, its answer. Some are the server's questions.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{collections::BTreeSet, fs, path::Path};

use bytes::{Bytes, BytesMut};
use redstart_wire::remoting::{
    Command, PopHandle, SendHeader, Serialization, StoredMessage,
    body::{BatchAcks, CheckClient, Heartbeat, LockQueues, QueryAssignment},
    code, decode, decode_batch, decode_properties, encode, from_slice, offset_message_id,
    read_offset_message_id,
};
use serde_json::Value;

/// A client, the language and the version it names, and the requests without which its frames would prove little.
const CLIENTS: &[(&str, &str, i32, &[i32])] = &[
    (
        "java49",
        "JAVA",
        409,
        &[11, 12, 14, 15, 29, 30, 31, 34, 35, 36, 37, 38, 41, 42, 46, 105, 208, 222, 310, 320, 325],
    ),
    (
        "java5r",
        "JAVA",
        513,
        &[
            11, 12, 14, 15, 29, 30, 31, 34, 35, 36, 37, 38, 41, 42, 46, 105, 310, 320, 325, 361, 370, 400,
            401, 200_050, 200_051, 200_053,
        ],
    ),
    ("go4", "GO", 317, &[10, 11, 14, 15, 34, 36, 37, 38, 41, 42, 105, 320, 324]),
    (
        "mqadmin",
        "JAVA",
        513,
        &[
            17, 18, 25, 28, 100, 101, 102, 106, 200, 202, 203, 204, 205, 206, 207, 208, 215, 216, 222, 225,
            300, 305, 307, 315, 318, 319, 321, 327, 328, 3001, 3002, 3003, 3004, 3005, 3006, 3007, 3008,
            3009, 3010,
        ],
    ),
];

struct Exchange {
    request: Command,
    answer: Option<Command>,
}

fn frames(client: &str) -> Bytes {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{client}.frames"));
    fs::read(path).unwrap().into()
}

fn commands(client: &str) -> Vec<Command> {
    let mut input = BytesMut::from(&frames(client)[..]);
    let all = std::iter::from_fn(|| decode(&mut input).unwrap()).collect();
    assert!(input.is_empty(), "{client}: {} bytes are no frame", input.len());
    all
}

fn exchanges(client: &str) -> Vec<Exchange> {
    let mut all: Vec<Exchange> = Vec::new();
    for command in commands(client) {
        if command.is_response() {
            let last = all.last_mut().unwrap();
            assert_eq!(last.request.opaque, command.opaque, "{client}: an answer to another request");
            last.answer = Some(command);
        } else {
            all.push(Exchange { request: command, answer: None });
        }
    }
    all
}

/// Every exchange of every client.
fn each(check: impl Fn(&str, &Exchange)) {
    for (client, ..) in CLIENTS {
        for exchange in exchanges(client) {
            check(&format!("{client}, request {}", exchange.request.code), &exchange);
        }
    }
}

#[test]
fn every_client_is_there_with_its_language_version_and_requests() {
    for (client, language, version, expected) in CLIENTS {
        let own = exchanges(client).into_iter().map(|exchange| exchange.request);
        let own: Vec<Command> = own.filter(|request| request.language.name() == *language).collect();
        assert!(own.iter().all(|request| request.version == *version), "{client}");
        let seen: BTreeSet<i32> = own.iter().map(|request| request.code).collect();
        let missing: Vec<&i32> = expected.iter().filter(|code| !seen.contains(code)).collect();
        assert!(missing.is_empty(), "{client}: no request {missing:?}");
    }
}

#[test]
fn a_request_is_answered_unless_it_is_one_way() {
    each(|what, Exchange { request, answer }| {
        assert_eq!(request.is_one_way(), answer.is_none(), "{what}");
    });
}

/// Our headers say what theirs said: the same members with the same values.
#[test]
fn headers_written_again_say_the_same() {
    for (client, ..) in CLIENTS {
        let mut input = frames(client);
        for command in commands(client) {
            let mut again = BytesMut::new();
            encode(&command, &mut again);
            assert_eq!(decode(&mut again.clone()).unwrap().as_ref(), Some(&command));
            assert_eq!(command.serialization, Serialization::Json);
            let (theirs, size) = header(&input);
            assert_eq!(header(&again).0, theirs, "{client}: {command:?}");
            drop(input.split_to(size));
        }
    }
}

/// The header of the first frame without what may be left out, and the size of the frame.
fn header(frame: &[u8]) -> (Value, usize) {
    let number = |at: usize| u32::from_be_bytes(frame[at..at + 4].try_into().unwrap()) as usize;
    let mut header: Value = serde_json::from_slice(&frame[8..8 + (number(4) & 0x00ff_ffff)]).unwrap();
    let object = header.as_object_mut().unwrap();
    object.remove("serializeTypeCurrentRPC");
    object.retain(|_, value| !value.is_null() && value != "" && *value != serde_json::json!({}));
    if let Some(fields) = object.get_mut("extFields").and_then(Value::as_object_mut) {
        fields.retain(|_, value| !value.is_null());
    }
    object.retain(|_, value| *value != serde_json::json!({}));
    (header, 4 + number(0))
}

#[test]
fn sends_have_what_a_message_needs() {
    let mut seen = 0;
    for (client, ..) in CLIENTS {
        for Exchange { request, answer } in exchanges(client) {
            let single = matches!(request.code, code::SEND_MESSAGE | code::SEND_MESSAGE_V2);
            if !single && request.code != code::SEND_BATCH_MESSAGE {
                continue;
            }
            seen += 1;
            let header = SendHeader::read(&request).unwrap();
            assert!(!header.topic.is_empty() && !header.producer_group.is_empty() && header.born_at > 0);
            assert_eq!(header.batch, !single);
            let all = if single {
                vec![header.properties.to_owned()]
            } else {
                decode_batch(request.body.clone(), 100)
                    .unwrap()
                    .into_iter()
                    .map(|entry| entry.properties)
                    .collect()
            };
            for properties in &all {
                let properties = decode_properties(properties);
                let id = properties.iter().find(|(name, _)| name == "UNIQ_KEY").map(|(_, value)| value.len());
                // The Go client (2.1.2) gives the messages of a batch no ids: the broker makes them.
                let without = *client == "go4" && !single;
                assert!(matches!(id, Some(32 | 56)) || without, "{client}: {properties:?}");
            }
            let answer = answer.filter(|answer| answer.code == code::SUCCESS);
            for id in answer.iter().flat_map(|answer| answer.field("msgId").unwrap().split(',')) {
                let (host, offset) = read_offset_message_id(id).unwrap();
                assert_eq!(offset_message_id(host, offset), id);
            }
        }
    }
    assert!(seen >= 8, "{seen} sends");
}

/// Messages in answers are read to the last byte, and written again they are the same bytes.
#[test]
fn stored_messages_come_back_byte_by_byte() {
    let mut seen = 0;
    for (client, ..) in CLIENTS {
        for body in commands(client).into_iter().map(|command| command.body) {
            let mut rest = body.clone();
            let Some(first) = StoredMessage::decode(&mut rest) else { continue };
            let mut all = vec![first];
            while !rest.is_empty() {
                all.push(StoredMessage::decode(&mut rest).unwrap());
            }
            let mut again = Vec::new();
            for message in &all {
                message.encode(&mut again).unwrap();
            }
            assert_eq!(again, body, "{client}");
            seen += all.len();
        }
    }
    assert!(seen >= 8, "{seen} messages");
}

#[test]
fn json_bodies_of_requests_are_understood() {
    each(|what, Exchange { request, .. }| {
        let body = &request.body;
        match request.code {
            code::HEART_BEAT => {
                let beat: Heartbeat = serde_json::from_slice(body).expect(what);
                assert!(beat.client_id.contains('@'), "{what}: {beat:?}");
                assert!(!beat.producer_data_set.is_empty() || !beat.consumer_data_set.is_empty(), "{what}");
                assert!(beat.consumer_data_set.iter().all(|group| !group.group_name.is_empty()), "{what}");
            }
            code::LOCK_BATCH_MQ | code::UNLOCK_BATCH_MQ => {
                let lock: LockQueues = serde_json::from_slice(body).expect(what);
                assert!(!lock.consumer_group.is_empty() && !lock.client_id.is_empty(), "{what}");
            }
            code::QUERY_ASSIGNMENT => {
                let query: QueryAssignment = serde_json::from_slice(body).expect(what);
                assert!(query.strategy_name.is_some() && !query.topic.is_empty(), "{what}");
            }
            code::CHECK_CLIENT_CONFIG => {
                let check: CheckClient = serde_json::from_slice(body).expect(what);
                assert!(check.subscription_data.is_some(), "{what}");
            }
            code::BATCH_ACK_MESSAGE => {
                let acks: BatchAcks = serde_json::from_slice(body).expect(what);
                assert!(acks.acks.iter().all(|ack| ack.offsets(1000).is_some()), "{what}");
            }
            _ => {}
        }
    });
}

#[test]
fn handles_of_pop_clients_are_understood() {
    each(|what, Exchange { request, .. }| {
        if matches!(request.code, code::ACK_MESSAGE | code::CHANGE_MESSAGE_INVISIBLETIME) {
            let handle = PopHandle::read(request.required("extraInfo").expect(what)).expect(what);
            assert_eq!(request.number::<i32>("queueId"), Ok(handle.queue_id), "{what}");
            assert_eq!(request.number::<i64>("offset"), Ok(handle.queue_offset), "{what}");
        }
    });
}

/// Whatever the Java library writes in the place of JSON is read.
#[test]
fn odd_json_becomes_json() {
    let mut odd = 0;
    for (client, ..) in CLIENTS {
        for command in commands(client).iter().filter(|command| command.body.starts_with(b"{")) {
            if serde_json::from_slice::<Value>(&command.body).is_ok() {
                continue;
            }
            odd += 1;
            from_slice::<Value>(&command.body).unwrap();
        }
    }
    assert!(odd > 0, "the reference server is known for it");
}
