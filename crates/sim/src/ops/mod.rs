//! Makes up what clients and operators do.

pub mod admin;
mod answer;
pub mod consume;
pub mod filters;
mod housekeeping;
pub mod lite;
mod offsets;
mod produce;

use std::time::Duration;

use crate::{
    Profile,
    oracle::Checked,
    world::{Ending, World},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    PutTopic,
    DeleteTopic,
    PutGroup,
    DeleteGroup,
    Send,
    SendBatch,
    SendDelayed,
    SendHalf,
    SendDedup,
    EndTransaction,
    Recall,
    Pop,
    Ack,
    AckBatch,
    Nack,
    ChangeInvisible,
    Renew,
    Forward,
    SendBack,
    CommitOffset,
    Reset,
    Tick,
    Submit,
    Flush,
    FlushWithAppend,
    Commit,
    Settle,
    Seal,
    Checkpoint,
    RunJob,
    Retire,
    PassMillis,
    PassSeconds,
    PassLong,
    JustBefore,
    Restart,
    Kill,
    PowerCut,
    /// Leadership is lost and comes back.
    Depose,
    /// Frames of one size are lost, the next one takes the place of the first of them, and the process starts again.
    Overwrite,
    FailWrite,
    FailSync,
    FailRead,
    NoSpace,
    FillDisk,
    DamageCheckpoint,
    DamageIndex,
    FlipBit,
}

/// How common each operation is: (mixed, crashes, retention, order, uniform).
const WEIGHTS: &[(Op, [u64; 5])] = &[
    (Op::PutTopic, [6, 3, 3, 3, 0]),
    (Op::DeleteTopic, [2, 1, 1, 1, 0]),
    (Op::PutGroup, [6, 3, 2, 3, 0]),
    (Op::DeleteGroup, [2, 1, 1, 1, 0]),
    (Op::Send, [60, 60, 60, 90, 120]),
    (Op::SendBatch, [15, 15, 25, 30, 0]),
    (Op::SendDelayed, [25, 15, 40, 5, 0]),
    (Op::SendHalf, [20, 10, 20, 0, 0]),
    (Op::SendDedup, [20, 10, 5, 0, 0]),
    (Op::EndTransaction, [15, 8, 12, 0, 0]),
    (Op::Recall, [6, 4, 4, 1, 0]),
    (Op::Pop, [70, 60, 40, 110, 20]),
    (Op::Ack, [45, 40, 25, 60, 10]),
    (Op::AckBatch, [15, 10, 8, 20, 5]),
    (Op::Nack, [12, 8, 4, 20, 0]),
    (Op::ChangeInvisible, [8, 4, 2, 8, 0]),
    (Op::Renew, [6, 3, 1, 6, 0]),
    (Op::Forward, [4, 3, 2, 5, 0]),
    (Op::SendBack, [10, 6, 8, 2, 0]),
    (Op::CommitOffset, [2, 1, 1, 1, 0]),
    (Op::Reset, [2, 1, 1, 2, 0]),
    (Op::Tick, [25, 15, 20, 20, 5]),
    (Op::Submit, [50, 50, 40, 50, 120]),
    (Op::Flush, [30, 25, 25, 30, 25]),
    (Op::FlushWithAppend, [8, 20, 5, 5, 10]),
    (Op::Commit, [40, 40, 35, 40, 50]),
    (Op::Settle, [25, 15, 25, 30, 10]),
    (Op::Seal, [15, 10, 25, 10, 2]),
    (Op::Checkpoint, [10, 8, 40, 8, 2]),
    (Op::RunJob, [20, 15, 40, 15, 4]),
    (Op::Retire, [12, 6, 40, 6, 0]),
    (Op::PassMillis, [40, 20, 15, 40, 5]),
    (Op::PassSeconds, [25, 10, 15, 40, 2]),
    (Op::PassLong, [3, 1, 14, 2, 0]),
    (Op::JustBefore, [15, 5, 5, 10, 0]),
    (Op::Restart, [2, 4, 4, 6, 4]),
    (Op::Kill, [2, 5, 2, 4, 8]),
    (Op::PowerCut, [3, 20, 4, 5, 30]),
    (Op::Depose, [4, 6, 4, 8, 2]),
    (Op::Overwrite, [0, 1, 0, 0, 15]),
    (Op::FailWrite, [1, 4, 1, 1, 1]),
    (Op::FailSync, [1, 8, 1, 1, 2]),
    (Op::FailRead, [1, 1, 2, 1, 0]),
    (Op::NoSpace, [3, 5, 4, 3, 2]),
    (Op::FillDisk, [0, 0, 1, 0, 0]),
    (Op::DamageCheckpoint, [1, 2, 2, 1, 0]),
    (Op::DamageIndex, [1, 2, 2, 1, 0]),
    (Op::FlipBit, [2, 4, 2, 1, 2]),
];

