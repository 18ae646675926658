//! Consumers over Remoting: pulls, offsets, retries, locks, pops.

use std::time::{Duration, Instant};

use redstart_wire::remoting::{Command, PopHandle, code, encode_properties};

use crate::remoting_support::{Broker, Client, consumer, json, messages, properties, request};

async fn send(client: &mut Client, topic: &str, tag: &str, body: &'static [u8]) -> Command {
    let properties = encode_properties([("TAGS", tag), ("UNIQ_KEY", std::str::from_utf8(body).unwrap())]);
    let fields = [
        ("producerGroup", "p"),
        ("topic", topic),
        ("defaultTopic", "TBW102"),
        ("defaultTopicQueueNums", "4"),
        ("queueId", "0"),
        ("sysFlag", "0"),
        ("bornTimestamp", "1"),
        ("flag", "0"),
        ("properties", &properties),
    ];
    let sent = client.call_with(Command { body: body.into(), ..request(code::SEND_MESSAGE, &fields) }).await;
    assert_eq!(sent.code, code::SUCCESS, "{:?}", sent.remark);
    sent
}

fn pull(topic: &str, offset: &str, flags: &str, wait: &str) -> Command {
    let fields = [
        ("consumerGroup", "g"),
        ("topic", topic),
        ("queueId", "0"),
        ("queueOffset", offset),
        ("maxMsgNums", "32"),
        ("sysFlag", flags),
        ("commitOffset", "1"),
        ("suspendTimeoutMillis", wait),
        ("subVersion", "1"),
    ];
    request(code::PULL_MESSAGE, &fields)
}

async fn join(client: &mut Client, expression: &str) {
    let answer = client.call_json(code::HEART_BEAT, &consumer("c", "g", "t", expression)).await;
    assert_eq!(answer.code, code::SUCCESS);
    assert!(answer.version >= 232, "older brokers know no SQL, and clients look");
}

/// The C++ client, and the Python and Node.js clients that are made of it, name enumerations by their numbers.
#[tokio::test]
async fn a_consumer_that_writes_numbers_for_names_and_text_for_numbers_consumes() {
    let broker = Broker::start().await;
    let mut client = broker.with_topic("t", 1).await;
    let heartbeat = r#"{"clientID":"c","consumerDataSet":[{"consumeFromWhere":0,"consumeType":1,"groupName":"g","messageModel":1,
        "subscriptionDataSet":[{"codeSet":null,"subString":"*","subVersion":"1","tagsSet":null,"topic":"t"}]}],"producerDataSet":null}"#;
    let answer = client.call_json(code::HEART_BEAT, heartbeat).await;
    assert_eq!(answer.code, code::SUCCESS, "{:?}", answer.remark);
    assert_eq!(answer.language.name(), "JAVA", "older clients know no RUST");
    send(&mut client, "t", "a", b"m").await;
    assert_eq!(messages(&client.call_with(pull("t", "0", "0", "0")).await).len(), 1);
    let connection = client.ok(code::GET_CONSUMER_CONNECTION_LIST, &[("consumerGroup", "g")]).await;
    assert_eq!(json(&connection)["consumeType"], "CONSUME_PASSIVELY");
    assert_eq!(json(&connection)["messageModel"], "CLUSTERING");
}

