//! Messages that are stored and not yet visible: delayed, transactional, sent back.

use redstart_engine::*;
use redstart_log::Position;

use crate::support::*;

fn broker(message_type: MessageType) -> Broker {
    let mut broker = Broker::default();
    broker.create_topic("t", one_queue(message_type));
    broker.create_group("g", GroupConfig::default());
    broker
}

fn half() -> SendOptions {
    SendOptions { half: Some(HalfOptions::default()), ..SendOptions::default() }
}

#[test]
fn a_delayed_message_is_never_early_and_due_to_the_millisecond() {
    let mut broker = broker(MessageType::Delay);
    let at = broker.now.after(millis(1234));
    broker.send("t", Message { deliver_at: Some(at), ..message("a") });
    assert_eq!(broker.engine.next_deadline(), Some(at));
    broker.pass(millis(1233));
    assert!(broker.ids("g", "t").is_empty());
    broker.pass(millis(1));
    assert_eq!(broker.ids("g", "t"), ["a"]);
    assert_eq!(broker.engine.message_at(&topic("t"), QueueId(0), QueueOffset(0)).unwrap().stored_at, at);
}

#[test]
fn a_delivery_time_in_the_past_means_at_once() {
    let mut broker = broker(MessageType::Delay);
    broker.send("t", Message { deliver_at: Some(Timestamp(1)), ..message("a") });
    assert_eq!(broker.ids("g", "t"), ["a"]);
}

#[test]
fn a_recalled_message_is_not_delivered_and_the_answer_says_what_happened() {
    let mut broker = broker(MessageType::Delay);
    let at = broker.now.after(secs(10));
    let [first, second] = ["a", "b"].map(|id| {
        let receipt = broker.send("t", Message { deliver_at: Some(at), ..message(id) });
        match receipt.visibility {
            Visibility::Delayed(key) => key,
            other => panic!("not delayed: {other:?}"),
        }
    });
    broker.engine.recall(first, broker.now).unwrap();
    broker.commit();
    assert_eq!(broker.engine.recall(first, broker.now), Err(RecallError::Unknown));
    broker.pass(secs(10));
    assert_eq!(broker.ids("g", "t"), ["b"]);
    assert_eq!(broker.engine.recall(second, broker.now), Err(RecallError::Delivered { due: at }));
}

#[test]
fn a_half_message_is_invisible_until_its_commit() {
    let mut broker = broker(MessageType::Transaction);
    let receipt = broker.send_with("t", message("a"), half()).unwrap();
    assert!(broker.ids("g", "t").is_empty());
    broker.engine.end_transaction(receipt.position, true, broker.now).unwrap();
    assert!(broker.ids("g", "t").is_empty(), "not before the commit is durable");
    broker.commit();
    assert_eq!(broker.ids("g", "t"), ["a"]);
    let again = broker.engine.end_transaction(receipt.position, true, broker.now);
    assert_eq!(again, Err(TransactionError::Ended { id: receipt.position, committed: true }));
}

#[test]
fn a_silent_producer_is_asked_and_at_last_the_message_is_rolled_back() {
    let mut broker = broker(MessageType::Transaction);
    let receipt = broker.send_with("t", message("a"), half()).unwrap();
    assert!(broker.pass(millis(5_999)).is_empty());
    for asked in 1..=15 {
        let checks = broker.pass(if asked == 1 { millis(1) } else { secs(30) });
        assert_eq!(
            checks.iter().map(|check| (check.id, check.checks)).collect::<Vec<_>>(),
            [(receipt.position, asked)]
        );
    }
    assert!(broker.pass(secs(30)).is_empty());
    assert!(
        broker.engine.end_transaction(receipt.position, true, broker.now).is_err(),
        "a late commit is refused"
    );
    assert_eq!(broker.engine.deferred().transactions, 0);
    assert!(broker.ids("g", "t").is_empty());
}

