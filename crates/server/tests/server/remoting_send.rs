//! Producers over Remoting: what is stored, what is answered, what is refused.

use std::time::Duration;

use redstart_wire::remoting::{
    BatchEntry, Command, StoredMessage, code, encode_properties, flag, read_offset_message_id,
};

use crate::remoting_support::{Broker, Client, create_topic, json, messages, producer, properties, request};

pub fn send_request(topic: &str, queue: &str, properties: &[(&str, &str)], body: &'static [u8]) -> Command {
    let properties = encode_properties(properties.iter().copied());
    let fields = [
        ("a", "p"),
        ("b", topic),
        ("c", "TBW102"),
        ("d", "4"),
        ("e", queue),
        ("f", "0"),
        ("g", "1700000000000"),
        ("h", "5"),
        ("i", &properties),
    ];
    Command { body: body.into(), ..request(code::SEND_MESSAGE_V2, &fields) }
}

async fn send(client: &mut Client, topic: &str, properties: &[(&str, &str)]) -> Command {
    client.call_with(send_request(topic, "0", properties, b"hello")).await
}

/// What lies in a queue, by a pull that carries its own subscription.
async fn pull(client: &mut Client, topic: &str, queue: &str, offset: &str, wait: &str) -> Command {
    let fields = [
        ("consumerGroup", "looker"),
        ("topic", topic),
        ("queueId", queue),
        ("queueOffset", offset),
        ("maxMsgNums", "32"),
        ("sysFlag", "6"),
        ("commitOffset", "0"),
        ("suspendTimeoutMillis", wait),
        ("subVersion", "0"),
        ("subscription", "*"),
    ];
    client.call(code::PULL_MESSAGE, &fields).await
}

async fn stored(client: &mut Client, topic: &str) -> Vec<StoredMessage<'static>> {
    let answer = pull(client, topic, "0", "0", "15000").await;
    assert_eq!(answer.code, code::SUCCESS, "{:?}", answer.remark);
    messages(&answer)
}

#[tokio::test]
async fn a_message_comes_back_as_it_was_sent() {
    let broker = Broker::start().await;
    let mut client = broker.with_topic("t", 1).await;
    let sent =
        send(&mut client, "t", &[("UNIQ_KEY", "ID1"), ("TAGS", "a"), ("KEYS", "k1 k2"), ("x", "y")]).await;
    assert_eq!(sent.code, code::SUCCESS, "{:?}", sent.remark);
    assert_eq!((sent.field("queueId"), sent.field("queueOffset")), (Some("0"), Some("0")));
    assert_eq!((sent.field("transactionId"), sent.field("MSG_REGION")), (Some("ID1"), Some("DefaultRegion")));
    let [message] = &stored(&mut client, "t").await[..] else { panic!("one message") };
    let (host, offset) = read_offset_message_id(sent.field("msgId").unwrap()).unwrap();
    assert_eq!((host, offset), (message.store_host, message.physical_offset));
    assert_eq!(host, broker.address);
    assert_eq!((&*message.topic, &message.body[..], message.flag), ("t", &b"hello"[..], 5));
    assert_eq!((message.born_at, message.reconsume_times), (1_700_000_000_000, 0));
    assert_eq!(message.born_host.ip().to_string(), "127.0.0.1");
    let properties = properties(message);
    for (name, value) in [
        ("UNIQ_KEY", "ID1"),
        ("TAGS", "a"),
        ("KEYS", "k1 k2"),
        ("x", "y"),
        ("MSG_REGION", "DefaultRegion"),
        ("TRACE_ON", "true"),
        ("CLUSTER", "DefaultCluster"),
    ] {
        assert_eq!(properties.get(name).map(String::as_str), Some(value), "{name}");
    }
    let view = client.ok(code::VIEW_MESSAGE_BY_ID, &[("offset", &offset.to_string())]).await;
    assert_eq!(messages(&view)[0], *message);
    for key in ["k1", "k2", "ID1"] {
        let fields = [
            ("topic", "t"),
            ("key", key),
            ("maxNum", "9"),
            ("beginTimestamp", "0"),
            ("endTimestamp", "9999999999999"),
        ];
        let found = client.ok(code::QUERY_MESSAGE, &fields).await;
        assert_eq!(messages(&found)[0].physical_offset, offset, "{key}");
    }
}