/// Java clients give their subscriptions a new version after a rebalance, pull with it, and tell it last.
#[tokio::test]
async fn a_pull_that_overtakes_its_heartbeat_is_served_when_that_has_come() {
    let broker = Broker::start().await;
    let mut client = broker.with_topic("t", 1).await;
    join(&mut client, "*").await;
    send(&mut client, "t", "a", b"m").await;
    let early = client.send(pull("t", "0", "0", "0").with_field("subVersion", 2)).await;
    // Requests are begun in the order of their connection.
    client.ok(code::GET_MAX_OFFSET, &[("topic", "t"), ("queueId", "0")]).await;
    let newer = consumer("c", "g", "t", "*").replace(r#""subVersion":1"#, r#""subVersion":2"#);
    client.call_json(code::HEART_BEAT, &newer).await;
    let answer = client.answer(early).await;
    assert_eq!(answer.code, code::SUCCESS, "{:?}", answer.remark);
}

#[tokio::test]
async fn a_pull_says_what_it_found_and_where_to_go_on() {
    let broker = Broker::start().await;
    let mut client = broker.with_topic("t", 1).await;
    let early = client.call_with(pull("t", "0", "0", "0")).await;
    assert_eq!(early.code, code::SUBSCRIPTION_NOT_EXIST, "no heartbeat yet");
    join(&mut client, "a||b").await;
    assert_eq!(client.call_with(pull("t", "7", "0", "0")).await.code, code::PULL_OFFSET_MOVED);
    assert_eq!(client.call_with(pull("t", "0", "0", "0")).await.code, code::PULL_NOT_FOUND);
    for (tag, body) in [("a", b"1"), ("x", b"2"), ("b", b"3"), ("x", b"4")] {
        send(&mut client, "t", tag, body).await;
    }
    let found = client.call_with(pull("t", "0", "0", "0")).await;
    assert_eq!(found.code, code::SUCCESS);
    let bodies: Vec<_> = messages(&found).iter().map(|message| message.body.clone()).collect();
    assert_eq!(bodies, [&b"1"[..], b"3"]);
    assert_eq!(found.field("nextBeginOffset"), Some("4"), "those that do not match are behind");
    assert_eq!((found.field("minOffset"), found.field("maxOffset")), (Some("0"), Some("4")));
    for (offset, expected, next) in [
        ("3", code::PULL_RETRY_IMMEDIATELY, "4"),
        ("4", code::PULL_NOT_FOUND, "4"),
        ("9", code::PULL_OFFSET_MOVED, "4"),
        ("-1", code::PULL_OFFSET_MOVED, "0"),
    ] {
        let answer = client.call_with(pull("t", offset, "0", "0")).await;
        assert_eq!((answer.code, answer.field("nextBeginOffset")), (expected, Some(next)), "at {offset}");
    }
    let newer = pull("t", "0", "0", "0").with_field("subVersion", 2);
    assert_eq!(client.call_with(newer).await.code, code::SUBSCRIPTION_NOT_LATEST);
    let cases = [
        (pull("t", "0", "0", "0").with_field("queueId", 1), code::INVALID_PARAMETER),
        (pull("t", "0", "0", "0").with_field("queueId", -1), code::INVALID_PARAMETER),
        (pull("u", "0", "0", "0"), code::TOPIC_NOT_EXIST),
        (pull("t", "x", "0", "0"), code::INVALID_PARAMETER),
    ];
    for (command, expected) in cases {
        assert_eq!(client.call_with(command).await.code, expected);
    }
    for (kind, expression, expected) in [
        ("SQL92", "TAGS = 'x' AND UNIQ_KEY IS NULL", vec!["2", "4"]),
        ("TAG", "b", vec!["3"]),
        ("TAG", "*", vec!["1", "2", "3", "4"]),
    ] {
        let asked = pull("t", "0", "4", "0")
            .with_field("subscription", expression)
            .with_field("expressionType", kind);
        let found = client.call_with(asked).await;
        let bodies: Vec<_> =
            messages(&found).iter().map(|m| String::from_utf8(m.body.to_vec()).unwrap()).collect();
        assert_eq!(bodies, expected, "{expression}");
    }
    let bad =
        pull("t", "0", "4", "0").with_field("subscription", "a >").with_field("expressionType", "SQL92");
    assert_eq!(client.call_with(bad).await.code, code::SUBSCRIPTION_PARSE_FAILED);
}

#[tokio::test]
async fn a_held_pull_blocks_nobody_and_is_woken_by_a_message() {
    let broker = Broker::start().await;
    let mut client = broker.with_topic("t", 1).await;
    join(&mut client, "*").await;
    let held = client.send(pull("t", "0", "2", "15000")).await;
    // The same connection is served meanwhile.
    send(&mut client, "t", "a", b"m").await;
    let woken = client.answer(held).await;
    assert_eq!((woken.code, messages(&woken).len()), (code::SUCCESS, 1));
    let started = Instant::now();
    let nothing = client.call_with(pull("t", "1", "2", "300")).await;
    assert_eq!(nothing.code, code::PULL_NOT_FOUND);
    assert!(started.elapsed() >= Duration::from_millis(290), "it was held");
}

#[tokio::test]
async fn offsets_are_committed_and_asked_for() {
    let broker = Broker::start().await;
    let mut client = broker.with_topic("t", 2).await;
    let at = [("consumerGroup", "g"), ("topic", "t"), ("queueId", "0")];
    for body in [b"1", b"2", b"3"] {
        send(&mut client, "t", "a", body).await;
    }
    let asked = client.call(code::QUERY_CONSUMER_OFFSET, &at).await;
    assert_eq!((asked.code, asked.field("offset")), (code::SUCCESS, Some("0")), "a young queue starts at 0");
    let strict = [at[0], at[1], at[2], ("setZeroIfNotFound", "false")];
    assert_eq!(client.call(code::QUERY_CONSUMER_OFFSET, &strict).await.code, code::QUERY_NOT_FOUND);
    client.ok(code::UPDATE_CONSUMER_OFFSET, &[at[0], at[1], at[2], ("commitOffset", "2")]).await;
    assert_eq!(client.ok(code::QUERY_CONSUMER_OFFSET, &strict).await.field("offset"), Some("2"));
    client.ok(code::UPDATE_CONSUMER_OFFSET, &[at[0], at[1], at[2], ("commitOffset", "1")]).await;
    assert_eq!(client.ok(code::QUERY_CONSUMER_OFFSET, &at).await.field("offset"), Some("1"), "back as well");
    let negative = [at[0], at[1], at[2], ("commitOffset", "-5")];
    assert_eq!(client.call(code::UPDATE_CONSUMER_OFFSET, &negative).await.code, code::INVALID_PARAMETER);
    assert_eq!(client.ok(code::GET_MAX_OFFSET, &at[1..]).await.field("offset"), Some("3"));
    assert_eq!(client.ok(code::GET_MIN_OFFSET, &at[1..]).await.field("offset"), Some("0"));
    let empty = [("topic", "t"), ("queueId", "1")];
    assert_eq!(client.ok(code::GET_EARLIEST_MSG_STORETIME, &empty).await.field("timestamp"), Some("-1"));
    let time =
        client.ok(code::GET_EARLIEST_MSG_STORETIME, &at[1..]).await.field("timestamp").unwrap().to_owned();
    let search = [at[1], at[2], ("timestamp", &time)];
    assert_eq!(client.ok(code::SEARCH_OFFSET_BY_TIMESTAMP, &search).await.field("offset"), Some("0"));
    let late = [at[1], at[2], ("timestamp", "9999999999999")];
    assert_eq!(client.ok(code::SEARCH_OFFSET_BY_TIMESTAMP, &late).await.field("offset"), Some("3"));
    join(&mut client, "*").await;
    client.call_with(pull("t", "3", "1", "0").with_field("commitOffset", 3)).await;
    assert_eq!(
        client.ok(code::QUERY_CONSUMER_OFFSET, &at).await.field("offset"),
        Some("3"),
        "committed by a pull"
    );
}

fn back(offset: i64, level: &str, max: &str) -> Command {
    let offset = offset.to_string();
    let fields = [
        ("offset", offset.as_str()),
        ("group", "g"),
        ("delayLevel", level),
        ("originTopic", "t"),
        ("maxReconsumeTimes", max),
    ];
    request(code::CONSUMER_SEND_MSG_BACK, &fields)
}

/// The messages of the group's retry or dead-letter topic, waited for.
async fn of_group(
    client: &mut Client,
    topic: &str,
    offset: &str,
) -> Vec<redstart_wire::remoting::StoredMessage<'static>> {
    let asked = pull(topic, offset, "6", "15000").with_field("subscription", "*");
    let found = client.call_with(asked).await;
    assert_eq!(found.code, code::SUCCESS, "{topic}: {:?}", found.remark);
    messages(&found)
}

