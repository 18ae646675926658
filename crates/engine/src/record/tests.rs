//! Every kind of record comes back as it was written, and no bytes can make reading panic.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use proptest::{collection::vec, option, prelude::*};
use redstart_log::{Log, MemoryLog};

use super::*;
use crate::{
    Entry, GroupConfig, GroupId, GroupName, Message, MessageType, Permission, QueueId, QueueKey, QueueOffset,
    RetryPolicy, Timestamp, TopicConfig, TopicId, TopicName, message_ref::MessageRef, pop::FlightKey,
    timer::TimerKey,
};

fn queue() -> impl Strategy<Value = QueueKey> {
    any::<(u32, u32)>().prop_map(|(topic, queue)| QueueKey { topic: TopicId(topic), queue: QueueId(queue) })
}

fn offset() -> impl Strategy<Value = QueueOffset> {
    any::<u64>().prop_map(QueueOffset)
}

fn offsets() -> impl Strategy<Value = Vec<QueueOffset>> {
    vec(offset(), 0..5)
}

fn time() -> impl Strategy<Value = Timestamp> {
    any::<u64>().prop_map(Timestamp)
}

fn position() -> impl Strategy<Value = Position> {
    any::<u64>().prop_map(Position)
}

fn group() -> impl Strategy<Value = GroupId> {
    any::<u32>().prop_map(GroupId)
}

pub(crate) fn entry() -> impl Strategy<Value = Entry> {
    (position(), any::<u32>(), time(), any::<i32>(), any::<u32>(), any::<u16>(), any::<u8>()).prop_map(
        |(position, size, stored_at, tag_hash, group_hash, attempt, priority)| Entry {
            position,
            size,
            stored_at,
            tag_hash,
            group_hash,
            attempt,
            priority,
        },
    )
}

pub(crate) fn message_ref() -> impl Strategy<Value = MessageRef> {
    (queue(), entry()).prop_map(|(queue, entry)| MessageRef::moved(entry, queue, entry.attempt))
}

pub(crate) fn timer_key() -> impl Strategy<Value = TimerKey> {
    (time(), position()).prop_map(|(due, id)| TimerKey { due, id })
}

fn attributes() -> impl Strategy<Value = BTreeMap<String, String>> {
    proptest::collection::btree_map(".{0,8}", ".{0,8}", 0..4)
}

fn millis() -> impl Strategy<Value = Duration> {
    (1..1u64 << 40).prop_map(Duration::from_millis)
}

pub(crate) fn topic_config() -> impl Strategy<Value = TopicConfig> {
    let kinds = vec!["NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED", "PRIORITY"];
    let kind = proptest::sample::select(kinds).prop_map(|name| name.parse::<MessageType>().unwrap());
    (kind, any::<(u32, u32)>(), 0..8u8, option::of(millis()), attributes()).prop_map(
        |(message_type, (read_queues, write_queues), bits, dedup_window, attributes)| TopicConfig {
            message_type,
            read_queues,
            write_queues,
            permission: Permission::from_bits(bits),
            dedup_window,
            attributes,
        },
    )
}

pub(crate) fn group_config() -> impl Strategy<Value = GroupConfig> {
    let retry =
        prop_oneof![
            vec(millis(), 0..5).prop_map(RetryPolicy::Ladder),
            (millis(), millis(), any::<u32>())
                .prop_map(|(initial, max, multiplier)| RetryPolicy::Exponential { initial, max, multiplier }),
        ];
    (any::<(bool, bool, u32)>(), retry, attributes()).prop_map(
        |((enabled, ordered, retries_max), retry, attributes)| GroupConfig {
            enabled,
            ordered,
            retries_max,
            retry,
            attributes,
        },
    )
}

