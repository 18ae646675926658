//! Every limit: what is exactly at it is taken, one more is refused by an error that names the limit and the value, and
//! nothing of a refused request is stored.

use std::{collections::BTreeMap, time::Duration};

use redstart_engine::*;

use crate::support::*;

const DAY: u64 = 24 * 3600;

fn broker(message_type: MessageType) -> Broker {
    broker_with(Config::default(), message_type)
}

fn broker_with(config: Config, message_type: MessageType) -> Broker {
    let mut broker = Broker::new(config);
    broker.create_topic("t", one_queue(message_type));
    broker.create_group("g", GroupConfig::default());
    broker
}

fn try_send(broker: &mut Broker, messages: &[Message], options: SendOptions) -> Result<Sent, SendError> {
    let sent = broker.engine.send(&topic("t"), messages, options, broker.now);
    if sent.is_err() {
        assert!(!broker.engine.has_batch(), "nothing of a refused send is proposed");
    }
    broker.commit();
    sent
}

/// The error's text names all of `words`.
fn says(error: &impl std::fmt::Display, words: &[&str]) {
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{text:?} does not name {word:?}");
    }
}

fn sized(property_bytes: usize) -> Message {
    let value = "v".repeat(property_bytes - "name".len() - 2 - "tag".len() - "key".len() - 1);
    Message {
        tag: Some("tag".into()),
        keys: vec!["key".into()],
        properties: vec![("name".into(), value)],
        ..message("a")
    }
}

#[test]
fn a_message_at_its_limit_is_taken_and_one_more_is_refused() {
    let body = |len: usize| Message { body: vec![7; len].into(), ..message("a") };
    let group = |len: usize| Message { group: Some("g".repeat(len)), ..message("a") };
    let id = |len: usize| Message { id: "i".repeat(len), ..message("a") };
    let cases: [(&str, MessageType, Message, Message, [&str; 2]); 4] = [
        ("body", MessageType::Normal, body(4 << 20), body((4 << 20) + 1), ["4194304", "4194305"]),
        ("properties", MessageType::Normal, sized(32_767), sized(32_768), ["32767", "32768"]),
        ("message group", MessageType::Fifo, group(64), group(65), ["64", "65"]),
        ("id", MessageType::Normal, id(255), id(256), ["255", "256"]),
    ];
    for (what, message_type, at, over, words) in cases {
        let mut broker = broker(message_type);
        let error = try_send(&mut broker, &[over], SendOptions::default()).expect_err(what);
        says(&error, &words);
        assert!(broker.ids("g", "t").is_empty(), "{what}");
        try_send(&mut broker, &[at], SendOptions::default()).expect(what);
        assert_eq!(broker.ids("g", "t").len(), 1, "{what}");
    }
}

#[test]
fn a_message_with_text_that_cannot_be_shown_is_refused() {
    let plain = || message("a");
    let property = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
    let cases = [
        ("no id", Message { id: String::new(), ..plain() }),
        ("blank tag", Message { tag: Some(" ".into()), ..plain() }),
        ("bar in the tag", Message { tag: Some("a|b".into()), ..plain() }),
        ("control in the tag", Message { tag: Some("a\u{1}".into()), ..plain() }),
        ("blank key", Message { keys: vec!["ok".into(), "\t".into()], ..plain() }),
        ("empty property name", Message { properties: property("", "v"), ..plain() }),
        ("control in a property name", Message { properties: property("a\nb", "v"), ..plain() }),
        ("control in a property value", Message { properties: property("a", "\u{85}"), ..plain() }),
        ("empty message group", Message { group: Some(String::new()), ..plain() }),
        ("blank message group", Message { group: Some("  ".into()), ..plain() }),
    ];
    for (what, bad) in cases {
        let mut broker = broker(MessageType::Mixed);
        let error = try_send(&mut broker, &[bad], SendOptions::default()).expect_err(what);
        assert!(matches!(error, SendError::Invalid(_)), "{what}: {error}");
    }
    let mut broker = broker(MessageType::Normal);
    let shown =
        Message { tag: Some("Ünïcode 日本".into()), properties: property("名", "値 "), ..plain() };
    try_send(&mut broker, &[shown], SendOptions::default()).unwrap();
}

