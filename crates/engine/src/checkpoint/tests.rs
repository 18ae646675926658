//! A checkpoint comes back whole, and no bytes can make reading panic.

use std::time::Duration;

use proptest::{collection::vec, prelude::*};
use redstart_log::Position;

use super::*;
use crate::{
    QueueId, QueueKey,
    dedup::{First, Placed},
    open_transactions::Half,
    pop::NoneSpared,
    record::{
        Blocked, Delivered, PopFact,
        tests::{group_config, message_ref, timer_key, topic_config},
    },
};

/// What happened to one group in one queue.
#[derive(Debug, Clone)]
enum Step {
    Pop { visible_at: u64, ordered: bool, levels: bool, delivered: Vec<(u8, u8)>, blocked: Vec<u8> },
    Done(u8),
    Invisible { offset: u8, visible_at: u64, given_back: bool },
    Commit(u8),
    Reset(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..1000u64, any::<(bool, bool)>(), vec(any::<(u8, u8)>(), 0..4), vec(any::<u8>(), 0..4)).prop_map(
            |(visible_at, (ordered, levels), delivered, blocked)| Step::Pop {
                visible_at,
                ordered,
                levels,
                delivered,
                blocked
            }
        ),
        any::<u8>().prop_map(Step::Done),
        (any::<u8>(), 0..1000u64, any::<bool>())
            .prop_map(|(offset, visible_at, given_back)| Step::Invisible { offset, visible_at, given_back }),
        any::<u8>().prop_map(Step::Commit),
        any::<u8>().prop_map(Step::Reset),
    ]
}

fn progress(steps: Vec<Step>) -> Progress {
    let at = |offset: u8| QueueOffset(offset.into());
    // A message has one message group for good.
    let lock_of = |offset: u8| u32::from(offset % 5);
    let mut progress = Progress::not_started(QueueOffset(3));
    for step in steps {
        match step {
            Step::Pop { visible_at, ordered, levels, delivered, blocked } => {
                let delivered = delivered.into_iter().map(|(offset, priority)| Delivered {
                    offset: at(offset),
                    attempt: 1,
                    lock: lock_of(offset),
                    priority,
                });
                let blocked =
                    blocked.into_iter().map(|offset| Blocked { offset: at(offset), lock: lock_of(offset) });
                progress.apply_pop(&PopFact {
                    visible_at: Timestamp(visible_at),
                    ordered,
                    seq: progress.seq,
                    cursors: (0..if levels { 10 } else { 1 }).map(|level| (level, at(200 + level))).collect(),
                    delivered: delivered.collect(),
                    blocked: if ordered { blocked.collect() } else { Vec::new() },
                    ..PopFact::default()
                });
            }
            Step::Done(offset) => drop(progress.done(at(offset))),
            Step::Invisible { offset, visible_at, given_back } => {
                let seq = progress.seq;
                progress.change_invisible(at(offset), seq, Timestamp(visible_at), given_back);
            }
            Step::Commit(offset) => drop(progress.commit(at(offset), NoneSpared)),
            Step::Reset(offset) => progress.reset(at(offset), NoneSpared),
        }
    }
    progress
}

fn state() -> impl Strategy<Value = State> {
    let topics = vec((topic_config(), vec(0..1u64 << 40, 0..4)), 0..4);
    let groups = vec(group_config(), 0..4);
    let subscriptions = vec(vec(vec(step(), 0..12), 0..3), 0..4);
    let timers = vec((timer_key(), message_ref(), 0..3u8), 0..12);
    let halves = vec((any::<u64>(), message_ref(), any::<(u64, Option<u32>, u64, u32)>()), 0..6);
    let keys = vec((any::<u128>(), any::<(u32, u64, bool)>(), 1_000..2_000u64), 0..6);
    let setting = proptest::collection::btree_map("[a-z]{1,4}", "\\PC{0,8}", 1..4);
    let settings = proptest::collection::btree_map("[a-z]{1,4}", setting, 0..3);
    (topics, groups, subscriptions, timers, halves, keys, settings).prop_map(
        |(topics, groups, subscriptions, timers, halves, keys, settings)| {
            let mut state = State { topic_next: 9, group_next: 7, settings, ..State::default() };
            for (n, (config, ends)) in (0..).zip(topics) {
                let (id, name) = (TopicId(n), TopicName::new(&format!("t{n}")).unwrap());
                let mut topic = Topic::new(id, name.clone(), config);
                topic.queues.extend(ends.into_iter().map(|end| Queue::restored(QueueOffset(end))));
                state.topic_names.insert(name, id);
                state.topics.insert(id, topic);
            }
            for (n, config) in (0..).zip(groups) {
                let (id, name) = (GroupId(n), GroupName::new(&format!("g{n}")).unwrap());
                state.group_names.insert(name.clone(), id);
                state.groups.insert(id, Group { id, name, config });
            }
            for (n, queues) in (0..).zip(subscriptions) {
                let queues = queues.into_iter().map(progress).collect();
                let subscription = Subscription { queues, ..Subscription::default() };
                state.subscriptions.insert((GroupId(n), TopicId(n)), subscription);
            }
            for (key, message, fate) in timers {
                state.timers.insert(key, message, SegmentId(0));
                match fate {
                    1 => drop(state.timers.fired(key)),
                    2 => drop(state.timers.recall(key, SegmentId(0))),
                    _ => {}
                }
            }
            for (id, message, (opened_at, deliver_at, next_check, checks)) in halves {
                let half = Half {
                    message,
                    opened_at: Timestamp(opened_at),
                    deliver_at: deliver_at.map(|at| Timestamp(at.into())),
                    next_check: Timestamp(next_check),
                    checks,
                };
                state.transactions.insert(Position(id), half);
            }
            for (key, (queue, position, visible), expires) in keys {
                let queue = QueueKey { topic: TopicId(1), queue: QueueId(queue) };
                let offset = QueueOffset(position / 2);
                let placed = if visible { Placed::Visible(offset) } else { Placed::Hidden };
                let (position, expires) = (Position(position), Timestamp(expires));
                state.dedup.insert(key, First { queue, placed, position, expires });
            }
            state.last_use.insert(SegmentId(4096), Timestamp::default().after(Duration::from_secs(1)));
            state
        },
    )
}

