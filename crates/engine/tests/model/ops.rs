//! What may be asked of a broker, as data, and how often each is tried.

use proptest::{collection::vec, option, prelude::*, sample::select};
use redstart_engine::{ConsumeFrom, Filter, MessageType};

pub const TOPICS: [&str; 9] =
    ["t0", "t1", "t2", "t3", "%RETRY%g0", "%RETRY%g1", "%DLQ%g0", "%DLQ%g1", "%DLQ%g2"];
pub const GROUPS: [&str; 3] = ["g0", "g1", "g2"];

/// What the topics are made for; retry and dead-letter topics take everything.
pub fn type_of(topic: usize) -> MessageType {
    match topic {
        0 => MessageType::Normal,
        1 => MessageType::Fifo,
        3 => MessageType::Priority,
        _ => MessageType::Mixed,
    }
}

#[derive(Debug, Clone)]
pub enum Op {
    PutTopic {
        topic: usize,
        read: u32,
        write: u32,
        permission: u8,
        dedup_ms: Option<u64>,
    },
    DeleteTopic {
        topic: usize,
    },
    PutGroup {
        group: usize,
        ordered: bool,
        retries: u32,
        steps_ms: Vec<u64>,
        enabled: bool,
        from: Option<ConsumeFrom>,
    },
    DeleteGroup {
        group: usize,
    },
    Send {
        topic: usize,
        shapes: Vec<Shape>,
        queue: Option<u32>,
        half: Option<Option<u64>>,
        fit: bool,
    },
    Pop(PopOp),
    Ack {
        pick: usize,
    },
    AckBatch {
        picks: Vec<usize>,
    },
    GiveBack {
        pick: usize,
        ms: u64,
    },
    Invisible {
        pick: usize,
        ms: u64,
    },
    Renew {
        pick: usize,
        ms: u64,
    },
    Forward {
        pick: usize,
    },
    End {
        pick: usize,
        commit: bool,
    },
    Recall {
        pick: usize,
    },
    SendBack {
        group: usize,
        topic: usize,
        queue: u32,
        offset: u64,
        delay_ms: Option<u64>,
        retries: Option<u32>,
    },
    Pull {
        topic: usize,
        queue: u32,
        offset: u64,
        max: usize,
        filter: Choice,
    },
    CommitOffset {
        group: usize,
        topic: usize,
        queue: u32,
        offset: u64,
    },
    PullFrom {
        group: usize,
        topic: usize,
        queue: u32,
    },
    Reset {
        group: usize,
        topic: usize,
        queue: Option<u32>,
        to: To,
    },
    Query {
        topic: usize,
        key: u8,
        from_age_ms: u64,
        span_ms: u64,
        max: usize,
    },
    OffsetAt {
        topic: usize,
        queue: u32,
        age_ms: u64,
    },
    Pass {
        ms: u64,
    },
    Tick,
    /// Appends what was proposed, without waiting for it.
    Submit,
    /// The log refuses the next frame.
    Refuse,
    /// Some of the appended frames are durable.
    Commit {
        frames: usize,
    },
    /// Everything proposed becomes durable.
    Flush,
    Seal,
    Checkpoint,
    /// The results of seals and checkpoints arrive.
    Jobs,
    /// Everything becomes durable, and the broker is started again.
    Restart,
}

/// What a message is like. Fields that do not suit the topic are left out when the send is to fit.
#[derive(Debug, Clone, Default)]
pub struct Shape {
    pub tag: Option<u8>,
    pub keys: Vec<u8>,
    pub group: Option<u8>,
    pub delay_ms: Option<i64>,
    pub priority: Option<u8>,
    pub dedup: Option<u8>,
    pub property: u8,
    pub padding: usize,
}

#[derive(Debug, Clone)]
pub struct PopOp {
    pub group: usize,
    pub topic: usize,
    pub queue: Option<u32>,
    pub max: usize,
    pub invisible_ms: u64,
    pub filter: Choice,
    pub attempt: Option<u8>,
    pub start: From,
    pub in_order: bool,
    /// Also messages of the group's retry topic.
    pub retries: bool,
}

#[derive(Debug, Clone, Copy)]
pub enum From {
    Configured,
    Earliest,
    Latest,
    Ago(u64),
}

#[derive(Debug, Clone, Copy)]
pub enum To {
    Offset(u64),
    Ago(u64),
    Earliest,
    Latest,
}

/// The filters that are tried, each with its meaning.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Choice {
    All,
    TagA,
    TagAOrB,
    SqlTagB,
    SqlOverTwo,
}

