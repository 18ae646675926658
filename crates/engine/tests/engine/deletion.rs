//! What happens to requests for a topic or a group whose deletion is under way.

use redstart_engine::*;
use redstart_log::Position;

use crate::support::*;

fn broker(message_type: MessageType) -> Broker {
    let mut broker = Broker::default();
    broker.create_topic("t", one_queue(message_type));
    broker.create_group("g", GroupConfig { retries_max: 0, ..GroupConfig::default() });
    broker
}

fn back(group: &GroupName, position: Position, attempt: u16) -> SendBack<'_> {
    SendBack {
        reason: None,
        group,
        position,
        attempt,
        delay: Some(secs(1)),
        retries_max: Some(3),
        give_up: false,
        properties: Vec::new(),
    }
}

#[test]
fn a_send_to_a_topic_under_deletion_is_refused_and_one_before_it_is_stored() {
    let mut broker = broker(MessageType::Normal);
    let before = broker.engine.send(&topic("t"), &[message("a")], SendOptions::default(), broker.now);
    let Ok(Sent::Proposed(ticket)) = before else { panic!("{before:?}") };
    broker.engine.delete_topic(&topic("t")).unwrap();
    let after = broker.engine.send(&topic("t"), &[message("b")], SendOptions::default(), broker.now);
    assert_eq!(after, Err(SendError::Deleting { topic: topic("t") }));
    let outcomes = broker.commit();
    assert!(matches!(outcomes[0], (found, Outcome::Stored(_)) if found == ticket), "{outcomes:?}");
    assert!(broker.engine.topic(&topic("t")).is_none());
}

#[test]
fn a_commit_is_refused_when_the_topic_goes_or_is_gone() {
    let mut broker = broker(MessageType::Transaction);
    let half = SendOptions { half: Some(HalfOptions::default()), ..SendOptions::default() };
    let id = broker.send_with("t", message("a"), half).unwrap().position;
    broker.engine.delete_topic(&topic("t")).unwrap();
    let refused = Err(TransactionError::TopicGone { id });
    assert_eq!(broker.engine.end_transaction(id, true, broker.now), refused);
    broker.commit();
    assert_eq!(broker.engine.end_transaction(id, true, broker.now), refused);
    broker.commit();
    assert_eq!(broker.engine.deferred().transactions, 0, "no producer is asked about it any more");
}

#[test]
fn a_message_is_not_handed_back_to_a_retry_topic_or_a_group_that_goes() {
    let mut broker = broker(MessageType::Normal);
    broker.create_topic("%RETRY%g", one_queue(MessageType::Mixed));
    let position = broker.send("t", message("a")).position;
    let g = group("g");
    broker.engine.delete_topic(&topic("%RETRY%g")).unwrap();
    let refused = broker.engine.send_back(&back(&g, position, 0), broker.now);
    assert!(matches!(refused, Err(SendBackError::NoRetryTopic { .. })), "{refused:?}");
    broker.commit();
    broker.engine.delete_group(&g).unwrap();
    let refused = broker.engine.send_back(&back(&g, position, 0), broker.now);
    assert!(matches!(refused, Err(SendBackError::UnknownGroup { .. })), "{refused:?}");
    let refused = broker.engine.reset(&g, &topic("t"), None, ResetTo::Latest);
    assert!(matches!(refused, Err(OffsetError::UnknownGroup { .. })), "{refused:?}");
}

#[test]
fn a_dead_letter_waits_for_the_deletion_of_its_topic_and_has_it_made_anew() {
    let mut broker = broker(MessageType::Normal);
    broker.create_topic("%DLQ%g", one_queue(MessageType::Mixed));
    broker.send("t", message("a"));
    assert_eq!(broker.ids("g", "t"), ["a"]);
    let old = broker.engine.topic_id(&topic("%DLQ%g")).unwrap();
    broker.engine.delete_topic(&topic("%DLQ%g")).unwrap();
    broker.pass(secs(60)); // The deletion is durable after this, and the message is not lost with the topic.
    broker.pass(secs(1));
    broker.pass(secs(1));
    let view = broker.engine.topic(&topic("%DLQ%g")).unwrap();
    assert_ne!(view.id, old, "the number of a deleted topic is not used again");
    assert_eq!(view.queues[0].2, QueueOffset(1));
}