#[tokio::test]
async fn a_message_handed_back_comes_again_until_its_retries_are_used_up() {
    let broker =
        Broker::start_with(|config, _| config.delay_levels = vec![Duration::from_millis(20); 18]).await;
    let mut client = broker.with_topic("t", 1).await;
    join(&mut client, "*").await;
    let first = send(&mut client, "t", "a", b"m").await.field("msgId").unwrap().to_owned();
    let mut message = messages(&client.call_with(pull("t", "0", "0", "0")).await).remove(0);
    for retry in 1..=2 {
        let answer = client.call_with(back(message.physical_offset, "0", "2")).await;
        assert_eq!(answer.code, code::SUCCESS, "{:?}", answer.remark);
        message = of_group(&mut client, "%RETRY%g", &(retry - 1).to_string()).await.remove(0);
        assert_eq!((message.reconsume_times, &message.body[..]), (retry, &b"m"[..]));
        let properties = properties(&message);
        assert_eq!((properties["RETRY_TOPIC"].as_str(), properties["UNIQ_KEY"].as_str()), ("t", "m"));
    }
    assert_eq!(client.call_with(back(message.physical_offset, "0", "2")).await.code, code::SUCCESS);
    let dead = of_group(&mut client, "%DLQ%g", "0").await.remove(0);
    assert_eq!((dead.reconsume_times, &dead.body[..]), (3, &b"m"[..]));
    assert_eq!(properties(&dead)["RETRY_TOPIC"], "t");
    assert_eq!(properties(&dead)["DLQ_ORIGIN_TOPIC"], "t");
    assert_eq!(properties(&dead)["ORIGIN_MESSAGE_ID"], first);
    // Given up at once.
    assert_eq!(client.call_with(back(message.physical_offset, "-1", "99")).await.code, code::SUCCESS);
    assert_eq!(of_group(&mut client, "%DLQ%g", "1").await.len(), 1);
    for forged in [-1, 12_345, i64::MAX, 1 << 47] {
        assert_eq!(client.call_with(back(forged, "0", "2")).await.code, code::SYSTEM_ERROR, "{forged}");
    }
}