impl Choice {
    pub fn filter(self) -> Filter {
        match self {
            Choice::All => Filter::All,
            Choice::TagA => Filter::tags("A").unwrap(),
            Choice::TagAOrB => Filter::tags("A || B").unwrap(),
            Choice::SqlTagB => Filter::sql("TAGS IS NOT NULL AND TAGS = 'B'").unwrap(),
            Choice::SqlOverTwo => Filter::sql("weight > 2").unwrap(),
        }
    }

    pub fn passes(self, tag: Option<&str>, weight: u8) -> bool {
        match self {
            Choice::All => true,
            Choice::TagA => tag == Some("A"),
            Choice::TagAOrB => tag == Some("A") || tag == Some("B"),
            Choice::SqlTagB => tag == Some("B"),
            Choice::SqlOverTwo => weight > 2,
        }
    }

    /// What a pull leaves in: it decides by tags alone, the rest is the caller's.
    pub fn may_pass(self, tag: Option<&str>) -> bool {
        match self {
            Choice::TagA | Choice::TagAOrB => self.passes(tag, 0),
            _ => true,
        }
    }
}

fn topic() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0..4usize, 1 => 4..TOPICS.len()]
}

fn group() -> impl Strategy<Value = usize> {
    0..GROUPS.len()
}

fn choice() -> impl Strategy<Value = Choice> {
    use Choice::{All, SqlOverTwo, SqlTagB, TagA, TagAOrB};
    prop_oneof![5 => Just(All), 2 => select(vec![TagA, TagAOrB, SqlTagB, SqlOverTwo])]
}

fn time_ms() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => select(vec![0u64, 1, 999, 1_000, 2_999, 3_000, 5_000, 10_000, 30_000, 60_000]),
        2 => 1..15_000u64,
        1 => 10_000..600_000u64,
        1 => select(vec![3_600_000u64, 3 * 3_600_000, 24 * 3_600_000]),
    ]
}

fn shape() -> impl Strategy<Value = Shape> {
    (
        option::of(0..3u8),
        vec(0..4u8, 0..3),
        option::weighted(0.3, 0..3u8),
        option::weighted(0.3, prop_oneof![4 => 1..20_000i64, 1 => -10..1i64, 1 => Just(3_600_000i64)]),
        option::of(0..12u8),
        option::weighted(0.3, 0..3u8),
        0..5u8,
        prop_oneof![4 => Just(0usize), 1 => 1..600usize],
    )
        .prop_map(|(tag, keys, group, delay_ms, priority, dedup, property, padding)| Shape {
            tag,
            keys,
            group,
            delay_ms,
            priority,
            dedup,
            property,
            padding,
        })
}

fn pop() -> impl Strategy<Value = Op> {
    let start = prop_oneof![
        3 => Just(From::Earliest),
        1 => Just(From::Latest),
        2 => Just(From::Configured),
        1 => (0..60_000u64).prop_map(From::Ago)
    ];
    let invisible =
        prop_oneof![3 => 1_000..30_000u64, 1 => 1..1_000u64, 1 => Just(3_600_000u64), 1 => Just(0)];
    let max = prop_oneof![2 => 1..4usize, 2 => 4..=32usize];
    let queue = option::weighted(0.3, 0..4u32);
    let attempt = option::weighted(0.3, 0..3u8);
    let in_order = prop::bool::weighted(0.1);
    let retries = any::<bool>();
    (group(), topic(), queue, max, invisible, choice(), attempt, start, in_order, retries).prop_map(
        |(group, topic, queue, max, invisible_ms, filter, attempt, start, in_order, retries)| {
            let retries = retries && !in_order;
            Op::Pop(PopOp {
                group,
                topic,
                queue,
                max,
                invisible_ms,
                filter,
                attempt,
                start,
                in_order,
                retries,
            })
        },
    )
}

fn send() -> impl Strategy<Value = Op> {
    let shapes = prop_oneof![5 => vec(shape(), 1), 1 => vec(shape(), 2..5)];
    let half = option::weighted(0.25, option::of(1_000..200_000u64));
    let queue = option::weighted(0.4, 0..4u32);
    (topic(), shapes, queue, half, prop::bool::weighted(0.93))
        .prop_map(|(topic, shapes, queue, half, fit)| Op::Send { topic, shapes, queue, half, fit })
}

