//! When a member campaigns and steps down, and which messages it takes.

use raft::eraftpb::{ConfChangeV2, Message, MessageType};

use super::{Failure, Replica, Role};
use crate::planted::planted;

/// What a campaign on the leader's order carries: its requests are granted in spite of the leader's lease.
const TRANSFER: &[u8] = b"CampaignTransfer";

impl Replica {
    pub(super) fn one_tick(&mut self) -> Result<(), Failure> {
        self.ticks += 1;
        self.raw.tick();
        if self.role() == Role::Leader {
            self.tick_as_leader()?;
        } else {
            self.tick_without_leading()?;
        }
        self.drive()
    }

    fn tick_as_leader(&mut self) -> Result<(), Failure> {
        let raft = &mut self.raw.raft;
        let (term, transfers) = (raft.term, raft.lead_transferee.is_some());
        let longest = self.config.timing.election();
        let stalled = self.waits_for_disk_since().is_some_and(|since| since.after(longest) < self.now);
        // After a hand-over that failed there is no lease in this term.
        if stalled || !transfers && self.lease.is_given_up(term) {
            self.raw.raft.become_follower(term, raft::INVALID_ID);
            return Ok(());
        }
        self.heartbeat_ticks += 1;
        if self.heartbeat_ticks >= self.config.timing.heartbeat_ticks {
            self.heartbeat_ticks = 0;
            self.send_heartbeats();
        }
        if self.ticks.is_multiple_of(self.config.timing.checkpoint_ticks) {
            self.send_checkpoints_again();
        }
        let raft = &self.raw.raft;
        if !raft.prs().conf().to_conf_state().voters_outgoing.is_empty()
            && !raft.has_pending_conf()
            && raft.lead_transferee.is_none()
            && !planted!(self.config, StayJoint)
        {
            self.raw.propose_conf_change(Vec::new(), ConfChangeV2::default())?;
        }
        Ok(())
    }

    /// A checkpoint may have been lost on its way.
    fn send_checkpoints_again(&mut self) {
        let progress = self.raw.raft.prs().iter();
        let awaiting = progress.filter(|(_, progress)| progress.state == raft::ProgressState::Snapshot);
        let members: Vec<u64> = awaiting.map(|(id, _)| *id).collect();
        for member in members {
            self.raw.report_snapshot(member, raft::SnapshotStatus::Failure);
        }
    }

    fn tick_without_leading(&mut self) -> Result<(), Failure> {
        let raft = &mut self.raw.raft;
        // A vote is asked for with a log that is durable.
        if raft.promotable() && raft.election_elapsed >= self.patience && !self.has_undurable_frames() {
            self.raw.raft.election_elapsed = 0;
            self.draw_patience();
            self.raw.campaign()?;
        }
        Ok(())
    }

    /// Draws how long this member waits, whenever its term or its role is another.
    pub(super) fn draw_patience_for_role(&mut self) {
        let raft = &self.raw.raft;
        if self.patience_for != (raft.term, raft.state) {
            self.draw_patience();
        }
    }

    pub(super) fn draw_patience(&mut self) {
        self.patience_for = (self.raw.raft.term, self.raw.raft.state);
        let spread = self.config.timing.election_spread_ticks;
        self.patience = self.config.timing.election_ticks + self.draw(spread) as usize;
    }

    /// A number below `end`, from the seed (splitmix64).
    pub(super) fn draw(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end.max(1)
    }

    /// What `raft` takes for granted about a message, and would stop the process over.
    pub(super) fn check(&self, message: &Message) -> Result<(), &'static str> {
        use MessageType::*;
        if message.to != self.raw.raft.id || message.from == self.raw.raft.id || message.from == 0 {
            return Err("is not for this member, or claims to be of it");
        }
        match message.msg_type {
            MsgAppend
            | MsgAppendResponse
            | MsgRequestVote
            | MsgRequestVoteResponse
            | MsgRequestPreVote
            | MsgRequestPreVoteResponse
            | MsgHeartbeat
            | MsgHeartbeatResponse
            | MsgSnapshot
            | MsgTimeoutNow => {}
            _ => return Err("is of a kind that members do not send each other"),
        }
        if message.term == 0 {
            return Err("has no term");
        }
        if message.msg_type == MsgHeartbeat && message.commit > self.appended().0 {
            return Err(
                "says that frames are committed which this member does not have: has it lost its data?",
            );
        }
        let mut before = (message.log_term, message.index);
        for entry in &message.entries {
            if entry.index != before.1 + 1 || entry.term < before.0 || entry.term > message.term {
                return Err("has frames that do not follow each other");
            }
            before = (entry.term, entry.index);
        }
        Ok(())
    }

    /// Whether a message is as good as lost.
    pub(super) fn is_ignored(&self, message: &Message) -> bool {
        // Before it was started this member may have heard of a leader, and so have promised it not to vote for a while.
        let just_started = self.ticks < self.config.timing.election_ticks as u64
            && !planted!(self.config, VoteAtStart)
            && matches!(message.msg_type, MessageType::MsgRequestVote | MessageType::MsgRequestPreVote)
            && message.context != TRANSFER;
        // A leader of before.
        let stale = message.msg_type == MessageType::MsgSnapshot && message.term < self.term();
        // `raft` campaigns at once, and a vote is asked for with a log that is durable.
        let not_durable = message.msg_type == MessageType::MsgTimeoutNow && self.has_undurable_frames();
        just_started || stale || not_durable
    }
}