#[test]
fn a_producers_own_check_time_is_honoured() {
    let mut broker = broker(MessageType::Transaction);
    let options =
        SendOptions { half: Some(HalfOptions { check_after: Some(secs(5)) }), ..SendOptions::default() };
    broker.send_with("t", message("a"), options).unwrap();
    assert_eq!(broker.pass(secs(5)).len(), 1);
}

#[test]
fn a_message_handed_back_comes_again_through_the_retry_topic_without_its_body_being_written() {
    let mut broker = broker(MessageType::Normal);
    broker.create_topic("%RETRY%g", one_queue(MessageType::Mixed));
    let position = broker.send("t", Message { body: vec![7; 100_000].into(), ..message("a") }).position;
    let before = broker.engine.log().segments().last().unwrap().end;
    let (g, retry) = (group("g"), topic("%RETRY%g"));
    for attempt in 1..=3 {
        let back = SendBack { delay: None, ..stored_back(&g, position, attempt as u16 - 1) };
        broker.engine.send_back(&back, broker.now).unwrap();
        broker.commit();
        broker.pass(secs(600));
        let pull = Pull {
            topic: &retry,
            queue: QueueId(0),
            offset: QueueOffset(attempt - 1),
            max: 32,
            bytes_max: 1 << 20,
            filter: &Filter::All,
        };
        let pulled = broker.engine.pull(&pull).unwrap();
        assert_eq!(pulled.messages.len(), 1);
        assert_eq!(u64::from(pulled.messages[0].attempt), attempt);
    }
    let after = broker.engine.log().segments().last().unwrap().end;
    assert!(after.0 - before.0 < 2_000, "{} bytes for three retries", after.0 - before.0);

    let back = SendBack { delay: None, ..stored_back(&g, position, 3) };
    assert!(matches!(
        broker.engine.send_back(&back, broker.now),
        Err(SendBackError::NoDeadLetterTopic { .. })
    ));
    broker.commit();
    broker.engine.send_back(&back, broker.now).unwrap();
    broker.commit();
    assert_eq!(broker.engine.topic(&topic("%DLQ%g")).unwrap().queues[0].2, QueueOffset(1));
}

#[test]
fn a_body_is_written_once_whatever_becomes_of_the_message() {
    let mut broker = Broker::default();
    broker.create_topic("t", one_queue(MessageType::Mixed));
    broker.create_group("g", GroupConfig::default());
    let start = broker.engine.log().segments().last().unwrap().end;
    let body = vec![7; 1 << 20];
    let at = broker.now.after(secs(10));
    broker.send("t", Message { deliver_at: Some(at), body: body.clone().into(), ..message("delayed") });
    let receipt = broker.send_with("t", Message { body: body.into(), ..message("half") }, half()).unwrap();
    broker.engine.end_transaction(receipt.position, true, broker.now).unwrap();
    broker.pass(secs(10));
    for _ in 0..5 {
        assert_eq!(broker.pop("g", "t", 32, secs(10)).len(), 2);
        broker.pass(secs(10));
    }
    let written = broker.engine.log().segments().last().unwrap().end.0 - start.0;
    assert!(written < (2 << 20) + 10_000, "{written} bytes for two bodies of 1 MiB");
}

#[test]
fn a_dedup_key_gets_the_first_result_within_its_window_and_is_free_after_it() {
    let mut broker = Broker::default();
    let config = TopicConfig { dedup_window: Some(secs(60)), ..one_queue(MessageType::Normal) };
    broker.create_topic("t", config);
    broker.create_group("g", GroupConfig::default());
    let keyed = |id: &str| Message { properties: vec![(DEDUP_KEY.into(), "order-1".into())], ..message(id) };
    let first = broker.send("t", keyed("a"));
    let second = broker.send("t", keyed("b"));
    assert_eq!((second.position, second.visibility), (first.position, first.visibility));
    // Two at once, before either is durable.
    broker.pass(secs(60));
    let sent = broker.engine.send(&topic("t"), &[keyed("c")], SendOptions::default(), broker.now).unwrap();
    let Sent::Proposed(ticket) = sent else { panic!("{sent:?}") };
    let sent = broker.engine.send(&topic("t"), &[keyed("d")], SendOptions::default(), broker.now).unwrap();
    assert_eq!(sent, Sent::DuplicateOf(ticket));
    broker.commit();
    assert_eq!(broker.ids("g", "t"), ["a", "c"]);
}