/// What can be asked of a progress, in words.
fn asked(progress: &Progress) -> String {
    let flights: Vec<_> = progress.flights().collect();
    let blocked = progress.locks.as_ref().map(|locks| locks.all_blocked());
    let ready = progress.locks.as_ref().map(|locks| locks.ready().collect::<Vec<_>>());
    let (low, next) = (progress.low_watermark(), progress.next_visible());
    let (seq, started) = (progress.seq, progress.started);
    format!("{:?} {flights:?} {blocked:?} {ready:?} {low:?} {next:?} {seq} {started}", progress.cursor)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn a_checkpoint_comes_back_whole(state in state()) {
        let bytes = state.encode();
        let found = State::decode(&bytes).unwrap();
        prop_assert_eq!(found.encode(), bytes);
        prop_assert_eq!(&found.topic_names, &state.topic_names);
        prop_assert_eq!(&found.group_names, &state.group_names);
        prop_assert_eq!(&found.settings, &state.settings);
        for (key, subscription) in &state.subscriptions {
            let asked_of = |state: &State| -> Vec<String> {
                state.subscriptions[key].queues.iter().map(asked).collect()
            };
            prop_assert_eq!(asked_of(&found), asked_of(&state), "{:?}", subscription);
        }
    }

    #[test]
    fn mutated_and_cut_checkpoints_never_panic(
        state in state(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = state.encode();
        prop_assert!(State::decode(&bytes[..cut.index(bytes.len())]).is_err(), "cut short");
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = State::decode(&bytes);
    }

    #[test]
    fn a_checkpoint_from_before_there_were_settings_is_read(mut state in state()) {
        state.settings.clear();
        // Recalled timers had another layout.
        state.timers = Timers::default();
        let mut bytes = state.encode();
        bytes[0] = VERSION_BEFORE_SETTINGS;
        bytes.truncate(bytes.len() - 4 - 16);
        prop_assert_eq!(State::decode(&bytes).unwrap().encode(), state.encode());
    }

    #[test]
    fn a_checkpoint_from_before_retirements_were_recorded_is_read(mut state in state()) {
        state.timers = Timers::default();
        let mut bytes = state.encode();
        bytes[0] = VERSION_BEFORE_RETIREMENT;
        bytes.truncate(bytes.len() - 16);
        prop_assert_eq!(State::decode(&bytes).unwrap().encode(), state.encode());
    }

    #[test]
    fn random_bytes_never_panic(mut bytes in vec(any::<u8>(), 1..300), version: bool) {
        if version {
            bytes[0] = VERSION;
        }
        let _ = State::decode(&bytes);
    }
}

#[test]
fn a_checkpoint_of_a_newer_version_is_not_taken_for_a_damaged_one() {
    let mut bytes = State::default().encode();
    bytes[0] = VERSION + 1;
    let newer = Malformed::Newer { what: "checkpoint version", found: VERSION + 1 };
    assert_eq!(State::decode(&bytes).err(), Some(newer));
    bytes[0] = 0;
    assert!(State::decode(&bytes).is_err_and(|error| !error.is_newer()));
}

/// Run by hand: `cargo test --release -p redstart-engine --lib ten_million -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement that takes some seconds and 2 GB: run by hand with the command above"]
fn requests_are_stopped_for_a_moment_by_a_checkpoint_of_ten_million_keys() {
    let mut state = State::default();
    let mut key = 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835_u128;
    for n in 0..10_000_000 {
        key = key.wrapping_mul(0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645).wrapping_add(1);
        let first = First {
            queue: QueueKey { topic: TopicId(1), queue: QueueId(0) },
            placed: Placed::Visible(QueueOffset(n)),
            position: Position(n * 100),
            expires: Timestamp(1_000_000 + n / 100),
        };
        state.dedup.insert(key, first);
    }
    let began = std::time::Instant::now();
    let mut encoding = state.begin_encoding(Position(u64::MAX));
    let stopped = began.elapsed();
    let (mut steps, mut longest) = (0, Duration::ZERO);
    loop {
        let began = std::time::Instant::now();
        let whole = encoding.step(&state, 512);
        longest = longest.max(began.elapsed());
        steps += 1;
        if whole {
            break;
        }
    }
    let all = began.elapsed();
    let bytes = encoding.finish().len();
    println!("stopped {stopped:?}, then {steps} steps of at most {longest:?}, {all:?} in all, {bytes} bytes");
}