#[test]
fn a_delayed_message_whose_topic_goes_is_dropped_and_leaves_nothing_behind() {
    let mut broker = broker(MessageType::Delay);
    let at = Some(broker.now.after(secs(10)));
    broker.send("t", Message { deliver_at: at, ..message("a") });
    broker.now = broker.now.after(secs(10));
    broker.engine.delete_topic(&topic("t")).unwrap();
    broker.engine.tick(broker.now);
    broker.commit();
    broker.pass(secs(1));
    assert_eq!(broker.engine.deferred().delayed, 0);
    broker.create_topic("t", one_queue(MessageType::Normal));
    assert!(broker.ids("g", "t").is_empty());
}

fn keyed(id: &str, key: &str) -> Message {
    Message { properties: vec![(DEDUP_KEY.into(), key.into())], ..message(id) }
}

#[test]
fn a_dedup_key_does_not_outlive_the_rollback_or_the_recall_of_its_message() {
    let mut broker = Broker::default();
    let window = TopicConfig { dedup_window: Some(secs(600)), ..one_queue(MessageType::Mixed) };
    broker.create_topic("t", window);
    let half = SendOptions { half: Some(HalfOptions::default()), ..SendOptions::default() };
    let first = broker.send_with("t", keyed("a", "k"), half).unwrap();
    broker.engine.end_transaction(first.position, false, broker.now).unwrap();
    broker.commit();
    let at = Some(broker.now.after(secs(60)));
    let second = broker.send("t", Message { deliver_at: at, ..keyed("b", "k") });
    assert_ne!(second.position, first.position, "the rolled back message has left its key");
    let Visibility::Delayed(key) = second.visibility else { panic!("{second:?}") };
    broker.engine.recall(key, broker.now).unwrap();
    broker.commit();
    let third = broker.send("t", keyed("c", "k"));
    assert!(matches!(third.visibility, Visibility::Visible(_)), "the recalled message has left its key");
    assert_eq!(broker.send("t", keyed("d", "k")).position, third.position, "a visible one keeps it");
}

#[test]
fn a_full_table_of_dedup_keys_has_room_again_when_windows_end() {
    let mut config = Config::default();
    config.limits.dedup_keys_max = 4;
    let mut broker = Broker::new(config);
    let window = |time| TopicConfig { dedup_window: Some(time), ..one_queue(MessageType::Normal) };
    broker.create_topic("long", window(secs(86_400)));
    broker.create_topic("short", window(secs(10)));
    broker.send("long", keyed("l", "l"));
    for n in 0..3 {
        broker.send("short", keyed(&format!("s{n}"), &n.to_string()));
    }
    let full = broker.send_with("short", keyed("x", "x"), SendOptions::default());
    assert!(matches!(full, Err(SendError::TooMany { .. })), "{full:?}");
    // No key is inserted before the next tick, and the oldest key stays for a day.
    broker.now = broker.now.after(secs(10));
    assert!(broker.send_with("short", keyed("x", "x"), SendOptions::default()).is_ok());
    broker.now = broker.now.after(secs(11));
    assert!(broker.engine.next_deadline().is_some_and(|at| at <= broker.now));
    broker.pass(secs(0));
    assert_eq!(broker.engine.deferred().dedup_keys, 1, "a tick forgets what is over");
}

#[test]
fn recalled_messages_are_remembered_only_while_a_segment_lists_them_and_within_the_limit() {
    let mut config = Config::default();
    config.limits.timers_max = 5;
    let mut broker = Broker::new(config);
    broker.create_topic("t", one_queue(MessageType::Delay));
    let delayed = |broker: &mut Broker, n: u32| {
        let at = Some(broker.now.after(secs(86_400)));
        broker.send_with("t", Message { deliver_at: at, ..message(&n.to_string()) }, SendOptions::default())
    };
    for n in 0..5 {
        let Visibility::Delayed(key) = delayed(&mut broker, n).unwrap().visibility else { panic!() };
        broker.engine.recall(key, broker.now).unwrap();
        broker.commit();
    }
    assert_eq!(broker.engine.deferred().delayed, 0);
    let full = delayed(&mut broker, 9);
    assert!(matches!(full, Err(SendError::TooMany { .. })), "{full:?}");
}
