//! What a reset will do, before it is done.

use crate::admin::{output::count, time::Moment};

/// A group goes from one place of a queue to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    pub broker: String,
    pub address: String,
    pub queue: i32,
    /// Where it stands; `None` when it never read there.
    pub from: Option<i64>,
    pub to: i64,
}

impl Move {
    /// Messages that come again (negative), or that are passed over.
    fn distance(&self) -> i64 {
        self.from.map_or(0, |from| self.to - from)
    }
}

/// Messages that come again, and messages that are passed over.
pub fn effect(moves: &[Move]) -> (i64, i64) {
    let again = moves.iter().map(|queue| (-queue.distance()).max(0)).sum();
    let skipped = moves.iter().map(|queue| queue.distance().max(0)).sum();
    (again, skipped)
}

pub fn describe(group: &str, topic: &str, to: Moment, moves: &[Move]) -> String {
    let place = match to {
        Moment::Earliest => "the beginning".to_owned(),
        Moment::Latest => "the end".to_owned(),
        Moment::At(ms) => crate::admin::time::iso(ms).unwrap_or_else(|| "1970".to_owned()),
    };
    let effect = match effect(moves) {
        (0, 0) if moves.iter().all(|queue| queue.from.is_none()) => "it has not read there yet".to_owned(),
        (0, 0) => "it stands there already".to_owned(),
        (again, 0) => format!("{} again", come(again)),
        (0, skipped) => passed(skipped),
        (again, skipped) => format!("{}, {} again", passed(skipped), come(again)),
    };
    let queues = count(moves.len(), "queue");
    format!("move consumer group {group} in {queues} of topic {topic} to {place}: {effect}")
}

fn come(messages: i64) -> String {
    format!("{} {}", count(messages, "message"), if messages == 1 { "comes" } else { "come" })
}

fn passed(messages: i64) -> String {
    format!("{} {} passed over", count(messages, "message"), if messages == 1 { "is" } else { "are" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moves(of: &[(Option<i64>, i64)]) -> Vec<Move> {
        let queue = |(queue, (from, to)): (usize, &(Option<i64>, i64))| Move {
            broker: "a".to_owned(),
            address: String::new(),
            queue: queue as i32,
            from: *from,
            to: *to,
        };
        of.iter().enumerate().map(queue).collect()
    }

    #[test]
    fn a_reset_says_what_it_does() {
        let cases = [
            (
                moves(&[(Some(10), 0), (Some(5), 0)]),
                Moment::Earliest,
                "2 queues of topic t to the beginning: 15 messages come again",
            ),
            (
                moves(&[(Some(9), 10)]),
                Moment::Latest,
                "1 queue of topic t to the end: 1 message is passed over",
            ),
            (
                moves(&[(Some(9), 11), (Some(9), 8)]),
                Moment::At(1_769_860_800_000),
                "2 queues of topic t to 2026-01-31T12:00:00.000Z: 2 messages are passed over, 1 message comes again",
            ),
            (moves(&[(None, 7)]), Moment::Latest, "1 queue of topic t to the end: it has not read there yet"),
            (
                moves(&[(Some(7), 7)]),
                Moment::Latest,
                "1 queue of topic t to the end: it stands there already",
            ),
        ];
        for (of, to, expected) in cases {
            let text = describe("g", "t", to, &of);
            assert_eq!(text, format!("move consumer group g in {expected}"));
        }
    }
}