#[tokio::test]
async fn bad_sends_are_refused_by_their_code_and_store_nothing() {
    let broker = Broker::start().await;
    let mut client = broker.with_topic("t", 2).await;
    let without = |name: &str| {
        let mut command = send_request("t", "0", &[], b"x");
        command.fields.remove(name);
        command
    };
    let with = |name: &str, value: &str| send_request("t", "0", &[], b"x").with_field(name, value);
    let cases = [
        (without("b"), code::INVALID_PARAMETER, "no topic"),
        (without("e"), code::INVALID_PARAMETER, "no queue"),
        (with("e", "2"), code::INVALID_PARAMETER, "a queue that is not there"),
        (with("e", "x"), code::INVALID_PARAMETER, "no number"),
        (with("b", "unknown"), code::TOPIC_NOT_EXIST, "an unknown topic"),
        (with("b", "a/b"), code::INVALID_PARAMETER, "a bad name"),
        (with("b", "SCHEDULE_TOPIC_XXXX"), code::NO_PERMISSION, "a system topic"),
        (with("b", "%DLQ%g"), code::NO_PERMISSION, "a dead-letter topic"),
        (with("b", "%RETRY%nobody"), code::SUBSCRIPTION_GROUP_NOT_EXIST, "a retry topic of nobody"),
        (send_request("t", "0", &[("TIMER_DELIVER_MS", "x")], b"x"), code::MESSAGE_ILLEGAL, "a bad time"),
        (send_request("t", "0", &[("TIMER_DELAY_SEC", "99999999")], b"x"), code::MESSAGE_ILLEGAL, "too late"),
        (with("m", "true"), code::MESSAGE_ILLEGAL, "a batch that is none"),
        (send_request("t", "0", &[], &[0; (4 << 20) + 1]), code::MESSAGE_ILLEGAL, "a body over 4 MiB"),
    ];
    for (command, expected, what) in cases {
        let answer = client.call_with(command).await;
        assert_eq!(answer.code, expected, "{what}: {:?}", answer.remark);
    }
    for queue in ["0", "1"] {
        assert_eq!(pull(&mut client, "t", queue, "0", "0").await.code, code::PULL_NOT_FOUND);
    }
    let whole = client.call_with(send_request("t", "0", &[], &[7; 4 << 20])).await;
    assert_eq!(whole.code, code::SUCCESS, "exactly 4 MiB");
    assert_eq!(stored(&mut client, "t").await[0].body.len(), 4 << 20);
}

#[tokio::test]
async fn a_batch_is_stored_whole_with_consecutive_offsets() {
    let broker = Broker::start().await;
    let mut client = broker.with_topic("t", 2).await;
    let mut body = Vec::new();
    for id in ["A", "B", "C"] {
        let properties = encode_properties([("UNIQ_KEY", id), ("TAGS", "x")]);
        BatchEntry { flag: 0, properties, body: id.into() }.encode(&mut body);
    }
    let batch = |body: Vec<u8>| Command {
        code: code::SEND_BATCH_MESSAGE,
        body: body.into(),
        ..send_request("t", "0", &[], b"").with_field("m", "true")
    };
    let sent = client.call_with(batch(body.clone())).await;
    assert_eq!(sent.code, code::SUCCESS, "{:?}", sent.remark);
    assert_eq!(sent.field("msgId").unwrap().split(',').count(), 3);
    assert_eq!(sent.field("queueOffset"), Some("0"));
    body.truncate(body.len() - 1);
    assert_eq!(client.call_with(batch(body)).await.code, code::MESSAGE_ILLEGAL);
    assert_eq!(client.call_with(batch(Vec::new())).await.code, code::MESSAGE_ILLEGAL);
    let all = stored(&mut client, "t").await;
    let found: Vec<_> = all.iter().map(|m| (m.queue_offset, properties(m)["UNIQ_KEY"].clone())).collect();
    assert_eq!(found, [(0, "A".to_owned()), (1, "B".to_owned()), (2, "C".to_owned())]);
}

#[tokio::test]
async fn compressed_bodies_are_handed_on_untouched() {
    let broker = Broker::start().await;
    let mut client = broker.with_topic("t", 1).await;
    // A claim that the broker never checks: it inflates nothing.
    let bomb =
        send_request("t", "0", &[], b"no zlib at all").with_field("f", flag::COMPRESSED | 0x300 | 0x30);
    assert_eq!(client.call_with(bomb).await.code, code::SUCCESS);
    let [message] = &stored(&mut client, "t").await[..] else { panic!("one message") };
    assert_eq!(message.system_flag, flag::COMPRESSED | 0x300, "the address bits are the broker's");
    assert_eq!(&message.body[..], b"no zlib at all");
}