impl World {
    pub fn choose(&mut self) -> Op {
        let column = Profile::ALL.iter().position(|profile| *profile == self.profile).unwrap_or(0);
        let total = WEIGHTS.iter().map(|(_, weights)| weights[column]).sum();
        let mut at = self.rng.below(total);
        for (op, weights) in WEIGHTS {
            if at < weights[column] {
                return *op;
            }
            at -= weights[column];
        }
        Op::Settle
    }

    /// One operation.
    pub fn step(&mut self) -> Checked {
        if self.cluster.is_some() {
            return self.step_cluster();
        }
        let op = self.choose();
        self.perform(op)?;
        self.after_op()
    }

    /// What the engine waits for is read; and a frame when enough has come together.
    pub fn after_op(&mut self) -> Checked {
        self.read_for_engine()?;
        self.encode_checkpoint();
        if self.engine().batch_bytes() as u64 > self.options.segment_bytes / 8 {
            self.submit()?;
        }
        Ok(())
    }

    pub fn perform(&mut self, op: Op) -> Checked {
        match op {
            Op::PutTopic => self.put_some_topic(),
            Op::DeleteTopic => self.delete_some_topic(),
            Op::PutGroup => self.put_some_group(),
            Op::DeleteGroup => self.delete_some_group(),
            Op::Send | Op::SendBatch | Op::SendDelayed | Op::SendHalf | Op::SendDedup => self.send_some(op),
            Op::EndTransaction => self.end_some_transaction(),
            Op::Recall => self.recall_some(),
            Op::Pop => self.pop_some(),
            Op::Ack | Op::AckBatch | Op::Nack | Op::ChangeInvisible | Op::Renew | Op::Forward => {
                self.answer_some(op)
            }
            Op::SendBack => self.send_some_back(),
            Op::CommitOffset => self.commit_some_offset(),
            Op::Reset => self.reset_some(),
            Op::Tick => self.tick(),
            Op::Submit => self.submit(),
            Op::Flush => self.flush(),
            Op::FlushWithAppend => self.flush_with_append(),
            Op::Commit => self.commit(),
            Op::Settle => self.settle(),
            Op::Seal => self.seal(),
            Op::Checkpoint => self.checkpoint(),
            Op::RunJob => self.run_some_job(),
            Op::Retire => self.retire(),
            Op::PassMillis | Op::PassSeconds | Op::PassLong | Op::JustBefore => self.pass_some(op),
            Op::Restart => {
                self.settle()?;
                self.restart(Ending::Clean)
            }
            Op::Kill => self.restart(Ending::Kill),
            Op::PowerCut => self.restart(Ending::PowerCut),
            Op::Depose => self.depose(),
            Op::Overwrite => self.overwrite(),
            fault => self.inject(fault),
        }
    }

    fn overwrite(&mut self) -> Checked {
        self.settle()?;
        for _ in 0..self.rng.between(2, 5) {
            self.send_some(Op::Send)?;
            self.submit()?;
        }
        self.restart(Ending::PowerCut)?;
        self.send_some(Op::Send)?;
        self.settle()?;
        self.restart(Ending::Kill)
    }

    fn pass_some(&mut self, op: Op) -> Checked {
        // Hours do not pass between a write and its flush.
        if op == Op::PassLong {
            self.settle()?;
        }
        let ms = match op {
            Op::PassMillis => self.rng.between(1, 200),
            Op::PassSeconds => self.rng.between(1, 30) * 1000 + self.rng.below(1000),
            Op::PassLong => self.rng.between(1, 90) * 60_000,
            _ => match self.engine().next_deadline() {
                Some(at) if at > self.now => {
                    // Just too early for what is due next.
                    let left = at.since(self.now).as_millis() as u64;
                    left.saturating_sub(self.rng.between(1, 400))
                }
                _ => 0,
            },
        };
        self.pass(Duration::from_millis(ms));
        if op == Op::JustBefore { self.tick() } else { Ok(()) }
    }

    pub fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
        self.say(format!("it is {}", self.now));
    }

    pub fn tick(&mut self) -> Checked {
        let now = self.now;
        let checks = self.engine().tick(now);
        if !checks.is_empty() {
            self.say(format!(
                "tick: asked about {:?}",
                checks.iter().map(|check| check.id).collect::<Vec<_>>()
            ));
        }
        self.read_for_engine()
    }
}