#[tokio::test]
async fn a_half_message_cannot_be_handed_back_into_view() {
    let broker =
        Broker::start_with(|config, _| config.delay_levels = vec![Duration::from_millis(1); 18]).await;
    let mut client = broker.with_topic("t", 1).await;
    join(&mut client, "*").await;
    let properties = encode_properties([("TRAN_MSG", "true"), ("PGROUP", "p")]);
    let fields =
        [("a", "p"), ("b", "t"), ("e", "0"), ("f", "4"), ("g", "1"), ("h", "0"), ("i", properties.as_str())];
    let sent =
        client.call_with(Command { body: "half".into(), ..request(code::SEND_MESSAGE_V2, &fields) }).await;
    let (_, offset) = redstart_wire::remoting::read_offset_message_id(sent.field("msgId").unwrap()).unwrap();
    for level in ["0", "-1"] {
        assert_eq!(client.call_with(back(offset, level, "5")).await.code, code::SYSTEM_ERROR);
    }
    let view = client.call(code::VIEW_MESSAGE_BY_ID, &[("offset", &offset.to_string())]).await;
    assert_eq!(view.code, code::SYSTEM_ERROR, "nor looked at");
}

#[tokio::test]
async fn a_copy_sent_to_the_retry_topic_keeps_its_count_and_dies_past_its_maximum() {
    let broker = Broker::start_with(|config, _| config.delay_levels = vec![Duration::from_millis(20)]).await;
    let mut client = broker.with_topic("t", 1).await;
    join(&mut client, "*").await;
    let copy = |times: &str, max: &str| {
        let properties = encode_properties([("RETRY_TOPIC", "t"), ("UNIQ_KEY", "ID"), ("DELAY", "4")]);
        let fields = [
            ("a", "CLIENT_INNER_PRODUCER"),
            ("b", "%RETRY%g"),
            ("e", "0"),
            ("f", "0"),
            ("g", "1"),
            ("h", "0"),
            ("i", properties.as_str()),
            ("j", times),
            ("l", max),
        ];
        Command { body: "m".into(), ..request(code::SEND_MESSAGE_V2, &fields) }
    };
    assert_eq!(client.call_with(copy("2", "3")).await.code, code::SUCCESS);
    let retried = of_group(&mut client, "%RETRY%g", "0").await.remove(0);
    assert_eq!((retried.reconsume_times, properties(&retried)["RETRY_TOPIC"].as_str()), (2, "t"));
    // Handed back by its address, its own count goes on.
    assert_eq!(client.call_with(back(retried.physical_offset, "1", "9")).await.code, code::SUCCESS);
    assert_eq!(of_group(&mut client, "%RETRY%g", "1").await[0].reconsume_times, 3);
    assert_eq!(client.call_with(copy("4", "3")).await.code, code::SUCCESS);
    let dead = of_group(&mut client, "%DLQ%g", "0").await.remove(0);
    assert_eq!(properties(&dead)["DLQ_ORIGIN_TOPIC"], "t");
    assert!(!properties(&dead).contains_key("DELAY"));
    // An ordered consumer sends only what it gives up.
    let queue =
        r#"{"consumerGroup":"g","clientId":"c","mqSet":[{"topic":"t","brokerName":"broker-a","queueId":0}]}"#;
    client.call_json(code::LOCK_BATCH_MQ, queue).await;
    assert_eq!(client.call_with(copy("1", "3")).await.code, code::SUCCESS);
    assert_eq!(of_group(&mut client, "%DLQ%g", "1").await.len(), 1);
}

