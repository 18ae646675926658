//! One member of a group, as a state machine around `raft`.
//!
//! Ticks, messages, proposals and flushes go in. Messages to send and the index up to which frames are committed come out.
//! The order of what is made durable is kept here: term and vote before anything that depends on them, frames before they
//! are acknowledged. A leader sends frames while its own flush runs; only what is flushed counts.
//!
//! After a [`Failure`] the replica must be dropped and opened again from what its disk holds.

mod ready;
mod rules;

use std::{collections::VecDeque, io, sync::Arc};

use bytes::Bytes;
use raft::{
    INVALID_ID, RaftState, RawNode, StateRole,
    eraftpb::{ConfState, Entry, EntryType, Message, MessageType, SnapshotMetadata},
};
use redstart_log::{Appended, Error as LogError, Flusher, Index, Log, ReadError, SegmentId, Storage};

use crate::{
    catch_up::CatchUp,
    config::{Config, Moment},
    frame_store::FrameStore,
    lease::Lease,
    membership::{Change, Member, Membership, enter_joint},
    message::Malformed,
    planted::{self, planted},
    vote_file::{Vote, VoteFile},
};
use ready::Unpersisted;

/// `raft` must not start elections by its own clock, whose times come from a generator that cannot be seeded.
const NEVER: usize = 1 << 40;

/// Why a replica can no longer be used.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the vote file: {0}")]
    Vote(#[from] io::Error),
    #[error("the data belongs to {found:?} and not to {expected:?}")]
    OtherMember { found: Member, expected: Member },
    #[error("frame {commit} was committed, and the log ends at frame {last}")]
    FramesLost { commit: u64, last: u64 },
    #[error("raft: {0}")]
    Raft(#[from] raft::Error),
    /// Not a failure of anything: the member was sent what it needs to catch up, and the next start takes it.
    #[error("this member was too far behind, and starts again from what its leader sent")]
    StartAgain,
}

/// Why a request was not taken. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("this node does not lead")]
    NotLeading,
    #[error("another change of the members is not complete")]
    ChangeUnderWay,
    #[error("{0:?} cannot lead: it is not a voter, or leads already")]
    NotAVoter(Member),
    #[error("a message {0}")]
    Message(&'static str),
}

/// What a member is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Follower,
    Candidate,
    Leader,
}

/// One member of a group.
pub struct Replica {
    raw: RawNode<FrameStore>,
    config: Config,
    file: VoteFile,
    flusher: Arc<dyn Flusher>,
    /// What `raft` has given out and is not durable yet, oldest first.
    unpersisted: VecDeque<Unpersisted>,
    outbox: Vec<Message>,
    /// Bytes of frames that were committed since the vote file was written.
    bytes_since_save: u64,
    /// What this member was sent to catch up, until its checkpoint can be used.
    awaited: Option<CatchUp>,
    storage: Arc<dyn Storage>,
    lease: Lease,
    now: Moment,
    next_tick: Moment,
    ticks: u64,
    heartbeat_ticks: usize,
    /// Ticks without a leader after which this member campaigns.
    patience: usize,
    /// Term and role that the patience was drawn for.
    patience_for: (u64, StateRole),
    random: u64,
}

impl std::fmt::Debug for Replica {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replica")
            .field("member", &self.config.member)
            .field("role", &self.role())
            .field("term", &self.term())
            .field("committed", &self.committed())
            .field("appended", &self.appended())
            .finish_non_exhaustive()
    }
}