fn decision() -> impl Strategy<Value = Decision> {
    let name = "[a-zA-Z0-9_-]{1,20}";
    let link = (timer_key(), queue(), offset(), entry()).prop_map(|(key, queue, offset, entry)| Link {
        key,
        queue,
        offset,
        entry,
    });
    let end = prop_oneof![
        Just(TransactionEnd::Rollback),
        (queue(), offset(), entry()).prop_map(|(queue, offset, entry)| TransactionEnd::Visible {
            queue,
            offset,
            entry
        }),
        (time(), message_ref()).prop_map(|(due, message)| TransactionEnd::Delayed { due, message }),
    ];
    prop_oneof![
        vec(link, 1..4).prop_map(Decision::Link),
        Just(Decision::Barrier),
        (position(), end).prop_map(|(id, end)| Decision::TransactionEnd { id, end }),
        (any::<u32>(), name, topic_config()).prop_map(|(id, name, config)| Decision::TopicPut {
            id: TopicId(id),
            name: TopicName::new(&name).unwrap(),
            config
        }),
        any::<u32>().prop_map(|id| Decision::TopicDelete { id: TopicId(id) }),
        (group(), name, group_config()).prop_map(|(id, name, config)| Decision::GroupPut {
            id,
            name: GroupName::new(&name).unwrap(),
            config
        }),
        group().prop_map(|id| Decision::GroupDelete { id }),
        timer_key().prop_map(|key| Decision::Recall { key }),
        any::<u64>().prop_map(|segment| Decision::Retire { segment: redstart_log::SegmentId(segment) }),
        // The position of a send-back is its own: it is not written.
        ("[a-z]{0,8}", "[a-z]{0,8}", option::of("\\PC{0,20}"))
            .prop_map(|(namespace, key, value)| Decision::Setting { namespace, key, value }),
        (time(), message_ref(), option::of((group(), queue(), offset()))).prop_map(|(due, message, left)| {
            let left = left.map(|(group, queue, offset)| FlightKey { group, queue, offset });
            Decision::SendBack { due, message, id: Position(0), left }
        }),
    ]
}

fn pop_fact() -> impl Strategy<Value = PopFact> {
    let delivered = (offset(), any::<(u16, u32, u8)>())
        .prop_map(|(offset, (attempt, lock, priority))| Delivered { offset, attempt, lock, priority });
    let blocked = (offset(), any::<u32>()).prop_map(|(offset, lock)| Blocked { offset, lock });
    (
        (group(), queue(), time(), any::<u64>(), ".{0,12}", any::<(bool, u64)>()),
        vec((any::<u8>(), offset()), 0..11),
        vec(delivered, 0..5),
        vec(blocked, 0..5),
    )
        .prop_map(
            |(
                (group, queue, visible_at, attempt_tag, client, (ordered, seq)),
                cursors,
                delivered,
                blocked,
            )| {
                PopFact {
                    group,
                    queue,
                    visible_at,
                    attempt_tag,
                    client,
                    ordered,
                    seq,
                    cursors,
                    delivered,
                    blocked,
                }
            },
        )
}

