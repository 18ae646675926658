//! The engine against a reference broker that is slow and simple: the same operations, the same answers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod model {
    mod apply;
    pub mod check;
    mod deferred;
    mod delivering;
    mod gate;
    mod offsets;
    pub mod ops;
    mod progress;
    mod reference;
    mod requests;
    mod retries;
    mod views;
}

use model::{
    check::{Harness, Next},
    ops::{Choice, From, Op, PopOp, Shape, To, op},
};
use proptest::{collection::vec, prelude::*, test_runner::Config};

/// Does the operations, each durable at once if `eager`, and compares everything at the end.
fn run(on_disk: bool, eager: bool, ops: &[Op]) -> Result<(), String> {
    perform(on_disk, eager, ops).map_err(|error| format!("{error}\nafter {ops:?}"))
}

fn perform(on_disk: bool, eager: bool, ops: &[Op]) -> Result<(), String> {
    let mut harness = Harness::new(on_disk);
    harness.set_up()?;
    for (n, op) in ops.iter().enumerate() {
        let context = |error: String| format!("operation {n}, {op:?}: {error}");
        if harness.step(op).map_err(context)? == Next::Stop {
            return Ok(());
        }
        if eager {
            harness.flush().map_err(context)?;
            harness.compare().map_err(context)?;
        }
    }
    harness.flush()?;
    harness.compare()?;
    harness.step(&Op::Restart).map(|_| ())
}