impl Replica {
    /// Opens a member on its log. `founders` are the voters with which the group began, the same for every member and every
    /// start. A log with frames and without a vote file is that of a node that was alone: all of it is committed.
    pub fn open(
        storage: Arc<dyn Storage>,
        log: Box<dyn Log>,
        founders: &[Member],
        config: Config,
        now: Moment,
    ) -> Result<Self, Failure> {
        let vote = match VoteFile::read(storage.as_ref())? {
            Some(vote) => vote,
            None => founding(founders, log.as_ref(), &config),
        };
        let found = Member::of(vote.member);
        if found != config.member {
            return Err(Failure::OtherMember { found, expected: config.member });
        }
        let last = log.appended().0;
        if vote.commit > last {
            return Err(Failure::FramesLost { commit: vote.commit, last });
        }
        let state = RaftState {
            hard_state: vote.hard_state(),
            conf_state: planted::members_at_start(&config, &vote),
        };
        let flusher = log.flusher();
        let store =
            FrameStore::open(log, state, vote.memberships.clone(), vote.commit, config.memory_bytes_max)?;
        let raw = RawNode::new(
            &raft_config(&config, vote.commit),
            store,
            &slog::Logger::root(slog::Discard, slog::o!()),
        )?;
        let mut replica = Self {
            awaited: CatchUp::begun(storage.as_ref())?,
            file: VoteFile::new(Arc::clone(&storage), vote),
            storage,
            flusher,
            unpersisted: VecDeque::new(),
            outbox: Vec::new(),
            bytes_since_save: 0,
            lease: Lease::default(),
            now,
            next_tick: now.after(config.timing.tick),
            ticks: 0,
            heartbeat_ticks: 0,
            patience: 0,
            patience_for: (0, StateRole::Follower),
            random: config.seed,
            config,
            raw,
        };
        replica.draw_patience();
        replica.drive()?;
        Ok(replica)
    }

    /// Time has passed. To be called at least once a tick.
    pub fn tick(&mut self, now: Moment) -> Result<(), Failure> {
        self.now = self.now.max(now);
        let mut left = self.config.timing.heartbeat_ticks;
        while self.next_tick <= self.now {
            self.next_tick = self.next_tick.after(self.config.timing.tick);
            // After a long pause not all ticks are made up for: what came meanwhile is to be read first.
            if left > 0 {
                left -= 1;
                self.one_tick()?;
            }
        }
        self.drive()
    }

    /// A message of another member has arrived. It may be late, come twice, or be of anyone who is or was a member.
    pub fn receive(&mut self, now: Moment, message: Message) -> Result<Result<(), Refusal>, Failure> {
        self.now = self.now.max(now);
        if let Err(what) = self.check(&message) {
            return Ok(Err(Refusal::Message(what)));
        }
        if self.is_ignored(&message) {
            return Ok(Ok(()));
        }
        if message.msg_type == MessageType::MsgSnapshot && self.lacks(&message.snapshot.metadata) {
            return self.start_again_from(&message);
        }
        self.report_beginning(&message);
        match self.raw.step(message) {
            Ok(()) | Err(raft::Error::StepPeerNotFound | raft::Error::ProposalDropped) => {}
            Err(error) => return Err(error.into()),
        }
        self.drive()?;
        Ok(Ok(()))
    }

    /// Whether frames before a snapshot are not all here.
    fn lacks(&self, snapshot: &SnapshotMetadata) -> bool {
        let log = &self.raw.raft.raft_log;
        snapshot.index >= log.committed && !log.match_term(snapshot.index, snapshot.term)
    }

    /// Stores what the leader sent instead of frames that it no longer has.
    fn start_again_from(&mut self, message: &Message) -> Result<Result<(), Refusal>, Failure> {
        let raft = &self.raw.raft;
        let vote = if message.term > raft.term { INVALID_ID } else { raft.vote };
        match CatchUp::of(&message.snapshot, raft.id, message.term, vote) {
            Ok(catch_up) => catch_up.store(self.storage.as_ref())?,
            Err(Malformed(what)) => return Ok(Err(Refusal::Message(what))),
        }
        Err(Failure::StartAgain)
    }

    /// A leader sends no frames until it knows that its checkpoint has arrived; so it is told with each heartbeat.
    fn report_beginning(&mut self, message: &Message) {
        let raft = &self.raw.raft;
        if self.awaited.is_some()
            && message.msg_type == MessageType::MsgHeartbeat
            && message.term == raft.term
        {
            self.outbox.push(Message {
                msg_type: MessageType::MsgAppendResponse,
                to: message.from,
                from: raft.id,
                term: raft.term,
                index: self.raw.store().committed,
                commit: self.raw.store().committed,
                ..Message::default()
            });
        }
    }

