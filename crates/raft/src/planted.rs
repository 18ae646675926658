//! Known bugs that a simulation switches on, to prove that it would find them.
//!
//! The replica asks at the points where a bug can act. Without the `sim` feature every answer is that of a correct replica.

use raft::eraftpb::ConfState;
use redstart_log::{FRAME_HEADER_BYTES, Log};

use crate::{config::Config, message::Place, vote_file::Vote};

/// One planted bug.
#[cfg(feature = "sim")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Frames count as durable when they are appended.
    AckBeforeFlush,
    /// The vote file is not written.
    SkipVoteFile,
    /// The vote file is renamed into place without a sync.
    SkipVoteSync,
    /// A follower takes everything that it holds for committed.
    ApplyUncommitted,
    /// A leader needs no lease to serve.
    ServeWithoutLease,
    /// The lease counts from when the answers came, not from when the heartbeats were sent.
    LeaseFromAnswer,
    /// A member that was just started grants votes at once.
    VoteAtStart,
    /// A leader that hands over keeps its lease.
    KeepLeaseInTransfer,
    /// A tail that conflicts with the leader's is not cut.
    KeepConflictingTail,
    /// A leader serves before a frame of its own term is committed.
    ServeBeforeStart,
    /// A start takes up the members with which the group began.
    ForgetMembers,
    /// A joint membership is never left.
    StayJoint,
    /// Frames are written where this member would have put them.
    OwnPlaces,
    /// What a leader has flushed itself is committed.
    CommitAlone,
    /// Segments are removed although the vote file knows of nothing that was committed behind them.
    ForgetFloor,
}

#[cfg(feature = "sim")]
impl Planted {
    /// Every bug that can be planted.
    pub const ALL: [Self; 15] = [
        Self::AckBeforeFlush,
        Self::SkipVoteFile,
        Self::SkipVoteSync,
        Self::ApplyUncommitted,
        Self::ServeWithoutLease,
        Self::LeaseFromAnswer,
        Self::VoteAtStart,
        Self::KeepLeaseInTransfer,
        Self::KeepConflictingTail,
        Self::ServeBeforeStart,
        Self::ForgetMembers,
        Self::StayJoint,
        Self::OwnPlaces,
        Self::CommitAlone,
        Self::ForgetFloor,
    ];
}

/// Answers "is this bug planted?"; a constant `false` in a build without the `sim` feature.
macro_rules! planted {
    ($config:expr, $bug:ident) => {{
        #[cfg(feature = "sim")]
        let planted = $config.planted == Some(crate::planted::Planted::$bug);
        #[cfg(not(feature = "sim"))]
        let planted = {
            let _ = &$config;
            false
        };
        planted
    }};
}
pub(crate) use planted;

/// How far frames count as durable.
pub(crate) fn durable(config: &Config, durable: u64, log: &dyn Log) -> u64 {
    if planted!(config, AckBeforeFlush) { log.appended().0 } else { durable }
}

/// How far frames count as committed on a member.
pub(crate) fn committed(config: &Config, committed: u64, leads: bool, log: &dyn Log) -> u64 {
    if planted!(config, ApplyUncommitted) && !leads {
        return log.appended().0;
    }
    if planted!(config, CommitAlone) && leads { log.committed().0 } else { committed }
}

/// The members that a start takes up.
pub(crate) fn members_at_start(config: &Config, vote: &Vote) -> ConfState {
    match vote.memberships.first() {
        Some((_, first)) if planted!(config, ForgetMembers) => first.clone(),
        _ => vote.membership(),
    }
}

/// Where a frame of the leader's is written.
pub(crate) fn place(config: &Config, place: Place, log: &dyn Log) -> Place {
    if !planted!(config, OwnPlaces) {
        return place;
    }
    let end = log.segments().last().map_or(0, |active| active.end.0);
    Place { position: end + FRAME_HEADER_BYTES, ..place }
}