fn cases(default: u32) -> Config {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    Config {
        cases: cases.unwrap_or(default),
        max_shrink_iters: 20_000,
        failure_persistence: None,
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn the_engine_answers_like_the_reference(ops in vec(op(false), 1..120), eager: bool) {
        run(false, eager, &ops).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn a_clean_restart_changes_nothing(ops in vec(op(true), 1..120), eager: bool) {
        run(true, eager, &ops).map_err(TestCaseError::fail)?;
    }
}

// Failures that were found, cut down to what matters. Groups to begin with: g0 retries thrice, g1 is ordered and retries
// twice, g2 never retries. Topics: t0 normal, t1 by message group, t2 mixed with a dedup window, t3 by priority.

fn check(ops: &[Op]) {
    for on_disk in [false, true] {
        run(on_disk, false, ops).unwrap();
    }
}

fn send(topic: usize, shape: Shape) -> Op {
    Op::Send { topic, shapes: vec![shape], queue: Some(0), half: None, fit: true }
}

fn plain(topic: usize) -> Op {
    send(topic, Shape::default())
}

fn priority(level: u8) -> Op {
    send(3, Shape { priority: Some(level), ..Shape::default() })
}

fn pop(group: usize, topic: usize, max: usize) -> Op {
    let (queue, invisible_ms, filter, attempt, start) = (None, 1_000, Choice::All, None, From::Earliest);
    let (in_order, retries) = (false, false);
    Op::Pop(PopOp { group, topic, queue, max, invisible_ms, filter, attempt, start, in_order, retries })
}

/// A receive that also gets messages of the group's retry topic.
fn receive(group: usize, topic: usize, max: usize) -> Op {
    let Op::Pop(pop) = pop(group, topic, max) else { unreachable!("a pop") };
    Op::Pop(PopOp { retries: true, ..pop })
}

fn set_group(group: usize, ordered: bool, retries: u32) -> Op {
    Op::PutGroup { group, ordered, retries, steps_ms: vec![1], enabled: true, from: None }
}

#[test]
fn an_offset_stored_in_one_queue_says_nothing_of_the_others() {
    check(&[Op::CommitOffset { group: 0, topic: 0, queue: 1, offset: 0 }]);
}

#[test]
fn a_message_given_up_at_its_last_attempt_is_buried_once() {
    // Its time runs out while its dead letter is not yet durable.
    let given_up = Op::Forward { pick: 0 };
    check(&[
        plain(0),
        Op::Flush,
        pop(2, 0, 1),
        given_up.clone(),
        Op::Flush,
        given_up,
        Op::Pass { ms: 1_000 },
        Op::Flush,
    ]);
}

#[test]
fn a_message_whose_dead_letter_was_refused_is_the_same_after_a_restart() {
    check(&[
        plain(0),
        Op::Flush,
        pop(2, 0, 1),
        Op::Forward { pick: 0 },
        Op::Flush,
        Op::Forward { pick: 0 },
        Op::Reset { group: 2, topic: 0, queue: None, to: To::Earliest },
        Op::Refuse,
    ]);
}

#[test]
fn a_message_popped_while_its_dead_letter_is_written_is_in_flight_also_after_a_restart() {
    // It is sent back for the last time without having been popped, and the pop comes before that is durable.
    let back = Op::SendBack { group: 2, topic: 0, queue: 0, offset: 1, delay_ms: None, retries: None };
    check(&[
        plain(0),
        plain(0),
        plain(0),
        Op::Flush,
        pop(2, 0, 1),
        Op::Pass { ms: 1_000 },
        Op::Flush,
        back,
        pop(2, 0, 1),
    ]);
}

#[test]
fn allowing_fewer_retries_buries_what_has_failed_that_often() {
    check(&[
        plain(0),
        Op::Flush,
        pop(0, 0, 1),
        set_group(0, false, 0),
        Op::Flush,
        Op::Pass { ms: 1_000 },
        Op::Flush,
    ]);
}

#[test]
fn a_dedup_key_counts_from_the_frame_in_which_its_window_was_opened() {
    let keyed = || send(0, Shape { dedup: Some(1), ..Shape::default() });
    let window = Op::PutTopic { topic: 0, read: 2, write: 2, permission: 6, dedup_ms: Some(60_000) };
    check(&[window, keyed(), Op::Restart, keyed(), Op::Flush]);
}

#[test]
fn an_ordered_group_does_not_meet_again_what_it_acked_by_priority() {
    check(&[
        priority(0),
        priority(9),
        Op::Flush,
        pop(0, 3, 1),
        Op::Ack { pick: 0 },
        set_group(0, true, 3),
        Op::Flush,
        pop(0, 3, 1),
        Op::Ack { pick: 0 },
        pop(0, 3, 1),
    ]);
}

#[test]
fn an_offset_stored_before_waiting_messages_does_not_double_them() {
    check(&[
        plain(0),
        plain(0),
        Op::Flush,
        pop(1, 0, 1),
        pop(1, 0, 1),
        Op::CommitOffset { group: 1, topic: 0, queue: 0, offset: 0 },
        Op::Ack { pick: 0 },
        pop(1, 0, 32),
        Op::Ack { pick: 0 },
        Op::Ack { pick: 1 },
        pop(1, 0, 32),
    ]);
}

#[test]
fn what_waited_for_a_lock_is_not_in_flight_and_can_be_skipped() {
    check(&[
        plain(0),
        plain(0),
        plain(0),
        Op::Flush,
        pop(1, 0, 1),
        pop(1, 0, 1),
        set_group(1, false, 2),
        Op::Flush,
        pop(1, 0, 1),
        Op::Reset { group: 1, topic: 0, queue: None, to: To::Latest },
        pop(1, 0, 32),
    ]);
}

#[test]
fn a_message_handed_back_for_the_last_time_does_not_subscribe_its_group() {
    let back = || Op::SendBack { group: 0, topic: 0, queue: 0, offset: 0, delay_ms: None, retries: Some(0) };
    check(&[plain(0), Op::Flush, back(), Op::Flush, back(), Op::Flush]);
}

#[test]
fn a_transaction_is_rolled_back_when_its_time_is_out_whatever_the_interval_of_checks() {
    let half =
        Op::Send { topic: 2, shapes: vec![Shape::default()], queue: None, half: Some(None), fit: true };
    let pass = |ms| Op::Pass { ms };
    let end = Op::End { pick: 0, commit: true };
    check(&[half, Op::Flush, pass(60_000), pass(90_000), pass(90_000), pass(60_000), Op::Flush, end]);
}

#[test]
fn a_name_cannot_be_given_again_while_it_is_being_taken_away() {
    let topic = Op::PutTopic { topic: 0, read: 1, write: 1, permission: 6, dedup_ms: None };
    check(&[
        plain(0),
        Op::Flush,
        pop(0, 0, 1),
        Op::DeleteTopic { topic: 0 },
        topic.clone(),
        Op::DeleteGroup { group: 0 },
        set_group(0, false, 1),
        Op::Flush,
        topic,
        set_group(0, false, 1),
        Op::Flush,
        plain(0),
        Op::Flush,
        pop(0, 0, 1),
    ]);
}

#[test]
fn a_key_named_twice_finds_its_message_once() {
    let keyed = send(0, Shape { keys: vec![0, 0], ..Shape::default() });
    check(&[keyed, Op::Flush, Op::Query { topic: 0, key: 0, from_age_ms: 0, span_ms: 0, max: 9 }]);
}

#[test]
fn a_dead_letter_out_of_a_retry_topic_names_the_topic_it_was_sent_to() {
    let back = |topic, retries| Op::SendBack {
        group: 0,
        topic,
        queue: 0,
        offset: 0,
        delay_ms: Some(1),
        retries: Some(retries),
    };
    check(&[
        plain(0),
        Op::Flush,
        back(0, 1),
        Op::Flush,
        Op::Pass { ms: 1 },
        Op::Flush,
        back(4, 1),
        Op::Flush,
        back(4, 1),
        Op::Flush,
    ]);
}

#[test]
fn retries_come_with_receives_of_their_own_topics() {
    let back =
        |topic| Op::SendBack { group: 0, topic, queue: 0, offset: 0, delay_ms: Some(1), retries: None };
    check(&[
        plain(0),
        plain(2),
        Op::Flush,
        back(0),
        back(2),
        Op::Flush,
        Op::Pass { ms: 1 },
        Op::Flush,
        receive(0, 0, 1),
        receive(0, 0, 32),
        Op::Ack { pick: 0 },
        Op::Pass { ms: 1_000 },
        receive(0, 2, 1),
        receive(0, 2, 32),
        pop(0, 4, 32),
        Op::Pass { ms: 1_000 },
        receive(0, 2, 32),
        receive(0, 0, 32),
        Op::DeleteTopic { topic: 2 },
        Op::Flush,
        Op::Pass { ms: 1_000 },
        receive(0, 0, 32),
    ]);
}