fn settle() -> impl Strategy<Value = Op> {
    let pick = || prop_oneof![6 => 0..6usize, 1 => 0..60usize];
    prop_oneof![
        6 => pick().prop_map(|pick| Op::Ack { pick }),
        2 => vec(pick(), 1..6).prop_map(|picks| Op::AckBatch { picks }),
        2 => (pick(), prop_oneof![2 => Just(0), 1 => time_ms()])
            .prop_map(|(pick, ms)| Op::GiveBack { pick, ms }),
        2 => (pick(), time_ms()).prop_map(|(pick, ms)| Op::Invisible { pick, ms }),
        1 => (pick(), time_ms()).prop_map(|(pick, ms)| Op::Renew { pick, ms }),
        1 => pick().prop_map(|pick| Op::Forward { pick }),
        3 => (0..4usize, any::<bool>()).prop_map(|(pick, commit)| Op::End { pick, commit }),
        1 => (0..6usize).prop_map(|pick| Op::Recall { pick }),
    ]
}

fn offsets() -> impl Strategy<Value = Op> {
    let queue = || 0..3u32;
    let offset = || prop_oneof![9 => 0..12u64, 1 => Just(u64::MAX)];
    let to = prop_oneof![
        (0..12u64).prop_map(To::Offset),
        time_ms().prop_map(To::Ago),
        Just(To::Earliest),
        Just(To::Latest),
    ];
    let delay = option::of(time_ms());
    prop_oneof![
        2 => (group(), topic(), queue(), 0..8u64, delay, option::of(0..3u32)).prop_map(
            |(group, topic, queue, offset, delay_ms, retries)| Op::SendBack {
                group, topic, queue, offset, delay_ms, retries
            }
        ),
        3 => (topic(), queue(), offset(), 1..20usize, choice())
            .prop_map(|(topic, queue, offset, max, filter)| Op::Pull { topic, queue, offset, max, filter }),
        2 => (group(), topic(), queue(), offset())
            .prop_map(|(group, topic, queue, offset)| Op::CommitOffset { group, topic, queue, offset }),
        2 => (group(), topic(), queue()).prop_map(|(group, topic, queue)| Op::PullFrom { group, topic, queue }),
        2 => (group(), topic(), option::of(queue()), to)
            .prop_map(|(group, topic, queue, to)| Op::Reset { group, topic, queue, to }),
        2 => (topic(), 0..6u8, time_ms(), time_ms(), 1..20usize).prop_map(
            |(topic, key, from_age_ms, span_ms, max)| Op::Query { topic, key, from_age_ms, span_ms, max }
        ),
        1 => (topic(), queue(), time_ms())
            .prop_map(|(topic, queue, age_ms)| Op::OffsetAt { topic, queue, age_ms }),
    ]
}

fn admin() -> impl Strategy<Value = Op> {
    let permission = prop_oneof![8 => Just(6u8), 1 => select(vec![0u8, 2, 4])];
    let dedup = option::weighted(0.4, select(vec![5_000u64, 60_000, 3_600_000]));
    let from = option::of(select(vec![ConsumeFrom::Latest, ConsumeFrom::Earliest]));
    let steps = vec(select(vec![1u64, 1_000, 10_000, 60_000]), 1..4);
    prop_oneof![
        4 => (0..6usize, 1..4u32, 1..4u32, permission, dedup).prop_map(
            |(topic, read, write, permission, dedup_ms)| Op::PutTopic { topic, read, write, permission, dedup_ms }
        ),
        1 => topic().prop_map(|topic| Op::DeleteTopic { topic }),
        4 => (group(), any::<bool>(), 0..4u32, steps, prop::bool::weighted(0.95), from).prop_map(
            |(group, ordered, retries, steps_ms, enabled, from)| Op::PutGroup {
                group, ordered, retries, steps_ms, enabled, from
            }
        ),
        1 => group().prop_map(|group| Op::DeleteGroup { group }),
    ]
}

/// One operation. Without `restarts`, those are left out.
pub fn op(restarts: bool) -> impl Strategy<Value = Op> {
    let upkeep = if restarts {
        prop_oneof![
            3 => Just(Op::Seal),
            3 => Just(Op::Checkpoint),
            4 => Just(Op::Jobs),
            3 => Just(Op::Restart),
        ]
        .boxed()
    } else {
        prop_oneof![2 => Just(Op::Seal), 1 => Just(Op::Checkpoint), 2 => Just(Op::Jobs)].boxed()
    };
    prop_oneof![
        20 => send(),
        16 => pop(),
        14 => settle(),
        10 => offsets(),
        5 => admin(),
        7 => time_ms().prop_map(|ms| Op::Pass { ms }),
        3 => Just(Op::Tick),
        4 => Just(Op::Submit),
        1 => Just(Op::Refuse),
        2 => (0..4usize).prop_map(|frames| Op::Commit { frames }),
        7 => Just(Op::Flush),
        8 => upkeep,
    ]
}