    /// Whether no engine can be opened yet: frames are missing to use the checkpoint that this member was sent.
    pub fn is_catching_up(&self) -> bool {
        self.awaited.is_some()
    }

    /// Proposes a frame: writes it and hands it to the other members. When the log refuses, nothing has changed.
    pub(crate) fn append(&mut self, timestamp_ms: u64, payload: &[u8]) -> Result<Appended, LogError> {
        if self.leads().is_none() || self.raw.raft.lead_transferee.is_some() {
            return Err(LogError::NotLeading);
        }
        let term = self.term();
        let data = Bytes::copy_from_slice(payload);
        // Written first: a proposal cannot be taken back, and a frame can be refused.
        let (appended, entry) =
            self.raw.mut_store().append(term, timestamp_ms, EntryType::EntryNormal, data)?;
        self.propose(entry).and_then(|()| self.drive()).map_err(poisoned)?;
        Ok(appended)
    }

    fn propose(&mut self, entry: Entry) -> Result<(), Failure> {
        let message = Message {
            msg_type: MessageType::MsgPropose,
            from: self.raw.raft.id,
            entries: vec![entry],
            ..Message::default()
        };
        Ok(self.raw.raft.step(message)?)
    }

    /// A flush has ended.
    pub fn flushed(&mut self) -> Result<(), Failure> {
        self.persist();
        self.drive()
    }

    /// Changes the members, as one step.
    pub fn change_members(&mut self, changes: &[Change]) -> Result<Result<(), Refusal>, Failure> {
        if self.leads().is_none() || self.raw.raft.lead_transferee.is_some() {
            return Ok(Err(Refusal::NotLeading));
        }
        if self.raw.raft.has_pending_conf() || self.membership().is_joint() {
            return Ok(Err(Refusal::ChangeUnderWay));
        }
        self.raw.propose_conf_change(Vec::new(), enter_joint(changes))?;
        self.drive()?;
        Ok(Ok(()))
    }

    /// Hands leadership to another voter, once it holds all frames. Until the hand-over is complete, or has failed and this
    /// member has stepped down, nothing is appended.
    pub fn transfer_to(&mut self, target: Member) -> Result<Result<(), Refusal>, Failure> {
        if self.role() != Role::Leader {
            return Ok(Err(Refusal::NotLeading));
        }
        if target == self.config.member || !self.membership().voters.contains(&target) {
            return Ok(Err(Refusal::NotAVoter(target)));
        }
        if !planted!(self.config, KeepLeaseInTransfer) {
            self.lease.give_up(self.term());
        }
        self.raw.transfer_leader(target.id());
        self.drive()?;
        Ok(Ok(()))
    }

    /// Whether leadership is being handed to another voter, so that nothing is appended.
    pub fn is_handing_over(&self) -> bool {
        self.raw.raft.lead_transferee.is_some()
    }

    /// The connection to a member was lost: messages on their way to it are gone, and if it leads, the wait for it is cut
    /// short as far as its lease allows.
    pub fn link_down(&mut self, member: Member) -> Result<(), Failure> {
        self.raw.report_unreachable(member.id());
        if self.raw.raft.leader_id == member.id() && self.role() == Role::Follower {
            let spread = self.config.timing.election_spread_ticks / 4;
            self.patience = self.config.timing.election_ticks + self.draw(spread.max(1)) as usize;
        }
        self.drive()
    }