#[tokio::test]
async fn queues_are_locked_for_one_client() {
    let broker = Broker::start().await;
    let mut client = broker.with_topic("t", 1).await;
    let body = |id: &str| {
        format!(
            r#"{{"consumerGroup":"g","clientId":"{id}","onlyThisBroker":false,"mqSet":[{{"topic":"t","brokerName":"x","queueId":3}}]}}"#
        )
    };
    let mut locked = async |code, id: &str| client.call_json(code, &body(id)).await;
    let own = json(&locked(code::LOCK_BATCH_MQ, "a").await);
    assert_eq!(own["lockOKMQSet"], serde_json::json!([{"topic": "t", "brokerName": "x", "queueId": 3}]));
    assert_eq!(json(&locked(code::LOCK_BATCH_MQ, "b").await)["lockOKMQSet"], serde_json::json!([]));
    locked(code::UNLOCK_BATCH_MQ, "a").await;
    assert_eq!(json(&locked(code::LOCK_BATCH_MQ, "b").await)["lockOKMQSet"].as_array().unwrap().len(), 1);
    assert_eq!(client.call_json(code::LOCK_BATCH_MQ, "{}").await.code, code::INVALID_PARAMETER);
    assert_eq!(client.call_json(code::LOCK_BATCH_MQ, "nonsense").await.code, code::INVALID_PARAMETER);
}

fn pop(invisible: &str, poll: &str) -> Command {
    pop_by("g", invisible, poll).with_field("initMode", 0)
}

/// A pop that does not say where a new group begins.
fn pop_by(group: &str, invisible: &str, poll: &str) -> Command {
    let fields = [
        ("consumerGroup", group),
        ("topic", "t"),
        ("queueId", "-1"),
        ("maxMsgNums", "32"),
        ("invisibleTime", invisible),
        ("pollTime", poll),
        ("bornTime", "0"),
        ("exp", "*"),
        ("expType", "TAG"),
    ];
    request(code::POP_MESSAGE, &fields)
}

/// The handle that a client builds for the n-th message of an answer.
fn handle(answer: &Command, n: usize) -> PopHandle {
    let number = |name: &str| answer.field(name).unwrap().parse().unwrap();
    let start = answer.field("startOffsetInfo").unwrap().split(' ').nth(2).unwrap().parse().unwrap();
    PopHandle {
        start_offset: start,
        pop_time: number("popTime"),
        invisible_time: number("invisibleTime"),
        revive_queue: number("reviveQid") as i32,
        mark: 0,
        broker: "broker-a".to_owned(),
        queue_id: messages(answer)[n].queue_id,
        queue_offset: messages(answer)[n].queue_offset,
    }
}

