//! What a reset will do, before it is done.

use crate::admin::{
    output::count,
    time::{Moment, Time},
};

/// The move of a group in one queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    pub broker: String,
    pub address: String,
    pub queue: i32,
    /// The offset now; `None` when the group has none in this queue.
    pub from: Option<i64>,
    pub to: i64,
    /// The offset that the next message of the queue will get.
    pub end: i64,
}

/// What the moves change, in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Effect {
    /// Consumed already, and delivered again.
    pub again: i64,
    /// Not consumed, and never delivered.
    pub skipped: i64,
    /// Stored and still to be delivered after the move. For a group without an offset this is the whole effect: the other
    /// two compare with an offset that it does not have.
    pub remaining: i64,
}

impl Effect {
    pub fn of(moves: &[Move]) -> Effect {
        let distance = |queue: &Move| queue.from.map_or(0, |from| queue.to - from);
        Effect {
            again: moves.iter().map(|queue| (-distance(queue)).max(0)).sum(),
            skipped: moves.iter().map(|queue| distance(queue).max(0)).sum(),
            remaining: moves.iter().map(|queue| (queue.end - queue.to).max(0)).sum(),
        }
    }
}

/// Completes the sentence "This will …".
pub fn describe(group: &str, topic: &str, to: Moment, moves: &[Move]) -> String {
    let place = match to {
        Moment::Earliest => "the beginning".to_owned(),
        Moment::Latest => "the end".to_owned(),
        Moment::At(ms) => Time(ms).iso().unwrap_or_else(|| "1970".to_owned()),
    };
    let Effect { again, skipped, remaining } = Effect::of(moves);
    let new = moves.iter().filter(|queue| queue.from.is_none()).count();
    let are = |messages: i64| {
        format!("{} {}", count(messages, "message"), if messages == 1 { "is" } else { "are" })
    };
    let mut effects = Vec::new();
    if skipped > 0 {
        effects.push(format!("{} skipped", are(skipped)));
    }
    if again > 0 {
        effects.push(format!("{} delivered again", are(again)));
    }
    match new {
        0 if effects.is_empty() => effects.push("it is there already".to_owned()),
        0 => {}
        new if new == moves.len() => effects.push("it has no offset yet".to_owned()),
        new => effects.push(format!("it has no offset yet in {}", count(new, "queue"))),
    }
    if new > 0 {
        effects.push(format!("{} to consume from there", count(remaining, "message")));
    }
    let queues = count(moves.len(), "queue");
    format!("move consumer group {group} in {queues} of topic {topic} to {place}: {}", effects.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: i64 = 20;

    fn moves(of: &[(Option<i64>, i64)]) -> Vec<Move> {
        let queue = |(queue, (from, to)): (usize, &(Option<i64>, i64))| Move {
            broker: "a".to_owned(),
            address: String::new(),
            queue: queue as i32,
            from: *from,
            to: *to,
            end: END,
        };
        of.iter().enumerate().map(queue).collect()
    }

    #[test]
    fn a_plan_says_what_the_reset_does() {
        let cases = [
            (
                moves(&[(Some(10), 0), (Some(5), 0)]),
                Moment::Earliest,
                "2 queues of topic t to the beginning: 15 messages are delivered again",
            ),
            (
                moves(&[(Some(19), END)]),
                Moment::Latest,
                "1 queue of topic t to the end: 1 message is skipped",
            ),
            (
                moves(&[(Some(9), 11), (Some(9), 8)]),
                Moment::At(1_769_860_800_000),
                "2 queues of topic t to 2026-01-31T12:00:00.000Z: 2 messages are skipped, 1 message is delivered again",
            ),
            (
                moves(&[(Some(END), END)]),
                Moment::Latest,
                "1 queue of topic t to the end: it is there already",
            ),
        ];
        for (of, to, expected) in cases {
            assert_eq!(describe("g", "t", to, &of), format!("move consumer group g in {expected}"));
        }
    }

    #[test]
    fn the_plan_for_a_group_without_an_offset_counts_what_it_will_consume() {
        let new = describe("g", "t", Moment::Earliest, &moves(&[(None, 0), (None, 5)]));
        assert!(new.ends_with("beginning: it has no offset yet, 35 messages to consume from there"), "{new}");
        let partly = describe("g", "t", Moment::Earliest, &moves(&[(None, 0), (Some(7), 5)]));
        let expected = "2 messages are delivered again, it has no offset yet in 1 queue, 35 messages to consume from there";
        assert!(partly.ends_with(expected), "{partly}");
        let effect = Effect::of(&moves(&[(None, 0)]));
        assert_eq!(effect, Effect { again: 0, skipped: 0, remaining: END });
    }
}