    /// What is to be sent. Order matters only for speed.
    pub fn take_messages(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.outbox)
    }

    /// Whether something waits for a flush.
    pub fn wants_flush(&self) -> bool {
        self.appended() > self.durable()
    }

    pub fn member(&self) -> Member {
        self.config.member
    }

    pub fn role(&self) -> Role {
        match self.raw.raft.state {
            StateRole::Follower => Role::Follower,
            StateRole::PreCandidate | StateRole::Candidate => Role::Candidate,
            StateRole::Leader => Role::Leader,
        }
    }

    pub fn term(&self) -> u64 {
        self.raw.raft.term
    }

    /// The member that leads, as far as this one knows.
    pub fn leader(&self) -> Option<Member> {
        Some(self.raw.raft.leader_id).filter(|id| *id != INVALID_ID).map(Member::of)
    }

    pub fn membership(&self) -> Membership {
        Membership::of(&self.raw.raft.prs().conf().to_conf_state())
    }

    /// How far a member has acknowledged frames, as its leader knows.
    pub fn acknowledged(&self, member: Member) -> Option<Index> {
        let progress = self.raw.raft.prs().get(member.id()).filter(|_| self.role() == Role::Leader);
        progress.map(|progress| Index(progress.matched))
    }

    /// The last frame that is committed and durable here.
    pub fn committed(&self) -> Index {
        Index(planted::committed(
            &self.config,
            self.raw.store().committed,
            self.role() == Role::Leader,
            self.log(),
        ))
    }

    pub fn appended(&self) -> Index {
        self.raw.store().log.appended()
    }

    /// The last frame that a power cut of this node would leave.
    pub fn durable(&self) -> Index {
        self.raw.store().log.committed()
    }

    /// The term in which this member leads and has committed a frame, so that it knows all that was committed before.
    pub fn leads(&self) -> Option<u64> {
        let leads = self.role() == Role::Leader
            && (self.raw.raft.commit_to_current_term() || planted!(self.config, ServeBeforeStart));
        leads.then(|| self.term())
    }

    /// Whether this member leads, and no other can.
    pub fn may_serve(&self, now: Moment) -> bool {
        let lease = self.lease.holds(self.term(), now.max(self.now));
        let early = planted!(self.config, ServeBeforeStart) && !self.raw.raft.commit_to_current_term();
        self.leads().is_some() && (lease || early || planted!(self.config, ServeWithoutLease))
    }

    pub(crate) fn log(&self) -> &dyn Log {
        self.raw.store().log.as_ref()
    }

    pub(crate) fn log_mut(&mut self) -> &mut dyn Log {
        self.raw.mut_store().log.as_mut()
    }

    /// Ends the active segment. Other members do so when the next frame comes.
    pub(crate) fn roll(&mut self) -> Result<(), LogError> {
        if self.leads().is_none() {
            return Err(LogError::NotLeading);
        }
        self.log_mut().roll()
    }

    pub(crate) fn remove_oldest(&mut self, segment: SegmentId) -> Result<(), LogError> {
        // A start must find the members as of a frame that is still there, and must not come back to a frame before the record
        // that has retired the segment: the state as of then cannot be had from what is left.
        if !planted!(self.config, ForgetFloor) {
            self.save().map_err(poisoned)?;
        }
        self.raw.mut_store().remove_oldest(segment)
    }
}

/// What a log's user sees of a failure.
pub(crate) fn poisoned(failure: Failure) -> LogError {
    match failure {
        Failure::Log(error) => error,
        other => LogError::Poisoned { cause: other.to_string() },
    }
}

/// What a member remembers that has no vote file.
fn founding(founders: &[Member], log: &dyn Log, config: &Config) -> Vote {
    let voters = founders.iter().map(|member| member.id()).collect();
    let commit = log.appended().0;
    let term = u64::from(commit > 0);
    let members = ConfState { voters, ..ConfState::default() };
    Vote { member: config.member.id(), term, vote: 0, commit, memberships: vec![(commit, members)] }
}

fn raft_config(config: &Config, applied: u64) -> raft::Config {
    let timing = &config.timing;
    raft::Config {
        id: config.member.id(),
        election_tick: timing.election_ticks,
        // Heartbeats are sent by [`Replica::one_tick`].
        heartbeat_tick: timing.election_ticks - 1,
        min_election_tick: NEVER,
        max_election_tick: NEVER + 1,
        applied,
        max_size_per_msg: config.message_bytes_max,
        max_inflight_msgs: config.messages_in_flight_max,
        check_quorum: true,
        pre_vote: true,
        ..raft::Config::default()
    }
}