fn about(code: i32, handle: &PopHandle) -> Command {
    let (queue, offset) = (handle.queue_id.to_string(), handle.queue_offset.to_string());
    let fields = [
        ("consumerGroup", "g"),
        ("topic", "t"),
        ("queueId", &queue),
        ("offset", &offset),
        ("extraInfo", &handle.text()),
    ];
    request(code, &fields)
}

#[tokio::test]
async fn a_popped_message_is_gone_when_it_is_acked_and_comes_again_when_not() {
    let broker = Broker::start().await;
    let mut client = broker.with_topic("t", 1).await;
    assert_eq!(client.call_with(pop("1000", "0")).await.code, code::POLLING_TIMEOUT);
    for body in [b"1", b"2", b"3"] {
        send(&mut client, "t", "a", body).await;
    }
    let popped = client.call_with(pop("60000", "0")).await;
    assert_eq!(popped.code, code::SUCCESS, "{:?}", popped.remark);
    assert_eq!(popped.field("msgOffsetInfo"), Some("0 0 0,1,2"));
    assert_eq!(client.call_with(pop("60000", "0")).await.code, code::POLLING_TIMEOUT, "in flight");
    // Somebody else's guess touches nothing.
    let mut forged = handle(&popped, 1);
    forged.pop_time += 1;
    assert_eq!(client.call_with(about(code::ACK_MESSAGE, &forged)).await.code, code::SUCCESS);
    assert_eq!(client.call_with(about(code::ACK_MESSAGE, &handle(&popped, 0))).await.code, code::SUCCESS);
    let shorter =
        about(code::CHANGE_MESSAGE_INVISIBLETIME, &handle(&popped, 1)).with_field("invisibleTime", 100);
    let changed = client.call_with(shorter.clone()).await;
    assert_eq!(changed.code, code::SUCCESS, "{:?}", changed.remark);
    assert_eq!(client.call_with(shorter).await.code, code::NO_MESSAGE, "the old handle is void");
    let again = client.call_with(pop("60000", "15000")).await;
    let [message] = &messages(&again)[..] else { panic!("one message") };
    assert_eq!((&message.body[..], message.reconsume_times), (&b"2"[..], 1));
    let bits = format!(
        r#"{{"acks":[{{"c":"g","t":"t","r":"0","so":2,"q":0,"rq":0,"pt":{},"it":60000,"b":"AQ=="}}]}}"#,
        handle(&popped, 2).pop_time
    );
    assert_eq!(client.call_json(code::BATCH_ACK_MESSAGE, &bits).await.code, code::SUCCESS);
    assert_eq!(client.call_with(about(code::ACK_MESSAGE, &handle(&again, 0))).await.code, code::SUCCESS);
    let at = [("consumerGroup", "g"), ("topic", "t"), ("queueId", "0")];
    assert_eq!(client.ok(code::QUERY_CONSUMER_OFFSET, &at).await.field("offset"), Some("3"), "all done");
}