#[test]
fn a_delay_of_forty_days_is_taken_and_one_millisecond_more_is_refused() {
    let mut broker = broker(MessageType::Delay);
    let at = broker.now.after(secs(40 * DAY));
    let over = Timestamp(at.0 + 1);
    let send = |broker: &mut Broker, at| {
        try_send(broker, &[Message { deliver_at: Some(at), ..message("a") }], SendOptions::default())
    };
    let limit_ms = (40 * DAY * 1000).to_string();
    let value_ms = (40 * DAY * 1000 + 1).to_string();
    says(&send(&mut broker, over).unwrap_err(), &[&limit_ms, &value_ms]);
    assert_eq!(broker.engine.deferred().delayed, 0);
    send(&mut broker, at).unwrap();
    assert_eq!(broker.engine.deferred().delayed, 1);
}

#[test]
fn a_batch_is_bounded_in_number_and_bytes_and_has_one_type_that_is_stored_at_once() {
    let many = |count: usize, bytes: usize| -> Vec<Message> {
        (0..count).map(|n| Message { body: vec![1; bytes].into(), ..message(&format!("m{n}")) }).collect()
    };
    let later = |message: Message| Message { deliver_at: Some(Timestamp(u64::MAX)), ..message };
    let fifo = |message: Message| Message { group: Some("g".into()), ..message };
    let half = SendOptions { half: Some(HalfOptions::default()), ..SendOptions::default() };
    let plain = SendOptions::default();
    let refused: [(&str, Vec<Message>, SendOptions, &[&str]); 6] = [
        ("none", Vec::new(), plain, &["0", "4096"]),
        ("too many", many(4097, 1), plain, &["4097", "4096"]),
        ("too large", many(2, (2 << 20) + 1), plain, &["4194306", "4194304"]),
        ("mixed", vec![message("a"), fifo(message("b"))], plain, &["NORMAL", "FIFO", "1"]),
        ("delayed", vec![later(message("a")), later(message("b"))], plain, &["DELAY"]),
        ("half", vec![message("a"), message("b")], half, &["TRANSACTION"]),
    ];
    for (what, messages, options, words) in refused {
        let mut broker = broker(MessageType::Mixed);
        says(&try_send(&mut broker, &messages, options).expect_err(what), words);
        assert!(broker.ids("g", "t").is_empty(), "{what}: all or none");
    }
    for taken in [many(4096, 1), many(2, 2 << 20)] {
        let mut broker = broker(MessageType::Normal);
        try_send(&mut broker, &taken, SendOptions::default()).unwrap();
        let (_, end) = broker.engine.offset_range(&topic("t"), QueueId(0)).unwrap();
        assert_eq!(end.0 as usize, taken.len());
    }
}

#[test]
fn a_batch_cannot_carry_dedup_keys_where_they_count() {
    let keyed = |id: &str| Message { properties: vec![(DEDUP_KEY.into(), "k".into())], ..message(id) };
    for (window, taken) in [(None, true), (Some(secs(60)), false)] {
        let mut broker = Broker::default();
        broker.create_topic("t", TopicConfig { dedup_window: window, ..one_queue(MessageType::Normal) });
        let sent = try_send(&mut broker, &[keyed("a"), keyed("b")], SendOptions::default());
        assert_eq!(sent.is_ok(), taken, "{sent:?}");
    }
}