#[tokio::test]
async fn types_are_not_checked_unless_a_setting_says_so() {
    let kinds = ["NORMAL", "FIFO", "DELAY", "TRANSACTION"];
    let fitting: [&[(&str, &str)]; 4] = [
        &[],
        &[("__SHARDINGKEY", "g")],
        &[("DELAY", "1")],
        &[("TRAN_MSG", "true"), ("PGROUP", "p"), ("UNIQ_KEY", "0A0A0A0A0A0A0A0A0A0A0A0A0A0A0A0A")],
    ];
    for check in [false, true] {
        let broker = Broker::start_with(|config, _| config.check_types = check).await;
        let mut client = broker.client().await;
        for (n, kind) in kinds.iter().enumerate() {
            create_topic(&mut client, kind, 1, &format!("+message.type={kind}")).await;
            for (m, properties) in fitting.iter().enumerate() {
                let expected = if check && n != m { code::MESSAGE_ILLEGAL } else { code::SUCCESS };
                let answer = send(&mut client, kind, properties).await;
                assert_eq!(answer.code, expected, "{check} {kind} {properties:?} {:?}", answer.remark);
            }
        }
    }
}

#[tokio::test]
async fn a_topic_is_made_by_the_first_send_only_when_that_is_on() {
    let broker = Broker::start_with(|config, _| config.auto_create_topics = true).await;
    let mut client = broker.client().await;
    assert_eq!(send(&mut client, "new", &[]).await.code, code::SUCCESS);
    let route = client.ok(code::GET_ROUTEINFO_BY_TOPIC, &[("topic", "new")]).await;
    assert_eq!(json(&route)["queueDatas"][0]["writeQueueNums"], 4, "as many as the client wanted");
}

#[tokio::test]
async fn delays_are_kept_and_a_timed_message_can_be_recalled() {
    let broker = Broker::start_with(|config, _| config.delay_levels = vec![Duration::from_millis(300)]).await;
    let mut client = broker.with_topic("t", 1).await;
    let level = send(&mut client, "t", &[("DELAY", "1"), ("UNIQ_KEY", "LEVEL")]).await;
    assert_eq!(level.field("recallHandle"), None, "levels cannot be recalled");
    let timed = send(&mut client, "t", &[("TIMER_DELAY_SEC", "600"), ("UNIQ_KEY", "TIMED")]).await;
    let handle = timed.field("recallHandle").unwrap().to_owned();
    let [message] = &stored(&mut client, "t").await[..] else { panic!("one message is due") };
    assert_eq!(
        (&properties(message)["UNIQ_KEY"], &properties(message)["DELAY"]),
        (&"LEVEL".into(), &"1".into())
    );
    let recall = [("topic", "t"), ("recallHandle", &handle)];
    let other = [("topic", "u"), ("recallHandle", &handle)];
    assert_eq!(client.call(code::RECALL_MESSAGE, &other).await.code, code::ILLEGAL_OPERATION);
    let bad = [("topic", "t"), ("recallHandle", "bm9uc2Vuc2U=")];
    assert_eq!(client.call(code::RECALL_MESSAGE, &bad).await.code, code::ILLEGAL_OPERATION);
    assert_eq!(client.ok(code::RECALL_MESSAGE, &recall).await.field("msgId"), Some("TIMED"));
    assert_eq!(client.call(code::RECALL_MESSAGE, &recall).await.code, code::ILLEGAL_OPERATION, "once");
}

/// Clients of Alibaba Cloud name the time of delivery by this property.
#[tokio::test]
async fn a_message_with_a_start_deliver_time_waits_for_it() {
    let broker = Broker::start().await;
    let mut client = broker.with_topic("t", 1).await;
    let future = (std::time::SystemTime::now() + Duration::from_secs(600))
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_millis()
        .to_string();
    let later = send(&mut client, "t", &[("__STARTDELIVERTIME", &future), ("UNIQ_KEY", "LATER")]).await;
    assert!(later.field("recallHandle").is_some(), "it is delayed");
    send(&mut client, "t", &[("__STARTDELIVERTIME", "1"), ("UNIQ_KEY", "PAST")]).await;
    let [message] = &stored(&mut client, "t").await[..] else { panic!("one message is due") };
    assert_eq!(properties(message)["UNIQ_KEY"], "PAST");
}

fn end(sent: &Command, how: &str, group: &str) -> Command {
    let (_, offset) = read_offset_message_id(sent.field("msgId").unwrap()).unwrap();
    let fields = [
        ("producerGroup", group),
        ("tranStateTableOffset", sent.field("queueOffset").unwrap()),
        ("commitLogOffset", &offset.to_string()),
        ("commitOrRollback", how),
        ("msgId", "H"),
    ];
    request(code::END_TRANSACTION, &fields)
}

