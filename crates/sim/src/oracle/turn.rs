//! One message for one group: how often it was delivered, until when it is invisible, whether it is done.

use redstart_engine::{Receipt, Timestamp};

/// How sure an ack is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Acked {
    #[default]
    No,
    /// Accepted; its record is not durable yet.
    Pending,
    Durable,
    /// Accepted, then the process died: kept or lost.
    Uncertain,
}

/// A delivery that may still be acked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Current {
    pub receipt: Receipt,
    pub until: Timestamp,
}

#[derive(Debug, Clone, Default)]
pub struct Turn {
    /// Deliveries that are certainly remembered, those of the entry itself included.
    pub low: u16,
    /// Deliveries that may be remembered.
    pub high: u16,
    pub base: u16,
    /// The highest attempt of all.
    pub peak: u16,
    pub acked: Acked,
    /// A consumer has said at least once that it is done with it.
    pub ever_acked: bool,
    /// It need not come: passed over by an operator, or its body was removed by retention.
    pub exempt: bool,
    /// A consumer has asked for it to be moved to the dead letters.
    pub given_up: bool,
    pub dead: bool,
    /// It has been a dead letter at least once.
    pub ever_dead: bool,
    pub current: Option<Current>,
    /// Not to be delivered before this time.
    pub not_before: Timestamp,
    /// The receive that got it last; `unsure` when the process died before that was durable.
    pub attempt_id: Option<String>,
    pub unsure: bool,
    /// Its consumer gave it back.
    pub given_back: bool,
    /// The group was moved since the last delivery.
    pub moved: bool,
    /// The group was moved back to before it. What is in flight then stays there, and comes once more when the group
    /// gets to it again, whatever became of it meanwhile.
    pub rewound: bool,
    /// A consumer that pulls has stored an offset behind it while it was not certainly done: it may come to the retry topic,
    /// once.
    pub left: bool,
    /// It has come there. Only a group that is moved back can leave it again.
    pub left_before: bool,
    /// How often the group was moved: facts from before a move count no more.
    pub life: u32,
    /// Facts about it that are not durable yet.
    pub outstanding: u32,
}

impl Turn {
    pub fn new(base: u16) -> Turn {
        Turn { low: base, high: base, base, peak: base, ..Turn::default() }
    }

    /// The highest attempt that may be remembered: a move of the group may be undone by a crash.
    pub fn most(&self) -> u16 {
        if self.rewound { self.peak.max(self.high) } else { self.high }
    }

    pub fn done(&self) -> bool {
        self.ever_acked || self.ever_dead || self.exempt
    }

    /// Whether the broker may take it for done.
    pub fn may_be_done(&self) -> bool {
        self.acked != Acked::No || self.dead || self.exempt
    }

    pub fn process_died(&mut self) {
        if self.outstanding > 0 {
            // Some of the facts about it may be lost.
            self.not_before = Timestamp(0);
            self.current = None;
            self.unsure = true;
        }
        self.outstanding = 0;
        if self.acked == Acked::Pending {
            self.acked = Acked::Uncertain;
        }
    }

    /// A consumer that pulls has stored an offset behind it.
    pub fn passed_by_pulls(&mut self) {
        self.left = self.acked != Acked::Durable && !self.dead && !self.left_before;
    }

    /// An operator moved the group: it may come again from the beginning, or not at all.
    pub fn moved(&mut self, passed_over: bool) {
        self.low = self.base;
        self.not_before = Timestamp(0);
        self.current = None;
        if passed_over {
            self.exempt = true;
            // What was given back is delivered all the same; a crash may undo the move.
            self.acked = match self.acked {
                Acked::Pending | Acked::Durable => Acked::Uncertain,
                other => other,
            };
        } else {
            self.acked = Acked::No;
            self.rewound = true;
            self.left_before = false;
        }
        self.dead = false;
        self.moved = true;
        self.life += 1;
    }
}