#[test]
fn a_type_mismatch_names_both_types_and_stores_nothing() {
    use MessageType::{Delay, Fifo, Mixed, Normal, Priority, Transaction};
    let of = |kind: MessageType| match kind {
        Fifo => Message { group: Some("g".into()), ..message("a") },
        Delay => Message { deliver_at: Some(Timestamp(1)), ..message("a") },
        Priority => Message { priority: Some(1), ..message("a") },
        _ => message("a"),
    };
    let kinds = [Normal, Fifo, Delay, Transaction, Priority];
    for topic_type in [Normal, Fifo, Delay, Transaction, Mixed, Priority] {
        for kind in kinds {
            let taken = match topic_type {
                Mixed => kind != Priority,
                Priority => matches!(kind, Priority | Normal),
                _ => kind == topic_type,
            };
            let half = (kind == Transaction).then(HalfOptions::default);
            let mut broker = broker(topic_type);
            let sent = try_send(&mut broker, &[of(kind)], SendOptions { half, ..SendOptions::default() });
            match sent {
                Ok(_) => assert!(taken, "{kind} in {topic_type}"),
                Err(error) => {
                    assert!(!taken, "{kind} in {topic_type}: {error}");
                    says(&error, &[&kind.to_string(), &topic_type.to_string(), "t"]);
                }
            }
        }
    }
}

#[test]
fn topic_settings_are_bounded() {
    let attributes = |bytes: usize| BTreeMap::from([("k".to_owned(), "v".repeat(bytes - 1))]);
    let queues =
        |read_queues, write_queues| TopicConfig { read_queues, write_queues, ..TopicConfig::default() };
    let window = |time| TopicConfig { dedup_window: Some(time), ..TopicConfig::default() };
    let with = |bytes| TopicConfig { attributes: attributes(bytes), ..TopicConfig::default() };
    let limit_ms = (15 * DAY * 1000).to_string();
    let over_ms = (15 * DAY * 1000 + 1).to_string();
    let cases: [(TopicConfig, TopicConfig, [&str; 2]); 5] = [
        (queues(1, 1), queues(0, 1), ["read queues is 0", "1 to 1024"]),
        (queues(1, 1), queues(1, 0), ["write queues is 0", "1 to 1024"]),
        (queues(1024, 1024), queues(1024, 1025), ["1025", "1024"]),
        (window(secs(15 * DAY)), window(secs(15 * DAY) + millis(1)), [&over_ms, &limit_ms]),
        (with(16 << 10), with((16 << 10) + 1), ["16385", "16384"]),
    ];
    for (at, over, words) in cases {
        let mut broker = Broker::default();
        says(&broker.engine.put_topic(&topic("new"), over).unwrap_err(), &words);
        broker.commit();
        assert_eq!(broker.engine.topic(&topic("new")), None);
        broker.create_topic("new", at.clone());
        assert_eq!(broker.engine.topic(&topic("new")).unwrap().config, at);
    }
}

#[test]
fn group_settings_are_bounded() {
    let steps = |count| RetryPolicy::Ladder(vec![secs(1); count]);
    let with = |retries_max, retry| GroupConfig { retries_max, retry, ..GroupConfig::default() };
    let attributes = |bytes: usize| GroupConfig {
        attributes: BTreeMap::from([("k".to_owned(), "v".repeat(bytes - 1))]),
        ..GroupConfig::default()
    };
    let cases: [(GroupConfig, GroupConfig, [&str; 2]); 4] = [
        (with(1000, steps(1)), with(1001, steps(1)), ["1001", "1000"]),
        (with(1, steps(64)), with(1, steps(65)), ["65", "64"]),
        (with(1, steps(1)), with(1, steps(0)), ["0 steps", "1 to 64"]),
        (attributes(16 << 10), attributes((16 << 10) + 1), ["16385", "16384"]),
    ];
    for (at, over, words) in cases {
        let mut broker = Broker::default();
        says(&broker.engine.put_group(&group("new"), over).unwrap_err(), &words);
        broker.commit();
        assert_eq!(broker.engine.group(&group("new")), None);
        broker.create_group("new", at.clone());
        assert_eq!(broker.engine.group(&group("new")).unwrap().config, at);
    }
}