#[tokio::test]
async fn a_half_message_is_seen_when_its_own_group_commits_it() {
    let broker = Broker::start().await;
    let mut client = broker.with_topic("t", 1).await;
    let half = [("TRAN_MSG", "true"), ("PGROUP", "p"), ("UNIQ_KEY", "H")];
    let (commit, rollback) = (send(&mut client, "t", &half).await, send(&mut client, "t", &half).await);
    assert_eq!(pull(&mut client, "t", "0", "0", "0").await.code, code::PULL_NOT_FOUND);
    assert_eq!(client.call_with(end(&commit, "8", "other")).await.code, code::SYSTEM_ERROR);
    assert_eq!(client.call_with(end(&commit, "0", "p")).await.code, code::SUCCESS, "not known yet");
    assert_eq!(client.call_with(end(&commit, "7", "p")).await.code, code::INVALID_PARAMETER);
    assert_eq!(client.call_with(end(&rollback, "12", "p")).await.code, code::SUCCESS);
    assert_eq!(client.call_with(end(&commit, "8", "p")).await.code, code::SUCCESS);
    assert_eq!(client.call_with(end(&commit, "8", "p")).await.code, code::SUCCESS, "the same again");
    assert_eq!(client.call_with(end(&commit, "12", "p")).await.code, code::SYSTEM_ERROR, "too late");
    let [message] = &stored(&mut client, "t").await[..] else { panic!("one message") };
    assert_eq!(message.system_flag & flag::TRANSACTION, flag::TRANSACTION_COMMIT);
    assert_eq!(properties(message)["TRAN_MSG"], "true");
}

#[tokio::test]
async fn a_producer_is_asked_about_a_transaction_and_its_answer_counts() {
    let broker = Broker::start_with(|_, engine| {
        engine.transactions.first_check_after = Duration::from_millis(50);
        engine.transactions.check_interval = Duration::from_millis(200);
    })
    .await;
    let mut client = broker.with_topic("t", 1).await;
    client.call_json(code::HEART_BEAT, &producer("c", "p")).await;
    let half = [("TRAN_MSG", "true"), ("PGROUP", "p"), ("UNIQ_KEY", "H")];
    assert_eq!(send(&mut client, "t", &half).await.code, code::SUCCESS);
    let asked = client.asked(code::CHECK_TRANSACTION_STATE).await;
    assert!(asked.is_one_way());
    let mut body = asked.body.clone();
    let message = StoredMessage::decode(&mut body).unwrap();
    assert_eq!((&*message.topic, &message.body[..]), ("t", &b"hello"[..]));
    assert_eq!(properties(&message)["PGROUP"], "p");
    let fields = [
        ("producerGroup", "p"),
        ("tranStateTableOffset", asked.field("tranStateTableOffset").unwrap()),
        ("commitLogOffset", asked.field("commitLogOffset").unwrap()),
        ("commitOrRollback", "8"),
        ("fromTransactionCheck", "true"),
        ("msgId", asked.field("msgId").unwrap()),
    ];
    client.send(request(code::END_TRANSACTION, &fields).one_way()).await;
    assert_eq!(stored(&mut client, "t").await.len(), 1);
}

#[tokio::test]
async fn a_reply_is_pushed_to_the_producer_that_asked() {
    let broker = Broker::start().await;
    let (mut asker, mut replier) = (broker.with_topic("t", 1).await, broker.client().await);
    asker.call_json(code::HEART_BEAT, &producer("asker", "p")).await;
    let reply = |to: &str| Command {
        code: code::SEND_REPLY_MESSAGE_V2,
        ..send_request(
            "DefaultCluster_REPLY_TOPIC",
            "0",
            &[("REPLY_TO_CLIENT", to), ("CORRELATION_ID", "7")],
            b"pong",
        )
    };
    let offline = replier.call_with(reply("nobody")).await;
    assert_eq!(offline.code, code::SYSTEM_ERROR);
    let number = replier.send(reply("asker")).await;
    let pushed = asker.asked(code::PUSH_REPLY_MESSAGE_TO_CLIENT).await;
    assert_eq!((&pushed.body[..], pushed.is_one_way()), (&b"pong"[..], false));
    assert!(pushed.field("properties").unwrap().contains("CORRELATION_ID\u{1}7"));
    asker.write(&pushed.answer(code::SUCCESS, None)).await;
    let answer = replier.answer(number).await;
    assert_eq!((answer.code, answer.field("queueOffset")), (code::SUCCESS, Some("1")));
    let kept = stored(&mut replier, "DefaultCluster_REPLY_TOPIC").await;
    assert_eq!(kept.len(), 2, "also the one that nobody was there to take");
    assert_eq!(kept[1].body, "pong");
    let elsewhere = Command { fields: reply("asker").fields, ..reply("asker") }.with_field("b", "nowhere");
    assert_eq!(replier.call_with(elsewhere).await.code, code::TOPIC_NOT_EXIST);
    let route = replier.ok(code::GET_ROUTEINFO_BY_TOPIC, &[("topic", "DefaultCluster_REPLY_TOPIC")]).await;
    assert_eq!(json(&route)["queueDatas"][0]["writeQueueNums"], 1);
}