fn fact() -> impl Strategy<Value = Fact> {
    let reason = prop_oneof![Just(AckReason::Consumed), Just(AckReason::Unreadable)];
    prop_oneof![
        pop_fact().prop_map(Fact::Pop),
        (group(), queue(), reason, offsets()).prop_map(|(group, queue, reason, offsets)| Fact::Ack {
            group,
            queue,
            reason,
            offsets
        }),
        (group(), queue(), offset(), any::<(u64, bool, bool)>(), time()).prop_map(
            |(group, queue, offset, (seq, given_back, uncounted), visible_at)| Fact::Invisible {
                group,
                queue,
                offset,
                seq,
                visible_at,
                given_back,
                uncounted
            }
        ),
        (group(), queue(), offset()).prop_map(|(group, queue, offset)| Fact::Offset { group, queue, offset }),
        (group(), queue(), offset()).prop_map(|(group, queue, offset)| Fact::Reset { group, queue, offset }),
        (position(), any::<u32>(), time()).prop_map(|(id, checks, next)| Fact::Checked { id, checks, next }),
        time().prop_map(|until| Fact::KeysExpired { until }),
        (time(), any::<u32>(), position()).prop_map(|(now, ahead, before)| Fact::TimesMoved {
            now,
            ahead: Duration::from_millis(ahead.into()),
            before,
        }),
        (group(), any::<u32>(), offsets()).prop_map(|(group, topic, offsets)| Fact::Subscribed {
            group,
            topic: TopicId(topic),
            offsets
        }),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    (
        (".{0,12}", option::of(".{0,12}"), vec(".{0,8}", 0..4), option::of(".{0,12}")),
        (option::of(time()), option::of(any::<u8>()), time(), ".{0,12}", any::<(i32, i32)>()),
        vec((".{0,8}", ".{0,8}"), 0..4),
        vec(any::<u8>(), 0..200),
    )
        .prop_map(
            |(
                (id, tag, keys, group),
                (deliver_at, priority, born_at, born_host, flags),
                properties,
                body,
            )| {
                Message {
                    id,
                    tag,
                    keys,
                    group,
                    deliver_at,
                    priority,
                    born_at,
                    born_host,
                    flag: flags.0,
                    system_flag: flags.1,
                    properties,
                    body: body.into(),
                }
            },
        )
}

fn cause() -> impl Strategy<Value = Cause> {
    prop_oneof![
        Just(Cause::Send),
        (group(), queue(), offset(), any::<bool>()).prop_map(|(group, queue, offset, in_flight)| {
            Cause::DeadLetter { flight: FlightKey { group, queue, offset }, in_flight }
        }),
        position().prop_map(|id| Cause::Relocated { id }),
    ]
}

fn placement() -> impl Strategy<Value = Placement> {
    prop_oneof![
        offset().prop_map(Placement::Visible),
        Just(Placement::Delayed),
        millis().prop_map(|check_after| Placement::Half { check_after }),
    ]
}

/// Records of a payload, each with its text: what a later comparison needs.
fn shown(payload: &[u8]) -> Vec<String> {
    decode_payload(payload, Position(0)).map(|found| format!("{:?}", found.unwrap().record)).collect()
}

#[test]
fn records_of_the_replicated_log_are_skipped() {
    let mut payload = Vec::new();
    put_record(&mut payload, REPLICATION, |out| out.extend_from_slice(b"members"));
    assert!(shown(&payload).is_empty());
    let (at, _) = Decision::TopicDelete { id: TopicId(1) }.put(&mut payload);
    put_record(&mut payload, REPLICATION, |_| {});
    let found: Vec<_> = decode_payload(&payload, Position(0)).map(|found| found.unwrap().at).collect();
    assert_eq!(found, [at]);
    payload.truncate(payload.len() - 1);
    assert_eq!(decode_payload(&payload, Position(0)).filter(Result::is_err).count(), 1);
}

#[test]
fn records_are_dense_by_where_they_are_not_by_their_order() {
    let places = |step: u64| (0..MANY as u64).map(|n| (Position(n * step), 100)).collect::<Vec<_>>();
    let near = places(SPREAD_MAX);
    assert!(is_dense(&near) && !is_dense(&near[1..]), "few are not");
    let mut far = places(SPREAD_MAX * 2);
    assert!(!is_dense(&far));
    far.reverse();
    assert!(!is_dense(&far));
    assert!(!is_dense(&[]));
}

/// A log that holds nothing but `payload`, and where that begins.
fn logged(payload: &[u8]) -> (Arc<dyn Reader>, Position) {
    let mut log = MemoryLog::new();
    let position = log.append(1, payload).unwrap().payload;
    (log.reader(), position)
}

proptest! {
    #[test]
    fn decisions_and_facts_come_back_in_the_order_they_were_written(
        decisions in vec(decision(), 0..4),
        facts in vec(fact(), 0..4),
    ) {
        let mut payload = Vec::new();
        let mut expected = Vec::new();
        for fact in facts {
            fact.put(&mut payload);
            expected.push(format!("{:?}", Record::Fact(fact)));
        }
        for decision in decisions {
            let (at, _) = decision.put(&mut payload);
            let placed = match decision {
                Decision::SendBack { due, message, left, .. } => {
                    Decision::SendBack { due, message, id: Position(at as u64), left }
                }
                other => other,
            };
            expected.push(format!("{:?}", Record::Decision(placed)));
        }
        prop_assert_eq!(shown(&payload), expected);
    }

    #[test]
    fn a_message_comes_back_word_for_word_and_as_it_was_described(
        message in message(), cause in cause(), queue in queue(), placement in placement(), at in time(),
    ) {
        let mut payload = vec![0; 0];
        Decision::TopicDelete { id: TopicId(1) }.put(&mut payload);
        let stored = put_message(&mut payload, &message, cause, queue, placement, at);
        let found = decode_payload(&payload, Position(0)).nth(1).unwrap().unwrap();
        match found.record {
            Record::Decision(Decision::Stored(found)) => prop_assert_eq!(&found, &stored),
            other => prop_assert!(false, "{:?}", other),
        }
        let (reader, start) = logged(&payload);
        let position = Position(start.0 + stored.position.0);
        for fetched in [fetch(&*reader, position, stored.size), fetch_at(&*reader, position, stored.size)] {
            let fetched = fetched.unwrap();
            prop_assert_eq!(fetched.message().unwrap().to_message(), message.clone());
            prop_assert_eq!(fetched.body().unwrap(), message.body.clone());
        }
        prop_assert!(fetch_at(&*reader, position, stored.size - 1).is_err(), "larger than allowed");
    }

    /// Whether they are read together or not: order, damage and places that do not exist are each message's own.
    #[test]
    fn messages_fetched_together_are_those_fetched_one_by_one(
        messages in vec((message(), 0..3_usize), 1..6), wanted in vec(any::<prop::sample::Index>(), 0..12),
        damaged in option::of(any::<prop::sample::Index>()), beyond: bool,
    ) {
        let mut payload = Vec::new();
        let mut places = Vec::new();
        for (message, gaps) in &messages {
            let queue = QueueKey::default();
            let stored = put_message(&mut payload, message, Cause::Send, queue, Placement::Delayed, Timestamp(1));
            places.push((stored.position, stored.size));
            for _ in 0..*gaps {
                Decision::TopicDelete { id: TopicId(1) }.put(&mut payload);
            }
        }
        if let Some(at) = damaged {
            let at = at.index(payload.len());
            payload[at] ^= 1;
        }
        let (reader, start) = logged(&payload);
        let there = |(position, size): (Position, u32)| (Position(start.0 + position.0), size);
        places = places.into_iter().map(there).collect();
        let mut asked: Vec<_> = wanted.iter().map(|at| places[at.index(places.len())]).collect();
        asked.extend(&places);
        if beyond {
            asked.push((Position(start.0 + payload.len() as u64), 100));
        }
        let mut together = Vec::new();
        fetch_each(&*reader, &asked, |n, fetched| {
            assert_eq!(n, together.len());
            together.push(fetched.map(|fetched| (fetched.position(), fetched.record.to_vec())).ok());
        });
        let alone = asked.iter().map(|(position, size)| {
            fetch(&*reader, *position, *size).map(|fetched| (fetched.position(), fetched.record.to_vec())).ok()
        });
        prop_assert_eq!(together, alone.collect::<Vec<_>>());
    }

    #[test]
    fn a_damaged_message_is_never_served(message in message(), bit in any::<prop::sample::Index>()) {
        let mut payload = Vec::new();
        let queue = QueueKey::default();
        let stored = put_message(&mut payload, &message, Cause::Send, queue, Placement::Delayed, Timestamp(1));
        let bit = bit.index(payload.len() * 8);
        payload[bit / 8] ^= 1 << (bit % 8);
        let (reader, start) = logged(&payload);
        prop_assert!(fetch(&*reader, start, stored.size).is_err());
        prop_assert!(fetch_at(&*reader, start, u32::MAX).is_err());
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..300), size in any::<u32>()) {
        decode_payload(&bytes, Position(7)).for_each(drop);
        let (reader, start) = logged(&bytes);
        let _ = fetch(&*reader, start, size);
        let _ = fetch_at(&*reader, start, size);
        let _ = fetch_at(&*reader, Position(start.0.wrapping_add(u64::from(size))), size);
    }

    #[test]
    fn mutated_records_never_panic(
        decisions in vec(decision(), 0..3),
        facts in vec(fact(), 0..3),
        message in message(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut payload = Vec::new();
        facts.iter().for_each(|fact| fact.put(&mut payload));
        put_message(&mut payload, &message, Cause::Send, QueueKey::default(), Placement::Delayed, Timestamp(1));
        for decision in decisions {
            decision.put(&mut payload);
        }
        for (at, byte) in changes {
            let at = at.index(payload.len());
            payload[at] = byte;
        }
        decode_payload(&payload, Position(u64::MAX - 10_000)).for_each(drop);
        decode_payload(&payload[..cut.index(payload.len())], Position(0)).for_each(drop);
    }
}