#[test]
fn names_are_bounded_and_some_are_the_brokers_own() {
    says(&TopicName::new(&"t".repeat(128)).unwrap_err(), &["128", "127"]);
    says(&GroupName::new(&"g".repeat(121)).unwrap_err(), &["121", "120"]);
    says(&TopicName::new("a/b").unwrap_err(), &["a/b", "'/'"]);
    for name in ["TBW102", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_x", "%RETRY%g", "%DLQ%g"] {
        says(&topic(name).not_reserved().unwrap_err(), &[name, "reserved"]);
    }
    for name in ["DEFAULT_CONSUMER", "CID_ONSAPI_OWNER", "CID_RMQ_SYS_x", "CID_HOUSEKEEPING"] {
        says(&group(name).not_reserved().unwrap_err(), &[name, "reserved"]);
    }
    topic(&"t".repeat(127)).not_reserved().unwrap();
    group(&"g".repeat(120)).not_reserved().unwrap();
}

#[test]
fn there_are_only_so_many_topics_and_groups() {
    let limits = Limits { topics_max: 2, groups_max: 2, ..Limits::default() };
    let mut broker = broker_with(Config { limits, ..Config::default() }, MessageType::Normal);
    broker.create_topic("t2", TopicConfig::default());
    broker.create_group("g2", GroupConfig::default());
    let error = broker.engine.put_topic(&topic("t3"), TopicConfig::default()).unwrap_err();
    says(&error, &["topics", "2"]);
    let error = broker.engine.put_group(&group("g3"), GroupConfig::default()).unwrap_err();
    says(&error, &["groups", "2"]);
    broker.create_topic("t2", one_queue(MessageType::Fifo));
    broker.create_group("g2", GroupConfig::ordered());
}

fn pop_of(
    invisible: Duration,
    max: usize,
    queue: Option<u32>,
    broker: &mut Broker,
) -> Result<Popped, PopError> {
    pop_from("g", "t", invisible, max, queue, broker)
}

fn pop_from(
    by: &str,
    from: &str,
    invisible: Duration,
    max: usize,
    queue: Option<u32>,
    broker: &mut Broker,
) -> Result<Popped, PopError> {
    let (by, from) = (group(by), topic(from));
    let pop = Pop {
        group: &by,
        topic: &from,
        queue: queue.map(QueueId),
        max,
        invisible,
        filter: &Filter::All,
        attempt: None,
        client: "test",
        start: Start::Earliest,
        one_per_group: false,
        in_order: false,
    };
    broker.engine.pop(&pop, broker.now)
}

#[test]
fn a_receive_is_bounded_in_number_and_invisible_time() {
    let mut broker = broker(MessageType::Normal);
    for n in 0..40 {
        broker.send("t", message(&format!("m{n}")));
    }
    let hours = secs(12 * 3600);
    let over_ms = (12 * 3600 * 1000 + 1).to_string();
    says(&pop_of(hours, 0, None, &mut broker).unwrap_err(), &["0", "32"]);
    says(&pop_of(hours, 33, None, &mut broker).unwrap_err(), &["33", "32"]);
    says(&pop_of(hours + millis(1), 1, None, &mut broker).unwrap_err(), &[&over_ms, "43200000"]);
    says(&pop_of(hours, 1, Some(1), &mut broker).unwrap_err(), &["queue 1", "1 read queues"]);
    let popped = pop_of(hours, 32, Some(0), &mut broker).unwrap();
    assert_eq!((popped.deliveries.len(), popped.visible_at), (32, broker.now.after(hours)));

    let receipt = popped.deliveries[0].receipt;
    for refused in [
        broker.engine.change_invisible(receipt, hours + millis(1), broker.now).unwrap_err(),
        broker.engine.renew(receipt, hours + millis(1), broker.now).unwrap_err(),
    ] {
        says(&refused, &[&over_ms, "43200000"]);
    }
    broker.engine.renew(receipt, hours, broker.now).unwrap();
    broker.engine.change_invisible(receipt, hours, broker.now).unwrap();
}