#[test]
fn unknown_transactions_are_refused_not_invented() {
    let mut broker = broker(MessageType::Transaction);
    let id = Position(12345);
    assert_eq!(broker.engine.end_transaction(id, true, broker.now), Err(TransactionError::NotOpen { id }));
}

/// As 4.x clients hand back: they know where the message is stored, and that is all.
fn stored_back(group: &GroupName, position: Position, attempt: u16) -> SendBack<'_> {
    SendBack {
        reason: None,
        group,
        position,
        attempt,
        delay: Some(secs(10)),
        retries_max: Some(3),
        give_up: false,
        properties: vec![("ORIGIN".to_owned(), "o".to_owned())],
    }
}

#[test]
fn a_message_handed_back_by_its_position_comes_again_or_dies_with_its_count() {
    let mut broker = broker(MessageType::Normal);
    broker.create_topic("%RETRY%g", one_queue(MessageType::Mixed));
    broker.create_topic("%DLQ%g", one_queue(MessageType::Mixed));
    let position = broker.send("t", message("a")).position;
    let g = group("g");
    broker.engine.send_back(&stored_back(&g, position, 2), broker.now).unwrap();
    broker.commit();
    broker.pass(secs(10));
    let all = |topic: &TopicName, broker: &Broker| {
        let pull = Pull {
            topic,
            queue: QueueId(0),
            offset: QueueOffset(0),
            max: 32,
            bytes_max: 1 << 20,
            filter: &Filter::All,
        };
        broker.engine.pull(&pull).unwrap().messages
    };
    let retried = all(&topic("%RETRY%g"), &broker);
    assert_eq!(retried.iter().map(|m| (m.attempt, m.position)).collect::<Vec<_>>(), [(3, position)]);

    broker.engine.send_back(&stored_back(&g, position, 3), broker.now).unwrap();
    broker.engine.send_back(&SendBack { give_up: true, ..stored_back(&g, position, 0) }, broker.now).unwrap();
    broker.commit();
    let dead = all(&topic("%DLQ%g"), &broker);
    let letters: Vec<_> =
        dead.iter().map(|m| fetch(&*broker.engine.reader(), m.position, m.size).unwrap()).collect();
    let property = |n: usize, name| letters[n].message().unwrap().property(name).map(str::to_owned);
    assert_eq!(letters.len(), 2);
    assert_eq!(property(0, DLQ_ATTEMPTS).as_deref(), Some("4"));
    assert_eq!(
        (property(0, "ORIGIN").as_deref(), property(0, DLQ_ORIGIN_TOPIC).as_deref()),
        (Some("o"), Some("t"))
    );
    assert_eq!(property(1, DLQ_REASON).as_deref(), Some("given up by the consumer"));
}

#[test]
fn only_what_consumers_have_seen_can_be_handed_back() {
    let mut broker = broker(MessageType::Mixed);
    broker.create_topic("%RETRY%g", one_queue(MessageType::Mixed));
    let visible = broker.send("t", message("a")).position;
    let hidden = broker.send_with("t", message("h"), half()).unwrap().position;
    let at = Some(broker.now.after(secs(60)));
    let delayed = broker.send("t", Message { deliver_at: at, ..message("d") }).position;
    let g = group("g");
    for position in [hidden, delayed, Position(visible.0 + 1), Position(u64::MAX >> 1)] {
        let refused = broker.engine.send_back(&stored_back(&g, position, 0), broker.now);
        assert!(matches!(refused, Err(SendBackError::UnknownPosition { .. })), "{position}");
    }
    broker.pass(secs(60));
    assert!(broker.engine.send_back(&stored_back(&g, delayed, 0), broker.now).is_ok(), "it is out now");
}