#[tokio::test]
async fn a_pop_that_names_no_place_to_begin_leaves_it_to_the_group() {
    let broker = Broker::start().await;
    let mut client = broker.with_topic("t", 1).await;
    send(&mut client, "t", "a", b"before").await;
    for (group, from, found) in [("earliest", "earliest", 1), ("latest", "latest", 0)] {
        let body = format!(r#"{{"groupName":"{group}","attributes":{{"+consume.from":"{from}"}}}}"#);
        let put = client.call_json(code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, &body).await;
        assert_eq!(put.code, code::SUCCESS, "{:?}", put.remark);
        let popped = client.call_with(pop_by(group, "60000", "0")).await;
        let count = if popped.code == code::SUCCESS { messages(&popped).len() } else { 0 };
        assert_eq!(count, found, "{group}");
    }
    let wrong = r#"{"groupName":"g","attributes":{"+consume.from":"noon"}}"#;
    let refused = client.call_json(code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, wrong).await;
    assert_eq!(refused.code, code::INVALID_PARAMETER, "{:?}", refused.remark);
}

#[tokio::test]
async fn pops_and_acks_that_cannot_be_are_refused() {
    let broker = Broker::start().await;
    let mut client = broker.with_topic("t", 1).await;
    send(&mut client, "t", "a", b"1").await;
    let cases = [
        (pop("1000", "0").with_field("maxMsgNums", 33), code::INVALID_PARAMETER),
        (pop("1000", "0").with_field("maxMsgNums", -1), code::INVALID_PARAMETER),
        (pop("-1", "0"), code::INVALID_PARAMETER),
        (pop("999999999999", "0"), code::INVALID_PARAMETER),
        (pop("1000", "0").with_field("topic", "u"), code::TOPIC_NOT_EXIST),
        (
            pop("1000", "0").with_field("expType", "SQL92").with_field("exp", "a >"),
            code::SUBSCRIPTION_PARSE_FAILED,
        ),
        (pop("1000", "0").with_field("bornTime", 1), code::POLLING_TIMEOUT),
    ];
    for (command, expected) in cases {
        let answer = client.call_with(command.clone()).await;
        assert_eq!(answer.code, expected, "{:?} {:?}", command.fields, answer.remark);
    }
    let popped = client.call_with(pop("60000", "0")).await;
    let good = handle(&popped, 0);
    let beyond = PopHandle { queue_offset: 9, ..good.clone() };
    assert_eq!(client.call_with(about(code::ACK_MESSAGE, &beyond)).await.code, code::NO_MESSAGE);
    let other = PopHandle { queue_id: 5, ..good.clone() };
    assert_eq!(client.call_with(about(code::ACK_MESSAGE, &other)).await.code, code::MESSAGE_ILLEGAL);
    let mixed =
        about(code::ACK_MESSAGE, &good).with_field("offset", 0).with_field("extraInfo", beyond.text());
    assert_eq!(client.call_with(mixed).await.code, code::MESSAGE_ILLEGAL);
    let nonsense = about(code::ACK_MESSAGE, &good).with_field("extraInfo", "a b c");
    assert_eq!(client.call_with(nonsense).await.code, code::MESSAGE_ILLEGAL);
    assert_eq!(client.call_json(code::BATCH_ACK_MESSAGE, "").await.code, code::NO_MESSAGE);
    let many =
        format!(r#"{{"acks":[{{"c":"g","t":"t","so":0,"q":0,"pt":1,"it":1,"b":"{}"}}]}}"#, "/".repeat(8192));
    assert_eq!(client.call_json(code::BATCH_ACK_MESSAGE, &many).await.code, code::INVALID_PARAMETER);
}

#[tokio::test]
async fn a_consumer_is_told_its_queues_and_how_to_read_them() {
    let broker = Broker::start().await;
    let mut client = broker.with_topic("t", 4).await;
    join(&mut client, "*").await;
    let query = r#"{"topic":"t","consumerGroup":"g","clientId":"c","strategyName":"AVG","messageModel":"CLUSTERING"}"#;
    let assigned = json(&client.call_json(code::QUERY_ASSIGNMENT, query).await);
    assert_eq!(assigned["messageQueueAssignments"].as_array().unwrap().len(), 4);
    assert_eq!(assigned["messageQueueAssignments"][0]["mode"], "PULL");
    let mode = r#"{"topic":"t","consumerGroup":"g","mode":"POP","popShareQueueNum":0}"#;
    assert_eq!(client.call_json(code::SET_MESSAGE_REQUEST_MODE, mode).await.code, code::SUCCESS);
    let assigned = json(&client.call_json(code::QUERY_ASSIGNMENT, query).await);
    assert_eq!(assigned["messageQueueAssignments"][0]["mode"], "POP");
    assert_eq!(assigned["messageQueueAssignments"][0]["messageQueue"]["queueId"], -1);
    let bad = mode.replace("POP\"", "PUSH\"");
    assert_eq!(client.call_json(code::SET_MESSAGE_REQUEST_MODE, &bad).await.code, code::INVALID_PARAMETER);
    send(&mut client, "t", "a", b"1").await;
    let fields =
        [("consumerGroup", "g"), ("topic", "t"), ("queueId", "-1"), ("pollTime", "10000"), ("bornTime", "0")];
    assert_eq!(client.ok(code::NOTIFICATION, &fields).await.field("hasMsg"), Some("true"));
}