#[test]
fn permissions_are_enforced_for_sends_and_for_every_way_of_reading() {
    for (bits, writes, reads) in [(6, true, true), (4, false, true), (2, true, false), (0, false, false)] {
        let mut broker = broker(MessageType::Normal);
        let permission = Permission::from_bits(bits);
        broker.create_topic("t", TopicConfig { permission, ..one_queue(MessageType::Normal) });
        let named = format!("permission {bits}");
        let check = |result: Result<(), String>, allowed: bool| match result {
            Ok(()) => assert!(allowed, "{bits}"),
            Err(text) => assert!(!allowed && text.contains(&named), "{bits}: {text}"),
        };
        let sent = try_send(&mut broker, &[message("a")], SendOptions::default());
        check(sent.map(|_| ()).map_err(|error| error.to_string()), writes);
        let popped = pop_of(secs(10), 1, None, &mut broker);
        check(popped.map(|_| ()).map_err(|error| error.to_string()), reads);
        let t = topic("t");
        let (queue, offset, max) = (QueueId(0), QueueOffset(0), 1);
        let pull = Pull { topic: &t, queue, offset, max, bytes_max: 1, filter: &Filter::All };
        check(broker.engine.pull(&pull).map(|_| ()).map_err(|error| error.to_string()), reads);
    }
}

#[test]
fn what_does_not_exist_is_refused_by_name() {
    let mut broker = broker(MessageType::Normal);
    let (nobody, nowhere) = (group("nobody"), topic("nowhere"));
    let zero = (QueueId(0), QueueOffset(0));
    let unknown_queue = SendOptions { queue: Some(QueueId(1)), ..SendOptions::default() };
    let error =
        broker.engine.send(&nowhere, &[message("a")], SendOptions::default(), broker.now).unwrap_err();
    says(&error, &["nowhere"]);
    says(&try_send(&mut broker, &[message("a")], unknown_queue).unwrap_err(), &["queue 1", "1 write queues"]);
    says(&pop_from("nobody", "t", secs(1), 1, None, &mut broker).unwrap_err(), &["nobody"]);
    says(&pop_from("g", "nowhere", secs(1), 1, None, &mut broker).unwrap_err(), &["nowhere"]);
    let engine = &mut broker.engine;
    says(&engine.commit_offset(&nobody, &topic("t"), zero.0, zero.1).unwrap_err(), &["nobody"]);
    says(&engine.commit_offset(&group("g"), &nowhere, zero.0, zero.1).unwrap_err(), &["nowhere"]);
    says(&engine.reset(&nobody, &topic("t"), None, ResetTo::Latest).unwrap_err(), &["nobody"]);
    says(&engine.reset(&group("g"), &nowhere, None, ResetTo::Latest).unwrap_err(), &["nowhere"]);
    says(&engine.progress(&nobody, &topic("t")).unwrap_err(), &["nobody"]);
    says(&engine.message_at(&topic("t"), zero.0, zero.1).unwrap_err(), &["t", "queue 0", "offset 0"]);
    says(&engine.key_query(&nowhere, "k", Timestamp(0), Timestamp::MAX, 1).unwrap_err(), &["nowhere"]);
    says(&engine.delete_topic(&nowhere).unwrap_err(), &["nowhere"]);
    says(&engine.delete_group(&nobody).unwrap_err(), &["nobody"]);
    assert!(!engine.has_batch(), "nothing was recorded");
}

#[test]
fn a_disabled_group_gets_nothing() {
    let mut broker = broker(MessageType::Normal);
    broker.create_group("g", GroupConfig { enabled: false, ..GroupConfig::default() });
    says(&pop_of(secs(1), 1, None, &mut broker).unwrap_err(), &["g", "disabled"]);
}

