//! Who takes part in a group, and how that changes.

use bytes::Bytes;
use raft::eraftpb::{ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, ConfState};

/// One replica of a group: a node, and the number of the data directory that it has. A node that lost its directory comes
/// back with another number, because what the old one had voted and acknowledged is gone with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Member {
    pub node: u32,
    pub incarnation: u32,
}

impl Member {
    pub(crate) fn id(self) -> u64 {
        u64::from(self.node) << 32 | u64::from(self.incarnation)
    }

    pub(crate) fn of(id: u64) -> Self {
        Self { node: (id >> 32) as u32, incarnation: id as u32 }
    }
}

/// Who takes part. While `outgoing` is not empty, every decision needs a majority of it too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    pub voters: Vec<Member>,
    pub learners: Vec<Member>,
    pub outgoing: Vec<Member>,
}

impl Membership {
    pub fn is_joint(&self) -> bool {
        !self.outgoing.is_empty()
    }

    pub(crate) fn of(state: &ConfState) -> Self {
        let members = |ids: &[u64]| {
            let mut members: Vec<Member> = ids.iter().copied().map(Member::of).collect();
            members.sort_unstable();
            members
        };
        Self {
            voters: members(&state.voters),
            learners: members(&state.learners),
            outgoing: members(&state.voters_outgoing),
        }
    }
}

/// A change of one member. Several of them take effect together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It gets all frames and counts for nothing.
    AddLearner(Member),
    /// Also what makes a voter of a learner.
    AddVoter(Member),
    Remove(Member),
}

impl Change {
    fn single(self) -> ConfChangeSingle {
        let (change_type, member) = match self {
            Self::AddLearner(member) => (ConfChangeType::AddLearnerNode, member),
            Self::AddVoter(member) => (ConfChangeType::AddNode, member),
            Self::Remove(member) => (ConfChangeType::RemoveNode, member),
        };
        ConfChangeSingle { change_type, node_id: member.id() }
    }
}

/// The changes as one step into a joint membership, which the leader leaves by a second one.
pub(crate) fn enter_joint(changes: &[Change]) -> ConfChangeV2 {
    ConfChangeV2 {
        transition: ConfChangeTransition::Explicit,
        changes: changes.iter().map(|change| change.single()).collect(),
        ..ConfChangeV2::default()
    }
}

/// Length, checksum and kind of the only record of a frame that changes the members. The engine skips records of this kind.
const HEADER_BYTES: usize = 9;
const KIND: u8 = 63;

/// The payload of a frame that changes the members.
pub(crate) fn payload(change: &[u8]) -> Bytes {
    let mut payload = Vec::with_capacity(HEADER_BYTES + change.len());
    payload.extend_from_slice(&((HEADER_BYTES + change.len()) as u32).to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&[KIND]), change);
    payload.extend_from_slice(&crc.to_le_bytes());
    payload.push(KIND);
    payload.extend_from_slice(change);
    payload.into()
}

/// The change that a payload holds, if it is that of a frame which changes the members.
pub(crate) fn change_of(payload: &Bytes) -> Option<Bytes> {
    let length = u32::from_le_bytes(*payload.first_chunk()?) as usize;
    let is_change = length == payload.len() && payload.get(HEADER_BYTES - 1) == Some(&KIND);
    is_change.then(|| payload.slice(HEADER_BYTES..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_has_one_number() {
        let member = Member { node: 7, incarnation: u32::MAX };
        assert_eq!(Member::of(member.id()), member);
        assert_ne!(member.id(), Member { node: 7, incarnation: 1 }.id());
    }

    #[test]
    fn a_change_is_told_from_other_payloads() {
        for change in [&b""[..], b"0", b"some changes"] {
            assert_eq!(change_of(&payload(change)).as_deref(), Some(change));
        }
        let mut other = payload(b"change").to_vec();
        other[8] = 1;
        for bytes in [&b""[..], b"12345678", b"\x09\0\0\0xxxx\x3e", &other] {
            assert_eq!(change_of(&Bytes::copy_from_slice(bytes)), None);
        }
    }
}