#[test]
fn what_is_held_is_bounded_by_kind_and_other_traffic_goes_on() {
    let limits = Limits { timers_max: 1, transactions_open_max: 1, dedup_keys_max: 1, ..Limits::default() };
    let mut broker = Broker::new(Config { limits, ..Config::default() });
    broker.create_topic("t", TopicConfig { dedup_window: Some(secs(60)), ..one_queue(MessageType::Mixed) });
    let later = broker.now.after(secs(60));
    let half = SendOptions { half: Some(HalfOptions::default()), ..SendOptions::default() };
    let keyed = |n: u32| vec![(DEDUP_KEY.to_owned(), n.to_string())];
    let cases = |n: u32| {
        [
            ("delayed messages", Message { deliver_at: Some(later), ..message("a") }, SendOptions::default()),
            ("open transactions", message("a"), half),
            ("dedup keys", Message { properties: keyed(n), ..message("a") }, SendOptions::default()),
        ]
    };
    for (_, message, options) in cases(1) {
        try_send(&mut broker, &[message], options).unwrap();
    }
    for (what, message, options) in cases(2) {
        says(
            &try_send(&mut broker, &[message], options).unwrap_err(),
            &[what, "1 are held", "the limit is 1"],
        );
    }
    try_send(&mut broker, &[message("other traffic")], SendOptions::default()).unwrap();
}

#[test]
fn a_disk_that_is_nearly_full_refuses_to_store() {
    let mut broker = broker(MessageType::Normal);
    let usage = |free| redstart_log::Usage { total: 1000, free };
    broker.engine.set_usage(usage(100));
    says(&try_send(&mut broker, &[message("a")], SendOptions::default()).unwrap_err(), &["90 %"]);
    broker.engine.set_usage(usage(101));
    try_send(&mut broker, &[message("a")], SendOptions::default()).unwrap();
}

#[test]
fn in_flight_and_waiting_messages_are_bounded_and_nothing_is_lost() {
    let limits = Limits { flights_max: 2, blocked_max: 1, scan_entries_max: 3, ..Limits::default() };
    for (ordered, message_type) in [(false, MessageType::Normal), (true, MessageType::Fifo)] {
        let mut broker = broker_with(Config { limits: limits.clone(), ..Config::default() }, message_type);
        broker.create_group("g", GroupConfig { ordered, ..GroupConfig::default() });
        let in_group = |n: usize| Message {
            group: ordered.then(|| ["a", "a", "b", "c"][n % 4].to_owned()),
            ..message(&format!("m{n}"))
        };
        for n in 0..12 {
            broker.send("t", in_group(n));
        }
        let mut seen = Vec::new();
        for _ in 0..100 {
            let got = broker.pop("g", "t", 32, secs(60));
            let progress = broker.engine.progress(&group("g"), &topic("t")).unwrap();
            assert!(progress[0].in_flight <= 2, "{} in flight", progress[0].in_flight);
            got.iter().for_each(|got| broker.ack(got));
            seen.extend(got.into_iter().map(|got| got.id));
        }
        seen.sort_by_key(|id| id[1..].parse::<usize>().unwrap());
        assert_eq!(seen, (0..12).map(|n| format!("m{n}")).collect::<Vec<_>>(), "ordered: {ordered}");
    }
}

#[test]
fn a_selective_filter_reads_only_so_much_at_a_time() {
    let limits = Limits { scan_reads_max: 5, ..Limits::default() };
    let mut broker = broker_with(Config { limits, ..Config::default() }, MessageType::Normal);
    for n in 0..12 {
        let tag = Some(if n == 11 { "yes" } else { "no" }.to_owned());
        broker.send("t", Message { tag, ..message(&format!("m{n}")) });
    }
    let (g, t, filter) = (group("g"), topic("t"), Filter::sql("TAGS = 'yes'").unwrap());
    let pop = Pop {
        group: &g,
        topic: &t,
        queue: None,
        max: 1,
        invisible: secs(10),
        filter: &filter,
        attempt: None,
        client: "test",
        start: Start::Earliest,
        one_per_group: false,
        in_order: false,
    };
    let mut found = Vec::new();
    for round in 0..3 {
        let popped = broker.engine.pop(&pop, broker.now).unwrap();
        assert_eq!(popped.more, round < 2, "asked to come back while the search was cut short");
        found.push(popped.deliveries.len());
    }
    assert_eq!(found, [0, 0, 1]);
}
